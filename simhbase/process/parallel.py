"""An ordered map over threads, with bounded work in progress and clean termination."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from concurrent.futures.thread import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from simhbase.errors import UsageError

Item = TypeVar("Item")
Result = TypeVar("Result")

# Per worker, of items that are being processed, wait or are done: enough work for the time of a large write.
AHEAD = 16
AHEAD_SIZE = 8 << 20  # their total size: processing one takes several times its size
LOOKED_AT = 1.0  # seconds between checks that no signal has come


def map_in_threads(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    threads: int,
    size: Callable[[Item], int] = lambda item: 0,
) -> Generator[Result, None, None]:
    """function(item) for each item, in order. For functions that release the interpreter, as the core does.

    With threads=1 everything runs in this thread. Otherwise items are taken in this thread while others work
    on those before. At most AHEAD times `threads` items are in progress, with a total `size` (in bytes) of
    about AHEAD_SIZE times `threads`, so endless inputs need bounded memory.

    Closing the generator and Ctrl-C wait for the item that each thread has begun; no thread outlives them. If
    other code may fail while iterating, wrap it in `contextlib.closing`.

    Exceptions of the function are re-raised. Raises UsageError for threads < 1, when it is iterated.
    """
    require_some(threads, "threads")
    if threads == 1:
        yield from map(function, items)
        return
    executor = ThreadPoolExecutor(threads, "simhbase")
    try:
        submit: Callable[[Item], Future[Result]] = partial(executor.submit, function)  # type: ignore[call-arg]  # mypy wants the item, too
        yield from results_in_order(submit, items, threads, size)
    finally:
        executor.shutdown(cancel_futures=True)


def require_some(workers: int, parameter: str) -> None:
    """Raise UsageError for less than one."""
    if workers < 1:
        raise UsageError(f"must be at least 1, not {workers}", parameter=parameter)


def results_in_order(
    submit: Callable[[Item], Future[Result]],
    items: Iterable[Item],
    workers: int,
    size: Callable[[Item], int],
) -> Iterator[Result]:
    """The results of items that `submit` hands to workers."""
    pending: deque[tuple[Future[Result], int]] = deque()
    for item in items:
        with signals_blocked():
            pending.append((submit(item), size(item)))
        while pending and (
            pending[0][0].done()
            or len(pending) >= AHEAD * workers
            or sum(size for _, size in pending) >= AHEAD_SIZE * workers
        ):
            yield _result(pending.popleft()[0])
    while pending:
        yield _result(pending.popleft()[0])


def _result(future: Future[Result]) -> Result:
    """The result of a worker."""
    while True:
        try:
            return future.result(timeout=LOOKED_AT)
        except TimeoutError:
            if future.done():  # just now, or the function raised TimeoutError
                return future.result()


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Processes and threads started inside never see SIGINT and SIGTERM: they inherit the mask.

    A terminal sends SIGINT to worker processes, too, which would print tracebacks, and service managers send
    SIGTERM to all processes of a job. Only the main thread of this process handles them.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
