"""A store in this process's memory. Its content is lost when it is closed."""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import reduce
from itertools import takewhile
from typing import NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.rowkeys import KEY_BYTES
from simhbase.errors import StoreFailed, TablesMissing, UsageError
from simhbase.model.values import Size
from simhbase.process.slices import bounded_slices, ranges
from simhbase.stores.arrays import (
    after_key,
    columns_of,
    keys_of,
    limited,
    prefix_numbers,
    rows_between,
    versions_of,
)
from simhbase.stores.atomic import BaseStore, LockedRecords
from simhbase.stores.backend import Backend
from simhbase.stores.base import (
    PART_ROWS,
    Access,
    Cell,
    Changes,
    DrawerHits,
    DrawerRows,
    IndexRows,
    RecordTable,
    Row,
    Version,
)
from simhbase.stores.strings import pairs

T = TypeVar("T")
BATCH_ROWS = 10_000
RECENT_KEYS = 4_096
LONGER = 64  # times: a run of index rows than the next one
NO_TIMES = np.empty(0, dtype=np.int64)


class MemoryBackend(Backend):
    def __post_init__(self) -> None:
        if self.url != "memory:":
            raise UsageError(f"no store {self.url!r}: a store in memory has no name, its URL is memory:")

    def open(self, access: Access) -> NoReturn:
        raise TablesMissing(
            f"{self.url} is empty whenever it is opened: there is nothing to {access}. In Python, "
            f'simhbase.open({self.url!r}, create="default") makes a store to write to and read from'
        )

    def create(self, access: Access = "write", *, counts: bool = False) -> MemoryStore:
        return MemoryStore(self.url)

    def drop(self) -> NoReturn:
        self.droppable()

    def droppable(self) -> NoReturn:
        raise TablesMissing(f"{self.url} is gone when it is closed: there is nothing to drop")


