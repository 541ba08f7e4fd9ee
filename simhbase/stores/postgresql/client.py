"""Connections to the server, transactions, and errors.

Each call takes a connection of the pool; inside a transaction all calls of the thread share one. What fails
for the connection's sake is repeated until the time is up, except inside a transaction: there nothing is done
before its end, and the caller repeats all of it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import errors

from simhbase.errors import (
    SimhbaseError,
    StoreBusy,
    StoreFailed,
    StoreUnreachable,
    TablesMissing,
)
from simhbase.logs import logger
from simhbase.stores.attempts import Attempts
from simhbase.stores.base import Access
from simhbase.stores.postgresql.arrays import register
from simhbase.stores.postgresql.url import Address

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]
Cursor = psycopg.Cursor[tuple[Any, ...]]
Row = tuple[Any, ...]
Parameters = Sequence[object] | Mapping[str, object]

OLDEST_SERVER = 140000  # bit_count
OPENING_SECONDS = 10.0
SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

log = logger(__name__)

# A server that refuses a connection says why in words only; these reasons pass.
_PASSING = (
    "starting up",
    "shutting down",
    "recovery",
    "too many c",  # clients, or connections of a role or database
    "remaining connection slots",
    "terminating connection",
)
_LOST = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.TooManyConnections,
    errors.DeadlockDetected,
    errors.SerializationFailure,
    errors.ConnectionException,
    errors.IdleInTransactionSessionTimeout,
    errors.IdleSessionTimeout,
)


class Client:
    """Runs statements in one database, with one schema's tables."""

    def __init__(self, address: Address, access: Access) -> None:
        self.address = address
        self._access = access
        self._own = threading.local()  # the connection of this thread's transaction
        self._answered = False
        self.retries = 0
        self._renew()

    def _renew(self) -> None:
        """Starts with an empty pool. In a forked child, the parent's connections are left alone: to close
        them would end the parent's sessions."""
        self._process = os.getpid()
        self._parents = vars(self).get("_idle"), vars(self).get("_own")
        self._idle: list[Connection] | None = []
        self._free = threading.BoundedSemaphore(self.address.connections)
        self.in_use = 0
        self._own = threading.local()

    def rows(self, doing: str, statement: str, parameters: Parameters | None = None) -> list[Row]:
        """The rows of a statement that may be repeated."""
        return self.call(doing, lambda cursor: cursor.execute(statement, parameters).fetchall())

    def run(self, doing: str, statement: str, parameters: Parameters | None = None) -> int:
        """Executes a statement that may be repeated; returns the number of rows that it changed."""
        return self.call(doing, lambda cursor: cursor.execute(statement, parameters).rowcount)

    def call(self, doing: str, work: Callable[[Cursor], T]) -> T:
        """Has something done with a cursor that may be repeated. Raises StoreUnreachable, StoreBusy,
        TablesMissing, StoreFailed."""
        if own := self._transaction():
            with self._translated(doing), own.cursor(binary=True) as cursor:
                return work(cursor)

        def once() -> T:
            with self._connection(doing) as connection, connection.cursor(binary=True) as cursor:
                return work(cursor)

        return self._retried(once)

    @contextmanager
    def transaction(self, doing: str, begin: str) -> Iterator[None]:
        """Makes all calls of this thread one transaction. begin: the statements that start it. Raises what
        `call` does."""
        if self._transaction():
            yield
            return

        def begun() -> Connection:
            connection = self._take(doing)
            try:
                with self._translated(doing):
                    connection.execute(begin, prepare=False)
            except BaseException:
                self._give_back(connection, sound=False)
                raise
            return connection

        connection = self._retried(begun)
        self._own.connection = connection
        sound = False
        try:
            yield
            with self._translated(doing):
                connection.execute("COMMIT", prepare=False)
            sound = True
        finally:
            self._own.connection = None
            self._give_back(connection, sound)

    @contextmanager
    def together(self, doing: str) -> Iterator[None]:
        """Sends the statements of a block, in a transaction and without COPY, at once, in place of one after
        the answer to the other. Their answers are empty."""
        own = self._transaction()
        assert own is not None
        with self._translated(doing), own.pipeline():
            yield

    def consistent(self, read: Callable[[], T]) -> T:
        """Calls `read` with one snapshot for all its calls."""
        if self._transaction():
            return read()

        def once() -> T:
            with self.transaction("reading", SNAPSHOT):
                return read()

        return self._retried(once)

    def _retried(self, work: Callable[[], T]) -> T:
        """Does something until the server can be reached, or the time is up."""
        seconds = self.address.timeout
        attempts = Attempts(seconds if self._answered else min(seconds, OPENING_SECONDS))
        while True:
            try:
                result = work()
            except StoreUnreachable as error:
                if not attempts.pause_for(error):
                    raise
                self.retries += 1
            else:
                self._answered = True
                return result

    def _transaction(self) -> Connection | None:
        if self._process != os.getpid():
            self._renew()
        own: Connection | None = getattr(self._own, "connection", None)
        return own

    @contextmanager
    def _connection(self, doing: str) -> Iterator[Connection]:
        connection = self._take(doing)
        sound = False
        try:
            with self._translated(doing):
                yield connection
            sound = True
        finally:
            self._give_back(connection, sound)

    def _take(self, doing: str) -> Connection:
        if not self._free.acquire(timeout=self.address.timeout):
            raise StoreBusy(
                f"{doing} {self.address.url}: all {self.address.connections} connections of this process "
                f"were busy for {self.address.timeout:g} s (connections=N in the URL allows more)"
            )
        self.in_use += 1
        try:
            idle = self._idle
            if idle is None:
                raise StoreFailed(f"{self.address.url} was closed: open it again")
            with suppress(IndexError):  # another thread may take the last one
                return idle.pop()
            return self._connected(doing)
        except BaseException:
            self._release()
            raise

    def _give_back(self, connection: Connection, sound: bool) -> None:
        """A connection on which anything went wrong is closed, which ends its transaction."""
        idle = self._idle
        if sound and idle is not None and not connection.closed:
            idle.append(connection)
        else:
            connection.close()
        self._release()

    def _release(self) -> None:
        self.in_use -= 1
        self._free.release()

    def _connected(self, doing: str) -> Connection:
        with self._translated(doing):
            connection = psycopg.connect(**self.address.server, autocommit=True, prepare_threshold=0)
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    def _prepare(self, connection: Connection) -> None:
        version = connection.info.server_version
        if version < OLDEST_SERVER:
            raise StoreFailed(
                f"{self.address.url} is PostgreSQL {version // 10000}: version {OLDEST_SERVER // 10000} or "
                "newer is needed"
            )
        register(connection)
        settings = {
            "search_path": self.address.schema,
            "lock_timeout": f"{self.address.timeout:.0f}s",
            # Every statement has an index; without statistics the planner may not see it. One plan is kept.
            "enable_seqscan": "off",
            "enable_bitmapscan": "off",
            "plan_cache_mode": "force_generic_plan",
            "jit": "off",
            # The locks of a client that has vanished are released soon.
            "tcp_keepalives_idle": "30",
            "tcp_keepalives_interval": "10",
            "tcp_keepalives_count": "3",
        }
        if self._access == "read":
            settings["default_transaction_read_only"] = "on"
        connection.execute(
            "SELECT set_config(name, value, false) "
            "FROM unnest(%b::text[], %b::text[]) AS setting(name, value)",
            (list(settings), list(settings.values())),
            prepare=False,
        )
        connection.execute(
            "SELECT set_config('synchronous_commit', 'on', false) "
            "WHERE current_setting('synchronous_commit') = 'off'",
            prepare=False,
        )

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise translated(error, f"{doing} {self.address.url}", self.address) from error

    def close(self) -> None:
        if self._process != os.getpid():
            self._renew()
        idle, self._idle = self._idle, None
        for connection in idle or ():
            connection.close()


