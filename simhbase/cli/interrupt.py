"""Ctrl-C at a moment that leaves nothing half done."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupt_put_off() -> Iterator[None]:
    """Lets what runs inside finish, and raises KeyboardInterrupt after it if Ctrl-C came meanwhile.

    Every write survives being cut anywhere. But then `check` has something to mend until the
    command is repeated, and output files lack what the store has.
    """
    came = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt
