"""Reads key ranges through Thrift 1, and estimates table sizes.

A page of rows is opened, read and closed in two round trips; a longer range continues after its last row with
a new page. No scanner stays open in between, so a page can be requested again from another gateway after a
failure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from typing import Any, Generic, NamedTuple, TypeVar

from simhbase.drawers.rowkeys import KEY_BYTES
from simhbase.errors import StoreFailed
from simhbase.model.values import Size
from simhbase.stores.hbase.answers import UnexpectedRow
from simhbase.stores.hbase.client import GatewayClient, Operation, Steps
from simhbase.stores.hbase.connection import Connection
from simhbase.stores.hbase.requests import Reader, Table, close_scanner, next_rows
from simhbase.stores.keys import after_read

P = TypeVar("P")

EXACT_ROWS = 20_000  # smaller tables are counted
SAMPLES, SAMPLES_A_PART = 256, 4
SAMPLE_ROWS = 50
STORED_BYTES = 18  # per row, in addition to key and value, measured with FAST_DIFF
SHOWN_BYTES = 40
_POSITION_BYTES = 8


class Page(NamedTuple):
    """A range to read: the first rows from `start` until before `stop` (empty: the end)."""

    start: bytes
    stop: bytes
    rows: int


@dataclass(frozen=True)
class Kind(Generic[P]):
    """How to parse a page, and to get its number of rows, last key and size in bytes. reader: of the raw
    answer, None if the client parses it; at_once: rows of one answer, which have a limit together."""

    reader: Reader | None
    converted: Callable[[Any], P]
    count: Callable[[P], int]
    last: Callable[[P], bytes]
    size: Callable[[P], int]
    at_once: int
    all_cells: bool = False


@dataclass(frozen=True)
class Scans(Generic[P]):
    """Reads one table. rows: rows per page when reading everything."""

    client: GatewayClient
    table: Table
    kind: Kind[P]
    rows: int

    def pages(self, operation: Operation, pages: Sequence[Page], *, cache: bool = True) -> list[P]:
        """The rows of each page; `cache`: keep the blocks in the servers' caches."""
        try:
            return self.client.read(operation, [partial(self._page, page, cache) for page in pages])
        except UnexpectedRow as error:
            name = self.table.name
            raise StoreFailed(
                f"{name} holds the row {self._unexpected(operation, pages)!r}, which is none of simhbase's: "
                f"delete it, in the hbase shell deleteall '{name}', ROW"
            ) from error

    def iterate(self, start: bytes, stop: bytes) -> Iterator[P]:
        """All rows of a range, in pages. Can be continued after an error."""
        return _Iteration(self, start, stop)

    def size(self) -> Size:
        """Number of rows and bytes: counted if few, otherwise estimated from distances between keys at many
        places."""
        rows = size = 0
        for page in self.iterate(b"", b""):
            rows += self.kind.count(page)
            size += self.kind.size(page)
            if rows > EXACT_ROWS:
                return self._guessed_size()
        return Size(rows, size + rows * STORED_BYTES, 0.0)

    def _page(self, page: Page, cache: bool) -> Steps[P]:
        (scanner,) = yield [self.table.open_scanner(*page, cache=cache, all_cells=self.kind.all_cells)]
        at_once, reader = self.kind.at_once, self.kind.reader
        asked = [
            next_rows(scanner, min(at_once, page.rows - first), reader)
            for first in range(0, page.rows, at_once)
        ]
        *found, _ = yield [*asked, close_scanner(scanner)]
        # Of the index one answer holds a page, in a form of its own.
        return self.kind.converted(found[0] if len(found) == 1 else list(chain.from_iterable(found)))

    def _unexpected(self, operation: Operation, pages: Sequence[Page]) -> bytes | None:
        """The first foreign row; None if it is gone."""

        def find(connection: Connection) -> bytes | None:
            table = connection.table(self.table.name)
            for start, stop, rows in pages:
                for key, cells in table.scan(start, stop, columns=[self.table.column], limit=rows):
                    if len(key) != KEY_BYTES or cells != {self.table.column: b""}:
                        return bytes(key[:SHOWN_BYTES])
            return None

        return self.client.call(operation, find)

    def _guessed_size(self) -> Size:
        points = [(i << 8 * _POSITION_BYTES) // SAMPLES for i in range(SAMPLES)]
        keys = [*(point.to_bytes(_POSITION_BYTES) for point in points), b""]
        pages = [Page(start, stop, SAMPLE_ROWS) for start, stop in pairwise(keys)]
        with self.client.reading(self.table) as operation:
            samples = self.pages(operation, pages, cache=False)
        counts = list(map(self.kind.count, samples))
        width = (1 << 8 * _POSITION_BYTES) / SAMPLES
        spans = [
            _position(self.kind.last(sample)) - point if count == SAMPLE_ROWS else width
            for point, sample, count in zip(points, samples, counts, strict=True)
        ]
        rows = variance = 0.0
        for part in range(0, SAMPLES, SAMPLES_A_PART):
            own = slice(part, part + SAMPLES_A_PART)
            # Weighted by key range, so that one crowded place does not dominate.
            density = sum(counts[own]) / sum(spans[own])
            rows += density * width * SAMPLES_A_PART
            # Of a ratio of sums: by how much samples differ from what their part makes expect.
            off = sum((n - density * span) ** 2 for n, span in zip(counts[own], spans[own], strict=True))
            off *= SAMPLES_A_PART / (SAMPLES_A_PART - 1)
            variance += off * (width * SAMPLES_A_PART / sum(spans[own])) ** 2
        each = sum(map(self.kind.size, samples)) / max(sum(counts), 1) + STORED_BYTES
        return Size(round(rows), round(rows * each), math.sqrt(variance) / max(rows, 1.0))


class _Iteration(Iterator[P]):
    """An iterator rather than a generator, which an error would end."""

    def __init__(self, scans: Scans[P], start: bytes, stop: bytes) -> None:
        self._scans = scans
        self._next: bytes | None = start
        self._stop = stop

    def __next__(self) -> P:
        # HBase treats a scan whose start equals its end as a get of that row.
        if self._next is None or (self._stop and self._next >= self._stop):
            raise StopIteration
        page = Page(self._next, self._stop, self._scans.rows)
        with self._scans.client.reading(self._scans.table) as operation:
            (found,) = self._scans.pages(operation, [page], cache=False)
        count = self._scans.kind.count(found)
        last = self._scans.kind.last(found) if count else b""
        self._next = after_read(page.start, last, self._scans.table.name) if count == page.rows else None
        if not count:
            raise StopIteration
        return found


def _position(key: bytes) -> int:
    return int.from_bytes(key[:_POSITION_BYTES].ljust(_POSITION_BYTES, b"\x00"))
