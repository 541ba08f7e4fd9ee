"""The tables of a store in HBase: drawers and records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from simhbase.errors import StoreFailed
from simhbase.rowkeys import KEY_BYTES, PREFIX_BYTES
from simhbase.stores.base import DrawerRows, RecordTable, Size
from simhbase.stores.hbase.calls import Client, Task, ask
from simhbase.stores.hbase.clock import CLOCK_SKEW, Clock
from simhbase.stores.hbase.connection import Trouble
from simhbase.stores.hbase.requests import Request, TableRequests, next_keys, next_rows
from simhbase.stores.hbase.scans import Kind, Reading
from simhbase.stores.rows import to_bytes, to_drawer_rows, to_keys

INDEX_COLUMN, RECORD_COLUMN = b"i:", b"d:"  # without the colon the gateway fails inside

# Rows of one call, fewest and most: few, so that all lanes have some, but enough to be worth a call.
PUT_ROWS = (250, 5_000)
GET_ROWS = (100, 1_000)
PAGE_ROWS = 2_000
# The same where values may have a megabyte.
META_ROWS = 20
PUT_BYTES = 1 << 20
# Behind all rows of a drawer, and still with its prefix: with the next prefix in its place, servers
# would not ask the bloom filters of prefixes.
_DRAWER_END = b"\xff" * (KEY_BYTES - PREFIX_BYTES) + b"\x00"

Row = tuple[bytes, bytes]
T = TypeVar("T")
S = TypeVar("S", NDArray[np.uint8], list[bytes], list[Row])


class HBaseDrawers:
    """See simhbase.stores.base.Drawers. A row is a row key with an empty value."""

    def __init__(self, client: Client, table: TableRequests, clock: Clock) -> None:
        self._client = client
        self._table = table
        self._clock = clock
        self._last_mark: bytes | None = None
        kind = Kind[bytes](next_keys, partial(_index_keys, table.table), lambda key: key, len)
        self._reading = Reading(client, table, kind, PAGE_ROWS)

    def add(self, keys: NDArray[np.uint8]) -> None:
        """Puts rows."""
        self._client.write(self._table, _tasks(self._table.put_keys, self._sorted_parts(keys)))

    def remove(self, keys: NDArray[np.uint8], before: int) -> None:
        """Removes what was put up to the moment `before`."""
        delete = partial(self._table.delete_keys, timestamp=before)
        self._client.write(self._table, _tasks(delete, self._sorted_parts(keys)))

    def contains(self, keys: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Which rows exist."""
        rows = keys.reshape(-1, KEY_BYTES)
        parts = _parts(rows, self._client.share(len(rows), *GET_ROWS))
        answers = self._client.read(self._table, _tasks(self._table.get_keys, parts))
        there = {found.row for answer in answers for found in answer}
        return np.fromiter(map(there.__contains__, to_bytes(rows)), np.bool_, len(rows)).reshape(
            keys.shape[:-1]
        )

    def read(self, prefixes: NDArray[np.uint8], limit: int | None) -> DrawerRows:
        """Reads drawers, each once, and those twice between which a document may have slipped.

        The drawers are not read at one moment. A document that moves to another fingerprint would be
        missed if its new drawer was read before the document came, and its old one after it had left.
        Between the two its writer takes a moment, which lasts for CLOCK_SKEW and leaves a mark: where
        this read took less, or the mark is the old one, nothing was missed. Else a second look finds
        what the first has missed; only a document that moves twice meanwhile escapes both.
        """
        wanted = to_bytes(prefixes)
        distinct = sorted(set(wanted))
        most = None if limit is None else limit + 1
        last_mark, start = self._last_mark, time.monotonic()
        rows = self._read(distinct, most)
        if time.monotonic() - start >= CLOCK_SKEW:
            self._last_mark = self._clock.mark()
            if self._last_mark != last_mark:
                rows = [_merged(both, most) for both in zip(rows, self._read(distinct, most), strict=True)]
        found = dict(zip(distinct, rows, strict=True))
        return to_drawer_rows([found[prefix] for prefix in wanted], limit)

    def _read(self, prefixes: Sequence[bytes], most: int | None) -> list[list[bytes]]:
        return self._reading.ranges([(prefix, prefix + _DRAWER_END) for prefix in prefixes], most)

    def iterate(self) -> Iterator[NDArray[np.uint8]]:
        """All rows in key order. After an error it goes on where it was."""
        return map(to_keys, self._reading.batches(b""))

    def approximate_size(self) -> Size:
        """Counted if it is small, else guessed from samples."""
        return self._reading.size()

    def _sorted_parts(self, keys: NDArray[np.uint8]) -> list[NDArray[np.uint8]]:
        """Rows in the order of their first 8 bytes: a call for neighbours goes to few regions, and
        costs the servers two thirds of one for rows from everywhere."""
        rows = np.ascontiguousarray(keys).reshape(-1, KEY_BYTES)
        first = np.ascontiguousarray(rows[:, :8]).view(">u8").ravel().astype(np.uint64)
        return _parts(rows[np.argsort(first)], self._client.share(len(rows), *PUT_ROWS))


