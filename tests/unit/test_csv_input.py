"""Rows of CSV and TSV with and without quoting: every row that is one is read, and lost lines are counted."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
from time import process_time

import orjson
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhbase.corpus.parser import Parser
from simhbase.corpus.record import InputOptions, Record, Reject, SourceReject
from simhbase.corpus.sources import Sources
from simhbase.errors import UsageError
from tests.command_line import run
from tests.reading import read, rejects, texts, write

COUNT = 1000


def text(number: int) -> str:
    return f"Text {number}: the harbour office said, that ferry {number**5} sails at {number % 24}"


def table(path, quotes=(), closing=(), sep="\t", said=()):
    """A file without quoting: rows with a quote before or after their text, or around a part of it."""
    lines = [f"id{sep}text"]
    for number in range(COUNT):
        spoken = f'"{text(number)}," she said.' if number in said else text(number)
        lines.append(f"{number}{sep}" + '"' * (number in quotes) + spoken + '"' * (number in closing))
    return write(path, "".join(f"{line}\n" for line in lines).replace(", ", "; ").encode())


@pytest.mark.parametrize(
    "quotes",
    [
        {"quotes": {10}},
        {"quotes": {10, 500}},
        {"quotes": set(range(10, 1000, 97))},
        {"said": set(range(7, 1000, 50))},
        {"quotes": {10}, "closing": {20}},
        {"quotes": {10}, "closing": {11}},
        {"closing": {3}},
    ],
)
def test_a_tsv_without_quoting_is_read_as_it_is(tmp_path, quotes):
    path = table(tmp_path / "x.tsv", **quotes)
    expected = [line.split("\t")[1] for line in path.read_text().splitlines()[1:]]
    assert [item.text for item in read(path)] == expected
    assert [item.text for item in read(path, quoting="none")] == expected


def test_a_tsv_with_quoting_is_read_without_its_quotes(tmp_path):
    contents = [f'one\ttwo "{number}"\nthree' if number % 3 == 0 else text(number) for number in range(COUNT)]
    path = tmp_path / "x.tsv"
    pd.DataFrame({"id": range(COUNT), "text": contents}).to_csv(path, sep="\t", index=False)
    assert [item.text for item in read(path)] == contents


def test_doubled_quotes_show_quoting_in_a_small_tsv(tmp_path):
    contents = ['He said: "no"\nand, left\tthen', "plain text"]
    pd.DataFrame({"id": range(2), "text": contents}).to_csv(tmp_path / "x.tsv", sep="\t", index=False)
    assert [item.text for item in read(tmp_path / "x.tsv")] == contents


def test_what_a_tsv_shows_is_said(tmp_path):
    for name, row, quoting in (("a", '1\t"one', "none"), ("b", '1\t"one"', "csv"), ("c", "1\tone", None)):
        path = write(tmp_path / f"{name}.tsv", f"id\ttext\n0\tzero\n{row}\n2\ttwo\n".encode())
        sources = Sources([str(path)], InputOptions())
        (chunk,) = sources.chunks()
        assert len(chunk) == 3
        if quoting is None:
            assert sources.notes == []
        else:
            (note,) = sources.notes
            assert "as the file from line 3 on shows" in note
            assert f"(quoting {quoting})" in note
    done = run("dedup", "--min-similarity", 1, tmp_path / "a.tsv", cwd=tmp_path)
    assert b"quotes are part of the texts (quoting none)" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "quoting"), [('a","b\n', None), ('"\n', "csv"), ("\\\n", "backslash"), ('"a,b\n', None)]
)
def test_lines_that_lead_on_to_the_next_take_time_linear_in_the_file(tmp_path, line, quoting):
    """Every line may begin a row that does not end, whose other lines are read again."""

    def seconds(size):
        path = write(tmp_path / "x.csv", f"id,text\n{line * (size // len(line))}".encode())
        start = process_time()
        lines = [each for item in read(path, quoting=quoting) for each in lines_of(item)]
        assert max(lines) == 1 + size // len(line)
        return process_time() - start

    assert seconds(1 << 20) < 3 * 16 * max(seconds(1 << 16), 0.05)


def test_empty_lines_of_a_cell_count_for_the_size_of_its_row(tmp_path):
    cells = ",".join('"' + "\n" * 9_000 + '"' for _ in range(20))
    path = write(tmp_path / "x.csv", f"id,text\na,{cells}\nb,c\n".encode())
    items = read(path, max_record_bytes=10_000)
    assert "10,001 bytes or more" in rejects(items)[0][2]
    assert items[-1].text == "c"


@pytest.mark.parametrize("end", [set(), {20}])
def test_a_quote_in_a_csv_costs_its_line_only(tmp_path, end):
    path = table(tmp_path / "x.csv", {10}, end, sep=",")
    items = read(path)
    ((line, _, reason),) = rejects(items)
    assert line == 12
    assert f"(the row from line 12 to {22 if end else '1,001'})" in reason
    assert len([item for item in items if isinstance(item, Record)]) == COUNT - 1
    assert len(texts(read(path, quoting="none"))) == COUNT


def test_quotes_are_taken_at_their_word_if_they_are_said_to_be_right(tmp_path):
    path = write(tmp_path / "x.csv", b'id,text\na,"one two\nb, c\nd, e\nf, g"\nh,i\n')
    assert [item.id for item in read(path, quoting="csv")] == ["a", "h"]
    assert [item.id for item in read(path)] == [None, "b", "d", "f", "h"]


@pytest.mark.parametrize("cell", ["12 Main St\nSpringfield, IL", "a, b\nc, d\ne, f", "x\ny\nz\nw\nv"])
def test_ordinary_cells_of_several_lines_are_read(tmp_path, cell):
    rows = io.StringIO()
    csv.writer(rows).writerows([["id", "text"], ["a", cell], ["b", "two"]])
    assert texts(read(write(tmp_path / "x.csv", rows.getvalue().encode()))) == [("a", cell), ("b", "two")]


def test_rows_before_damage_are_read_although_a_quote_is_open(tmp_path):
    rows = b'id,text\na,"open\n' + b"".join(b"n%d,text\n" % number for number in range(50))
    path = write(tmp_path / "x.csv.gz", gzip.compress(rows) + gzip.compress(b"z,last\n")[:-4])
    items = read(path)
    assert [item.id for item in items if isinstance(item, Record)] == [f"n{number}" for number in range(50)]
    assert [line for line, _, _ in rejects(items)] == [2, 53]


def test_the_line_of_excel_names_the_delimiter(tmp_path):
    path = write(tmp_path / "x.csv", b"sep=;\r\nid;text\r\na;1,5\r\n")
    (item,) = read(path)
    assert (item.line, item.id, item.text) == (3, "a", "1,5")


def noted(path, **options):
    """What is read, and what is said of it."""
    chosen = InputOptions(**options)
    sources = Sources([str(path)], chosen)
    items = [item for chunk in sources.chunks() for item in Parser(chosen).parse(chunk)]
    return items, [note.removeprefix(f"{path}: ") for note in sources.notes]


@pytest.mark.parametrize(
    ("suffix", "delimiter", "said"),
    [
        ("csv", ",", "cells are separated by ';', as its first line says, not by ','"),
        ("csv", "|", "cells are separated by ';', as its first line says, not by '|'"),
        ("tsv", ",", "cells are separated by ';', as its first line says, not by '\\t'"),
        ("csv", ";", None),
    ],
)
def test_a_line_of_excel_that_contradicts_an_option_is_said(tmp_path, suffix, delimiter, said):
    path = write(tmp_path / f"x.{suffix}", b"sep=;\r\nid;text\r\na;1,5\r\n")
    items, notes = noted(path, delimiter=delimiter)
    assert texts(items) == [("a", "1,5")]
    assert notes == ([said] if said else [])


@pytest.mark.parametrize("delimiter", ['"', "a", "1", "", "\x01"])
def test_a_line_of_excel_without_a_delimiter_is_refused(tmp_path, delimiter):
    path = write(tmp_path / "x.csv", f"sep={delimiter}\r\nid,text\r\na,one\r\n".encode())
    (item,) = read(path)
    assert (type(item), item.line) == (SourceReject, 1)
    assert item.reason.startswith(f"its first line, sep={delimiter}, names no delimiter")


def test_a_delimiter_of_excel_must_not_be_a_part_of_characters(tmp_path):
    path = write(tmp_path / "x.csv", "sep=|\nid|text\na|这是一个中国人写的中文句子\n".encode("gb18030"))
    (item,) = read(path, encoding="gb18030")
    assert "the byte of '|' is also the second one of other characters in gb18030" in item.reason
    assert texts(read(path)) == [("a", "这是一个中国人写的中文句子")]


@pytest.mark.parametrize(
    "encoding", ["euc-jp", "euc-kr", "shift_jis", "big5", "gb18030", "koi8-r", "utf-16-le"]
)
def test_a_comma_is_a_delimiter_in_all_these_encodings(tmp_path, encoding):
    text = "Да" if encoding == "koi8-r" else "大"
    path = write(tmp_path / "x.csv", f"id,text\na,{text}\n".encode(encoding))
    assert texts(read(path, encoding=encoding)) == [("a", text)]


@pytest.mark.parametrize(("delimiter", "encoding"), [("0", "gb18030"), ("|", "gbk"), ("|", "shift_jis")])
def test_a_part_of_characters_is_no_delimiter(delimiter, encoding):
    with pytest.raises(UsageError, match=r"is also the second one of other characters"):
        InputOptions(delimiter=delimiter, encoding=encoding)


@pytest.mark.parametrize("name", ["iso2022_jp", "iso-2022-jp-3", "iso2022_kr", "hz"])
@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_encodings_whose_characters_have_the_bytes_of_delimiters_are_refused(tmp_path, name, suffix):
    """Rows seemed to lack a quote, or were read as the bytes of escapes."""
    text = "ガンマ" if name != "hz" else "中文，句子"
    path = write(tmp_path / f"x.{suffix}", f'id\ttext\na\t"{text}"\n'.encode(name).replace(b"\t", b","))
    if suffix == "tsv":
        path.write_bytes(path.read_bytes().replace(b",", b"\t"))
    (item,) = read(path, encoding=name)
    assert isinstance(item, SourceReject)
    assert item.reason.startswith(f"in {name} the bytes of delimiters and quotes are also those of other")
    if name != "hz":
        (item,) = read(path)
        assert item.reason.endswith("not CSV: it looks like ISO-2022: convert it to UTF-8 first")


def test_tabs_are_no_part_of_characters(tmp_path):
    path = write(tmp_path / "x.tsv", "id\ttext\na\tガンマ\n".encode("iso2022_jp"))
    assert texts(read(path, encoding="iso2022_jp", quoting="none")) == [("a", "ガンマ")]


def test_a_byte_order_mark_within_is_a_part_of_cells(tmp_path):
    """Two ids were one, as they are not in JSON lines."""
    path = write(tmp_path / "x.csv", "\ufeffid,text,t\n\ufeffa,one,\ufeffz\na,two,z\n".encode())
    items = read(path, tag_fields=(("t", "t"),), value_field="t", whole_rows=True)
    assert [(item.id, item.text) for item in items] == [("\ufeffa", "one"), ("a", "two")]
    assert [item.tags[0][1] for item in items] == [item.value for item in items] == ["\ufeffz", "z"]
    assert orjson.loads(items[0].json) == {"id": "\ufeffa", "text": "one", "t": "\ufeffz"}


def test_few_lines_that_look_like_rows_in_a_cell_are_said(tmp_path):
    path = write(tmp_path / "x.csv", b'id,text\na,"one\nb,c\nd,e"\nf,"g\nh,i"\nj,"k\nl"\n')
    items, notes = noted(path)
    assert texts(items) == [("a", "one\nb,c\nd,e"), ("f", "g\nh,i"), ("j", "k\nl")]
    assert notes == [
        "2 quoted cells have lines that look like rows (the first in lines 2 to 4): if quotes are part of "
        "the texts, say so (quoting none)"
    ]
    assert noted(path, quoting="csv") == (items, [])


@pytest.mark.parametrize("opened", ["open\n", "open\nx", 'open ""x'])
def test_rows_that_a_quoted_cell_with_other_lines_may_have_swallowed_are_said(tmp_path, opened):
    """One line without a comma, or with doubled quotes, was enough to lose the rows of others without a
    word."""
    rows = [f'a,"{opened}', "b,two", "c,three", "d,four", 'e,x"', "f,six"]
    path = write(tmp_path / "x.csv", "".join(f"{row}\n" for row in ["id,text", *rows]).encode())
    items, notes = noted(path)
    assert [item.id for item in items] == ["a", "f"]
    assert notes[0].startswith("1 quoted cells have lines that look like rows (the first in lines 2 to ")
    tabs = write(tmp_path / "x.tsv", path.read_bytes().replace(b",", b"\t"))
    items, notes = noted(tabs)
    if '""' in opened:
        assert "lines that look like rows" in notes[1]
    else:
        assert [item.id for item in items if item.id] == list("abcdef")


@pytest.mark.parametrize("swallowed", [["b,two"], ["b,two", "c,three"]])
@pytest.mark.parametrize("line", ["no delimiter", "", "three, cells, here"])
def test_one_row_that_a_quoted_cell_may_have_swallowed_is_said(tmp_path, line, swallowed):
    """Less than three rows beside another line were lost without a word."""
    rows = ["id,text", 'a,"open', line, *swallowed, 'd,x"', "f,six"]
    items, notes = noted(write(tmp_path / "x.csv", "".join(f"{row}\n" for row in rows).encode()))
    assert [item.id for item in items] == ["a", "f"]
    assert f"(the first in lines 2 to {4 + len(swallowed)})" in notes[0]


def test_lines_of_cells_in_a_file_of_one_column_are_said(tmp_path):
    """Each may be a row; blank lines are none."""
    path = write(tmp_path / "x.csv", b'text\n"one\n"\n"two\n\nthree\nfour\nfive"\nsix\n')
    items, notes = noted(path, id_from="line")
    assert [item.text for item in items] == ["one\n", "two\n\nthree\nfour\nfive", "six"]
    assert "2 quoted cells" in notes[0]
    assert noted(path, id_from="line", quoting="csv") == (items, [])


@pytest.mark.parametrize("options", [{}, {"id_from": "line"}, {"tag_fields": (("t", "text"),)}])
def test_a_column_that_is_asked_for_and_is_there_twice_is_refused(tmp_path, options):
    path = write(tmp_path / "x.csv", b"id,text,n,text,n\na,one,1,two,2\n")
    (item,) = read(path, **options)
    assert (type(item), item.line) == (SourceReject, 1)
    assert "2 columns are named 'text': rename one, or name another text field (text_field)" in item.reason
    assert "2 columns are named 'id'" in read(write(tmp_path / "y.csv", b"id,id,text\na,b,c\n"))[0].reason
    assert texts(read(write(tmp_path / "z.csv", b"id,n,n,text\na,1,2,b\n"))) == [("a", "b")]


def test_a_cell_of_another_encoding_costs_nothing_where_the_header_has_an_empty_name(tmp_path):
    path = write(tmp_path / "x.csv", b"id,text,note,\na,one,\xff,\n")
    assert texts(read(path)) == [("a", "one")]


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_headers_of_joined_files_are_no_rows(tmp_path, suffix):
    rows = "id,text\na,one\nid,text\nb,two\n\ufeffid,text\nc,three\ntext,id\nfour,d\nid,id\n"
    path = write(tmp_path / f"x.{suffix}", rows.replace(",", "," if suffix == "csv" else "\t").encode())
    items, notes = noted(path)
    assert texts(items) == [("a", "one"), ("b", "two"), ("c", "three"), ("d", "four"), ("id", "id")]
    assert notes == [
        "the header is there 3 times more (first in line 3)",
        "from line 7 on its columns are in another order, as the header there says",
    ]


def test_a_header_of_one_column_that_comes_again_with_a_byte_order_mark_is_no_row(tmp_path):
    path = write(tmp_path / "x.csv", "text\none\n\ufefftext\ntwo\ntext\n".encode())
    items, notes = noted(path, id_from="line")
    assert [text for _, text in texts(items)] == ["one", "two"]
    assert notes == ["the header is there 2 times more (first in line 3)"]


# One text each: all that databases escape, and what only looks so.
AWKWARD = [
    "plain",
    "tab\there",
    "two\nlines",
    "two\r\nlines",
    "back\\slash",
    "C:\\new\\table",
    "ends with \\",
    "\\\\N",
    '"quoted"',
    '"opened',
    "bell\b\f\v",
    "N",
    "a \\N b",
    "中文",
]


def postgresql(text):
    """As COPY TO of PostgreSQL writes a text."""
    escapes = {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
    return "\\N" if text is None else "".join(escapes.get(each, each) for each in text)


def mysql(text):
    """As SELECT INTO OUTFILE of MySQL writes a text: with a backslash before the character itself."""
    escapes = {"\0": "\\0"} | {each: f"\\{each}" for each in "\t\n\\"}
    return "\\N" if text is None else "".join(escapes.get(each, each) for each in text)


@pytest.mark.parametrize("escaped", [postgresql, mysql])
@pytest.mark.parametrize(("suffix", "end"), [("tsv", "\n"), ("tsv", "\r\n"), ("csv", "\n")])
def test_escapes_of_databases_are_read_if_they_are_said(tmp_path, escaped, suffix, end):
    between = "\t" if suffix == "tsv" else "|"
    rows = [("id", "note", "text"), *((str(n), None, each) for n, each in enumerate(AWKWARD))]
    lines = [between.join(map(escaped, row)) + end for row in rows]
    path = write(tmp_path / f"x.{suffix}", "".join(lines).encode())
    options = {"quoting": "backslash", "delimiter": "|"}
    assert texts(read(path, **options)) == [(str(n), each) for n, each in enumerate(AWKWARD)]
    whole = read(path, **options, whole_rows=True)
    assert orjson.loads(whole[1].json) == {"id": "1", "note": None, "text": AWKWARD[1]}


# As COPY TO of PostgreSQL 15 wrote a table.
COPIED = rb"""id	note	text
1	\N	plain
2	\N	tab\there
3	x	two\nlines
4	x	back\\slash \\n \\N
5	x	"quoted"
6		"open
7	x	two\r\nlines
8	x	\\N
9	x	ends \\
10	x	bell\b\f\v
"""


def test_what_postgresql_wrote_is_read(tmp_path):
    contents = [
        "plain",
        "tab\there",
        "two\nlines",
        "back\\slash \\n \\N",
        '"quoted"',
        '"open',
        "two\r\nlines",
    ]
    contents += ["\\N", "ends \\", "bell\b\f\v"]
    path = write(tmp_path / "x.tsv", COPIED)
    assert texts(read(path, quoting="backslash")) == [(str(n), each) for n, each in enumerate(contents, 1)]
    assert "rows (the first in line 2) have backslashes as databases write" in noted(path)[1][-1]
    headless = write(tmp_path / "y.tsv", COPIED.split(b"\n", 1)[1])
    (item,) = read(headless, quoting="backslash")
    assert isinstance(item, SourceReject)


# As sqlite3 -list -header wrote a table.
LISTED = b"""id|text|note
1|plain|
3|two
lines|a,b
5|"quoted"|x
6|"open|
7|a|b|x
"""


def test_a_list_of_sqlite_is_read_as_far_as_it_can_be_told(tmp_path):
    path = write(tmp_path / "x.list", LISTED)
    items = read(path, format="csv", delimiter="|", quoting="none")
    known = [(item.id, item.text) for item in items if isinstance(item, Record)]
    assert known == [("1", "plain"), ("5", '"quoted"'), ("6", '"open')]
    assert [line for line, _, _ in rejects(items)] == [3, 4, 7]
    assert "the row has 2 cells, the header 3: is there a line break in a text?" in rejects(items)[0][2]


# As sqlite3 -csv -header wrote a table, and as Google Sheets and LibreOffice do, with a byte order mark.
@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
def test_csv_of_spreadsheets_is_read(tmp_path, mark):
    rows = b'id,text,note\r\n1,plain,\r\n3,"two\nlines","a,b,c"\r\n5,"""quoted""",x\r\n6,"""open",""\r\n'
    expected = [("1", "plain"), ("3", "two\nlines"), ("5", '"quoted"'), ("6", '"open')]
    path = write(tmp_path / "x.csv", mark + rows)
    assert noted(path)[1] == []
    assert texts(read(path)) == expected


