"""A store in a folder, by RocksDB: one writing process, any number of readers beside it.

The tables are column families; a row of the index is its 13-byte key with an empty value. Values of
documents and fingerprints begin with the version of the cell, 8 bytes.

A writer's batches are in the write-ahead log when a call returns, which survives the loss of the
process, and on the disk after `sync`, which survives the loss of the machine. A reader is one of
RocksDB's secondary instances: it replays the writer's log into its own memory.

RocksDB does not survive a fork: its threads are not there in the child, and what the child wrote would
ruin the parent's log. So a store that was opened before a fork refuses to work in the child.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import struct
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import repeat
from operator import itemgetter
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from rocksdict import (
    AccessType,
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    DbClosedError,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
    SliceTransform,
    WriteBatch,
    WriteOptions,
)

from simhbase.drawers.rowkeys import KEY_BYTES, PREFIX_BYTES
from simhbase.errors import ReadOnly, SimhbaseError, StoreBusy, StoreFailed, TablesMissing, UsageError
from simhbase.stores import location
from simhbase.stores.arrays import counted_up, drawer_rows, to_bytes, to_index_rows
from simhbase.stores.base import (
    ATOMIC_TABLES,
    PART_ROWS,
    Access,
    Cell,
    Changes,
    DrawerRows,
    IndexRows,
    RecordTable,
    Row,
    Size,
)

T = TypeVar("T")
INDEX = "index"
TABLES = (INDEX, *ATOMIC_TABLES)
BATCH_ROWS = 10_000
WRITE_FINGERPRINTS = 10_000
CACHE_BYTES = 128 << 20
ENTRY_BYTES = 4 << 10  # parts of filters and indexes are the smallest
_PROCESSES: set[int] = set()  # those that have opened a store: this one, and whichever it was forked from
_VERSION = struct.Struct(">q")
_CONFIGURATION = "rocksdict-config.json"
_NOT_WRITABLE = re.compile(r"Read-only file system|Permission denied")
OPENING_PAUSES = (0.01, 0.02, 0.05, 0.1, 0.2)  # seconds


def open_store(url: str, access: Access) -> RocksStore:
    """Opens a store that exists. Raises TablesMissing, StoreBusy, StoreFailed."""
    path = _path(url)
    _require(url, path)
    if access == "write":
        return RocksStore(url, _open_writer(url, path, _database_options()))
    follower = _Follower(url, path)
    try:
        return RocksStore(url, follower.open(), follower)
    except BaseException:
        follower.close()
        raise


def create_store(url: str) -> RocksStore:
    """Opens a store for writing and makes what is missing of it. Raises StoreBusy, StoreFailed,
    UsageError where the path is in use for something else."""
    path = _path(url)
    _make_folder(url, path)
    options = _database_options()
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    return RocksStore(url, _open_writer(url, path, options))


def drop_store(url: str) -> None:
    """Deletes a store with all its data, or what an interrupted creation left of one. Raises
    TablesMissing, StoreBusy, StoreFailed."""
    droppable(url)
    with _Failures("dropping", url):
        Rdict.destroy(str(_path(url)), _database_options())


def droppable(url: str) -> list[str]:
    """The name of what `drop_store` would delete. Raises TablesMissing."""
    if not is_store(_path(url)):
        raise _nothing_there(url)
    return [url]


def _path(url: str) -> Path:
    path = location(url)
    if not path:
        raise UsageError(f"no store {url!r}: name its folder, as in rocksdb:simhbase.db")
    # A shell leaves the tilde behind a scheme as it is; a change of the working folder moves no store.
    return Path(path).expanduser().absolute()


def _require(url: str, path: Path) -> None:
    """Raises TablesMissing where there is no store, or only a part of one."""
    with _Failures("opening", url):
        if not (path / "CURRENT").exists():
            raise _nothing_there(url)
        missing = sorted(set(TABLES).difference(Rdict.list_cf(str(path), _database_options())))
    if missing:
        raise TablesMissing(f"{url} lacks {', '.join(missing)}; tables create completes it")


def _nothing_there(url: str) -> TablesMissing:
    return TablesMissing(f"{url}: no store is there; simhbase load or simhbase tables create make one")


def is_store(path: Path) -> bool:
    """Whether a folder holds a store, or what an interrupted creation left of one."""
    # An interrupted creation leaves the second before any other file.
    return any((path / name).exists() for name in ("CURRENT", _CONFIGURATION))


def _make_folder(url: str, path: Path) -> None:
    """Raises UsageError where a store's files would be scattered among others."""
    with _Failures("creating", url):
        if path.exists() and (not path.is_dir() or (any(path.iterdir()) and not is_store(path))):
            raise UsageError(f"{url}: the path holds something else, give the store a folder of its own")
        path.mkdir(parents=True, exist_ok=True)
        # RocksDB syncs what is in its folder, not the folder's own name.
        above = os.open(path.absolute().parent, os.O_RDONLY)
        try:
            os.fsync(above)
        finally:
            os.close(above)


