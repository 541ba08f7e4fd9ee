"""Ctrl-C and SIGTERM at a moment that leaves nothing half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_came: list[list[int]] = []  # the signals that came in each `with` block that runs, the innermost last


def interrupt_waits() -> bool:
    """Whether Ctrl-C or SIGTERM came and is put off: what is about to wait for others had better end."""
    return any(_came)


@contextmanager
def interrupt_put_off() -> Iterator[None]:
    """Lets what runs inside finish; what Ctrl-C or SIGTERM do, if they came meanwhile, they do after it.

    Every write survives being cut anywhere. But then `check` has something to mend until the
    command is repeated, and output files lack what the store has.
    """
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield
        return
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    _came.append(came)
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        _came.pop()
        for number, handler in before.items():
            if handler is not None:  # None: it was not Python that has set it
                signal.signal(number, handler)
    for first in came[:1]:
        signal.raise_signal(first)