def test_unicode_text_of_excel_is_read(tmp_path):
    rows = 'id\ttext\r\n1\t"two\nlines"\r\n2\t"say ""x"""\r\n3\t中文, größer\r\n'
    path = write(tmp_path / "x.txt", codecs.BOM_UTF16_LE + rows.encode("utf-16-le"))
    expected = [("1", "two\nlines"), ("2", 'say "x"'), ("3", "中文, größer")]
    assert texts(read(path, format="tsv")) == expected
    assert noted(path, format="tsv")[1][0] == "its texts are UTF-16"


def test_quotes_with_backslashes_are_no_csv(tmp_path):
    """As Spark writes them, and MySQL with ENCLOSED BY."""
    rows = [
        r'1,"say \"x\", y"',
        r'2,"ends \""',
        "3,plain",
        r'4,"starts, ends \""',
        r'5,"C:\\new"',
        "6,x",
        r"7,\N",
    ]
    items, notes = noted(write(tmp_path / "x.csv", ("id,text\n" + "\n".join(rows) + "\n").encode()))
    assert [item.id for item in items if isinstance(item, Record)] == ["3", "5", "6"]
    assert [line for line, _, _ in rejects(items)] == [2, 3, 5, 8]
    assert r"(a quote within is doubled in CSV, not \")" in items[0].reason
    assert "2 rows (the first in line 6) have backslashes" in notes[0]


