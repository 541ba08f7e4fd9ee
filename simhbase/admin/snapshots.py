"""Snapshots: copies of whole stores, before a drop, a migration or another risky change."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from simhbase.errors import StoreBusy, TablesMissing, UsageError
from simhbase.index.stored_profile import read_profile
from simhbase.stores import backend
from simhbase.stores.backend import Backend

_EMBEDDED = "rocksdb:"


@dataclass(frozen=True)
class Snapshot:
    """A copy of a store.

    name: its folder, or the prefix of its HBase snapshots; script: commands to run in the hbase shell, None
    if the copy is complete.
    """

    store: str
    name: str
    script: str | None = None


def snapshot(url: str, name: str | Path) -> Snapshot:
    """Copy a store as it is now.

    name: for an embedded store, a folder that does not exist yet. The copy is a store itself, rocksdb:NAME;
    its files are hard links, so it takes space only as the store changes. Making it needs the writer's lock.
    For a store in HBase, the prefix of the tables' snapshots; run `script` in the hbase shell to take them.
    Writers may continue there.

    Raises TablesMissing, StoreBusy, UsageError for an invalid or existing name, StoreFailed.
    """
    name = _named(name)
    place = backend(url)
    script = place.snapshot_script(name)
    if script is None:
        _copy(place, _folder(name))
    return Snapshot(url, name, script)


def restore(url: str, name: str | Path) -> Snapshot:
    """Create a store from a snapshot, which stays.

    url: a store that does not exist. For HBase, run `script` in the hbase shell. Raises TablesMissing if
    there is no such snapshot, StoreBusy if another process writes to it, UsageError if the store exists,
    StoreFailed.
    """
    name = _named(name)
    place = backend(url)
    script = place.clone_script(name)
    if script is None and place.folder is None:
        raise UsageError(
            f"{url} cannot be restored from a snapshot: use {_EMBEDDED}PATH or a store in HBase "
            "(PostgreSQL has pg_dump and pg_restore, Redis BGSAVE)"
        )
    if script is None:
        _copy(backend(f"{_EMBEDDED}{_folder(name)}"), url.partition(":")[2])
    return Snapshot(url, name, script)


def _named(name: object) -> str:
    """The name of a copy. Raises UsageError if it is invalid."""
    if not name or not isinstance(name, str | Path):
        raise UsageError(f"{name!r} is not a valid name: give a folder, or for HBase a prefix of snapshots")
    return str(name)


def _folder(name: str) -> str:
    """The folder of an embedded copy. Raises UsageError for another kind of store."""
    folder = name.removeprefix(_EMBEDDED)
    if "://" in folder or folder.startswith(("hbase:", "memory:")):
        raise UsageError(f"{name} is not a folder: a copy of an embedded store is PATH or {_EMBEDDED}PATH")
    return folder


def _copy(place: Backend, folder: str) -> None:
    try:
        with closing(place.open("read")) as store:
            read_profile(store)  # raises for an incomplete store
    except TablesMissing as missing:
        raise TablesMissing(f"nothing to copy: {missing}") from missing
    try:
        place.copy(folder)
    except StoreBusy as busy:
        raise StoreBusy(
            f"{place.url} is open for writing, and a copy needs the writer's lock: wait until that process "
            "ends"
        ) from busy
