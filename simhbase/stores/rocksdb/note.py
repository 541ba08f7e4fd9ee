"""A file in a store's folder that says how its last writer left it.

RocksDB takes an end of its manifest or log that is gone for one that was never written, and cannot tell a
folder from a copy that was made while a process wrote it. So a writer notes, when it opens a store, in which
folder it does so; and after it has closed it, what its files contain.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from simhbase.errors import StoreFailed

NOTE = "simhbase-note.json"
NOTE_LOCK = f"{NOTE}.lock"
_UNFINISHED = f"{NOTE}.unfinished"
_MOST_BYTES = 1 << 20  # of a note, which has a line for each of a few files
_BLOCK = 1 << 20
LOCK_SECONDS = 60.0  # longer than a writer takes to open or close a store, while it holds the lock
_LOOKED_AT = 0.01  # seconds
_NOTED = ("CURRENT", "MANIFEST-*", "*.log")  # the manifest leads to all other files
REMEDY = (
    "A file of the store is lost or damaged: change nothing in its folder, and put back that file from a "
    "copy, or restore a snapshot to another folder with 'simhbase tables restore'. Without a copy, 'simhbase "
    "migrate --salvage' copies what can be read"
)
_COPIED = (
    "its folder is a copy, made while a process wrote to the store or after that process was killed, and may "
    "lack documents. Take a snapshot of the original (simhbase tables snapshot) and copy that. If it is "
    f"certain that no process wrote to the store while it was copied, delete the file {NOTE} in the copy "
    "and repeat this"
)


@dataclass(frozen=True, slots=True)
class Note:
    """The note in a folder.

    place: inode numbers of the folder and the note, which a copy does not have, while a writer has the store
    open or if it was killed. (Of both, as the root of a disk has the same one on all disks.)
    files: sizes and CRC-32 by name, after the store was closed.
    """

    place: list[int] | None
    files: dict[str, list[int]] | None


def require_as_noted(url: str, folder: Path) -> None:
    """Raises StoreFailed if the files differ from those that the last writer left, or lie in a copy of the
    folder that it left open."""
    found = read_note(folder)
    if found is None:
        return
    note, place = found
    if note.files is None:
        if note.place != place:
            raise StoreFailed(f"opening {url} failed: {_COPIED}")
        return
    there = _contents(folder, closing=False)
    different = sorted(name for name in note.files | there if note.files.get(name) != there.get(name))
    if different:
        raise StoreFailed(
            f"opening {url} failed: {', '.join(different)} changed after the store was closed. {REMEDY}"
        )


def is_closed(folder: Path) -> bool:
    """True if the note says that the last writer closed the store. Raises StoreFailed if it is damaged."""
    found = read_note(folder)
    return found is not None and found[0].files is not None


@contextmanager
def exclusive(folder: Path) -> Iterator[bool]:
    """Keeps the note of one writer that closes from replacing that of the next one. Yields False without the
    lock if another process keeps it.

    The lock is for those who may write to the folder: any user who may read a file can hold its lock, for
    ever.
    """
    handle = os.open(folder / NOTE_LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        status = folder.stat()
        writers = status.st_mode & 0o022
        with suppress(OSError):  # it is of another user, or the disk has no modes
            os.fchmod(handle, 0o600 | writers | writers << 1)
            os.fchown(handle, status.st_uid, -1)  # where root has made it
        is_locked, end = False, time.monotonic() + LOCK_SECONDS
        while not is_locked and time.monotonic() < end:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_locked = True
            except BlockingIOError:
                time.sleep(_LOOKED_AT)
        yield is_locked
    finally:
        os.close(handle)


def remove_note(folder: Path) -> None:
    for name in (NOTE, NOTE_LOCK, _UNFINISHED):
        (folder / name).unlink(missing_ok=True)


def read_note(folder: Path) -> tuple[Note, list[int]] | None:
    """The note and the place where it lies, None if there is none. Raises StoreFailed if it is damaged."""
    try:
        with (folder / NOTE).open("rb") as file:
            place = [folder.stat().st_ino, os.fstat(file.fileno()).st_ino]
            content = file.read(_MOST_BYTES)
    except FileNotFoundError:
        return None
    try:
        checksum, _, body = content.partition(b"\n")
        if int(checksum) != zlib.crc32(body):
            raise ValueError("wrong checksum")
        return msgspec.json.decode(body, type=Note), place
    except (ValueError, RecursionError) as error:
        raise StoreFailed(
            f"opening rocksdb:{folder} failed: its file {NOTE} is damaged ({error}), and other files may be. "
            f"{REMEDY}"
        ) from error


def write_note(folder: Path, *, closed: bool) -> None:
    """Note the files of a closed store, or the place of one that is open for writing. Replaces the note, so
    that there is an old or a new one after a crash. Raises OSError."""
    files = _contents(folder, closing=True) if closed else None
    unfinished = folder / _UNFINISHED
    unfinished.unlink(missing_ok=True)  # a hard link of it may lie in a copy
    with unfinished.open("xb") as file:
        place = None if closed else [folder.stat().st_ino, os.fstat(file.fileno()).st_ino]
        note = {"place": place, "files": files}
        body = json.dumps(note).encode()
        file.write(b"%d\n%s" % (zlib.crc32(body), body))
    sync(unfinished)
    unfinished.rename(folder / NOTE)
    sync(folder)


def sync(path: Path) -> None:
    """Return when a file, or the names in a folder, survive a crash of the machine. Raises OSError."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:  # it names no file
        raise OSError(error.errno, f"While fsync: {error.strerror}", str(path)) from error
    finally:
        os.close(handle)


def _contents(folder: Path, *, closing: bool) -> dict[str, list[int]]:
    """Sizes and CRC-32 of the files that are noted: 37 MB at most."""
    contents = {}
    for pattern in _NOTED:
        for path in folder.glob(pattern):
            if closing:  # what is noted must not be lost in a crash of the machine
                sync(path)
            size = checksum = 0
            with path.open("rb") as file:
                while block := file.read(_BLOCK):
                    size, checksum = size + len(block), zlib.crc32(block, checksum)
            contents[path.name] = [size, checksum]
    return contents
