import codecs
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from time import process_time

import pytest

from simhbase.errors import BadInput, UsageError
from simhbase.text.encoding import decode
from simhbase.text.html import extract_html, links, stated_encoding
from simhbase.text.normalise import normalise
from tests.hostile import REPEATED, page_of

PAGES = Path(__file__).parents[1] / "pages"
EXPECTED = json.loads((PAGES / "expected.json").read_text(encoding="utf-8"))


def page(name: str) -> str:
    return (PAGES / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("", ""),
        (" \t\n\u3000\xa0\u2003\x85", ""),
        ("ＡＢＣ１２３，．！", "abc123,.!"),
        ("５月１１日电（记者）", "5月11日电(记者)"),
        ("等等…气温３５℃", "等等...气温35°c"),
        ("㈱ﾎﾃﾙ", "(株)ホテル"),
        ("cafe\u0301", "café"),
        ("H\u0331ALLO", "ẖallo"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος"),
        ("İ", "i\u0307"),
        ("Straße ﬁn", "straße fin"),
        ("\u1100\u1161\u11a8", "각"),
        ("  a \n\n b\u3000\u3000c\t", "a b c"),
        ("\ud800", "\ud800"),
    ],
)
def test_normal_form_of_known_texts(text: str, normal: str) -> None:
    assert normalise(text) == normal


@pytest.mark.parametrize(
    "encoding", ["utf-8", "UTF8", "utf-8-sig", "utf-16", "gb18030", "gbk", "big5", "auto"]
)
def test_decodes_what_python_encodes(encoding: str) -> None:
    data = "中文 text".encode("utf-8" if encoding == "auto" else encoding)
    assert decode(data, encoding) == "中文 text"


@pytest.mark.parametrize("encoding", ["utf-8", "auto", "utf-8-sig"])
def test_drops_the_byte_order_mark(encoding: str) -> None:
    assert decode(codecs.BOM_UTF8 + b"text", encoding) == "text"


def test_default_encoding_is_utf8() -> None:
    assert decode("中文".encode()) == "中文"


def test_names_the_offset_of_the_wrong_byte() -> None:
    with pytest.raises(BadInput, match=r"not utf-8: invalid start byte at byte 4 \(0xff\)"):
        decode(b"text\xff", "utf-8")


def test_counts_the_byte_order_mark_in_the_offset() -> None:
    with pytest.raises(BadInput, match=r"at byte 5 \(0xff\)"):
        decode(codecs.BOM_UTF8 + b"ab\xff")


@pytest.mark.parametrize("encoding", ["klingon", "base64", ""])
def test_refuses_an_encoding_that_is_none(encoding: str) -> None:
    with pytest.raises(UsageError, match="no text encoding"):
        decode(b"text", encoding)


def test_refuses_an_unknown_encoding_of_nothing() -> None:
    with pytest.raises(UsageError, match="no text encoding 'klingon'"):
        decode(b"", "klingon")


@pytest.mark.parametrize("name", EXPECTED)
def test_main_text_of_a_page_holds_the_article_and_no_boilerplate(name: str) -> None:
    text = extract_html(page(name)).text
    assert [phrase for phrase in EXPECTED[name]["keep"] if phrase not in text] == []
    assert [phrase for phrase in EXPECTED[name]["drop"] if phrase in text] == []


@pytest.mark.parametrize("name", EXPECTED)
def test_a_page_in_bytes_reads_as_the_same_page_in_text(name: str) -> None:
    assert extract_html(page(name).encode()).text == extract_html(page(name)).text


@pytest.mark.parametrize("declared", ["gbk", "gb2312", "GB18030", "x-gbk"])
def test_reads_bytes_as_the_page_declares_them(declared: str) -> None:
    html = (
        f'<meta http-equiv=Content-Type content="text/html; charset={declared}"><p>朱镕基说：㐀、😀、中文</p>'
    )
    assert extract_html(html.encode("gb18030")).text == "朱镕基说：㐀、😀、中文"


def test_reads_valid_utf8_as_utf8_whatever_the_page_declares() -> None:
    html = '<meta charset="gbk"><p>正文在这里</p>'
    assert (
        extract_html(html.encode()).text == extract_html(codecs.BOM_UTF8 + html.encode()).text == "正文在这里"
    )


def test_guesses_the_encoding_of_a_page_that_declares_none() -> None:
    html = page("chinese_news.html").replace('<meta charset="utf-8">', "")
    assert extract_html(html.encode("gb18030")).text == extract_html(html).text


def test_a_wrong_byte_costs_a_page_one_character() -> None:
    html = '<meta charset="utf-8"><p>正文第一句。'.encode() + b"\xff" + "正文第二句。</p>".encode()
    assert extract_html(html).text == "正文第一句。\ufffd正文第二句。"


def test_keeps_single_characters_between_tags() -> None:
    assert extract_html("<p>不<b>要</b>走</p><p> 好 </p>").text == "不要走 好"


def test_drops_what_is_not_displayed_but_not_what_a_script_will_show() -> None:
    html = '<p style="display:none">藏起来的字</p><div style="visibility: hidden"><p>稍后显示的正文</p></div>'
    assert extract_html(html).text == "稍后显示的正文"


@pytest.mark.parametrize(
    "html", ["", b"", "<html></html>", "<head><title>通知</title></head>", "<script>x</script>"]
)
def test_a_page_without_text_gives_none(html: str | bytes) -> None:
    assert extract_html(html).text == ""


