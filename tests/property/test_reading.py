from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import re
from collections import deque
from collections.abc import Callable
from contextlib import closing
from itertools import accumulate, chain, islice, pairwise, repeat
from pathlib import Path

import orjson
import pytest
import zstandard
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from simhbase.corpus import streams
from simhbase.corpus.formats.parquet import is_columnar
from simhbase.corpus.parser import Parser
from simhbase.corpus.record import Format, InputOptions, Record, Reject, TooLong
from simhbase.corpus.sources import Sources
from simhbase.corpus.streams import container_of, split_lines, unpacked_text
from simhbase.jobs.seen_ids import FirstSeen, SeenIds
from simhbase.text.packing import SIGNATURE_BYTES, Rereadable, RereadablePipe, Unreadable, packer_of

CONTROL = re.compile(rb"[\0-\x08\x0e-\x1a\x1c-\x1f]")  # in no text

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


def test_a_line_without_end_is_told(monkeypatch):
    monkeypatch.setattr(streams, "_COUNTED", 50)
    endless = split_lines(chain([b"a\nb"], repeat(b"bbbbb")), 10)
    assert list(islice(endless, 2)) == [b"a", TooLong(51)]
    data = [b"a\nb", *[b"bbbbb"] * 20, b"b\nc\n", b"d" * 60, b"d\n"]
    assert list(split_lines(data, 10)) == [b"a", TooLong(51), b"c", TooLong(60)]


PACKS = [gzip.compress, zstandard.compress, bz2.compress, lzma.compress]


@pytest.mark.parametrize("pack", [bytes, *PACKS])
@given(members=st.lists(st.binary(max_size=300), max_size=4), cuts=cuts)
def test_unpacking_does_not_depend_on_where_blocks_and_members_end(pack, members, cuts):
    members = [b"plain, or packed", *members]
    content = b"".join(members)
    packed = b"".join(map(pack, members))
    for file in (io.BytesIO(packed), Pipe(in_blocks(packed, cuts))):
        with closing(Rereadable(file) if file.seekable() else RereadablePipe(file)) as rereadable:
            assert b"".join(unpacked_text(rereadable)) == content


class Pipe(io.RawIOBase):
    """Cannot be sought in, and gives a block at a time."""

    def __init__(self, blocks: list[bytes]) -> None:
        self._blocks = deque(blocks)

    def read1(self, size: int) -> bytes:
        if not self._blocks:
            return b""
        block = self._blocks.popleft()
        if len(block) > size:
            self._blocks.appendleft(block[size:])
        return block[:size]


def is_text(content: bytes) -> bool:
    """False for what is refused by another message, packed or not."""
    return not is_columnar(content) and container_of(content) is None


@pytest.mark.parametrize("pack", PACKS)
@given(data=st.data())
def test_of_a_packed_file_cut_anywhere_whole_members_are_given(pack, data):
    first, cut = (data.draw(st.binary(min_size=4, max_size=300).filter(is_text)) for _ in range(2))
    packed = pack(cut)
    kept = packed[: data.draw(st.integers(min(SIGNATURE_BYTES, len(packed) - 1), len(packed) - 1))]
    received = b""
    with pytest.raises(Unreadable, match="ends in the middle"):  # noqa: PT012  # what comes before counts
        for block in unpacked_text(Rereadable(io.BytesIO(pack(first) + kept))):
            received += block
    assert received == first.removeprefix(b"\xef\xbb\xbf")


WITH_CHECKSUM = {
    "gz": gzip.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
}
WORDS = ["the", "council", "has", "opened", "another", "bridge", "over", "this", "river"]
sentences = st.lists(st.sampled_from(WORDS), min_size=3, max_size=40).map(" ".join)


Content = Callable[[list[str]], list[bytes]]


def jsonl_file(texts: list[str]) -> list[bytes]:
    return [orjson.dumps({"id": f"d{n}", "text": text}) + b"\n" for n, text in enumerate(texts)]


def csv_file(texts: list[str]) -> list[bytes]:
    return [b"id,text\r\n", *(f'd{n},"{text}\n{text}"\r\n'.encode() for n, text in enumerate(texts))]


def lines_file(texts: list[str]) -> list[bytes]:
    return [text.encode() + b"\n" for text in texts]


def text_file(texts: list[str]) -> list[bytes]:
    return ["\n".join(texts).encode()]


def warc_file(texts: list[str]) -> list[bytes]:
    return [warc_record(f"https://example.org/{n}", text) for n, text in enumerate(texts)]


