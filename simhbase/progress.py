"""Progress of long operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

Total = Callable[[], int | None]
Advance = Callable[[int, int], None]
# Called when work begins, with the unit (plural) and a function that returns the amount of work (None if
# unknown; may be slow). Yields a function to call with the number counted since the last call, and the work
# done so far.
Progress = Callable[[str, Total], AbstractContextManager[Advance]]


def no_progress(unit: str, total: Total) -> AbstractContextManager[Advance]:
    return nullcontext(unseen)


def unseen(counted: int, done: int) -> None: ...


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
