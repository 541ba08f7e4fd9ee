"""An ordered map over worker processes, for what holds the interpreter, and may hang or crash: the extraction
of HTML."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures.thread import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from multiprocessing import current_process, get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_AS, getrlimit, setrlimit
from threading import Lock, Thread, local
from types import ModuleType
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

from simhbase.errors import SimhbaseError
from simhbase.process.parallel import require_some, results_in_order, signals_blocked

Item = TypeVar("Item")

MIB = 1 << 20
SAFE_PATH = "PYTHONSAFEPATH"  # a variable by which Python leaves out the current folder
_OUT_OF_MEMORY = 12  # exit code, as ENOMEM


class Bounds(NamedTuple):
    """What an item may take. seconds, seconds_per_mib: of processor time, and further ones by its size;
    memory: bytes of addresses beside those of a process that has just started, where the system limits them
    (Linux)."""

    seconds: float
    memory: int
    seconds_per_mib: float = 0


def map_in_processes(
    function: Callable[[Sequence[Item]], Sequence[Item]],
    chunks: Iterable[Sequence[Item]],
    processes: int,
    lost: Callable[[Item, str], Item],
    bounds: Bounds,
    size: Callable[[Sequence[Item]], int] = lambda chunk: 0,
    chosen: Callable[[Sequence[Item]], bool] = lambda chunk: True,
) -> Generator[Sequence[Item], None, None]:
    """The results of each chunk that is chosen, and the others as they are, in order. The function takes one
    item at a time, as a list, and returns a list of results.

    An item that exceeds the bounds, or whose process dies, gives lost(item, reason): it alone. A new process
    handles the rest.

    function, items and results must be picklable. At most AHEAD times `processes` chunks are in progress,
    with a total `size` (in bytes) of about AHEAD_SIZE times `processes`, so endless inputs need bounded
    memory.

    Closing the generator, Ctrl-C and the death of this process stop the workers at once, even within an item.
    If other code may fail while iterating, wrap it in `contextlib.closing`.

    Exceptions of the function are re-raised. Raises SimhbaseError if a worker cannot start, UsageError for
    processes < 1.
    """
    require_some(processes, "processes")
    return _map_in_processes(_Workers(function, lost, bounds, size), chunks, processes, size, chosen)


def _map_in_processes(
    workers: _Workers[Item],
    chunks: Iterable[Sequence[Item]],
    processes: int,
    size: Callable[[Sequence[Item]], int],
    chosen: Callable[[Sequence[Item]], bool],
) -> Generator[Sequence[Item], None, None]:
    executor = ThreadPoolExecutor(processes, "simhbase")

    def submit(chunk: Sequence[Item]) -> Future[Sequence[Item]]:
        if chosen(chunk):
            return executor.submit(workers.results, chunk)
        unchanged = Future[Sequence[Item]]()
        unchanged.set_result(chunk)
        return unchanged

    try:
        yield from results_in_order(submit, chunks, processes, size)
    finally:
        workers.stop()
        executor.shutdown(cancel_futures=True)
        workers.join()


class Worker(NamedTuple):
    """A process, and this end of its pipe."""

    process: SpawnProcess
    pipe: Connection

    def answers(self, items: Sequence[Any], seconds: Sequence[float]) -> Iterator[Any]:
        """One for each item; fewer if the process dies. seconds: what each item may take."""
        try:
            self.pipe.send([*zip(items, seconds, strict=True)])
            for _ in items:
                yield self.pipe.recv()
        except (EOFError, OSError):
            return

    def is_ready(self) -> bool:
        """Waits until the process has started; False if it died."""
        try:
            return bool(self.pipe.recv())
        except (EOFError, OSError):
            return False

    def join(self) -> None:
        self.process.join()
        self.pipe.close()

    @property
    def is_out_of_time(self) -> bool:
        return self.process.exitcode == -signal.SIGPROF

    def exceeded(self, seconds: float, memory: int) -> str | None:
        """What it took more of than these, of which it died; None if it died otherwise."""
        if self.is_out_of_time:
            return f"{seconds:g} s of processor time"
        return f"{memory >> 20:,} MiB of memory" if self.process.exitcode == _OUT_OF_MEMORY else None

    def how_it_died(self) -> str:
        code = self.process.exitcode or 0
        return f"its process died ({signal.Signals(-code).name if code < 0 else f'exit code {code}'})"


def started(target: Callable[..., None], *arguments: object, hides_main: bool = True) -> Worker:
    """A new process that calls target(its end of the pipe, *arguments), and gets no SIGINT and SIGTERM.

    Spawned: RocksDB's threads and locks do not survive a fork. hides_main: see `_spawning`.
    """
    context = get_context("spawn")
    here, there = context.Pipe()
    with there, _spawning(hides_main=hides_main):
        process = context.Process(
            target=_work, args=(target, there, *arguments), name="simhbase", daemon=True
        )
        with signals_blocked():
            resource_tracker.ensure_running()  # unblocks them, also in a thread that has them blocked
            with signals_blocked():
                process.start()
    return Worker(process, here)


class _Stopped(Exception):
    """Nobody waits for results any more."""


class _Workers(Generic[Item]):
    """Worker processes, one for each thread that asks."""

    def __init__(
        self,
        function: Callable[[Sequence[Item]], Sequence[Item]],
        lost: Callable[[Item, str], Item],
        bounds: Bounds,
        size: Callable[[Sequence[Item]], int],
    ) -> None:
        self._function = function
        self._lost = lost
        self._bounds = bounds
        self._size = size
        self._changes = Lock()
        self._running: list[Worker] = []
        self._stopped = False
        self._own = local()

    def results(self, chunk: Sequence[Item]) -> list[Item]:
        """The results of the items of a chunk, in order."""
        found: list[Item] = []
        rest, seconds = chunk, [self._seconds(item) for item in chunk]
        while rest:
            worker = self._worker()
            done = 0
            for answer in worker.answers(rest, seconds):
                if isinstance(answer, Raised):
                    raise answer.error
                found += answer
                done += 1
            if done < len(rest):
                found.append(self._lost(rest[done], self._death(worker, seconds[done])))
            rest, seconds = rest[done + 1 :], seconds[done + 1 :]
        return found

    def stop(self) -> None:
        """Kill the processes, and start no more."""
        with self._changes:
            self._stopped = True
            for worker in self._running:
                worker.process.kill()

    def join(self) -> None:
        for worker in self._running:
            worker.join()

    def _seconds(self, item: Item) -> float:
        return round(self._bounds.seconds + self._bounds.seconds_per_mib * self._size([item]) / MIB, 1)

    def _worker(self) -> Worker:
        """The process of this thread, started if there is none."""
        worker: Worker | None = getattr(self._own, "worker", None)
        if worker is None:
            worker = self._own.worker = self._started()
            if not worker.is_ready():
                raise SimhbaseError(
                    f"a worker process died when it started ({self._death(worker, 0)}). Finished work is "
                    "kept; try again, with fewer processes (processes) if memory is short"
                )
        return worker

    def _started(self) -> Worker:
        with self._changes:
            if self._stopped:
                raise _Stopped
            hides_main = self._function.__module__ != "__main__"
            worker = started(_serve, self._function, self._bounds.memory, hides_main=hides_main)
            self._running.append(worker)
        return worker

    def _death(self, worker: Worker, seconds: float) -> str:
        """Why the process of this thread died. seconds: what its item could take."""
        wait([worker.process.sentinel])
        with self._changes:  # starting another process waits for this one, too
            if self._stopped:
                raise _Stopped
            worker.join()
            self._running.remove(worker)
        self._own.worker = None
        if taken := worker.exceeded(seconds, self._bounds.memory):
            return f"it took more than {taken}: leave it out, or extract its text by another program"
        return (
            f"{worker.how_it_died()}: the system may lack memory, or the page crashes the parser. Try again "
            "with fewer processes (processes), or leave it out"
        )


@contextmanager
def _spawning(*, hides_main: bool) -> Iterator[None]:
    """Processes started inside import nothing from the current folder, where a stranger's multiprocessing.py
    may lie, and not the program's main module, if that is hidden. Daemonic processes, as those of a
    multiprocessing.Pool, may start them, too: they end with the one that started them.

    Workers do not need it unless their function is defined there, and a script without `if __name__ ==
    "__main__"` would start again in each. multiprocessing has no options for these.
    """
    with _SPAWNING:
        main, before = sys.modules["__main__"], os.environ.get(SAFE_PATH)
        own = current_process()
        is_daemonic, own.daemon = own.daemon, False
        os.environ[SAFE_PATH] = "1"
        if hides_main:
            sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            own.daemon = is_daemonic
            sys.modules["__main__"] = main
            del os.environ[SAFE_PATH]
            if before is not None:
                os.environ[SAFE_PATH] = before


_SPAWNING = Lock()


@dataclass(frozen=True)
class Raised:
    """An exception of the function, in place of its result."""

    error: Exception


def _serve(pipe: Connection, function: Callable[[list[Any]], Any], memory: int) -> None:
    """What a worker process does: read chunks, and send the result of each item as soon as it is there."""
    limit_memory(memory)
    pipe.send(True)  # has started
    while True:
        for item, seconds in pipe.recv():
            with limited_time(seconds):
                try:
                    answer: Any = function([item])
                except MemoryError:
                    end_for_memory()
                except Exception as error:
                    error.add_note(traceback.format_exc())
                    answer = Raised(error)
            pipe.send(answer)


def _work(target: Callable[..., None], pipe: Connection, *arguments: object) -> None:
    """Calls target(pipe, *arguments) in a process that ends with its parent, and by `limited_time`."""
    Thread(target=_leave_with_parent, daemon=True).start()
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    with suppress(EOFError, ConnectionError):  # the parent has just ended
        target(pipe, *arguments)


@contextmanager
def limited_time(seconds: float) -> Iterator[None]:
    """A timer of the system ends this process within a long item, even if the item holds the interpreter. It
    counts processor time, so that a job that was stopped, or is on a busy machine, loses nothing."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def limit_memory(further: int) -> None:
    """Let this process have `further` bytes of addresses beside those that it has when this is first called,
    where the system tells."""
    with suppress(OSError):  # not Linux
        _, most = getrlimit(RLIMIT_AS)
        wanted = _addresses() + further
        setrlimit(RLIMIT_AS, (wanted if most == RLIM_INFINITY else min(wanted, most), most))


@cache
def _addresses() -> int:
    """Bytes of addresses that this process has, at the first call. Raises OSError."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def end_for_memory() -> NoReturn:
    os._exit(_OUT_OF_MEMORY)


def _leave_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
