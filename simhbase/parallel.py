"""An ordered map over worker processes, with bounded work in progress and clean termination."""

from __future__ import annotations

import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager, nullcontext
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Lock, Thread
from types import ModuleType
from typing import Any, TypeVar

from simhbase.errors import SimhbaseError, UsageError

Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD = 3  # items per worker: one being processed, one waiting, one done
LOOKED_AT = 1.0  # seconds between checks that workers are alive
AHEAD_SIZE = 4 << 20  # total size of these items per worker: processing one takes many times its size


def map_in_order(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    processes: int,
    size: Callable[[Item], int] = lambda item: 0,
) -> Generator[Result, None, None]:
    """function(item) for each item, in order.

    With processes=1 everything runs in this process. Otherwise function, items and results must be picklable.
    At most AHEAD times `processes` items are in progress, with a total `size` (in bytes) of about AHEAD_SIZE
    times `processes`, so endless inputs need bounded memory.

    Closing the generator, Ctrl-C and the death of this process stop the workers at once, even within an item.
    If other code may fail while iterating, wrap it in `contextlib.closing`.

    Exceptions of the function are re-raised. Raises SimhbaseError if a worker died, UsageError
    for processes < 1.
    """
    if processes < 1:
        raise UsageError(f"must be at least 1, not {processes}", parameter="processes")
    if processes == 1:
        return (function(item) for item in items)
    return _map_in_workers(function, items, processes, size)


def _map_in_workers(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    processes: int,
    size: Callable[[Item], int],
) -> Generator[Result, None, None]:
    # Spawned: RocksDB's threads and locks do not survive a fork.
    context = get_context("spawn")
    leash, held = context.Pipe(duplex=False)
    executor = ProcessPoolExecutor(
        processes,
        mp_context=context,
        initializer=_start_worker,
        initargs=(leash, function),
    )
    try:
        hidden = nullcontext if function.__module__ == "__main__" else _main_module_hidden
        yield from _results(executor, items, processes, size, hidden)
        executor.shutdown()
    except BrokenProcessPool as error:
        raise SimhbaseError(
            f"one of {processes} worker processes died: it crashed, or the system killed it for lack "
            "of memory. Finished work is kept; try again, with fewer processes if memory is short"
        ) from error
    finally:
        held.close()
        # If a worker dies while writing a result, the reading thread would wait forever while this process
        # keeps its write end of the results pipe open.
        if executor._result_queue is not None:
            executor._result_queue._writer.close()  # type: ignore[attr-defined]  # unknown to typeshed
        # A thread that hands a large item to dead workers would wait forever, too. Since Python 3.11.5 the
        # executor closes this pipe itself: closed twice, another file with its number may be closed.
        if sys.version_info < (3, 11, 5) and executor._call_queue is not None:  # type: ignore[attr-defined]
            executor._call_queue._reader.close()  # type: ignore[attr-defined]  # unknown to typeshed
        executor.shutdown(cancel_futures=True)
        leash.close()


def _results(
    executor: ProcessPoolExecutor,
    items: Iterable[Any],
    processes: int,
    size: Callable[[Any], int],
    starting: Callable[[], AbstractContextManager[None]],
) -> Iterator[Any]:
    pending: deque[tuple[Future[Any], int]] = deque()
    for item in items:
        with _signals_blocked(), starting():
            pending.append((executor.submit(_work, item), size(item)))
        while pending and (pending[0][0].done() or _are_enough(pending, processes)):
            yield _result(executor, pending.popleft()[0])
    while pending:
        yield _result(executor, pending.popleft()[0])


def _result(executor: ProcessPoolExecutor, future: Future[Any]) -> Any:
    """The result of a worker. Raises BrokenProcessPool even if a worker died while writing a result: the
    executor would wait forever, as other workers keep the pipe open."""
    while True:
        # Check the processes first: a result finished before a death arrives a moment later.
        died = any(process.exitcode is not None for process in (executor._processes or {}).values())
        try:
            return future.result(timeout=LOOKED_AT)
        except TimeoutError:
            if future.done():  # just now, or the function raised TimeoutError
                return future.result()
            if died:
                raise BrokenProcessPool from None


def _are_enough(pending: Collection[tuple[Future[Any], int]], processes: int) -> bool:
    """True if no further item should be started."""
    return len(pending) >= AHEAD * processes or sum(size for _, size in pending) >= AHEAD_SIZE * processes


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Processes and threads started inside never see SIGINT and SIGTERM: they inherit the mask.

    A terminal sends SIGINT to workers, too, which would print tracebacks, and service managers send SIGTERM
    to all processes of a job. Only this process handles them.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _main_module_hidden() -> Iterator[None]:
    """Processes started inside do not import the program's main module.

    Workers do not need it unless their function is defined there, and a script without `if __name__ ==
    "__main__"` would start again in each. multiprocessing has no option for this.
    """
    with _HIDING:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main


_HIDING = Lock()


class _Worker:
    """State of a worker process."""

    function: Callable[[Any], Any]


def _start_worker(leash: Connection, function: Callable[[Any], Any]) -> None:
    Thread(target=_leave_with_parent, args=(leash,), daemon=True).start()
    _Worker.function = function


def _leave_with_parent(leash: Connection) -> None:
    leash.poll(None)  # nothing is ever sent: returns when the parent closes its end or dies
    os._exit(1)


def _work(item: Any) -> Any:
    return _Worker.function(item)
