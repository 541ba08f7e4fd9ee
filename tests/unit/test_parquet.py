from __future__ import annotations

import gzip
import io
import os
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from decimal import Decimal
from functools import partial
from io import RawIOBase
from pathlib import Path
from time import process_time
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from simhbase.corpus.formats import parquet as parquet_input
from simhbase.corpus.formats import parquet_sizes
from simhbase.corpus.formats.parquet import most_bytes, parquet_records, require_plausible
from simhbase.corpus.formats.parquet_sizes import Chunk, Page, chunks, pages, shared_bytes, small_footer
from simhbase.corpus.formats.row_sizes import parts, row_sizes
from simhbase.corpus.record import InputOptions, Raw, Record, Reject, Source, SourceReject
from simhbase.corpus.sources import Sources
from tests import thrift
from tests.reading import json_lines, peak_of, read, rejects, texts, write


def table(path: Path, columns: dict[str, Any], **how: Any) -> Path:
    parquet.write_table(pa.table(columns), path, **how)
    return path


def columns_of(path: Path) -> tuple[list[tuple[str, bool]], int]:
    """What `chunks` is told."""
    with parquet.ParquetFile(path) as told:
        leaves = [told.schema.column(number) for number in range(len(told.schema))]
        return [(leaf.path, leaf.max_repetition_level == 0) for leaf in leaves], told.num_row_groups


def chunks_of(path: Path, file: RawIOBase) -> list[list[Chunk]]:
    return chunks(file, small_footer(file), *columns_of(path))


A = {"id": ["a", "b"], "text": ["first", "second"]}


def test_rows_are_records_in_their_order(tmp_path):
    path = table(tmp_path / "x.parquet", {"n": [1, 2], "text": ["first", "中"], "id": ["a", "b"]})
    assert read(path) == [Record(str(path), 1, "a", text="first"), Record(str(path), 2, "b", text="中")]


@pytest.mark.parametrize("name", ["x", "x.jsonl", "part-0000.snappy"])
def test_content_tells_it_whatever_the_name(tmp_path, name):
    assert texts(read(table(tmp_path / name, A))) == [("a", "first"), ("b", "second")]


def test_folders_and_globs_have_them_too(tmp_path):
    table(tmp_path / "b.parquet", A)
    write(tmp_path / "a.jsonl", json_lines({"id": "j", "text": "t"}))
    table(tmp_path / "part-1", {"id": ["p"], "text": ["t"]})
    assert [item.id for item in read(tmp_path)] == ["j", "a", "b"]
    assert [item.id for item in read(tmp_path / "*.parquet")] == ["a", "b"]
    (tmp_path / "a.jsonl").unlink()
    assert [item.id for item in read(tmp_path, format="parquet")] == ["a", "b", "p"]


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "brotli", "lz4"])
def test_rows_of_many_groups_and_pages_keep_order_and_numbers(tmp_path, compression):
    texts_there = [f"text {i} " * 20 for i in range(1000)]
    path = table(
        tmp_path / "x.parquet",
        {"id": range(1000), "text": texts_there},
        row_group_size=150,
        data_page_size=1000,
        compression=compression,
    )
    items = read(path)
    assert texts(items) == [(str(i), text) for i, text in enumerate(texts_there)]
    assert [item.line for item in items] == list(range(1, 1001))


TEXT_TYPES = [
    pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view(),
    pa.dictionary(pa.int32(), pa.string()),
]  # fmt: skip


@pytest.mark.parametrize("kind", TEXT_TYPES, ids=str)
def test_every_type_of_text_is_read(tmp_path, kind):
    column = pa.array(["a", "中"]).cast(pa.binary() if "binary" in str(kind) else pa.string())
    column = column.dictionary_encode() if pa.types.is_dictionary(kind) else column.cast(kind)
    path = table(tmp_path / "x.parquet", {"id": column, "text": column})
    assert texts(read(path)) == [("a", "a"), ("中", "中")]


def test_bytes_have_the_encoding_that_is_said_and_texts_their_own(tmp_path):
    text = "这是一个中国人写的中文句子"
    path = table(tmp_path / "x.parquet", {"id": ["甲"], "text": [text.encode("gb18030")], "t": [text]})
    assert texts(read(path, encoding="gb18030")) == [("甲", text)]
    assert texts(read(path, encoding="gb18030", text_field="t")) == [("甲", text)]
    assert texts(read(path)) == [("甲", text)]
    assert read(path, whole_rows=True)[0].text == text
    ((line, known_id, reason),) = rejects(read(path, encoding="utf-8"))
    assert (line, known_id) == (1, "甲")
    assert "not UTF-8" in reason


def test_a_column_that_is_asked_for_and_is_there_twice_is_refused(tmp_path):
    path = tmp_path / "x.parquet"
    parquet.write_table(pa.table([["a"], ["one"], ["two"]], names=["id", "text", "text"]), path)
    (item,) = read(path)
    assert isinstance(item, SourceReject)
    assert item.reason == "2 columns are named 'text': rename one"


@pytest.mark.parametrize("kind", [pa.int8(), pa.int64(), pa.uint64()], ids=str)
def test_integers_become_decimal_ids(tmp_path, kind):
    largest = 2**63 + 1 if kind == pa.uint64() else 7
    path = table(tmp_path / "x.parquet", {"id": pa.array([0, largest], kind), "text": ["t", "u"]})
    assert texts(read(path, id_prefix="p/")) == [("p/0", "t"), (f"p/{largest}", "u")]


def test_a_dot_steps_into_structs_and_a_column_with_a_dot_comes_first(tmp_path):
    content = [{"body": "t", "meta": {"url": "u"}}, None, {"body": None, "meta": {"url": "v"}}]
    path = table(tmp_path / "x.parquet", {"content": content, "id": [1, 2, 3]})
    good, none, null = read(path, text_field="content.body")
    assert (good.id, good.text) == ("1", "t")
    assert none.reason == null.reason == "column 'content.body' is null, not a text"
    good, none, null = read(path, text_field="content.body", id_field="content.meta.url")
    assert (good.id, none.id, null.id) == ("u", None, "v")
    path = table(tmp_path / "y.parquet", {"a": [{"b": "inner"}], "a.b": ["outer"], "id": [1]})
    assert texts(read(path, text_field="a.b")) == [("1", "outer")]


