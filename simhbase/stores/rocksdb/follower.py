"""Keeps a reader up to date with the writer."""

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
    """Removes a temporary folder, unless this process was forked from its creator."""
    if process == os.getpid():
        shutil.rmtree(folder, ignore_errors=True)


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
            self._folder = mkdtemp(prefix="simhbase-reader-")  # for the messages of RocksDB
        self._end = weakref.finalize(self, _remove_folder, self._folder, os.getpid())
        self._links: Path | None = None
        self._seen = _Progress((), ())

    def open(self, options: Options, memory: Memory) -> Database:
        """Open a reader of everything written so far. options, memory: shared by readers opened one after the
        other, so that their statistics add up."""
        for pause in OPENING_PAUSES:
            try:
                return self._open(options, memory)
            except StoreFailed:  # the writer may delete a file between listing and opening it
                time.sleep(pause)
        return self._open(options, memory)

    def _open(self, options: Options, memory: Memory) -> Database:
        require_store(self._url, self._path)
        with Failures("opening", self._url):
            self._seen = _progress(self._path)
            database = Database(self._url, self._open_rdict(options, memory), self._path, options, memory)
            # A flush deleted logs before they were replayed; their rows are in files now.
            self._catch_up(database)
        return database

    def _open_rdict(self, options: Options, memory: Memory) -> Rdict:
        access = AccessType.secondary(self._folder)
        if self._links is None:
            try:
                return open_rdict(self._path, options, access, memory)
            except OSError:  # rocksdict writes a configuration file even for reading
                self._links = Path(self._folder, "store")
                self._links.mkdir()
        _link_files(self._path, self._links)
        return open_rdict(self._links, options, access, memory)

    def _catch_up(self, database: Database) -> None:
        if self._links is not None:
            _link_files(self._path, self._links)
        database.catch_up()

    def is_behind(self) -> _Progress | None:
        """The writer's progress, None if nothing has been written since the last check."""
        with Failures("refreshing", self._url):
            now = _progress(self._path)
        return None if now == self._seen else now

    def level(self, database: Database, now: _Progress) -> Database:
        """This reader, or a new one, that has seen everything written by `now`."""
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
    """Updates a folder of links to the files of a store that this user cannot write to."""
    for link in links.iterdir():
        if link.is_symlink() and not link.exists():  # a dangling log would hide all later ones
            link.unlink()
    for file in store.iterdir():
        if file.name != CONFIGURATION:
            with suppress(FileExistsError):
                (links / file.name).symlink_to(file)


@dataclass(frozen=True, slots=True)
class _Progress:
    """Names and sizes of the files that grow with a flush (manifest) or any write (log)."""

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
