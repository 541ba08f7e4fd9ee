"""An open RocksDB, and conversion of its errors."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import struct
import time
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from types import TracebackType
from typing import cast

import numpy as np
from numpy.typing import NDArray
from rocksdict import AccessType, Checkpoint, DbClosedError, Options, Rdict, ReadOptions, WriteBatch

from simhbase._core import keys_from, near_in_rocksdb, rows_from
from simhbase.errors import ReadOnly, SimhbaseError, StoreBusy, StoreFailed
from simhbase.model.values import Size
from simhbase.stores.base import MET, PART_ROWS, Cell, DrawerHits, NearLimits, NearRows
from simhbase.stores.rocksdb.ingestion import FOLDER, Ingestion
from simhbase.stores.rocksdb.integrity import is_damage
from simhbase.stores.rocksdb.memory import Memory
from simhbase.stores.rocksdb.note import NOTE_LOCK, REMEDY, exclusive, read_note, write_note
from simhbase.stores.rocksdb.options import (
    CONFIGURATION,
    IN_ORDER,
    INDEX,
    TABLES,
    WITHIN_DRAWER,
    WRITES,
    open_rdict,
    records_options,
)
from simhbase.stores.strings import Strings

_LOOKED_AT = 0.01  # seconds
_FETCHING = 8  # threads: as many reads of the disk at a time
STILL_READING = 10.0  # seconds that another thread may take to finish reading
OPENING_BYTES = 16 << 20  # disk space for a manifest, a log etc., besides the content of the logs
_COUNTED = re.compile(r"^rocksdb\.block\.cache\.(\w+) COUNT : (\d+)", re.MULTILINE)
_READS = {"hits": "hit", "misses": "miss"}
LINKS = "links"  # a reader's folder of links to files of a store that it may not write to
_LINKED = re.compile(rf"(?<!\S)\S*/{LINKS}/")
_NOT_WRITABLE = re.compile(r"Read-only file system|Permission denied")
Put = tuple[str, Iterable[bytes], Iterable[bytes]]  # a table, keys and their values
_NOT_WRITTEN = re.compile(r"While (fsync|fdatasync|sync_file_range|appending)")
VERSION = struct.Struct(">q")  # that values of records begin with, but for those in meta


def cell_of(stored: bytes) -> Cell:
    """The cell of a value that begins with its version."""
    if len(stored) < VERSION.size:  # damaged, which check tells
        return Cell(stored, 0)
    return Cell(stored[VERSION.size :], *VERSION.unpack_from(stored))


@dataclass(slots=True)
class Failures(AbstractContextManager["Failures"]):
    """Converts the bare Exceptions of rocksdict to simhbase errors, which say what was being done."""

    doing: str
    url: str

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and (
            type(error) is Exception or isinstance(error, (DbClosedError, OSError)) or _is_in_use(error)
        ):
            raise self._ours(str(error)) from error

    def _ours(self, message: str) -> SimhbaseError:
        if "lock hold by current process" in message or "While lock file" in message:
            return StoreBusy(
                f"{self.url} is open for writing already, and only one process can write at a time. "
                "Wait until it ends (simhbase load --lock-wait does), or let one process write "
                "for all (simhbase serve). Reading is possible meanwhile"
            )
        if "Not supported operation in secondary mode" in message:
            return ReadOnly(f"{self.url} was opened for reading: open it with access='write' to change it")
        if "(os error" in message:  # rocksdict itself reads and writes this file only, and does not name it
            message = f"{CONFIGURATION}: {message}"
        elif "Mismatch in unique ID" in message:
            message = f"a data file (*.sst) belongs to another store or has another file's name: {message}"
        failed = f"{self.doing} {self.url} failed: {' '.join(_LINKED.sub('', message).split()).rstrip('.')}"
        if self.doing == "opening" and _NOT_WRITABLE.search(message):
            return StoreFailed(
                f"{failed}. Writing to the store needs write permission for its folder; "
                "reading needs read permission for all of its files"
            )
        if "No space left" in message or "quota exceeded" in message:
            failed += ". Free some disk space and repeat this: nothing that was acknowledged is lost"
        elif _NOT_WRITTEN.search(message):
            failed += (
                ". The disk refused to write: end this process and see the log of the system (dmesg). When "
                "the disk is sound, open the store again and run simhbase check"
            )
        elif is_damage(message):
            failed += f". {REMEDY}"
        return StoreFailed(failed)


class Database:
    """An open RocksDB with its column families.

    An iterator keeps the folder open and locked while anything refers to it, so no iterator outlives the call
    it serves, not even in the frames of a traceback.
    """

    def __init__(
        self, url: str, rdict: Rdict, folder: Path, options: Options, memory: Memory, *, writes: bool = False
    ) -> None:
        self.url = url
        self.folder = folder
        self._reading = Failures("reading", url)
        self._writing = Failures("writing to", url)
        self.process = os.getpid()
        # After a failed write RocksDB refuses all further ones until it is reopened.
        self.failed: StoreFailed | None = None
        self.closed = False
        self._writes = writes
        self.options = options
        self.memory = memory
        self._identity = _identity(folder) if writes else ()
        self.rdict = rdict
        self.families = {table: rdict.get_column_family(table) for table in TABLES}
        self.handles = {table: rdict.get_column_family_handle(table) for table in TABLES}
        with suppress(Exception):  # few stores have it
            self.families[MET] = rdict.get_column_family(MET)
            self.handles[MET] = rdict.get_column_family_handle(MET)
        self.ingestion = Ingestion(folder, self.families, (folder / FOLDER).exists())
        _OPEN.add(self)

    def get(self, table: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Values, None if a key is absent."""
        with self._reading:
            return cast(list[bytes | None], self.families[table].get([*keys]))

    def prefetch(self, table: str, keys: Sequence[bytes]) -> None:
        """Read the blocks where keys would be into the cache. Unlike an iterator, `get` lets other threads
        run meanwhile."""
        with self._reading, ThreadPoolExecutor(_FETCHING) as threads:
            parts = [keys[first::_FETCHING] for first in range(_FETCHING)]
            deque(threads.map(self.families[table].get, parts), maxlen=0)

    def keys(
        self, table: str, options: ReadOptions, starts: list[bytes], most: int
    ) -> tuple[list[bytes], list[int], list[bool]]:
        """Up to `most` keys from each start on, within the bounds of the read options, for as many starts as
        give PART_ROWS keys.

        Returns all keys, the offsets of each start's keys (one more than starts), and whether there were
        more.
        """
        with self._reading:
            iterator = self.families[table].iter(options)
            try:
                return keys_from(iterator, starts, most, PART_ROWS)
            finally:
                del iterator  # see the class

    def near(self, value: int, prefixes: list[bytes], limits: NearLimits) -> NearRows:
        """`Store.near`, by this database only."""
        tables = self.families
        listings, documents = partial(tables["fingerprints"].iter, IN_ORDER), tables["documents"].get
        with self._reading:
            drawers = tables[INDEX].iter(WITHIN_DRAWER)
            try:
                found = near_in_rocksdb(drawers, listings, documents, cell_of, value, prefixes, limits)
            finally:
                del drawers  # see the class
        return NearRows(DrawerHits(*found[0]), *found[1:])

    def rows(
        self, table: str, options: ReadOptions, ranges: list[tuple[bytes, bytes]], most: int
    ) -> list[list[tuple[bytes, bytes]]]:
        """For each start and prefix, up to `most` rows from the start on with this prefix."""
        with self._reading:
            iterator = self.families[table].iter(options)
            try:
                return rows_from(iterator, ranges, most)
            finally:
                del iterator  # see the class

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Wraps every write: it is acknowledged only if the store's path still leads to the open files."""
        try:
            with self._writing:
                yield
        except StoreFailed as error:
            self.failed = error
            raise
        self.require_folder()

    def add_table(self, table: str) -> None:
        """Create a table of records, unless it is there."""
        if table not in self.families:
            with self.writing():
                self.families[table] = self.rdict.create_column_family(
                    table, records_options(self.memory.blocks, self.memory.holds_filters)
                )
                self.handles[table] = self.rdict.get_column_family_handle(table)

    def require_folder(self) -> None:
        """Raises StoreFailed if the folder was removed or replaced: RocksDB would keep writing to unlinked
        files."""
        if _identity(self.folder) != self._identity:
            raise StoreFailed(
                f"writing to {self.url} failed: its folder was removed or replaced while it was open, so "
                "further writes would be lost. Restore the folder, or end this process and open the new store"
            )

    @property
    def has_background_errors(self) -> bool:
        # RocksDB counts those of all tables at the one that has no name.
        return bool(self.rdict.property_int_value("rocksdb.background-errors"))

    def require_sound(self) -> None:
        """Raises StoreFailed if the folder is gone; detects a background flush that failed."""
        self.require_folder()
        if not self.closed and self.has_background_errors:
            self.failed = StoreFailed(
                f"writing to {self.url} failed: the file LOG in its folder says why. End this process, see "
                "that the disk is sound and has room, open the store again and run simhbase check"
            )

    def write(self, put: Iterable[Put] = (), delete: Iterable[tuple[str, Iterable[bytes]]] = ()) -> None:
        """Change tables in one step, in the log: delete the keys of each table, then put its keys and
        values."""
        batch = WriteBatch(raw_mode=True)
        for table, keys in delete:
            deque(map(batch.delete, keys, repeat(self.handles[table])), maxlen=0)
        for table, keys, values in put:
            deque(map(batch.put, keys, values, repeat(self.handles[table])), maxlen=0)
        with self.writing():
            self.rdict.write(batch, WRITES)

    def add_files(self, index: NDArray[np.uint8], rows: Mapping[str, tuple[Strings, Strings]]) -> None:
        """Add many rows as files (see Ingestion), durably."""
        self.require_folder()
        with self.writing():
            self.ingestion.add(index, rows)

    def end_ingestion(self) -> None:
        """Take over files left by a writer, before anything is read or written."""
        with self.writing():
            self.ingestion.end()

    def copy_to(self, folder: Path) -> None:
        """Copy what is stored to a new folder, completely or not at all. Data files never change, so they are
        hard-linked on the same file system."""
        with self._writing:
            Checkpoint(self.rdict).create_checkpoint(str(folder))
            write_note(folder, closed=True)

    def sync(self) -> None:
        with self.writing():
            self.rdict.flush_wal(sync=True)

    def approximate_size(self, table: str) -> Size:
        """RocksDB's estimates for files and memory."""
        family = self.families[table]
        properties = ("estimate-num-keys", "live-sst-files-size", "cur-size-all-mem-tables")
        with self._reading:
            rows, *sizes = (family.property_int_value(f"rocksdb.{name}") or 0 for name in properties)
        return Size(rows, sum(sizes))

    def cache_reads(self) -> dict[str, int]:
        """Hits and misses of the block cache since it was opened."""
        counted = dict(_COUNTED.findall(self.options.get_statistics() or ""))
        return {f"cache_{name}": int(counted.get(found, 0)) for name, found in _READS.items()}

    def close(self) -> None:
        """Release the folder and its lock; may be called twice. No effect in a forked child."""
        if self.process != os.getpid():
            return
        self.closed = True
        self.handles.clear()
        is_noted = self._writes and _identity(self.folder) == self._identity
        with ExitStack() as stack:
            is_locked = False
            if is_noted:
                with suppress(OSError):  # the disk may be read-only now
                    is_locked = stack.enter_context(exclusive(self.folder))
            end = time.monotonic() + STILL_READING
            for part in (*self.families.values(), self.rdict):
                while _is_still_read(part) and time.monotonic() < end:
                    time.sleep(_LOOKED_AT)
            if is_locked and self.failed is None and not holds(self.folder / "LOCK"):
                with suppress(OSError):
                    write_note(self.folder, closed=True)


