"""Several processes of the service on one port: started, replaced where they die, and stopped."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.process import BaseProcess
from multiprocessing.resource_tracker import ensure_running

from simhbase.errors import PermanentError
from simhbase.online.metrics import remove_gauges
from simhbase.process.logs import logger

LOOKED_AT = 0.2  # seconds between looks at the processes
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0  # seconds until another process follows one that died
STOPPED = (0, -signal.SIGTERM)  # exit codes: the signal is raised again when requests are answered
_CONTEXT = get_context("spawn")

log = logger(__name__)


def supervise(work: Callable[[], None], number: int, stop_seconds: float, metrics: str) -> None:
    """Keep that many processes at work until SIGTERM or SIGINT, when they get SIGTERM.

    One that dies is replaced after a pause, which grows while its successors die soon, as the store may be
    away. work: can be pickled; stop_seconds: after which processes that do not stop are killed; metrics:
    folder of their metrics. Raises PermanentError if some were killed, or gave up.
    """
    with _asked_to_stop() as signals:
        places = [_Place(work, metrics) for _ in range(number)]
        while not signals:
            for place in places:
                place.fill()
            time.sleep(LOOKED_AT)
        log.info("stopping %d processes", number)
        working = [place for place in places if place.process.is_alive()]
        for place in working:
            place.process.terminate()
        end = time.monotonic() + stop_seconds
        failed = [place for place in working if not place.ends_by(end)]
    if failed:
        raise PermanentError(
            f"{len(failed)} of {number} processes have abandoned calls of the store, or did not stop within "
            f"{stop_seconds:g} s, and were killed"
        )


class _Place:
    """A place where one process works after the other."""

    def __init__(self, work: Callable[[], None], metrics: str) -> None:
        self._work = work
        self._metrics = metrics
        self._pause = FIRST_PAUSE
        self._due: float | None = None
        self._start()

    def _start(self) -> None:
        self._begun, self._due = time.monotonic(), None
        self.process: BaseProcess = _CONTEXT.Process(target=_work, args=(self._work,))
        ensure_running()  # else `start` does it, and unblocks SIGINT
        # Ctrl-C in a terminal is sent to all, also to those that are still importing.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def fill(self) -> None:
        """Start another process where one has died, after a pause."""
        if self.process.is_alive():
            return
        now = time.monotonic()
        if self._due is None:
            log.error("process %s died with exit code %s", self.process.pid, self.process.exitcode)
            remove_gauges(self.process.pid, self._metrics)
            soon = now - self._begun <= LONGEST_PAUSE
            self._pause = min(2 * self._pause, LONGEST_PAUSE) if soon else FIRST_PAUSE
            self._due = now + self._pause
        elif now >= self._due:
            self._start()

    def ends_by(self, end: float) -> bool:
        """Wait for the end of the process, which is killed then. Returns False unless it stopped."""
        self.process.join(max(0.0, end - time.monotonic()))
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        return self.process.exitcode in STOPPED


def _work(work: Callable[[], None]) -> None:
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    work()


def _stop_with_parent() -> None:
    """Stops this process when the one that started it is gone: it would hold the port."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def _asked_to_stop() -> Iterator[list[int]]:
    """Yields a list of the signals that ask to stop, as they arrive."""
    arrived: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: arrived.append(number))
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield arrived
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