def test_nulls_cost_their_own_row_only(tmp_path):
    path = table(tmp_path / "x.parquet", {"id": ["a", None, "c", "d"], "text": ["t", "u", None, "w"]})
    items = read(path)
    assert [item.id for item in items if isinstance(item, Record)] == ["a", "d"]
    assert rejects(items) == [
        (2, None, "column 'id' is null: ids are texts, whole numbers or UUIDs"),
        (3, "c", "column 'text' is null, not a text"),
    ]


def test_a_column_of_nulls_alone_is_rejected_row_by_row(tmp_path):
    path = table(tmp_path / "x.parquet", {"id": ["a", "b"], "text": pa.nulls(2)})
    assert [line for line, _, _ in rejects(read(path))] == [1, 2]


def test_a_text_that_is_too_long_or_no_utf_8_costs_its_own_row_only(tmp_path):
    broken = pa.array([b"x" * 101, b"\xff", b"t"]).cast(pa.string(), safe=False)
    path = table(tmp_path / "x.parquet", {"id": [1, 2, 3], "text": broken, "broken": broken})
    long, bad, good = read(path, max_record_bytes=100)
    assert "at most 100 are read" in long.reason
    assert "not UTF-8" in bad.reason
    assert (good.id, good.text) == ("3", "t")
    assert "the id is not UTF-8 at byte 1" in rejects(read(path, id_field="broken"))[0][2]


def test_fingerprints_and_values_are_read(tmp_path):
    moment = pa.array([1], pa.timestamp("ns"))
    columns = {"id": [1], "h": ["f" * 16], "day": [date(2026, 1, 2)], "n": [1.5], "none": pa.nulls(1)}
    path = table(tmp_path / "x.parquet", columns | {"moment": moment})
    known = {"day": "2026-01-02", "n": "1.5", "none": None, "moment": "1970-01-01 00:00:00.000000001"}
    for field, value in known.items():
        (item,) = read(path, fingerprint_field="h", value_field=field)
        assert (item.fingerprint, item.value) == (2**64 - 1, value)


def test_whole_numbers_of_any_type_and_uuids_are_ids(tmp_path):
    columns = {
        "float": pa.array([1.0, 2.5, 2.0**53]),
        "decimal": pa.array([Decimal("1.00"), Decimal("2.50"), Decimal("9007199254740992.00")]),
        "uuid": pa.array([UUID(int=1).bytes] * 3, pa.uuid()),
    }
    path = table(tmp_path / "x.parquet", {**columns, "text": ["t", "u", "v"]})
    expected = {
        "float": ["1", "the id is 2.5", "its type does not hold all digits"],
        "decimal": ["1", "the id is Decimal('2.50')", "9007199254740992"],
        "uuid": [str(UUID(int=1))] * 3,
    }
    for name, wanted in expected.items():
        found = [item.reason if isinstance(item, Reject) else item.id for item in read(path, id_field=name)]
        assert all(each in said for each, said in zip(wanted, found, strict=True)), found


def test_html_in_a_column_gives_its_main_text(tmp_path):
    path = table(tmp_path / "x.parquet", {"id": [1], "text": ["<div><p>one two</p></div>"]})
    assert texts(read(path, html=True)) == [("1", "one two")]


def test_records_that_need_no_id_are_named_by_their_row(tmp_path):
    path = table(tmp_path / "x.parquet", {"text": ["t", "u"]})
    assert [item.id for item in read(path, id_from="line")] == [f"{path}:1", f"{path}:2"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"id_field": "key"},
            "no column 'key' among 'c.d', 'id', 'text', 'f', 'l', 'b': name another id field (id_field)",
        ),
        (
            {"text_field": "c"},
            "no column 'c' among 'c.d', 'id', 'text', 'f', 'l', 'b': name another text field (text_field)",
        ),
        ({"text_field": "id"}, "column 'id' is int64, that is no text: name another text field (text_field)"),
        (
            {"fingerprint_field": "f"},
            "column 'f' is double, fingerprints are texts, or integers of 64 bits: name another fingerprint",
        ),
        ({"id_field": "b"}, "column 'b' is bool, ids are texts, whole numbers or UUIDs: name another id"),
        ({"value_field": "l"}, "texts or numbers are compared: keep by another field"),
    ],
)
def test_columns_that_do_not_fit_are_one_reject_for_the_file(tmp_path, options, reason):
    columns = {"id": [1, 2], "text": ["t", "u"], "f": [1.5, 2], "c": [{"d": 1}] * 2, "l": [["x"], []]}
    columns["b"] = [True, False]
    (item,) = read(table(tmp_path / "x.parquet", columns), **options)
    assert isinstance(item, SourceReject)
    assert reason in item.reason


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_every_row_before_a_damaged_page_is_given(tmp_path, version):
    rows = 1000
    path = table(
        tmp_path / "x.parquet",
        {"id": range(rows), "text": [os.urandom(50).hex() for _ in range(rows)]},
        row_group_size=400,
        data_page_size=1,
        write_batch_size=50,
        use_dictionary=False,
        write_page_checksum=True,
        write_statistics=False,  # in which a text that is the least or greatest of its page is, too
        data_page_version=version,
        compression="none",
    )
    good = texts(read(path))
    data = bytearray(path.read_bytes())
    damaged = 573  # in the second group, in the page of rows 551 to 600
    at = data.index(good[damaged][1].encode())
    data[at : at + 10] = b"\0" * 10
    path.write_bytes(data)
    *records, end = read(path)
    assert texts(records) == good[:550]
    assert (type(end), end.line, end.id) == (Reject, 551, None)
    assert end.reason.startswith("it is damaged, and cannot be read from this row on (")


@pytest.mark.parametrize("kept", [3, 4, 8, 100, -1])
def test_a_file_that_was_cut_short_is_one_reject(tmp_path, kept):
    path = table(tmp_path / "x.parquet", A)
    path.write_bytes(path.read_bytes()[:kept])
    (item,) = read(path)
    assert isinstance(item, SourceReject)
    wanted = (
        "it is damaged or was cut short"
        if kept not in (3, 4)
        else "it is no Parquet file: those begin with PAR1"
    )
    assert item.reason.startswith(wanted)


