"""The tables of a store, and operations on all of them in one step."""

from __future__ import annotations

import os
import resource
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from operator import add, itemgetter, methodcaller
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.rowkeys import KEY_BYTES
from simhbase.errors import StoreFailed
from simhbase.model.values import Size
from simhbase.process.progress import Progress, no_progress
from simhbase.stores.arrays import drawer_rows, to_bytes, to_index_rows, versions_of
from simhbase.stores.atomic import BaseStore, LockedRecords
from simhbase.stores.base import (
    PART_ROWS,
    Cell,
    Changes,
    DrawerRows,
    IndexRows,
    NearLimits,
    NearRows,
    RecordTable,
    Row,
    Version,
)
from simhbase.stores.keys import after_key, common_prefix
from simhbase.stores.rocksdb.compaction import compact
from simhbase.stores.rocksdb.database import VERSION, Database, Put, cell_of, reopened
from simhbase.stores.rocksdb.follower import Follower
from simhbase.stores.rocksdb.options import IN_ORDER, INDEX, SCANNING, WITHIN_DRAWER
from simhbase.stores.strings import Strings

T = TypeVar("T")
BATCH_ROWS = 10_000
WRITE_FINGERPRINTS = 10_000
# From this many index rows on, files are faster than the log.
FILE_ROWS = 300_000
FETCHED = 2_048  # drawers read at once: their blocks fit into the smallest cache
FEW_DRAWERS = 64  # of a lookup or a few: threads do not pay
_FORKED = (
    "was opened before this process was forked, and RocksDB does not survive a fork: open the store in each "
    "process (after the fork, or with multiprocessing's 'spawn')"
)
_Rows = list[list[tuple[bytes, bytes]]]  # see Database.rows
_Keys = tuple[list[bytes], list[int], list[bool]]  # see Database.keys


class RocksStore(BaseStore["RocksRecords"]):
    def __init__(self, url: str, database: Database, follower: Follower | None = None) -> None:
        self.url = url
        self._lock = threading.RLock()
        self._database = database
        self._follower = follower
        self._gone: str | None = None  # why it can be used no longer
        self._views = 0  # incremented before and after rows are removed: odd while this is going on
        self.drawers = RocksDrawers(self)
        self._records = {table: RocksRecords(self, table) for table in self.tables}
        self._records["meta"] = RocksRecords(self, "meta", 0, partial(Cell, version=0))
        _OPEN.add(self)

    def new_records(self, table: RecordTable) -> RocksRecords:
        return RocksRecords(self, table)

    @property
    def database(self) -> Database:
        """The database for reads and writes. Raises StoreFailed after `close`, and in a process forked from
        the one that opened it."""
        if self._gone is not None:
            raise StoreFailed(f"{self.url} {self._gone}")
        return self._database

    def forget(self) -> None:
        """Refuse all further calls, in a forked child."""
        self._lock = threading.RLock()  # one that was held at the fork is never released
        self._gone = self._gone or _FORKED

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """A re-entrant lock that every write takes. Earlier writes are complete before reads inside it; after
        a failed write the database is reopened."""
        with self._lock:
            database = self.database
            if self._follower is None:
                if database.failed is not None:
                    self._database = database = reopened(database)
                if database.ingestion.has_left:
                    database.end_ingestion()
            yield

    def require_writable(self) -> None:
        with self._lock:
            if self._follower is None:
                self.database.require_sound()
                with self.exclusive():
                    pass

    def read(self, read: Callable[[Database], T]) -> T:
        """Read from the database; once more if it was reopened meanwhile."""
        database = self.database
        try:
            return read(database)
        except StoreFailed:
            if not database.closed:
                raise
        with self.exclusive():
            return read(self.database)

    def read_consistent(self, read: Callable[[], T]) -> T:
        """Call `read`: with writers locked out while rows are being removed, and once more if some were
        removed meanwhile."""
        before = self._views
        if before % 2 == 0:
            result = read()
            if before == self._views:
                return result
        with self._lock:
            return read()

    def near(self, value: int, prefixes: Sequence[bytes], limits: NearLimits) -> NearRows:
        found: Callable[[Database], NearRows] = methodcaller("near", value, [*prefixes], limits)
        return self.read_consistent(partial(self.read, found))

    @contextmanager
    def _rows_go(self) -> Iterator[None]:
        """Wraps, under the lock, the removal of rows that a running lookup may rely on."""
        self._views += 1
        try:
            yield
        finally:
            self._views += 1

    def commit(self, changes: Changes) -> None:
        """Make all changes as one synced batch, or by ingesting files if there are many new rows."""
        removes = any(changes.delete.values()) or len(changes.unindex) > 0
        with self.exclusive():
            if self._follower is None and not removes and changes.index.size >= FILE_ROWS * KEY_BYTES:
                self._add_files(changes)
                return
            put: list[Put] = [(INDEX, _sorted_rows(changes.index), repeat(b""))]
            for table, (keys, values) in changes.put.items():
                stored = self._records[table].with_versions(values, changes.version)
                put.append((table, keys.to_list(), stored.to_list()))
            with self._rows_go() if removes else nullcontext():
                self.database.write(put, [(INDEX, _sorted_rows(changes.unindex)), *changes.delete.items()])
            self.sync()

    def _add_files(self, changes: Changes) -> None:
        rows: dict[str, tuple[Strings, Strings]] = {
            table: (keys, self._records[table].with_versions(values, changes.version))
            for table, (keys, values) in changes.put.items()
        }
        self.database.add_files(changes.index.reshape(-1, KEY_BYTES), rows)

    def refresh(self) -> None:
        if self._follower is None:
            return
        with self._lock:
            if written := self._follower.new_growth():
                with self._rows_go():
                    self._database = self._follower.level(self.database, written)

    def sync(self) -> None:
        """Sync the log of all tables: 0.4 ms after a hundred documents, 1 to 4 ms after a thousand (ext4 on a
        virtual disk)."""
        with self.exclusive():
            if self._follower is None:
                self.database.sync()

    def compact(self, progress: Progress = no_progress, *, whole: bool = False) -> None:
        """Merge the files of each table into one level, or only the newest files if little is new. Reads and
        writes continue meanwhile."""
        with self.exclusive():
            database = self.database
        compact(database, progress, whole)
        self.require_writable()

    def counters(self) -> Mapping[str, int]:
        """Hits and misses of the block cache."""
        return self.read(Database.cache_reads)

    def gauges(self) -> Mapping[str, int]:
        memory = self.database.memory
        return {"cache_bytes": memory.capacity, "cache_used_bytes": memory.blocks.get_usage()}

    def close(self) -> None:
        """Release the folder: the next writer can open it on return. No effect in a forked child."""
        with self._lock:
            if self._gone is None:
                self._database.close()
                self._gone = "was closed: open it again"
                del self._database
                if self._follower is not None:
                    self._follower.close()