class MemoryStore(BaseStore["MemoryRecords"]):
    def __init__(self, url: str) -> None:
        self.url = url
        self._lock = threading.RLock()
        self._closed = False
        self.drawers = MemoryDrawers(self)
        self._records = {table: MemoryRecords(self) for table in self.tables}

    def new_records(self, table: RecordTable) -> MemoryRecords:
        return MemoryRecords(self)

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
    """Distinct index rows in order, stored or removed. prefixes: int64 (n,), of their drawers, as numbers;
    fingerprints: uint64 (n,); stored: bool (n,)."""

    prefixes: NDArray[np.int64]
    fingerprints: NDArray[np.uint64]
    stored: NDArray[np.bool_]

    @classmethod
    def of(cls, keys: NDArray[np.uint8], *, stored: bool) -> _Rows:
        """The rows of keys (..., 13), which may repeat."""
        prefixes, fingerprints = columns_of(keys)
        rows = cls(prefixes, fingerprints, np.full(len(prefixes), stored))
        return rows[_last_of_each(prefixes, fingerprints)]

    def __len__(self) -> int:
        return len(self.prefixes)

    def __getitem__(self, chosen: NDArray[np.bool_ | np.int64]) -> _Rows:
        return _Rows(self.prefixes[chosen], self.fingerprints[chosen], self.stored[chosen])

    def drawers(self, prefixes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where the rows of m drawers begin, and their numbers: (m,) twice."""
        first, end = self.prefixes.searchsorted([prefixes, prefixes + 1])
        return first, end - first

    def find(
        self, prefixes: NDArray[np.int64], fingerprints: NDArray[np.uint64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Where each of m rows is or would be inserted, and whether it is here: (m,) twice."""
        first, counts = self.drawers(prefixes)
        ends = first + counts
        end = ends.copy()
        while len(searched := np.flatnonzero(first < end)):  # binary searches, all at once
            middle = (first[searched] + end[searched]) // 2
            is_before = self.fingerprints[middle] < fingerprints[searched]
            first[searched[is_before]] = middle[is_before] + 1
            end[searched[~is_before]] = middle[~is_before]
        is_here = first < ends
        is_here[is_here] = self.fingerprints[first[is_here]] == fingerprints[is_here]
        return first, is_here

    def changed(self, later: _Rows) -> _Rows:
        """These rows and later ones, which replace equal ones."""
        places, is_here = self.find(later.prefixes, later.fingerprints)
        stored = self.stored.copy()
        stored[places[is_here]] = later.stored[is_here]
        places, new = places[~is_here], later[~is_here]
        return _Rows(
            np.insert(self.prefixes, places, new.prefixes),
            np.insert(self.fingerprints, places, new.fingerprints),
            np.insert(stored, places, new.stored),
        )


def _last_of_each(drawers: NDArray[np.int64], fingerprints: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Positions of n rows in order, of equal ones the last: (m,)."""
    order = np.lexsort((fingerprints, drawers))
    drawers, fingerprints = drawers[order], fingerprints[order]
    is_last = np.ones(len(order), dtype=np.bool_)
    is_last[:-1] = (drawers[1:] != drawers[:-1]) | (fingerprints[1:] != fingerprints[:-1])
    return order[is_last]


class MemoryDrawers:
    """Runs of rows, from the earliest to the latest changes, each many times as long as the next one: few are
    searched, and a change copies few rows. The first has no removed rows."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._runs: list[_Rows] = []  # replaced as a whole, so that an interruption loses nothing

    def add(self, keys: NDArray[np.uint8]) -> None:
        self._change(_Rows.of(keys, stored=True))

    def remove(self, keys: NDArray[np.uint8], times: NDArray[np.int64]) -> None:
        self._change(_Rows.of(keys, stored=False))

    def _change(self, rows: _Rows) -> None:
        with self._store.exclusive():
            runs = self._runs.copy()
            while runs and len(runs[-1]) < LONGER * len(rows):
                rows = runs.pop().changed(rows)
            if not runs:
                rows = rows[rows.stored]
            self._runs = [*runs, rows] if len(rows) else runs

    def times(self, keys: NDArray[np.uint8]) -> NDArray[np.int64]:
        rows = columns_of(keys)
        found = np.full(len(rows[0]), -1, dtype=np.int64)
        with self._store.exclusive():
            for run in self._runs:
                places, is_here = run.find(*rows)
                found[is_here] = np.where(run.stored[places[is_here]], 0, -1)
        return found.reshape(keys.shape[:-1])

    def read(self, prefixes: NDArray[np.uint8], limit: int | None) -> Iterator[DrawerRows]:
        with self._store.exclusive():
            runs = self._runs
        wanted = prefix_numbers(prefixes)
        drawers = [(run, *run.drawers(wanted)) for run in runs]
        totals = sum((counts for _, _, counts in drawers), start=np.zeros(len(wanted), dtype=np.int64))
        for part in bounded_slices(totals, PART_ROWS):
            found = [(run, first[part], counts[part]) for run, first, counts in drawers if counts[part].any()]
            if found:
                yield limited(part.start, *_merged(found), limit)

    def near(self, value: int, prefixes: Sequence[bytes], bits: int, limit: int | None) -> DrawerHits:
        with self._store.exclusive():
            runs = self._runs
        numbers = list(map(int.from_bytes, prefixes))
        borders = [border for number in numbers for border in (number, number + 1)]
        places = [run.prefixes.searchsorted(borders).tolist() for run in runs]
        near, truncated, rows, largest = dict[int, int](), False, 0, 0
        for drawer in range(0, len(borders), 2):
            ends = ((run, *place[drawer : drawer + 2]) for run, place in zip(runs, places, strict=True))
            found = _stored_in([(run, slice(*end)) for run, *end in ends if end[0] < end[1]])
            truncated |= limit is not None and len(found) > limit
            found = found[:limit]
            rows += len(found)
            largest = max(largest, len(found))
            distances = ((each, (each ^ value).bit_count()) for each in found)
            near.update((each, far) for each, far in distances if far <= bits)
        return DrawerHits(near, truncated, rows, largest)

    def iterate(self, start: bytes = b"", stop: bytes = b"") -> Iterator[IndexRows]:
        rows = self._all()
        yield from rows_between(keys_of(rows.prefixes, rows.fingerprints), start, stop)

    def _all(self) -> _Rows:
        """All rows, as one run."""
        with self._store.exclusive():
            if len(self._runs) > 1:
                rows = reduce(_Rows.changed, self._runs)
                self._runs = [rows[rows.stored]]
            return self._runs[0] if self._runs else _Rows.of(np.empty((0, KEY_BYTES), np.uint8), stored=True)

    def approximate_size(self) -> Size:
        rows = len(self._all())
        return Size(rows, rows * KEY_BYTES, 0.0)


def _merged(
    found: Sequence[tuple[_Rows, NDArray[np.int64], NDArray[np.int64]]],
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """The rows of m drawers in several runs, given where they begin and their numbers: how many each drawer
    has (m,), and their fingerprints."""
    parts = [run[ranges(first, counts)] for run, first, counts in found]
    if len(parts) == 1 and parts[0].stored.all():  # as for most single lookups: nothing to merge
        return found[0][2], parts[0].fingerprints
    numbers = np.arange(len(found[0][1]))
    drawers = np.concatenate([np.repeat(numbers, counts) for _, _, counts in found])
    fingerprints = np.concatenate([part.fingerprints for part in parts])
    stored = np.concatenate([part.stored for part in parts])
    last = _last_of_each(drawers, fingerprints)
    last = last[stored[last]]
    return np.bincount(drawers[last], minlength=len(numbers)), fingerprints[last]


def _stored_in(places: Sequence[tuple[_Rows, slice]]) -> list[int]:
    """The fingerprints of a drawer, ascending, given where its rows are in runs, the latest last."""
    is_stored = dict[int, bool]()
    for run, place in places:
        rows = zip(run.fingerprints[place].tolist(), run.stored[place].tolist(), strict=True)
        is_stored.update(rows)
    return sorted(each for each, stored in is_stored.items() if stored)


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
            start = after_key(rows[-1][0])

    def _batch(self, start: bytes, stop: bytes) -> list[Row]:
        with self._store.exclusive():
            keys = self._first_keys(start, BATCH_ROWS)
            end = bisect_left(keys, stop) if stop else len(keys)
            return [(key, self._cells[key]) for key in keys[:end]]

    def approximate_size(self) -> Size:
        with self._store.exclusive():
            values = sum(len(cell.value) for cell in self._cells.values())
            return Size(len(self._cells), sum(map(len, self._cells)) + values, 0.0)
