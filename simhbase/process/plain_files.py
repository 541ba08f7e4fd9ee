"""Opens and writes files in whose place others may put a pipe or a link."""

from __future__ import annotations

import os
import stat
from errno import EEXIST, EINVAL
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

NOT_PLAIN = "it is a pipe, socket or device"
STANDARD_OUTPUT = Path("-")


def open_plain(path: str | Path, flags: int = 0, *, folder: int | None = None) -> BinaryIO:
    """Open a plain file for reading, or a link to one. flags: further ones of `os.open`; folder: descriptor
    of the one that the path begins at. Raises OSError, also for a pipe, whose writer is not waited for."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | flags, dir_fd=folder)
    try:
        mode = os.fstat(file).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise OSError(EINVAL, NOT_PLAIN)
        return os.fdopen(file, "rb")  # raises IsADirectoryError
    except BaseException:
        os.close(file)
        raise


def refuse_prepared(path: Path) -> None:
    """Raise OSError for what another user has put into a folder of all users, such as /tmp, where this one
    means to write: a link, a pipe, or a folder. The system follows none of those links, either."""
    status, folder = path.lstat(), path.parent.stat()
    is_for_all = folder.st_mode & stat.S_ISVTX and folder.st_mode & stat.S_IWOTH
    if is_for_all and status.st_uid not in (os.geteuid(), folder.st_uid):
        kind = {stat.S_IFLNK: "link", stat.S_IFDIR: "folder", stat.S_IFREG: "file"}
        named = kind.get(stat.S_IFMT(status.st_mode), "pipe or device")
        raise OSError(EEXIST, f"it is a {named} of another user: write to another folder")


def plain_target(path: Path) -> Path | None:
    """The regular file that a path leads to, through links, existing or not; None for a device, pipe or
    standard output. Raises OSError if permission is denied, and for a link or pipe that another user has put
    into a folder of all users."""
    if path == STANDARD_OUTPUT:
        return None
    if path.is_symlink() or path.is_fifo():
        refuse_prepared(path)
    return Path(os.path.realpath(path)) if path.is_file() or not path.exists() else None


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under another name and rename it, so that nobody reads half of it. Devices and pipes, such
    as standard output, are written directly. Raises OSError, also as `plain_target`."""
    target = plain_target(path)
    if target is None:
        path.write_bytes(content)
        return
    part = target.with_name(f"{token_hex(8)}.part")
    try:
        with part.open("xb") as file:
            file.write(content)
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
