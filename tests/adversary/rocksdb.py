"""What happens to a store in a folder, which one process writes and others follow."""

import os
import random
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from rocksdict import AccessType

from simhbase.stores.rocksdb.memory import memory_for
from simhbase.stores.rocksdb.options import database_options, open_rdict
from tests.adversary.damage import copy_beside, damage_a_row, require_errors
from tests.adversary.faults import Faults, Kind
from tests.adversary.syncs import cut_unsynced
from tests.adversary.workers import Work, copy, load, look_up, look_up_newly, write_together

WORK: tuple[Work, ...] = (write_together, load, look_up, look_up, look_up_newly, copy)
BLOCK = 24  # bytes: the first of a data file are of a block of rows
PROPERTIES = 4_096  # bytes at the end of a data file in which its table is named
# RocksDB does not name the log. A reader that follows meets it, too.
LOG = r"(opening|refreshing) \S+ failed: Corruption: checksum mismatch\."
LEAST_LOG = 500  # bytes of a log that has several records


@dataclass
class FolderFaults(Faults):
    store: Path = field(kw_only=True)

    def _groups(self) -> list[list[Kind]]:
        return [
            [
                self.kill_the_writer,
                self.cut_power,
                self.damage_a_row,
                self.damage_a_file,
                self.flip_the_log,
            ]
        ]

    def undo(self) -> None: ...

    def quiet(self) -> AbstractContextManager[None]:
        return self.crew.without(write_together, load)

    def kill_the_writer(self) -> None:
        with self.quiet():
            pass

    def cut_power(self) -> str:
        """Every process ends, and a part of what was not synced is lost."""
        with self.crew.changing:
            stopped = self.crew.stop()
            lost = cut_unsynced(self.store, self.chance)
            for work in stopped:
                self.crew.start(work)
        return "cut power" if lost else "cut power when all was synced"

    def damage_a_row(self) -> str:
        return damage_a_row(self)

    def damage_a_file(self) -> str:
        """Flips, cuts or removes one of the data files, which every opening and full read misses."""
        with self.quiet():
            copied = copy_beside(self)
            files = sorted(read_files(self.store)[0])
            if not files:
                return "no file to damage"
            file = self.store / self.chance.choice(files)
            how = self.chance.choice(["flip", "cut", "remove"])
            operations = ["check"]
            if how != "flip":  # which only those notice that read the block
                operations += ["open", "open to write", "find", "claim", "stored", "migrate"]
            elif is_of_documents(file):
                operations += ["stored", "migrate"]
            named = rf"\b{re.escape(file.name)}\b"
            with self.damaged(named), altered(file, how, self.chance):
                require_errors(self, named, operations, next(iter(self.victims)), copied)
        return f"{how} a data file"

    def flip_the_log(self) -> str:
        """One bit in what the writer had not moved to data files when it was killed."""
        with self.quiet():
            oldest = read_files(self.store)[1]
            logs = (each for each in self.store.glob("*.log") if int(each.stem) >= oldest)
            file = max(logs, key=lambda each: each.stat().st_size, default=None)
            if file is None or file.stat().st_size < LEAST_LOG:
                return "no log to flip"
            copied = copy_beside(self)
            with self.damaged(LOG), altered(file, "flip the log", self.chance):
                operations = ("open", "open to write", "find", "claim", "check", "migrate")
                require_errors(self, LOG, operations, next(iter(self.victims)), copied)
        return "flip the log"


def read_files(store: Path) -> tuple[frozenset[str], int]:
    """Names of the data files that are read, and the number of the oldest log that is. A writer that was
    killed may have left others."""
    memory = memory_for(f"rocksdb:{store}", holds_filters=True)
    with TemporaryDirectory() as no_logs:
        options = database_options()
        options.set_wal_dir(no_logs)
        access = AccessType.read_only(error_if_log_file_exist=False)
        with closing(open_rdict(store, options, access, memory)) as opened:
            oldest = opened.property_int_value("rocksdb.min-log-number-to-keep") or 0
            return frozenset(file["name"].lstrip("/") for file in opened.live_files()), oldest


def is_of_documents(file: Path) -> bool:
    """A property of the file names its table."""
    return b"namedocuments" in file.read_bytes()[-PROPERTIES:]


@contextmanager
def altered(file: Path, how: str, chance: random.Random) -> Iterator[None]:
    """Damages a file for the block; then it is as before, unless the store has deleted it meanwhile."""
    content = file.read_bytes()
    if how == "remove":
        aside = file.parent.with_name(f"aside-{file.name}")
        file.rename(aside)
    elif how == "cut":
        os.truncate(file, chance.randrange(len(content)))
    else:
        at = chance.randrange(min(BLOCK, len(content)) if how == "flip" else len(content) // 2)
        write_at(file, at, bytes([content[at] ^ 1 << chance.randrange(8)]))
    try:
        yield
    finally:
        if how == "remove":
            aside.rename(file)
        elif file.exists():
            write_at(file, 0, content)


def write_at(file: Path, at: int, content: bytes) -> None:
    """In the same file, which others have open."""
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(content)
