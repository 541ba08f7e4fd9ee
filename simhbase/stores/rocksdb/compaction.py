"""Merges the files of a store.

Rows lie in several levels of files, of which a lookup may have to read each. RocksDB merges them when it
sees fit, which is not enough after a large load.
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
from simhbase.progress import Progress
from simhbase.stores.rocksdb.database import Database
from simhbase.stores.rocksdb.options import L0_FILES

MERGED_FROM = 0.15  # of a table's bytes above its last level, from which on all of it is merged
_KEPT_FREE = 64 << 20  # bytes of the disk
_LOOKED_AT = 0.05  # seconds
_MERGED_FILES = "level0_file_num_compaction_trigger"
_LEVEL = re.compile(r"^ *\d+ +\d+ +(\d+) *$", re.MULTILINE)  # number, files, MB


def compact(database: Database, progress: Progress, whole: bool) -> None:
    """Merges the files of each table into one level; where little is new only its newest files. whole: all of
    each table in any case. Raises StoreFailed where there is no room for that, or it failed."""
    tables = [table for table in database.families.values() if whole or _is_scattered(table)]
    needed = max(map(_bytes, tables), default=0) + _KEPT_FREE
    free = shutil.disk_usage(database.folder).free
    if free < needed and whole:
        raise StoreFailed(
            f"compacting {database.url} takes room for {needed >> 20} MiB until it is done, and "
            f"{free >> 20} are free: make room first"
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
    """Whether much of a table lies above its last level."""
    megabytes = list(map(int, _LEVEL.findall(table.property_value("rocksdb.levelstats") or "")))
    filled = [level for level, size in enumerate(megabytes) if size]
    above = sum(megabytes[: filled[-1]] if filled[1:] else megabytes[:1])
    return above > MERGED_FROM * sum(megabytes)


def _bytes(table: Rdict) -> int:
    return table.property_int_value("rocksdb.live-sst-files-size") or 0


def _merge(database: Database, tables: Sequence[Rdict], whole: bool, progress: Progress) -> None:
    """Merges all files of tables. RocksDB does that in one call for each, so another thread waits for it."""
    options = CompactOptions()
    if whole:  # files of the last level, too, in the form in which they are written now
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
            # Its files are dropped. After that RocksDB writes nothing, until it is opened again.
            stopped.set()
            database.rdict.cancel_all_background(True)
            database.failed = StoreFailed(f"compacting {database.url} was interrupted: {error!r}")
            raise
        merging.result()


def _files(folder: Path, without: set[Path] | frozenset[Path] = frozenset()) -> dict[Path, int]:
    """The files of rows and their sizes."""
    sizes = {}
    for file in folder.glob("*.sst"):
        if file not in without:
            with suppress(FileNotFoundError):
                sizes[file] = file.stat().st_size
    return sizes


def _merge_newest(database: Database) -> None:
    """Returns when no table has files that may hold any key."""
    tables = database.families.values()
    with database.writing():
        for table in tables:
            table.set_options({_MERGED_FILES: "1"})
        try:
            while any(map(_is_merging, tables)) and not database.has_background_errors:
                time.sleep(_LOOKED_AT)
        finally:
            for table in tables:
                table.set_options({_MERGED_FILES: str(L0_FILES)})


def _is_merging(table: Rdict) -> bool:
    """Whether files of a table are being merged, or will be. After an error RocksDB merges none."""
    return any(
        table.property_int_value(f"rocksdb.{name}")
        for name in ("compaction-pending", "num-running-compactions")
    )
