"""A store in this process's memory. Its content is lost when it is closed."""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from simhbase._core import Drawers
from simhbase.drawers.rowkeys import KEY_BYTES
from simhbase.errors import StoreFailed, TablesMissing, UsageError
from simhbase.model.values import Size
from simhbase.stores.arrays import keys_of, rows_between, versions_of
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
from simhbase.stores.keys import after_key

T = TypeVar("T")
BATCH_ROWS = 10_000
RECENT_KEYS = 4_096
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
            for table in changes.put:
                self._records[table].put(changes.rows(table), changes.version)

    def close(self) -> None:
        self._closed = True


class MemoryDrawers:
    """Drawers that the core keeps (`core/src/drawers.rs`)."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._drawers = Drawers()

    def add(self, keys: NDArray[np.uint8]) -> None:
        with self._store.exclusive():
            self._drawers.add(np.ascontiguousarray(keys))

    def remove(self, keys: NDArray[np.uint8], times: NDArray[np.int64]) -> None:
        with self._store.exclusive():
            self._drawers.remove(np.ascontiguousarray(keys))

    def times(self, keys: NDArray[np.uint8]) -> NDArray[np.int64]:
        with self._store.exclusive():
            found = np.frombuffer(self._drawers.contain(np.ascontiguousarray(keys)), dtype=np.bool_)
        return found.reshape(keys.shape[:-1]).astype(np.int64) - 1

    def read(self, prefixes: NDArray[np.uint8], limit: int | None) -> Iterator[DrawerRows]:
        wanted, first = np.ascontiguousarray(prefixes), 0
        while first < len(wanted):
            with self._store.exclusive():
                part = self._drawers.read(wanted, first, limit, PART_ROWS)
            lengths, truncated = (np.frombuffer(part[column], dtype=np.int64) for column in (0, 2))
            end = first + len(lengths)
            offsets = np.append(0, np.cumsum(lengths))
            fingerprints = np.frombuffer(part[1], dtype=np.uint64)
            yield DrawerRows(np.arange(first, end), offsets, fingerprints, truncated)
            first = end

    def near(self, value: int, prefixes: Sequence[bytes], bits: int, limit: int | None) -> DrawerHits:
        with self._store.exclusive():
            return DrawerHits(*self._drawers.near(value, [*prefixes], bits, limit))

    def iterate(self, start: bytes = b"", stop: bytes = b"") -> Iterator[IndexRows]:
        with self._store.exclusive():
            prefixes, fingerprints = (np.frombuffer(column, np.uint64) for column in self._drawers.sorted())
        yield from rows_between(keys_of(prefixes.view(np.int64), fingerprints), start, stop)

    def approximate_size(self) -> Size:
        with self._store.exclusive():
            rows = len(self._drawers)
        return Size(rows, rows * KEY_BYTES, 0.0)


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
        found = _beginning_with(prefix, self._keys, limit)
        if recent := _beginning_with(prefix, self._recent, limit):
            found = sorted(found + recent)[:limit]
        return [(key, self._cells[key]) for key in found]

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


def _beginning_with(prefix: bytes, keys: list[bytes], limit: int) -> list[bytes]:
    """The first `limit` of sorted keys that begin with a prefix. One after the other: there are few."""
    first = end = bisect_left(keys, prefix)
    last = min(first + limit, len(keys))
    while end < last and keys[end].startswith(prefix):
        end += 1
    return keys[first:end]
