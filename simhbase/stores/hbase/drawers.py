"""The index table in HBase: a row is a row key with an empty value."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.rowkeys import KEY_BYTES, PREFIX_BYTES, fingerprints_of
from simhbase.errors import StoreFailed
from simhbase.model.values import Size
from simhbase.process.logs import logger
from simhbase.stores.arrays import parts_of, to_bytes
from simhbase.stores.base import PART_ROWS, DrawerRows, IndexRows
from simhbase.stores.hbase import filters
from simhbase.stores.hbase.answers import (
    NotFiltered,
    UnexpectedRow,
    drawer_parts,
    read_index_rows_thrift1,
    read_index_rows_thrift2,
)
from simhbase.stores.hbase.client import GatewayClient, Operation, tasks
from simhbase.stores.hbase.counters import Counters
from simhbase.stores.hbase.filtered import ROWS as FILTERED_ROWS
from simhbase.stores.hbase.filtered import FilteredScans
from simhbase.stores.hbase.requests import DELETE_PAUSE, Request, Table
from simhbase.stores.hbase.scans import Kind, Page, Scans
from simhbase.stores.hbase.schema import INDEX
from simhbase.stores.keys import after_read

# Rows of one call, fewest and most: few, so that all connections have some, but enough to be worth a call.
PUT_ROWS = (250, 5_000)
GET_ROWS = (100, 1_000)
# Rows of a drawer that one scan asks for at first, and when there are more.
FIRST_ROWS, MORE_ROWS = 500, 4_000
ITERATED_ROWS = 10_000
# Behind all rows of a drawer, and still with its prefix: with the next prefix in its place, servers
# would not ask the bloom filters of prefixes.
_DRAWER_END = b"\xff" * (KEY_BYTES - PREFIX_BYTES) + b"\x00"

log = logger(__name__)

_KIND = Kind[IndexRows](
    read_index_rows_thrift1,
    lambda rows: rows,
    lambda rows: len(rows.keys),
    lambda rows: rows.keys[-1].tobytes(),
    lambda rows: rows.keys.size,
    ITERATED_ROWS,
)


class HBaseDrawers:
    """The index table. filtered: if there is a Thrift 2 gateway."""

    def __init__(
        self, client: GatewayClient, table: Table, filtered: FilteredScans | None, counters: Counters
    ) -> None:
        self._client = client
        self._table = table
        self._filtered = filtered
        self._counters = counters
        self._scans = Scans(client, table, _KIND, ITERATED_ROWS)

    def add(self, keys: NDArray[np.uint8]) -> None:
        if not len(keys):
            return
        with self._client.writing(self._table) as operation:
            self._client.write(operation, tasks(self.puts(keys)))

    def puts(self, keys: NDArray[np.uint8]) -> Iterator[Request]:
        """Requests that put rows at the servers' time.

        They are sorted by their first 8 bytes: a call for neighbours goes to few regions, and takes the
        servers two thirds of the time of one for scattered rows.
        """
        rows = np.ascontiguousarray(keys).reshape(-1, KEY_BYTES)
        first = np.ascontiguousarray(rows[:, :8]).view(">u8").ravel().astype(np.uint64)
        parts = parts_of(rows[np.argsort(first)], self._client.share(len(rows), *PUT_ROWS))
        return map(self._table.put_keys, parts)

    def remove(self, keys: NDArray[np.uint8], times: NDArray[np.int64]) -> None:
        """Remove rows, each up to the time that was read; negative if there was none."""
        order = np.argsort(times, kind="stable")[np.count_nonzero(times < 0) :]
        borders = np.flatnonzero(np.diff(times[order])) + 1
        requests = [
            self._table.delete_keys(part, int(times[same[0]]))
            for same in np.split(order, borders)
            if len(same)
            for part in parts_of(keys[same], PUT_ROWS[1])
        ]
        with self._client.writing(self._table) as operation:
            self._client.write(operation, tasks(requests))
        time.sleep(DELETE_PAUSE if requests else 0.0)

    def times(self, keys: NDArray[np.uint8]) -> NDArray[np.int64]:
        rows = np.ascontiguousarray(keys).reshape(-1, KEY_BYTES)
        parts = parts_of(rows, self._client.share(len(rows), *GET_ROWS))
        requests = [self._table.get(to_bytes(part), read_index_rows_thrift1) for part in parts]
        with self._client.reading(self._table) as operation:
            try:
                answers: list[IndexRows] = self._client.read(operation, tasks(requests))
            except UnexpectedRow as error:
                raise StoreFailed(f"{self._table.name} holds more than simhbase's rows: {error}") from error
        found = np.full(len(rows), -1, dtype=np.int64)
        if answers:
            there = _as_strings(np.concatenate([answer.keys for answer in answers]))
            order = np.argsort(there)
            times = np.concatenate([answer.times for answer in answers])[order]
            places = np.searchsorted(there[order], _as_strings(rows))
            places[places == len(there)] = 0
            same = there[order][places] == _as_strings(rows) if len(there) else np.zeros(len(rows), np.bool_)
            found[same] = times[places[same]]
        return found.reshape(keys.shape[:-1])

    def read(self, prefixes: NDArray[np.uint8], limit: int | None) -> Iterator[DrawerRows]:
        """Read drawers, with one filtered scan per region through Thrift 2, otherwise one scan per drawer."""
        asked = _SortedDrawers(prefixes, limit)
        filtered = self._filtered if self._filtered is not None and self._filtered.is_usable() else None
        waiting = deque(self._cursors(asked, filtered))
        while waiting:
            cursors = asked.some_of(waiting)
            with self._client.reading(self._table) as operation:
                pages = (
                    self._pages(operation, asked, cursors)
                    if filtered is None
                    else self._filtered_pages(operation, asked, cursors, filtered)
                )
            if pages is None:
                filtered = None
                waiting = deque(single for cursor in (*cursors, *waiting) for single in cursor.split(asked))
                continue
            part = _RowCollector(asked)
            further = [part.take(cursor, rows) for cursor, rows in zip(cursors, pages, strict=True)]
            waiting.extendleft(cursor for cursor in reversed(further) if cursor is not None)
            if part.drawers:
                self._count_truncated(part, limit)
                yield part.rows()

    def iterate(self, start: bytes = b"", stop: bytes = b"") -> Iterator[IndexRows]:
        """Rows in key order. Can be continued after an error."""
        return self._scans.iterate(start, stop)

    def approximate_size(self) -> Size:
        """Counted if small, otherwise estimated from samples."""
        return self._scans.size()

    def _cursors(self, asked: _SortedDrawers, filtered: FilteredScans | None) -> Iterable[_Cursor]:
        if filtered is None or not len(asked.prefixes):
            return (_Cursor(drawer, drawer + 1, asked.start(drawer)) for drawer in range(len(asked.prefixes)))
        with self._client.reading(self._table) as operation:
            chunks = filtered.chunks(operation, _as_strings(asked.prefixes))
        return [_Cursor(first, end, asked.start(first)) for first, end in chunks]

    def _pages(
        self, operation: Operation, asked: _SortedDrawers, cursors: Sequence[_Cursor]
    ) -> list[tuple[IndexRows, _Found]]:
        pages = [Page(cursor.start, asked.stop(cursor), cursor.rows(asked)) for cursor in cursors]
        return [(rows, _only(rows)) for rows in self._scans.pages(operation, pages)]

    def _filtered_pages(
        self, operation: Operation, asked: _SortedDrawers, cursors: Sequence[_Cursor], filtered: FilteredScans
    ) -> list[tuple[IndexRows, _Found]] | None:
        """None if Thrift 1 must continue."""
        requests = [
            self._table.filtered(
                cursor.start,
                asked.stop(cursor),
                filters.drawer_ranges(asked.prefixes[cursor.first : cursor.end]),
                cursor.rows(asked),
                read_index_rows_thrift2,
            )
            for cursor in cursors
        ]
        answers: list[IndexRows] | None = filtered.read(operation, requests)
        if answers is None:
            return None
        try:
            return [
                (rows, drawer_parts(rows.keys, asked.prefixes[cursor.first : cursor.end]))
                for cursor, rows in zip(cursors, answers, strict=True)
            ]
        except NotFiltered as problem:
            filtered.forget(problem)
            return None

    def _count_truncated(self, part: _RowCollector, limit: int | None) -> None:
        truncated = sum(map(len, part.truncated))
        if truncated:
            self._counters.count("truncated_drawers", truncated)
            log.info("%d drawers of %s hold more than %d rows", truncated, self._table.name, limit)


# The drawers that have rows, by their numbers among those of a cursor, and the offsets of their rows.
_Found = tuple[NDArray[np.int64], NDArray[np.int64]]


class _SortedDrawers:
    """The drawers of a read, sorted; order: their original positions."""

    def __init__(self, prefixes: NDArray[np.uint8], limit: int | None) -> None:
        self.order = np.argsort(_as_strings(prefixes))
        self.prefixes = np.ascontiguousarray(prefixes[self.order])
        self.limit = limit

    def start(self, drawer: int) -> bytes:
        return bytes(self.prefixes[drawer])

    def stop(self, cursor: _Cursor) -> bytes:
        return self.start(cursor.end - 1) + _DRAWER_END

    def some_of(self, waiting: deque[_Cursor]) -> list[_Cursor]:
        """Take as many as have a bounded number of rows together."""
        taken: list[_Cursor] = []
        rows = 0
        while waiting and rows < 2 * PART_ROWS:
            taken.append(waiting.popleft())
            rows += taken[-1].rows(self)
        return taken


@dataclass(frozen=True, slots=True)
class _Cursor:
    """Position of a scan of drawers: those from `first` until before `end`, from the key `start` on, after
    `seen` rows of the first one."""

    first: int
    end: int
    start: bytes
    seen: int = 0

    def rows(self, asked: _SortedDrawers) -> int:
        """Number of rows to request."""
        of_one = MORE_ROWS if self.seen else FIRST_ROWS
        most = of_one if self.end - self.first == 1 else FILTERED_ROWS
        if asked.limit is None:
            return most
        return min(most, (self.end - self.first) * (asked.limit + 1) - self.seen)

    def split(self, asked: _SortedDrawers) -> Iterator[_Cursor]:
        """A cursor per drawer."""
        yield _Cursor(self.first, self.first + 1, self.start, self.seen)
        for drawer in range(self.first + 1, self.end):
            yield _Cursor(drawer, drawer + 1, asked.start(drawer))

    def after(self, asked: _SortedDrawers, drawer: int, seen: int, last: bytes) -> _Cursor | None:
        """The cursor after a full page whose last row is in this drawer. seen: rows of it so far. Raises
        StoreFailed for a page that goes back."""
        if asked.limit is None or seen <= asked.limit:
            return _Cursor(drawer, self.end, after_read(self.start, last, INDEX), seen)
        return _Cursor(drawer + 1, self.end, asked.start(drawer + 1)) if drawer + 1 < self.end else None


@dataclass
class _RowCollector:
    """Collects rows for a DrawerRows, up to the limit."""

    asked: _SortedDrawers
    drawers: list[NDArray[np.int64]] = field(default_factory=list)
    counts: list[NDArray[np.int64]] = field(default_factory=list)
    keys: list[NDArray[np.uint8]] = field(default_factory=list)
    truncated: list[NDArray[np.int64]] = field(default_factory=list)

    def take(self, cursor: _Cursor, page: tuple[IndexRows, _Found]) -> _Cursor | None:
        """Add a page; returns the cursor to continue, if any."""
        rows, (found, offsets) = page
        keys = rows.keys
        if not len(keys):
            return None
        counts = np.diff(offsets)
        seen = np.zeros(len(found), dtype=np.int64)
        seen[0] = cursor.seen if found[0] == 0 else 0
        further = None
        if len(keys) >= cursor.rows(self.asked):
            last = cursor.first + int(found[-1])
            further = cursor.after(self.asked, last, int(seen[-1] + counts[-1]), keys[-1].tobytes())
        limit = self.asked.limit
        if limit is not None and (over := seen + counts > limit).any():
            self.truncated.append(found[over] + cursor.first)
            room = np.maximum(limit - seen, 0)
            places = np.arange(len(keys)) - np.repeat(offsets[:-1], counts)
            keys = keys[places < np.repeat(room, counts)]
            counts = np.minimum(counts, room)
        self.drawers.append(found[counts > 0] + cursor.first)
        self.counts.append(counts[counts > 0])
        self.keys.append(keys)
        return further

    def rows(self) -> DrawerRows:
        order = self.asked.order
        offsets = np.concatenate([np.zeros(1, np.int64), *self.counts]).cumsum()
        return DrawerRows(
            order[np.concatenate(self.drawers)],
            offsets,
            fingerprints_of(np.concatenate(self.keys).tobytes()),
            order[np.concatenate([np.empty(0, np.int64), *self.truncated])],
        )


def _only(rows: IndexRows) -> _Found:
    """Drawers of a page that has rows of one drawer."""
    return np.zeros(1, dtype=np.int64), np.array([0, len(rows.keys)])


def _as_strings(rows: NDArray[np.uint8]) -> NDArray[np.bytes_]:
    """Rows as strings that sort like their bytes: (n, size) -> (n,)."""
    size = rows.shape[-1]
    return np.ascontiguousarray(rows).view(f"S{size}").reshape(-1)
