"""Compaction of a store.

Rows are in several levels of files, and a lookup may have to read each. RocksDB's automatic merging is not
enough after a large load.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from threading import Event

from rocksdict import BottommostLevelCompaction, CompactOptions, Rdict

from simhbase.errors import StoreFailed
from simhbase.process.progress import Progress
from simhbase.stores.rocksdb.database import Database
from simhbase.stores.rocksdb.options import L0_FILES, MERGED_FILES

MERGED_FROM = 0.15  # share of a table's bytes above its last level from which all of it is merged
_KEPT_FREE = 64 << 20  # bytes of disk space
_LOOKED_AT = 0.05  # seconds
_LEVEL = re.compile(r"^ *\d+ +\d+ +(\d+) *$", re.MULTILINE)  # number, files, MB


def compact(database: Database, progress: Progress, whole: bool) -> None:
    """Merge the files of each table into one level, or only its newest files if little is new. whole: merge
    everything in any case. Raises StoreFailed if it fails, or there is not enough
    disk space."""
    tables = [table for table in database.families.values() if whole or _is_scattered(table)]
    needed = max(map(_bytes, tables), default=0) + _KEPT_FREE
    free = shutil.disk_usage(database.folder).free
    if free < needed and whole:
        raise StoreFailed(
            f"compacting {database.url} needs {needed >> 20} MiB of disk space until it is done, and "
            f"{free >> 20} MiB are free: free some space first"
        )
    if tables and free >= needed:
        _merge(database, tables, whole, progress)
    _merge_newest(database)
    if database.has_background_errors:
        database.failed = StoreFailed(
            f"compacting {database.url} failed, and its LOG says why: on a full disk make room, then run "
            "simhbase compact. Nothing is lost"
        )
        raise database.failed


def _is_scattered(table: Rdict) -> bool:
    """True if much of a table is above its last level."""
    megabytes = list(map(int, _LEVEL.findall(table.property_value("rocksdb.levelstats") or "")))
    filled = [level for level, size in enumerate(megabytes) if size]
    above = sum(megabytes[: filled[-1]] if filled[1:] else megabytes[:1])
    return above > MERGED_FROM * sum(megabytes)


def _bytes(table: Rdict) -> int:
    return table.property_int_value("rocksdb.live-sst-files-size") or 0


def _merge(database: Database, tables: Sequence[Rdict], whole: bool, progress: Progress) -> None:
    """Merges all files of tables. RocksDB does this in one blocking call per table, so it runs in a
    thread."""
    options = CompactOptions()
    if whole:  # rewrite files of the last level, too
        options.set_bottommost_level_compaction(BottommostLevelCompaction.force_optimized())
    total = sum(map(_bytes, tables))
    before = set(_files(database.folder))
    stopped = Event()

    def merge() -> None:
        for table in tables:
            if not stopped.is_set():
                table.compact_range(None, None, options)

    with ThreadPoolExecutor(1) as thread, progress("bytes", lambda: total) as advance:
        merging = thread.submit(merge)
        try:
            done = 0
            while not wait([merging], _LOOKED_AT).done:
                written = min(total, sum(_files(database.folder, before).values()))
                advance(max(written - done, 0), written)
                done = max(done, written)
        except BaseException as error:
            # RocksDB drops the new files and refuses writes until it is reopened.
            stopped.set()
            database.rdict.cancel_all_background(True)
            database.failed = StoreFailed(f"compacting {database.url} was interrupted: {error!r}")
            raise
        merging.result()


def _files(folder: Path, without: set[Path] | frozenset[Path] = frozenset()) -> dict[Path, int]:
    """Sizes of the data files."""
    sizes = {}
    for file in folder.glob("*.sst"):
        if file not in without:
            with suppress(FileNotFoundError):
                sizes[file] = file.stat().st_size
    return sizes


def _merge_newest(database: Database) -> None:
    """Returns when no table has files that may hold any key (level 0)."""
    tables = database.families.values()
    with database.writing():
        for table in tables:
            table.set_options({MERGED_FILES: "1"})
        try:
            while any(map(_is_merging, tables)) and not database.has_background_errors:
                time.sleep(_LOOKED_AT)
        finally:
            for table in tables:
                table.set_options({MERGED_FILES: str(L0_FILES)})


def _is_merging(table: Rdict) -> bool:
    """True if files of a table are being merged or are due. After an error RocksDB merges nothing."""
    return any(
        table.property_int_value(f"rocksdb.{name}")
        for name in ("compaction-pending", "num-running-compactions")
    )