class RocksStore:
    """See simhbase.stores.base.AtomicStore."""

    def __init__(self, url: str, database: _Database, follower: _Follower | None = None) -> None:
        self.url = url
        self.tables = ATOMIC_TABLES
        self._lock = threading.RLock()
        self._database: _Database | None = database
        self._follower = follower
        self._views = 0  # counts the times at which rows begin, and end, to go: odd while they go
        self.drawers = RocksDrawers(self)
        self._records = {table: RocksRecords(self, table) for table in self.tables}

    def records(self, table: RecordTable) -> RocksRecords:
        """One of the other tables."""
        return self._records[table]

    def ttl(self) -> None:
        """Nothing expires."""

    @property
    def database(self) -> _Database:
        """What the tables read and write through. Raises StoreFailed after `close`, and in a process that
        was forked from the one that opened it."""
        database = self._database
        if database is None:
            raise StoreFailed(f"{self.url} was closed: open it again")
        if database.process != os.getpid():
            raise StoreFailed(
                f"{self.url} was opened before this process was forked, and RocksDB does not survive a fork: "
                "open the store in each process (after the fork, or with multiprocessing's 'spawn')"
            )
        return database

    def exclusive(self) -> AbstractContextManager[object]:
        """A re-entrant lock of this process; every write takes it."""
        return self._lock

    def consistently(self, read: Callable[[], T]) -> T:
        """What `read` returns; with writers kept out where rows are being removed, and once more where some
        were meanwhile."""
        before = self._views
        if before % 2 == 0:
            result = read()
            if before == self._views:
                return result
        with self._lock:
            return read()

    @contextmanager
    def _rows_go(self) -> Iterator[None]:
        """Held, under the lock, while rows are removed that a lookup may have been led to."""
        self._views += 1
        try:
            yield
        finally:
            self._views += 1

    def commit(self, changes: Changes) -> None:
        """Makes all changes as one batch of the log, and syncs it."""
        with self._lock:
            batch = _Batch(self.database)
            batch.delete(INDEX, _sorted_rows(changes.unindex))
            for table, keys in changes.delete.items():
                batch.delete(table, keys)
            batch.put(INDEX, _sorted_rows(changes.index), repeat(b""))
            for table, rows in changes.put.items():
                head = self._records[table].head(changes.version)
                batch.put(table, map(itemgetter(0), rows), (head + value for _, value in rows))
            removes = any(changes.delete.values()) or len(changes.unindex)
            with self._rows_go() if removes else nullcontext():
                batch.write()
            self.sync()

    def refresh(self) -> None:
        """Lets a reader see all that the writer has written so far; a writer sees it anyway."""
        with self._lock:
            if self._follower is not None and (written := self._follower.is_behind()):
                with self._rows_go():
                    self._database = self._follower.level(self.database, written)

    def sync(self) -> None:
        """Syncs the log, which is one for all tables: 0.4 ms after a hundred documents, 1 to 4 ms after a
        thousand (ext4 on a virtual disk)."""
        with self._lock:
            if self._follower is None:
                self.database.sync()

    def counters(self) -> Mapping[str, int]:
        """Nothing is counted."""
        return {}

    def close(self) -> None:
        """Gives the folder back: the next writer can open it when this returns."""
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None
            if self._follower is not None:
                self._follower.close()


