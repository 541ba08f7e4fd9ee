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

from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from rocksdict import Rdict

from simhbase.errors import StoreFailed, TablesMissing
from simhbase.stores.base import MET, Access
from simhbase.stores.rocksdb.database import Failures, open_writer
from simhbase.stores.rocksdb.folder import (
    is_store,
    make_folder,
    make_room,
    nothing_there,
    path_of,
    require_store,
    sync_name,
)
from simhbase.stores.rocksdb.follower import Follower
from simhbase.stores.rocksdb.ingestion import remove_files
from simhbase.stores.rocksdb.integrity import growth_of, require_whole
from simhbase.stores.rocksdb.memory import Memory, memory_for
from simhbase.stores.rocksdb.note import remove_note
from simhbase.stores.rocksdb.options import INDEX, database_options, open_rdict
from simhbase.stores.rocksdb.salvage import open_damaged
from simhbase.stores.rocksdb.store import RocksStore

__all__ = [
    "INDEX",
    "RocksStore",
    "copy_store",
    "create_store",
    "drop_store",
    "droppable",
    "is_store",
    "open_damaged",
    "open_store",
]


def open_store(url: str, access: Access) -> RocksStore:
    """Open an existing store. Raises TablesMissing, StoreBusy, StoreFailed."""
    path = path_of(url)
    require_store(url, path)
    memory = memory_for(url, holds_filters=access != "append")
    if access != "read":
        _require_whole(url, path, memory)
        return RocksStore(url, open_writer(url, path, database_options(), memory))
    follower = Follower(url, path)
    try:
        return RocksStore(url, follower.open(database_options(), memory), follower)
    except BaseException:
        follower.close()
        raise


def create_store(url: str, access: Access, *, counts: bool = False) -> RocksStore:
    """Open a store for writing, creating what is missing. counts: also the table `met`. Raises StoreBusy,
    StoreFailed, UsageError if the path is used for something else."""
    with suppress(TablesMissing):
        store = open_store(url, access)
        return _counting(store) if counts else store
    path = path_of(url)
    make_folder(url, path)
    options = database_options()
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    memory = memory_for(url, holds_filters=access != "append")
    store = RocksStore(url, open_writer(url, path, options, memory))
    return _counting(store) if counts else store


def _counting(store: RocksStore) -> RocksStore:
    """The store with a table for counts."""
    try:
        store.database.add_table(MET)
    except BaseException:
        store.close()
        raise
    return store


def _require_whole(url: str, path: Path, memory: Memory) -> None:
    """Raises StoreFailed if files of a store are lost or damaged: opened for writing, it would delete those
    that a cut manifest does not name."""
    before = growth_of(path)
    try:
        with Failures("opening", url):
            require_whole(url, path, partial(open_rdict, path, memory=memory))
    except StoreFailed:
        if not growth_of(path).has_other_files(before):  # else another process writes, and has the lock
            raise


def drop_store(url: str) -> None:
    """Delete a store with all its data, or the remains of an interrupted creation. Raises TablesMissing,
    StoreBusy, StoreFailed."""
    droppable(url)
    with Failures("dropping", url):
        Rdict.destroy(str(path_of(url)), database_options())
        remove_files(path_of(url))
        remove_note(path_of(url))
        with suppress(OSError):  # RocksDB has removed it, or it holds a user's files
            path_of(url).rmdir()


def copy_store(url: str, folder: str) -> None:
    """Copy the store to a new folder. Raises TablesMissing, StoreBusy, StoreFailed, UsageError if the folder
    exists."""
    path, copied = path_of(url), path_of(f"rocksdb:{folder}")
    require_store(url, path)
    make_room(path, copied)
    with closing(open_store(url, "write")) as store:
        store.database.copy_to(copied)
    sync_name(copied)


def droppable(url: str) -> list[str]:
    """The name of what `drop_store` would delete. Raises TablesMissing."""
    if not is_store(path_of(url)):
        raise nothing_there(url)
    return [url]
