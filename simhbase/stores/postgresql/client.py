"""Connections to the server, and transactions.

Inside a transaction all calls of the thread share a connection, and nothing is done before its end.

Behind a connection pooler each transaction may be in another session, and a session be given to others: there
each transaction begins with its settings, and no statement is prepared. Every statement names the schema.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Self, TypeVar

import psycopg
from psycopg import errors
from psycopg.abc import Buffer
from psycopg.generators import fetch_many
from psycopg.pq import PipelineStatus, TransactionStatus

from simhbase.errors import SimhbaseError, StoreFailed
from simhbase.stores.base import Access
from simhbase.stores.pool import Pool
from simhbase.stores.postgresql.arrays import register
from simhbase.stores.postgresql.failures import password_of, passwords_in, translated
from simhbase.stores.postgresql.url import Address

# It logs what the errors say that are raised, and without a handler Python would print that.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

T = TypeVar("T")
Row = tuple[Any, ...]
Cursor = psycopg.Cursor[Row]
Parameters = Sequence[object] | Mapping[str, object]

OLDEST_SERVER = 140000  # bit_count
SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class Pipeline(psycopg.Pipeline):
    """Statements that are sent together, with a Sync behind them.

    psycopg sends a Flush, too, which a pooler that has released the session meanwhile takes for the beginning
    of a transaction: it would keep a session for an idle client.
    """

    def _exit_gen(self) -> Generator[Any, Any, None]:
        try:
            self._enqueue_sync()
            yield from self._communicate_gen()
        finally:
            yield from self._fetch_gen(flush=False)


class Connection(psycopg.Connection[Row]):
    """One that notices a server which hangs. begin: statements that each transaction begins with."""

    address: Address
    begin: tuple[str, ...] = ()

    @classmethod
    def to(cls, address: Address) -> Self:
        connection = cls.connect(**address.server, autocommit=True, prepare_threshold=0)
        connection.address = address
        return connection

    @contextmanager
    def pipeline(self) -> Iterator[psycopg.Pipeline]:
        if self._pipeline is None:
            self._pipeline = Pipeline(self)
        with super().pipeline() as pipeline:
            yield pipeline

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
        self._passwords = set[str]()

    def rows(self, doing: str, statement: str, parameters: Parameters | None = None) -> list[Row]:
        """The rows of a statement that may be repeated."""
        return self.call(
            doing, lambda connection: self._executed(connection, statement, parameters).fetchall()
        )

    def run(self, doing: str, statement: str, parameters: Parameters | None = None) -> None:
        """Executes a statement that may be repeated."""
        self.call(doing, lambda connection: self._executed(connection, statement, parameters))

    def _executed(self, connection: Connection, statement: str, parameters: Parameters | None) -> Cursor:
        unsent = self._own.unsent if self.held else connection.begin
        if not unsent:
            return connection.execute(statement, parameters, binary=True)
        self._own.unsent = ()
        with connection.pipeline():  # one transaction, also without BEGIN
            for begin in unsent:
                connection.execute(begin, prepare=False)
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
        """Makes all calls of this thread one transaction, which `begin` starts, with what its connection
        begins with. Raises what `call` does."""
        if self.held:
            yield
            return
        doing = "writing"
        with (
            self.holding(doing, begin) as connection,
            self.translated(doing),
            ExitStack() as self._own.together,
        ):
            self._own.unsent = ()
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
                self._own.unsent = SNAPSHOT, *connection.begin
                result = read()
                if not self._own.unsent:
                    connection.pgconn.send_query(b"COMMIT")
                    connection.pgconn.flush()
                return result

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
        self._passwords.add(password_of(connection.pgconn))
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
        statement = settings(self.address, self._access, connection.info.backend_pid)
        own = connection.execute(statement, prepare=False).fetchall()[0][0]
        if not own:
            connection.prepare_threshold = None
            connection.begin = (statement,)
            for each in ("BEGIN", "COMMIT"):  # a pooler that refuses transactions says so here
                connection.execute(each)

    def _translate(self, error: Exception, doing: str) -> SimhbaseError:
        assert isinstance(error, psycopg.Error)
        return translated(error, doing, self.address, self._secrets(error))

    def _secrets(self, error: Exception) -> Iterable[str]:
        connecting = error.pgconn if isinstance(error, psycopg.Error) else None
        own = {password_of(connecting)} if connecting else set[str]()
        return self._passwords | own | passwords_in(self.address.passwords)


def settings(address: Address, access: Access, process: int) -> str:
    """A statement that sets what is needed, whatever the role's settings; it leaves out what the server does
    not know. process: the server's, as it was said when connecting. If that is true, the settings hold for
    the session; otherwise a pooler has made it up, and they hold for the transaction. The first column says
    if it is true."""
    values = {
        # All names without a schema are the system's.
        "search_path": "pg_catalog, pg_temp",
        # Rows that a policy hides would be missing from answers, or taken for lost: an error instead.
        "row_security": "off",
        "lock_timeout": f"{address.timeout * 1000:.0f}ms",
        # A statement that takes long is waited for.
        "statement_timeout": "0",
        "transaction_timeout": "0",
        # Every statement has an index; without statistics the planner may not see it. One plan is kept.
        "enable_seqscan": "off",
        "enable_bitmapscan": "off",
        "plan_cache_mode": "force_generic_plan",
        # The planner expects a few near fingerprints, and a hash for a few is put on disk again and again
        # where there are many: 39,000 took a minute.
        "enable_hashagg": "off",
        "jit": "off",
        # The locks of a client that has vanished are released soon.
        "tcp_keepalives_idle": "30",
        "tcp_keepalives_interval": "10",
        "tcp_keepalives_count": "3",
        "synchronous_commit": "on",
    }
    if access == "read":
        values["default_transaction_read_only"] = values["transaction_read_only"] = "on"
    rows = ", ".join(f"('{name}', '{value}')" for name, value in values.items())
    own = f"pg_backend_pid() = {process}"
    return (
        f"SELECT {own}, set_config(name, value, NOT {own}) FROM (VALUES {rows}) AS setting(name, value) "
        "WHERE current_setting(name, true) IS NOT NULL "
        "AND (name <> 'synchronous_commit' OR current_setting(name) = 'off')"
    )


def last_row(cursor: Cursor) -> Row | None:
    """The row of the last of several statements."""
    while cursor.nextset():
        pass
    return cursor.fetchone()
