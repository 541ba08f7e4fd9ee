"""A store in this process's memory: private to its opener and gone with it. For tests and small sets."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import takewhile
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from simhbase.errors import StoreFailed, TablesMissing, UsageError
from simhbase.rowkeys import KEY_BYTES, PREFIX_BYTES
from simhbase.stores.base import RECORD_TABLES, Access, DrawerRows, RecordTable, Size
from simhbase.stores.rows import counted_up, to_bytes, to_drawer_rows, to_keys

BATCH_ROWS = 10_000


def open_store(url: str, access: Access) -> NoReturn:
    """Raises TablesMissing: a store in memory is new every time."""
    _check(url)
    raise TablesMissing(f"{url} is new every time it is opened: there is nothing in it to {access}")


def create_store(url: str) -> MemoryStore:
    """A new, empty store."""
    _check(url)
    return MemoryStore(url)


def drop_store(url: str) -> NoReturn:
    """Raises TablesMissing: a store in memory is gone when it is closed."""
    _check(url)
    raise TablesMissing(f"{url} is gone when it is closed: there is nothing to drop")


def droppable(url: str) -> NoReturn:
    """Raises TablesMissing, as `drop_store` does."""
    drop_store(url)


def _check(url: str) -> None:
    if url != "memory:":
        raise UsageError(f"no store {url!r}: a store in memory has no name, its URL is memory:")


class MemoryStore:
    """See simhbase.stores.base.Store."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._lock = threading.RLock()
        self._closed = False
        self.drawers = MemoryDrawers(self)
        self._records = {table: MemoryRecords(self) for table in RECORD_TABLES}

    def records(self, table: RecordTable) -> MemoryRecords:
        """One of the other tables."""
        return self._records[table]

    def exclusive(self) -> AbstractContextManager[object]:
        """A re-entrant lock; every operation takes it. Raises StoreFailed after `close`."""
        if self._closed:
            raise StoreFailed(f"{self.url} was closed: open a new one")
        return self._lock

    def moment(self) -> int:
        """Milliseconds since 1970; removals here need none."""
        return time.time_ns() // 1_000_000

    def refresh(self) -> None:
        """Does nothing: nobody else can write."""

    def sync(self) -> None:
        """Does nothing: memory survives nothing."""

    def close(self) -> None:
        """Ends all use; the rows go with the last reference to the store."""
        self._closed = True


class MemoryDrawers:
    """See simhbase.stores.base.Drawers."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._rows: dict[bytes, set[bytes]] = {}  # by the drawer's prefix

    def add(self, keys: NDArray[np.uint8]) -> None:
        """Puts rows."""
        with self._store.exclusive():
            for row in to_bytes(keys):
                self._rows.setdefault(row[:PREFIX_BYTES], set()).add(row)

    def remove(self, keys: NDArray[np.uint8], before: int) -> None:
        """Removes rows; whoever could put them again later is kept out by `exclusive`."""
        with self._store.exclusive():
            for row in to_bytes(keys):
                drawer = self._rows.get(row[:PREFIX_BYTES], set())
                drawer.discard(row)
                if not drawer:
                    self._rows.pop(row[:PREFIX_BYTES], None)

    def contains(self, keys: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Which rows exist."""
        with self._store.exclusive():
            found = [row in self._rows.get(row[:PREFIX_BYTES], ()) for row in to_bytes(keys)]
        return np.array(found, dtype=np.bool_).reshape(keys.shape[:-1])

    def read(self, prefixes: NDArray[np.uint8], limit: int | None) -> DrawerRows:
        """Reads drawers."""
        with self._store.exclusive():
            drawers = [sorted(self._rows.get(prefix, ())) for prefix in to_bytes(prefixes)]
        return to_drawer_rows(drawers, limit)

    def iterate(self) -> Iterator[NDArray[np.uint8]]:
        """All rows in key order."""
        with self._store.exclusive():
            rows = sorted(row for drawer in self._rows.values() for row in drawer)
        for start in range(0, len(rows), BATCH_ROWS):
            yield to_keys(rows[start : start + BATCH_ROWS])

    def approximate_size(self) -> Size:
        """Exactly the rows, and their bytes."""
        with self._store.exclusive():
            rows = sum(map(len, self._rows.values()))
        return Size(rows, rows * KEY_BYTES)


class MemoryRecords:
    """See simhbase.stores.base.Records."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._values: dict[bytes, bytes] = {}
        self._keys: list[bytes] = []  # the same keys, sorted

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of keys."""
        with self._store.exclusive():
            return list(map(self._values.get, keys))

    def put(self, rows: Sequence[tuple[bytes, bytes]]) -> None:
        """Writes rows."""
        with self._store.exclusive():
            for key, value in rows:
                if key not in self._values:
                    insort(self._keys, key)
                self._values[key] = value

    def delete(self, keys: Sequence[bytes]) -> None:
        """Deletes keys."""
        with self._store.exclusive():
            for key in keys:
                if self._values.pop(key, None) is not None:
                    del self._keys[bisect_left(self._keys, key)]

    def scan(self, prefixes: Sequence[bytes], limit: int) -> list[list[tuple[bytes, bytes]]]:
        """The rows of prefixes."""
        with self._store.exclusive():
            return [self._scan(prefix, limit) for prefix in prefixes]

    def _scan(self, prefix: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        start = bisect_left(self._keys, prefix)
        keys = takewhile(lambda key: key.startswith(prefix), self._keys[start : start + limit])
        return [(key, self._values[key]) for key in keys]

    def iterate(self, start: bytes = b"") -> Iterator[list[tuple[bytes, bytes]]]:
        """Rows in key order."""
        while batch := self._batch(start):
            yield batch
            start = batch[-1][0] + b"\x00"

    def _batch(self, start: bytes) -> list[tuple[bytes, bytes]]:
        with self._store.exclusive():
            first = bisect_left(self._keys, start)
            return [(key, self._values[key]) for key in self._keys[first : first + BATCH_ROWS]]

    def compare_and_set(self, key: bytes, expected: bytes | None, value: bytes) -> bool:
        """Sets `value` if the key holds `expected`."""
        with self._store.exclusive():
            if self._values.get(key) != expected:
                return False
            self.put([(key, value)])
            return True

    def increment(self, key: bytes, by: int = 1) -> int:
        """Adds to a counter."""
        with self._store.exclusive():
            count, value = counted_up(self._values.get(key), by)
            self.put([(key, value)])
            return count

    def approximate_size(self) -> Size:
        """Exactly the rows, and their bytes."""
        with self._store.exclusive():
            return Size(len(self._keys), sum(map(len, self._keys)) + sum(map(len, self._values.values())))