def test_null_of_databases_is_no_text(tmp_path):
    path = write(tmp_path / "x.tsv", b"id\ttext\tday\n1\t\\N\t2\n\\N\tone\t2\n3\ttwo\t\\N\n")
    no_text, no_id, record = read(path, quoting="backslash", value_field="day")
    assert (no_text.line, no_text.reason) == (2, "column 'text' is NULL")
    assert (no_id.line, no_id.reason) == (3, "column 'id' is NULL")
    assert (record.text, record.value) == ("two", None)
    for reject in read(path, value_field="day"):
        assert (
            "is \\N, as databases write NULL: say whether backslashes are escapes (quoting bac"
            in reject.reason
        )
    assert [item.text for item in read(path, quoting="none")] == ["\\N", "one", "two"]


def test_backslashes_that_may_be_escapes_are_said(tmp_path):
    path = write(tmp_path / "x.tsv", b"id\ttext\tnote\n1\tone\t\n2\ttwo\\nlines\t\n3\tthree\t\\N\n")
    items, notes = noted(path)
    assert texts(items) == [("1", "one"), ("2", r"two\nlines"), ("3", "three")]
    (note,) = notes
    assert note.startswith(
        "2 rows (the first in line 3) have backslashes as databases write escapes and NULL"
    )
    assert noted(path, quoting="none")[1] == []
    assert noted(path, quoting="backslash")[1] == []


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_a_line_that_ends_with_an_escape_is_refused_without_an_option(tmp_path, suffix):
    rows = "id,text\n1,one\\\ntwo\n3,three\\\\\n".replace(",", "," if suffix == "csv" else "\t")
    path = write(tmp_path / f"x.{suffix}", rows.encode())
    items = read(path)
    assert [line for line, _, _ in rejects(items)] == [2, 3]
    assert "the line ends with a backslash, as MySQL writes line breaks" in items[0].reason
    assert items[2].text == "three\\\\"
    assert texts(read(path, quoting="backslash")) == [("1", "one\ntwo"), ("3", "three\\")]


