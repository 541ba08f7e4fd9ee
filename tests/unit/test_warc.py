from __future__ import annotations

import bz2
import gzip
import io
import random
import re
import zlib
from pathlib import Path
from time import process_time
from typing import Any

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from resiliparse.parse.encoding import map_encoding_to_html5
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from simhbase.corpus.record import InputOptions, Record, Reject, SourceReject
from simhbase.corpus.sources import Sources
from simhbase.text.html import extract_html
from tests.reading import read, rejects, texts, write

PAGE = "<html><body><nav>x</nav><p>中文正文在这里。</p></body></html>"
HTML = "text/html; charset=utf-8"


class Archive:
    """Records one after the other, as a crawler writes them."""

    def __init__(self, *, packed: bool = False) -> None:
        self._file = io.BytesIO()
        self._writer = WARCWriter(self._file, gzip=packed)
        self._writer.write_record(self._writer.create_warcinfo_record("x.warc", {"software": "a crawler"}))

    @property
    def data(self) -> bytes:
        return self._file.getvalue()

    def answer(
        self,
        address: str,
        body: bytes,
        kind: str | None = HTML,
        status: str = "200 OK",
        **headers: str,
    ) -> Archive:
        fields = [(name.replace("_", "-"), value) for name, value in headers.items()]
        if kind:
            fields.append(("Content-Type", kind))
        http = StatusAndHeaders(status, fields, protocol="HTTP/1.1")
        return self._write(address, "response", body, http_headers=http)

    def other(self, address: str, kind: str, body: bytes, content_type: str) -> Archive:
        return self._write(address, kind, body, warc_content_type=content_type)

    def _write(self, address: str, kind: str, body: bytes, **more: Any) -> Archive:
        record = self._writer.create_warc_record(address, kind, payload=io.BytesIO(body), **more)
        self._writer.write_record(record)
        record.raw_stream.close()  # a temporary file, which warcio leaves open
        return self


def three(*, packed: bool = False) -> Archive:
    archive = Archive(packed=packed)
    for name in "abc":
        archive.answer(f"http://x/{name}", name.encode() * 3000, "text/plain")
    return archive


def test_pages_and_texts_that_were_fetched_are_documents(tmp_path):
    archive = Archive()
    archive.answer("http://x/page", PAGE.encode())
    archive.answer("http://x/xhtml", PAGE.encode(), "application/xhtml+xml", "203 Non-Authoritative")
    archive.answer("http://x/text", "文".encode(), "Text/Plain")
    archive.other("file:///r.html", "resource", PAGE.encode(), "text/html")
    path = write(tmp_path / "x.warc", archive.data)
    items = read(path)
    assert texts(items) == [
        ("http://x/page", "中文正文在这里。"),
        ("http://x/xhtml", "中文正文在这里。"),
        ("http://x/text", "文"),
        ("file:///r.html", "中文正文在这里。"),
    ]
    assert [(item.source, item.line) for item in items] == [(str(path), number) for number in (2, 3, 4, 5)]


def notes_of(path: Path, **options: Any) -> list[str]:
    sources = Sources([str(path)], InputOptions(**options))
    assert list(sources.chunks()) is not None
    return [note.removeprefix(f"{path}: ") for note in sources.notes]


def test_everything_else_is_passed_over_and_counted_where_it_may_be_missed(tmp_path):
    archive = Archive()
    archive.answer("http://x/1", b"gone", status="404 Not Found")
    archive.answer("http://x/2", b"", status="301 Moved", Location="http://x/3")
    archive.answer("http://x/3", b"\x89PNG", "image/png")
    archive.answer("http://x/4", b"x" * 5000, "video/mp4")
    archive.answer("http://x/5", b"no type", None)
    archive.other("http://x/6", "request", b"GET / HTTP/1.1\r\n\r\n", "application/http; msgtype=request")
    archive.other("http://x/6", "metadata", b"fetchTimeMs: 1\r\n", "application/warc-fields")
    archive.other("http://x/6", "conversion", b"%PDF", "application/pdf")
    archive.other("dns:x", "response", b"x. IN A 127.0.0.1", "text/dns")
    archive.answer("http://x/7", b"text", "text/plain")
    others = (b"WARC-Type: revisit\r\n", b"WARC-Type: responze\r\n", b"", b"WARC-Type: conversion\r\n")
    more = b"".join(b"WARC/1.0\r\n%bContent-Length: 0\r\n\r\n\r\n\r\n" % each for each in others)
    path = write(tmp_path / "x.warc", archive.data + more)
    assert texts(read(path, max_record_bytes=1000)) == [("http://x/7", "text")]
    assert notes_of(path) == [
        "answers without Content-Type were not read: 1",
        "answers of other protocols than HTTP that hold no page or plain text were not read: 1",
        "revisits, whose contents are in other records, were not read: 1",
        "records of no type that is known (WARC-Type) were not read: 2",
        "resources and conversions without Content-Type were not read: 1",
    ]


