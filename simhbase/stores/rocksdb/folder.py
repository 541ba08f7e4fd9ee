"""The folder of a store."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from rocksdict import Rdict

from simhbase.errors import StoreFailed, TablesMissing, UsageError
from simhbase.process.plain_files import refuse_prepared
from simhbase.stores.rocksdb.database import Failures
from simhbase.stores.rocksdb.ingestion import FOLDER as INGESTED
from simhbase.stores.rocksdb.integrity import holds_rows
from simhbase.stores.rocksdb.note import NOTE, NOTE_LOCK, REMEDY, sync
from simhbase.stores.rocksdb.options import CONFIGURATION, TABLES, database_options

NOTHING_THERE = "no store there; create one with simhbase load or simhbase tables create"


def refuse_links(url: str, folder: Path) -> None:
    """Raises StoreFailed for a link, pipe or device in the folder of a store, which may come from a stranger:
    RocksDB and rocksdict write to what links lead to, also for reading, and wait for pipes."""
    with (
        Failures("opening", url),
        suppress(FileNotFoundError, NotADirectoryError),  # told by others
        os.scandir(folder) as entries,
    ):
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            is_plain = is_folder or entry.is_file(follow_symlinks=False)
            # A file that its writer has deleted since may be none of these, where folders keep no types.
            if not is_plain and os.path.lexists(entry.path):
                raise StoreFailed(
                    f"opening {url} failed: {entry.name} in its folder is a link, pipe or device: a "
                    "store has plain files, so put the file itself there, or remove it"
                )
            if is_folder and entry.name == INGESTED:
                refuse_links(url, folder / INGESTED)


def require_store(url: str, path: Path) -> None:
    """Raises TablesMissing if there is no store, or an incomplete one; StoreFailed if one was damaged."""
    with Failures("opening", url):
        is_there = (path / "CURRENT").is_file()  # a pipe would be waited for
        tables = Rdict.list_cf(str(path), database_options()) if is_there else []
        missing = sorted(set(TABLES).difference(tables))
        if missing and path.is_dir() and holds_rows(path):  # creating the store would build over them
            raise StoreFailed(
                f"{url} is damaged: its folder holds files with rows, but its file CURRENT (one line: the "
                f"name of the newest MANIFEST file) or its MANIFEST file is missing or incomplete. {REMEDY}"
            )
    if not is_there:
        raise TablesMissing(f"{url}: {NOTHING_THERE}")
    if missing:
        raise TablesMissing(f"{url} lacks {', '.join(missing)}; tables create completes it")


def is_store(path: Path) -> bool:
    """True for the folder of a store, or of an interrupted creation."""
    # The last three are the first files that a creation writes.
    return any((path / name).exists() for name in ("CURRENT", CONFIGURATION, NOTE, NOTE_LOCK))


def make_folder(url: str, path: Path) -> None:
    """Create the folder. Raises UsageError if it contains something else."""
    with Failures("creating", url):
        if path.exists() and (not path.is_dir() or (any(path.iterdir()) and not is_store(path))):
            raise UsageError(f"{url}: the path contains something else, give the store its own folder")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            refuse_prepared(path)  # another user may have been faster
        # RocksDB syncs only what is in the folder.
        sync(path.parent)


def make_room(store: Path, folder: Path) -> None:
    """Create the parent of a folder for a copy. Raises UsageError if the folder exists."""
    with Failures("copying", f"rocksdb:{store}"):
        if os.path.lexists(folder):
            raise UsageError(
                f"{folder} exists already: give a new folder (simhbase tables drop deletes a store)"
            )
        if folder.resolve().is_relative_to(store.resolve()):
            raise UsageError(f"{folder} is inside the folder of the store: give one outside")
        folder.parent.mkdir(parents=True, exist_ok=True)
