"""Keeps a reader up to date with the writer."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from contextlib import ExitStack, suppress
from functools import partial
from io import SEEK_END, FileIO
from pathlib import Path

from rocksdict import AccessType, Options, Rdict

from simhbase.errors import StoreBusy, StoreFailed
from simhbase.process.temporary import TemporaryFolder
from simhbase.stores.rocksdb.database import LINKS, Database, Failures
from simhbase.stores.rocksdb.folder import refuse_links, require_store
from simhbase.stores.rocksdb.integrity import Growth, growth_of, require_whole
from simhbase.stores.rocksdb.memory import Memory
from simhbase.stores.rocksdb.note import REMEDY
from simhbase.stores.rocksdb.options import CONFIGURATION, open_rdict

PATIENCE = 20.0  # seconds in which the writer leaves the files alone for as long as an opening takes
_PAUSE = 0.01  # seconds
SECOND_NS = 1_000_000_000
SETTLED_NS = 2 * SECOND_NS
TICKS = 0.1  # seconds: several ticks of a clock that gives files times finer than a second
NEVER = -1


class Follower:
    """Keeps a reader up to date with the writer's files.

    RocksDB's own catching up returns old values after the writer has flushed (facebook/rocksdb#14444): what
    the reader replayed from a log before the flush hides the part of the log it never read. Every flush makes
    the manifest longer, so the reader catches up while the manifest is unchanged since it opened, and reopens
    otherwise.
    """

    def __init__(self, url: str, path: Path) -> None:
        self._url = url
        self._path = path
        with Failures("making a folder for temporary files to read", url):
            self._temporary = TemporaryFolder("reader")  # for the messages of RocksDB
        self._links: Path | None = None
        self._refreshing = Failures("refreshing", url)
        self._seen = Growth((), ())
        self._settled = NEVER  # when the folder last changed, if it has no other files since
        self._changed, self._met = NEVER, 0.0  # when it last changed, and when that was met (monotonic)
        self._files: dict[str, FileIO] = {}  # those of `seen`, if it is settled
        self._watched = ExitStack()  # closes them
        closing = ExitStack()
        closing.callback(self._temporary.remove)
        closing.push(self._watched)
        self.close = closing.close

    def open(self, options: Options, memory: Memory) -> Database:
        """Open a reader of everything written so far. options, memory: shared by readers opened one after the
        other, so that their statistics add up.

        The writer may add and remove files meanwhile, which the reader then lacks: it is opened again. Raises
        TablesMissing, StoreBusy, StoreFailed.
        """
        end = time.monotonic() + PATIENCE
        while True:
            before = growth_of(self._path)
            try:
                database = self._open(before, options, memory)
            except StoreFailed:
                if not growth_of(self._path).has_other_files(before):
                    raise
            else:
                if growth_of(self._path).manifest == before.manifest:
                    return database
                database.close()
            if time.monotonic() > end:
                raise StoreBusy(
                    f"the files of {self._url} change faster than they can be opened: repeat this when its "
                    "writer has less to do, or read through the writing process (simhbase serve)"
                )
            time.sleep(_PAUSE)

    def _open(self, seen: Growth, options: Options, memory: Memory) -> Database:
        refuse_links(self._url, self._path)  # again: others may have put some there since the last opening
        require_store(self._url, self._path)
        with Failures("opening", self._url):
            self._seen, self._settled = seen, NEVER
            files = require_whole(self._url, self._path, partial(self._open_rdict, memory))
            rdict = self._open_rdict(memory, options, AccessType.secondary(str(self._temporary.path)))
            database = Database(self._url, rdict, self._path, options, memory)
            # A flush deleted logs before they were replayed; their rows are in files now.
            self._catch_up(database)
            # It leaves out files that were lost, or that the writer deleted, since they were opened above.
            missing = sorted(files.difference(file["name"] for file in rdict.live_files()))
            if missing:
                database.close()
                raise StoreFailed(
                    f"opening {self._url} failed: {', '.join(missing).replace('/', '')} cannot be opened any "
                    f"more. {REMEDY}"
                )
        return database

    def _open_rdict(self, memory: Memory, options: Options, access: AccessType) -> Rdict:
        if self._links is None:
            # rocksdict writes a configuration file even for reading. Another user who owns the folder, or one
            # above it, could make that a link.
            above = {self._path, *self._path.parents, *self._path.resolve().parents}
            with suppress(OSError):
                if all(folder.stat().st_uid in (0, os.geteuid()) for folder in above):
                    return open_rdict(self._path, options, access, memory)
            self._links = self._temporary.path / LINKS
            self._links.mkdir()
        _link_files(self._path, self._links)
        return open_rdict(self._links, options, access, memory)

    def _catch_up(self, database: Database) -> None:
        if self._links is not None:
            _link_files(self._path, self._links)
        database.rdict.try_catch_up_with_primary()

    def new_growth(self) -> Growth | None:
        """The writer's progress, None if nothing has been written since the last check.

        Every lookup calls this: to find the end of an open file takes a fifth of the time of its status.
        """
        with self._refreshing:
            changed = _changed(self._path)
            if changed == self._settled != NEVER and all(
                self._files[name].seek(0, SEEK_END) == size for name, size in self._seen.files
            ):
                return None
            now = growth_of(self._path)
            if now != self._seen:
                self._settled = NEVER  # the files that are watched are not those of `now`
                return now
            if changed != self._changed:
                self._changed, self._met = changed, time.monotonic()
            # The time of a later change differs, unless both are within one tick of the clock. Some file
            # systems have times of whole seconds, or of two.
            is_past = changed % SECOND_NS != 0 and time.monotonic() - self._met > TICKS
            is_past = is_past or time.time_ns() - changed > SETTLED_NS
            self._settled = changed if is_past and self._watch(dict(now.files)) else NEVER
        return None

    def _watch(self, names: Collection[str]) -> bool:
        """Open these files in place of those before, of which others may have the names now. False if one is
        gone."""
        self._watched.close()
        with suppress(FileNotFoundError):
            self._files = {name: self._watched.enter_context(FileIO(self._path / name)) for name in names}
            return True
        return False

    def level(self, database: Database, now: Growth) -> Database:
        """This reader, or a new one, that has seen everything written by `now`."""
        with self._refreshing:
            if now.manifest == self._seen.manifest:
                self._catch_up(database)
                if growth_of(self._path).manifest == now.manifest:
                    self._seen = now
                    return database
        return self.open(database.options, database.memory)


def _changed(folder: Path) -> int:
    """When files were last added to a folder or removed: nanoseconds since 1970; NEVER if it is gone."""
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116  # see growth_of
    except FileNotFoundError:
        return NEVER


def _link_files(store: Path, links: Path) -> None:
    """Updates a folder of links to the files of a store that this user cannot write to."""
    for link in links.iterdir():
        if link.is_symlink() and not link.exists():  # a dangling log would hide all later ones
            link.unlink()
    for file in store.iterdir():
        if file.name != CONFIGURATION:
            with suppress(FileExistsError):
                (links / file.name).symlink_to(file)