class RocksDrawers:
    """See simhbase.stores.base.Drawers."""

    def __init__(self, store: RocksStore) -> None:
        self._store = store

    def add(self, keys: NDArray[np.uint8]) -> None:
        """Puts rows."""
        for start in range(0, len(keys), WRITE_FINGERPRINTS):
            with self._store.exclusive():
                batch = _Batch(self._store.database)
                batch.put(INDEX, _sorted_rows(keys[start : start + WRITE_FINGERPRINTS]), repeat(b""))
                batch.write()

    def remove(self, keys: NDArray[np.uint8], times: NDArray[np.int64]) -> None:
        """Removes rows; they have no times."""
        with self._store.exclusive():
            batch = _Batch(self._store.database)
            batch.delete(INDEX, _sorted_rows(keys))
            batch.write()

    def times(self, keys: NDArray[np.uint8]) -> NDArray[np.int64]:
        """0 for rows that exist, -1 for others."""
        values = self._store.database.get(INDEX, to_bytes(keys))
        found = np.fromiter((0 if value is not None else -1 for value in values), np.int64, len(values))
        return found.reshape(keys.shape[:-1])

    def read(self, prefixes: NDArray[np.uint8], limit: int | None) -> Iterator[DrawerRows]:
        """Reads drawers. In the order asked: sorted, 10,000 seeks among 10 million rows took as long."""
        most = sys.maxsize if limit is None else limit
        starts = to_bytes(prefixes)
        done = 0
        while done < len(starts):
            rows, offsets, more = self._keys(starts[done:] if done else starts, min(most, PART_ROWS))
            last = done + len(more) - 1
            unfinished = more[-1] and most > PART_ROWS
            cut = [done + i for i in range(len(more) - unfinished) if more[i]] if True in more else []
            yield drawer_rows(done, offsets, rows, cut)
            if unfinished:
                yield from self._rest(last, rows[-1], most - PART_ROWS)
            done = last + 1

    def _rest(self, drawer: int, key: bytes, most: int) -> Iterator[DrawerRows]:
        """The rows of a long drawer behind a key, `most` at most."""
        more = True
        while more and most > 0:
            rows, offsets, (more,) = self._keys([_behind(key)], min(most, PART_ROWS))
            most -= len(rows)
            yield drawer_rows(drawer, offsets, rows, [drawer] if more and most == 0 else [])
            key = rows[-1] if rows else key

    def _keys(self, starts: Sequence[bytes], most: int) -> tuple[list[bytes], list[int], list[bool]]:
        return self._store.database.keys(INDEX, _WITHIN_DRAWER, starts, most)

    def iterate(self, start: bytes = b"", stop: bytes = b"") -> Iterator[IndexRows]:
        """Rows in key order. Between two batches nothing is held open."""
        for rows in _batches(self._batch, start, stop, key=lambda row: row):
            yield to_index_rows(rows)

    def _batch(self, start: bytes) -> list[bytes]:
        rows, _, _ = self._store.database.keys(INDEX, _IN_ORDER, [start], BATCH_ROWS)
        return rows

    def approximate_size(self) -> Size:
        """RocksDB's estimates."""
        return self._store.database.approximate_size(INDEX)


