"""A store in a folder, by RocksDB: one writing process, any number of readers beside it.

The tables are column families; a row of the index is its 13-byte key with an empty value.

A writer's batches are in the write-ahead log when a call returns, which survives the loss of the
process, and on the disk after `sync`, which survives the loss of the machine. A reader is one of
RocksDB's secondary instances: it replays the writer's log into its own memory.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from itertools import repeat
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import cast

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

from simhbase.errors import ReadOnly, SimhbaseError, StoreBusy, StoreFailed, TablesMissing, UsageError
from simhbase.rowkeys import KEY_BYTES, PREFIX_BYTES, fingerprints_of
from simhbase.stores import location
from simhbase.stores.base import RECORD_TABLES, Access, DrawerRows, RecordTable, Size
from simhbase.stores.rows import counted_up, to_bytes, to_keys

INDEX = "index"
TABLES = (INDEX, *RECORD_TABLES)
BATCH_ROWS = 10_000
WRITE_ROWS = 100_000
CACHE_BYTES = 128 << 20
ENTRY_BYTES = 4 << 10  # parts of filters and indexes are the smallest
_PROCESSES: set[int] = set()  # those that have opened a store: this one, and whichever it was forked from
_INT64, _BOOL = np.dtype(np.int64), np.dtype(np.bool_)
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
    return any((path / name).exists() for name in ("CURRENT", "rocksdict-config.json"))


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
    """See simhbase.stores.base.Store."""

    def __init__(self, url: str, database: _Database, follower: _Follower | None = None) -> None:
        self.url = url
        self._lock = threading.RLock()
        self._database: _Database | None = database
        self._follower = follower
        self.drawers = RocksDrawers(self)
        self._records = {table: RocksRecords(self, table) for table in RECORD_TABLES}

    def records(self, table: RecordTable) -> RocksRecords:
        """One of the other tables."""
        return self._records[table]

    @property
    def database(self) -> _Database:
        """What the tables read and write through. Raises StoreFailed after `close`."""
        if self._database is None:
            raise StoreFailed(f"{self.url} was closed: open it again")
        return self._database

    def exclusive(self) -> AbstractContextManager[object]:
        """A re-entrant lock of this process; every write takes it."""
        return self._lock

    def moment(self) -> int:
        """Milliseconds since 1970; removals here need none."""
        return time.time_ns() // 1_000_000

    def refresh(self) -> None:
        """Lets a reader see all that the writer has written so far; a writer sees it anyway."""
        with self._lock:
            if self._follower is not None:
                self._database = self._follower.level(self.database)

    def sync(self) -> None:
        """Syncs the log, which is one for all tables: 0.4 ms after a hundred documents, 1 to 4 ms after a
        thousand (ext4 on a virtual disk)."""
        with self._lock:
            if self._follower is None:
                self.database.sync()

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
        for rows in _sorted_rows(keys):
            with self._store.exclusive():
                self._store.database.put(INDEX, rows, repeat(b""))

    def remove(self, keys: NDArray[np.uint8], before: int) -> None:
        """Removes rows; whoever could put them again later is kept out by `exclusive`."""
        for rows in _sorted_rows(keys):
            with self._store.exclusive():
                self._store.database.delete(INDEX, rows)

    def contains(self, keys: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Which rows exist."""
        values = self._store.database.get(INDEX, to_bytes(keys))
        found = np.fromiter((value is not None for value in values), np.bool_, len(values))
        return found.reshape(keys.shape[:-1])

    def read(self, prefixes: NDArray[np.uint8], limit: int | None) -> DrawerRows:
        """Reads drawers. In the order asked: sorted, 10,000 seeks among 10 million rows took as long."""
        most = sys.maxsize if limit is None else limit
        rows, offsets, more = self._store.database.keys(INDEX, _WITHIN_DRAWER, to_bytes(prefixes), most)
        return DrawerRows(fingerprints_of(b"".join(rows)), np.array(offsets, _INT64), np.array(more, _BOOL))

    def iterate(self) -> Iterator[NDArray[np.uint8]]:
        """All rows in key order. Between two batches nothing is held open."""
        start = b""
        while rows := self._batch(start):
            yield to_keys(rows)
            start = _behind(rows[-1])

    def _batch(self, start: bytes) -> list[bytes]:
        rows, _, _ = self._store.database.keys(INDEX, _IN_ORDER, [start], BATCH_ROWS)
        return rows

    def approximate_size(self) -> Size:
        """RocksDB's estimates."""
        return self._store.database.approximate_size(INDEX)