def test_text_without_markup_is_its_own_main_text() -> None:
    assert extract_html("just text & more").text == "just text & more"


def test_a_lone_surrogate_does_no_harm() -> None:
    assert extract_html("<p>before \ud800 after</p>").text == "before ? after"


def test_a_page_nested_without_end_is_read_whole() -> None:
    deep = 100_000  # looking for its main text would take minutes
    assert extract_html("<div>" * deep + "text" + "</div>" * deep).text == "text"


def test_the_extractor_is_loaded_by_pages_only() -> None:
    code = "import sys, simhbase.text.normalise; sys.exit('resiliparse' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("size", [1 << 18, pytest.param(1 << 24, marks=pytest.mark.full)])
@pytest.mark.parametrize("part", REPEATED.values(), ids=REPEATED)
def test_the_main_text_takes_time_linear_in_a_page(part: str, size: int) -> None:
    """A page many times as long takes at most three times as long a character."""

    def seconds(size: int) -> float:
        html, spent = page_of(part, size), []
        for _ in range(1 if size > 1 << 20 else 3):
            start = process_time()
            with suppress(BadInput):
                extract_html(html)
            spent.append(process_time() - start)
        return min(spent)

    short = 1 << 14
    assert seconds(size) < 3 * size / short * max(seconds(short), 0.001)


def test_links_are_those_of_a_browser() -> None:
    page = (
        "<a title='x>y' href=\"a b.jsonl\">a</a> <A\nHREF = b.jsonl?x=1&amp;y=2>b</A> <a href=' c '/href=d>"
        '<abbr href=e> <a data-href=f>f</a> <a name=g> <a class=x href=\'h"\'> <a href="">'
    )
    assert list(links(page)) == ["a b.jsonl", "b.jsonl?x=1&y=2", "c", 'h"', ""]


@pytest.mark.parametrize("part", ["<a ", "<a href", "<a x=", "<a href='", "<a href=x ", "<a  ", '<a "'])
def test_links_take_time_linear_in_a_page(part: str) -> None:
    """The list of a web server's folder may be anything."""

    def seconds(size: int) -> float:
        page, spent = part * (size // len(part)), []
        for _ in range(3):
            start = process_time()
            assert sum(1 for _ in links(page)) <= len(page)
            spent.append(process_time() - start)
        return min(spent)

    assert seconds(1 << 20) < 3 * 16 * max(seconds(1 << 16), 0.001)


def test_the_encoding_that_a_page_states_takes_no_time_to_find() -> None:
    """A page of 8 kB took 6 s."""
    start = process_time()
    assert stated_encoding(b"<meta " * 500 + b"charset=" + b" " * 4_000 + b"!") is None
    assert stated_encoding(b"<meta a=b <meta charset = ' koi8-r'>") == "koi8-r"
    assert process_time() - start < 0.5


@pytest.mark.parametrize("name", ["a", "a<b", "a<3", "a<3<b<4"])
def test_attributes_are_counted_whatever_the_name_of_their_tag(name: str) -> None:
    attributes = " ".join(f"a{number}" for number in range(1_001))
    with pytest.raises(BadInput, match="more than 1,000 attributes"):
        extract_html(f"<p><{name} {attributes}>text")


def test_a_tag_with_thousands_of_attributes_is_refused() -> None:
    """The parser compares each with all others: 16,000 took half a second, and ten times as many a minute."""
    attributes = " ".join(f"data-{number}='>'" for number in range(1000))
    assert extract_html(f"<p {attributes}>some words</p>").text == "some words"
    with pytest.raises(BadInput, match="more than 1,000 attributes"):
        extract_html(f"<p {attributes} more=x>some words</p>")


@pytest.mark.parametrize(
    "attribute", ['a%d=""', " =a%d=1", " a%d=x'y", ' a%d=\u00a0"', "/a%d", "\fa%d\n=\n'>'"]
)
def test_attributes_are_counted_however_they_are_written(attribute: str) -> None:
    attributes = "".join(attribute.replace("%d", f"{number}") for number in range(1_001))
    with pytest.raises(BadInput, match="more than 1,000 attributes"):
        extract_html(f"<p {attributes}>some words</p>")


@pytest.mark.parametrize("tag", ["<html a b=x>", "<BODY/a\nb='>'>", "<!-- <html a='--><body a b>'>"])
def test_attributes_that_a_parser_merges_are_counted_together(tag: str) -> None:
    """The parser compares each with all before it: 120,000 took a minute."""
    assert "some words" in extract_html("<p>some words</p>" + tag * 3_000).text
    with pytest.raises(BadInput, match="<html> and <body> tags of the page have more than 10,000 attributes"):
        extract_html("<p>some words</p>" + tag * 5_001)


@pytest.mark.slow
@pytest.mark.parametrize("option", ["<option>x", "<OPTION value=a>x</OPTION>"])
def test_a_list_of_thousands_of_options_is_refused(option: str) -> None:
    """The parser looks at all for each further one: 64,000, in half a megabyte, took 22 s."""
    page = f"<p>some words</p><select>{option * 10_000}"
    assert "some words" in extract_html(page).text
    with pytest.raises(BadInput, match="more than 10,000 options"):
        extract_html(page + option)


def test_the_title_of_a_page_is_kept_in_one_line():
    page = "<title>\n 一 &amp; two\n</title><p>words</p>"
    assert extract_html(page) == ("words", "一 & two")
    assert extract_html("<title> </title><p>words</p>").title is None
