"""The encoding of a source is found and said, and nothing is guessed for one that has shown UTF-8."""

from __future__ import annotations

import gzip
import re
import tracemalloc
from itertools import chain

import pytest

from simhbase.corpus.formats.encoding_detection import DetectedEncoding
from simhbase.corpus.parser import Parser
from simhbase.corpus.record import InputOptions, Record, Reject
from simhbase.corpus.sources import Sources
from tests.reading import read, write

CHINESE = "美国总统在白宫举行记者会，宣布新的贸易政策，这是他第一次说明政府的计划。"


def found(path):
    options = InputOptions()
    sources = Sources([str(path)], options)
    items = list(chain.from_iterable(map(Parser(options).parse, sources.chunks())))
    return [item.text if isinstance(item, Record) else None for item in items], sources.notes


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "txt"])
@pytest.mark.parametrize("first", ["", "plain ASCII"])
def test_a_source_in_gb18030_is_read_and_said(tmp_path, suffix, first):
    contents = [*filter(None, [first]), *(f"{CHINESE}{number}" for number in range(5))]
    if suffix == "txt":
        contents = ["\n".join(contents)]
        data = contents[0]
    elif suffix == "jsonl":
        data = "".join(f'{{"id": {number}, "text": "{text}"}}\n' for number, text in enumerate(contents))
    else:
        between = "," if suffix == "csv" else "\t"
        data = f"id{between}text\n" + "".join(f"{n}{between}{text}\n" for n, text in enumerate(contents))
    path = write(tmp_path / f"x.{suffix}", data.encode("gb18030"))
    assert found(path) == (contents, [f"{path}: its texts are GB18030, not UTF-8"])


GERMAN = (
    "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft begabt.",
    "Ü",
    "für",
    "über",
    "ÄÖÜ äöüß",
    "Übergrößenträger müssen für größere Koffer überall Zuschläge zahlen",
)
FRENCH = (
    "Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués de raison.",
    "déjà vu à côté",
    "é",
    "À ÉÈÊË",
    "Où êtes-vous né ? À Nîmes près de la forêt",
)
SPANISH = ("Todos los seres humanos nacen libres e iguales en dignidad y derechos", "ñandú", "¿Qué año? ¡Él!")
RUSSIAN = (
    "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом и совестью.",
    "Новая торговая политика президента объявлена сегодня",
    "ПРИВЕТ",
    "да",
)
JAPANESE = (
    "大統領は記者会見を開き、新しい貿易政策を発表した。政府の計画を説明するのは初めてである。",
    "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。",
    "東京都知事選挙",
    "日本国憲法第九条",
    "経済産業省",
    "新型感染症対策本部会議",
)
KOREAN = (
    "미국 대통령은 백악관에서 기자회견을 열고 새로운 무역 정책을 발표했다고 밝혔다.",
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "서울",
    "기자회견",
)
TRADITIONAL = (
    "美國總統在白宮舉行記者會，宣布新的貿易政策。",
    "人人生而自由，在尊嚴和權利上一律平等。他們賦有理性和良心，並應以兄弟關係的精神相對待。",
    "臺灣",
    "總統記者會",
)
GREEK = ("Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα", "ναι")
OTHERS = [
    (GERMAN, "latin-1"),
    (GERMAN, "cp1252"),
    (GERMAN, "mac-roman"),
    (FRENCH, "latin-1"),
    (FRENCH, "cp1252"),
    (SPANISH, "latin-1"),
    (RUSSIAN, "koi8-r"),
    (RUSSIAN, "cp1251"),
    (RUSSIAN, "iso8859-5"),
    (RUSSIAN, "cp866"),
    (JAPANESE, "shift_jis"),
    (JAPANESE, "euc-jp"),
    (KOREAN, "euc-kr"),
    (TRADITIONAL, "big5"),
    (GREEK, "iso8859-7"),
]


@pytest.mark.parametrize(("contents", "encoding"), OTHERS)
@pytest.mark.parametrize("times", [1, 1000])
def test_other_encodings_are_refused_whole_and_with_advice(tmp_path, contents, encoding, times):
    """A source of all the texts, often; or of each of them."""
    sources = [contents * times] if times > 1 else [(text,) for text in contents]
    for each in sources:
        rows = "".join(f"{number},{text}\n" for number, text in enumerate(each))
        path = write(tmp_path / "x.csv", f"id,text\n{rows}".encode(encoding, "ignore"))
        options = InputOptions()
        reading = Sources([str(path)], options)
        for item in chain.from_iterable(map(Parser(options).parse, reading.chunks())):
            assert isinstance(item, Reject) or item.text.isascii()
            assert isinstance(item, Record) or item.reason.startswith(
                "not UTF-8: name its encoding (encoding), "
            )
        assert reading.notes == []


def page_of(text, head=""):
    return f"<html><head>{head}</head><body><article><p>{text}</p></article></body></html>"


