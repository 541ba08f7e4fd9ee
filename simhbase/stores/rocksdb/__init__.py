"""A store in a folder, on RocksDB: one writing process, any number of reading ones.

The tables are column families; a row of the index is its 13-byte key with an empty value. Values of documents
and fingerprints begin with the version of the cell, 8 bytes.

When a write returns, it is in the write-ahead log, which survives a crash of the process; after `sync` it
also survives a crash of the machine. A reader is one of RocksDB's secondary instances: it replays the
writer's log into its own memory.

RocksDB does not survive a fork: its threads do not exist in the child, whose writes would corrupt the
parent's log. So a store opened before a fork refuses to work in the child.
"""

from __future__ import annotations

import os
import re
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from rocksdict import Rdict

from simhbase.errors import StoreFailed, TablesMissing, UsageError
from simhbase.process.plain_files import refuse_prepared
from simhbase.process.temporary import TemporaryFolder
from simhbase.stores.backend import Backend
from simhbase.stores.base import MET, Access, NoteDamage
from simhbase.stores.rocksdb.database import Failures, open_writer
from simhbase.stores.rocksdb.folder import (
    NOTHING_THERE,
    is_store,
    make_folder,
    make_room,
    refuse_links,
    require_store,
)
from simhbase.stores.rocksdb.follower import Follower
from simhbase.stores.rocksdb.ingestion import remove_files
from simhbase.stores.rocksdb.integrity import growth_of, require_whole
from simhbase.stores.rocksdb.memory import Memory, memory_for
from simhbase.stores.rocksdb.note import remove_note, sync
from simhbase.stores.rocksdb.options import INDEX, database_options, open_rdict
from simhbase.stores.rocksdb.store import RocksStore

__all__ = ["INDEX", "RocksBackend", "RocksStore"]


class RocksBackend(Backend):
    """A store in a folder: the path in the URL."""

    folder: Path

    def __post_init__(self) -> None:
        """Raises UsageError if there is no path, or RocksDB cannot open it."""
        path, _, _ = self.url.removeprefix("rocksdb:").partition("?")
        if not path:
            raise UsageError(f"no store {self.url!r}: give its folder, e.g. rocksdb:simhbase.db")
        if re.match("//[^/]", path):
            name = path.lstrip("/")
            raise UsageError(
                f"no store {self.url!r}: two slashes name a host, and this is a folder: rocksdb:{name} is "
                f"below the current one, rocksdb:/{name} begins at the root"
            )
        # Shells do not expand a tilde after a scheme. Absolute, as the working folder may change.
        self.folder = Path(path).expanduser().absolute()
        try:
            str(self.folder).encode()
        except UnicodeEncodeError as error:
            raise UsageError(
                f"the path of {self.url!r} is not UTF-8, which RocksDB needs: give the store another folder"
            ) from error

    @property
    def absolute_url(self) -> str:
        _, mark, options = self.url.partition("?")
        return f"rocksdb:{self.folder}{mark}{options}"

    def open(self, access: Access) -> RocksStore:
        """Raises StoreFailed if another user has put the folder into one of all users, and could replace what
        is written."""
        if access != "read" and os.path.lexists(self.folder):
            try:
                refuse_prepared(self.folder)
            except OSError as error:
                raise StoreFailed(f"{self.url} is not written to: {error.strerror}") from error
        refuse_links(self.url, self.folder)
        require_store(self.url, self.folder)
        memory = memory_for(self.url, holds_filters=access != "append")
        if access != "read":
            self._require_whole(memory)
            return RocksStore(self.url, open_writer(self.url, self.folder, database_options(), memory))
        follower = Follower(self.url, self.folder)
        try:
            return RocksStore(self.url, follower.open(database_options(), memory), follower)
        except BaseException:
            follower.close()
            raise

    def open_damaged(self, note: NoteDamage) -> RocksStore:
        from simhbase.stores.rocksdb.salvage import open_damaged

        return open_damaged(self.url, self.folder, note)

    def create(self, access: Access = "write", *, counts: bool = False) -> RocksStore:
        """Raises UsageError if the path is used for something else."""
        try:
            store = self.open(access)
        except TablesMissing:
            make_folder(self.url, self.folder)
            options = database_options()
            options.create_if_missing(True)
            options.create_missing_column_families(True)
            memory = memory_for(self.url, holds_filters=access != "append")
            store = RocksStore(self.url, open_writer(self.url, self.folder, options, memory))
        if counts:
            try:
                store.database.add_table(MET)
            except BaseException:
                store.close()
                raise
        return store

    def _require_whole(self, memory: Memory) -> None:
        """Raises StoreFailed if files of a store are lost or damaged: opened for writing, it would delete
        those that a cut manifest does not name."""
        before = growth_of(self.folder)
        try:
            with Failures("opening", self.url):
                require_whole(self.url, self.folder, partial(open_rdict, self.folder, memory=memory))
        except StoreFailed:
            if not growth_of(self.folder).has_other_files(
                before
            ):  # else another process writes, and has the lock
                raise

    def drop(self) -> None:
        self.droppable()
        with Failures("dropping", self.url):
            Rdict.destroy(str(self.folder), database_options())
            remove_files(self.folder)
            remove_note(self.folder)
            with suppress(OSError):  # RocksDB has removed it, or it holds a user's files
                self.folder.rmdir()

    def droppable(self) -> list[str]:
        refuse_links(self.url, self.folder)
        if not is_store(self.folder):
            raise TablesMissing(f"{self.url}: {NOTHING_THERE}")
        return [self.url]

    def copy(self, folder: str) -> None:
        copied = RocksBackend(f"rocksdb:{folder}").folder
        require_store(self.url, self.folder)
        make_room(self.folder, copied)
        with closing(self.open("write")) as store, Failures("copying", self.url):
            # RocksDB empties NAME.tmp beside a copy: a user's folder, or what another user's link leads to.
            private = TemporaryFolder("copy", copied.parent)
            try:
                store.database.copy_to(private.path / copied.name)
                (private.path / copied.name).rename(copied)
            finally:
                private.remove()
        sync(copied.parent)