def test_what_is_none_in_spite_of_its_name_is_one_reject(tmp_path):
    for data in (b"", b"hello\nworld\n"):
        (item,) = read(write(tmp_path / "x.parquet", data))
        assert isinstance(item, SourceReject)
        assert item.reason == "it is no Parquet file: those begin with PAR1, and go on with binary data"


def test_it_is_not_read_from_pipes_and_packed_files(tmp_path):
    data = table(tmp_path / "x.parquet", A).read_bytes()
    packed = write(tmp_path / "x.parquet.gz", gzip.compress(data))
    for items in (read("-", stdin=io.BytesIO(data)), read(packed)):
        (item,) = items
        assert isinstance(item, SourceReject)
        assert "cannot be read from a pipe or a packed file: unpack it" in item.reason


def test_a_file_without_rows_has_no_records(tmp_path):
    assert read(table(tmp_path / "x.parquet", {"id": [], "text": pa.array([], pa.string())})) == []


def test_what_reads_it_is_named_where_it_is_missing(tmp_path, monkeypatch):
    path = table(tmp_path / "x.parquet", A)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (item,) = read(path)
    assert isinstance(item, SourceReject)
    assert item.reason.endswith("pip install 'simhbase[parquet]'")


def test_the_bytes_consumed_grow_and_end_as_the_size_of_the_file(tmp_path):
    noise = [os.urandom(500).hex() for _ in range(4000)]
    columns = {"id": range(4000), "text": noise, "more": noise}
    path = table(tmp_path / "x.parquet", columns, row_group_size=500, use_dictionary=False)
    sources = Sources([str(path)], InputOptions())
    grown = [sources.consumed for _ in sources.chunks()]
    assert grown == sorted(grown)
    assert 0 < grown[0] < grown[len(grown) // 2] < path.stat().st_size
    assert sources.consumed == sources.total() == path.stat().st_size


@pytest.mark.slow
def test_memory_is_bounded_by_pages_and_not_by_groups_or_the_file(tmp_path):
    path = tmp_path / "x.parquet"
    schema = pa.schema({"id": pa.int64(), "text": pa.string(), "other": pa.string()})
    with parquet.ParquetWriter(path, schema, use_dictionary=False, compression="none") as writer:
        noise = pa.array([os.urandom(500).hex() for _ in range(50_000)])
        writer.write_table(pa.table([range(50_000), noise, noise], schema=schema), row_group_size=50_000)
    del noise
    before, peak = pa.total_allocated_bytes(), 0
    for _ in Sources([str(path)], InputOptions()).chunks():
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert path.stat().st_size > 100_000_000
    assert peak < 10_000_000


@pytest.mark.parametrize("options", [{}, {"value_field": "other"}, {"tag_fields": (("t", "other"),)}])
def test_a_large_value_that_all_rows_share_is_refused_by_its_length(tmp_path, options):
    """For an id, a tag or a value to choose by, each row took its own copy of it."""
    some = pa.array([0] * 499 + [1], pa.int32())
    shared = pa.DictionaryArray.from_arrays(some, pa.array(["ab " * 1_000_000, "short"]))
    name = "other" if options else "id"
    columns = {"id": [str(number) for number in range(500)], "text": ["some words"] * 500} | {name: shared}
    path = table(tmp_path / "x.parquet", columns)
    tracemalloc.start()
    *rejected, kept = read(path, **options)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    said = f"the value of column {name!r} has 3,000,000 bytes, at most 65,536 are read"
    assert {each.reason for each in rejected} == {said}
    assert (len(rejected), kept.line) == (499, 500)
    assert most < 50_000_000


@pytest.mark.slow
def test_one_text_that_all_rows_share_is_not_unpacked_for_all_at_once(tmp_path):
    path = table(tmp_path / "x.parquet", {"id": range(2000), "text": ["x" * 200_000] * 2000})
    assert path.stat().st_size < 1_000_000
    before, peak = pa.total_allocated_bytes(), 0
    for _ in zip(range(100), Sources([str(path)], InputOptions()).chunks(), strict=False):
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert peak < 150_000_000


@pytest.mark.parametrize("options", [{}, {"whole_rows": True}])
def test_a_large_text_that_all_rows_share_is_unpacked_for_few_of_them(tmp_path, options):
    columns = {"id": range(16), "text": ["x" * 10_000_000] * 16}
    path = table(tmp_path / "x.parquet", columns, compression="zstd")
    assert path.stat().st_size < 10_000
    assert peak_of(path, **options) < 200_000_000


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize("options", [{}, {"whole_rows": True}])
def test_rows_that_share_a_text_are_read_up_to_a_multiple_of_the_files_bytes(tmp_path, kind, options):
    """4 kB of a file were 45 GB of texts, each of which was fingerprinted and put on the disk."""
    words = "some words " * 1_300_000
    shared = pa.DictionaryArray.from_arrays(pa.array([0] * 3000, pa.int32()), pa.array([words]))
    columns = {"id": list(map(str, range(3000))), "text": shared}
    path = tmp_path / f"x.{kind}"
    if kind == "parquet":
        table(path, columns, compression="zstd", dictionary_pagesize_limit=1 << 30)
    else:
        with (
            pa.OSFile(str(path), "wb") as file,
            pa.ipc.new_file(
                file, pa.table(columns).schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
            ) as writer,
        ):
            writer.write_table(pa.table(columns))
    size = path.stat().st_size
    assert size < 20_000
    lines, last = 0, None
    with path.open("rb") as file:
        for last in parquet_records(Source("x", "x"), file, InputOptions(**options), print):
            lines += isinstance(last, Raw)
    most = max(256 << 20, size << 15)
    assert most < lines * len(words) < most + 10 * len(words)  # a batch more
    said = "it cannot be read further: its rows share values, and those so far have"
    assert (last.line, last.reason[: len(said)]) == (lines + 1, said)
    assert (
        "Read a larger part with a larger max_record_bytes, or export the rows as JSON lines" in last.reason
    )


@pytest.mark.parametrize(("compression", "most"), [("zstd", 32 << 20), (None, None)])
def test_rows_that_share_a_text_have_a_fixed_limit_beyond_a_hundred_times_the_file(
    tmp_path, monkeypatch, compression, most
):
    """2.7 MB of a file were 400 GB of texts, of which 87 GB were read."""
    monkeypatch.setattr(parquet_input, "MAX_RECORD_BYTES", 1 << 20)
    monkeypatch.setattr(parquet_input, "MOST_SHARED", 32 << 20)
    words = "some words " * 90_000
    shared = pa.DictionaryArray.from_arrays(pa.array([0] * 100, pa.int32()), pa.array([words]))
    columns = {"id": list(map(str, range(100))), "text": shared, "more": ["x" * 20_000] * 100}
    path = table(tmp_path / "x.parquet", columns, compression=compression, use_dictionary=["text"])
    with path.open("rb") as file:
        *items, last = parquet_records(Source("x", "x"), file, InputOptions(max_record_bytes=1 << 20), print)
    if most is None:  # the file is large
        assert len(items) == 99
        assert isinstance(last, Raw)
    else:
        assert most < len(items) * len(words) < most + 16 * len(words)  # a batch more
        assert "33,554,432 are allowed for so few bytes of a file" in last.reason


def last_of(path: Path, options: InputOptions) -> tuple[int, Raw | Reject]:
    """The number of items of a file before the last one, and that."""
    with path.open("rb") as file:
        *items, last = parquet_records(Source("x", "x"), file, options, print)
    return len(items), last


def arrow_stream(path: Path, batch: pa.RecordBatch, times: int) -> Path:
    how = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, batch.schema, options=how) as writer:
        for _ in range(times):
            writer.write_batch(batch)
    return path


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_rows_that_share_a_text_that_is_too_long_count_as_long_as_it_is(tmp_path, monkeypatch, kind):
    """8 kB of a file were read for two days: 44 ms for each row, to reject it."""
    monkeypatch.setattr(parquet_input, "MAX_RECORD_BYTES", 1 << 20)
    monkeypatch.setattr(parquet_input, "MOST_SHARED", 16 << 20)
    shared = pa.DictionaryArray.from_arrays(pa.array([0] * 100, pa.int32()), pa.array(["x" * 2_000_000]))
    columns = {"id": list(map(str, range(100))), "text": shared}
    path = tmp_path / f"x.{kind}"
    if kind == "parquet":
        table(path, columns, compression="zstd", dictionary_pagesize_limit=1 << 30)
    else:
        arrow_stream(path, pa.record_batch(columns), 1)
    before, last = last_of(path, InputOptions(max_record_bytes=1 << 20))
    assert before < 20
    assert "its rows share values" in last.reason


