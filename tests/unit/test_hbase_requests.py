"""Requests that are put together from pieces are the ones that happybase's client would write, and their
answers have a bounded size."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thriftpy2.transport import TCyMemoryBuffer

from simhbase.drawers.rowkeys import KEY_BYTES
from simhbase.fingerprint.minhash import SketchParameters
from simhbase.index.rows import MAX_ID_BYTES, Entry, document_key
from simhbase.index.tags import MOST_NAME_BYTES, MOST_TAGS, MOST_VALUE_BYTES
from simhbase.stores.hbase.connection import MOST_BYTES, AnswerTooLarge
from simhbase.stores.hbase.filtered import FilteredScans
from simhbase.stores.hbase.interface import BatchMutation, Mutation, Thrift1, client
from simhbase.stores.hbase.records import (
    AT_ONCE,
    CELLS_AT_ONCE,
    META_AT_ONCE,
    META_ROWS,
    PAGE_ROWS,
    HBaseNamedRecords,
    HBaseRecords,
)
from simhbase.stores.hbase.requests import Request, Table

NAME, COLUMN = b"ns:100%d_index", b"i:"
TABLE = Table(NAME.decode(), COLUMN)
KEYS = st.one_of(st.binary(max_size=40), st.sampled_from([b"\xd1key\xd1", b"%b", b"\xff" * 300]))
INDEX_KEYS = st.lists(st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES), max_size=5)
VERSIONS = st.integers(0, 2**63 - 1)


def index_keys(rows: list[bytes]) -> np.ndarray:
    return np.frombuffer(b"".join(rows), np.uint8).reshape(-1, KEY_BYTES)


def batch(row: bytes, **fields: object) -> object:
    return BatchMutation(row=row, mutations=[Mutation(column=COLUMN, **fields)])


def written(method: str, batches: list[object], **more: object) -> bytes:
    buffer = TCyMemoryBuffer()
    client(Thrift1, buffer)._send(method, tableName=NAME, rowBatches=batches, attributes={}, **more)
    return buffer.getvalue()


@given(st.lists(st.tuples(KEYS, KEYS), max_size=5), VERSIONS)
def test_putting_rows(rows, version):
    batches = [batch(key, value=value) for key, value in rows]
    assert TABLE.put(rows, None).message == written("mutateRows", batches)
    assert TABLE.put(rows, version).message == written("mutateRowsTs", batches, timestamp=version)


@given(INDEX_KEYS)
def test_putting_rows_of_the_index(rows):
    batches = [batch(row, value=b"") for row in rows]
    assert TABLE.put_keys(index_keys(rows)).message == written("mutateRows", batches)


@given(st.lists(KEYS, max_size=5), VERSIONS)
def test_deleting_rows_up_to_a_version(keys, version):
    batches = [batch(key, isDelete=True) for key in keys]
    assert TABLE.delete(keys, version).message == written("mutateRowsTs", batches, timestamp=version)


@given(INDEX_KEYS, VERSIONS)
def test_deleting_rows_of_the_index_up_to_a_time(rows, time):
    batches = [batch(row, isDelete=True) for row in rows]
    assert TABLE.delete_keys(index_keys(rows), time).message == written(
        "mutateRowsTs", batches, timestamp=time
    )


def test_keys_may_be_a_view_of_other_bytes():
    rows = np.arange(4 * KEY_BYTES, dtype=np.uint8).reshape(4, KEY_BYTES)[::-2]
    assert TABLE.put_keys(rows) == TABLE.put_keys(rows.copy())


def test_the_errors_of_all_calls_say_whether_another_attempt_may_help():
    for method in Thrift1.thrift_services:
        fields = {
            name: kind for _, name, kind, *_ in getattr(Thrift1, f"{method}_result").thrift_spec.values()
        }
        assert "io" not in fields or "canRetry" in {name for _, name, *_ in fields["io"].thrift_spec.values()}


class Rows:
    """A client of gateways whose tables have rows without end. asked: how many were asked for at once."""

    def __init__(self) -> None:
        self.asked, self._number = list[int](), 0

    @contextmanager
    def reading(self, table: Table) -> Iterator[None]:
        yield None

    def read(self, operation: None, tasks: Sequence[Any]) -> list[Any]:
        return [self._done(task()) for task in tasks]

    def share(self, n: int, fewest: int, most: int) -> int:
        return most

    def _done(self, steps: Any) -> Any:
        requests = next(steps)
        while True:
            try:
                requests = steps.send(list(map(self._answer, requests)))
            except StopIteration as end:
                return end.value

    def _answer(self, request: Request) -> Any:
        if request.method not in ("scannerGetList", "getRowsWithColumns"):
            return 1
        number = request.arguments.get("nbRows") or len(request.arguments["rows"])
        self.asked.append(number)
        return list(map(self._row, range(number)))

    def _row(self, _: int) -> Any:
        self._number += 1
        cell = SimpleNamespace(value=b"a value", timestamp=1)
        return SimpleNamespace(row=self._number.to_bytes(4), columns={b"d:": cell})


@pytest.mark.parametrize(
    ("table", "page", "at_once"), [("documents", PAGE_ROWS, AT_ONCE), ("meta", META_ROWS, META_AT_ONCE)]
)
def test_a_page_comes_in_answers_of_few_rows(table, page, at_once):
    gateways = Rows()
    records = HBaseRecords(gateways, Table("t", b"d:"), table, None)
    pages = records.iterate()
    for number in range(2):
        rows = next(pages)
        assert [key for key, _ in rows] == [(number * page + n + 1).to_bytes(4) for n in range(page)]
    assert max(gateways.asked) == at_once
    gateways.asked.clear()
    records.get([number.to_bytes(4) for number in range(10_000)])
    assert max(gateways.asked) <= at_once


def test_all_cells_of_rows_come_in_answers_of_fewer():
    gateways = Rows()
    records = HBaseNamedRecords(gateways, Table("t", b"d:"))
    assert len(next(records.iterate())) == PAGE_ROWS
    records.get([number.to_bytes(4) for number in range(10_000)])
    assert max(gateways.asked) == CELLS_AT_ONCE


def test_cells_of_other_families_are_not_read():
    """What another program put into one of its own was taken for a document's row, and refused as damaged."""
    request = Table("t", b"d:").all_cells([b"a"])
    assert (request.method, request.arguments["columns"]) == ("getRowsWithColumns", [b"d"])


def test_the_largest_rows_fit_into_an_answer():
    """A load with notes of two megabytes, of the names of small files, could not be resumed."""
    key = document_key("i" * MAX_ID_BYTES)
    tags = tuple((f"{n:02}{'n' * (MOST_NAME_BYTES - 2)}", "v" * MOST_VALUE_BYTES) for n in range(MOST_TAGS))
    sketch = bytes(SketchParameters(4096, 32, sized=True, numbered=True).bytes)
    value = Entry(1, sketch=sketch, tags=tags).encode(key)
    row = len(key) + len(value) + 100  # in Thrift
    assert AT_ONCE * row < MOST_BYTES
    assert CELLS_AT_ONCE * 2 * row < MOST_BYTES
    assert META_AT_ONCE * (10 << 20) < MOST_BYTES


def test_what_is_too_large_for_one_answer_is_read_otherwise():
    """Thrift 2 asks for 8,192 listings at once, and sketches may have 16 kB."""

    def try_once(tasks: object, deadline: float) -> list[Any]:
        raise AnswerTooLarge("too large")

    scans = FilteredScans(None, SimpleNamespace(try_once=try_once), Table("t", b"d:"))
    assert scans.read(SimpleNamespace(end=time.monotonic() + 1), []) is None
