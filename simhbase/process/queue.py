"""Batches the requests of concurrent callers: threads and tasks of asyncio put requests into a queue, and a
few threads serve it. Callers take turns, and have shares of what may wait, so that none keeps the others out.

A batch starts as soon as the one before has ended, with all requests that arrived until then. So batches grow
with the number of callers, and no request waits for others to arrive.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from math import inf
from threading import current_thread
from time import monotonic
from typing import Any, Generic, NamedTuple, TypeVar

from simhbase.errors import (
    ProfileMismatch,
    RetryableError,
    StoreFailed,
    TableDisabled,
    TablesMissing,
)

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
Asked = TypeVar("Asked", bound="QueuedRequest[Any, Any]")

STUCK_SECONDS = 2.0  # that all threads have waited within their batches, before a spare one begins
SHARED = 4  # a batch of several sources weighs a fourth at most: light requests do not wait with heavy ones
WAITING = 0.9  # share of its time that a thread is not at work, at least, if it waits

# Errors that concern all requests of a batch. Another error may be due to a single one.
OF_ALL = (RetryableError, TablesMissing, ProfileMismatch, TableDisabled)


@dataclass(frozen=True, eq=False, kw_only=True)
class QueuedRequest(Generic[K, T]):
    """A request of one caller. kind: equal for the requests of a batch; source: on whose behalf, for turns;
    weight: what its records cost, such as their characters; future: receives the answer; asked: when it was
    made, by the monotonic clock."""

    kind: K
    records: Sequence[object]
    source: Hashable = None
    weight: int = 0
    future: Future[T] = field(default_factory=Future)
    asked: float = field(default_factory=monotonic)

    def fail(self, error: Exception) -> None:
        """Raise an error in the caller, unless it has an answer already. Each caller gets a copy, because
        raising an exception changes it."""
        if self.future.done():
            return
        own = error
        with suppress(Exception):  # some exceptions cannot be copied
            own = copy(error).with_traceback(error.__traceback__)
            own.__cause__ = error.__cause__
        self.future.set_exception(own)


class Turns(OrderedDict[Hashable, deque[T]]):
    """Waiting items of several sources, which take turns. Those of one source leave in order of arrival."""

    def next(self, may: Callable[[Hashable], bool]) -> tuple[Hashable, T] | None:
        """Take the first item of the first source that may have its turn; it is the last one then."""
        source = next(filter(may, self), None)
        if source is None:
            return None
        item = self[source].popleft()
        if self[source]:
            self.move_to_end(source)
        else:
            del self[source]
        return source, item


class Shares:
    """How much sources hold of something limited. Beyond the limit, a source that holds less than an equal
    share of it is given more, so that none keeps the others out; together they hold at most twice the limit.

    most: the limit, which a single request may exceed while nothing is held. Not thread-safe.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: dict[Hashable, int] = {}
        self.total = 0

    def take(self, source: Hashable, size: int) -> bool:
        """Give a source more. Returns False if that is too much."""
        held = self._held.get(source, 0)
        total, sources = self.total + size, len(self._held) + (source not in self._held)
        has_share = held == 0 or (held + size) * sources <= self._most
        if self.total and total > self._most and not (has_share and total <= 2 * self._most):
            return False
        self._held[source] = held + size
        self.total = total
        return True

    def give_back(self, source: Hashable, size: int) -> None:
        self.total -= size
        if left := self._held.pop(source, 0) - size:
            self._held[source] = left


