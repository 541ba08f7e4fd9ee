"""A store in this process's memory. Its content is lost when it is closed."""

from __future__ import annotations

import math
import threading
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import NoReturn, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.rowkeys import KEY_BYTES
from simhbase.errors import StoreFailed, TablesMissing, UsageError
from simhbase.model import Size
from simhbase.slices import bounded_slices, ranges
from simhbase.stores.arrays import columns_of, keys_of, limited, prefix_numbers, rows_between, versions_of
from simhbase.stores.atomic import BaseStore, LockedRecords
from simhbase.stores.base import PART_ROWS, Access, Cell, Changes, DrawerRows, IndexRows, Row, Version
from simhbase.stores.strings import pairs

T = TypeVar("T")
BATCH_ROWS = 10_000
RECENT_KEYS = 4_096
LONGER = 64  # times: a run of index rows than the next one
NO_TIMES = np.empty(0, dtype=np.int64)
NO_FINGERPRINTS = np.empty(0, dtype=np.uint64)


def open_store(url: str, access: Access) -> NoReturn:
    _check(url)
    raise TablesMissing(f"{url} is empty whenever it is opened: there is nothing to {access}")


def create_store(url: str, access: Access) -> MemoryStore:
    _check(url)
    return MemoryStore(url)


def drop_store(url: str) -> NoReturn:
    _check(url)
    raise TablesMissing(f"{url} is gone when it is closed: there is nothing to drop")


def droppable(url: str) -> NoReturn:
    drop_store(url)


def _check(url: str) -> None:
    if url != "memory:":
        raise UsageError(f"no store {url!r}: a store in memory has no name, its URL is memory:")


class MemoryStore(BaseStore["MemoryRecords"]):
    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._lock = threading.RLock()
        self._closed = False
        self.drawers = MemoryDrawers(self)
        self._records = {table: MemoryRecords(self) for table in self.tables}

    def exclusive(self) -> AbstractContextManager[object]:
        """A re-entrant lock that every operation takes. Raises StoreFailed after `close`."""
        if self._closed:
            raise StoreFailed(f"{self.url} was closed: open a new one")
        return self._lock

    def read_consistent(self, read: Callable[[], T]) -> T:
        with self.exclusive():
            return read()

    def commit(self, changes: Changes) -> None:
        with self.exclusive():
            self.drawers.remove(changes.unindex, NO_TIMES)
            self.drawers.add(changes.index)
            for table, keys in changes.delete.items():
                self._records[table].delete(keys)
            for table, columns in changes.put.items():
                self._records[table].put(pairs(*columns), changes.version)

    def close(self) -> None:
        self._closed = True


