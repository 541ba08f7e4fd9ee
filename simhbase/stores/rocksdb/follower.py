"""A reader's view of what a writer writes."""

from __future__ import annotations

import os
import shutil
import time
import weakref
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from rocksdict import AccessType, Options, Rdict

from simhbase.errors import StoreFailed
from simhbase.stores.rocksdb.database import Database, Failures
from simhbase.stores.rocksdb.folder import require_store
from simhbase.stores.rocksdb.memory import Memory
from simhbase.stores.rocksdb.options import CONFIGURATION, open_rdict

OPENING_PAUSES = (0.01, 0.02, 0.05, 0.1, 0.2)  # seconds


def _remove_folder(folder: str, process: int) -> None:
    """Removes a folder of this process, not of the one that it was forked from."""
    if process == os.getpid():
        shutil.rmtree(folder, ignore_errors=True)


class Follower:
    """Keeps a reader level with the writer's files.

    RocksDB's own catching up serves old values after the writer has flushed (facebook/rocksdb#14444):
    what the reader replayed from a log before the flush hides what it never read of that log. Every
    flush makes the manifest longer, so the reader catches up while the manifest is as it was when it
    opened, and opens anew when it is not.
    """

    def __init__(self, url: str, path: Path) -> None:
        self._url = url
        self._path = path
        with Failures("making a folder for temporary files to read", url):
            self._folder = mkdtemp(prefix="simhbase-reader-")  # for the messages of RocksDB
        self._end = weakref.finalize(self, _remove_folder, self._folder, os.getpid())
        self._links: Path | None = None
        self._seen = _Progress((), ())

    def open(self, options: Options, memory: Memory) -> Database:
        """A reader of all that has been written by now. options: count, as memory does, all that is read by
        readers that are opened one after the other."""
        for pause in OPENING_PAUSES:
            try:
                return self._open(options, memory)
            except StoreFailed:  # the writer may have deleted a file between its listing and its opening
                time.sleep(pause)
        return self._open(options, memory)

    def _open(self, options: Options, memory: Memory) -> Database:
        require_store(self._url, self._path)
        with Failures("opening", self._url):
            self._seen = _progress(self._path)
            database = Database(self._url, self._open_rdict(options, memory), self._path, options, memory)
            # The logs that a flush deleted before they could be replayed are now files.
            self._catch_up(database)
        return database

    def _open_rdict(self, options: Options, memory: Memory) -> Rdict:
        access = AccessType.secondary(self._folder)
        if self._links is None:
            try:
                return open_rdict(self._path, options, access, memory)
            except OSError:  # rocksdict writes its configuration beside the files, also to read them
                self._links = Path(self._folder, "store")
                self._links.mkdir()
        _link_files(self._path, self._links)
        return open_rdict(self._links, options, access, memory)

    def _catch_up(self, database: Database) -> None:
        if self._links is not None:
            _link_files(self._path, self._links)
        database.catch_up()

    def is_behind(self) -> _Progress | None:
        """How far the writer is, None where nothing has been written since the last look."""
        with Failures("refreshing", self._url):
            now = _progress(self._path)
        return None if now == self._seen else now

    def level(self, database: Database, now: _Progress) -> Database:
        """The same reader, or a new one, that has seen all that has been written by `now`."""
        with Failures("refreshing", self._url):
            if now.manifest == self._seen.manifest:
                self._catch_up(database)
                if _progress(self._path).manifest == now.manifest:
                    self._seen = now
                    return database
        return self.open(database.options, database.memory)

    def close(self) -> None:
        self._end()


def _link_files(store: Path, links: Path) -> None:
    """Brings a folder of links level with the files of a store that this user cannot write to."""
    for link in links.iterdir():
        if link.is_symlink() and not link.exists():  # a log that is gone would hide all later ones
            link.unlink()
    for file in store.iterdir():
        if file.name != CONFIGURATION:
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
