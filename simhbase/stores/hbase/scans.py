"""Reading ranges of a table's rows, and guessing its size from some of them.

A page of rows is opened, read and closed in two round trips, and a range that holds more goes on behind
its last row with a new page: no scanner is open between two, so that each can be asked for again, of
another gateway, after any failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Generic, TypeVar

from simhbase.stores.base import Size
from simhbase.stores.hbase.calls import Client, Steps
from simhbase.stores.hbase.requests import Request, TableRequests, close_scanner

T = TypeVar("T")

EXACT_ROWS = 20_000  # a table with no more is counted
SAMPLES, SAMPLES_A_PART = 256, 4
SAMPLE_ROWS = 50
STORED_BYTES = 18  # of a row beside key and value, as measured with FAST_DIFF
_POSITION_BYTES = 8


@dataclass(frozen=True)
class Kind(Generic[T]):
    """What is read of rows: the request for the next ones, what is made of its answer, and of that
    the key and the size in bytes."""

    next: Callable[[int, int], Request]
    converted: Callable[[list[Any]], list[T]]
    key: Callable[[T], bytes]
    size: Callable[[T], int]


@dataclass(frozen=True)
class Reading(Generic[T]):
    """Reads one table; `page` is the number of rows of one request at most."""

    client: Client
    table: TableRequests
    kind: Kind[T]
    page: int

    def ranges(self, ranges: Sequence[tuple[bytes, bytes]], most: int | None) -> list[list[T]]:
        """The first rows of each range, `most` at most (None: all); a range is its first key and the
        key behind it (empty: the end)."""
        found: list[list[T]] = [[] for _ in ranges]
        left = list(range(len(ranges)))
        while left:
            sizes = [self.page if most is None else min(self.page, most - len(found[i])) for i in left]
            pages = [
                partial(
                    self._page,
                    self.table.open_scanner,
                    self._next(ranges[i][0], found[i]),
                    ranges[i][1],
                    size,
                )
                for i, size in zip(left, sizes, strict=True)
            ]
            full = []
            for i, size, rows in zip(left, sizes, self.client.read(self.table, pages), strict=True):
                found[i] += rows
                if len(rows) == size and len(found[i]) != most:
                    full.append(i)
            left = full
        return found

    def batches(self, start: bytes) -> Iterator[list[T]]:
        """All rows from a key on, a page at a time. After an error it goes on where it was."""
        return _Batches(self, start)

    def page_from(self, start: bytes) -> list[T]:
        """A page of rows that is read once and should not take others' place in the servers' caches."""
        page = partial(self._page, self.table.open_passing_scanner, start, b"", self.page)
        (rows,) = self.client.read(self.table, [page])
        return rows

    def _page(
        self, opening: Callable[[bytes, bytes, int], Request], start: bytes, stop: bytes, rows: int
    ) -> Steps[list[T]]:
        (scanner,) = yield [opening(start, stop, rows)]
        found, _ = yield [self.kind.next(scanner, rows), close_scanner(scanner)]
        return self.kind.converted(found)

    def _next(self, start: bytes, found: list[T]) -> bytes:
        return behind(self.kind.key(found[-1])) if found else start

    def size(self) -> Size:
        """How many rows there are, and the bytes that they take: counted if they are few, else
        guessed from the distances between keys at many places."""
        rows = size = 0
        for batch in self.batches(b""):
            rows += len(batch)
            size += sum(map(self.kind.size, batch))
            if rows > EXACT_ROWS:
                return self._guessed_size()
        return Size(rows, size + rows * STORED_BYTES)

    def _guessed_size(self) -> Size:
        points = [(i << 8 * _POSITION_BYTES) // SAMPLES for i in range(SAMPLES)]
        keys = [*(point.to_bytes(_POSITION_BYTES) for point in points), b""]
        samples = self.ranges(list(pairwise(keys)), SAMPLE_ROWS)
        width = (1 << 8 * _POSITION_BYTES) / SAMPLES
        spans = [
            _position(self.kind.key(sample[-1])) - point if len(sample) == SAMPLE_ROWS else width
            for point, sample in zip(points, samples, strict=True)
        ]
        rows = 0.0
        for part in range(0, SAMPLES, SAMPLES_A_PART):
            own = slice(part, part + SAMPLES_A_PART)
            # One crowded place among others counts for the little room that it takes.
            rows += sum(map(len, samples[own])) / sum(spans[own]) * width * SAMPLES_A_PART
        seen = [row for sample in samples for row in sample]
        each = sum(map(self.kind.size, seen)) / max(len(seen), 1) + STORED_BYTES
        return Size(round(rows), round(rows * each))


class _Batches(Iterator[list[T]]):
    """An iterator rather than a generator, which an error would end."""

    def __init__(self, reading: Reading[T], start: bytes) -> None:
        self._reading = reading
        self._start = start

    def __next__(self) -> list[T]:
        rows = self._reading.page_from(self._start)
        if not rows:
            raise StopIteration
        self._start = behind(self._reading.kind.key(rows[-1]))
        return rows


def behind(key: bytes) -> bytes:
    """The smallest key greater than this one."""
    return key + b"\x00"


def _position(key: bytes) -> int:
    return int.from_bytes(key[:_POSITION_BYTES].ljust(_POSITION_BYTES, b"\x00"))