def test_a_file_that_ends_in_an_escape_loses_no_row_in_silence(tmp_path):
    path = write(tmp_path / "x.tsv", b"id\ttext\n1\tone\\\n2\ttwo\\")
    assert [line for line, _, _ in rejects(read(path, quoting="backslash"))] == [2, 3]


def test_escapes_need_an_encoding_whose_characters_have_no_backslash():
    with pytest.raises(UsageError, match=r"^quoting: the byte of '\\\\' is also the second one"):
        InputOptions(quoting="backslash", encoding="gb18030")
    InputOptions(quoting="backslash", encoding="utf-16-le")


def test_an_unknown_quoting_is_refused():
    with pytest.raises(UsageError, match=r"^quoting: 'x' is none of csv, none, backslash"):
        InputOptions(quoting="x")


def texts_without(excluded):
    """Texts without these characters. A byte order mark at the beginning of a text is no part of it."""
    texts = st.text(st.characters(codec="utf-8", exclude_characters=excluded))
    return st.lists(texts.filter(lambda text: not text.startswith("\ufeff")), min_size=1)


@given(texts_without("\r\n\t\0"))
def test_lines_without_quoting_come_back_as_they_are(tmp_path_factory, contents):
    path = tmp_path_factory.mktemp("x") / "x.tsv"
    rows = "".join(f"{number}\t{content}\n" for number, content in enumerate(contents))
    write(path, f"id\ttext\n{rows}".encode())
    assert [item.text for item in read(path, quoting="none")] == contents