def test_batches_count_by_themselves_and_by_their_dictionaries(tmp_path, monkeypatch):
    """Each was looked at whole for one row: 100 kB of a file took a minute."""
    monkeypatch.setattr(parquet_input, "MAX_RECORD_BYTES", 1 << 20)
    monkeypatch.setattr(parquet_input, "MOST_SHARED", 16 << 20)
    words = pa.array([""] * 2_000_000 + ["some words"])
    shared = pa.DictionaryArray.from_arrays(pa.array([2_000_000], pa.int32()), words)
    batch = pa.record_batch({"id": ["a"], "text": shared})
    path = arrow_stream(tmp_path / "x.arrow", batch, 200)
    before, last = last_of(path, InputOptions(max_record_bytes=1 << 20))
    assert before < 100
    assert "its rows share values" in last.reason


def test_rows_that_are_read_one_by_one_count_for_the_time_they_take(tmp_path, monkeypatch):
    """A large value that hardly any row has lets each be a batch: 79 kB of a file took an hour."""
    monkeypatch.setattr(parquet_input, "MAX_RECORD_BYTES", 1 << 17)
    monkeypatch.setattr(parquet_input, "MOST_SHARED", 2 << 20)
    monkeypatch.setattr(parquet_input, "BATCH_BYTES", 1)
    columns = {"id": ["a"] * 1000, "text": ["some words"] * 1000}
    before, last = last_of(table(tmp_path / "x.parquet", columns), InputOptions(max_record_bytes=1 << 17))
    assert before < 600
    assert "its rows share values" in last.reason


def test_a_large_dictionary_is_not_measured_again_for_some_rows(tmp_path):
    """5 kB of a file took hours: its dictionary had 30 million empty texts."""
    words = pa.array([""] * 2_000_000 + ["some words"])
    places = pa.array([2_000_000, None] * 50_000, pa.int32())
    batch = pa.record_batch({"text": pa.DictionaryArray.from_arrays(places, words)})
    begun = process_time()
    pieces = [(piece.num_rows, row_sizes(piece.columns, piece.num_rows)) for piece in parts(batch)]
    assert process_time() - begun < 0.5
    assert sum(rows for rows, _ in pieces) == len(batch)
    assert pieces[0][1][0] == 8 + 8 + len("some words")


def test_a_page_that_takes_much_memory_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_input, "MAX_RECORD_BYTES", 1 << 20)
    columns = {"id": ["a"], "text": ["x" * 20_000_000]}
    path = table(tmp_path / "x.parquet", columns, compression="zstd", use_dictionary=False)
    assert peak_of(path, max_record_bytes=1000) < 1_000_000
    ((_, _, reason),) = rejects(read(path, max_record_bytes=1000))
    assert reason.startswith(
        "it cannot be read: values of column text take 20,000,010 bytes of memory at once, 16,777,216 are "
        "allowed for so few bytes of a file ("
    )


def test_a_later_page_that_takes_much_memory_is_not_read(tmp_path, monkeypatch):
    """Only the first page of a column was looked at."""
    monkeypatch.setattr(parquet_input, "MAX_RECORD_BYTES", 1 << 20)
    columns = {"id": ["a", "b"], "text": ["some words", "x" * 20_000_000]}
    small = {"use_dictionary": False, "data_page_size": 10, "write_batch_size": 1}
    path = table(tmp_path / "x.parquet", columns, compression="zstd", **small)
    assert peak_of(path, max_record_bytes=1000) < 1_000_000
    ((_, _, reason),) = rejects(read(path, max_record_bytes=1000))
    assert "values of column text take 20,000,010 bytes of memory at once" in reason
    with path.open("rb", buffering=0) as file:
        _, text = chunks_of(path, file)[0]
        assert [page.rows for page in pages(file, text) if not page.is_dictionary] == [1, 1]