FORMATS: dict[Content, Format] = {
    jsonl_file: "jsonl",
    csv_file: "csv",
    lines_file: "lines",
    text_file: "text",
    warc_file: "warc",
}


def warc_record(address: str, text: str) -> bytes:
    head = f"WARC/1.1\r\nWARC-Type: resource\r\nWARC-Target-URI: {address}\r\nContent-Type: text/plain\r\n"
    return f"{head}Content-Length: {len(text)}\r\n\r\n{text}\r\n\r\n".encode()


def came_of_damage(data: st.DataObject, path: Path, content: Content, packer: str, *, piped: bool) -> None:
    """Asserts that of damaged input only records come out that went in, and a reject where some do not."""
    pieces = content(data.draw(st.lists(sentences, min_size=1, max_size=30)))
    count = data.draw(st.integers(1, 4))
    cuts = [number * len(pieces) // count for number in range(count + 1)]
    members = [WITH_CHECKSUM[packer](b"".join(pieces[a:b])) for a, b in pairwise(cuts)]
    good = b"".join(members)
    # What comes through a pipe has no name: its first bytes alone say that it is packed.
    at = data.draw(st.integers(SIGNATURE_BYTES if piped else 0, len(good) - 1))
    damage = data.draw(
        st.one_of(st.binary(min_size=1, max_size=6), st.text("abc ", min_size=1).map(str.encode))
    )
    bad = (good[:at] + damage + good[at + len(damage) :])[: len(good)]
    # Where text has covered the whole header of a small file, that is a plain file by all that can be seen.
    assume(packer_of(bad[:SIGNATURE_BYTES]) or CONTROL.search(bad))
    encoding = data.draw(st.sampled_from(["utf-8", "auto"]))
    options = InputOptions(format=FORMATS[content], encoding=encoding)

    went_in, none = items_of(path, good, options, piped=piped)
    assert not none
    came_out, rejects = items_of(path, bad, options, piped=piped)
    if content is warc_file and packer == "gz":  # goes on behind the damage, whose records it cannot number
        left = [(each.id, each.text) for each in went_in]
        for each in came_out:
            left = left[left.index((each.id, each.text)) + 1 :]
    else:
        assert came_out == went_in[: len(came_out)]
    if came_out != went_in:  # a header has bytes that mean nothing for the content
        assert {each.source for each in rejects} == {"stdin" if piped else str(path)}
    ends = list(accumulate(map(len, members)))
    undamaged = good[: max((end for end in ends if end <= at), default=0)]
    if undamaged and content is not text_file:  # which is one record
        assert len(came_out) >= len(items_of(path, undamaged, options, piped=piped)[0])


def items_of(
    path: Path, data: bytes, options: InputOptions, *, piped: bool
) -> tuple[list[Record], list[Reject]]:
    path.write_bytes(data)
    sources = Sources(["-"], options, Pipe([data])) if piped else Sources([str(path)], options)
    items = list(chain.from_iterable(map(Parser(options).parse, sources.chunks())))
    rejects = [item for item in items if isinstance(item, Reject)]
    return [item for item in items if isinstance(item, Record)], rejects


packed_input = {
    "data": st.data(),
    "content": st.sampled_from(list(FORMATS)),
    "packer": st.sampled_from(list(WITH_CHECKSUM)),
    "piped": st.booleans(),
}
in_one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.slow
@settings(in_one_folder, max_examples=300)
@given(**packed_input)
def test_of_damaged_packed_input_no_record_comes_out_that_did_not_go_in(
    tmp_path, data, content, packer, piped
):
    came_of_damage(data, tmp_path / f"x.{packer}", content, packer, piped=piped)


@pytest.mark.full
@settings(in_one_folder, max_examples=20_000)
@given(**packed_input)
def test_of_no_damaged_packed_input_a_record_comes_out_that_did_not_go_in(
    tmp_path, data, content, packer, piped
):
    came_of_damage(data, tmp_path / f"x.{packer}", content, packer, piped=piped)


@given(st.lists(st.tuples(texts.filter(bool), texts), max_size=8))
def test_csv_gives_back_what_was_written(rows):
    file = io.StringIO(newline="")
    writer = csv.writer(file, quoting=csv.QUOTE_ALL)
    writer.writerows([("id", "text"), *rows])
    assume("\0" not in file.getvalue())  # zero bytes beside other controls may be those of UTF-16
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
    place = (FirstSeen(f"source {line % 3}", line) for line in range(1000))
    for ids in batches:
        places = [next(place) for _ in ids]
        expected = [
            None if model.setdefault(each, here) is here else model[each]
            for each, here in zip(ids, places, strict=True)
        ]
        assert seen.note(ids, places) == expected