@pytest.mark.parametrize(
    ("declared", "encoding"),
    [("gb2312", "gb18030"), ("Big5", "big5"), ('"shift_jis"', "shift_jis"), ("utf-8", "utf-8")],
)
@pytest.mark.parametrize("kind", ["text/html", "text/plain"])
def test_the_encoding_is_the_one_that_the_server_names(tmp_path, kind, declared, encoding):
    archive = Archive().answer("http://x/", "中文".encode(encoding), f"{kind};charset={declared}")
    assert texts(read(write(tmp_path / "x.warc", archive.data))) == [("http://x/", "中文")]


@pytest.mark.parametrize(
    ("text", "declared", "encoding"),
    [
        ("日本語の文章です", "iso-2022-jp", "iso2022_jp"),
        ("some words of a page", "utf-16le", "utf-16-le"),
        ("中 among other words", "utf-16be", "utf-16-be"),
    ],
)
def test_pages_of_bytes_that_are_utf_8_too_have_the_encoding_that_is_stated(
    tmp_path, text, declared, encoding
):
    """Their escapes and markup were taken for their texts."""
    page = f"<html><body><p>{text}</p></body></html>".encode(encoding)
    assert page.decode()
    archive = Archive().answer("http://x/", page, f"text/html; charset={declared}")
    assert texts(read(write(tmp_path / "x.warc", archive.data))) == [("http://x/", text)]
    unstated = Archive().answer("http://x/", page, "text/html")
    if encoding != "iso2022_jp":
        (reject,) = read(write(tmp_path / "y.warc", unstated.data))
        assert reject.reason.startswith("the page is not UTF-8 and states no encoding")
    else:
        stating = page.replace(b"<html>", b'<meta charset="iso-2022-jp">')
        ((_, found),) = texts(read(write(tmp_path / "x.html", stating)))
        assert found == extract_html(stating).text == text


@pytest.mark.parametrize("declared", ["klingon", "hex", "idna", "replacement", ""])
def test_an_encoding_that_browsers_do_not_know_is_none(tmp_path, declared):
    archive = Archive().answer("http://x/", "中文".encode(), f"text/plain; charset={declared}")
    assert texts(read(write(tmp_path / "x.warc", archive.data))) == [("http://x/", "中文")]


def test_content_that_the_server_has_packed_or_cut_to_chunks_is_unpacked(tmp_path):
    chunks = b"3\r\none\r\n4\r\n two\r\n0\r\n\r\n"
    archive = Archive()
    archive.answer("http://x/1", gzip.compress(b"one two"), "text/plain", Content_Encoding="gzip")
    archive.answer("http://x/2", zlib.compress(b"one two"), "text/plain", Content_Encoding="deflate")
    archive.answer("http://x/3", chunks, "text/plain", Transfer_Encoding="chunked")
    archive.answer("http://x/4", b"junk", "image/png", Content_Encoding="gzip")
    archive.answer("http://x/5", b"junk", "text/plain", Content_Encoding="gzip")
    archive.answer("http://x/6", b"one two", "text/plain")
    *good, bare, last = texts(read(write(tmp_path / "x.warc", archive.data)))
    assert good == [(f"http://x/{number}", "one two") for number in (1, 2, 3)]
    assert (bare, last) == (("http://x/5", "junk"), ("http://x/6", "one two"))


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, zstandard.compress])
def test_archives_are_read_packed_as_a_whole_too(tmp_path, pack):
    assert [item.id[-1] for item in read(write(tmp_path / "x.warc", pack(three().data)))] == list("abc")


def test_archives_that_are_packed_record_by_record_lie_in_folders_and_come_through_pipes(tmp_path):
    data = three(packed=True).data
    write(tmp_path / "x.warc.gz", data)
    assert [item.id[-1] for item in read(tmp_path)] == list("abc")
    assert [item.id[-1] for item in read("-", stdin=io.BytesIO(data), format="warc")] == list("abc")


def test_ids_may_be_made_of_places_and_texts(tmp_path):
    path = write(tmp_path / "x.warc", three().data)
    assert [item.id for item in read(path, id_from="line")] == [f"{path}:{number}" for number in (2, 3, 4)]
    assert {len(item.id) for item in read(path, id_from="text")} == {16}


def test_addresses_in_brackets_are_read_without_them(tmp_path):
    data = three().data.replace(b"URI: http://x/a\r", b"URI: <http://x/a>\r")
    assert read(write(tmp_path / "x.warc", data))[0].id == "http://x/a"
    data = three().data.replace(b"WARC-Target-URI: http://x/a\r", b"X: http://x/a\r")
    assert rejects(read(write(tmp_path / "x.warc", data)))[0] == (
        2, None, "the record has no WARC-Target-URI, which is its id"
    )  # fmt: skip


@pytest.mark.parametrize("size", [1001, 200_000])
def test_a_text_that_is_too_long_is_rejected_and_the_others_are_kept(tmp_path, size):
    archive = Archive().answer("http://x/1", b"x" * size, "text/plain")
    archive.answer("http://x/2", gzip.compress(b"x" * size), "text/plain", Content_Encoding="gzip")
    archive.answer("http://x/3", b"x" * 1000, "text/plain")
    *long, good = read(write(tmp_path / "x.warc", archive.data), max_record_bytes=1000)
    assert [item.id for item in long] == ["http://x/1", "http://x/2"]
    assert all("at most 1,000 are read" in item.reason for item in long)
    assert good.id == "http://x/3"


