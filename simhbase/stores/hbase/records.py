"""Record tables in HBase: a row is a key with one value; its version is the cell's timestamp."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from simhbase.errors import StoreFailed
from simhbase.model.values import Size
from simhbase.stores.arrays import parts_of
from simhbase.stores.base import Cell, NamedCells, RecordTable, Row, Version
from simhbase.stores.hbase import filters
from simhbase.stores.hbase.client import GatewayClient, Operation, tasks
from simhbase.stores.hbase.filtered import ROWS as FILTERED_ROWS
from simhbase.stores.hbase.filtered import FilteredScans
from simhbase.stores.hbase.requests import DELETE_PAUSE, Request, Table
from simhbase.stores.hbase.scans import Kind, Page, Scans
from simhbase.stores.keys import after_key, after_prefix

C = TypeVar("C", bytes, tuple[bytes, bytes])  # a row's key, or the key and name of a cell

# Rows of one call, fewest and most: few, so that all connections have some, but enough to be worth a call.
PUT_ROWS = (250, 5_000)
GET_ROWS = (100, 1_000)
PAGE_ROWS = 2_000
# Rows of one answer, so that the largest that there may be fit into it: documents have ids of 1 kB, 5 kB of
# tags and sketches of 16 kB at most, and beside them claims that are not decided, which are as large.
AT_ONCE, CELLS_AT_ONCE = 1_200, 500
MOST_REFUSED = 10  # changes of a cell that holds what is expected there
# The same for rows of meta: most values have less than a megabyte, but a note of a load may have 10 MiB, the
# most that HBase stores.
META_ROWS, META_AT_ONCE = 20, 3
PUT_BYTES = 1 << 20


class HBaseRecords:
    """A record table. filtered: if there is a Thrift 2 gateway."""

    def __init__(
        self, client: GatewayClient, table: Table, name: RecordTable, filtered: FilteredScans | None
    ) -> None:
        self._client = client
        self._table = table
        self._filtered = filtered
        small = name == "meta"
        self._get_rows = (1, META_AT_ONCE) if small else GET_ROWS
        at_once = META_AT_ONCE if small else AT_ONCE
        kind = Kind[list[Row]](None, self._rows, len, lambda rows: rows[-1][0], _size, at_once)
        self._scans = Scans(client, table, kind, META_ROWS if small else PAGE_ROWS)

    def get(self, keys: Sequence[bytes]) -> list[Cell | None]:
        """The cells of keys; duplicate keys are read once."""
        with self._client.reading(self._table) as operation:
            cells = self._get(operation, keys)
        return list(map(cells.get, keys))

    def put(self, rows: Sequence[tuple[bytes, bytes]], version: Version | None = None) -> None:
        """Write rows, one call per version. For duplicate keys only the last value is sent: a server would
        give both the same time, and either could win."""
        if not rows:
            return
        with self._client.writing(self._table) as operation:
            self._client.write(operation, tasks(self.puts(rows, version)))

    def puts(self, rows: Sequence[tuple[bytes, bytes]], version: Version | None) -> Iterator[Request]:
        """Requests that write rows."""
        return (self._table.put(part, at) for part, at in _put_parts(self._client, rows, version))

    def delete(self, keys: Sequence[bytes], versions: Sequence[int] | None = None) -> None:
        """Delete cells, each up to a version; None: up to the time of the current cell.

        HBase hides puts that are not later than a delete. With the server's time for the delete, that could
        affect puts in the same millisecond and, if an answer was lost and the call repeated, all puts until
        the first call is executed. So the delete has the time of the deleted cell, and a pause ensures that
        puts after this call get a later one.
        """
        with self._client.writing(self._table) as operation:
            is_now = versions is None
            if versions is None:
                cells = self._get(operation, keys)
                keys, versions = list(cells), [cell.version for cell in cells.values()]
            self._client.write(operation, tasks(_deletions(self._table.delete, keys, versions)))
            time.sleep(DELETE_PAUSE if is_now and keys else 0.0)

    def scan(self, prefixes: Sequence[bytes], limit: int) -> list[list[Row]]:
        """The rows of prefixes, with one filtered scan per region through Thrift 2, otherwise one scan per
        prefix."""
        asked = sorted(set(prefixes))
        found: dict[bytes, list[Row]] = {prefix: [] for prefix in asked}
        with self._client.reading(self._table) as operation:
            if not self._is_filtered(asked) or not self._scan_filtered(operation, asked, limit, found):
                self._scan_each(operation, asked, limit, found)
        return [found[prefix] for prefix in prefixes]

    def iterate(self, start: bytes = b"", stop: bytes = b"") -> Iterator[list[Row]]:
        """Rows in key order. Can be continued after an error."""
        return self._scans.iterate(start, stop)

    def compare_and_set(self, key: bytes, expected: bytes | None, value: bytes) -> bool:
        """Set a value if the key holds the expected one: at the server's time, or that of the replaced cell
        if it is later.

        If the value was not set or the answer was lost, the cell is read: true if it holds the value, because
        a gateway may execute a call twice and return the second result.
        """
        with self._client.writing(self._table) as operation:

            def held() -> bytes | None:
                cell = self._get(operation, [key]).get(key)
                return cell and cell.value

            refused = 0
            while refused < MOST_REFUSED:
                request = self._table.compare_and_set(key, expected, value)
                results, problem = self._client.write_once(operation, tasks([request]))
                if any(results.values()):
                    return True
                if problem is not None:
                    self._client.pause_or_raise(operation, problem)
                if (found := held()) != expected or found == value:
                    return found == value
                refused += problem is None
            raise StoreFailed(
                f"{operation.doing} failed: {refused} times the gateway did not change a cell that holds "
                "what was expected there: look at its log and at those of the region servers"
            )

    def increment(self, key: bytes) -> int:
        """Add 1 to a counter. Repeated after a lost answer: numbers may be skipped, but are never given
        twice."""
        with self._client.writing(self._table) as operation:
            return self._client.call(
                operation,
                lambda connection: int(
                    connection.table(self._table.name).counter_inc(key, self._table.column)
                ),
            )

    def approximate_size(self) -> Size:
        """Counted if small, otherwise estimated from samples."""
        return self._scans.size()

    def _get(self, operation: Operation, keys: Sequence[bytes]) -> dict[bytes, Cell]:
        """The cells of existing keys."""
        distinct = list(dict.fromkeys(keys))
        parts = parts_of(distinct, self._client.share(len(distinct), *self._get_rows))
        answers = self._client.read(operation, tasks(map(self._table.get, parts)))
        return dict(row for answer in answers for row in self._rows(answer))

    def _rows(self, found: Sequence[Any]) -> list[Row]:
        column = self._table.column
        return [
            (row.row, Cell(cell.value, cell.timestamp))
            for row in found
            if (cell := row.columns.get(column)) is not None
        ]

    def _scan_each(
        self, operation: Operation, asked: Sequence[bytes], limit: int, found: dict[bytes, list[Row]]
    ) -> None:
        """Adds the missing rows of each prefix, with one scan each."""
        left = [prefix for prefix in asked if len(found[prefix]) < limit]
        while left:
            pages = [self._next_page(prefix, found[prefix], limit) for prefix in left]
            answers = self._scans.pages(operation, pages)
            for prefix, rows in zip(left, answers, strict=True):
                found[prefix] += rows
            left = [
                prefix
                for prefix, page, rows in zip(left, pages, answers, strict=True)
                if len(rows) == page.rows and len(found[prefix]) < limit
            ]

    def _next_page(self, prefix: bytes, found: Sequence[Row], limit: int) -> Page:
        start = after_key(found[-1][0]) if found else prefix
        return Page(start, after_prefix(prefix), min(self._scans.rows, limit - len(found)))

    def _is_filtered(self, asked: Sequence[bytes]) -> bool:
        """True if Thrift 2 can read these prefixes: ranges of a filter must not be nested."""
        return (
            self._filtered is not None
            and self._filtered.is_usable()
            and len({len(prefix) for prefix in asked}) == 1
            and asked != [b""]
        )

    def _scan_filtered(
        self, operation: Operation, asked: Sequence[bytes], limit: int, found: dict[bytes, list[Row]]
    ) -> bool:
        """Adds the rows of the prefixes with combined scans; false if it could not complete."""
        assert self._filtered is not None
        chunks = self._filtered.chunks(operation, np.array(asked))
        left = deque(_Chunk(asked[first:end], asked[first]) for first, end in chunks)
        while left:
            answers = self._filtered.read(operation, [chunk.request(self._table, limit) for chunk in left])
            if answers is None:
                return False
            for chunk, answer in zip(list(left), answers, strict=True):
                left.popleft()
                further = chunk.take(answer, limit, found)
                if further is not None:
                    left.append(further)
        return True


class HBaseNamedRecords:
    """Named cells of a table's rows: a column each."""

    def __init__(self, client: GatewayClient, table: Table) -> None:
        self._client = client
        self._table = table
        kind = Kind[list[tuple[bytes, NamedCells]]](
            None, self._rows, len, lambda rows: rows[-1][0], lambda rows: 0, CELLS_AT_ONCE, all_cells=True
        )
        self._scans = Scans(client, table, kind, PAGE_ROWS)

    def get(self, keys: Sequence[bytes]) -> list[NamedCells]:
        distinct = list(dict.fromkeys(keys))
        parts = parts_of(distinct, self._client.share(len(distinct), GET_ROWS[0], CELLS_AT_ONCE))
        with self._client.reading(self._table) as operation:
            answers = self._client.read(operation, tasks(map(self._table.all_cells, parts)))
        found = dict(row for answer in answers for row in self._rows(answer))
        return [found.get(key, {}) for key in keys]

    def iterate(self, start: bytes = b"", stop: bytes = b"") -> Iterator[list[tuple[bytes, NamedCells]]]:
        return self._scans.iterate(start, stop)

    def put(self, name: bytes, rows: Sequence[tuple[bytes, bytes]], versions: Sequence[int]) -> None:
        with self._client.writing(self._table) as operation:
            self._client.write(operation, tasks(self.puts(name, rows, versions)))

    def puts(
        self, name: bytes, rows: Sequence[tuple[bytes, bytes]], versions: Sequence[int]
    ) -> Iterator[Request]:
        """Requests that write cells with a name."""
        parts = _put_parts(self._client, rows, versions)
        return (self._table.put(part, at, name) for part, at in parts)

    def delete(self, cells: Sequence[tuple[bytes, bytes]], versions: Sequence[int]) -> None:
        with self._client.writing(self._table) as operation:
            self._client.write(operation, tasks(_deletions(self._table.delete_named, cells, versions)))

    def _rows(self, found: Sequence[Any]) -> list[tuple[bytes, NamedCells]]:
        skipped = len(self._table.column)
        return [
            (
                row.row,
                {column[skipped:]: Cell(cell.value, cell.timestamp) for column, cell in row.columns.items()},
            )
            for row in found
        ]


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Prefixes read by one scan, from the key `start` on."""

    prefixes: Sequence[bytes]
    start: bytes

    def rows(self, limit: int) -> int:
        return min(len(self.prefixes) * limit + 1, FILTERED_ROWS)

    def request(self, table: Table, limit: int) -> Request:
        stops = list(map(after_prefix, self.prefixes))
        ranges = filters.multi_row_range(self.prefixes, stops)
        return table.filtered(self.start, stops[-1], ranges, self.rows(limit), None)

    def take(self, results: Sequence[Any], limit: int, found: dict[bytes, list[Row]]) -> _Chunk | None:
        """Add the rows of an answer; returns where the chunk continues."""
        size = len(self.prefixes[0])
        for result in results:
            rows = found[result.row[:size]]
            if len(rows) < limit:
                # Other programs may have put cells with names beside it, or by themselves.
                own = (cell for cell in result.columnValues if not cell.qualifier)
                rows += [(result.row, Cell(cell.value, cell.timestamp)) for cell in own]
        if len(results) < self.rows(limit):
            return None
        last = results[-1].row
        if len(found[last[:size]]) < limit:
            return _Chunk(self.prefixes[bisect_right(self.prefixes, last) - 1 :], after_key(last))
        left = self.prefixes[bisect_right(self.prefixes, last) :]
        return _Chunk(left, left[0]) if left else None


def _by_version(
    rows: Sequence[tuple[bytes, bytes]], version: Version | None
) -> Iterable[tuple[int | None, dict[bytes, bytes]]]:
    """Rows by version; of duplicate keys the last."""
    if not isinstance(version, Sequence):
        return [(version, dict(rows))] if rows else []
    found: dict[int | None, dict[bytes, bytes]] = {}
    for (key, value), at in zip(rows, version, strict=True):
        found.setdefault(at, {})[key] = value
    return found.items()


def _put_parts(
    client: GatewayClient, rows: Sequence[tuple[bytes, bytes]], version: Version | None
) -> Iterator[tuple[list[tuple[bytes, bytes]], int | None]]:
    """Rows for one put call each."""
    for at, same in _by_version(rows, version):
        distinct = sorted(same.items())
        for whole in parts_of(distinct, client.share(len(distinct), *PUT_ROWS)):
            for part in _of_bounded_size(whole):
                yield part, at


def _deletions(
    delete: Callable[[list[C], int], Request], cells: Sequence[C], versions: Sequence[int]
) -> list[Request]:
    """One call for all cells with the same version. delete: the call for some cells."""
    by_version: dict[int, list[C]] = {}
    for cell, version in zip(cells, versions, strict=True):
        by_version.setdefault(version, []).append(cell)
    return [
        delete(part, version)
        for version, same in by_version.items()
        for part in parts_of(sorted(set(same)), PUT_ROWS[1])
    ]


def _of_bounded_size(rows: Sequence[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
    """The rows in parts of bounded size."""
    fitting: list[tuple[bytes, bytes]] = []
    size = 0
    for row in rows:
        size += len(row[0]) + len(row[1])
        if fitting and size > PUT_BYTES:
            yield fitting
            fitting, size = [], len(row[0]) + len(row[1])
        fitting.append(row)
    yield fitting


def _size(rows: Sequence[Row]) -> int:
    return sum(len(key) + len(cell.value) for key, cell in rows)
