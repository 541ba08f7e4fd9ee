from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
from itertools import chain, pairwise

import orjson
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from simhbase.corpus.parser import Parser
from simhbase.corpus.record import InputOptions, Record, Reject
from simhbase.corpus.seen_ids import Place, SeenIds
from simhbase.corpus.sources import Sources
from simhbase.corpus.streams import TooLong, split_lines, unpacked_text
from simhbase.packing import SIGNATURE_BYTES, Unreadable

some_lines = st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"")), max_size=12)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30).filter(
    lambda text: not text.startswith("\ufeff")  # a byte order mark, which is dropped
)


def in_blocks(data: bytes, cuts: list[int]) -> list[bytes]:
    """The data as a file or pipe might hand it out: never an empty block."""
    borders = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(borders)]


cuts = st.lists(st.integers(0, 10_000), max_size=6)


@given(some_lines, cuts, st.integers(0, 12), st.booleans())
def test_lines_do_not_depend_on_where_blocks_end(lines, cuts, limit, last_is_ended):
    data = b"\n".join(lines) + (b"\n" if last_is_ended else b"")
    expected = data.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert list(split_lines(in_blocks(data, cuts), limit)) == [
        line if len(line) <= limit else TooLong(len(line)) for line in expected
    ]


PACKS = [gzip.compress, zstandard.compress, bz2.compress, lzma.compress]


@pytest.mark.parametrize("pack", [bytes, *PACKS])
@given(members=st.lists(st.binary(max_size=300), max_size=4), cuts=cuts)
def test_unpacking_does_not_depend_on_where_blocks_and_members_end(pack, members, cuts):
    members = [b"plain, or packed", *members]
    content = b"".join(members)
    packed = b"".join(map(pack, members))
    assert b"".join(unpacked_text(in_blocks(packed, cuts))) == content


@pytest.mark.parametrize("pack", PACKS)
@given(data=st.data())
def test_a_packed_file_cut_anywhere_gives_a_beginning_and_says_so(pack, data):
    # Parquet that is packed is refused by another message.
    content = data.draw(st.binary(min_size=1, max_size=300).filter(lambda drawn: drawn[:4] != b"PAR1"))
    packed = pack(content)
    kept = packed[: data.draw(st.integers(min(SIGNATURE_BYTES, len(packed) - 1), len(packed) - 1))]
    received = b""
    with pytest.raises(Unreadable, match="ends in the middle"):  # noqa: PT012  # what comes before counts
        for block in unpacked_text([kept]):
            received += block
    assert content.removeprefix(b"\xef\xbb\xbf").startswith(received)


@given(st.lists(st.tuples(texts.filter(bool), texts), max_size=8))
def test_csv_gives_back_what_was_written(rows):
    file = io.StringIO(newline="")
    writer = csv.writer(file, quoting=csv.QUOTE_ALL)
    writer.writerows([("id", "text"), *rows])
    assert records(file.getvalue().encode(), InputOptions(format="csv")) == rows


@given(st.lists(st.tuples(texts.filter(bool), texts), max_size=8))
def test_json_lines_give_back_what_was_written(rows):
    data = b"".join(orjson.dumps({"id": key, "text": text}) + b"\n" for key, text in rows)
    assert records(data, InputOptions()) == rows


def records(data: bytes, options: InputOptions) -> list[tuple[str, str | None]]:
    chunks = Sources(["-"], options, io.BytesIO(data)).chunks()
    items = chain.from_iterable(map(Parser(options).parse, chunks))
    return [(item.id, item.text) if isinstance(item, Record) else (item.reason, None) for item in items]


@pytest.mark.parametrize("form", ["jsonl", "csv", "tsv", "text", "lines", "html", "parquet", "warc"])
@given(data=st.binary(max_size=200), encoding=st.sampled_from(["utf-8", "auto", "gb18030"]))
def test_no_bytes_whatever_raise_anything(form, data, encoding):
    options = InputOptions(format=form, encoding=encoding, max_record_bytes=100)
    head = b"id,text\n" if form == "csv" else b""
    chunks = Sources(["-"], options, io.BytesIO(head + data)).chunks()
    items = list(chain.from_iterable(map(Parser(options).parse, chunks)))
    assert all(isinstance(item, Record | Reject) for item in items)
    assert len(items) <= data.count(b"\n") + 2


@given(st.lists(st.lists(st.sampled_from([f"id {i}" for i in range(20)]), max_size=10), max_size=10))
def test_seen_ids_are_those_of_a_dictionary(batches):
    seen, model = SeenIds(), {}
    place = (Place(f"source {line % 3}", line) for line in range(1000))
    for ids in batches:
        places = [next(place) for _ in ids]
        expected = [
            None if model.setdefault(each, here) is here else model[each]
            for each, here in zip(ids, places, strict=True)
        ]
        assert seen.note(ids, places) == expected
