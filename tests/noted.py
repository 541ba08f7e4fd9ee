"""Kills a process with kill -9 between the lines of what writes a store's note.

    python -m tests.noted FOLDER STEP

opens, changes and closes a copy of the store in FOLDER once for each line (each STEP-th). After each kill the
store opens with everything that was acknowledged, and its copies do so or are refused. This process only
forks, as RocksDB does not survive a fork.
"""

import os
import shutil
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import simhbase
from simhbase.errors import StoreFailed
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.stores.base import Access
from simhbase.stores.rocksdb import note
from tests.integration.test_rocksdb_damage import IDS, VALUES

ACCESS: tuple[Access, ...] = ("read", "write")


def kill_at(number: int) -> None:
    """Kills this process before it runs a line of the note's module, counted from 1."""
    lines = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines
        if frame.f_code.co_filename != note.__file__:
            return None
        lines += event == "line"
        if lines == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)


def change(store: Path, number: int, acknowledged: Path) -> None:
    kill_at(number)
    with simhbase.open(f"rocksdb:{store}") as index:
        index.add_batch(["new"], FingerprintBatch.bare(VALUES[:1]))
        acknowledged.touch()


def in_child(work: Callable[..., None], *arguments: object) -> int:
    """Runs something in a forked process; returns how it ended."""
    if child := os.fork():
        return os.waitpid(child, 0)[1]
    try:
        work(*arguments)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        os._exit(1)
    os._exit(0)


def require_whole(store: Path, acknowledged: bool, may_be_refused: bool) -> None:
    for access in ACCESS:
        try:
            with simhbase.open(f"rocksdb:{store}", access=access) as index:
                assert all(index.documents(IDS)), "documents of before are lost"
                assert not acknowledged or all(index.documents(["new"])), "an acknowledged one is lost"
        except StoreFailed as error:
            if not may_be_refused or "its folder is a copy" not in str(error):
                raise


def main(folder: Path, step: int) -> int:
    """Returns the number of lines."""
    for number in count(1, step):
        store, copy, acknowledged = (folder.with_name(name) for name in ("work", "copied", "acknowledged"))
        for path in (store, copy):
            shutil.rmtree(path, ignore_errors=True)
        acknowledged.unlink(missing_ok=True)
        # Where a writer was killed before, the note lies in this folder: a copy would have another place.
        folder.rename(store)
        shutil.copytree(store, folder)
        ended = in_child(change, store, number, acknowledged)
        shutil.copytree(store, copy)
        for path, is_copy in ((store, False), (copy, True)):
            failed = in_child(require_whole, path, acknowledged.exists(), is_copy)
            assert not failed, f"killed before line {number}, {path.name}"
        if ended == 0:
            assert acknowledged.exists()
            return number
        assert ended == signal.SIGKILL
    raise AssertionError("endless")


if __name__ == "__main__":
    print(main(Path(sys.argv[1]), int(sys.argv[2])))