@pytest.mark.parametrize("packed", [False, True])
def test_an_archive_that_was_cut_short_gives_what_came_before_and_says_so(tmp_path, packed):
    data = three(packed=packed).data
    *records, end = read(write(tmp_path / "x.warc", data[: -len(data) // 4]))
    assert [item.id[-1] for item in records] == ["a", "b"][: len(records)]
    assert records
    assert (end.line, end.id) == (len(records) + 2, None if packed else "http://x/c")
    assert "cut short" in end.reason


def members(data: bytes) -> list[int]:
    """Where the records of a packed archive begin."""
    return [found.start() for found in re.finditer(b"\x1f\x8b\x08", data)]


@pytest.mark.parametrize("damaged", [[0], [1], [2], [1, 2], [0, 1, 2]])
@pytest.mark.parametrize("at", [20, 60, -6])  # in the content, and in the check sum
@pytest.mark.parametrize("is_pipe", [False, True])
def test_a_damaged_member_does_not_cost_the_others(tmp_path, damaged, at, is_pipe):
    data = bytearray(three(packed=True).data)
    begins = [*members(data), len(data)]
    for number in damaged:  # that of number 0 has no document
        data[(begins[number] if at > 0 else begins[number + 1]) + at] ^= 1
    path = write(tmp_path / "x.warc.gz", data)
    with path.open("rb", buffering=0) as file:
        pipe = io.BufferedReader(file)
        pipe.seekable = lambda: False
        items = read("-", stdin=pipe, format="warc") if is_pipe else read(path)
    records = [item for item in items if isinstance(item, Record)]
    assert [item.id[-1] for item in records] == [
        name for number, name in enumerate("abc", 1) if number not in damaged
    ]
    (lost,) = rejects(items)
    begin, size = begins[damaged[0]], begins[damaged[-1] + 1] - begins[damaged[0]]
    assert lost == (
        damaged[0] + 1,
        None,
        f"its gzip data is damaged: {size:,} bytes from byte {begin:,} on were skipped",
    )


def test_damage_of_the_last_member_is_told(tmp_path):
    data = bytearray(three(packed=True).data)
    data[members(data)[-1] + 30] ^= 1
    *records, end = read(write(tmp_path / "x.warc.gz", data))
    assert [item.id[-1] for item in records] == ["a", "b"]
    assert "its gzip data is damaged" in end.reason
    assert "Nothing from byte" in end.reason


def test_a_record_that_a_damaged_member_cut_does_not_swallow_the_next_one(tmp_path):
    first, second = three().data, three(packed=True).data
    torn = gzip.compress(first[:-4000]) + gzip.compress(first[-4000:], mtime=0)[:-9] + second
    items = read(write(tmp_path / "x.warc.gz", torn))
    assert [item.id[-1] for item in items if isinstance(item, Record)] == list("aabc")
    assert [line for line, _, _ in rejects(items)] == [3, 4]


def test_many_records_of_wrong_lengths_take_linear_time(tmp_path):
    record = b"WARC/1.0\r\nContent-Length: 16000000\r\n\r\nx\r\n"
    started = process_time()
    items = read(write(tmp_path / "x.warc", record * 60_000))
    assert len(items) == 60_000
    assert process_time() - started < 5  # 60,000 copies of the rest took a minute


def test_line_ends_that_many_records_may_end_at_take_little_time(tmp_path):
    """Each of 2,000 records looked at 65,536 of them one by one: half a minute for 6 kB of gzip."""
    head, number = b"WARC/1.0\nContent-Length: %09d\n\n", 20_000
    size = len(head % 0)
    records = (head % ((number - each) * size) for each in range(1, number + 1))
    started = process_time()
    items = read(write(tmp_path / "x.warc", b"".join(records) + b"\n" * 66_000 + b"x"))
    assert len(items) == number
    assert all("its length" in reason for _, _, reason in rejects(items))
    assert process_time() - started < 5


@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b"\n" * 5, b"\r\n" * 500])
def test_records_are_parted_by_any_line_ends(tmp_path, ends):
    head = b"WARC/1.0\nWARC-Type: resource\nWARC-Target-URI: %d\nContent-Type: text/plain\n"
    head += b"Content-Length: 4\n\n"
    data = b"".join(head % number + b"text" + ends for number in (1, 2, 3))
    members = [gzip.compress(data[start : start + 7]) for start in range(0, len(data), 7)]
    for name, content in (("x.warc", data), ("x.warc.gz", b"".join(members))):
        found = texts(read(write(tmp_path / name, content)))
        assert found == [("1", "text"), ("2", "text"), ("3", "text")]


@pytest.mark.slow
@pytest.mark.parametrize(("coding", "pack"), [("gzip", gzip.compress), ("zstd", zstandard.compress)])
def test_a_body_of_many_small_members_takes_linear_time(tmp_path, coding, pack):
    archive = Archive().answer("http://x/1", pack(b"x") * 200_000, "text/plain", Content_Encoding=coding)
    started = process_time()
    assert texts(read(write(tmp_path / "x.warc", archive.data))) == [("http://x/1", "x" * 200_000)]
    assert process_time() - started < 8  # copies of the rest for each member took a minute


def test_a_body_of_many_codings_is_rejected(tmp_path):
    """Each unpacks as much as a record may have, and a header has room for thousands."""
    body, codings = b"some words", 20
    for _ in range(codings):
        body = gzip.compress(body)
    archive = Archive().answer(
        "http://x/1", body, "text/plain", Content_Encoding=", ".join(["gzip"] * codings)
    )
    ((_, _, reason),) = rejects(read(write(tmp_path / "x.warc", archive.data)))
    assert reason == "its content has 20 codings, at most 5 are read"


def test_a_length_of_many_digits_is_none(tmp_path):
    record = b"WARC/1.0\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\nx\r\n\r\n"
    ((_, _, reason),) = rejects(read(write(tmp_path / "x.warc", record)))
    assert reason.startswith("the record has no length")


def test_a_record_that_lost_some_bytes_is_told(tmp_path):
    data = three().data
    begin = data.index(b"bbbb")
    first, lost, last = read(write(tmp_path / "x.warc", data[:begin] + data[begin + 10 :]))
    assert (first.id, last.id, last.text) == ("http://x/a", "http://x/c", "c" * 3000)
    assert (type(lost), lost.line, lost.id) == (Reject, 3, "http://x/b")
    assert "is wrong, or it was cut short" in lost.reason


def test_a_record_that_lost_its_end_is_told_and_costs_no_more_than_the_one_on_its_line(tmp_path):
    """Of two that were joined, the headers of both together look like those of the second."""
    first, *records = re.split(rb"(?=WARC/1\.0\r\n)", three().data)[1:]
    cut, path = records[1], tmp_path / "x.warc"
    for end in range(5, cut.index(b"bbb")):
        write(path, first + records[0] + cut[:end] + records[2])
        before, lost, *behind = read(path)
        assert (before.id, type(lost)) == ("http://x/a", Reject)
        assert [each.id for each in behind] == ["http://x/c"] * cut[:end].endswith(b"\n")


def test_what_is_no_archive_is_one_reject(tmp_path):
    (item,) = read(write(tmp_path / "x.warc", b"hello\nworld\n" * 100))
    assert isinstance(item, SourceReject)
    assert item.reason == "it is no WARC: those begin with WARC/"


def test_every_encoding_of_browsers_is_one_of_pythons():
    labels = "866 ansi_x3.4-1968 big5-hkscs cp1250 csiso2022kr euc-jp euc-kr gb18030 hz-gb-2312 ibm866 \
        iso-2022-jp iso-8859-1 iso-8859-8-i iso-8859-16 koi8-u logical macintosh ms_kanji sjis tis-620 \
        utf-16 utf-16be utf-16le windows-874 windows-949 x-cp1258 x-mac-cyrillic x-user-defined x-x-big5"
    for label in labels.split():
        if (name := map_encoding_to_html5(label, False)) is not None:
            b"".decode(name)


@given(st.data())
def test_an_archive_cut_anywhere_gives_the_records_before_and_says_so(tmp_path_factory, data):
    whole = three().data
    kept = data.draw(st.integers(1, len(whole) - 5))  # without the line ends of the last record it is whole
    path: Path = write(tmp_path_factory.mktemp("warc") / "x.warc", whole[:kept])
    items = read(path)
    ids = [item.id[-1] for item in items if isinstance(item, Record)]
    assert ids == list("abc")[: len(ids)]
    between = whole[kept:].lstrip(b"\r\n").startswith(b"WARC/1.0")
    assert between or isinstance(items[-1], Reject)


@given(
    st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 60), st.binary(max_size=9)), max_size=4
    )
)
def test_no_damage_raises_anything(tmp_path_factory, changes):
    data = bytearray(three().data)
    for place, removed, inserted in changes:
        begin = int(place * len(data))
        data[begin : begin + removed] = inserted
    items = read(write(tmp_path_factory.mktemp("warc") / "x.warc", bytes(data)))
    assert all(isinstance(item, Record | Reject) for item in items)


