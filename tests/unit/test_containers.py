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

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import zstandard
from pyarrow import feather, ipc, orc

import simhbase
from simhbase.corpus.formats.arrow import _missing_head
from simhbase.corpus.record import SourceReject
from tests.command_line import texts as contents_of
from tests.reading import json_lines, read, texts, write

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


def as_polars_2(path):
    """Its schema is no message."""
    pl.DataFrame(TABLE).write_ipc(path, record_batch_size=7)


@pytest.mark.parametrize(
    "make", [as_stream, as_file, lambda path: feather.write_feather(TABLE, path), as_polars_2]
)
@pytest.mark.parametrize("name", ["data-00000-of-00001.arrow", "a.feather", "a"])
def test_arrow_is_read(tmp_path, make, name):
    make(str(tmp_path / name))
    assert texts(read(tmp_path / name)) == EXPECTED
    assert len(read(tmp_path / name, whole_rows=True)) == 50
    if name != "a":
        assert texts(read(tmp_path)) == EXPECTED


@pytest.mark.parametrize("behind", [b"", b"\1\xff\xff\xff\xff"])
def test_a_schema_without_a_mark_is_looked_for_once(behind):
    """Where no message follows at a multiple of eight bytes, the search began again for ever."""
    assert _missing_head(io.BytesIO(b"\4" + bytes(60) + behind), 0) == b""


def test_dictionaries_behind_the_batches_of_a_file_are_read(tmp_path):
    contents = ["a few words", None, "", "a few words", "other words"]
    frame = pl.DataFrame({"id": [*"abcde"], "text": contents}).cast({"text": pl.Categorical})
    frame.write_ipc(tmp_path / "a.arrow", record_batch_size=2)
    found = [getattr(item, "text", None) for item in read(tmp_path / "a.arrow")]
    assert found == contents


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


def test_a_name_of_a_column_that_is_not_utf8_is_damage(tmp_path):
    as_stream(str(tmp_path / "a.arrow"))
    data = (tmp_path / "a.arrow").read_bytes().replace(b"text\0", b"te\xffx\0")
    (end,) = read(write(tmp_path / "b.arrow", data))
    assert isinstance(end, SourceReject)
    assert "it is damaged or was cut short" in end.reason


def test_a_size_beyond_all_memory_is_damage(tmp_path):
    with ipc.new_stream(str(tmp_path / "a.arrow"), TABLE.schema) as written:
        written.write_table(TABLE)
    data = (tmp_path / "a.arrow").read_bytes()
    with (tmp_path / "a.arrow").open("rb") as file:
        _, batch = ipc.read_message(file), ipc.read_message(file)
        size = batch.body.size
    sizes = data.replace(struct.pack("<q", size), struct.pack("<q", 1 << 60))
    assert sizes != data
    (end,) = read(write(tmp_path / "b.arrow", sizes))
    assert "it is damaged or was cut short" in end.reason


def test_files_of_before_arrow_0_15_are_read(tmp_path):
    old = ipc.IpcWriteOptions(use_legacy_format=True)
    with ipc.new_file(str(tmp_path / "a.arrow"), TABLE.schema, options=old) as written:
        written.write_table(TABLE)
    assert texts(read(tmp_path / "a.arrow")) == EXPECTED


@pytest.mark.parametrize("compression", [None, "zstd"])
@pytest.mark.parametrize("listed", [0, 14])
def test_batches_that_a_footer_leaves_out_are_told(tmp_path, listed, compression):
    """Their documents were lost without a word."""
    parts = list[tuple[bytes, bytes]]()  # up to the footer, and that
    for rows in (21, listed):
        how = ipc.IpcWriteOptions(compression=compression)
        with ipc.new_file(str(tmp_path / "a.arrow"), TABLE.schema, options=how) as written:
            written.write_table(TABLE[:rows], max_chunksize=7)
        data = (tmp_path / "a.arrow").read_bytes()
        begin = len(data) - 10 - int.from_bytes(data[-10:-6], "little")
        parts.append((data[:begin], data[begin:]))
    *records, end = read(write(tmp_path / "b.arrow", parts[0][0] + parts[1][1]))
    assert texts(records) == EXPECTED[:21]
    assert f"(it has 3 batches, its footer counts {listed // 7})" in end.reason


@pytest.mark.parametrize("padding", [2, 58])
@pytest.mark.parametrize("has_mark", [True, False])
def test_what_writers_leave_between_batches_and_their_ends_is_passed_over(tmp_path, padding, has_mark):
    """Some align the first message to 64 bytes, and some write no mark behind the last one."""
    as_stream(str(tmp_path / "a.arrow"))
    as_file(str(tmp_path / "b.arrow"))
    stream, file = (tmp_path / "a.arrow").read_bytes(), (tmp_path / "b.arrow").read_bytes()
    footer = file[len(file) - 10 - int.from_bytes(file[-10:-6], "little") :]
    whole = (
        b"ARROW1" + bytes(padding) + stream.removesuffix(b"" if has_mark else b"\xff" * 4 + bytes(4)) + footer
    )
    assert texts(read(write(tmp_path / "c.arrow", whole))) == EXPECTED


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