class RocksRecords:
    """See simhbase.stores.base.Records. Values of meta have no version."""

    def __init__(self, store: RocksStore, table: RecordTable) -> None:
        self._store = store
        self._table = table
        self._head_bytes = 0 if table == "meta" else _VERSION.size

    def head(self, version: int | None) -> bytes:
        """What a value begins with."""
        return _VERSION.pack(version or 0) if self._head_bytes else b""

    def _cell(self, stored: bytes) -> Cell:
        if not self._head_bytes:
            return Cell(stored, 0)
        if len(stored) < self._head_bytes:
            raise StoreFailed(
                f"a row of {self._table} in {self._store.url} cannot be read: its value is "
                f"{stored.hex() or 'empty'}, which is too short for a version"
            )
        return Cell(stored[self._head_bytes :], _VERSION.unpack_from(stored)[0])

    def get(self, keys: Sequence[bytes]) -> list[Cell | None]:
        """The cells of keys."""
        found = self._store.database.get(self._table, keys)
        return [None if stored is None else self._cell(stored) for stored in found]

    def put(self, rows: Sequence[tuple[bytes, bytes]], version: int | None = None) -> None:
        """Writes rows."""
        with self._store.exclusive():
            if version is not None:
                there = self.get([key for key, _ in rows])
                rows = [
                    row
                    for row, cell in zip(rows, there, strict=True)
                    if cell is None or cell.version <= version
                ]
            head = self.head(version)
            batch = _Batch(self._store.database)
            batch.put(self._table, map(itemgetter(0), rows), (head + value for _, value in rows))
            batch.write()

    def delete(self, keys: Sequence[bytes], versions: Sequence[int] | None = None) -> None:
        """Deletes keys."""
        with self._store.exclusive():
            if versions is not None:
                keys = [
                    key
                    for key, cell, version in zip(keys, self.get(keys), versions, strict=True)
                    if cell is not None and cell.version <= version
                ]
            batch = _Batch(self._store.database)
            batch.delete(self._table, keys)
            batch.write()

    def scan(self, prefixes: Sequence[bytes], limit: int) -> list[list[Row]]:
        """The rows of prefixes."""
        found = self._store.database.rows(self._table, zip(prefixes, prefixes, strict=True), limit)
        return [self._cells(rows) for rows in found]

    def _cells(self, rows: Sequence[tuple[bytes, bytes]]) -> list[Row]:
        return [(key, self._cell(stored)) for key, stored in rows]

    def iterate(self, start: bytes = b"", stop: bytes = b"") -> Iterator[list[Row]]:
        """Rows in key order. Between two batches nothing is held open."""
        return _batches(self._batch, start, stop, key=itemgetter(0))

    def _batch(self, start: bytes) -> list[Row]:
        (rows,) = self._store.database.rows(self._table, [(start, b"")], BATCH_ROWS)
        return self._cells(rows)

    def compare_and_set(self, key: bytes, expected: bytes | None, value: bytes) -> bool:
        """Sets `value` if the key holds `expected`."""
        with self._store.exclusive():
            (found,) = self.get([key])
            if (found and found.value) != expected:
                return False
            self.put([(key, value)], found.version + 1 if found else 0)
            return True

    def increment(self, key: bytes, by: int = 1) -> int:
        """Adds to a counter."""
        with self._store.exclusive():
            (found,) = self.get([key])
            count, value = counted_up(found and found.value, by)
            self.put([(key, value)])
            return count

    def approximate_size(self) -> Size:
        """RocksDB's estimates."""
        return self._store.database.approximate_size(self._table)


def _batches(
    batch: Callable[[bytes], list[T]], start: bytes, stop: bytes, key: Callable[[T], bytes]
) -> Iterator[list[T]]:
    """All rows from `start` to before `stop`, given what reads some from a key on."""
    while rows := batch(start):
        start = _behind(key(rows[-1]))
        if stop and start > stop:
            rows = [row for row in rows if key(row) < stop]
        if rows:
            yield rows
        if stop and start >= stop:
            return


def _sorted_rows(keys: NDArray[np.uint8]) -> list[bytes]:
    """The rows in order of their first 8 bytes: RocksDB's memory table takes sorted rows 1.5 times as fast
    as others."""
    rows = np.ascontiguousarray(keys).reshape(-1, KEY_BYTES)
    first_bytes = np.ascontiguousarray(rows[:, :8]).view(">u8").ravel().astype(np.uint64)
    return to_bytes(rows[np.argsort(first_bytes)])


def _behind(key: bytes) -> bytes:
    """The smallest key greater than this one."""
    return key + b"\x00"


class _Failures:
    """Turns what rocksdict raises, bare Exceptions, into errors of ours."""

    __slots__ = ("_doing", "_url")

    def __init__(self, doing: str, url: str) -> None:
        self._doing = doing
        self._url = url

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and (type(error) is Exception or isinstance(error, (DbClosedError, OSError))):
            raise self._ours(str(error)) from error

    def _ours(self, message: str) -> SimhbaseError:
        if "lock hold by current process" in message or "While lock file" in message:
            return StoreBusy(
                f"{self._url} is open for writing already, and only one process at a time can write: "
                "wait until it ends, or open it for reading, which works meanwhile"
            )
        if "Not supported operation in secondary mode" in message:
            return ReadOnly(f"{self._url} was opened for reading: open it with access='write' to change it")
        failed = f"{self._doing} {self._url} failed: {message.strip()}"
        if self._doing == "opening" and _NOT_WRITABLE.search(message):
            return StoreFailed(
                f"{failed}. Who writes to the store needs the right to write to its folder; "
                "who reads from it needs the right to read all of its files"
            )
        if "No space left" in message or "quota exceeded" in message:
            failed += ". Make room, then do the same again: nothing that was acknowledged is lost"
        return StoreFailed(failed)