@dataclass(frozen=True)
class _Rows:
    """Distinct index rows in order. prefixes: int64 (n,), of their drawers, as numbers; fingerprints: uint64
    (n,)."""

    prefixes: NDArray[np.int64]
    fingerprints: NDArray[np.uint64]

    @classmethod
    def of(cls, keys: NDArray[np.uint8]) -> Self:
        """The rows of keys (..., 13), which may repeat."""
        prefixes, fingerprints = columns_of(keys)
        order = np.lexsort((fingerprints, prefixes))
        prefixes, fingerprints = prefixes[order], fingerprints[order]
        is_new = np.ones(len(order), dtype=np.bool_)
        is_new[1:] = (np.diff(prefixes) != 0) | (np.diff(fingerprints) != 0)
        return cls(prefixes[is_new], fingerprints[is_new])

    def __len__(self) -> int:
        return len(self.prefixes)

    def __getitem__(self, chosen: NDArray[np.bool_]) -> Self:
        return replace(self, prefixes=self.prefixes[chosen], fingerprints=self.fingerprints[chosen])

    def drawers(self, prefixes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where the rows of m drawers begin and end: (m,) twice."""
        first, end = self.prefixes.searchsorted([prefixes, prefixes + 1])
        return first, end

    def find(self, rows: _Rows) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Where each of m rows is or would be inserted, and whether it is there: (m,) twice."""
        first, end = self.drawers(rows.prefixes)
        ends = end.copy()
        while len(searched := np.flatnonzero(first < end)):  # binary searches, all at once
            middle = (first[searched] + end[searched]) // 2
            is_before = self.fingerprints[middle] < rows.fingerprints[searched]
            first[searched[is_before]] = middle[is_before] + 1
            end[searched[~is_before]] = middle[~is_before]
        is_there = first < ends
        is_there[is_there] = self.fingerprints[first[is_there]] == rows.fingerprints[is_there]
        return first, is_there

    def merged(self, others: _Rows) -> Self:
        places, _ = self.find(others)
        return replace(
            self,
            prefixes=np.insert(self.prefixes, places, others.prefixes),
            fingerprints=np.insert(self.fingerprints, places, others.fingerprints),
        )


class MemoryDrawers:
    """Sorted runs of rows, each several times as long as the next one: few are searched, and to add a
    document copies few rows. No row is in two runs."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._runs: list[_Rows] = []

    def add(self, keys: NDArray[np.uint8]) -> None:
        with self._store.exclusive():
            rows = _Rows.of(keys)
            for run in self._runs:
                _, is_there = run.find(rows)
                rows = rows[~is_there]
            if len(rows):
                self._append(rows, LONGER)

    def _append(self, rows: _Rows, longer: float) -> None:
        """Append a run, merged with those before it that are not `longer` times as long."""
        while self._runs and len(self._runs[-1]) < longer * len(rows):
            rows = self._runs.pop().merged(rows)
        self._runs.append(rows)

    def remove(self, keys: NDArray[np.uint8], times: NDArray[np.int64]) -> None:
        with self._store.exclusive():
            gone, runs = _Rows.of(keys), []
            for run in self._runs:
                places, is_there = run.find(gone)
                stays = np.ones(len(run), dtype=np.bool_)
                stays[places[is_there]] = False
                runs.append(run if stays.all() else run[stays])
            self._runs = [run for run in runs if len(run)]

    def times(self, keys: NDArray[np.uint8]) -> NDArray[np.int64]:
        rows = _Rows(*columns_of(keys))
        found = np.full(len(rows), -1, dtype=np.int64)
        with self._store.exclusive():
            for run in self._runs:
                _, is_there = run.find(rows)
                found[is_there] = 0
        return found.reshape(keys.shape[:-1])

    def read(self, prefixes: NDArray[np.uint8], limit: int | None) -> Iterator[DrawerRows]:
        with self._store.exclusive():
            runs = self._runs.copy()
        wanted = prefix_numbers(prefixes)
        found = []
        totals = np.zeros(len(wanted), dtype=np.int64)
        for run in runs:
            first, end = run.drawers(wanted)
            counts = end - first if limit is None else np.minimum(end - first, limit + 1)
            if counts.any():
                found.append((run.fingerprints, first, counts))
                totals += counts
        for part in bounded_slices(totals, PART_ROWS):
            rows = [values[ranges(first[part], counts[part])] for values, first, counts in found]
            fingerprints = np.concatenate([NO_FINGERPRINTS, *rows])
            if len(found) > 1:
                numbers = np.arange(part.start, part.stop)
                drawers = np.concatenate([np.repeat(numbers, counts[part]) for _, _, counts in found])
                fingerprints = fingerprints[np.lexsort((fingerprints, drawers))]
            yield limited(part.start, totals[part], fingerprints, limit)

    def iterate(self, start: bytes = b"", stop: bytes = b"") -> Iterator[IndexRows]:
        with self._store.exclusive():
            if self._runs:
                self._append(self._runs.pop(), math.inf)
            runs = self._runs.copy()
        for run in runs:
            yield from rows_between(keys_of(run.prefixes, run.fingerprints), start, stop)

    def approximate_size(self) -> Size:
        with self._store.exclusive():
            rows = sum(map(len, self._runs))
        return Size(rows, rows * KEY_BYTES)


class MemoryRecords(LockedRecords):
    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._cells: dict[bytes, Cell] = {}
        # The same keys, each list sorted: to insert into a short one is cheap.
        self._keys: list[bytes] = []
        self._recent: list[bytes] = []

    def get(self, keys: Sequence[bytes]) -> list[Cell | None]:
        with self._store.exclusive():
            return list(map(self._cells.get, keys))

    def put(self, rows: Sequence[tuple[bytes, bytes]], version: Version | None = None) -> None:
        with self._store.exclusive():
            new = []
            for (key, value), at in zip(rows, versions_of(version), strict=False):
                found = self._cells.get(key)
                if found is None:
                    new.append(key)
                elif version is not None and found.version > at:
                    continue
                self._cells[key] = Cell(value, at)
            self._note(new)

    def _note(self, new: Sequence[bytes]) -> None:
        """Sort new keys into the others. Python's sort merges sorted runs in linear time."""
        if len(new) == 1:
            insort(self._recent, new[0])
        else:
            self._recent += new
            self._recent.sort()
        if len(self._recent) > RECENT_KEYS:
            self._keys += self._recent
            self._keys.sort()
            self._recent = []

    def delete(self, keys: Sequence[bytes], versions: Sequence[int] | None = None) -> None:
        with self._store.exclusive():
            for number, key in enumerate(keys):
                found = self._cells.get(key)
                if found is not None and (versions is None or found.version <= versions[number]):
                    del self._cells[key]
                    place = bisect_left(self._recent, key)
                    if self._recent[place : place + 1] == [key]:
                        del self._recent[place]
                    else:
                        del self._keys[bisect_left(self._keys, key)]

    def scan(self, prefixes: Sequence[bytes], limit: int) -> list[list[Row]]:
        with self._store.exclusive():
            return [self._scan(prefix, limit) for prefix in prefixes]

    def _scan(self, prefix: bytes, limit: int) -> list[Row]:
        keys = takewhile(lambda key: key.startswith(prefix), self._first_keys(prefix, limit))
        return [(key, self._cells[key]) for key in keys]

    def _first_keys(self, start: bytes, most: int) -> list[bytes]:
        """The first keys from `start` on."""
        lists = self._keys, self._recent
        firsts = [bisect_left(keys, start) for keys in lists]
        long, short = (keys[first : first + most] for keys, first in zip(lists, firsts, strict=True))
        return sorted(long + short)[:most] if short else long

    def iterate(self, start: bytes = b"", stop: bytes = b"") -> Iterator[list[Row]]:
        while rows := self._batch(start, stop):
            yield rows
            start = rows[-1][0] + b"\x00"

    def _batch(self, start: bytes, stop: bytes) -> list[Row]:
        with self._store.exclusive():
            keys = self._first_keys(start, BATCH_ROWS)
            end = bisect_left(keys, stop) if stop else len(keys)
            return [(key, self._cells[key]) for key in keys[:end]]

    def approximate_size(self) -> Size:
        with self._store.exclusive():
            values = sum(len(cell.value) for cell in self._cells.values())
            return Size(len(self._cells), sum(map(len, self._cells)) + values)
