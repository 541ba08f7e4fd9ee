"""An ordered map over worker processes, for what holds the interpreter or may hang: the extraction of
HTML."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Lock, Thread
from types import ModuleType
from typing import Any, TypeVar

from simhbase.errors import SimhbaseError
from simhbase.parallel import require_some, results_in_order

Item = TypeVar("Item")


def map_in_processes(
    function: Callable[[Item], Item],
    items: Iterable[Item],
    processes: int,
    size: Callable[[Item], int] = lambda item: 0,
    chosen: Callable[[Item], bool] = lambda item: True,
) -> Generator[Item, None, None]:
    """function(item) for each item that is chosen, and the others as they are, in order.

    function, items and results must be picklable. At most AHEAD times `processes` items are in progress, with
    a total `size` (in bytes) of about AHEAD_SIZE times `processes`, so endless inputs need bounded memory.

    Closing the generator, Ctrl-C and the death of this process stop the workers at once, even within an item.
    If other code may fail while iterating, wrap it in `contextlib.closing`.

    Exceptions of the function are re-raised. Raises SimhbaseError if a worker died, UsageError
    for processes < 1.
    """
    require_some(processes, "processes")
    return _map_in_processes(function, items, processes, size, chosen)


def _map_in_processes(
    function: Callable[[Item], Item],
    items: Iterable[Item],
    processes: int,
    size: Callable[[Item], int],
    chosen: Callable[[Item], bool],
) -> Generator[Item, None, None]:
    # Spawned: RocksDB's threads and locks do not survive a fork.
    context = get_context("spawn")
    leash, held = context.Pipe(duplex=False)
    executor = ProcessPoolExecutor(
        processes,
        mp_context=context,
        initializer=_start_worker,
        initargs=(leash, function),
    )
    hidden = nullcontext if function.__module__ == "__main__" else _main_module_hidden

    def submit(item: Item) -> Future[Item]:
        if chosen(item):
            with hidden():
                return executor.submit(_work, item)
        unchanged = Future[Item]()
        unchanged.set_result(item)
        return unchanged

    def has_died() -> bool:
        return any(process.exitcode is not None for process in (executor._processes or {}).values())

    try:
        yield from results_in_order(submit, items, processes, size, has_died)
        executor.shutdown()
    except BrokenExecutor as error:
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
