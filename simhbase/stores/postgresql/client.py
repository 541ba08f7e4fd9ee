"""Connections to the server, transactions, and errors.

Inside a transaction all calls of the thread share a connection, and nothing is done before its end.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Self, TypeVar

import psycopg
from psycopg import errors
from psycopg.abc import Buffer
from psycopg.generators import fetch_many
from psycopg.pq import PipelineStatus, TransactionStatus

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

# It logs what the errors say that are raised, and without a handler Python would print that.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

T = TypeVar("T")
Row = tuple[Any, ...]
Cursor = psycopg.Cursor[Row]
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
    # of PgBouncer
    "no more connections allowed",
    "query_wait_timeout",
    "server login has been failing",
)
# Of TLS: these do not pass.
_INSECURE = ("does not support SSL", "certificate")
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


class Connection(psycopg.Connection[Row]):
    """One that notices a server which hangs."""

    address: Address

    @classmethod
    def to(cls, address: Address) -> Self:
        connection = cls.connect(**address.server, autocommit=True, prepare_threshold=0)
        connection.address = address
        return connection

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **options: Any) -> T:
        return super().wait(self._watched(gen), *args, **options)

    def _watched(self, statement: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """A statement, which psycopg resumes several times a second also when nothing has come."""
        try:
            wanted = next(statement)
            heard = time.monotonic()
            while True:
                ready = yield wanted
                if ready:
                    heard = time.monotonic()
                elif time.monotonic() > heard + self.address.timeout:
                    self._require_server()
                    heard = time.monotonic()
                wanted = statement.send(ready)
        except StopIteration as done:
            result: T = done.value
            return result

    def _require_server(self) -> None:
        """A statement may take long, but a server that executes one takes connections, or says why not."""
        try:
            psycopg.connect(**self.address.server).close()
        except errors.ConnectionTimeout as error:
            raise psycopg.OperationalError(
                f"the server was silent for {self.address.timeout:g} s, and to a new connection: {error}"
            ) from error
        except psycopg.OperationalError:
            pass


class Client(Pool[Connection]):
    """Runs statements in one database, with one schema's tables."""

    raised = (psycopg.Error,)

    def __init__(self, address: Address, access: Access) -> None:
        super().__init__(address.url, address.connections, address.timeout)
        self.address = address
        self._access = access

    def rows(self, doing: str, statement: str, parameters: Parameters | None = None) -> list[Row]:
        """The rows of a statement that may be repeated."""
        return self.call(
            doing, lambda connection: self._executed(connection, statement, parameters).fetchall()
        )

    def run(self, doing: str, statement: str, parameters: Parameters | None = None) -> None:
        """Executes a statement that may be repeated."""
        self.call(doing, lambda connection: self._executed(connection, statement, parameters))

    def _executed(self, connection: Connection, statement: str, parameters: Parameters | None) -> Cursor:
        unsent = getattr(self._own, "unsent", "")
        if not unsent:
            return connection.execute(statement, parameters, binary=True)
        self._own.unsent = ""
        with connection.pipeline():
            connection.execute(unsent, prepare=False)
            return connection.execute(statement, parameters, binary=True)

    def copy(self, doing: str, statement: str, *content: Buffer) -> None:
        """Executes a COPY in a transaction."""

        def copied(connection: Connection) -> None:
            self._own.together.close()
            with connection.cursor().copy(statement) as copy:
                for part in content:
                    copy.write(part)

        self.call(doing, copied)

    @contextmanager
    def transaction(self, begin: Callable[[Connection], None]) -> Iterator[None]:
        """Makes all calls of this thread one transaction, which `begin` starts. Raises what `call` does."""
        if self.held:
            yield
            return
        doing = "writing"
        with (
            self.holding(doing, begin) as connection,
            self.translated(doing),
            ExitStack() as self._own.together,
        ):
            yield
            connection.execute("COMMIT", prepare=False)

    def send_together(self) -> None:
        """Sends the statements of a transaction from now on together, with what ends it, or up to one whose
        rows are read. An error may come that late."""
        if self.held and self.held.pgconn.pipeline_status == PipelineStatus.OFF:
            self._own.together.enter_context(self.held.pipeline())

    def consistent(self, read: Callable[[], T]) -> T:
        """Calls `read` with one snapshot for all its calls. Nothing is waited for but their answers: what
        begins the snapshot is sent with the first one, and the answer to what ends it is waited
        for when the connection is used again."""
        if self.held:
            return read()

        def once() -> T:
            with self.holding("reading", lambda _: None) as connection, self.translated("reading"):
                self._own.unsent = SNAPSHOT
                try:
                    result = read()
                    if not self._own.unsent:
                        connection.pgconn.send_query(b"COMMIT")
                        connection.pgconn.flush()
                    return result
                finally:
                    self._own.unsent = ""

        return self.retried(once)

    def _resumed(self, connection: Connection) -> Connection:
        if connection.pgconn.transaction_status == TransactionStatus.ACTIVE:
            try:
                connection.wait(fetch_many(connection.pgconn))
            except BaseException:
                connection.close()
                raise
        return connection

    def _connect(self) -> Connection:
        connection = Connection.to(self.address)
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
            # A statement that takes long is waited for, whatever the role's setting.
            "statement_timeout": "0",
            "standard_conforming_strings": "on",
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

    def _translate(self, error: Exception, doing: str) -> SimhbaseError:
        assert isinstance(error, psycopg.Error)
        return translated(error, doing, self.address)


def last_row(cursor: Cursor) -> Row | None:
    """The row of the last of several statements."""
    while cursor.nextset():
        pass
    return cursor.fetchone()


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
    if isinstance(error, errors.DiskFull):
        return StoreFailed(f"{doing}: {said}. Make room on the server's disk, and repeat it")
    if isinstance(error, errors.DependentObjectsStillExist):
        return StoreFailed(f"{doing}: {said}: {error.diag.message_detail}. Drop these first")
    if isinstance(error, errors.InsufficientPrivilege):
        return StoreFailed(f"{doing}: {said}. Grant it to the role, or use another")
    if isinstance(error, _LOST) or (isinstance(error, psycopg.OperationalError) and error.sqlstate is None):
        return _unreachable(said, doing)
    return StoreFailed(f"{doing}: {said}")


def _unreachable(said: str, doing: str) -> SimhbaseError:
    if any(reason in said for reason in _INSECURE):
        return StoreFailed(f"{doing}: {said}. Correct sslmode= and the certificates in the URL")
    refused = "FATAL" in said or "no password supplied" in said
    if refused and "does not exist" in said and "database" in said:
        return TablesMissing(f"{doing}: {said}. Create the database, or correct the URL")
    if refused and not any(reason in said for reason in _PASSING):
        return StoreFailed(f"{doing}: the server refused the connection: {said}")
    return StoreUnreachable(f"{doing}: {said}")