class Queue(Generic[Asked]):
    """The waiting requests of one process. Sources take turns, and so do the kinds of requests of each; a
    batch takes requests of one kind of all sources. A forked child has an empty queue, and its own threads.

    threads: number of threads that serve the queue, started with the first request. Each calls `serve` once,
    which takes requests until `take` returns none. With 0 threads callers serve it, one at a time, holding
    `turn`. name: of the threads, and in errors after `close`. most: maximum of waiting records, of which
    sources have `Shares`; None: any number. spares: further threads, of which `wake` starts one if all are
    stuck (`_is_stuck`), as a store may hang for one batch and not for the next. They end when that is over.
    """

    def __init__(
        self,
        threads: int,
        name: str,
        serve: Callable[[], None] = lambda: None,
        *,
        most: int | None = None,
        spares: int = 0,
    ) -> None:
        self._number = threads
        self._spares = spares
        self._most = most
        self._name = name
        self._serve = serve
        self._closed = False
        self._begin()
        _QUEUES.add(self)

    def _begin(self) -> None:
        self.turn = threading.Lock()
        self._changed = threading.Condition()
        self._waiting: OrderedDict[Hashable, OrderedDict[Hashable, deque[Asked]]] = OrderedDict()
        self._shares = None if self._most is None else Shares(self._most)
        self.records = 0  # that wait
        self._is_due = False  # True if waiting requests may be taken
        self._threads: list[threading.Thread] = []
        self._busy: dict[threading.Thread, _Begun] = {}

    def put(self, *requests: Asked, is_due: bool = False) -> bool:
        """Add requests of one source, which wait for `wake`, unless they are due now. Returns False if too
        many records would wait then. Raises StoreFailed after `close`."""
        records = sum(len(request.records) for request in requests)
        with self._changed:
            if self._closed:
                raise StoreFailed(f"these {self._name} were closed: make new ones")
            if self._shares is not None and not self._shares.take(requests[0].source, records):
                return False
            self.records += records
            while len(self._threads) < self._number:
                self._start_thread()
            for request in requests:
                kinds = self._waiting.setdefault(request.source, OrderedDict())
                kinds.setdefault(request.kind, deque()).append(request)
            if is_due:
                self._is_due = True
                self._changed.notify()
            return True

    def withdraw(self, requests: Iterable[Asked]) -> None:
        """Cancel requests that nobody waits for. Those that were not taken leave their places to others."""
        with self._changed:
            for request in requests:
                request.future.cancel()
                kinds = self._waiting.get(request.source, OrderedDict())
                waiting = kinds.get(request.kind, deque())
                if request not in waiting:
                    continue
                waiting.remove(request)
                self.records -= len(request.records)
                if self._shares is not None:
                    self._shares.give_back(request.source, len(request.records))
                if not waiting:
                    del kinds[request.kind]
                if not kinds:
                    del self._waiting[request.source]
            self._is_due &= bool(self._waiting)

    def wake(self) -> None:
        with self._changed:
            self._is_due = bool(self._waiting)
            is_stuck = len(self._busy) == len(self._threads) < self._number + self._spares
            if self._is_due and is_stuck and all(_is_stuck(*each) for each in self._busy.items()):
                self._start_thread()
            self._changed.notify()

    def _start_thread(self) -> None:
        name = f"simhbase {self._name} {len(self._threads)}"
        self._threads.append(threading.Thread(target=self._serve, name=name, daemon=True))
        self._threads[-1].start()

    def _is_spare(self) -> bool:
        """True if enough other threads are not stuck."""
        stuck = sum(_is_stuck(*each) for each in self._busy.items())
        return len(self._threads) - stuck > self._number

    def take(self, most: int, seconds: float | None = None, *, heaviest: int | None = None) -> list[Asked]:
        """Take requests of one kind with at most `most` records in total, which weigh `heaviest` at most, and
        a part of that (SHARED) if they are of several sources, or a single larger one. Waits until some may
        be taken. Returns none if the queue is closed and empty, after `seconds`, or when it is closed while
        waiting. Leaves out cancelled requests."""
        with self._changed:
            self._busy.pop(current_thread(), None)
            while True:
                if len(self._threads) > self._number and self._is_spare():
                    self._threads.remove(current_thread())
                    return []
                while not self._is_due and not (self._closed and self._waiting):
                    was_closed = self._closed
                    if (was_closed and seconds is None) or not self._changed.wait(seconds):
                        return []
                    if self._closed > was_closed and not self._waiting:
                        return []
                kind = next(iter(next(iter(self._waiting.values()))))
                taken = self._taken(kind, most, heaviest)
                self._is_due = bool(self._waiting)
                if taken:
                    if self._spares:
                        self._busy[current_thread()] = _Begun(monotonic(), time.thread_time())
                    return taken

    def _taken(self, kind: Hashable, most: int, heaviest: int | None) -> list[Asked]:
        taken: list[Asked] = []
        records = weight = 0
        sources = deque(source for source, kinds in self._waiting.items() if kind in kinds)
        first = sources[0]
        while sources:
            source = sources.popleft()
            kinds = self._waiting[source]
            request = kinds[kind][0]
            records += len(request.records)
            weight += request.weight
            bound = inf if heaviest is None else heaviest if source == first else heaviest // SHARED
            if taken and (records > most or weight > bound):
                break
            kinds[kind].popleft()
            self.records -= len(request.records)
            if self._shares is not None:
                self._shares.give_back(source, len(request.records))
            self._waiting.move_to_end(source)  # its next turn is the last one, and so is the kind's
            kinds.move_to_end(kind)
            if kinds[kind]:
                sources.append(source)
            else:
                del kinds[kind]
                if not kinds:
                    del self._waiting[source]
            if request.future.set_running_or_notify_cancel():
                taken.append(request)
            else:
                records -= len(request.records)
                weight -= request.weight
        return taken

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Accept no further requests, and return when the accepted ones are served."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in [*self._threads]:  # spare ones leave
            thread.join()


class _Begun(NamedTuple):
    """When a thread began its batch, and the processor time that it had taken then."""

    time: float
    processor_time: float


def _is_stuck(thread: threading.Thread, begun: _Begun) -> bool:
    """True if a thread has waited for long, as a store may hang. One that is at work is not stuck: others
    beside it would take the processors from all, and not help."""
    seconds = monotonic() - begun.time
    if seconds < STUCK_SECONDS:
        return False
    if sys.platform != "linux" or thread.ident is None or not thread.is_alive():
        return True  # it is not known
    clock = time.pthread_getcpuclockid(thread.ident)
    return time.clock_gettime(clock) - begun.processor_time <= (1 - WAITING) * seconds


_QUEUES: weakref.WeakSet[Queue[Any]] = weakref.WeakSet()


def _begin_in_child() -> None:
    # Waiting requests, and the threads that answer them, belong to the parent.
    for queue in _QUEUES:
        queue._begin()


os.register_at_fork(after_in_child=_begin_in_child)
