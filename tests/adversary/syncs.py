"""Notes how much of a RocksDB's log is synced, and cuts the log as a power cut does.

    python -m tests.adversary.syncs STORE ARGUMENT...

runs the command line in a process that notes beside a store what it has synced.
"""

import json
import os
import random
import sys
from contextlib import suppress
from pathlib import Path
from threading import Lock

from simhbase.cli import main
from simhbase.stores.rocksdb.database import Database


def note_syncs(store: Path) -> None:
    """From now on every sync of a store by this process notes the sizes that the logs had before it."""
    real, lock = Database.sync, Lock()
    unfinished = store.with_suffix(f".{os.getpid()}")

    def sync(self: Database) -> None:
        if self.folder != store:
            return real(self)
        with lock:
            sizes = log_sizes(store)
            real(self)
            unfinished.write_text(json.dumps(sizes))
            unfinished.replace(noted_of(store))
        return None

    # A method is replaced, which mypy never allows.
    Database.sync = sync  # type: ignore[method-assign]


def noted_of(store: Path) -> Path:
    return store.with_suffix(".syncs")


def log_sizes(folder: Path) -> dict[str, int]:
    """By name. The writer deletes files at any time."""
    sizes = {}
    for file in sorted(folder.glob("*.log")):
        with suppress(FileNotFoundError):
            sizes[file.name] = file.stat().st_size
    return sizes


def cut_unsynced(store: Path, chance: random.Random) -> int:
    """Takes from the end of the logs a part of what was not synced; returns how many bytes that was."""
    noted = noted_of(store)
    synced = json.loads(noted.read_text()) if noted.exists() else {}
    sizes = log_sizes(store)
    unsynced = {name: size - synced.get(name, 0) for name, size in sizes.items()}
    lost = left = chance.randint(0, sum(unsynced.values()))
    for name in sorted(sizes, reverse=True):
        gone = min(left, unsynced[name])
        os.truncate(store / name, sizes[name] - gone)
        left -= gone
    return lost


if __name__ == "__main__":
    note_syncs(Path(sys.argv[1]))
    sys.argv[1:2] = []
    main()
