"""Runs blocking calls from an event loop in a limited number of threads."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, TypeVar

from simhbase.errors import Overloaded, TimedOut
from simhbase.process.queue import Shares, Turns

T = TypeVar("T")

AT_ONCE = 32  # requests that begin in one turn of the event loop, each of which takes it up to a millisecond

# On whose behalf a request is answered: a token, or an address where there are none. They take turns.
source: ContextVar[Hashable] = ContextVar("source", default="")


class Calls:
    """Runs calls in threads, where sources take turns, and have shares of the threads and of what may wait
    (`source`). One that has filled the threads with long calls leaves others as many again.

    A call that takes too long is answered with an error while its thread keeps running until it returns. So a
    hanging store occupies these threads and no more (anyio would start others), and calls still waiting are
    cancelled.
    """

    def __init__(self, threads: int, waiting: int, seconds: float) -> None:
        self._pool = ThreadPoolExecutor(2 * threads, thread_name_prefix="simhbase-call")
        self._running = Shares(threads)
        self._shares = Shares(threads + waiting)
        self._seconds = seconds
        self._lock = threading.Lock()
        self._waiting = Turns[tuple[Future[Any], Callable[[], Any]]]()

    @property
    def pending(self) -> int:
        """Number of calls that run or wait."""
        return self._shares.total

    async def run(self, call: Callable[..., T], *arguments: object) -> T:
        """Run a call. Raises Overloaded if too many are running, TimedOut, and the call's own errors."""
        caller = source.get()
        with self._lock:
            if not self._shares.take(caller, 1):
                raise Overloaded(f"{self.pending:,} requests are running, the maximum: try again later")
            future = Future[T]()
            waiting = self._waiting.setdefault(caller, deque())
            waiting.append((future, partial(copy_context().run, call, *arguments)))
        future.add_done_callback(partial(self._done, caller))
        self._pool.submit(self._run_some)
        return await within(self._seconds, future)

    def _run_some(self) -> None:
        """Runs what may begin now, and then what may because that has ended."""
        while begun := self._begin():
            caller, (future, call) = begun
            try:
                if future.set_running_or_notify_cancel():
                    future.set_result(call())
            except BaseException as error:
                future.set_exception(error)
            finally:
                with self._lock:
                    self._running.give_back(caller, 1)
                # An error refers to this frame: with its future here, both would be kept, and what was given.
                del begun, future, call

    def _begin(self) -> tuple[Hashable, tuple[Future[Any], Callable[[], Any]]] | None:
        with self._lock:
            return self._waiting.next(lambda caller: self._running.take(caller, 1))

    def _done(self, caller: Hashable, future: Future[T]) -> None:
        with self._lock:
            self._shares.give_back(caller, 1)
            if future.cancelled():  # what it was called with, which may be large, is not kept until its turn
                waiting = self._waiting.get(caller, deque())
                for each in [each for each in waiting if each[0] is future]:
                    waiting.remove(each)
                if not waiting:
                    self._waiting.pop(caller, None)

    def close(self) -> None:
        self._pool.shutdown()


class Begins:
    """Lets requests begin on an event loop, a few in each of its turns, where sources take theirs: thousands
    of connections of one would be served before those of others."""

    def __init__(self) -> None:
        self._left = AT_ONCE
        self._is_due = False
        self._waiting = Turns[asyncio.Future[None]]()

    async def turn(self) -> None:
        """Wait until a request of this source may begin, usually not at all."""
        loop = asyncio.get_running_loop()
        if not self._is_due:
            self._is_due = True
            loop.call_soon(self._next, loop)
        if self._left and not self._waiting:
            self._left -= 1
            return
        future = loop.create_future()
        self._waiting.setdefault(source.get(), deque()).append(future)
        await future

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        self._left = AT_ONCE
        while self._left and (found := self._waiting.next(lambda _: True)):
            _, future = found
            if not future.done():  # else the client has gone
                future.set_result(None)
                self._left -= 1
        self._is_due = bool(self._waiting)
        if self._is_due:
            loop.call_soon(self._next, loop)


async def within(seconds: float, future: Future[T]) -> T:
    """The result of a future within `seconds`. Raises TimedOut."""
    try:
        async with asyncio.timeout(seconds) as limit:
            return await asyncio.wrap_future(future)
    except TimeoutError:
        if not limit.expired():
            raise
        raise TimedOut(f"no answer from the store within {seconds:g} s: try again later") from None
