"""Progress on stderr for those who watch: nothing is shown, or imported, where it is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import monotonic

Total = Callable[[], int | None]
Advance = Callable[[int, int], None]
Watched = Callable[[str, Total], AbstractContextManager[Advance]]


@contextmanager
def progress(unit: str, total: Total) -> Iterator[Advance]:
    """Shows how far a command is, how fast it goes and how long it will take.

    unit: what is counted, in the plural; total: how much there is to do, None if nobody knows,
    asked only if it is shown. Yields a function to call with the number counted since the last
    call, and how much of the total has been done by now.
    """
    if not sys.stderr.isatty():
        yield _unseen
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.fields[counted]:,} " + unit),
        TextColumn("{task.fields[rate]:,.0f}/s"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
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
    """The same for commands that print a line a document: on a terminal those are the progress."""
    return nullcontext(_unseen) if sys.stdout.isatty() else progress(unit, total)


def _unseen(counted: int, done: int) -> None:
    """Shows nothing."""
