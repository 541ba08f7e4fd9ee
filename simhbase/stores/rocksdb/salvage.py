"""Reads what is left of a store whose files are lost or damaged, and changes nothing in its folder.

RocksDB works in temporary folders: data files are linked there, and the files that it may write are copied.
"""

from __future__ import annotations

import fcntl
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import cast

from rocksdict import AccessType, DBRecoveryMode, Options, Rdict, RdictIter, ReadOptions

from simhbase.errors import StoreBusy, StoreFailed, TablesMissing
from simhbase.model.values import Size
from simhbase.process.temporary import TemporaryFolder
from simhbase.stores.base import ATOMIC_TABLES, MET, NoteDamage, RecordTable
from simhbase.stores.keys import after_key
from simhbase.stores.rocksdb.database import Database, Failures, holds
from simhbase.stores.rocksdb.folder import NOTHING_THERE, refuse_links, require_store
from simhbase.stores.rocksdb.integrity import holds_rows, require_whole
from simhbase.stores.rocksdb.memory import Memory, memory_for
from simhbase.stores.rocksdb.note import NOTE, REMEDY, is_closed, require_as_noted
from simhbase.stores.rocksdb.options import SCANNING, database_options, open_rdict
from simhbase.stores.rocksdb.store import RocksStore

_PROBED = 64  # bytes of a key: what distinguishes most of them
_OPEN_FILES = 256  # at a time: a file that cannot be opened is noticed when it is read
_LEFT_OUT = ("LOCK", "LOG", "LOG.old", "OPTIONS-", "IDENTITY", "rocksdict-config.json", NOTE)

_LATER = 1_000_000  # numbers of files: more than an empty database has
_TEMPORARY = re.compile(r"(?<!\S)\S*/simhbase-salvage-[^/]*/(\w+/)*")
_Range = tuple[bytes, bytes | None]  # of keys: from one on until before another, None: the end

# RocksDB takes the end of a log that is gone for one that was never written.
_LEFT_OPEN = (
    "the last writer did not close the store: what it wrote is there as far as its log goes, and what the "
    "end of that log held may be missing"
)
_Rows = list[tuple[bytes, bytes]]


def open_damaged(url: str, path: Path, note: NoteDamage) -> RocksStore:
    """Open what can be read of a store. Raises TablesMissing if there are no files, StoreBusy if a process
    writes to it."""
    refuse_links(url, path)
    with Failures("opening", url):
        if not path.is_dir() or not holds_rows(path):
            raise TablesMissing(f"{url}: {NOTHING_THERE}")
        _require_no_writer(url, path)
    return RocksStore(url, cast(Database, Remains(url, path, note)))


def _require_no_writer(url: str, path: Path) -> None:
    lock = path / "LOCK"
    if not lock.exists():
        return
    held = holds(lock)  # opening and closing the file would release the lock of this process
    if not held:
        with lock.open("rb") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                held = True
    if held:
        raise StoreBusy(f"{url} is open for writing: stop its writer before you copy what can be read of it")