class _Database:
    """An open RocksDB: its column families and what is done with them.

    An iterator keeps the folder open, and locked, for as long as anything refers to it. So none
    outlives the call it serves, not even in the frames of a traceback that somebody keeps.
    """

    def __init__(self, url: str, rdict: Rdict) -> None:
        self._reading = _Failures("reading", url)
        self.writing = _Failures("writing to", url)
        self.process = os.getpid()
        self.rdict = rdict
        self.families = {table: rdict.get_column_family(table) for table in TABLES}
        self.handles = {table: rdict.get_column_family_handle(table) for table in TABLES}
        _OPEN.add(self)

    def get(self, table: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Values, None where a key is absent."""
        with self._reading:
            return cast(list[bytes | None], self.families[table].get([*keys]))

    def keys(
        self, table: str, options: ReadOptions, starts: Iterable[bytes], most: int
    ) -> tuple[list[bytes], list[int], list[bool]]:
        """At most so many keys from each start on, as far as the options let them be seen, of as many
        starts as it takes for PART_ROWS keys.

        Returns all keys, the offsets of each start's among them (one more than starts), and whether
        there were more.
        """
        with self._reading:
            iterator = self.families[table].iter(options)
            seek, current, advance, check = iterator.seek, iterator.key, iterator.next, iterator.status
            keys: list[bytes] = []
            offsets = [0]
            more = []
            try:
                for start in starts:
                    seek(start)
                    full = len(keys) + most
                    while (key := current()) is not None and len(keys) < full:
                        keys.append(key)
                        advance()
                    check()
                    offsets.append(len(keys))
                    more.append(key is not None)
                    if len(keys) >= PART_ROWS:
                        break
            finally:
                del iterator, seek, current, advance, check  # see the class
            return keys, offsets, more

    def rows(
        self, table: str, ranges: Iterable[tuple[bytes, bytes]], most: int
    ) -> list[list[tuple[bytes, bytes]]]:
        """For each start and prefix, at most so many rows from the start on that have the prefix."""
        with self._reading:
            iterator = self.families[table].iter(_IN_ORDER)
            found = []
            try:
                for start, prefix in ranges:
                    rows: list[tuple[bytes, bytes]] = []
                    iterator.seek(start)
                    while len(rows) < most and (key := iterator.key()) is not None and key.startswith(prefix):
                        rows.append((key, iterator.value()))
                        iterator.next()
                    iterator.status()
                    found.append(rows)
            finally:
                del iterator
            return found

    def sync(self) -> None:
        """Brings the log to the disk."""
        with self.writing:
            self.rdict.flush_wal(sync=True)

    def set_index_option(self, name: str, value: str) -> None:
        """Changes an option of the index while it is open."""
        self.families[INDEX].set_options({name: value})

    def catch_up(self) -> None:
        """Reads on in the files of the primary."""
        self.rdict.try_catch_up_with_primary()

    def approximate_size(self, table: str) -> Size:
        """RocksDB's estimates, of what is in files and what is in memory."""
        family = self.families[table]
        properties = ("estimate-num-keys", "live-sst-files-size", "cur-size-all-mem-tables")
        with self._reading:
            rows, *sizes = (family.property_int_value(f"rocksdb.{name}") or 0 for name in properties)
        return Size(rows, sum(sizes))

    def close(self) -> None:
        """Gives the folder and its lock back, at once; does nothing in a child of the process."""
        if self.process != os.getpid():
            return
        self.handles.clear()
        for part in (*self.families.values(), self.rdict):
            try:
                part.close()
            except Exception as error:
                # Closing flushes; where that fails, the rows are in the log, for the next opening.
                if type(error) is not Exception:
                    raise


class _Batch:
    """Changes that are written together."""

    def __init__(self, database: _Database) -> None:
        self._database = database
        self._batch = WriteBatch(raw_mode=True)

    def put(self, table: str, keys: Iterable[bytes], values: Iterable[bytes]) -> None:
        """Puts rows."""
        deque(map(self._batch.put, keys, values, repeat(self._database.handles[table])), maxlen=0)

    def delete(self, table: str, keys: Iterable[bytes]) -> None:
        """Deletes keys."""
        deque(map(self._batch.delete, keys, repeat(self._database.handles[table])), maxlen=0)

    def write(self) -> None:
        """Writes all of it to the log."""
        with self._database.writing:
            self._database.rdict.write(self._batch, _WRITES)


_OPEN: weakref.WeakSet[_Database] = weakref.WeakSet()


def _forget_in_child() -> None:
    """Keeps a forked child from ever closing what its parent has open: that would wait for threads which
    are not there."""
    for database in _OPEN:
        for part in (database.rdict, *database.families.values(), *database.handles.values()):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(part))