_OPEN: weakref.WeakSet[RocksStore] = weakref.WeakSet()


def _forget_in_child() -> None:
    for store in _OPEN:
        store.forget()


os.register_at_fork(after_in_child=_forget_in_child)


@dataclass
class RocksDrawers:
    _store: RocksStore
    _from_disk: bool = False  # whether the blocks read last were not in memory

    def add(self, keys: NDArray[np.uint8]) -> None:
        for start in range(0, len(keys), WRITE_FINGERPRINTS):
            with self._store.exclusive():
                some = _sorted_rows(keys[start : start + WRITE_FINGERPRINTS])
                self._store.database.write([(INDEX, some, repeat(b""))])

    def remove(self, keys: NDArray[np.uint8], times: NDArray[np.int64]) -> None:
        with self._store.exclusive():
            self._store.database.write(delete=[(INDEX, _sorted_rows(keys))])

    def times(self, keys: NDArray[np.uint8]) -> NDArray[np.int64]:
        values: list[bytes | None] = self._store.read(methodcaller("get", INDEX, to_bytes(keys)))
        found = np.fromiter((0 if value is not None else -1 for value in values), np.int64, len(values))
        return found.reshape(keys.shape[:-1])

    def read(self, prefixes: NDArray[np.uint8], limit: int | None) -> Iterator[DrawerRows]:
        """Read drawers in the given order: sorting did not make 10,000 seeks among 10 million rows faster."""
        most = sys.maxsize if limit is None else limit
        starts = to_bytes(prefixes)
        done = 0
        while done < len(starts):
            rows, offsets, more = self._keys(starts[done : done + FETCHED], min(most, PART_ROWS))
            last = done + len(more) - 1
            unfinished = more[-1] and most > PART_ROWS
            cut = [done + i for i in range(len(more) - unfinished) if more[i]] if True in more else []
            yield drawer_rows(done, offsets, rows, cut)
            if unfinished:
                yield from self._rest(last, rows[-1], most - PART_ROWS)
            done = last + 1

    def _rest(self, drawer: int, key: bytes, most: int) -> Iterator[DrawerRows]:
        """Up to `most` rows of a long drawer after a key."""
        more = True
        while more and most > 0:
            rows, offsets, (more,) = self._keys([after_key(key)], min(most, PART_ROWS))
            most -= len(rows)
            yield drawer_rows(drawer, offsets, rows, [drawer] if more and most == 0 else [])
            key = rows[-1] if rows else key

    def _keys(self, starts: Sequence[bytes], most: int) -> _Keys:
        """An iterator waits for one block of the disk after the other. So blocks are fetched by several
        threads first, where the last ones were not in memory."""
        are_many = len(starts) > FEW_DRAWERS
        before = _blocks_read() if are_many else 0
        if are_many and self._from_disk:
            self._store.read(methodcaller("prefetch", INDEX, starts))
        found: _Keys = self._store.read(methodcaller("keys", INDEX, WITHIN_DRAWER, starts, most))
        if are_many:
            self._from_disk = _blocks_read() - before > len(starts)
        return found

    def iterate(self, start: bytes = b"", stop: bytes = b"") -> Iterator[IndexRows]:
        """Rows in key order. No iterator is held between batches."""
        for rows in _batches(self._batch, start, stop, key=bytes):
            if set(map(len, rows)) != {KEY_BYTES}:
                odd = next(row for row in rows if len(row) != KEY_BYTES)
                raise StoreFailed(
                    f"an index row of {self._store.url} has {len(odd)} bytes instead of {KEY_BYTES}: "
                    f"{odd[:64].hex()}. simhbase writes no such rows. Copy the store with 'simhbase "
                    "migrate', which leaves them out"
                )
            yield to_index_rows(rows)

    def _batch(self, start: bytes) -> list[bytes]:
        found: _Keys = self._store.read(methodcaller("keys", INDEX, SCANNING, [start], BATCH_ROWS))
        return found[0]

    def approximate_size(self) -> Size:
        size: Size = self._store.read(methodcaller("approximate_size", INDEX))
        return size


