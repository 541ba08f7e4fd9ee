"""Which commands show progress."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import AbstractContextManager
from typing import TextIO

from simhbase.progress import Advance, Total, no_progress, show_progress


def progress_beside_results(unit: str, total: Total) -> AbstractContextManager[Advance]:
    """Progress for commands that print a line per document: shown only if those go to a file. On a terminal,
    or through a pipe that may lead to it (as with `| head`), the lines themselves show progress."""
    return (no_progress if _is_seen(sys.stdout) else show_progress)(unit, total)


def _is_seen(stream: TextIO) -> bool:
    """True if output may appear on the terminal."""
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # it may be closed
        return False
    return stream.isatty() or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