os.register_at_fork(after_in_child=_forget_in_child)


def _remove_folder(folder: str, process: int) -> None:
    """Removes a folder of this process, not of the one that it was forked from."""
    if process == os.getpid():
        shutil.rmtree(folder, ignore_errors=True)


class _Follower:
    """Keeps a reader level with the writer's files.

    RocksDB's own catching up serves old values after the writer has flushed (facebook/rocksdb#14444):
    what the reader replayed from a log before the flush hides what it never read of that log. Every
    flush makes the manifest longer, so the reader catches up while the manifest is as it was when it
    opened, and opens anew when it is not.
    """

    def __init__(self, url: str, path: Path) -> None:
        self._url = url
        self._path = path
        with _Failures("making a folder for temporary files to read", url):
            self._folder = mkdtemp(prefix="simhbase-reader-")  # for the messages of RocksDB
        self._end = weakref.finalize(self, _remove_folder, self._folder, os.getpid())
        self._links: Path | None = None
        self._seen = _Progress((), ())

    def open(self) -> _Database:
        """A reader of all that has been written by now."""
        for pause in OPENING_PAUSES:
            try:
                return self._open()
            except StoreFailed:  # the writer may have deleted a file between its listing and its opening
                time.sleep(pause)
        return self._open()

    def _open(self) -> _Database:
        _require(self._url, self._path)
        with _Failures("opening", self._url):
            self._seen = _progress(self._path)
            database = _Database(self._url, self._open_rdict())
            # The logs that a flush deleted before they could be replayed are now files.
            self._catch_up(database)
        return database

    def _open_rdict(self) -> Rdict:
        access = AccessType.secondary(self._folder)
        if self._links is None:
            try:
                return _open_rdict(self._path, _database_options(), access)
            except OSError:  # rocksdict writes its configuration beside the files, also to read them
                self._links = Path(self._folder, "store")
                self._links.mkdir()
        _link_files(self._path, self._links)
        return _open_rdict(self._links, _database_options(), access)

    def _catch_up(self, database: _Database) -> None:
        if self._links is not None:
            _link_files(self._path, self._links)
        database.catch_up()

    def is_behind(self) -> _Progress | None:
        """How far the writer is, None where nothing has been written since the last look."""
        with _Failures("refreshing", self._url):
            now = _progress(self._path)
        return None if now == self._seen else now

    def level(self, database: _Database, now: _Progress) -> _Database:
        """The same reader, or a new one, that has seen all that has been written by `now`."""
        with _Failures("refreshing", self._url):
            if now.manifest == self._seen.manifest:
                self._catch_up(database)
                if _progress(self._path).manifest == now.manifest:
                    self._seen = now
                    return database
        return self.open()

    def close(self) -> None:
        """Removes the reader's folder."""
        self._end()


def _link_files(store: Path, links: Path) -> None:
    """Brings a folder of links level with the files of a store that this user cannot write to."""
    for link in links.iterdir():
        if link.is_symlink() and not link.exists():  # a log that is gone would hide all later ones
            link.unlink()
    for file in store.iterdir():
        if file.name != _CONFIGURATION:
            with suppress(FileExistsError):
                (links / file.name).symlink_to(file)


@dataclass(frozen=True, slots=True)
class _Progress:
    """Names and sizes of the files that a flush (manifest) or any write (log) makes longer."""

    manifest: tuple[tuple[str, int], ...]
    logs: tuple[tuple[str, int], ...]


def _progress(path: Path) -> _Progress:
    return _Progress(_sizes(path, "MANIFEST-*"), _sizes(path, "*.log"))


def _sizes(path: Path, pattern: str) -> tuple[tuple[str, int], ...]:
    sizes = []
    for file in sorted(path.glob(pattern)):
        with suppress(FileNotFoundError):  # the writer deletes files at any time
            sizes.append((file.name, file.stat().st_size))
    return tuple(sizes)