class HBaseRecords:
    """See simhbase.stores.base.Records."""

    def __init__(self, client: Client, table: TableRequests, name: RecordTable) -> None:
        self._client = client
        self._table = table
        small = name == "meta"
        self._get_rows = (1, META_ROWS) if small else GET_ROWS
        kind = Kind[Row](next_rows, _records, itemgetter(0), lambda row: len(row[0]) + len(row[1]))
        self._reading = Reading(client, table, kind, META_ROWS if small else PAGE_ROWS)

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of keys, each read once."""
        values = dict(row for answer in self._get(keys) for row in _records(answer))
        return list(map(values.get, keys))

    def put(self, rows: Sequence[tuple[bytes, bytes]]) -> None:
        """Writes rows. Of a key that comes twice the last value is sent: a server would give both the
        same time, and either could win."""
        distinct = sorted(dict(rows).items())
        parts = _limited(_parts(distinct, self._client.share(len(distinct), *PUT_ROWS)))
        self._client.write(self._table, _tasks(self._table.put, parts))

    def delete(self, keys: Sequence[bytes]) -> None:
        """Deletes what the keys hold now: what was put up to the time of the latest of these values.

        HBase hides what is put after a delete that has a later time. With the servers' time for the
        delete, that could be every put in the same millisecond, and, where an answer was lost and the
        call repeated, all until the first call is carried out after all. So the time is that of what is
        deleted, and the pause gives a later one to whatever is put when this has returned.
        """
        self._client.require_access()
        found = [row for answer in self._get(keys) for row in answer]
        if not found:
            return
        delete = partial(self._table.delete, timestamp=max(map(_time, found)))
        rows = sorted(row.row for row in found)
        self._client.write(
            self._table, _tasks(delete, _parts(rows, self._client.share(len(rows), *PUT_ROWS)))
        )
        time.sleep(CLOCK_SKEW)

    def scan(self, prefixes: Sequence[bytes], limit: int) -> list[list[tuple[bytes, bytes]]]:
        """The rows of prefixes, each read once."""
        distinct = list(dict.fromkeys(prefixes))
        rows = self._reading.ranges([(prefix, _successor(prefix)) for prefix in distinct], limit)
        found = dict(zip(distinct, rows, strict=True))
        return [found[prefix] for prefix in prefixes]

    def iterate(self, start: bytes = b"") -> Iterator[list[tuple[bytes, bytes]]]:
        """Rows in key order. After an error it goes on where it was."""
        return self._reading.batches(start)

    def compare_and_set(self, key: bytes, expected: bytes | None, value: bytes) -> bool:
        """Sets `value` if the key holds `expected`.

        Where the answer was lost the cell tells: true if it holds `value`, which is right where no
        two callers set the same value. HBase takes an absent cell and an empty value for the same, so
        these are told apart by a look that comes before.
        """
        self._client.require_access()
        if not expected and self.get([key]) != [expected]:
            return False
        patience = self._client.patience()
        setting = partial(ask, self._table.compare_and_put(key, expected, value))
        doubtful = False
        while True:
            try:
                done = bool(self._client.attempt(self._table, setting, patience))
                if done or not doubtful:
                    return done
            except Trouble:
                doubtful = True
            held = self.get([key])
            if held == [value]:
                return True
            if held != [expected]:
                return False

    def increment(self, key: bytes, by: int = 1) -> int:
        """Adds to a counter. After a lost answer it is done again: numbers may be skipped, but none
        is given twice."""
        (count,) = self._client.write(self._table, _tasks(partial(self._table.increment, by=by), [key]))
        return int(count)

    def approximate_size(self) -> Size:
        """Counted if it is small, else guessed from samples."""
        return self._reading.size()

    def _get(self, keys: Sequence[bytes]) -> list[list[Any]]:
        """The rows among keys that exist, each once, as they were answered."""
        distinct = list(dict.fromkeys(keys))
        parts = _parts(distinct, self._client.share(len(distinct), *self._get_rows))
        return self._client.read(self._table, _tasks(self._table.get, parts))


def _tasks(request: Callable[[T], Request], parts: Iterable[T]) -> list[Task[Any]]:
    """A task for each part; the requests are made when they are sent."""
    # mypy infers no type for a lambda with a default.
    return [lambda part=part: ask(request(part)) for part in parts]  # type: ignore[misc]


def _parts(whole: S, most: int) -> list[S]:
    return [whole[start : start + most] for start in range(0, len(whole), most)]


def _limited(parts: Sequence[list[Row]]) -> Iterator[list[Row]]:
    """The same rows in parts of a bounded number of bytes."""
    for part in parts:
        fitting: list[Row] = []
        size = 0
        for row in part:
            size += len(row[0]) + len(row[1])
            if fitting and size > PUT_BYTES:
                yield fitting
                fitting, size = [], len(row[0]) + len(row[1])
            fitting.append(row)
        yield fitting


def _merged(looks: tuple[list[bytes], list[bytes]], most: int | None) -> list[bytes]:
    """What either of two looks at a drawer has found."""
    first, second = looks
    return first if first == second else sorted({*first, *second})[:most]


def _successor(prefix: bytes) -> bytes:
    """The first key behind all that begin with a prefix; empty, for the end, where there is none."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else b""


def _index_keys(table: str, found: Sequence[Any]) -> list[bytes]:
    keys = [row.row for row in found]
    if any(len(key) != KEY_BYTES for key in keys):
        odd = next(key for key in keys if len(key) != KEY_BYTES)
        raise StoreFailed(
            f"{table} holds the row {odd[:40]!r}, which is none of simhbase's: delete it, in the hbase shell "
            f"deleteall '{table}', ROW"
        )
    return keys


def _time(row: Any) -> int:
    timestamp: int = row.columns[RECORD_COLUMN].timestamp
    return timestamp


def _records(found: Sequence[Any]) -> list[Row]:
    return [(row.row, row.columns[RECORD_COLUMN].value) for row in found]