def _is_in_use(error: BaseException) -> bool:
    """True if rocksdict refused a call because another thread is closing or using the database."""
    return type(error) is RuntimeError and "borrowed" in str(error)


def _is_still_read(part: Rdict) -> bool:
    """Closes a part of a database. Returns True if another thread's call prevents that."""
    try:
        part.close()
    except DbClosedError:
        return False
    except Exception as error:
        # Closing flushes. If that fails, the rows are in the log for the next open.
        if type(error) is not Exception and not _is_in_use(error):
            raise
        return _is_in_use(error)
    return False


def holds(file: Path) -> bool:
    """True if this process has a file open: the lock of a store that another thread's iterator keeps open."""
    there = file.stat()
    for handle in Path("/dev/fd").iterdir():
        with suppress(OSError):  # the handle of this listing is closed
            if os.path.samestat(os.fstat(int(handle.name)), there):
                return True
    return False


def _identity(folder: Path) -> tuple[int, ...]:
    """Identifies the folder at a path and its lock file; empty if there is none."""
    try:
        # Both, as the content of a folder may be replaced, and a copy may consist of hard links.
        there = folder.stat(), (folder / "LOCK").stat()
    except OSError:
        return ()
    return tuple(number for each in there for number in (each.st_dev, each.st_ino))