class Remains:
    """What can be read of a database: takes the place of `Database` in a store that is only read.

    Its rows come from up to two views. The first has the files that the manifest names. Keys that cannot be
    read there are looked for in the second: what RocksDB's repair makes of all files that are whole, without
    the manifest.
    """

    closed = False

    def __init__(self, url: str, path: Path, note: NoteDamage) -> None:
        self._path = path
        self._note = note
        self._noted: set[str] = set()
        self._memory = memory_for(url, holds_filters=False)
        self._temporary = TemporaryFolder("salvage")
        self._is_doubted = False  # the manifest
        self._views: list[_View] = []
        try:
            self._views.append(self._view_by_manifest(url))
        except BaseException:
            self.close()
            raise

    def _view_by_manifest(self, url: str) -> _View:
        """The first view. Notes what is wrong with the files that lead to the data files. These are only
        opened when they are read: those of the index, which is made again, are not."""
        folder = self._linked("named")
        with self._doubting(url):
            require_as_noted(url, self._path)
        with suppress(StoreFailed):  # told by what follows from it
            if not is_closed(self._path):
                self._tell(None, _LEFT_OPEN)
        with self._doubting(url):
            require_store(url, folder)
        _name_newest_manifest(folder)
        with self._doubting(url):
            require_whole(url, folder, partial(self._open_leniently, folder))
        self._check_logs()
        return _View(folder, self._memory, self._tell)

    def _open_leniently(self, folder: Path, options: Options, access: AccessType) -> Rdict:
        return open_rdict(folder, _leniently(options), access, self._memory)

    def _check_logs(self) -> None:
        """Notes damaged logs. They are replayed into an empty database, which no other damage disturbs."""
        folder, options = Path(self._temporary.path, "logs"), database_options()
        options.create_if_missing(True)
        Rdict(str(folder), options).close()
        for log in folder.glob("*.log"):
            log.unlink()
        for log in self._path.glob("*.log"):
            with suppress(OSError, ValueError):  # noted already; not a number, so not a log of ours
                shutil.copyfile(log, folder / f"{int(log.stem) + _LATER:06}.log")
        try:
            Rdict(str(folder), database_options(), access_type=_reading()).close()
        except Exception as error:
            self._tell(None, f"writes behind a damaged place of a log (*.log) are lost: {error}")

    @contextmanager
    def _doubting(self, url: str) -> Iterator[None]:
        """Notes an error of opening, which leaves the manifest in doubt."""
        try:
            with Failures("opening", url):
                yield
        except (StoreFailed, TablesMissing) as error:
            self._is_doubted = True
            self._tell(None, str(error).removesuffix(f" {REMEDY}").removeprefix(f"opening {url} failed: "))

    def _tell(self, table: RecordTable | None, problem: str) -> None:
        """Notes each problem once."""
        plain = " ".join(_TEMPORARY.sub("", problem).split()).rstrip(".")
        if plain not in self._noted:
            self._noted.add(plain)
            self._note(table, plain)

    def _linked(self, name: str) -> Path:
        """A new folder with links to the data files, and copies of those that RocksDB may write."""
        folder = Path(self._temporary.path, name)
        folder.mkdir()
        for file in self._path.iterdir():
            if file.suffix == ".sst":
                (folder / file.name).symlink_to(file)
            elif file.is_file() and not file.name.startswith(_LEFT_OUT):
                try:
                    shutil.copyfile(file, folder / file.name)
                except OSError as error:  # what was read until then is there
                    self._is_doubted = True
                    self._tell(None, f"{file.name} can be read only in part: {error.strerror}")
        return folder

    @property
    def _named(self) -> _View:
        return self._views[0]

    @property
    def _repaired(self) -> _View:
        """The second view, made when it is first needed."""
        if len(self._views) == 1:
            folder = self._linked("repaired")
            try:
                Rdict.repair(str(folder), database_options())
            except Exception as error:
                self._tell(None, f"RocksDB cannot repair a copy: {error}")
            left_out = [file.name for file in sorted((folder / "lost").glob("*.sst"))]
            for name in left_out if not self._named.is_open else []:
                self._tell(None, f"{name} is damaged: without a MANIFEST all its rows are lost")
            self._views.append(_View(folder, self._memory, lambda table, problem: None, not left_out))
        return self._views[1]

    @property
    def _is_manifest_needed(self) -> bool:
        """True unless it is doubtful, and all files are whole: an old one would bring back what was deleted
        since."""
        return not (self._is_doubted and self._repaired.is_whole)

    def get(self, table: RecordTable, keys: Sequence[bytes]) -> list[bytes | None]:
        """Values, None if a key is absent or cannot be read."""
        found: dict[bytes, bytes] = {}
        left = keys
        if self._is_manifest_needed:
            found, unread = self._named.get(table, keys)
            left = [key for key in keys if key not in found] if self._is_doubted else unread
        if left:
            found |= self._repaired.get(table, left)[0]
        return [found.get(key) for key in keys]

    def rows(
        self, table: RecordTable, options: ReadOptions, ranges: Sequence[tuple[bytes, bytes]], most: int
    ) -> list[_Rows]:
        """As `Database.rows`, without what cannot be read."""
        return [self._rows(table, start, prefix, most) for start, prefix in ranges]

    def _rows(self, table: RecordTable, start: bytes, prefix: bytes, most: int) -> _Rows:
        if not self._is_manifest_needed:
            return self._repaired.rows(table, start, None, prefix, most)[0]
        rows, skipped = self._named.rows(table, start, None, prefix, most)
        found, ends = dict(rows), [rows[-1][0]] if len(rows) == most else []
        for low, high in [(start, None)] if self._is_doubted else skipped:
            others, _ = self._repaired.rows(table, low, high, prefix, most)
            found |= others
            if len(others) == most:  # there may be more in this range
                ends.append(others[-1][0])
                break
        upto = min(ends, default=None)
        return sorted(((key, found[key]) for key in found if upto is None or key <= upto), key=itemgetter(0))

    def approximate_size(self, table: RecordTable) -> Size:
        return (self._named if self._is_manifest_needed else self._repaired).size(table)

    def close(self) -> None:
        for view in self._views:
            view.close()
        self._temporary.remove()


