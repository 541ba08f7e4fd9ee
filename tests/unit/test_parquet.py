from __future__ import annotations

import gzip
import io
import os
import re
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from simhbase.corpus.formats import parquet as parquet_input
from simhbase.corpus.formats.parquet import table_parts
from simhbase.corpus.record import InputOptions, Raw, Record, Reject, Source, SourceReject, size_of
from simhbase.corpus.sources import Sources
from tests import thrift
from tests.reading import json_lines, read, rejects, texts, write


def table(path: Path, columns: dict[str, Any], **how: Any) -> Path:
    parquet.write_table(pa.table(columns), path, **how)
    return path


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
    with path.open("rb") as file:
        (item,) = items_of(file)
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
    for chunk in Sources([str(path)], InputOptions(**options)).chunks():
        for last in chunk:
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
    monkeypatch.setattr(parquet_input, "MOST_BYTES", 16 << 20)
    monkeypatch.setattr(parquet_input, "MOST_SHARED", 32 << 20)
    words = "some words " * 90_000
    shared = pa.DictionaryArray.from_arrays(pa.array([0] * 100, pa.int32()), pa.array([words]))
    columns = {"id": list(map(str, range(100))), "text": shared, "more": ["x" * 20_000] * 100}
    path = table(tmp_path / "x.parquet", columns, compression=compression, use_dictionary=["text"])
    with path.open("rb") as file:
        *items, last = items_of(file, max_record_bytes=1 << 20)
    if most is None:  # the file is large
        assert len(items) == 99
        assert isinstance(last, Raw)
    else:
        assert most < len(items) * len(words) < most + 16 * len(words)  # a batch more
        assert "33,554,432 are allowed for so few bytes of a file" in last.reason


def items_of(file: Any, **options: Any) -> list[Raw | Reject]:
    """Read in this process, without limits."""
    parts = table_parts(file, Source("x", "x"), InputOptions(**options))
    return [item for part in parts for item in part.items]


LARGE = 400_000_000  # bytes of a text that takes a few thousand in a file
SMALL_PAGES = {"use_dictionary": False, "data_page_size": 10, "write_batch_size": 1}
TAKES_TOO_MUCH = re.compile(r"it takes more than [0-9,]+ MiB of memory|its process died")


@pytest.fixture
def _little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_input, "_MEMORY", 200 << 20)


def arrow_file(path: Path, batches: Sequence[pa.RecordBatch], new: Any = pa.ipc.new_file) -> Path:
    how = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.OSFile(str(path), "wb") as file, new(file, batches[0].schema, options=how) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return path


@pytest.mark.slow
@pytest.mark.usefixtures("_little_memory")
@pytest.mark.parametrize("shared", [False, True])
def test_a_page_that_takes_much_memory_ends_its_file(tmp_path, shared):
    """Of 10 kB of a file, 2.4 GB were made."""
    columns = {"id": ["a", "b", "c"], "text": ["some words", "x" * LARGE, "more"]}
    how = {"dictionary_pagesize_limit": 1 << 30} if shared else SMALL_PAGES
    path = table(tmp_path / "x.parquet", columns, compression="zstd", **how)
    assert path.stat().st_size < 100_000
    *records, end = read(path)
    assert [record.id for record in records] == ([] if shared else ["a"])
    assert isinstance(end, SourceReject) == shared
    assert TAKES_TOO_MUCH.search(end.reason)


@pytest.mark.slow
@pytest.mark.usefixtures("_little_memory")
@pytest.mark.parametrize("new", [pa.ipc.new_file, pa.ipc.new_stream])
@pytest.mark.parametrize("shared", [False, True])
def test_a_batch_that_takes_much_memory_ends_its_file(tmp_path, new, shared):
    column = pa.array(["x" * LARGE])
    large = {"id": ["b"], "text": column.dictionary_encode() if shared else column}
    batches = [pa.record_batch({"id": ["a"], "text": ["some words"]})] if not shared else []
    *records, end = read(arrow_file(tmp_path / "x.arrow", [*batches, pa.record_batch(large)], new))
    assert [record.id for record in records] == ([] if shared else ["a"])
    assert TAKES_TOO_MUCH.search(end.reason)


@pytest.mark.usefixtures("_little_memory")
@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize("options", [{}, {"whole_rows": True}])
def test_large_rows_are_read_by_fewer_at_a_time(tmp_path, kind, options):
    """A thousand together take more memory than there is."""
    path, number = tmp_path / f"x.{kind}", 200
    columns = {"id": [*map(str, range(number))], "text": pa.array(["x" * 1_000_000]).take([0] * number)}
    if kind == "parquet":
        table(path, columns, compression="zstd", **SMALL_PAGES)
    else:
        shared = pa.DictionaryArray.from_arrays(pa.array([0] * number, pa.int32()), columns["text"][:1])
        arrow_file(path, [pa.record_batch(columns | {"text": shared})])
    sizes = list[int]()
    for chunk in Sources([str(path)], InputOptions(**options)).chunks():
        assert all(isinstance(item, Raw) for item in chunk)
        sizes.append(size_of(chunk))
    assert len(sizes) == number
    assert max(sizes) < 2_100_000