class RocksRecords:
    """See simhbase.stores.base.Records."""

    def __init__(self, store: RocksStore, table: RecordTable) -> None:
        self._store = store
        self._table = table

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of keys."""
        return self._store.database.get(self._table, keys)

    def put(self, rows: Sequence[tuple[bytes, bytes]]) -> None:
        """Writes rows."""
        with self._store.exclusive():
            self._store.database.put(self._table, map(itemgetter(0), rows), map(itemgetter(1), rows))

    def delete(self, keys: Sequence[bytes]) -> None:
        """Deletes keys."""
        with self._store.exclusive():
            self._store.database.delete(self._table, keys)

    def scan(self, prefixes: Sequence[bytes], limit: int) -> list[list[tuple[bytes, bytes]]]:
        """The rows of prefixes."""
        return self._store.database.rows(self._table, zip(prefixes, prefixes, strict=True), limit)

    def iterate(self, start: bytes = b"") -> Iterator[list[tuple[bytes, bytes]]]:
        """Rows in key order. Between two batches nothing is held open."""
        while rows := self._batch(start):
            yield rows
            start = _behind(rows[-1][0])

    def _batch(self, start: bytes) -> list[tuple[bytes, bytes]]:
        (rows,) = self._store.database.rows(self._table, [(start, b"")], BATCH_ROWS)
        return rows

    def compare_and_set(self, key: bytes, expected: bytes | None, value: bytes) -> bool:
        """Sets `value` if the key holds `expected`."""
        with self._store.exclusive():
            if self.get([key]) != [expected]:
                return False
            self.put([(key, value)])
            return True

    def increment(self, key: bytes, by: int = 1) -> int:
        """Adds to a counter."""
        with self._store.exclusive():
            count, value = counted_up(self.get([key])[0], by)
            self.put([(key, value)])
            return count

    def approximate_size(self) -> Size:
        """RocksDB's estimates."""
        return self._store.database.approximate_size(self._table)


def _sorted_rows(keys: NDArray[np.uint8]) -> Iterator[list[bytes]]:
    """The rows in order of their first 8 bytes, in lots that bound the memory they take.

    RocksDB's memory table takes sorted rows 1.5 times as fast as others.
    """
    rows = np.ascontiguousarray(keys).reshape(-1, KEY_BYTES)
    first_bytes = np.ascontiguousarray(rows[:, :8]).view(">u8").ravel().astype(np.uint64)
    order = np.argsort(first_bytes)
    for start in range(0, len(order), WRITE_ROWS):
        yield to_bytes(rows[order[start : start + WRITE_ROWS]])


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
        self._writing = _Failures("writing to", url)
        self.rdict = rdict
        self.families = {table: rdict.get_column_family(table) for table in TABLES}
        self.handles = {table: rdict.get_column_family_handle(table) for table in TABLES}

    def get(self, table: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Values, None where a key is absent."""
        with self._reading:
            return cast(list[bytes | None], self.families[table].get([*keys]))

    def keys(
        self, table: str, options: ReadOptions, starts: Iterable[bytes], most: int
    ) -> tuple[list[bytes], list[int], list[bool]]:
        """At most so many keys from each start on, as far as the options let them be seen.

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

    def put(self, table: str, keys: Iterable[bytes], values: Iterable[bytes]) -> None:
        """Writes rows as one batch."""
        with self._writing:
            batch = WriteBatch(raw_mode=True)
            deque(map(batch.put, keys, values, repeat(self.handles[table])), maxlen=0)
            self.rdict.write(batch, _WRITES)

    def delete(self, table: str, keys: Iterable[bytes]) -> None:
        """Deletes keys as one batch."""
        with self._writing:
            batch = WriteBatch(raw_mode=True)
            deque(map(batch.delete, keys, repeat(self.handles[table])), maxlen=0)
            self.rdict.write(batch, _WRITES)

    def sync(self) -> None:
        """Brings the log to the disk."""
        with self._writing:
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
        """Gives the folder and its lock back, at once."""
        self.handles.clear()
        for part in (*self.families.values(), self.rdict):
            try:
                part.close()
            except Exception as error:
                # Closing flushes; where that fails, the rows are in the log, for the next opening.
                if type(error) is not Exception:
                    raise


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
        self._folder = TemporaryDirectory(prefix="simhbase-reader-")  # for the messages of RocksDB
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
            access = AccessType.secondary(self._folder.name)
            database = _Database(self._url, _open_rdict(self._path, _database_options(), access))
            # The logs that a flush deleted before they could be replayed are now files.
            database.catch_up()
        return database

    def level(self, database: _Database) -> _Database:
        """The same reader, or a new one, that has seen all that has been written by now."""
        with _Failures("refreshing", self._url):
            now = _progress(self._path)
            if now == self._seen:
                return database
            if now.manifest == self._seen.manifest:
                database.catch_up()
                if _progress(self._path).manifest == now.manifest:
                    self._seen = now
                    return database
        return self.open()

    def close(self) -> None:
        """Removes the reader's folder."""
        self._folder.cleanup()


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
    families = {INDEX: _index_options(cache)} | {table: _records_options(cache) for table in RECORD_TABLES}
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