@pytest.mark.parametrize(("contents", "encoding"), OTHERS)
def test_pages_that_state_no_encoding_are_refused_unless_it_is_named(tmp_path, contents, encoding):
    for text in contents:
        path = write(tmp_path / "x.html", page_of(text).encode(encoding, "ignore"))
        if path.read_bytes().isascii():
            continue
        (item,) = read(path)
        reason = "the page is not UTF-8 and states no encoding: name its encoding (encoding)"
        assert (item.id, item.reason) == (str(path), reason)
        right = text.encode(encoding, "ignore").decode(encoding)
        assert read(path, encoding=encoding)[0].text.split() == right.split()


@pytest.mark.parametrize(
    "head",
    [
        '<meta charset="{}">',
        "<META http-equiv=Content-Type content='text/html; charset={}'>",
        '<meta name="x" content="y">\n<meta\n charset = {} >',
    ],
)
def test_pages_are_read_as_they_state(tmp_path, head):
    for contents, encoding in (
        (KOREAN, "euc-kr"),
        (JAPANESE, "euc-jp"),
        (RUSSIAN, "koi8-r"),
        (GERMAN, "iso-8859-1"),
    ):
        path = write(tmp_path / "x.html", page_of(contents[0], head.format(encoding)).encode(encoding))
        assert read(path)[0].text == contents[0]
        assert read(path, encoding="big5")[0].text == contents[0]


def test_pages_in_gb18030_that_state_nothing_are_found_and_said(tmp_path):
    path = write(tmp_path / "x.html", page_of(CHINESE).encode("gb18030"))
    assert found(path) == ([CHINESE], [f"{path}: pages that state no encoding are GB18030, not UTF-8"])


@pytest.mark.parametrize(
    ("titles", "is_found"),
    [
        (["两会新闻"], False),
        (["新华社", "中国", "美国总统访问中国", "国务院会议", "经济发展"], True),
        (["北京", "上海"], False),
        (["市民政局公布社会团体年检结果"], True),
        (["喆", "镕", "囍", "婠", "翀"], False),
    ],
)
def test_short_titles_in_gb18030_are_read_if_they_are_enough(tmp_path, titles, is_found):
    path = write(tmp_path / "x.csv", ("id,text\n" + "".join(f"a,{each}\n" for each in titles)).encode("gbk"))
    assert found(path)[0] == (titles if is_found else [None] * len(titles))


def test_each_text_of_a_source_in_gb18030_is_looked_at(tmp_path):
    others = [text.encode(encoding) for texts, encoding in OTHERS for text in texts if not text.isascii()]
    lines = [CHINESE.encode("gb18030"), *(other for other in others if len(other) > 12)]
    path = write(tmp_path / "x.csv", b"id,text\n" + b"\n".join(b"a," + line for line in lines))
    rows = [CHINESE.encode("gb18030")] * 1000 + lines
    path = write(tmp_path / "x.csv", b"id,text\n" + b"\n".join(b"a," + line for line in rows))
    texts, _ = found(path)
    assert texts == [CHINESE] * 1001 + [None] * (len(lines) - 1)


def test_a_text_that_is_also_utf_8_by_chance_is_of_its_source(tmp_path):
    assert "模".encode("gb18030").decode() == "ģ"
    for rows in (["模", CHINESE], [CHINESE, "模"], ["模", *[CHINESE] * 2000, "模"]):
        path = write(
            tmp_path / "x.csv", ("id,text\n" + "".join(f"a,{row}\n" for row in rows)).encode("gb18030")
        )
        assert found(path)[0] == rows


def test_lines_before_damage_are_read_although_more_were_looked_at(tmp_path):
    lines = f"{CHINESE}\n".encode("gb18030") * 3
    path = write(tmp_path / "x.gz", gzip.compress(lines) + gzip.compress(lines)[:-4])
    options = InputOptions(format="lines")
    items = list(chain.from_iterable(map(Parser(options).parse, Sources([str(path)], options).chunks())))
    assert [item.text for item in items[:-1]] == [CHINESE] * 3
    assert (items[-1].line, "damaged" in items[-1].reason or "ends" in items[-1].reason) == (4, True)


@pytest.mark.parametrize("name", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("text", ["plain text", CHINESE, "für und über", "да нет", "😀"])
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "txt", "html"])
def test_wide_texts_without_a_mark_are_refused_with_advice(tmp_path, name, text, suffix):
    forms = {
        "csv": f"id,text\na,{text}\n",
        "jsonl": f'{{"id": "a", "text": "{text}"}}\n',
        "html": f"<p>{text}</p>",
    }
    content = forms.get(suffix, f"{text}\n{text}\n")
    path = write(tmp_path / f"x.{suffix}", content.encode(name))
    for encoding in ("auto", "utf-8", "latin-1"):
        options = InputOptions(encoding=encoding)
        (item,) = chain.from_iterable(map(Parser(options).parse, Sources([str(path)], options).chunks()))
        if suffix == "txt" and text == CHINESE and "16" in name:  # no line break, digit or space shows it
            assert isinstance(item, Reject) or encoding == "latin-1"
            continue
        assert f"it looks like {name.upper()} without a byte order mark" in item.reason
        assert f"(encoding {name})" in item.reason