class FarFile(io.BytesIO):
    """A file on the web: one without a number."""


def read_far(path: Path, **options: Any) -> list[Raw | Reject]:
    source, file = Source("x", "x"), FarFile(path.read_bytes())
    return list(parquet_records(source, file, InputOptions(**options), print))


def test_a_later_page_of_a_file_on_the_web_that_takes_much_memory_is_not_read(tmp_path, monkeypatch):
    """Only the first one was looked at: 116 kB took 2.6 GB."""
    monkeypatch.setattr(parquet_input, "MAX_RECORD_BYTES", 1 << 20)
    columns = {"id": [*"abcdefgh"], "text": ["some words"] * 7 + ["x" * 20_000_000]}
    small = {"use_dictionary": False, "data_page_size": 10, "write_batch_size": 1}
    path = table(tmp_path / "x.parquet", columns, compression="zstd", **small)
    *items, last = read_far(path, max_record_bytes=1000)
    assert [item.id for item in items if isinstance(item, Raw)] == [*"abcdef"]
    assert "values of column text take 20,000,010 bytes of memory at once" in last.reason


@pytest.mark.parametrize("far", [False, True])
def test_large_values_of_pages_of_their_own_are_not_read_together(tmp_path, monkeypatch, far):
    """Sixteen rows were read at once, however large: 190 kB took 3.4 GB."""
    monkeypatch.setattr(parquet_input, "MAX_RECORD_BYTES", 1 << 20)
    monkeypatch.setattr(parquet_input, "BATCH_BYTES", 1 << 20)
    columns = {"id": [*map(str, range(16))], "text": ["x" * 8_000_000] * 16}
    small = {"use_dictionary": False, "data_page_size": 10, "write_batch_size": 1}
    path = table(tmp_path / "x.parquet", columns, compression="zstd", **small)
    before = pa.default_memory_pool().bytes_allocated()
    sizes = list[int]()
    source, file = Source("x", "x"), FarFile(path.read_bytes()) if far else path.open("rb")
    with file:
        for _ in parquet_records(source, file, InputOptions(max_record_bytes=1000), print):
            sizes.append(pa.default_memory_pool().bytes_allocated() - before)
    assert len(sizes) == 16
    assert max(sizes) < 40_000_000


DELTAS = ("DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY")


def with_deltas(path: Path, texts: Any, encoding: str, **how: Any) -> Path:
    ids = pa.array([*map(str, range(len(texts)))], pa.string())
    return table(path, {"id": ids, "text": texts}, use_dictionary=False, column_encoding=encoding, **how)


some_texts = st.lists(st.none() | st.text("ab", max_size=40) | st.text(max_size=5), max_size=300)


@given(
    some_texts,
    st.sampled_from(DELTAS),
    st.sampled_from(["none", "snappy", "gzip", "zstd", "brotli"]),
    st.sampled_from(["1.0", "2.0"]),
    st.booleans(),
)
def test_texts_with_their_lengths_in_deltas_are_read_and_counted(
    tmp_path_factory, texts, encoding, compression, version, far
):
    path = tmp_path_factory.mktemp("parquet") / "x.parquet"
    how = {
        "compression": compression,
        "data_page_version": version,
        "data_page_size": 500,
        "write_batch_size": 7,
    }
    with_deltas(path, pa.array(texts, pa.string()), encoding, **how)
    items = read_far(path) if far else read(path)
    kept = [item for item in items if not isinstance(item, Reject)]
    found = [item.data.decode() if isinstance(item, Raw) else item.text for item in kept]
    assert found == [text for text in texts if text is not None]
    with path.open("rb", buffering=0) as file:
        (pair,) = chunks_of(path, file)
        for chunk, values in zip(pair, ([*map(str, range(len(texts)))], texts), strict=True):
            some = list(pages(file, chunk))
            shared = [
                shared_bytes(
                    file,
                    page,
                    compression_of(compression),
                    1,
                    partial(pa.decompress, asbytes=True),
                )
                for page in some
            ]
            size = sum(len(value.encode()) for value in values if value is not None)
            assert sum(shared) + sum(page.unpacked for page in some) >= size
            assert encoding == "DELTA_BYTE_ARRAY" or not any(shared)


def compression_of(name: str) -> str:
    return "UNCOMPRESSED" if name == "none" else name.upper()


def test_texts_that_begin_as_those_before_are_counted_in_full(tmp_path, monkeypatch):
    """2 kB of a file took 4.9 GB."""
    monkeypatch.setattr(parquet_input, "MAX_RECORD_BYTES", 1 << 20)
    texts = ["ab cd " * 30_000] * 300
    path = with_deltas(tmp_path / "x.parquet", texts, "DELTA_BYTE_ARRAY", compression="zstd")
    assert path.stat().st_size < 10_000
    ((_, _, reason),) = rejects(read(path, max_record_bytes=1 << 20))
    assert "values of column text take 54," in reason


@pytest.mark.parametrize("encoding", [6, 7])
def test_lengths_are_no_more_than_values(tmp_path, encoding):
    """A reader holds as many as are said to be there: 557 bytes of a file took 2.2 GB, or eight."""
    lengths = b"\x80\x80\x80\x80\x04\x04\xff\xff\xff\xff\x07\0" + bytes(100)
    fields = [pa.field(name, pa.string(), nullable=False) for name in ("id", "text")]
    columns = pa.table({"id": ["a"], "text": ["x" * (len(lengths) - 4)]}, pa.schema(fields))
    path = tmp_path / "x.parquet"
    how = {"use_dictionary": False, "compression": "none", "write_statistics": False, "store_schema": False}
    parquet.write_table(columns, path, **how)
    data = bytearray(path.read_bytes())
    begin = data.index(b"x" * (len(lengths) - 4)) - 4
    data[begin : begin + len(lengths)] = lengths
    data[data.rindex(b"\x15\x02\x15\0\x15", 0, begin) + 3] = 2 * encoding  # was 0, PLAIN
    path.write_bytes(data)
    ((_, _, reason),) = rejects(read(path))
    assert "it has more lengths than values" in reason


