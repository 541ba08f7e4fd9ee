"""Connections to the server, transactions, and errors.

Inside a transaction all calls of the thread share a connection, and nothing is done before its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from simhbase.stores.base import Access
from simhbase.stores.pool import Pool
from simhbase.stores.postgresql.arrays import register
from simhbase.stores.postgresql.url import Address

T = TypeVar("T")
Connection = psycopg.Connection[tuple[Any, ...]]
Cursor = psycopg.Cursor[tuple[Any, ...]]
Row = tuple[Any, ...]
Parameters = Sequence[object] | Mapping[str, object]

OLDEST_SERVER = 140000  # bit_count
SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

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
        self.pool = Pool(address.url, address.connections, address.timeout, self._connected)

    def rows(self, doing: str, statement: str, parameters: Parameters | None = None) -> list[Row]:
        """The rows of a statement that may be repeated."""
        return self.call(doing, lambda cursor: cursor.execute(statement, parameters).fetchall())

    def run(self, doing: str, statement: str, parameters: Parameters | None = None) -> int:
        """Executes a statement that may be repeated; returns the number of rows that it changed."""
        return self.call(doing, lambda cursor: cursor.execute(statement, parameters).rowcount)

    def call(self, doing: str, work: Callable[[Cursor], T]) -> T:
        """Has something done with a cursor that may be repeated. Raises StoreUnreachable, StoreBusy,
        TablesMissing, StoreFailed."""
        if held := self.pool.held:
            with self._translated(doing), held.cursor(binary=True) as cursor:
                return work(cursor)

        def once() -> T:
            with (
                self.pool.connection(doing) as connection,
                self._translated(doing),
                connection.cursor(binary=True) as cursor,
            ):
                return work(cursor)

        return self.pool.retried(once)

    @contextmanager
    def transaction(self, doing: str, begin: str) -> Iterator[None]:
        """Makes all calls of this thread one transaction. begin: the statements that start it. Raises what
        `call` does."""
        if self.pool.held:
            yield
            return

        def begun() -> Connection:
            connection = self.pool.take(doing)
            try:
                with self._translated(doing):
                    connection.execute(begin, prepare=False)
            except BaseException:
                self.pool.give_back(connection, sound=False)
                raise
            return connection

        connection = self.pool.retried(begun)
        sound = False
        try:
            with self.pool.holding(connection):
                yield
                with self._translated(doing):
                    connection.execute("COMMIT", prepare=False)
            sound = True
        finally:
            self.pool.give_back(connection, sound)

    @contextmanager
    def together(self, doing: str) -> Iterator[None]:
        """Sends the statements of a block, in a transaction and without COPY, at once, in place of one after
        the answer to the other. Their answers are empty."""
        held = self.pool.held
        assert held is not None
        with self._translated(doing), held.pipeline():
            yield

    def consistent(self, read: Callable[[], T]) -> T:
        """Calls `read` with one snapshot for all its calls."""
        if self.pool.held:
            return read()

        def once() -> T:
            with self.transaction("reading", SNAPSHOT):
                return read()

        return self.pool.retried(once)

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