@pytest.mark.parametrize("junk", [b"", b"junk", b"\n\nWARCjunk\r\n" * 9])
@pytest.mark.parametrize("length", [b"Content-Length: 7\r\n", b"Content-Length: 999999\r\n", b"X: y\r\n"])
def test_one_broken_record_does_not_cost_the_others(tmp_path, junk, length):
    data = three().data
    begin = data.rindex(b"WARC/", 0, data.index(b"http://x/b"))
    broken = b"WARC/1.0\r\nWARC-Type: resource\r\n" + length + b"\r\ntext of another length\r\n\r\n"
    items = read(write(tmp_path / "x.warc", data[:begin] + junk + broken + data[begin:]))
    records = [item for item in items if isinstance(item, Record)]
    assert [(item.id, item.text) for item in records] == [(f"http://x/{name}", name * 3000) for name in "abc"]
    assert len(items) == 4 + junk.endswith(b"\n")  # junk on the line of a record costs it


def test_lines_may_end_with_lf_only(tmp_path):
    head = b"WARC/1.0\nWARC-Type: conversion\nContent-Type: text/plain\nContent-Length: 9\n"
    data = b"".join(b"%bWARC-Target-URI: %b\n\n%b\n\n" % (head, name, name * 9) for name in (b"a", b"b"))
    assert texts(read(write(tmp_path / "x.warc", data))) == [("a", "a" * 9), ("b", "b" * 9)]


