"""Progress of long operations."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sized
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import monotonic

Total = Callable[[], int | None]
Advance = Callable[[int, int], None]
# Called when work begins, with the unit (plural) and a function that returns the amount of work (None if
# unknown; may be slow). Yields a function to call with the number counted since the last call, and the work
# done so far.
Progress = Callable[[str, Total], AbstractContextManager[Advance]]


_WIDE, _MEDIUM = 100, 60  # columns of a terminal: with a bar, without one, minimal below
_NOTEBOOK_SECONDS = 0.5  # between two lines


def no_progress(unit: str, total: Total) -> AbstractContextManager[Advance]:
    return nullcontext(unseen)


def unseen(counted: int, done: int) -> None: ...


def length(values: object) -> int | None:
    """The number of values, None if they do not know it."""
    return len(values) if isinstance(values, Sized) else None


@contextmanager
def counting(progress: Progress, unit: str, total: Total) -> Iterator[Callable[[int], None]]:
    """Report progress of work whose total has the same unit. Yields a function to call with the number
    counted since the last call."""
    done = 0
    with progress(unit, total) as advance:

        def note(count: int) -> None:
            nonlocal done
            done += count
            advance(count, done)

        yield note


@contextmanager
def show_progress(unit: str, total: Total) -> Iterator[Advance]:
    """Show progress, speed and remaining time on a terminal or in a notebook; elsewhere nothing.

    unit: what is counted, in the plural; total: amount of work, None if unknown, called only if it is shown.
    Yields a function to call with the number counted since the last call, and the work done so far.
    """
    if _is_notebook():
        with _in_notebook(unit, total) as advance:
            yield advance
        return
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


def _is_notebook() -> bool:
    """True in a kernel, not in a process that has only imported one, such as to run notebooks."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


@contextmanager
def _in_notebook(unit: str, total: Total) -> Iterator[Advance]:
    """A line of the cell's output, which is written over: rich would need ipywidgets there."""
    of = total()
    start = written = monotonic()
    sum_counted = 0

    def line(done: int) -> str:
        share = f"{100 * done / of:3.0f} %  " if of else ""
        rate = sum_counted / max(monotonic() - start, 1e-9)
        return f"\r{share}{sum_counted:,} {unit}, {rate:,.0f}/s".ljust(_MEDIUM)

    def advance(counted: int, done: int) -> None:
        nonlocal sum_counted, written
        sum_counted += counted
        if monotonic() - written >= _NOTEBOOK_SECONDS:
            written = monotonic()
            print(line(done), end="", flush=True)

    yield advance
    print(line(of or 0), flush=True)
