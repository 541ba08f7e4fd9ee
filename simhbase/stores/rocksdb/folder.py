"""The folder of a store."""

from __future__ import annotations

import os
from pathlib import Path

from rocksdict import Rdict

from simhbase.errors import TablesMissing, UsageError
from simhbase.stores import location
from simhbase.stores.rocksdb.database import Failures
from simhbase.stores.rocksdb.options import CONFIGURATION, TABLES, database_options


def path_of(url: str) -> Path:
    """The folder that a URL names. Raises UsageError where it names none."""
    path, _, _ = location(url).partition("?")
    if not path:
        raise UsageError(f"no store {url!r}: name its folder, as in rocksdb:simhbase.db")
    # A shell leaves the tilde behind a scheme as it is; a change of the working folder moves no store.
    return Path(path).expanduser().absolute()


def options_of(url: str) -> str:
    """The options behind the path of a URL."""
    return location(url).partition("?")[2]


def require_store(url: str, path: Path) -> None:
    """Raises TablesMissing where there is no store, or only a part of one."""
    with Failures("opening", url):
        if not (path / "CURRENT").exists():
            raise nothing_there(url)
        missing = sorted(set(TABLES).difference(Rdict.list_cf(str(path), database_options())))
    if missing:
        raise TablesMissing(f"{url} lacks {', '.join(missing)}; tables create completes it")


def nothing_there(url: str) -> TablesMissing:
    """The error where there is no store."""
    return TablesMissing(f"{url}: no store is there; simhbase load or simhbase tables create make one")


def is_store(path: Path) -> bool:
    """Whether a folder holds a store, or what an interrupted creation left of one."""
    # An interrupted creation leaves the second before any other file.
    return any((path / name).exists() for name in ("CURRENT", CONFIGURATION))


def make_folder(url: str, path: Path) -> None:
    """Raises UsageError where a store's files would be scattered among others."""
    with Failures("creating", url):
        if path.exists() and (not path.is_dir() or (any(path.iterdir()) and not is_store(path))):
            raise UsageError(f"{url}: the path holds something else, give the store a folder of its own")
        path.mkdir(parents=True, exist_ok=True)
        sync_name(path)


def make_room(store: Path, folder: Path) -> None:
    """Makes what a folder for a copy of a store lies in. Raises UsageError where something is there."""
    with Failures("copying", f"rocksdb:{store}"):
        if os.path.lexists(folder):
            raise UsageError(
                f"{folder} exists already: name a folder that does not (simhbase tables drop deletes a store)"
            )
        if folder.resolve().is_relative_to(store.resolve()):
            raise UsageError(f"{folder} lies in the folder of the store: name one outside")
        folder.parent.mkdir(parents=True, exist_ok=True)


def sync_name(path: Path) -> None:
    """Brings a folder's own name to the disk: RocksDB syncs what is in it."""
    above = os.open(path.absolute().parent, os.O_RDONLY)
    try:
        os.fsync(above)
    finally:
        os.close(above)
