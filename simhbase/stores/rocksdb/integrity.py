"""Detects lost and damaged files when a store is opened.

RocksDB does not always do so. A secondary instance leaves out data files that it cannot open, and takes a log
or an end of the manifest that is gone for one that was never written. So every opening starts with
`require_whole`.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rocksdict import AccessType, Options, Rdict

from simhbase.errors import StoreFailed
from simhbase.process.temporary import TemporaryFolder
from simhbase.stores.rocksdb.note import REMEDY, require_as_noted
from simhbase.stores.rocksdb.options import database_options

_DAMAGE = re.compile(r"Corruption|No such file|Is a directory|Not a directory|Input/output error")
# The first record of a log: checksum, length and type; then the sequence number of its first write.
_RECORD = struct.Struct("<IHBQ")
_WHOLE, _FIRST = 1, 2  # types of records that begin with a sequence number


@dataclass(frozen=True, slots=True)
class Growth:
    """Names and sizes of the files that grow with a flush (manifest) or any write (log)."""

    manifest: tuple[tuple[str, int], ...]
    logs: tuple[tuple[str, int], ...]

    def has_other_files(self, earlier: Growth) -> bool:
        """True if the writer has added or removed files since."""
        return self.manifest != earlier.manifest or dict(self.logs).keys() != dict(earlier.logs).keys()

    @property
    def files(self) -> tuple[tuple[str, int], ...]:
        return self.manifest + self.logs


def growth_of(path: Path) -> Growth:
    """The growth of the files in a folder, which may be gone."""
    manifest, logs = list[tuple[str, int]](), list[tuple[str, int]]()
    # A lookup of a reader calls this: no methods of Path, which take longer than the system.
    try:
        names = os.listdir(path)  # noqa: PTH208  # as said above
    except (FileNotFoundError, NotADirectoryError):
        names = []
    for name in sorted(names):
        files = manifest if name.startswith("MANIFEST-") else logs if name.endswith(".log") else None
        if files is not None:
            try:
                size = os.stat(f"{path}/{name}").st_size  # noqa: PTH116  # as said above
            except FileNotFoundError:  # the writer deletes files at any time
                continue
            files.append((name, size))
    return Growth(tuple(manifest), tuple(logs))


def is_damage(message: str) -> bool:
    """True if an error of RocksDB says that a file is lost or damaged."""
    return bool(_DAMAGE.search(message))


def holds_rows(path: Path) -> bool:
    """True for a folder with files that hold rows, which an interrupted creation does not leave."""
    return any(path.glob("*.sst")) or any(size for _, size in growth_of(path).logs)


def require_whole(url: str, path: Path, open_rdict: Callable[[Options, AccessType], Rdict]) -> frozenset[str]:
    """Compare the files with the note of the last writer, open all data files once, read-only, and see that
    the log continues where they end. Returns the names of the data files.

    Takes 0.15 s for 1,000 files. Raises StoreFailed, and the exceptions of rocksdict.
    """
    require_as_noted(url, path)
    no_logs = TemporaryFolder("reader")
    try:
        options = database_options()
        options.set_wal_dir(str(no_logs.path))  # the opening after this one replays the logs
        opened = open_rdict(options, AccessType.read_only(error_if_log_file_exist=False))
        try:
            written = opened.latest_sequence_number()
            oldest = opened.property_int_value("rocksdb.min-log-number-to-keep") or 0
            files = frozenset(file["name"] for file in opened.live_files())
        finally:
            opened.close()
    finally:
        no_logs.remove()
    logs = {int(log.stem): log for log in path.glob("*.log") if log.stem.isdecimal()}  # else it is not ours
    if max(logs, default=-1) < oldest:
        raise StoreFailed(
            f"opening {url} failed: its log {oldest:06}.log, or a later one, is missing. {REMEDY}"
        )
    begins = 0  # the first write in a log
    for _, log in sorted(logs.items()):
        with suppress(FileNotFoundError, struct.error), log.open("rb") as file:
            _, _, kind, begins = _RECORD.unpack(file.read(_RECORD.size))
            if kind in (_WHOLE, _FIRST) and begins:
                break
            begins = 0
    if begins > written + 1:
        raise StoreFailed(
            f"opening {url} failed: the writes from {written + 1:,} to {begins - 1:,} are in none of its "
            f"files. Its MANIFEST was cut short, or a log before {logs[min(logs)].name} is missing. {REMEDY}"
        )
    return files
