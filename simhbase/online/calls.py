"""Calls that block, beside an event loop: in threads of their own, of which there are so many and no more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import TypeVar

from simhbase.errors import Overloaded, TimedOut

T = TypeVar("T")


class Calls:
    """Runs calls in threads.

    A call that takes too long is answered with an error, and its thread goes on until it returns; so a store
    that hangs takes these threads and not more of them (anyio's would be given back), and what has not begun
    by then never does.
    """

    def __init__(self, threads: int, waiting: int, seconds: float) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="simhbase-call")
        self._most = threads + waiting
        self._seconds = seconds
        self._lock = threading.Lock()
        self.pending = 0

    async def run(self, call: Callable[..., T], *arguments: object, seconds: float | None = None) -> T:
        """What a call returns. Raises Overloaded where too many are under way, TimedOut, and what it does."""
        with self._lock:
            if self.pending >= self._most:
                raise Overloaded(
                    f"{self.pending:,} requests are under way, as many as may be: try again later"
                )
            self.pending += 1
        future = self._pool.submit(partial(copy_context().run, call, *arguments))
        future.add_done_callback(self._done)
        return await within(self._seconds if seconds is None else seconds, future)

    def _done(self, future: Future[T]) -> None:
        with self._lock:
            self.pending -= 1

    def close(self) -> None:
        self._pool.shutdown()


async def within(seconds: float, future: Future[T]) -> T:
    """What a future has within so many seconds. Raises TimedOut."""
    try:
        async with asyncio.timeout(seconds) as limit:
            return await asyncio.wrap_future(future)
    except TimeoutError:
        if not limit.expired():
            raise
        raise TimedOut(f"no answer from the store within {seconds:g} s: try again later") from None
