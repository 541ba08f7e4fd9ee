"""Batches the requests of concurrent callers: threads and tasks of asyncio put requests into a queue, and a
few threads serve it.

A batch starts as soon as the one before has ended, with all requests that arrived until then. So batches grow
with the number of callers, and no request waits for others to arrive.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Generic, TypeVar

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
    """Waiting items of several sources, which take turns: the next item is the first one of the first source.
    Those of one source leave in order of arrival."""

    def next(self) -> T:
        """Take an item; its source is the last one then."""
        source, items = self.popitem(last=False)
        item = items.popleft()
        if items:
            self[source] = items
        return item


class Queue(Generic[Asked]):
    """The waiting requests of one process. Sources of requests of one kind take turns, and so do kinds. A
    forked child has an empty queue, and its own threads.

    threads: number of threads that serve the queue, started with the first request. Each calls `serve` once,
    which takes requests until `take` returns none. With 0 threads callers serve it, one at a time, holding
    `turn`. name: of the threads, and in errors after `close`.
    """

    def __init__(self, threads: int, name: str, serve: Callable[[], None] = lambda: None) -> None:
        self._number = threads
        self._name = name
        self._serve = serve
        self._closed = False
        self._begin()
        _QUEUES.add(self)

    def _begin(self) -> None:
        self.turn = threading.Lock()
        self._changed = threading.Condition()
        self._waiting: dict[Hashable, Turns[Asked]] = {}
        self._is_due = False  # True if waiting requests may be taken
        self._threads: list[threading.Thread] = []
        self.records = 0

    def put(self, *requests: Asked, most: int | None = None, is_due: bool = False) -> bool:
        """Add requests, which wait for `wake`, unless they are due now. Returns False if more than `most`
        records would wait then, unless the queue is empty. Raises StoreFailed after `close`."""
        records = sum(len(request.records) for request in requests)
        with self._changed:
            if self._closed:
                raise StoreFailed(f"these {self._name} were closed: make new ones")
            if most is not None and self.records and self.records + records > most:
                return False
            if not self._threads:
                for number in range(self._number):
                    name = f"simhbase {self._name} {number}"
                    self._threads.append(threading.Thread(target=self._serve, name=name, daemon=True))
                    self._threads[-1].start()
            self.records += records
            for request in requests:
                turns = self._waiting.setdefault(request.kind, Turns())
                turns.setdefault(request.source, deque()).append(request)
            if is_due:
                self._is_due = True
                self._changed.notify()
            return True

    def wake(self) -> None:
        with self._changed:
            self._is_due = bool(self._waiting)
            self._changed.notify()

    def take(self, most: int, seconds: float | None = None, *, heaviest: int | None = None) -> list[Asked]:
        """Take requests of one kind with at most `most` records in total, which weigh `heaviest` at most, or
        a single larger one. Waits until some may be taken. Returns none if the queue is closed and empty,
        after `seconds`, or when it is closed while waiting. Leaves out cancelled requests."""
        with self._changed:
            while True:
                while not self._is_due and not (self._closed and self._waiting):
                    was_closed = self._closed
                    if (was_closed and seconds is None) or not self._changed.wait(seconds):
                        return []
                    if self._closed > was_closed and not self._waiting:
                        return []
                kind, requests = next(iter(self._waiting.items()))
                del self._waiting[kind]
                taken = self._taken(requests, most, heaviest)
                if requests:
                    self._waiting[kind] = requests
                self._is_due = bool(self._waiting)
                if taken:
                    return taken

    def _taken(self, requests: Turns[Asked], most: int, heaviest: int | None) -> list[Asked]:
        taken: list[Asked] = []
        records = weight = 0
        while requests:
            request = next(iter(requests.values()))[0]
            records += len(request.records)
            weight += request.weight
            if taken and (records > most or (heaviest is not None and weight > heaviest)):
                break
            requests.next()
            self.records -= len(request.records)
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
        for thread in self._threads:
            thread.join()


_QUEUES: weakref.WeakSet[Queue[Any]] = weakref.WeakSet()


def _begin_in_child() -> None:
    # Waiting requests, and the threads that answer them, belong to the parent.
    for queue in _QUEUES:
        queue._begin()


os.register_at_fork(after_in_child=_begin_in_child)
