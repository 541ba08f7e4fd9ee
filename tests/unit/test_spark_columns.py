"""What the tasks of Spark are given, in pieces, without Spark."""

import json
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhbase.corpus.record import InputOptions
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.spark.files import _LineParser
from simhbase.spark.fingerprints import PROBLEM, Columns, at_borders
from tests.hostile import growing_page


def test_a_page_that_takes_too_much_costs_its_task_a_reject(monkeypatch):
    monkeypatch.setattr("simhbase.corpus.reading.PAGE_MEMORY", 64 << 20)
    pages = ["<p>words of a page", growing_page(32 << 10), "<p>more words of a page"]
    lines = [json.dumps({"id": f"p{number}", "text": page}).encode() for number, page in enumerate(pages)]
    rows = pa.table({"line": pa.array(lines, pa.binary()), "path": ["f"] * 3, "begin": [0] * 3})
    work = _LineParser(InputOptions(format="jsonl", html=True), {"f": (0, "f")}, {("f", 0): 0}, None)
    (found,) = work(rows.to_batches())
    assert found.column("id").to_pylist() == [b"p0", b"p1", b"p2"]
    assert found.column("text").to_pylist() == [b"words of a page", None, b"more words of a page"]
    assert "it took more than 64 MiB of memory" in found.column(PROBLEM).to_pylist()[1]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4))), st.integers(1, 7))
def test_between_two_beginnings_are_whole_groups_in_their_order(runs, size):
    keys = [number for number, (_, count) in enumerate(runs) for _ in range(count)]
    rows = pa.table({"key": pa.array(keys, pa.int64()), "row": np.arange(len(keys))})
    found = list(at_borders(rows.to_batches(max_chunksize=size), ["key"]))
    pieces: list[list[int]] = [[]]
    for piece, begins in found:
        if begins:
            pieces.append([])
        pieces[-1] += piece.column("key").to_pylist()
    assert [key for piece in pieces for key in piece] == keys
    assert all(set(one).isdisjoint(other) for one, other in pairwise(pieces))


@pytest.mark.parametrize("columns", [Columns(1, 0), Columns(2, 0), Columns(1, 9), Columns(2, 3)])
@pytest.mark.parametrize("count", [0, 5])
def test_fingerprints_come_back_from_columns_as_they_were(columns, count):
    chance = np.random.default_rng(1)
    values = chance.integers(0, 2**64, (count, 2) if columns.words == 2 else count, dtype=np.uint64)
    sketches = chance.integers(0, 256, (count, columns.sketch_bytes), dtype=np.uint8)
    arrays = columns.arrays(FingerprintBatch(values, sketches))
    found = columns.read(pa.table(arrays, columns.names))
    assert np.array_equal(found.values, values)
    assert np.array_equal(found.sketches, sketches)


def test_a_fingerprint_is_the_bytes_of_its_hexadecimal_digits():
    (column,) = Columns(1, 0).arrays(FingerprintBatch.bare(np.array([0x0123456789ABCDEF], np.uint64)))
    assert column.to_pylist() == [bytes.fromhex("0123456789abcdef")]