def _open_writer(url: str, path: Path, options: Options) -> _Database:
    with _Failures("opening", url):
        database = _Database(url, _open_rdict(path, options, AccessType.read_write()))
        try:
            # rocksdict has no setter for this. Drawers are found by their prefix: without whole keys
            # the filters are half as large.
            database.set_index_option("block_based_table_factory", "{whole_key_filtering=false}")
        except BaseException:
            database.close()
            raise
    return database


def _open_rdict(path: Path, options: Options, access: AccessType) -> Rdict:
    _PROCESSES.add(os.getpid())
    if len(_PROCESSES) > 1:
        raise StoreFailed(
            f"{path} cannot be opened here: this process was forked from one that had opened a store, and "
            "the threads of RocksDB do not outlive a fork. Start processes by multiprocessing's 'spawn'"
        )
    # The LRU cache, the default, took 1.5 times as long.
    cache = Cache.new_hyper_clock_cache(CACHE_BYTES, ENTRY_BYTES)
    families = {INDEX: _index_options(cache)} | {table: _records_options(cache) for table in ATOMIC_TABLES}
    return Rdict(str(path), options, column_families=families, access_type=access)


# The options below were chosen by measurement: 300,000 and a million documents of ten random rows,
# inserted a thousand at a time, on two cores. Level compaction with its defaults stayed: universal
# inserted no faster and left lookups twice as slow until compacted.


def _database_options() -> Options:
    options = Options(raw_mode=True)
    # The log is kept until every table has flushed what is in it, and a reader that opens replays it:
    # 1 microsecond a row, so 2 s at worst.
    options.set_max_total_wal_size(32 << 20)
    # It replays the manifest too.
    options.set_max_manifest_file_size(1 << 20)
    # 16 threads, the default, are started anew for every table whenever a reader catches up: that
    # takes 3 to 20 ms instead of 0.05.
    options.set_max_file_opening_threads(1)
    options.set_keep_log_file_num(3)
    options.set_stats_dump_period_sec(0)
    return options


def _index_options(cache: Cache) -> Options:
    options = _records_options(cache)
    # 16 MB inserted 0.9 times as fast, 64 MB no faster.
    options.set_write_buffer_size(32 << 20)
    options.set_max_write_buffer_number(3)
    options.set_prefix_extractor(SliceTransform.create_fixed_prefix(PREFIX_BYTES))
    # Lookups of what is not there: 10 microseconds in memory tables instead of 30, for inserts 0.9
    # times as fast.
    options.set_memtable_prefix_bloom_ratio(0.02)
    return options


def _records_options(cache: Cache) -> Options:
    # No prefix extractor: scans look for what is there, and took 9 microseconds each instead of 6.
    options = Options(raw_mode=True)
    options.set_write_buffer_size(8 << 20)
    # Bytes a document in the index: 237 uncompressed, 140 with lz4, which costs lookups nothing,
    # 118 with zstd, which makes those that miss the cache 1.7 times as long.
    options.set_compression_type(DBCompressionType.lz4())
    options.set_block_based_table_factory(_blocks(cache))
    return options


def _blocks(cache: Cache) -> BlockBasedOptions:
    blocks = BlockBasedOptions()
    blocks.set_block_cache(cache)
    # 4 KiB: 140 bytes a document, 8: 130, 16: 123, but lookups that miss the cache take 1.6 times as long.
    blocks.set_block_size(8 << 10)
    blocks.set_bloom_filter(10, block_based=False)
    # Filters in the cache, and in parts: held beside it they answer a lookup of what is not there in
    # 10 microseconds instead of 18, but take 13 MB for every million documents; whole ones do not fit
    # into a shard of the cache and are read from the disk each time.
    blocks.set_cache_index_and_filter_blocks(True)
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
    blocks.set_index_type(BlockBasedIndexType.two_level_index_search())
    blocks.set_partition_filters(True)
    return blocks


def _within_drawer() -> ReadOptions:
    options = ReadOptions()
    options.set_prefix_same_as_start(True)
    return options


def _in_order() -> ReadOptions:
    options = ReadOptions()
    options.set_total_order_seek(True)
    return options


def _sorted_writes() -> WriteOptions:
    options = WriteOptions()
    options.memtable_insert_hint_per_batch = True
    return options


_WITHIN_DRAWER = _within_drawer()
_IN_ORDER = _in_order()
_WRITES = _sorted_writes()
