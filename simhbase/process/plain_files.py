"""Opens files in whose place others may put something that blocks the reader."""

from __future__ import annotations

import os
import stat
from errno import EINVAL
from pathlib import Path
from typing import BinaryIO

NOT_PLAIN = "it is a pipe, socket or device"


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