def translated(error: psycopg.Error, doing: str, address: Address) -> SimhbaseError:
    """The error of simhbase for one of psycopg. doing: what was done, and where."""
    said = " ".join((error.diag.message_primary or str(error) or type(error).__name__).split())
    if isinstance(error, errors.UndefinedTable | errors.InvalidSchemaName):
        return TablesMissing(
            f"{doing}: {said}. Create the tables with 'simhbase tables create', or correct schema= in the URL"
        )
    if isinstance(error, errors.LockNotAvailable):
        return StoreBusy(
            f"{doing}: another transaction held a lock for {address.timeout:g} s ({said}). Try again later; "
            "pg_stat_activity shows who holds it"
        )
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return StoreFailed(f"{doing}: the server is read-only, such as a standby ({said}). Name the primary")
    if isinstance(error, errors.InsufficientPrivilege):
        return StoreFailed(f"{doing}: {said}. Grant it to the role, or use another")
    if isinstance(error, _LOST) or (isinstance(error, psycopg.OperationalError) and error.sqlstate is None):
        return _unreachable(said, doing)
    return StoreFailed(f"{doing}: {said}")


def _unreachable(said: str, doing: str) -> SimhbaseError:
    refused = "FATAL" in said or "no password supplied" in said
    if refused and "does not exist" in said and "database" in said:
        return TablesMissing(f"{doing}: {said}. Create the database, or correct the URL")
    if refused and not any(reason in said for reason in _PASSING):
        return StoreFailed(f"{doing}: the server refused the connection: {said}")
    return StoreUnreachable(f"{doing}: {said}")
