"""A map over worker processes that keeps the order, bounds what is under way, and stops cleanly."""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any, TypeVar

from simhbase.errors import SimhbaseError, UsageError

Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD = 3  # items under way for each worker: one in work, one waiting for it, one done
LOOKED_AT = 1.0  # seconds between looks at whether the workers live, while a result is waited for
AHEAD_SIZE = 4 << 20  # and their size: work on a large item takes many times its memory


def map_in_order(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    processes: int,
    initializer: Callable[..., object] | None = None,
    initargs: tuple[Any, ...] = (),
    size: Callable[[Item], int] = lambda item: 0,
) -> Generator[Result, None, None]:
    """function(item) for each item, in the order of the items.

    `initializer(*initargs)` runs once before, in each process. With processes=1 that is this
    process, and there is no pool. Otherwise function, initializer, items and results must be
    picklable; items are taken at most AHEAD times `processes` before their results are, and none while
    those under way have a `size` (in bytes) of AHEAD_SIZE times `processes` together, so that endless
    items need bounded memory.

    Closing the generator ends the workers at once, in the middle of an item; so do Ctrl-C and the
    death of this process. Where more than the loop can fail, hold it in `contextlib.closing`.

    An exception of function or initializer arrives as it is. Raises SimhbaseError where a worker
    died, UsageError for processes < 1.
    """
    if processes < 1:
        raise UsageError(f"must be at least 1, not {processes}", parameter="processes")
    if processes == 1:
        return _map_here(function, items, initializer, initargs)
    return _map_in_workers(function, items, processes, initializer, initargs, size)


def _map_here(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    initializer: Callable[..., object] | None,
    initargs: tuple[Any, ...],
) -> Generator[Result, None, None]:
    if initializer is not None:
        initializer(*initargs)
    for item in items:
        yield function(item)


def _map_in_workers(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    processes: int,
    initializer: Callable[..., object] | None,
    initargs: tuple[Any, ...],
    size: Callable[[Item], int],
) -> Generator[Result, None, None]:
    # Spawned: RocksDB's threads and locks do not survive a fork.
    context = get_context("spawn")
    leash, held = context.Pipe(duplex=False)
    executor = ProcessPoolExecutor(
        processes,
        mp_context=context,
        initializer=_start_worker,
        initargs=(leash, function, initializer, initargs),
    )
    try:
        yield from _results(executor, items, processes, size)
        executor.shutdown()
    except BrokenProcessPool as error:
        raise SimhbaseError(
            f"one of {processes} worker processes died: it crashed, or the system killed it for lack "
            "of memory. What was finished before is kept; try again, with fewer processes if memory is short"
        ) from error
    finally:
        held.close()
        _close_results(executor)
        executor.shutdown(cancel_futures=True)
        leash.close()


def _close_results(executor: ProcessPoolExecutor) -> None:
    """Gives up this process's hold of the pipe that workers write results to.

    A worker may leave in the middle of a result; the thread that reads it would wait for the rest for ever,
    as long as somebody could still write.
    """
    if executor._result_queue is not None:
        executor._result_queue._writer.close()  # type: ignore[attr-defined]  # of which typeshed knows nothing


def _results(
    executor: ProcessPoolExecutor, items: Iterable[Any], processes: int, size: Callable[[Any], int]
) -> Iterator[Any]:
    pending: deque[tuple[Future[Any], int]] = deque()
    for item in items:
        with _signals_put_off():
            pending.append((executor.submit(_work, item), size(item)))
        while pending and (pending[0][0].done() or _are_enough(pending, processes)):
            yield _result(executor, pending.popleft()[0])
    while pending:
        yield _result(executor, pending.popleft()[0])


def _result(executor: ProcessPoolExecutor, future: Future[Any]) -> Any:
    """What a worker made. Raises BrokenProcessPool also where one died in the middle of a result: the
    executor would wait for the rest for ever, as the other workers hold the pipe open."""
    while True:
        # The processes are looked at first: what one finished before it died is there a moment later.
        died = any(process.exitcode is not None for process in (executor._processes or {}).values())
        try:
            return future.result(timeout=LOOKED_AT)
        except TimeoutError:
            if future.done():  # in this moment, or the function's own error
                return future.result()
            if died:
                raise BrokenProcessPool from None


def _are_enough(pending: Collection[tuple[Future[Any], int]], processes: int) -> bool:
    """Whether no item should be added to those under way."""
    return len(pending) >= AHEAD * processes or sum(size for _, size in pending) >= AHEAD_SIZE * processes


@contextmanager
def _signals_put_off() -> Iterator[None]:
    """Processes and threads that start meanwhile never see SIGINT and SIGTERM: they inherit the mask.

    A terminal sends the first to workers too, and each would print a traceback, even before its first
    line of our code runs; who stops a service or a job sends the second to all of its processes. Only this
    process decides what they mean.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Worker:
    """What a worker process holds between items."""

    function: Callable[[Any], Any]
    failure: Exception | None = None


def _start_worker(
    leash: Connection,
    function: Callable[[Any], Any],
    initializer: Callable[..., object] | None,
    initargs: tuple[Any, ...],
) -> None:
    Thread(target=_leave_with_parent, args=(leash,), daemon=True).start()
    _Worker.function = function
    try:
        if initializer is not None:
            initializer(*initargs)
    except Exception as error:  # the executor would print it here and tell the parent nothing
        _Worker.failure = error


def _leave_with_parent(leash: Connection) -> None:
    leash.poll(None)  # nothing is ever sent: it ends when the parent closes its side, or dies
    os._exit(1)


def _work(item: Any) -> Any:
    if _Worker.failure is not None:
        raise _Worker.failure
    return _Worker.function(item)
