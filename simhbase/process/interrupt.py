"""Delays or ignores Ctrl-C and SIGTERM during operations that should complete."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_came: list[list[int]] = []  # signals received in each active `with` block, innermost last


def interrupt_pending() -> bool:
    """True if a signal is pending: an operation about to wait for others should end."""
    return any(_came)


@contextmanager
def defer_interrupts() -> Iterator[None]:
    """Delays Ctrl-C and SIGTERM until the end of the block.

    Writes survive interruption at any point, but `check` would find problems until the command is repeated,
    and output files would lack stored documents.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread gets signals
        yield
        return
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    _came.append(came)
    before = {number: signal.signal(number, note) for number in _SIGNALS}
    try:
        yield
    finally:
        _came.pop()
        for number, former in before.items():
            if former is not None:  # None: not set by Python
                signal.signal(number, former)
    for first in came[:1]:
        signal.raise_signal(first)


def ignore_interrupts() -> None:
    """Ignores Ctrl-C and SIGTERM until the process ends, whose exit code is decided."""
    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