def test_extracts_of_common_crawl_are_texts(tmp_path):
    archive = Archive(packed=True)
    for number in range(3):
        archive.other(f"http://x/{number}", "conversion", f"{number} 中文".encode(), "text/plain")
    write(tmp_path / "a.warc.wet.gz", archive.data)
    assert texts(read(tmp_path)) == [(f"http://x/{number}", f"{number} 中文") for number in range(3)]


def _raw_deflated(body):
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(body) + compressor.flush()


BODY = b"<p>The council decided on Tuesday to build a new bridge beside the old mill.</p>" * 3


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (gzip.compress(BODY), {"Content_Encoding": "x-gzip"}),
        (gzip.compress(BODY), {"Content_Encoding": "GZIP"}),
        (gzip.compress(gzip.compress(BODY)), {"Content_Encoding": "gzip, gzip"}),
        (gzip.compress(BODY[:60]) + gzip.compress(BODY[60:]), {"Content_Encoding": "gzip"}),
        (_raw_deflated(BODY), {"Content_Encoding": "deflate"}),
        (BODY, {"Content_Encoding": "gzip"}),
        (BODY, {"Content_Encoding": "br"}),
        (BODY, {"Content_Encoding": "utf-8"}),
        (BODY, {"Transfer_Encoding": "chunked"}),
        (b"%X;a=b\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY), {"Transfer_Encoding": "chunked"}),
        (gzip.compress(BODY), {"Transfer_Encoding": "chunked", "Content_Encoding": "gzip"}),
    ],
    # Not the bodies: gzip writes the time into them, and workers have to collect the same tests.
    ids=lambda given: "body" if isinstance(given, bytes) else " ".join(given.values()),
)
def test_bodies_are_decoded_as_far_as_they_are_coded(tmp_path, body, headers):
    archive = Archive().answer("http://x/1", body, "text/plain", **headers)
    assert texts(read(write(tmp_path / "x.warc", archive.data))) == [("http://x/1", BODY.decode())]


NOISE = random.Random(1).randbytes(2000).hex().encode()
CODINGS = {
    "gzip": gzip.compress(NOISE, mtime=0),
    "deflate": zlib.compress(NOISE),
    "DEFLATE": _raw_deflated(NOISE),
    "br": brotli.compress(NOISE),
    "zstd": zstandard.compress(NOISE),
    "gzip, br": brotli.compress(gzip.compress(NOISE, mtime=0)),
}


@pytest.mark.parametrize("lost", [0, 1, 12, 1000])
@pytest.mark.parametrize("coding", CODINGS)
def test_a_coded_body_that_was_cut_short_is_rejected(tmp_path, coding, lost):
    body = CODINGS[coding]
    archive = Archive().answer("http://x/1", body[: len(body) - lost], "text/plain", Content_Encoding=coding)
    items = read(write(tmp_path / "x.warc", archive.data))
    if not lost:
        assert texts(items) == [("http://x/1", NOISE.decode())]
        return
    ((_, name, reason),) = rejects(items)
    assert name == "http://x/1"
    assert "ends in the middle" in reason


def test_a_coding_that_is_not_read_is_named(tmp_path):
    archive = Archive().answer("http://x/1", CODINGS["br"], "text/plain", Content_Encoding="dcb")
    ((_, _, reason),) = rejects(read(write(tmp_path / "x.warc", archive.data)))
    assert reason == "its content is not in the coding that it names, or that is not read (dcb)"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"3\r\none\r\n4\r\n tw", "the last chunk is missing"),
        (b"3\r\none\r\n4\r\n two\r\n", "the last chunk is missing"),
        (b"3\r\none\r\nbroken", "one is damaged"),
        (b"fff\r\none", "one is damaged"),
        (b"f" * 9 + b"\r\none", "one is damaged"),
        (b"3\r\none\r\n%b\r\n two" % (b"f" * 40), "one is damaged"),
    ],
)
def test_chunks_that_are_missing_are_told(tmp_path, body, reason):
    archive = Archive().answer("http://x/1", body, "text/plain", Transfer_Encoding="chunked")
    ((_, name, said),) = rejects(read(write(tmp_path / "x.warc", archive.data)))
    assert name == "http://x/1"
    assert reason in said


@pytest.mark.parametrize(
    ("status", "headers", "reason"),
    [
        ("200 OK", {"Content_Length": "99999"}, "its content ends in the middle: 240 bytes of 99,999"),
        ("206 Partial", {}, "the server sent only a part of it (status 206)"),
        (
            "206 Partial",
            {"Content_Range": "bytes 0-239/1000"},
            "the server sent only a part of it (status 206)",
        ),
        ("206 Partial", {"Content_Range": "bytes 0-239/240"}, None),
        ("200 OK", {"Content_Length": "240"}, None),
        ("200 OK", {"Content_Length": "999", "Transfer_Encoding": "chunked"}, None),
    ],
)
def test_a_part_of_an_answer_is_no_document(tmp_path, status, headers, reason):
    archive = Archive().answer("http://x/1", BODY, "text/plain", status, **headers)
    found = rejects(read(write(tmp_path / "x.warc", archive.data)))
    assert found == ([(2, "http://x/1", reason)] if reason else [])


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("WARC-Truncated: length", "the crawler kept only its beginning (WARC-Truncated: length)"),
        ("WARC-Segment-Number: 1", "it is one of several segments of a record: they are not joined"),
    ],
)
def test_a_part_of_a_record_is_no_document(tmp_path, header, reason):
    data = three().data.replace(
        b"WARC-Target-URI: http://x/b\r\n", b"WARC-Target-URI: http://x/b\r\n%b\r\n" % header.encode()
    )
    assert rejects(read(write(tmp_path / "x.warc", data))) == [(3, "http://x/b", reason)]


