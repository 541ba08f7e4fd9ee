"""Copies of whole stores as they are: before a drop, a migration, or a change that may go wrong."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from simhbase.errors import StoreBusy, UsageError
from simhbase.index.index import open_index
from simhbase.stores import copy_store, hbase, is_in_hbase, location

_EMBEDDED = "rocksdb:"


@dataclass(frozen=True)
class Snapshot:
    """A copy of a store.

    name: its folder, or how the names of its snapshots in HBase begin; script: what the hbase shell has to
    run for that, None where it is done.
    """

    store: str
    name: str
    script: str | None = None


def snapshot(url: str, name: str | Path) -> Snapshot:
    """Makes a copy of a store as it is now.

    name: of an embedded store a folder that does not exist yet. It is then a store itself, rocksdb:NAME; its
    files are hard links to the same content, so that it takes room as the store changes. It is made as a
    writer would. Of a store in HBase how the names of the tables' snapshots begin, which only the hbase shell
    takes: `script` is for that, also beside writers.

    Raises TablesMissing, StoreBusy, UsageError for a name that is taken or none, StoreFailed.
    """
    name = _named(name)
    if is_in_hbase(url):
        return Snapshot(url, name, hbase.snapshot_script(url, name))
    _copy(url, _folder(name))
    return Snapshot(url, name)


def restore(url: str, name: str | Path) -> Snapshot:
    """Makes a store of a snapshot, which stays as it is; see `snapshot`.

    url: of a store that does not exist. In HBase only the hbase shell makes tables of snapshots: `script` is
    for that. Raises TablesMissing where there is no such snapshot, StoreBusy where somebody writes to it,
    UsageError where a store is there already, StoreFailed.
    """
    name = _named(name)
    if is_in_hbase(url):
        return Snapshot(url, name, hbase.clone_script(url, name))
    if not url.startswith(_EMBEDDED):
        raise UsageError(f"{url} is no place for a copy of a store: take {_EMBEDDED}PATH, or one in HBase")
    _copy(f"{_EMBEDDED}{_folder(name)}", location(url))
    return Snapshot(url, name)


def _named(name: object) -> str:
    """The name of a copy. Raises UsageError for what is none."""
    if not name or not isinstance(name, str | Path):
        raise UsageError(
            f"{name!r} names no copy of a store: give a folder, or for HBase a name of snapshots"
        )
    return str(name)


def _folder(name: str) -> str:
    """The folder that a copy of an embedded store is in. Raises UsageError for a store of another kind."""
    folder = name.removeprefix(_EMBEDDED)
    if "://" in folder or folder.startswith(("hbase:", "memory:")):
        raise UsageError(f"{name} is no folder: a copy of an embedded store is PATH or {_EMBEDDED}PATH")
    return folder


def _copy(url: str, folder: str) -> None:
    """Makes a folder that is the same embedded store."""
    open_index(url, access="read").close()  # which says what is wrong with half a store
    try:
        copy_store(url, folder)
    except StoreBusy as busy:
        raise StoreBusy(
            f"{url} is open for writing, and a copy takes it as a writer does: wait until that process ends"
        ) from busy
