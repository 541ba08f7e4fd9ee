"""Connections of one process to one server (PostgreSQL, Redis), shared by its threads, and retries.

Inside a transaction or under a lock a thread holds a connection, which all its calls use. Elsewhere each call
takes one. What fails for the connection's sake is repeated until the time is up, except with a held one: the
caller repeats all of it.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import ClassVar, Generic, Protocol, TypeVar

from simhbase.errors import SimhbaseError, StoreBusy, StoreFailed, StoreUnreachable
from simhbase.model.urls import cause_without
from simhbase.stores.attempts import Attempts, Outage

T = TypeVar("T")
OPENING_SECONDS = 10.0


class Connection(Protocol):
    @property
    def closed(self) -> bool: ...

    def close(self) -> None: ...


C = TypeVar("C", bound=Connection)


class Pool(ABC, Generic[C]):
    """most: connections at a time; timeout: seconds for an operation with all retries, and for a connection
    to become free. raised: errors of connections."""

    raised: ClassVar[tuple[type[Exception], ...]]

    def __init__(self, url: str, most: int, timeout: float) -> None:
        self._url = url
        self.most = most
        self._timeout = timeout
        self._own = threading.local()
        self._answered = False
        self.outage = Outage(url)
        self.retries = 0
        self._renew()

    @abstractmethod
    def _connect(self) -> C: ...

    @abstractmethod
    def _translate(self, error: Exception, doing: str) -> SimhbaseError:
        """The error of simhbase for one of `raised`. doing: what was done, and where."""

    def _secrets(self, error: Exception) -> Iterable[str]:
        """What a server was given, and may repeat in an error."""
        return ()

    def _resumed(self, connection: C) -> C:
        """A connection that was idle, ready for use; it is closed where this fails."""
        return connection

    def _renew(self) -> None:
        """Starts with an empty pool. In a forked child, the parent's connections are left alone: to close
        them would end the parent's sessions."""
        self._process = os.getpid()
        self._parents = vars(self).get("_idle"), vars(self).get("_own")
        self._idle: list[C] | None = []
        self._free = threading.BoundedSemaphore(self.most)
        self.in_use = 0
        self._own = threading.local()

    @property
    def held(self) -> C | None:
        """The connection that this thread holds."""
        if self._process != os.getpid():
            self._renew()
        own: C | None = getattr(self._own, "connection", None)
        return own

    def call(self, doing: str, work: Callable[[C], T]) -> T:
        """Has something done with a connection that may be repeated. Raises StoreBusy, StoreFailed after
        `close`, and translated errors."""
        if held := self.held:
            with self.translated(doing):
                return work(held)

        def once() -> T:
            connection = self._take(doing)
            sound = False
            try:
                with self.translated(doing):
                    result = work(connection)
                sound = True
            finally:
                self._give_back(connection, sound)
            return result

        return self.retried(once)

    @contextmanager
    def holding(self, doing: str, begin: Callable[[C], object]) -> Iterator[C]:
        """Makes all calls of this thread use one connection, after `begin`, which may be repeated. Raises
        what `call` does."""

        def begun() -> C:
            connection = self._take(doing)
            try:
                with self.translated(doing):
                    begin(connection)
            except BaseException:
                self._give_back(connection, sound=False)
                raise
            return connection

        connection = self._own.connection = self.retried(begun)
        sound = False
        try:
            yield connection
            sound = True
        finally:
            self._own.connection = None
            self._give_back(connection, sound)

    @contextmanager
    def translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except self.raised as error:
            cause = cause_without(error, self._secrets(error))
            raise self._translate(error, f"{doing} {self._url}") from cause

    def _take(self, doing: str) -> C:
        if not self._free.acquire(timeout=self._timeout):
            raise StoreBusy(
                f"{doing} {self._url}: all {self.most} connections of this process were busy for "
                f"{self._timeout:g} s (connections=N in the URL allows more)"
            )
        self.in_use += 1
        try:
            idle = self._idle
            if idle is None:
                raise StoreFailed(f"{self._url} was closed: open it again")
            with self.translated(doing):
                with suppress(IndexError):  # another thread may take the last one
                    return self._resumed(idle.pop())
                return self._connected()
        except BaseException:
            self._release()
            raise

    def _connected(self) -> C:
        try:
            return self._connect()
        except BaseException:
            self._own.is_gone = True
            raise

    def _give_back(self, connection: C, sound: bool) -> None:
        """A connection on which anything went wrong is closed."""
        idle = self._idle
        if sound and idle is not None and not connection.closed:
            idle.append(connection)
        else:
            connection.close()
        self._release()

    def _release(self) -> None:
        self.in_use -= 1
        self._free.release()

    def retried(self, work: Callable[[], T]) -> T:
        """Does something until the server can be reached, or the time is up. Raises StoreUnreachable at once
        where the store fails fast, and the server is known to be gone."""
        if (why := self.outage.refusal()) is not None:
            raise StoreUnreachable(f"{self._url}: {why}")
        seconds = self._timeout if self._answered else min(self._timeout, OPENING_SECONDS)
        attempts = Attempts(seconds, self.outage)
        while True:
            self._own.is_gone = False
            try:
                result = work()
            except StoreUnreachable as error:
                if not attempts.pause_for(error, gone=self._own.is_gone):
                    raise
                self.retries += 1
            else:
                self._answered = True
                self.outage.answered()
                return result

    def close(self) -> None:
        if self._process != os.getpid():
            self._renew()
        idle, self._idle = self._idle, None
        for connection in idle or ():
            connection.close()