def test_bodies_that_differ_from_their_headers_are_counted(tmp_path):
    archive = Archive().answer("http://x/1", BODY, "text/plain", Content_Encoding="gzip", Content_Length="9")
    path = write(tmp_path / "x.warc", archive.data)
    assert texts(read(path)) == [("http://x/1", BODY.decode())]
    assert notes_of(path) == [
        "answers are longer than their Content-Length, and were read to their ends: 1",
        "answers have not the Content-Encoding that they name, and were read as they are: 1",
    ]


CHUNKED = {"Transfer_Encoding": "chunked"}


@pytest.mark.parametrize(
    ("body", "headers", "note"),
    [
        (
            b"zz\r\none two",
            CHUNKED,
            "answers have not the Transfer-Encoding that they name, and were read as they are: 1",
        ),
        (b"3\r\none\r\n0\r\n\r\n", CHUNKED, None),
        (
            b"one",
            {"Content_Length": "0x3"},
            "answers have a Content-Length that is no number, and were read to their ends: 1",
        ),
        (b"3\r\none\r\n00\r\nExpires: 0\r\n\r\n", CHUNKED, None),
        (
            b"3\r\none\r\n0\r\n\r\nmore",
            CHUNKED,
            "answers have more bytes behind their end, which were not read: 1",
        ),
        (gzip.compress(b"one", mtime=0) + b"\r\n\0", {"Content_Encoding": "gzip"}, None),
        (
            gzip.compress(b"one", mtime=0) + b"more",
            {"Content_Encoding": "gzip"},
            "answers have more bytes behind their end, which were not read: 1",
        ),
        (
            zlib.compress(b"one") + b"more",
            {"Content_Encoding": "deflate"},
            "answers have more bytes behind their end, which were not read: 1",
        ),
        (
            brotli.compress(b"one") + b"more",
            {"Content_Encoding": "br"},
            "answers have more bytes behind their end, which were not read: 1",
        ),
        (brotli.compress(b"one") + b"\r\n", {"Content_Encoding": "br"}, None),
        (
            zstandard.compress(b"one") + b"more",
            {"Content_Encoding": "zstd"},
            "answers have more bytes behind their end, which were not read: 1",
        ),
        (gzip.compress(b"one", mtime=0), {"Transfer_Encoding": "gzip"}, None),
    ],
    ids=range(12),
)
def test_what_is_not_read_of_a_body_is_counted(tmp_path, body, headers, note):
    archive = Archive().answer("http://x/1", body, "text/plain", **headers)
    path = write(tmp_path / "x.warc", archive.data)
    ((_, text),) = texts(read(path))
    assert text in ("one", "zz\r\none two")
    assert notes_of(path) == [note][: note is not None]


def test_the_end_of_a_long_body_in_brotli_is_found_about_as_fast_as_it_is_read(tmp_path):
    """It was looked for a byte at a time from the beginning on."""
    body, taken = brotli.compress(random.Random(1).randbytes(1 << 21).hex().encode(), quality=1), []
    for sent in (body, body + b"more", body[:-1]):
        archive = Archive().answer("http://x/1", sent, "text/plain", Content_Encoding="br")
        path = write(tmp_path / "x.warc", archive.data)
        begin = process_time()
        read(path)
        taken.append(process_time() - begin)
    assert max(taken) < 8 * taken[0], taken


