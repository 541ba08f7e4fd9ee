"""Fingerprints made elsewhere are read as the integers they are, in every form they come in."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import orjson
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

import simhbase
from simhbase.cli.options import typed_fingerprints
from simhbase.corpus.inputs import Inputs
from simhbase.corpus.prepared import shown_base
from simhbase.corpus.record import InputOptions, SourceReject
from simhbase.corpus.sources import Sources
from simhbase.errors import UsageError
from tests.command_line import result, run, write_lines
from tests.reading import json_lines, read, rejects, write

VALUES = [0x0123456789ABCDEF, 1234567890123456, 99, 2**64 - 1, 2**63, 7]
SIGNED = [value - 2**64 if value >= 2**63 else value for value in VALUES]
FIELD = {"fingerprint_field": "f"}


def found(items):
    return [item.fingerprint for item in items]


@pytest.mark.parametrize("values", [VALUES, SIGNED])
def test_integers_of_json_are_integers(tmp_path, values):
    path = write(tmp_path / "x.jsonl", json_lines(*({"id": n, "f": value} for n, value in enumerate(values))))
    assert found(read(path, **FIELD)) == VALUES
    assert found(read(path, **FIELD, fingerprint_base=16)) == VALUES


@pytest.mark.parametrize(
    "column",
    [
        pa.array(VALUES, pa.uint64()),
        pa.array(SIGNED, pa.int64()),
        pa.array(list(map(Decimal, VALUES)), pa.decimal128(20, 0)),
    ],
    ids=lambda column: str(column.type),
)
@pytest.mark.parametrize("whole_rows", [False, True])
def test_integers_of_parquet_are_integers(tmp_path, column, whole_rows):
    path = tmp_path / "x.parquet"
    parquet.write_table(pa.table({"id": list(range(len(VALUES))), "f": column}), path)
    assert found(read(path, **FIELD, whole_rows=whole_rows)) == VALUES


@pytest.mark.parametrize("kind", [pa.int32(), pa.float64(), pa.decimal128(30, 2)], ids=str)
def test_numbers_that_are_no_integers_of_64_bits_are_refused(tmp_path, kind):
    path = tmp_path / "x.parquet"
    parquet.write_table(pa.table({"id": [1], "f": pa.array([1], pa.int64()).cast(kind)}), path)
    (item,) = read(path, **FIELD)
    assert isinstance(item, SourceReject)
    assert "fingerprints are texts, or integers of 64 bits" in item.reason


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, 1.5, True])
def test_other_numbers_of_json_are_rejected(tmp_path, value):
    path = write_lines(tmp_path / "x.jsonl", [{"id": "a", "f": value}])
    assert len(rejects(read(path, **FIELD))) == 1


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_digits_are_read_by_the_base_that_is_said_and_refused_without_one(tmp_path, suffix):
    path = tmp_path / f"x.{suffix}"
    values = [value for value in VALUES if value < 10**16]
    rows = [{"id": f"d{n}", "f": str(value)} for n, value in enumerate(values)]
    if suffix == "jsonl":
        write_lines(path, rows)
    elif suffix == "parquet":
        parquet.write_table(pa.Table.from_pylist(rows), path)
    else:
        pd.DataFrame(rows).to_csv(path, index=False, sep="," if suffix == "csv" else "\t")
    assert found(read(path, **FIELD, fingerprint_base=10)) == values
    (item,) = read(path, **FIELD)
    assert isinstance(item, SourceReject)
    assert "may be decimal or hexadecimal numbers. Say which (fingerprint_base)" in item.reason


def test_the_first_thousand_texts_decide(tmp_path):
    digits = [{"id": n, "f": f"{n:016d}"} for n in range(999)]
    letters = {"id": "x", "f": "00000000000000ff"}
    path = write_lines(tmp_path / "x.jsonl", [*digits, letters])
    assert found(read(path, **FIELD)) == [*(int(f"{n}", 16) for n in range(999)), 255]
    (item,) = read(write_lines(tmp_path / "y.jsonl", [*digits, digits[0], letters]), **FIELD)
    assert "its first 1,000 fingerprints have only decimal digits" in item.reason
    (item,) = read(write_lines(tmp_path / "z.jsonl", [{"id": "x", "f": "0x" + "1" * 16}]), **FIELD)
    assert item.fingerprint == 0x1111111111111111


def test_digits_among_integers_are_as_uncertain(tmp_path):
    rows = [{"id": 1, "f": 5}, {"id": 2, "f": "1234567890123456"}]
    items = read(write_lines(tmp_path / "x.jsonl", rows), **FIELD)
    assert items[0].fingerprint == 5
    assert isinstance(items[1], SourceReject)


FRAMES = [pd.DataFrame, pl.DataFrame, pa.table, lambda columns: pd.DataFrame(columns).to_dict("records")]


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("values", [[5, 5, 9 << 40], [-1, 2**63 - 1, 5], [f"{n:016x}" for n in (5, 13, 10)]])
def test_frames_have_them_too(frame, values):
    given = frame({"id": ["a", "b", "c"], "f": values})
    report = simhbase.dedup(Inputs(rows=given, options=InputOptions(**FIELD)), {"k": 1})
    assert report.rejected == 0
    assert list(report.kept) == [True, False, True]


def test_frames_of_digits_need_a_base():
    given = {"id": ["a", "b"], "f": ["10", "11"]}
    options = InputOptions(**FIELD, fingerprint_base=10)
    report = simhbase.dedup(Inputs(rows=pd.DataFrame(given), options=options), {"k": 1})
    assert list(report.kept) == [True, False]
    with pytest.raises(simhbase.BadInput, match="Say which"):
        simhbase.dedup(Inputs(rows=pd.DataFrame(given), options=InputOptions(**FIELD)))


def test_signed_integers_are_taken_by_an_index():
    with simhbase.open("memory:", create=simhbase.Profile(verify=False)) as index:
        index.add_fingerprints(["a", "b"], np.array([-1, -(2**63)]))
        assert index.fingerprints(["a", "b"]) == [2**64 - 1, 2**63]
        assert [match.id for match in index.find_fingerprints([-1])[0]] == ["a"]
        with pytest.raises(UsageError, match="integers of 64 bits"):
            index.add_fingerprints(["c"], [-(2**63) - 1])


def test_typed_fingerprints_follow_the_same_rule(tmp_path):
    path = write_lines(tmp_path / "x.jsonl", [{"id": "a", "f": 1234567890123456}])
    store = ("--store", "rocksdb:s.db")
    loaded = run("load", "--fingerprint-field", "f", path, *store, cwd=tmp_path)
    assert (loaded.returncode, b"misses" in loaded.stderr) == (0, False)
    for command in (["find", *store], ["match", "--against", path, "--fingerprint-field", "f"]):
        asked = (*command, "--fingerprint", "1234567890123456")
        done = run(*asked, cwd=tmp_path)
        assert done.returncode == 2
        assert b"--fingerprint-base: " in done.stderr
        (match,) = result(*asked, "--fingerprint-base", 10, cwd=tmp_path)["matches"]
        assert match["id"] == "a"
        assert result(*asked, "--fingerprint-base", 16, cwd=tmp_path)["matches"] == []
        assert (
            b"--fingerprint: 'xyz' is no fingerprint of 64 bits"
            in run(*command, "--fingerprint", "xyz", cwd=tmp_path).stderr
        )
    muted = ("mute", "add", "--fingerprint", "1234567890123456", *store)
    assert run(*muted, cwd=tmp_path).returncode == 2
    assert result(*muted, "--fingerprint-base", 10, cwd=tmp_path)["muted"] == 1


HEXADECIMAL, DECIMAL, UNCERTAIN = "00000000000000ff", "12345678901234567", "1234567890123456"


@pytest.mark.parametrize(
    ("text", "base"),
    [
        (HEXADECIMAL, 16),
        ("0x0000000000000001", 16),
        ("0X1", 16),
        ("-5", 10),
        (DECIMAL, 10),
        (str(2**64 - 1), 10),
        (str(-(2**63)), 10),
        (UNCERTAIN, "uncertain"),
        ("7", "uncertain"),
        ("face", None),
        ("a", None),
        ("00000000000000fff", None),
        (str(2**64), None),
        (str(-(2**63) - 1), None),
        ("", None),
        ("-", None),
        ("n/a", None),
    ],
)
def test_the_form_of_a_fingerprint_shows_its_base(text, base):
    assert shown_base(text, 64) == base


def test_a_source_of_thousands_of_decimals_is_refused_and_the_next_one_read(tmp_path):
    digits = write_lines(tmp_path / "a.jsonl", [{"id": n, "f": f"{n:016d}"} for n in range(3000)])
    good = write_lines(tmp_path / "b.jsonl", [{"id": "x", "f": HEXADECIMAL}])
    sources = Sources([str(digits), str(good)], InputOptions(**FIELD))
    refused, other = [item for chunk in sources.chunks() for item in chunk]
    assert isinstance(refused, SourceReject)
    assert other.id is None
    assert sources.consumed > good.stat().st_size  # of an open file no more


def test_what_is_held_until_the_base_is_shown_is_bounded_in_bytes(tmp_path):
    rows = [{"id": n, "f": UNCERTAIN, "other": "x" * (4 << 20)} for n in range(20)]
    (item,) = read(write_lines(tmp_path / "x.jsonl", rows), **FIELD)
    assert "its first 8 fingerprints have only decimal digits" in item.reason


@pytest.mark.parametrize("certain", ["-5", DECIMAL])
def test_a_certain_decimal_says_that_the_others_are(tmp_path, certain):
    rows = [{"id": n, "f": text} for n, text in enumerate(["16", certain, UNCERTAIN])]
    expected = [16, int(certain) % 2**64, int(UNCERTAIN)]
    assert found(read(write_lines(tmp_path / "x.jsonl", rows), **FIELD)) == expected
    frame = pd.DataFrame({"id": ["a", "b", "c"], "f": [row["f"] for row in rows]})
    report = simhbase.dedup(Inputs(rows=frame, options=InputOptions(**FIELD)), {"k": 0})
    assert (report.rejected, report.unique) == (0, 3)
    assert typed_fingerprints(["16", certain, UNCERTAIN], None) == expected


def test_a_junk_cell_decides_nothing(tmp_path):
    rows = [{"id": n, "f": text} for n, text in enumerate(["face", UNCERTAIN, DECIMAL, "face"])]
    wrong, *numbers, _ = read(write_lines(tmp_path / "x.jsonl", rows), **FIELD)
    assert "'face' is no fingerprint of 64 bits" in wrong.reason
    assert found(numbers) == [int(UNCERTAIN), int(DECIMAL)]
    *_, item = read(write_lines(tmp_path / "y.jsonl", rows[:2]), **FIELD)
    assert isinstance(item, SourceReject)


@pytest.mark.parametrize(
    ("texts", "values"),
    [([UNCERTAIN, "17"], None), ([UNCERTAIN, DECIMAL], [int(UNCERTAIN), int(DECIMAL)])],
)
def test_objects_joined_on_a_line_are_looked_at_each(tmp_path, texts, values):
    line = b"".join(orjson.dumps({"id": n, "f": text}) for n, text in enumerate(texts))
    items = read(write(tmp_path / "x.jsonl", line + b"\n"), **FIELD)
    if values is None:
        assert [type(item) for item in items] == [SourceReject]
    else:
        assert found(items) == values
