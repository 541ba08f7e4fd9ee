"""A store in this process's memory. Its content is lost when it is closed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from simhbase._core import Drawers, Records, near_in_memory
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
    NearLimits,
    NearRows,
    RecordTable,
    Row,
    Version,
)
from simhbase.stores.keys import after_key

T = TypeVar("T")
BATCH_ROWS = 10_000
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

    def near(self, value: int, prefixes: Sequence[bytes], limits: NearLimits) -> NearRows:
        listings, documents = self._records["fingerprints"].rows, self._records["documents"].rows
        with self.exclusive():
            found = near_in_memory(self.drawers.rows, listings, documents, value, [*prefixes], limits)
        return NearRows(DrawerHits(*found[0]), *found[1:])

    def close(self) -> None:
        self._closed = True


class MemoryDrawers:
    """Drawers that the core keeps (`core/src/drawers.rs`)."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.rows = Drawers()

    def add(self, keys: NDArray[np.uint8]) -> None:
        with self._store.exclusive():
            self.rows.add(np.ascontiguousarray(keys))

    def remove(self, keys: NDArray[np.uint8], times: NDArray[np.int64]) -> None:
        with self._store.exclusive():
            self.rows.remove(np.ascontiguousarray(keys))

    def times(self, keys: NDArray[np.uint8]) -> NDArray[np.int64]:
        with self._store.exclusive():
            found = np.frombuffer(self.rows.contain(np.ascontiguousarray(keys)), dtype=np.bool_)
        return found.reshape(keys.shape[:-1]).astype(np.int64) - 1

    def read(self, prefixes: NDArray[np.uint8], limit: int | None) -> Iterator[DrawerRows]:
        wanted, first = np.ascontiguousarray(prefixes), 0
        while first < len(wanted):
            with self._store.exclusive():
                part = self.rows.read(wanted, first, limit, PART_ROWS)
            lengths, truncated = (np.frombuffer(part[column], dtype=np.int64) for column in (0, 2))
            end = first + len(lengths)
            offsets = np.append(0, np.cumsum(lengths))
            fingerprints = np.frombuffer(part[1], dtype=np.uint64)
            yield DrawerRows(np.arange(first, end), offsets, fingerprints, truncated)
            first = end

    def iterate(self, start: bytes = b"", stop: bytes = b"") -> Iterator[IndexRows]:
        with self._store.exclusive():
            prefixes, fingerprints = (np.frombuffer(column, np.uint64) for column in self.rows.sorted())
        yield from rows_between(keys_of(prefixes.view(np.int64), fingerprints), start, stop)

    def approximate_size(self) -> Size:
        with self._store.exclusive():
            rows = len(self.rows)
        return Size(rows, rows * KEY_BYTES, 0.0)


class MemoryRecords(LockedRecords):
    """Rows that the core keeps (`core/src/records.rs`)."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.rows = Records(Cell)

    def get(self, keys: Sequence[bytes]) -> list[Cell | None]:
        with self._store.exclusive():
            return self.rows.get([*keys])

    def put(self, rows: Sequence[tuple[bytes, bytes]], version: Version | None = None) -> None:
        versions = None if version is None else list(islice(versions_of(version), len(rows)))
        with self._store.exclusive():
            self.rows.put([*rows], versions)

    def delete(self, keys: Sequence[bytes], versions: Sequence[int] | None = None) -> None:
        with self._store.exclusive():
            self.rows.delete([*keys], None if versions is None else [*versions])

    def scan(self, prefixes: Sequence[bytes], limit: int) -> list[list[Row]]:
        with self._store.exclusive():
            return self.rows.scan([*prefixes], limit)

    def iterate(self, start: bytes = b"", stop: bytes = b"") -> Iterator[list[Row]]:
        while rows := self._batch(start, stop):
            yield rows
            start = after_key(rows[-1][0])

    def _batch(self, start: bytes, stop: bytes) -> list[Row]:
        with self._store.exclusive():
            return self.rows.range(start, stop, BATCH_ROWS)

    def approximate_size(self) -> Size:
        with self._store.exclusive():
            return Size(len(self.rows), self.rows.size(), 0.0)
