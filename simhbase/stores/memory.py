"""A store in this process's memory, for tests and small sets. Its content is lost when it is closed."""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import takewhile
from typing import NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.rowkeys import KEY_BYTES, PREFIX_BYTES
from simhbase.errors import StoreFailed, TablesMissing, UsageError
from simhbase.model import Size
from simhbase.stores.arrays import parts_of, to_bytes, to_index_rows, versions_of
from simhbase.stores.atomic import BaseStore, LockedRecords
from simhbase.stores.base import Access, Cell, Changes, DrawerRows, IndexRows, Row, Version
from simhbase.stores.strings import pairs

T = TypeVar("T")
BATCH_ROWS = 10_000
RECENT_KEYS = 4_096


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
            self.drawers.remove(changes.unindex.reshape(-1, KEY_BYTES), NO_TIMES)
            self.drawers.add(changes.index)
            for table, keys in changes.delete.items():
                self._records[table].delete(keys)
            for table, columns in changes.put.items():
                self._records[table].put(pairs(*columns), changes.version)

    def close(self) -> None:
        self._closed = True


NO_TIMES = np.empty(0, dtype=np.int64)


class MemoryDrawers:
    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._rows: dict[bytes, set[bytes]] = {}  # by the drawer's prefix

    def add(self, keys: NDArray[np.uint8]) -> None:
        with self._store.exclusive():
            for row in to_bytes(keys):
                self._rows.setdefault(row[:PREFIX_BYTES], set()).add(row)

    def remove(self, keys: NDArray[np.uint8], times: NDArray[np.int64]) -> None:
        with self._store.exclusive():
            for row in to_bytes(keys):
                drawer = self._rows.get(row[:PREFIX_BYTES], set())
                drawer.discard(row)
                if not drawer:
                    self._rows.pop(row[:PREFIX_BYTES], None)

    def times(self, keys: NDArray[np.uint8]) -> NDArray[np.int64]:
        with self._store.exclusive():
            found = [0 if row in self._rows.get(row[:PREFIX_BYTES], ()) else -1 for row in to_bytes(keys)]
        return np.array(found, dtype=np.int64).reshape(keys.shape[:-1])

    def read(self, prefixes: NDArray[np.uint8], limit: int | None) -> Iterator[DrawerRows]:
        with self._store.exclusive():
            drawers = [sorted(self._rows.get(prefix, ())) for prefix in to_bytes(prefixes)]
        return parts_of(drawers, limit)

    def iterate(self, start: bytes = b"", stop: bytes = b"") -> Iterator[IndexRows]:
        with self._store.exclusive():
            rows = sorted(row for drawer in self._rows.values() for row in drawer)
        end = bisect_left(rows, stop) if stop else len(rows)
        for first in range(bisect_left(rows, start), end, BATCH_ROWS):
            yield to_index_rows(rows[first : min(first + BATCH_ROWS, end)])

    def approximate_size(self) -> Size:
        with self._store.exclusive():
            rows = sum(map(len, self._rows.values()))
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
