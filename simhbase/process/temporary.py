"""Folders, mostly among temporary files, that end with their process."""

from __future__ import annotations

import os
import shutil
import weakref
from contextlib import suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from secrets import token_hex
from tempfile import gettempdir

_RANDOM_BYTES = 16  # of a name: users give their folders other ones, such as simhbase-copy-monday
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW  # opening a pipe of that name would wait


class TemporaryFolder:
    """A new folder of this user alone, locked while it is used.

    It is removed by `remove`, at the latest with this object; that of a process that was killed by the next
    process of this user that makes a folder of the same kind. top: where, None for the system's temporary
    folder. Raises OSError.
    """

    def __init__(self, kind: str, top: Path | None = None) -> None:
        top, prefix = top or Path(gettempdir()), f"simhbase-{kind}-"
        for folder in top.glob(prefix + "[0-9a-f]" * (2 * _RANDOM_BYTES)):
            with suppress(OSError):  # it is in use, no folder, of another user, or gone
                lock = os.open(folder, _FOLDER)
                try:
                    if os.fstat(lock).st_uid == os.geteuid():
                        flock(lock, LOCK_EX | LOCK_NB)
                        shutil.rmtree(folder, ignore_errors=True)
                finally:
                    os.close(lock)
        while True:
            self.path = top / f"{prefix}{token_hex(_RANDOM_BYTES)}"
            locks: list[int] = []
            # Before the folder is made: after an interrupt between the two it would stay.
            self.remove = weakref.finalize(self, _remove, self.path, locks, os.getpid())
            self.path.mkdir(mode=0o700)
            try:
                locks.append(os.open(self.path, _FOLDER))
            except FileNotFoundError:  # another process has found it, and removed it
                continue
            with suppress(OSError):  # a file system without locks: then nobody removes it
                flock(locks[0], LOCK_EX)
            if self.path.exists():  # as above, before it was locked
                return
            self.remove()


def _remove(folder: Path, locks: list[int], process: int) -> None:
    """Removes a folder of this process, not of the one that it was forked from."""
    if process == os.getpid():
        shutil.rmtree(folder, ignore_errors=True)
        for lock in locks:
            os.close(lock)
