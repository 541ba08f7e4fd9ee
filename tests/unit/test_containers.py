"""Files that hold others, or are of other programs: read, or refused by their names."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pickle
import re
import sqlite3
import struct
import tarfile
import zipfile
from base64 import b64encode
from itertools import chain

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import zstandard
from pyarrow import feather, ipc, orc
from pyarrow import parquet as pq

import simhbase
from simhbase.corpus.formats import arrow_sizes, parquet
from simhbase.corpus.formats.arrow_sizes import blocks, first_message, message_at
from simhbase.corpus.record import InputOptions, SourceReject, size_of
from simhbase.corpus.sources import Sources
from tests.command_line import texts as contents_of
from tests.reading import json_lines, peak_of, read, texts, write

ROWS = [{"id": f"d{number}", "text": text} for number, text in enumerate(contents_of(50))]
TABLE = pa.Table.from_pylist(ROWS)
EXPECTED = [(row["id"], row["text"]) for row in ROWS]
LINES = json_lines(*ROWS)


def as_stream(path):
    with ipc.new_stream(path, TABLE.schema) as written:
        written.write_table(TABLE, max_chunksize=7)


def as_file(path):
    with ipc.new_file(path, TABLE.schema) as written:
        written.write_table(TABLE, max_chunksize=7)


@pytest.mark.parametrize("make", [as_stream, as_file, lambda path: feather.write_feather(TABLE, path)])
@pytest.mark.parametrize("name", ["data-00000-of-00001.arrow", "a.feather", "a"])
def test_arrow_is_read(tmp_path, make, name):
    make(str(tmp_path / name))
    assert texts(read(tmp_path / name)) == EXPECTED
    assert len(read(tmp_path / name, whole_rows=True)) == 50
    if name != "a":
        assert texts(read(tmp_path)) == EXPECTED


def test_arrow_that_was_cut_short_gives_what_came_before(tmp_path):
    as_stream(str(tmp_path / "a.arrow"))
    data = (tmp_path / "a.arrow").read_bytes()
    *records, end = read(write(tmp_path / "b.arrow", data[: len(data) // 2]))
    assert [item.id for item in records] == [f"d{number}" for number in range(len(records))]
    assert records
    assert "cannot be read" in end.reason


@pytest.mark.parametrize("rows", [0, 7, 49, 50])
def test_a_stream_that_was_cut_between_two_batches_says_so(tmp_path, rows):
    as_stream(str(tmp_path / "a.arrow"))
    ends = list(boundaries(tmp_path / "a.arrow"))
    data = (tmp_path / "a.arrow").read_bytes()[: ends[rows // 7 + (rows == 50)]]
    *records, end = read(write(tmp_path / "b.arrow", data))
    assert texts(records) == EXPECTED[:rows]
    assert isinstance(end, SourceReject) == (rows == 0)
    assert "it was cut short: it has no mark of its end" in end.reason


def boundaries(path, count=9):
    """Where the messages of a stream end, the first of which is its schema."""
    with path.open("rb") as file:
        for _ in range(count):
            ipc.read_message(file)
            yield file.tell()


def test_streams_that_were_joined_are_not_taken_for_the_first_one(tmp_path):
    as_stream(str(tmp_path / "a.arrow"))
    data = (tmp_path / "a.arrow").read_bytes()
    *records, end = read(write(tmp_path / "b.arrow", data + data))
    assert texts(records) == EXPECTED
    assert "more data follows its end" in end.reason


def test_nothing_behind_a_damaged_batch_of_a_stream_is_taken_for_what_follows(tmp_path):
    packed = ipc.IpcWriteOptions(compression="zstd")
    with ipc.new_stream(str(tmp_path / "a.arrow"), TABLE.schema, options=packed) as written:
        written.write_table(TABLE, max_chunksize=7)
    data = bytearray((tmp_path / "a.arrow").read_bytes())
    frames = [found.start() for found in re.finditer(rb"\x28\xb5\x2f\xfd", data)]
    data[frames[4]] ^= 1  # of the offsets of ids in the second batch
    *records, end = read(write(tmp_path / "b.arrow", bytes(data)))
    assert texts(records) == EXPECTED[:7]
    assert (end.line, "cannot be read from this row on" in end.reason) == (8, True)


@pytest.mark.parametrize("offset", [2_000_000_000, -2_000_000_000, 101])
@pytest.mark.parametrize("is_shared", [False, True])
def test_offsets_that_lead_out_of_the_file_end_no_process(tmp_path, offset, is_shared):
    column = pa.array(["x" * 50] * 3 + ["y" * 50])
    table = pa.table({"id": list("abcd"), "text": column.dictionary_encode() if is_shared else column})
    with ipc.new_file(str(tmp_path / "a.arrow"), table.schema) as written:
        written.write_table(table)
    data = (tmp_path / "a.arrow").read_bytes()
    offsets = struct.pack("<2i", 0, 50)
    assert data.count(offsets) == 1
    damaged = data.replace(offsets, struct.pack("<2i", 0, offset))
    (end,) = read(write(tmp_path / "b.arrow", damaged))
    assert "Offset invariant failure" in end.reason


@pytest.mark.parametrize("options", [{}, {"whole_rows": True}])
def test_values_that_rows_share_are_not_unpacked_for_all_at_once(tmp_path, options):
    text = "x" * 10_000_000
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 8, pa.int32()), pa.array([text]))
    table = pa.table({"id": list("abcdefgh"), "text": column})
    with ipc.new_file(str(tmp_path / "a.arrow"), table.schema) as written:
        written.write_table(table)
    del column, table
    assert peak_of(tmp_path / "a.arrow", **options) < 60_000_000


def _lists(values):
    return pa.ListArray.from_arrays(pa.array(range(0, 401, 50), pa.int32()), values.take(pa.array([0] * 400)))


def _views(values):
    """Views of one text, as they lie in memory."""
    _, view, text = values.dictionary.cast(pa.string_view()).buffers()
    return pa.Array.from_buffers(pa.string_view(), 8, [None, pa.py_buffer(view.to_pybytes() * 8), text])


def _listed_views(values):
    zeros, sizes = pa.array([0] * 8, pa.int32()), pa.array([50] * 8, pa.int32())
    return pa.ListViewArray.from_arrays(zeros, sizes, values.take(pa.array([0] * 50)))


@pytest.mark.parametrize(
    "shared",
    [
        lambda values: values,
        _lists,
        _views,
        _listed_views,
        lambda values: pa.RunEndEncodedArray.from_arrays(pa.array([8], pa.int32()), values.dictionary),
        lambda values: pa.StructArray.from_arrays([_lists(values)], ["within"]),
    ],
)
@pytest.mark.parametrize("suffix", ["arrow", "parquet"])
def test_values_that_whole_rows_share_take_bounded_memory(tmp_path, suffix, shared):
    """2 kB of a file took gigabytes, where all columns are kept for output files."""
    path = tmp_path / f"a.{suffix}"
    values = pa.DictionaryArray.from_arrays(pa.array([0] * 8, pa.int32()), pa.array(["x" * 10_000_000]))
    table = pa.table({"id": list("abcdefgh"), "text": list("abcdefgh"), "of all": shared(values)})
    if suffix == "arrow":
        with ipc.new_file(path, table.schema, options=ipc.IpcWriteOptions(compression="zstd")) as written:
            written.write_table(table)
    else:
        try:
            pq.write_table(table, path, compression="zstd", dictionary_pagesize_limit=1 << 30)
        except pa.ArrowNotImplementedError:
            pytest.skip("Parquet has no such column")
    del values, table
    assert peak_of(path, whole_rows=True) < 120_000_000
    for chunk in Sources([str(path)], InputOptions(whole_rows=True)).chunks():
        assert size_of(chunk) < 11_000_000


def test_a_name_of_a_column_that_is_not_utf8_is_damage(tmp_path):
    as_stream(str(tmp_path / "a.arrow"))
    data = (tmp_path / "a.arrow").read_bytes().replace(b"text\0", b"te\xffx\0")
    (end,) = read(write(tmp_path / "b.arrow", data))
    assert isinstance(end, SourceReject)
    assert "it is damaged or was cut short" in end.reason


def test_a_size_beyond_all_memory_is_damage(tmp_path):
    with ipc.new_stream(str(tmp_path / "a.arrow"), TABLE.schema) as written:
        written.write_table(TABLE)
    ends = list(boundaries(tmp_path / "a.arrow", 2))
    data = (tmp_path / "a.arrow").read_bytes()
    with (tmp_path / "a.arrow").open("rb") as file:
        size = message_at(file, ends[0]).packed
    sizes = data.replace(struct.pack("<q", size), struct.pack("<q", 1 << 60))
    assert sizes != data
    (end,) = read(write(tmp_path / "b.arrow", sizes))
    assert "it is damaged or was cut short" in end.reason


@pytest.mark.parametrize("new", [ipc.new_stream, ipc.new_file])
@pytest.mark.parametrize("is_shared", [False, True])
def test_rows_that_take_much_memory_for_few_bytes_are_not_read(tmp_path, monkeypatch, new, is_shared):
    monkeypatch.setattr(parquet, "MAX_RECORD_BYTES", 1 << 20)
    column = pa.array(["x" * 20_000_000])
    large = pa.table({"id": ["a"], "text": column.dictionary_encode() if is_shared else column})
    packed = ipc.IpcWriteOptions(compression="zstd")
    with new(str(tmp_path / "a.arrow"), large.schema, options=packed) as file:
        if not is_shared:
            file.write_table(pa.table({"id": ["b"], "text": ["small"]}))
        file.write_table(large)
    del column, large
    assert peak_of(tmp_path / "a.arrow", max_record_bytes=1000) < 1_000_000
    *records, end = read(tmp_path / "a.arrow", max_record_bytes=1000)
    assert texts(records) == ([] if is_shared else [("b", "small")])
    assert "rows take 20,00" in end.reason


def as_often(data: bytes, places: range) -> bytes:
    """A flatbuffer in which all elements of a vector are the one that lies last."""
    last = max(place + struct.unpack_from("<I", data, place)[0] for place in places)
    changed = bytearray(data)
    for place in places:
        struct.pack_into("<I", changed, place, last - place)
    return bytes(changed)


def with_copies(data: bytes, begin: int, field: int, *, is_footer: bool = False) -> bytes:
    """A schema whose fields (1) or notes (2) are the one that lies last. begin: of its message or footer."""
    header = arrow_sizes._Table.of(data[begin:])
    schema = header.table(1 if is_footer else 2)
    return data[:begin] + as_often(data[begin:], schema.vector(field, 4))


LONG = "x" * 100_000  # the first one lies last
COPIED = {
    1: pa.schema([(LONG, pa.null()), *((f"c{number}", pa.null()) for number in range(1000))]),
    2: pa.schema([("text", pa.string())], {LONG: "", **{str(number): "" for number in range(1000)}}),
}


@pytest.mark.parametrize("field", [1, 2])
@pytest.mark.parametrize("kind", ["stream", "file", "parquet"])
def test_parts_of_a_schema_that_are_meant_often_are_counted_as_often(tmp_path, monkeypatch, field, kind):
    """Of 140 kB pyarrow made 2.4 GB, of a Parquet file of 190 kB twice as many."""
    schema, path = COPIED[field], str(tmp_path / "a.arrow")
    if kind == "stream":
        with ipc.new_stream(path, schema):
            pass
        whole = (tmp_path / "a.arrow").read_bytes()
        data = with_copies(whole, 8, field)
    elif kind == "file":
        with ipc.new_file(path, schema):
            pass
        whole = (tmp_path / "a.arrow").read_bytes()
        size = int.from_bytes(whole[-10:-6], "little")
        data = with_copies(whole, len(whole) - 10 - size, field, is_footer=True)
    else:
        with pq.ParquetWriter(path, TABLE.schema, store_schema=False) as written:
            written.write_table(TABLE)
            serial = with_copies(schema.serialize().to_pybytes(), 8, field)
            written.add_key_value_metadata({"ARROW:schema": b64encode(serial).decode()})
        data = (tmp_path / "a.arrow").read_bytes()
    write(tmp_path / "b.arrow", data)
    for module, name in ((ipc, "open_stream"), (ipc, "open_file"), (pq, "ParquetFile")):
        monkeypatch.setattr(module, name, lambda *_, **__: pytest.fail("it was read"))
    (end,) = read(tmp_path / "b.arrow")
    assert "its schema or notes have more than 131,072 parts" in end.reason


@pytest.mark.parametrize("new", [ipc.new_stream, ipc.new_file])
def test_rows_that_are_packed_as_arrow_0_17_did_are_counted(tmp_path, monkeypatch, new):
    """Of 61 kB pyarrow made 2 GB."""
    monkeypatch.setattr(parquet, "MAX_RECORD_BYTES", 1 << 20)
    options = ipc.IpcWriteOptions(compression="zstd", metadata_version=ipc.MetadataVersion.V4)
    large = pa.record_batch({"id": ["a"], "text": ["x" * 20_000_000]})
    with new(str(tmp_path / "a.arrow"), large.schema, options=options) as written:
        written.write_batch(large, custom_metadata={"ARROW:experimental_compression": "zstd"})
    data = bytearray((tmp_path / "a.arrow").read_bytes())
    begin = first_message(io.BytesIO(data)) if new is ipc.new_file else 0
    with (tmp_path / "a.arrow").open("rb") as file:
        begin = message_at(file, begin).end + 8
    batch = arrow_sizes._Table.of(bytes(data[begin:])).table(2)
    (fields,) = struct.unpack_from("<i", batch.data, batch.begin)
    place = begin + batch.begin - fields + 4 + 2 * 3
    data[place : place + 2] = bytes(2)  # the note alone says that it is compressed
    write(tmp_path / "b.arrow", bytes(data))
    assert peak_of(tmp_path / "b.arrow", max_record_bytes=1000) < 1_000_000
    (end,) = read(tmp_path / "b.arrow", max_record_bytes=1000)
    assert "rows take 20,00" in end.reason


def test_a_size_below_zero_hides_no_others(tmp_path):
    packed = ipc.IpcWriteOptions(compression="zstd")
    with ipc.new_file(str(tmp_path / "a.arrow"), TABLE.schema, options=packed) as written:
        written.write_table(pa.table({"id": ["a"], "text": ["x" * 100_000]}))
    with (tmp_path / "a.arrow").open("rb") as file:
        (place,) = blocks(file)[1]
        unpacked = message_at(file, place).unpacked
    data = (tmp_path / "a.arrow").read_bytes()
    offsets = struct.pack("<q", 8)  # bytes of the two offsets of a column
    assert data.count(offsets + b"\x28\xb5\x2f\xfd") + data.count(offsets) >= 1
    below = data.replace(struct.pack("<q", 100_000), struct.pack("<q", -100_000))
    with (write(tmp_path / "b.arrow", below)).open("rb") as file:
        assert unpacked - 100_000 <= message_at(file, place).unpacked < unpacked


def test_messages_of_before_arrow_0_15_are_refused_as_their_sizes_are_not_known(tmp_path):
    old = ipc.IpcWriteOptions(use_legacy_format=True)
    with ipc.new_file(str(tmp_path / "a.arrow"), TABLE.schema, options=old) as written:
        written.write_table(TABLE)
    assert ipc.open_file(str(tmp_path / "a.arrow")).read_all() == TABLE
    (end,) = read(tmp_path / "a.arrow")
    assert "a message has another head than those of Arrow" in end.reason


def test_batches_that_overlap_are_not_read_again_and_again(tmp_path):
    large = pa.table({"id": ["a"], "text": ["x" * 100_000]})
    with ipc.new_file(str(tmp_path / "a.arrow"), large.schema) as written:
        written.write_table(large)
        for _ in range(20):
            written.write_table(pa.table({"id": ["b"], "text": ["y"]}))
    data = bytearray((tmp_path / "a.arrow").read_bytes())
    with (tmp_path / "a.arrow").open("rb") as file:
        begins = blocks(file)[1]
    at = [data.rindex(struct.pack("<q", begin), len(data) - 2_000) for begin in begins]
    for each in at:
        data[each : each + 24] = data[at[0] : at[0] + 24]
    *records, end = read(write(tmp_path / "b.arrow", bytes(data)))
    assert (len(records), end.reason.endswith("(its batches overlap)")) == (1, True)


@pytest.mark.parametrize(
    ("listed", "given"), [([0, 1], 14), ([0, 2], 14), ([1, 2], 14), ([], 0), ([0, 0, 2], 7)]
)
@pytest.mark.parametrize("compression", [None, "zstd"])
def test_batches_that_a_footer_leaves_out_or_lists_twice_are_told(tmp_path, listed, given, compression):
    """Their documents were lost, or read twice, without a word."""
    with ipc.new_file(
        str(tmp_path / "a.arrow"), TABLE.schema, options=ipc.IpcWriteOptions(compression=compression)
    ) as written:
        written.write_table(TABLE[:21], max_chunksize=7)
    data = bytearray((tmp_path / "a.arrow").read_bytes())
    with (tmp_path / "a.arrow").open("rb") as file:
        first, *_ = blocks(file)[1]
    begin = data.rindex(struct.pack("<q", first))
    entries = [data[place : place + 24] for place in range(begin, begin + 72, 24)]
    data[begin - 4 : begin] = struct.pack("<i", len(listed))
    data[begin : begin + 24 * len(listed)] = b"".join(entries[number] for number in listed)
    *records, end = read(write(tmp_path / "b.arrow", bytes(data)))
    assert (len(records), isinstance(end, SourceReject)) == (given, not given)
    said = "its batches overlap" if listed == [0, 0, 2] else f"leaves out {3 - len(listed)} of its batches"
    assert end.reason.endswith(f"{said})")


@pytest.mark.parametrize("padding", [2, 58])
def test_the_first_message_of_a_file_is_behind_zero_bytes(padding):
    """Some writers align it to 64 bytes."""
    assert first_message(io.BytesIO(b"ARROW1" + bytes(padding) + b"\xff" * 4)) == 6 + padding


@pytest.mark.parametrize("new", [ipc.new_stream, ipc.new_file])
@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_sizes_of_messages_are_those_that_pyarrow_finds(tmp_path, new, compression):
    path, sizes = tmp_path / "a.arrow", []
    shared = TABLE.set_column(1, "text", TABLE["text"].dictionary_encode())
    with new(str(path), shared.schema, options=ipc.IpcWriteOptions(compression=compression)) as file:
        file.write_table(shared, max_chunksize=7)
    with path.open("rb") as file:
        places = [*chain(*blocks(file))] if new is ipc.new_file else list(boundaries(path))[:-1]
        for place in places:
            found = message_at(file, place)
            file.seek(place)
            message = ipc.read_message(file)
            assert (found.has_rows, found.packed) == (message.type == "record batch", message.body.size)
            assert compression or found.unpacked == found.packed
            sizes.append(found.unpacked)
    assert len(sizes) >= 8
    assert sizes[0] > sum(len(text) for _, text in EXPECTED)  # the dictionary


def tar(mode):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:
        entry = tarfile.TarInfo("a.jsonl")
        entry.size = len(LINES)
        archive.addfile(entry, io.BytesIO(LINES))
    return packed.getvalue()


def zipped():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.jsonl", LINES)
    return packed.getvalue()


def as_orc():
    written = io.BytesIO()
    orc.write_table(TABLE, written)
    return written.getvalue()


def with_dictionary():
    samples = [row["text"].encode() * 3 for row in ROWS] * 20
    trained = zstandard.train_dictionary(2048, samples)
    return zstandard.ZstdCompressor(dict_data=trained).compress(LINES)


def saved(save, value):
    written = io.BytesIO()
    save(written, value)
    return written.getvalue()


def database():
    with sqlite3.connect(":memory:") as connection:
        connection.execute("create table t (id, text)")
        return connection.serialize()


@pytest.mark.parametrize(
    ("name", "make", "said"),
    [
        ("a.tar", lambda: tar("w"), "it is a tar archive"),
        ("a.tar.gz", lambda: tar("w:gz"), "it is a tar archive"),
        ("a.jsonl.tar.bz2", lambda: bz2.compress(tar("w")), "it is a tar archive"),
        ("a.jsonl.zip", zipped, "it is packed with zip"),
        ("a.xlsx.gz", lambda: gzip.compress(zipped()), "it is packed with zip"),
        ("a.orc", as_orc, "it is an ORC file: write it as Parquet"),
        ("a.jsonl.lz4", lambda: b"\x04\x22\x4d\x18" + b"x" * 40, "it is packed with lz4"),
        ("a.jsonl.zst", with_dictionary, "its zstd data was packed with a dictionary"),
        ("a.db", database, "it is a SQLite database"),
        ("a.npy", lambda: saved(np.save, np.array(["a", "b"])), "it is a NumPy file"),
        ("a.pkl", lambda: pickle.dumps(ROWS), "it is a Python pickle"),
        ("a.h5", lambda: b"\x89HDF\r\n\x1a\n" + bytes(40), "it is an HDF5 file"),
        ("a.sav", lambda: b"$FL2@(#) SPSS DATA FILE" + bytes(40), "it is an SPSS file"),
        ("a.duckdb", lambda: bytes(8) + b"DUCK" + bytes(40), "it is a DuckDB database"),
        ("a.jsonl.gz", lambda: gzip.compress(gzip.compress(LINES)), "it is packed twice (gzip)"),
        ("a.jsonl.xz", lambda: lzma.compress(zstandard.compress(LINES)), "it is packed twice (zstd)"),
    ],
)
def test_others_are_refused_by_their_names(tmp_path, name, make, said):
    (item,) = read(write(tmp_path / name, make()))
    assert isinstance(item, SourceReject)
    assert item.reason.startswith(said)


@pytest.mark.parametrize(
    "begin", ["ORC", "FEA1", "%PDF-", "PAR1", "ARROW1", "7z", "Obj", "SQLite format 3", "x" * 257 + "ustar"]
)
@pytest.mark.parametrize("rest", ["", " is a word that a text may begin with", "是一个词\n" * 3])
@pytest.mark.parametrize("suffix", ["txt", "lines"])
def test_texts_that_begin_with_a_magic_word_are_texts(tmp_path, begin, rest, suffix):
    path = write(tmp_path / f"x.{suffix}", f"{begin}{rest}".encode())
    items = read(path, format="lines" if suffix == "lines" else None)
    assert items[0].text == (f"{begin}{rest}" if suffix == "txt" else f"{begin}{rest}".split("\n")[0])


@pytest.mark.parametrize(
    ("name", "written", "said"),
    [
        ("a.json", b'[{"id": 1, "text": "x"},\n{"id": 2, "text": "x"}]\n', "jq -c '.[]' writes it so"),
        ("a.json", b'{"id": 1, "text": "x"},\n{"id": 2, "text": "x"}\n', "parted by commas: sed 's/,$//'"),
        ("a.json", b'\x1e{"id": 1, "text": "x"}\n\x1e{"id": 2, "text": "x"}\n', "tr -d '\\036'"),
        ("a.jsonl", b"{'id': 1, 'text': 'x'}\n", "values of Python, not JSON: write each with json.dumps"),
        ("dump.sql", b"INSERT INTO docs VALUES(1,'x');\n", "name tells no format"),
        ("git.log", b"commit 1\nAuthor: x\n", "name its format (format), or write JSON lines"),
        (
            "wiki.xml.gz",
            gzip.compress(b"<mediawiki>\n<page>\n", mtime=0),
            "no JSON object (it may be XML or HTML)",
        ),
        ("docs.yaml", b"- id: 1\n  text: x\n", "name tells no format"),
        ("a.txt", LINES, "it has JSON lines, and its name says plain text"),
        ("a.html", LINES, "it has JSON lines, and its name says HTML, which is one document"),
        ("a.csv", b"PK\5\6" + bytes(18), "it is packed with zip"),
        ("a.txt", b"PK\7\x08PK\3\4" + bytes(18), "it is packed with zip"),
    ],
)
def test_texts_of_other_forms_are_refused_whole_with_a_remedy(tmp_path, name, written, said):
    (item,) = read(write(tmp_path / name, written))
    assert isinstance(item, SourceReject)
    assert said in item.reason


def test_what_the_options_say_a_file_is_it_is_taken_for(tmp_path):
    path = write(tmp_path / "a.txt", LINES)
    assert read(path, format="text")[0].text.encode() == LINES
    assert len(read(path, format="jsonl")) == len(ROWS)
    path = write(tmp_path / "git.log", b'commit 1\n{"id": "a", "text": "x"}\n')
    assert [item.line for item in read(path, format="jsonl")] == [1, 2]


def test_a_pdf_without_compression_is_none(tmp_path):
    (item,) = read(write(tmp_path / "x.txt", b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog >>\nendobj\n"))
    assert item.reason.startswith("it is a PDF")


def test_a_lazy_frame_is_collected():
    lazy = pl.DataFrame(ROWS).lazy()
    report = simhbase.dedup(lazy)
    assert (report.unique, report.frame.height) == (50, 50)
    with simhbase.open("memory:", create="default") as index:
        assert index.add(lazy).added == 50
