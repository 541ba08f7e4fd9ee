"""Rows of CSV and TSV with and without quoting: every row that is one is read, and lost lines are counted."""

from __future__ import annotations

import csv
import gzip
import io

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhbase.corpus.record import InputOptions, Record, Reject
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


def test_an_unknown_quoting_is_refused():
    with pytest.raises(UsageError, match=r"^quoting: 'x' is neither csv nor none"):
        InputOptions(quoting="x")


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n\t\0")), min_size=1))
def test_lines_without_quoting_come_back_as_they_are(tmp_path_factory, contents):
    path = tmp_path_factory.mktemp("x") / "x.tsv"
    rows = "".join(f"{number}\t{content}\n" for number, content in enumerate(contents))
    write(path, f"id\ttext\n{rows}".encode())
    assert [item.text for item in read(path, quoting="none")] == contents


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), min_size=1))
@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_rows_with_quoting_come_back_as_they_were(tmp_path_factory, suffix, contents):
    path, rows = tmp_path_factory.mktemp("x") / f"x.{suffix}", io.StringIO()
    writer = csv.writer(rows, quoting=csv.QUOTE_ALL, delimiter="," if suffix == "csv" else "\t")
    writer.writerows([["id", "text"], *enumerate(contents)])
    write(path, rows.getvalue().encode())
    assert [item.text for item in read(path, quoting="csv")] == contents


@given(st.lists(st.sampled_from(["1\ta", '2\t"b', '3\tc"', '4\t"d"', "5", "", '"', '6\t"a\tb"'])))
@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_every_line_is_read_or_counted(tmp_path_factory, suffix, lines):
    """Each line that is not blank begins a record or a reject, or is in one."""
    path = tmp_path_factory.mktemp("x") / f"x.{suffix}"
    content = "".join(f"{line}\n" for line in ["id\ttext", *lines])
    write(path, (content if suffix == "tsv" else content.replace("\t", ",")).encode())
    items = read(path)
    known = {item.line for item in items}
    for number, line in enumerate(lines, 2):
        before = max((each for each in known if each < number), default=None)
        covering = [item for item in items if item.line == before]
        in_another = any(isinstance(item, Reject) or "\n" in (item.text or "") for item in covering)
        assert not line or number in known or in_another
