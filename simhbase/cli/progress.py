"""Progress on a terminal's stderr. Elsewhere nothing is shown or imported."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from time import monotonic
from typing import TextIO

from simhbase.progress import Advance, Total, no_progress, unseen

_WIDE, _MEDIUM = 100, 60  # columns of a terminal: with a bar, without one, minimal below


@contextmanager
def progress(unit: str, total: Total) -> Iterator[Advance]:
    """Show progress, speed and remaining time.

    unit: what is counted, in the plural; total: amount of work, None if unknown, called only if it is shown.
    Yields a function to call with the number counted since the last call, and the work done so far.
    """
    if not sys.stderr.isatty():
        yield unseen
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True)
    # A line that does not fit wraps, and its first half would stay on the terminal.
    columns = (
        TextColumn("{task.fields[counted]:,} " + unit),
        *([TextColumn("{task.fields[rate]:,.0f}/s")] if console.width >= _MEDIUM else []),
        *([BarColumn()] if console.width >= _WIDE else []),
        *([TimeElapsedColumn()] if console.width >= _MEDIUM else []),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task("", total=total(), counted=0, rate=0.0)
        start = monotonic()
        sum_counted = 0

        def advance(counted: int, done: int) -> None:
            nonlocal sum_counted
            sum_counted += counted
            rate = sum_counted / max(monotonic() - start, 1e-9)
            shown.update(task, completed=done, counted=sum_counted, rate=rate)

        yield advance


def progress_beside_results(unit: str, total: Total) -> AbstractContextManager[Advance]:
    """Progress for commands that print a line per document: shown only if those go to a file. On a terminal,
    or through a pipe that may lead to it (as with `| head`), the lines themselves show progress."""
    return (no_progress if _is_seen(sys.stdout) else progress)(unit, total)


def _is_seen(stream: TextIO) -> bool:
    """True if output may appear on the terminal."""
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # it may be closed
        return False
    return stream.isatty() or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