@given(texts_without("\0"))
@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_rows_with_quoting_come_back_as_they_were(tmp_path_factory, suffix, contents):
    path, rows = tmp_path_factory.mktemp("x") / f"x.{suffix}", io.StringIO()
    writer = csv.writer(rows, quoting=csv.QUOTE_ALL, delimiter="," if suffix == "csv" else "\t")
    writer.writerows([["id", "text"], *enumerate(contents)])
    write(path, rows.getvalue().encode())
    assert [item.text for item in read(path, quoting="csv")] == contents


ROWS = [
    "1\ta",
    '2\t"b',
    '3\tc"',
    '4\t"d"',
    "5",
    "",
    '"',
    '6\t"a\tb"',
    '7\t"e ""f"""',
    "8\tg\th",
    '9\t"i',
    'j"',
]
AGAIN = "Its other lines are read again"
SPAN = re.compile(r"the row from line ([\d,]+) to ([\d,]+)")


def lines_of(item: Record | Reject) -> range:
    """The lines that a record or reject accounts for."""
    if isinstance(item, Record):
        return range(item.line, item.line + 1 + f"{item.id}{item.text}".count("\n"))
    span = SPAN.search(item.reason)
    end = int(span[2].replace(",", "")) if span and AGAIN not in item.reason else item.line
    return range(item.line, end + 1)


