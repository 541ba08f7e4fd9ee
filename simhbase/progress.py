"""Who is told how far long work is, while it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

Total = Callable[[], int | None]
Advance = Callable[[int, int], None]
# Work begins. Is given what is counted, in the plural, and what says how much there is to do (None if nobody
# knows; it takes time to ask). Yields what to call with the number counted since the last call, and how much
# of the total has been done by now.
Progress = Callable[[str, Total], AbstractContextManager[Advance]]


def no_progress(unit: str, total: Total) -> AbstractContextManager[Advance]:
    return nullcontext(unseen)


def unseen(counted: int, done: int) -> None: ...


@contextmanager
def counting(progress: Progress, unit: str, total: Total) -> Iterator[Callable[[int], None]]:
    """Tells `progress` of work where what is counted is the total, too. Yields a function to call with the
    number counted since the last call."""
    done = 0
    with progress(unit, total) as advance:

        def note(count: int) -> None:
            nonlocal done
            done += count
            advance(count, done)

        yield note