def test_texts_with_their_lengths_in_deltas_are_not_unpacked_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_input, "MOST_SHARED", 1 << 20)
    how = {"compression": "zstd", "data_page_size": 100_000, "write_batch_size": 1}
    path = with_deltas(tmp_path / "x.parquet", ["x" * 200_000] * 10, "DELTA_LENGTH_BYTE_ARRAY", **how)
    ((_, _, reason),) = rejects(read(path))
    assert "1,048,576 are allowed for so few bytes of a file" in reason


def test_lengths_in_deltas_that_are_packed_by_lz4_are_refused(tmp_path):
    path = with_deltas(tmp_path / "x.parquet", ["some words"], "DELTA_BYTE_ARRAY", compression="lz4")
    ((_, _, reason),) = rejects(read(path))
    assert "its texts have their lengths in deltas, packed by LZ4: they are not read" in reason


BOMB = {"id": ["a", "b"], "text": ["some words", "x" * 20_000_000]}
ROW_GROUPS, COLUMNS, COLUMN, PATH, DICTIONARY_PAGE = 4, 1, 3, 3, 11
UNPACKED = 2


def with_footer(path: Path, change: Callable[[thrift.Struct], None]) -> None:
    """Changes the footer of a file."""
    data = path.read_bytes()
    end = len(data) - 8
    begin = end - int.from_bytes(data[end : end + 4], "little")
    fields = thrift.Reader(data[begin:end]).struct()
    change(fields)
    footer = thrift.written(fields)
    path.write_bytes(data[:begin] + footer + len(footer).to_bytes(4, "little") + b"PAR1")


def groups_of(footer: thrift.Struct) -> list[thrift.Struct]:
    return footer[ROW_GROUPS][1][1]


def columns_in(footer: thrift.Struct) -> list[thrift.Struct]:
    return [column[COLUMN][1] for group in groups_of(footer) for column in group[COLUMNS][1][1]]


def name_otherwise(footer: thrift.Struct) -> None:
    for column in columns_in(footer):
        column[PATH] = (thrift.LIST, (thrift.BINARY, [b"another"]))


def tell_no_dictionary(footer: thrift.Struct) -> None:
    for column in columns_in(footer):
        column[DICTIONARY_PAGE] = (6, -1)


def add_map(footer: thrift.Struct) -> None:
    footer[77] = (thrift.MAP, {1: 2})


@pytest.mark.parametrize("change", [name_otherwise, tell_no_dictionary, add_map])
def test_a_footer_hides_no_page_that_takes_much_memory(tmp_path, monkeypatch, change):
    """pyarrow reads the file as it was, so the page would be unpacked."""
    monkeypatch.setattr(parquet_input, "MAX_RECORD_BYTES", 1 << 20)
    path = table(tmp_path / "x.parquet", BOMB, compression="zstd", use_dictionary=False)
    with_footer(path, change)
    assert parquet.read_table(path).to_pydict() == BOMB
    assert peak_of(path, max_record_bytes=1000) < 1_000_000
    assert ", 16,777,216 are allowed for so few bytes" in read(path, max_record_bytes=1000)[-1].reason


def small_before(header: thrift.Struct) -> None:
    """A number of a field that readers cut to 16 bits: they take the last value."""
    header[(1 << 16) + UNPACKED] = header[UNPACKED]
    header[UNPACKED] = (5, 1)


@pytest.mark.parametrize("change", [add_map, small_before])
@pytest.mark.parametrize("place", [0, 1])
def test_a_header_hides_no_page_that_takes_much_memory(tmp_path, monkeypatch, change, place):
    """The page itself, or the one before it, has another header than those that are usual."""
    monkeypatch.setattr(parquet_input, "MAX_RECORD_BYTES", 1 << 20)
    small = {"use_dictionary": False, "data_page_size": 1, "write_batch_size": 1, "compression": "zstd"}
    path = table(tmp_path / "x.parquet", BOMB, **small)
    with path.open("rb", buffering=0) as file:
        begin = chunks_of(path, file)[0][1].begin
    data = path.read_bytes()
    for _ in range(place):
        header = thrift.Reader(data, begin)
        packed = header.struct()[3][1]
        begin = header.place + packed
    header = thrift.Reader(data, begin)
    fields = header.struct()
    change(fields)
    more = thrift.written(fields)
    path.write_bytes(data[:begin] + more + data[header.place :])

    def lengthen(footer: thrift.Struct) -> None:
        column = columns_in(footer)[1]
        column[7] = (6, column[7][1] + len(more) - header.place + begin)

    with_footer(path, lengthen)
    assert parquet.read_table(path).to_pydict() == BOMB
    assert peak_of(path, max_record_bytes=1000) < 1_000_000
    reason = read(path, max_record_bytes=1000)[-1].reason
    assert ", 16,777,216 are allowed for so few bytes" in reason or "a field is there twice" in reason


def test_columns_that_overlap_are_not_read_again_and_again(tmp_path):
    """400 groups of the same 4,000 pages took 30 s of processor time."""
    columns = {"id": ["a"], "text": [os.urandom(10_000).hex()]}
    path = table(tmp_path / "x.parquet", columns, compression="none", use_dictionary=False)

    def repeat(footer: thrift.Struct) -> None:
        footer[ROW_GROUPS] = (thrift.LIST, (thrift.STRUCT, groups_of(footer) * 20))

    with_footer(path, repeat)
    ((_, _, reason),) = rejects(read(path))
    assert reason.endswith("it cannot be read (its columns overlap)")


def test_a_group_that_a_footer_lists_in_place_of_another_is_told(tmp_path):
    """Its documents were read twice, and those of the other not at all."""
    columns = {"id": range(6), "text": [f"text {number}" for number in range(6)]}
    path = table(tmp_path / "x.parquet", columns, row_group_size=3)

    def repeat(footer: thrift.Struct) -> None:
        footer[ROW_GROUPS] = (thrift.LIST, (thrift.STRUCT, groups_of(footer)[:1] * 2))

    with_footer(path, repeat)
    ((_, _, reason),) = rejects(read(path))
    assert reason.endswith("it cannot be read (its columns overlap)")