@given(st.lists(st.sampled_from(ROWS), max_size=12))
@pytest.mark.parametrize("suffix", ["csv", "tsv"])
@pytest.mark.parametrize("quoting", [None, "csv", "none", "backslash"])
def test_every_line_is_read_or_counted(tmp_path_factory, suffix, quoting, lines):
    """Each line that is not blank is in one record or reject, and the cells of a record are what its lines
    hold."""
    between = "\t" if suffix == "tsv" else ","
    lines = [line.replace("\t", between) for line in ["id\ttext", *lines]]
    path = write(
        tmp_path_factory.mktemp("x") / f"x.{suffix}", "".join(f"{each}\n" for each in lines).encode()
    )
    items = read(path, quoting=quoting)
    covered = [number for item in items for number in lines_of(item)]
    assert covered == sorted(set(covered))
    filled = {number for number, line in enumerate(lines[1:], 2) if line}
    assert filled <= set(covered) <= set(range(2, len(lines) + 1))
    for item in items:
        if isinstance(item, Record):
            held = "\n".join(lines[number - 1] for number in lines_of(item))
            assert f"{item.id}{between}{item.text}".replace('"', "") == held.replace('"', "")


@pytest.mark.parametrize("header", ['id,"text', 'id,"text"x'])
def test_a_header_that_is_no_row_costs_the_source_and_says_so(tmp_path, header):
    """The lines after it were lost as one record, and were said to be read again."""
    (item,) = read(write(tmp_path / "x.csv", f"{header}\na,one\nb,two\n".encode()))
    assert isinstance(item, SourceReject)
    assert item.reason.startswith("in the header: not CSV: ")
    assert "are read again" not in item.reason


def test_a_header_of_millions_of_columns_is_rejected(tmp_path):
    """A line of 15 MB took 2.5 GB and half a minute."""
    path = write(tmp_path / "x.csv", b"id,text" + b"," * (1 << 16) + b"\na,b\n")
    assert rejects(read(path)) == [(1, None, "in the header: 65,538 columns, at most 65,536 are read")]