@dataclass
class RocksRecords(LockedRecords):
    """A record table."""

    _store: RocksStore
    _table: RecordTable
    _head_bytes: int = VERSION.size
    _cell: Callable[[bytes], Cell] = cell_of

    def with_versions(self, values: Strings, version: Version | None) -> Strings:
        """Values prefixed with their versions."""
        if not self._head_bytes:
            return values
        versions = np.broadcast_to(np.array(version or 0, dtype=">i8"), values.lengths.shape).copy()
        return Strings.joined(Strings.rows_of(versions.view(np.uint8).reshape(-1, self._head_bytes)), values)

    def get(self, keys: Sequence[bytes]) -> list[Cell | None]:
        found: list[bytes | None] = self._store.read(methodcaller("get", self._table, keys))
        return [None if stored is None else self._cell(stored) for stored in found]

    def put(self, rows: Sequence[tuple[bytes, bytes]], version: Version | None = None) -> None:
        with self._store.exclusive():
            if version is not None and self._head_bytes:
                there = zip(rows, self.get([key for key, _ in rows]), versions_of(version), strict=False)
                fitting = [(row, at) for row, cell, at in there if cell is None or cell.version <= at]
                rows, version = [row for row, _ in fitting], [at for _, at in fitting]
            values: Iterable[bytes] = (value for _, value in rows)
            if self._head_bytes:
                values = map(add, map(VERSION.pack, versions_of(version)), values)
            self._store.database.write([(self._table, (key for key, _ in rows), values)])

    def delete(self, keys: Sequence[bytes], versions: Sequence[int] | None = None) -> None:
        with self._store.exclusive():
            if versions is not None:
                keys = [
                    key
                    for key, cell, version in zip(keys, self.get(keys), versions, strict=True)
                    if cell is not None and cell.version <= version
                ]
            self._store.database.write(delete=[(self._table, keys)])

    def scan(self, prefixes: Sequence[bytes], limit: int) -> list[list[Row]]:
        ranges = [(prefix, prefix) for prefix in prefixes]
        found: _Rows = self._store.read(methodcaller("rows", self._table, IN_ORDER, ranges, limit))
        return [[(key, self._cell(stored)) for key, stored in rows] for rows in found]

    def iterate(self, start: bytes = b"", stop: bytes = b"") -> Iterator[list[Row]]:
        """Rows in key order. No iterator is held between batches."""
        # A batch ends behind this prefix: a short range costs no batch of the rows that follow.
        prefix = common_prefix(start, stop) if stop else b""
        return _batches(partial(self._batch, prefix=prefix), start, stop, key=itemgetter(0))

    def _batch(self, start: bytes, prefix: bytes) -> list[Row]:
        ranges = [(start, prefix)]
        found: _Rows = self._store.read(methodcaller("rows", self._table, SCANNING, ranges, BATCH_ROWS))
        return [(key, self._cell(stored)) for key, stored in found[0]]

    def approximate_size(self) -> Size:
        size: Size = self._store.read(methodcaller("approximate_size", self._table))
        return size


def _batches(
    batch: Callable[[bytes], list[T]], start: bytes, stop: bytes, key: Callable[[T], bytes]
) -> Iterator[list[T]]:
    """All rows from `start` until before `stop`. `read` returns some rows from a key on."""
    while rows := batch(start):
        start = after_key(key(rows[-1]))
        if stop and start > stop:
            rows = [row for row in rows if key(row) < stop]
        if rows:
            yield rows
        if stop and start >= stop:
            return


def _blocks_read() -> int:
    """Blocks of 512 bytes that the disk has given to this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_inblock


def _sorted_rows(keys: NDArray[np.uint8]) -> list[bytes]:
    """Rows in order of their first 8 bytes: RocksDB's memory table takes sorted rows 1.5 times as fast."""
    rows = np.ascontiguousarray(keys).reshape(-1, KEY_BYTES)
    first_bytes = np.ascontiguousarray(rows[:, :8]).view(">u8").ravel().astype(np.uint64)
    return to_bytes(rows[np.argsort(first_bytes)])