@pytest.mark.parametrize(("groups", "given"), [([2, 3], 5), ([3], 3)])
def test_rows_that_the_groups_of_a_footer_leave_out_are_told(tmp_path, groups, given):
    """A group of which the footer tells fewer rows than it has lost the others without a word."""
    columns = {"id": range(6), "text": [f"text {number}" for number in range(6)]}
    path = table(tmp_path / "x.parquet", columns, row_group_size=3)

    def shorten(footer: thrift.Struct) -> None:
        kept = groups_of(footer)[: len(groups)]
        for group, rows in zip(kept, groups, strict=True):
            group[3] = (group[3][0], rows)
        footer[ROW_GROUPS] = (thrift.LIST, (thrift.STRUCT, kept))

    with_footer(path, shorten)
    *records, end = read(path)
    assert len(records) == given
    assert end.line == given + 1
    assert f"(its groups have {given} rows, its footer counts 6)" in end.reason


WITHOUT_PLACE = (thrift.LIST, (thrift.STRUCT, [{}] * 100_000))


def columns_without_places(footer: thrift.Struct) -> None:
    for group in groups_of(footer):
        group[1] = WITHOUT_PLACE


def many_columns(footer: thrift.Struct) -> None:
    footer[2] = WITHOUT_PLACE


def many_groups_elsewhere(footer: thrift.Struct) -> None:
    footer[100] = WITHOUT_PLACE


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (columns_without_places, "its footer cannot be read"),
        (many_columns, "it has more than 65,536 columns"),
    ],
)
def test_a_footer_is_looked_at_before_it_takes_memory(tmp_path, monkeypatch, change, said):
    """Of 11 MB whose columns have no places, pyarrow made 3 GB."""
    path = table(tmp_path / "x.parquet", A)
    with_footer(path, change)
    monkeypatch.setattr(parquet, "ParquetFile", lambda *_, **__: pytest.fail("it was read"))
    ((_, _, reason),) = rejects(read(path))
    assert said in reason


@pytest.mark.parametrize("change", [columns_without_places, many_columns])
def test_a_footer_is_looked_at_before_its_types_are_those_of_an_output(tmp_path, monkeypatch, change):
    """Of one of 11 MB that --unique out.parquet looked at, pyarrow made 2.5 GB."""
    path = table(tmp_path / "x.parquet", A)
    with_footer(path, change)
    monkeypatch.setattr(parquet, "read_schema", lambda _: pytest.fail("it was read"))
    with path.open("rb") as file:
        assert parquet_input.column_types(file) == {}


def of_elements(kind: int, element: bytes, number: int) -> bytes:
    """A footer whose groups of rows are this."""
    size = b"".join(bytes([number >> shift & 127 | 128]) for shift in (0, 7, 14, 21)) + b"\0"
    return bytes([0x29, 0x1C, 0, 0x29, 0xF0 | kind]) + size + element * number + b"\0"


@pytest.mark.parametrize(
    ("kind", "element", "number", "said"),
    [
        (thrift.STRUCT, b"\0", 1 << 20, "has no columns"),
        (thrift.STRUCT, b"\0", 60 << 20, "its lists are too long"),
        (thrift.STRUCT, b"\x19\x0c\0", 20 << 20, "its lists are too long"),
        (thrift.STRUCT, b"\x19\x1c\x3c\x76\0\x26\x08\0\0\0", 6 << 20, "more than 1,048,576 columns"),
        (3, b"\0", 9, "another kind"),
    ],
)
def test_a_footer_of_many_groups_takes_little_time_and_memory(tmp_path, kind, element, number, said):
    """Of 64 MiB of empty ones were made 5 GB, in 200 s of processor time."""
    footer = of_elements(kind, element, number)
    path = tmp_path / "x.parquet"
    path.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    begin = process_time()
    with path.open("rb", buffering=0) as file, pytest.raises(OSError, match=said):
        small_footer(file)
    assert process_time() - begin < 5


def test_a_footer_of_many_columns_takes_little_time(tmp_path):
    """1,000 columns in 100 groups of rows took 20 s of processor time, in which pyarrow reads 0.7 s."""
    columns = {f"c{number}": [0] * 40 for number in range(500)}
    path = table(tmp_path / "x.parquet", columns, row_group_size=1)
    told = columns_of(path)
    begin = process_time()
    with path.open("rb", buffering=0) as file:
        assert sum(map(len, chunks(file, small_footer(file), *told))) == 20_000
    assert process_time() - begin < 1


def test_of_what_a_footer_has_beside_its_columns_nothing_is_kept(tmp_path):
    path = table(tmp_path / "x.parquet", A)
    with_footer(path, many_groups_elsewhere)
    with path.open("rb", buffering=0) as file:
        tracemalloc.start()
        try:
            small_footer(file)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 1 << 20  # it was 72 bytes for each byte


def test_an_encrypted_file_is_named_as_such(tmp_path):
    """It was taken for a text in UTF-16."""
    path = tmp_path / "x.parquet"
    path.write_bytes(b"PARE\x15\x04\x15\x80" + bytes(range(200)) + b"PARE")
    ((_, _, reason),) = rejects(read(path))
    assert "it is encrypted" in reason


def test_a_footer_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    """A web server may say that it has gigabytes."""
    path = table(tmp_path / "x.parquet", A)
    monkeypatch.setattr(parquet_sizes, "FOOTER_BYTES", 100)
    ((_, _, reason),) = rejects(read(path))
    assert "at most 100 are read" in reason


@pytest.mark.parametrize(
    "header",
    [
        # With names: pytest would make some of 64 MB of the bytes, and send them to each process.
        pytest.param(b"\x15" + b"\xff" * (1 << 24), id="number"),
        pytest.param(b"\x19\xfc\x80\x80\x80\x08" + bytes(1 << 24), id="list"),
    ],
)
def test_no_header_of_a_page_takes_long(header):
    """A number that never ends took time quadratic in its length, and a list of structs gigabytes."""
    begin = process_time()
    with pytest.raises(OSError, match=r"another header|more values"):
        list(pages(io.BytesIO(header), Chunk("text", 0, len(header), is_flat=True)))
    assert process_time() - begin < 2


texts_of_pages = st.lists(st.binary(max_size=40).map(bytes.hex), max_size=60)