_OPEN: weakref.WeakSet[Database] = weakref.WeakSet()


def _forget_in_child() -> None:
    """Keeps a forked child from closing its parent's databases, which would wait for threads that do not
    exist there."""
    for database in _OPEN:
        for part in (database.rdict, *database.families.values(), *database.handles.values()):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(part))


os.register_at_fork(after_in_child=_forget_in_child)


def reopened(database: Database) -> Database:
    """Reopen a database that refuses to write. The old one stays open for reading if there is no disk space
    to reopen. Raises StoreFailed."""
    database.require_folder()
    url, path = database.url, database.folder
    needed = OPENING_BYTES + sum(file.stat().st_size for file in path.glob("*.log"))
    free = shutil.disk_usage(path).free
    if not database.closed and free < needed:
        raise StoreFailed(
            f"{database.failed}. Reopening needs {needed >> 20} MiB of disk space, {free >> 20} MiB are "
            "free: free some disk space and repeat this"
        ) from database.failed
    database.close()
    end = time.monotonic() + STILL_READING
    while True:
        try:
            return open_writer(url, path, database.options, database.memory)
        except StoreBusy:  # another thread's iterator holds the lock until its call ends
            if time.monotonic() > end:
                raise
            time.sleep(_LOOKED_AT)
            database.close()


def open_writer(url: str, path: Path, options: Options, memory: Memory) -> Database:
    """Open a database for writing. Raises StoreBusy, StoreFailed."""
    with Failures("opening", url):
        with exclusive(path) as is_locked:
            if not is_locked:
                raise StoreBusy(
                    f"{url} is locked: another process has a lock (flock) of {NOTE_LOCK} in its folder, and "
                    "keeps it"
                )
            noted = read_note(path)
            if noted is None or noted[0].place != noted[1]:  # else another writer has it open, or was killed
                write_note(path, closed=False)
            rdict = open_rdict(path, options, AccessType.read_write(), memory)
            with suppress(OSError):  # as in `exclusive`: RocksDB has locked it
                (path / "LOCK").chmod((path / NOTE_LOCK).stat().st_mode & 0o777)
        database = Database(url, rdict, path, options, memory, writes=True)
        try:
            # rocksdict has no setter for this. Drawers are read by prefix; without whole keys the filters
            # are half as large.
            database.families[INDEX].set_options({"block_based_table_factory": "{whole_key_filtering=false}"})
            if database.ingestion.has_left:
                database.end_ingestion()
        except BaseException:
            database.close()
            raise
    return database