class _View:
    """The tables that can be opened in a folder of files, each by itself.

    note: called with each error and the table that it is in; is_whole: no file was left out.
    """

    def __init__(
        self,
        folder: Path,
        memory: Memory,
        note: Callable[[RecordTable, str], None],
        is_whole: bool = False,
    ) -> None:
        self.is_whole = is_whole
        self._note = note
        self._opened: dict[RecordTable, Rdict] = {}
        there = list[str]()
        with suppress(Exception):  # what is wrong is told below
            there = Rdict.list_cf(str(folder), Options(raw_mode=True))
        for table in (*ATOMIC_TABLES, MET) if MET in there else ATOMIC_TABLES:
            options = _leniently(database_options())
            try:
                self._opened[table] = open_rdict(folder, options, _reading(), memory, [table])
            except Exception as error:
                if type(error) is not Exception:
                    raise
                note(table, str(error))
        self._tables = {table: rdict.get_column_family(table) for table, rdict in self._opened.items()}

    @property
    def is_open(self) -> bool:
        """False if the manifest could not be read."""
        return bool(self._tables)

    def get(self, table: RecordTable, keys: Sequence[bytes]) -> tuple[dict[bytes, bytes], list[bytes]]:
        """The values of keys that have some, and keys that cannot be read."""
        family = self._tables.get(table)
        if family is None:
            return {}, [*keys]
        with suppress(Exception):  # then one after the other
            values = cast(list[bytes | None], family.get([*keys]))
            return {key: value for key, value in zip(keys, values, strict=True) if value is not None}, []
        found, unread = dict[bytes, bytes](), list[bytes]()
        for key in keys:
            try:
                if (value := family.get(key)) is not None:
                    found[key] = value
            except Exception as error:
                self._note(table, str(error))
                unread.append(key)
        return found, unread

    def rows(
        self, table: RecordTable, start: bytes, stop: bytes | None, prefix: bytes, most: int
    ) -> tuple[_Rows, list[_Range]]:
        """Up to `most` rows from a key on until before another, with this prefix; and ranges of keys among
        them that cannot be read."""
        if table not in self._tables:
            return [], [(start, stop)]
        found: _Rows = []
        skipped: list[_Range] = []
        at = start
        while True:
            iterator = self._tables[table].iter(SCANNING)
            try:
                iterator.seek(at)
                while len(found) < most and (key := iterator.key()) is not None:
                    if not key.startswith(prefix) or (stop is not None and key >= stop):
                        break
                    found.append((key, iterator.value()))
                    at = after_key(key)
                    iterator.next()
                iterator.status()
                return found, skipped
            except Exception as error:
                self._note(table, str(error))
                behind = _readable_behind(iterator, at)
                skipped.append((at, behind))
                if behind is None:
                    return found, skipped
                at = behind
            finally:
                del iterator

    def size(self, table: RecordTable) -> Size:
        family = self._tables.get(table)
        rows = family.property_int_value("rocksdb.estimate-num-keys") if family else 0
        return Size(rows or 0, 0)

    def close(self) -> None:
        for part in (*self._tables.values(), *self._opened.values()):
            with suppress(Exception):
                part.close()


def _reading() -> AccessType:
    return AccessType.read_only(error_if_log_file_exist=False)


def _leniently(options: Options) -> Options:
    """Options by which a database opens without what cannot be read."""
    options.set_paranoid_checks(False)
    options.set_max_open_files(_OPEN_FILES)
    options.set_wal_recovery_mode(DBRecoveryMode.skip_any_corrupted_record())
    return options


def _readable_behind(iterator: RdictIter, key: bytes) -> bytes | None:
    """The place behind a key from which on rows can be read again, None if there is none.

    Keys are taken for numbers: the distance is doubled until a row can be read, then the place is found by
    halving. A few hundred reads, as the damaged block is read again and again from the system's cache.
    """
    end = 1 << (8 * _PROBED)
    failing, step = int.from_bytes(key[:_PROBED].ljust(_PROBED, b"\0")), 1
    while not _is_readable(iterator, failing + step):
        failing, step = failing + step, 2 * step
        if failing + step >= end:
            return None
    readable = failing + step
    while readable - failing > 1:
        middle = (failing + readable) // 2
        if _is_readable(iterator, middle):
            readable = middle
        else:
            failing = middle
    return readable.to_bytes(_PROBED)


def _is_readable(iterator: RdictIter, number: int) -> bool:
    try:
        iterator.seek(number.to_bytes(_PROBED))
        iterator.status()
    except Exception:
        return False
    return True


def _name_newest_manifest(folder: Path) -> None:
    """Replaces a CURRENT that is lost or names no file."""
    current = folder / "CURRENT"
    with suppress(OSError, ValueError):
        if (folder / current.read_text("ascii").strip()).is_file():
            return
    if manifests := sorted(folder.glob("MANIFEST-*")):
        current.write_text(f"{manifests[-1].name}\n", "ascii")