def record(
    address: str, block: bytes, more: int = 0, kind: bytes = b"text/plain", http: bytes = b""
) -> bytes:
    """An answer whose record says that it has so many bytes more. http: further headers, with line ends."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\n%b\r\n%b" % (kind, http, block)
    head = b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: %b\r\nContent-Type: application/http\r\n"
    return b"%bContent-Length: %d\r\n\r\n%b\r\n\r\n" % (head % address.encode(), len(answer) + more, answer)


@pytest.mark.parametrize("kind", [b"text/plain", b"image/png"])
@pytest.mark.parametrize(
    ("body", "http"),
    [
        (b"two", b"Content-Length: 3\r\n"),
        (b"two", b""),
        (b"3\r\ntwo\r\n0\r\n\r\n", b"Transfer-Encoding: chunked\r\n"),
        (b"two", b"Transfer-Encoding: chunked\r\n"),
        (b"two", b"Content-Length: 7\r\n"),  # with the line ends behind the record
    ],
)
@pytest.mark.parametrize("hidden", [1, 2])
def test_a_record_that_covers_others_is_rejected(tmp_path, kind, body, http, hidden):
    others = [
        record("http://x/3", b"three"),
        record("http://x/4", b"\r\n\r\nfour"),
        record("http://x/5", b"five"),
    ]
    covered = sum(map(len, others[:hidden]))
    covering = record("http://x/2", body, covered, kind, http)
    data = record("http://x/1", b"one") + covering + b"".join(others)
    items = read(write(tmp_path / "x.warc", data))
    reason = "its length is wrong: it covers other records, which are not read"
    assert rejects(items) == [(2, "http://x/2", reason)]
    kept = [item.id for item in items if isinstance(item, Record)]
    assert kept == ["http://x/1", *(f"http://x/{number}" for number in range(3 + hidden, 6))]


def test_a_record_that_begins_with_another_is_rejected(tmp_path):
    other = record("http://x/2", b"two")
    head = b"WARC/1.0\r\nWARC-Type: resource\r\nWARC-Target-URI: x\r\nContent-Type: image/png\r\n"
    data = b"%bContent-Length: %d\r\n\r\n%b\r\n\r\n" % (head, len(other), other)
    ((_, name, reason),) = rejects(read(write(tmp_path / "x.warc", data)))
    assert (name, reason) == ("x", "its length is wrong: it covers other records, which are not read")


@pytest.mark.parametrize("kind", [b"text/plain", b"image/png"])
@pytest.mark.parametrize("before", [0, 70_000, 140_000, 140_000 - 400])
def test_a_record_that_is_too_large_to_be_held_is_searched_for_others_to_its_end(tmp_path, kind, before):
    """Those behind the end that the server stated; within what it sent they are text."""
    body, behind = b"x" * before, b"\r\n" + record("http://x/3", b"three") + b"y" * 150_000
    for said in (before, before + len(behind)):
        http = b"Content-Length: %d\r\n" % said
        data = record("http://x/1", b"one") + record("http://x/2", body + behind, 0, kind, http)
        items = read(write(tmp_path / "x.warc", data), max_record_bytes=1000)
        reasons = [reason for _, _, reason in rejects(items)]
        covers = "its length is wrong: it covers other records, which are not read" in reasons
        assert covers == (said == before)
        assert len(reasons) == (covers or kind == b"text/plain")


@pytest.mark.parametrize(
    ("repeated", "shown"),
    [
        (
            b"WARC-Target-URI: http://x/other",
            "WARC-Target-URI is there with several values: http://x/b, htt",
        ),
        (b"warc-type: request", "WARC-Type is there with several values: response, request"),
        (b"Content-Type: text/plain", "Content-Type is there with several values: text/plain, ap"),
        (b"WARC-Type: response", None),
        (b"WARC-Concurrent-To: <urn:a>\r\nWARC-Concurrent-To: <urn:b>", None),
    ],
)
def test_a_header_of_a_record_with_several_values_is_rejected(tmp_path, repeated, shown):
    address = b"WARC-Target-URI: http://x/b\r\n"
    data = three().data.replace(address, address + repeated + b"\r\n")
    items = read(write(tmp_path / "x.warc", data))
    assert sum(isinstance(item, Record) for item in items) == (2 if shown else 3)
    assert [reason.startswith(f"its header {shown}") for _, _, reason in rejects(items)] == [True][
        : bool(shown)
    ]


def test_headers_of_a_record_that_are_too_large_are_told(tmp_path):
    """What is behind the limit was taken for the text."""
    long = b"".join(b"A%d: %b\r\n" % (number, b"x" * 1000) for number in range(70))
    head = b"WARC/1.0\r\nWARC-Type: resource\r\nContent-Type: text/plain\r\nWARC-Target-URI: y\r\n"
    bad = head + b"Content-Length: 9000\r\n" + long + b"\r\n" + b"a" * 9000 + b"\r\n\r\n"
    items = read(write(tmp_path / "x.warc", bad + three().data))
    assert sum(isinstance(item, Record) for item in items) == 3
    ((_, _, reason),) = rejects(items)
    assert reason.startswith("its headers have more than 65,536 bytes")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (["text/plain", "text/html"], None),
        (["text/html", "image/png"], None),
        (["text/plain; charset=gbk", "text/plain; charset=big5"], None),
        (["text/plain", "text/plain; charset=gbk"], "文"),
        (["Text/Plain; charset=gb2312", "text/plain;charset=GBK"], "文"),
    ],
)
def test_several_types_of_an_answer_are_rejected_where_they_differ(tmp_path, values, text):
    http = "".join(f"Content-Type: {value}\r\n" for value in values).encode()
    answer = b"HTTP/1.1 200 OK\r\n%b\r\n%b" % (http, "文".encode("gbk"))
    head = b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://x/1\r\n"
    items = read(
        write(tmp_path / "x.warc", b"%bContent-Length: %d\r\n\r\n%b\r\n\r\n" % (head, len(answer), answer))
    )
    if text:
        assert texts(items) == [("http://x/1", text)]
        return
    ((_, name, reason),) = rejects(items)
    assert name == "http://x/1"
    assert reason == f"its server names several types (Content-Type): {', '.join(values)}"


@pytest.mark.parametrize("more", [0, 4])  # with the line ends behind the last record or without
def test_a_record_that_covers_the_rest_is_rejected(tmp_path, more):
    last = record("http://x/2", b"two")
    path = write(tmp_path / "x.warc", record("http://x/1", b"one", len(last) + more) + last)
    assert [name for _, name, _ in rejects(read(path))] == ["http://x/1"]


@pytest.mark.parametrize("name", ["Content_Length", "Transfer_Encoding"])
def test_a_record_within_what_a_server_sent_is_text(tmp_path, name):
    body = b"An archive:\r\n\r\n" + record("http://x/1", b"one")
    said = str(len(body)) if name == "Content_Length" else "chunked"
    sent = body if name == "Content_Length" else b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    archive = Archive().answer("http://x/2", sent, "text/plain", **{name: said})
    ((address, text),) = texts(read(write(tmp_path / "x.warc", archive.data)))
    assert address == "http://x/2"
    assert text.startswith("An archive:")


def test_the_beginning_of_a_record_in_a_text_is_text(tmp_path):
    body = b"An example:\r\n\r\nWARC/1.0\r\nWARC-Type: response\r\nContent-Length: 9000\r\n\r\nand so on"
    archive = Archive().answer("http://x/2", body, "text/plain")
    assert len(texts(read(write(tmp_path / "x.warc", archive.data)))) == 1


@pytest.mark.parametrize("lengths", [(b"99", b"100"), (b"100", b"99"), (b"100", b"100")])
def test_two_lengths_of_a_record_are_none(tmp_path, lengths):
    fields = b"".join(b"Content-Length: %b\r\n" % length for length in lengths)
    head = b"WARC/1.0\r\nWARC-Type: resource\r\nWARC-Target-URI: x\r\nContent-Type: text/plain\r\n"
    items = read(write(tmp_path / "x.warc", b"%b%b\r\n%b\r\n\r\n" % (head, fields, b"a" * 100)))
    if lengths[0] == lengths[1]:
        assert texts(items) == [("x", "a" * 100)]
        return
    ((_, name, reason),) = rejects(items)
    assert name == "x"
    said = b", ".join(lengths).decode()
    assert reason == f"the record has no length that is clear ({said}): 104 bytes were skipped"


def test_answers_of_other_protocols_are_read_whole(tmp_path):
    archive = Archive().other("ftp://x/1", "response", b"Title: a\n\ntext", "text/plain")
    assert texts(read(write(tmp_path / "x.warc", archive.data))) == [("ftp://x/1", "Title: a\n\ntext")]


@pytest.mark.parametrize(
    "block", [b"", b"no answer", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nx"]
)
def test_what_is_no_answer_of_a_web_server_is_told(tmp_path, block):
    head = b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://x/1\r\n"
    more = b"Content-Type: application/http\r\nContent-Length: %d\r\n\r\n%b\r\n\r\n"
    data = head + more % (len(block), block)
    ((_, name, reason),) = rejects(read(write(tmp_path / "x.warc", data)))
    assert name == "http://x/1"
    assert reason.startswith("the record does not begin with the last answer of a web server")


ARCHIVES = {
    "small pages": ("a.warc", lambda size: answers(size)),
    "bytes between": ("a.warc", lambda size: Archive().data + b"x\r\n" * (size // 3)),
    "a line without end": ("a.warc", lambda size: Archive().data + b"WARC/1.0\r\nA: " + b"x" * size),
    "headers": ("a.warc", lambda size: Archive().data + b"WARC/1.0\r\n" + b"A: x\r\n" * (size // 6)),
    "beginnings": ("a.warc", lambda size: Archive().data + b"WARC/1.0\r\n" * (size // 10)),
    "beginnings in a text": (
        "a.warc",
        lambda size: Archive().answer("http://a", b"\nWARC/1.0\nA: b" * (size // 15), "text/plain").data,
    ),
    "empty members": (
        "a.warc.gz",
        lambda size: gzip.compress(Archive().data) + gzip.compress(b"") * (size // 20),
    ),
    "damaged members": (
        "a.warc.gz",
        lambda size: gzip.compress(Archive().data) + b"\x1f\x8b\x08" * (size // 3),
    ),
    "members of gzip": ("a.jsonl.gz", lambda size: gzip.compress(LINE) * (size // 44)),
    "members of bzip2": ("a.jsonl.bz2", lambda size: bz2.compress(LINE) * (size // 60)),
    "frames of zstd": ("a.jsonl.zst", lambda size: zstandard.compress(LINE) * (size // 40)),
}
LINE = b'{"id":1,"text":"a b c"}\n'


def answers(size: int) -> bytes:
    archive = Archive()
    for number in range(size // 500):
        archive.answer(f"http://a/{number}", PAGE.encode())
    return archive.data


@pytest.mark.slow
@pytest.mark.parametrize("size", [1 << 18, pytest.param(1 << 24, marks=pytest.mark.full)])
@pytest.mark.parametrize(("name", "make"), ARCHIVES.values(), ids=ARCHIVES)
def test_an_archive_takes_time_linear_in_its_size(tmp_path, name, make, size):
    """One many times as large takes at most three times as long a byte."""

    def seconds(size: int) -> float:
        path = write(tmp_path / name, make(size))
        spent = []
        for _ in range(1 if size > 1 << 20 else 3):
            start = process_time()
            read(path)
            spent.append(process_time() - start)
        return min(spent)

    short = 1 << 14
    assert seconds(size) < 3 * size / short * max(seconds(short), 0.001)