def _lists(values: Any) -> Any:
    return pa.ListArray.from_arrays(pa.array(range(9), pa.int32()), values)


@pytest.mark.slow
@pytest.mark.usefixtures("_little_memory")
@pytest.mark.parametrize(
    "shared",
    [
        _lists,
        lambda values: pa.RunEndEncodedArray.from_arrays(pa.array([8], pa.int32()), values.dictionary),
        lambda values: pa.StructArray.from_arrays([_lists(values)], ["within"]),
        lambda values: pa.ListViewArray.from_arrays([0] * 8, [8] * 8, values),
    ],
)
def test_values_that_whole_rows_share_cost_these_rows_or_the_rest(tmp_path, shared):
    """2 kB of a file took gigabytes, where all columns are kept for output files."""
    values = pa.DictionaryArray.from_arrays(pa.array([0] * 8, pa.int32()), pa.array(["x" * 20_000_000]))
    batch = pa.record_batch({"id": [*"abcdefgh"], "text": [*"abcdefgh"], "of all": shared(values)})
    reasons = {item.reason for item in read(arrow_file(tmp_path / "x.arrow", [batch]), whole_rows=True)}
    assert all("(max_record_bytes)" in reason or TAKES_TOO_MUCH.search(reason) for reason in reasons)


def test_reading_that_takes_much_time_ends_its_file(tmp_path, monkeypatch):
    """A dictionary is looked at again for each batch: 100 kB of a file took a minute, 8 kB two days."""
    monkeypatch.setattr(parquet_input, "_SECONDS", 0.5)
    words = pa.array([""] * 2_000_000 + ["some words"])
    shared = pa.DictionaryArray.from_arrays(pa.array([2_000_000], pa.int32()), words)
    batches = [pa.record_batch({"id": ["a"], "text": shared})] * 1000
    path = arrow_file(tmp_path / "x.arrow", batches, pa.ipc.new_stream)
    *records, end = read(path)
    assert len(records) < 1000
    assert re.search(r"it takes more than \S+ s of processor time", end.reason)


def test_a_schema_that_takes_much_memory_is_not_that_of_an_output(tmp_path, monkeypatch):
    path = table(tmp_path / "x.parquet", {"id": ["a"], "x" * 10_000: ["b"]})
    assert len(Sources([str(path)], InputOptions()).column_types()) == 2
    monkeypatch.setattr(parquet_input, "_MOST_OF_SCHEMA", 5000)
    with path.open("rb") as file:
        assert not [*parquet_input.column_types(file)]


def test_a_schema_whose_names_are_not_utf8_is_not_that_of_an_output(tmp_path):
    path = table(tmp_path / "x.parquet", {"id": ["a"], "name": ["b"]}, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"name", b"\xff\xfe\xfd."))
    assert Sources([str(path)], InputOptions()).column_types() == {}


@pytest.mark.usefixtures("_little_memory")
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
    assert TAKES_TOO_MUCH.search(reason) or "is damaged" in reason


ROW_GROUPS = 4


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


def test_an_encrypted_file_is_named_as_such(tmp_path):
    """It was taken for a text in UTF-16."""
    path = tmp_path / "x.parquet"
    path.write_bytes(b"PARE\x15\x04\x15\x80" + bytes(range(200)) + b"PARE")
    ((_, _, reason),) = rejects(read(path))
    assert "it is encrypted" in reason


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
    with path.open("rb") as file:
        found = [(item.line, item.id, getattr(item, "data", None)) for item in items_of(file)]
    assert found == [
        (line, str(key), None if text is None else text.encode()) for line, (key, text) in enumerate(rows, 1)
    ]


def test_an_index_that_is_in_no_dictionary_is_damage(tmp_path):
    """Columns whose type is a dictionary keep the indices of their pages."""
    words = pa.array([f"one two three {number}" for number in range(9)] * 5).dictionary_encode()
    path = table(tmp_path / "x.parquet", {"id": list(range(45)), "text": words}, compression="none")
    column = parquet.read_metadata(path).row_group(0).column(1)
    begin = column.dictionary_page_offset
    data, reasons = path.read_bytes(), set[str]()
    for place in range(begin, begin + column.total_compressed_size):
        damaged = io.BytesIO(data[:place] + b"\xff" + data[place + 1 :])
        reasons |= {item.reason for item in items_of(damaged) if isinstance(item, Reject)}
    assert any("out of bounds" in reason for reason in reasons)