def test_zero_bytes_in_texts_are_not_taken_for_a_wide_encoding(tmp_path):
    rows = b"".join(b"%d,some text\0 and more\n" % number for number in range(1000))
    path = write(tmp_path / "x.csv", b"id,text\n" + rows)
    assert len([text for text in found(path)[0] if text]) == 1000


def test_the_order_of_wide_bytes_is_named_or_marked(tmp_path):
    for encoding, content, said in (
        ("utf-16", "id,text\n".encode("utf-16-le"), "(encoding utf-16-le or utf-16-be)"),
        ("utf-16-be", "id,text\n".encode("utf-16"), "its byte order mark is not of UTF-16-BE"),
        ("latin-1", "id,text\n".encode("utf-16"), "it is UTF-16, not LATIN-1: encoding auto reads it"),
    ):
        options = InputOptions(encoding=encoding)
        path = write(tmp_path / "x.csv", content)
        ((item,),) = Sources([str(path)], options).chunks()
        assert said in item.reason


def test_a_source_that_has_shown_utf_8_stays_so(tmp_path):
    rows = [b"a," + CHINESE.encode(), b"b," + CHINESE.encode("gb18030"), b"c," + CHINESE.encode()]
    path = write(tmp_path / "x.csv", b"id,text\n" + b"\n".join(rows))
    assert found(path) == ([CHINESE, None, CHINESE], [])


def test_a_source_whose_texts_are_all_utf_8_is_that(tmp_path):
    """Their bytes are common letters of Chinese in GB18030, too."""
    contents = ["¼ô"] * 3
    path = write(tmp_path / "x.txt", "\n".join(contents).encode())
    assert found(path) == (["\n".join(contents)], [])
    path = write(
        tmp_path / "x.jsonl",
        "".join(f'{{"id": {n}, "text": "{t}"}}\n' for n, t in enumerate(contents)).encode(),
    )
    assert found(path) == (contents, [])


def test_every_file_has_its_own(tmp_path):
    write(tmp_path / "a.txt", CHINESE.encode())
    gb18030 = write(tmp_path / "b.txt", CHINESE.encode("gb18030"))
    utf_16 = write(tmp_path / "c.txt", CHINESE.encode("utf-16"))
    notes = [f"{gb18030}: its texts are GB18030, not UTF-8", f"{utf_16}: its texts are UTF-16"]
    assert found(tmp_path) == ([CHINESE] * 3, notes)


@pytest.mark.parametrize(
    ("contents", "stated", "encoding"),
    [
        (CHINESE, "utf-8", "gb18030"),
        (KOREAN[0] * 3, "shift_jis", "euc-kr"),
        (RUSSIAN[0] * 3, "utf-8", "koi8-r"),
        (GERMAN[0] * 10, "utf-8", "iso-8859-1"),
        (CHINESE, "utf-16", "gb18030"),
    ],
)
def test_pages_in_another_encoding_than_they_state_are_refused_unless_it_is_named(
    tmp_path, contents, stated, encoding
):
    page = page_of(contents, f'<meta charset="{stated}">').encode(encoding)
    path = write(tmp_path / "x.html", page)
    (item,) = read(path)
    assert isinstance(item, Reject), item.text
    said = {"utf-16": "utf-8", "shift_jis": "shift_jis"}.get(stated, stated)
    assert re.fullmatch(
        rf"\d+ bytes or more of the page are not in {said}, which it states: name its encoding \(encoding\)",
        item.reason.replace("cp932", "shift_jis"),
    )
    (item,) = read(path, encoding=encoding)
    assert item.text.split() == contents.split()


def test_single_bytes_that_are_not_in_the_stated_encoding_are_counted_and_said(tmp_path):
    own = page_of("\ufffd" * 20 + CHINESE, '<meta charset="utf-8">').encode()
    texts, notes = found(write(tmp_path / "own.html", own))
    assert (texts, notes) == (["\ufffd" * 20 + CHINESE], [])  # those of the source
    path = write(tmp_path / "x.html", own.replace("，".encode(), b"\xff", 1))
    texts, notes = found(path)
    assert texts[0].count("\ufffd") == 21
    said = "1 bytes or more of 1 page are not in the encoding stated, and are U+FFFD in the texts"
    assert notes == [f"{path}: {said}"]


def test_a_long_text_takes_little_memory_to_look_at():
    """80 bytes for each of its bytes: what a regular expression may go back to."""
    data = b"a " * 1_000_000 + "啊".encode("gb18030")
    tracemalloc.start()
    try:
        assert DetectedEncoding(print).converted(data) == data
        DetectedEncoding(print).decide([data])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * len(data)