@given(texts_of_pages, st.integers(1, 20), st.sampled_from(["none", "zstd"]), st.sampled_from(["1.0", "2.0"]))
def test_the_pages_have_all_values_of_a_column(tmp_path_factory, texts, rows, compression, version):
    path = tmp_path_factory.mktemp("parquet") / "x.parquet"
    columns = {"text": pa.array(texts, pa.string())}
    table(
        path,
        columns,
        use_dictionary=False,
        compression=compression,
        row_group_size=rows,
        data_page_size=100,
        data_page_version=version,
        write_batch_size=3,
    )
    with path.open("rb", buffering=0) as file:
        counts = [sum(page.rows for page in pages(file, chunk)) for (chunk,) in chunks_of(path, file)]
    assert counts == [len(texts[start : start + rows]) for start in range(0, len(texts) or 1, rows)]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), max_size=12), st.integers(1, 20))
def test_the_most_bytes_of_some_rows_are_those_of_all_pages_that_they_may_be_in(sizes, rows):
    column = [Page(is_dictionary=False, unpacked=size, packed=0, rows=n) for size, n in sizes]
    windows = [range(first, end) for end in range(1, len(sizes) + 1) for first in range(end)]
    # Rows in pages `first` to `end` - 1 fill all between the outer ones.
    possible = [
        each for each in windows if len(each) == 1 or sum(sizes[i][1] for i in each[1:-1]) <= rows - 2
    ]
    assert most_bytes(column, rows) == max((sum(sizes[i][0] for i in each) for each in possible), default=0)


def test_what_takes_much_memory_for_few_bytes_is_refused():
    require_plausible("rows", packed=1, unpacked=1000, most=1000)
    require_plausible("rows", packed=10, unpacked=1000, most=999)
    with pytest.raises(OSError, match="rows take 1,001 bytes of memory at once, 1,000 are allowed"):
        require_plausible("rows", packed=10, unpacked=1001, most=1000)


@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("rows", [0, 30])
def test_the_places_of_pages_are_those_that_pyarrow_tells(tmp_path, rows, dictionary):
    more = pa.struct([("a", pa.struct([("b", pa.string())])), ("c", pa.list_(pa.float64()))])
    columns = {
        "id": range(rows),
        "text": ["x" * 50] * rows,
        "more": pa.array([{"a": {"b": "y"}, "c": [1.5, None]}] * rows, more),
        "day": pa.array([date(2024, 1, 1)] * rows, pa.date32()),
    }
    path = table(tmp_path / "x.parquet", columns, row_group_size=7, use_dictionary=dictionary)
    told = parquet.read_metadata(path)
    with path.open("rb", buffering=0) as file:
        found = [[(each.column, each.begin) for each in group] for group in chunks_of(path, file)]
    assert len(found) == told.num_row_groups
    for number, group in enumerate(found):
        described = told.row_group(number)
        columns_told = [described.column(each) for each in range(described.num_columns)]
        expected = [
            (
                each.path_in_schema,
                min(filter(None, (each.dictionary_page_offset, each.data_page_offset)), default=0),
            )
            for each in columns_told
        ]
        assert group == expected


@given(st.integers(0, 10_000), st.binary(min_size=1, max_size=4))
@settings(max_examples=300)
def test_damage_of_a_footer_raises_nothing_but_oserror(tmp_path_factory, at, damage):
    path = table(tmp_path_factory.mktemp("parquet") / "x.parquet", A)
    columns = columns_of(path)
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[-8:-4], "little")
    begin = len(data) - 8 - at % (size + 8)
    data[begin : begin + len(damage)] = damage
    with suppress(OSError):
        file = io.BytesIO(data)
        assert len(chunks(file, small_footer(file), *columns)) == 1


@pytest.mark.parametrize(
    "header",
    [
        b"\x15\x04\x15\x02\x1e" * 9,
        pytest.param(b"\x1c\0\x15\x02\x15\x02\0" * 4, id="its kind is a struct"),
        pytest.param(b"\x19\x05\x15\x02\x15\x02\0" * 4, id="its kind is a list"),
    ],
)
def test_another_header_is_not_guessed(header):
    with pytest.raises(OSError, match="another header"):
        list(pages(io.BytesIO(header), Chunk("text", 0, 27, is_flat=True)))


kinds_of_values = st.sampled_from(
    [b"\x05\x02", b"\x0c\0", b"\x09\x05", b"\x08\0", b"\x01", b"\x0b\0", b"\x07" + bytes(8)]
)


@given(st.lists(kinds_of_values, max_size=6))
def test_headers_with_values_of_other_kinds_raise_nothing_but_oserror(values):
    header = b"".join(bytes([0x10 | value[0]]) + value[1:] for value in values) + b"\0"
    with suppress(OSError):
        list(pages(io.BytesIO(header), Chunk("text", 0, len(header), is_flat=True)))


cells = st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]), max_size=9))


@given(
    rows=st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), cells), max_size=60),
    group=st.integers(1, 20),
    dictionary=st.booleans(),
)
def test_a_file_gives_back_what_was_written(tmp_path_factory, rows, group, dictionary):
    path = tmp_path_factory.mktemp("parquet") / "x.parquet"
    ids, contents = [row[0] for row in rows], [row[1] for row in rows]
    columns = {"id": pa.array(ids, pa.int64()), "text": pa.array(contents, pa.string())}
    table(path, columns, row_group_size=group, use_dictionary=dictionary)
    found = [(item.line, item.id, getattr(item, "text", None)) for item in read(path)]
    assert found == [
        (line, str(key), None if text is None else text.removeprefix("\ufeff"))
        for line, (key, text) in enumerate(rows, 1)
    ]


def test_an_index_that_is_in_no_dictionary_is_damage(tmp_path):
    """Columns whose type is a dictionary keep the indices of their pages."""
    words = pa.array([f"one two three {number}" for number in range(9)] * 5).dictionary_encode()
    path = table(tmp_path / "x.parquet", {"id": list(range(45)), "text": words}, compression="none")
    with path.open("rb", buffering=0) as file:
        begin, end = chunks_of(path, file)[0][1][1:3]
    data, reasons = path.read_bytes(), set[str]()
    for place in range(begin, end):
        path.write_bytes(data[:place] + b"\xff" + data[place + 1 :])
        reasons |= {reason for _, _, reason in rejects(read(path))}
    assert any("out of bounds" in reason for reason in reasons)
