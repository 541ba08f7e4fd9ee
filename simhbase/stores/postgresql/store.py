"""The tables of a store, and operations on all of them in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import mmh3
import numpy as np

from simhbase.drawers.layout import Layout
from simhbase.drawers.layout import layout as layout_called
from simhbase.drawers.rowkeys import KEY_BYTES
from simhbase.errors import StoreFailed, TablesMissing, UsageError
from simhbase.process.progress import Progress, no_progress
from simhbase.stores.atomic import ServerStore
from simhbase.stores.base import (
    ATOMIC_TABLES,
    MET,
    Access,
    Changes,
    NearLimits,
    NearRows,
    RecordTable,
    now,
)
from simhbase.stores.meta import Meta
from simhbase.stores.postgresql import durability, sql
from simhbase.stores.postgresql.client import Client, Connection, last_row
from simhbase.stores.postgresql.drawers import INDEX, PostgresDrawers
from simhbase.stores.postgresql.near import near
from simhbase.stores.postgresql.records import COPIED_ROWS, PostgresRecords
from simhbase.stores.postgresql.url import parse

T = TypeVar("T")
_LAYOUT = b"layout"  # row of meta: the layout of an index table that drawers are derived from
_SCHEMAS = "SELECT 1 FROM pg_namespace WHERE nspname = %b::text"
_OF_OTHERS = (
    "its owner's code would have the rights of this role. Name another schema= in the URL, remove it, or use "
    "the role of its owner"
)
_NO_TIMES = np.empty(0, dtype=np.int64)

# A commit waits for synchronous standbys only if it has written something. What a transaction reads may be
# what an earlier one wrote that no standby has: the server stopped while that waited for one.
_AWAIT_STANDBYS = (
    "SELECT pg_logical_emit_message(true, 'simhbase', '') "
    "WHERE current_setting('synchronous_standby_names') <> ''"
)


class PostgresStore(ServerStore[PostgresRecords]):
    _client: Client

    def __init__(self, url: str, access: Access) -> None:
        super().__init__(url, access)
        address = self._address = parse(url)
        self._schema = address.schema
        self._quoted = f'"{address.schema}"'  # it may be a word of SQL
        self._client = Client(address, access)
        self._records = {table: self.new_records(table) for table in self.tables}
        self._drawers: PostgresDrawers | None = None
        lock = mmh3.hash64(f"simhbase {address.schema}", signed=True)[0]
        self._lock = f"SELECT pg_advisory_xact_lock({lock})", f"SELECT {self._identity}"
        self._opened: int | None = None  # the table's number

    def new_records(self, table: RecordTable) -> PostgresRecords:
        return PostgresRecords(self._client, table)

    @property
    def _identity(self) -> str:
        """An expression: the number of a table, which another one of this name does not have."""
        return f"to_regclass('{self._schema}.meta')::oid::int8"

    def open(self) -> None:
        before = now()
        ((self._opened, ms, read_only, code),) = self._client.rows(
            "opening",
            f"SELECT {self._identity}, floor(extract(epoch FROM clock_timestamp()) * 1000)::int8, "
            f"current_setting('transaction_read_only') = 'on', {sql.CODE}",
            [self._names],
        )
        if self._opened is None:
            raise TablesMissing(
                f"{self.url}: there are no tables in the schema {self._schema}. Create them with 'simhbase "
                "tables create', or correct schema= in the URL"
            )
        if read_only and self._access != "read":
            raise StoreFailed(f"{self.url}: the server is read-only, such as a standby. Name the primary")
        self._refuse_code(code)
        self._take_clock(before, ms)

    @property
    def _names(self) -> list[str]:
        """All tables that there may be, with their schema."""
        return [f"{self._schema}.{name}" for name in (*ATOMIC_TABLES, MET, INDEX)]

    def _refuse_code(self, found: Sequence[str]) -> None:
        """Raises StoreFailed for code of another role: it would have the rights of this one."""
        if found:
            raise StoreFailed(f"{self.url}: {found[0]}, which simhbase has not made: {_OF_OTHERS}")

    @property
    def drawers(self) -> PostgresDrawers:
        # Not when it is opened: another process may be creating the tables.
        if self._drawers is None:
            self._drawers = PostgresDrawers(self._client, self._layout())
        return self._drawers

    def _layout(self) -> Layout | None:
        """The layout that drawers are derived from. Raises StoreFailed if the row is damaged."""
        meta = Meta(self)
        name = meta.get(_LAYOUT)
        try:
            return None if name is None else layout_called(name.decode())
        except (UsageError, UnicodeDecodeError) as error:
            raise meta.damaged(_LAYOUT, error) from error

    def create(self, *, counts: bool) -> None:
        with self.exclusive():
            self._create()
            if counts and f"{self._schema}.{MET}" not in self.existing():
                self._require_free([f"{self._schema}.{MET}"])
                self._client.run("creating", sql.records(self._address.table(MET)))

    def _create(self) -> None:
        if self.existing():
            ((code,),) = self._client.rows("creating", f"SELECT {sql.CODE}", [self._names])
            self._refuse_code(code)
        else:
            self._require_room()
            # To create a schema if it does not exist takes the right to create one even if it does.
            if not self._client.rows("creating", _SCHEMAS, [self._schema]):
                self._client.run("creating", f"CREATE SCHEMA {self._quoted}")
            tables = map(self._address.table, self.tables)
            for statement in (*map(sql.records, tables), *sql.documents(self._quoted)):
                self._client.run("creating", statement)
            PostgresDrawers(self._client, None).create()

    def _require_room(self) -> None:
        """Raises StoreFailed for a database that cannot hold all texts, and if something of others has a
        name that is needed."""
        ((encoding,),) = self._client.rows("creating", "SELECT getdatabaseencoding()")
        if encoding != "UTF8":
            raise StoreFailed(
                f"creating {self.url}: the database's encoding is {encoding}, in which SQL cannot show all "
                "ids. Name a database whose encoding is UTF8"
            )
        names = [f"{self._schema}.{name}" for name in (*self.tables, INDEX, sql.VIEW)]
        self._require_free(names, [f"{self._schema}.{function}" for function in sql.FUNCTIONS])

    def _require_free(self, names: Sequence[str], functions: Sequence[str] = ()) -> None:
        given = list(names), list(functions)
        ((taken,),) = self._client.rows("creating", f"SELECT {sql.TAKEN}", given)
        if taken:
            raise StoreFailed(
                f"creating {self.url}: there is already {', '.join(taken)}, which simhbase has not made. "
                "Name another schema= in the URL"
            )

    def existing(self) -> list[str]:
        """The tables, with their schema; without those of others that have the names."""
        tables = (*ATOMIC_TABLES, MET)  # also one of an interrupted creation
        forms = dict.fromkeys(tables, (sql.COLUMNS,)) | {INDEX: sql.INDEX_COLUMNS}
        names = [f"{self._schema}.{table}" for table in forms]
        found = dict[str, list[str]](self._client.rows("opening", sql.COLUMNS_OF, [names]))
        both = zip(names, forms.values(), strict=True)
        return [name for name, allowed in both if tuple(found.get(name, ())) in allowed]

    def drop(self) -> None:
        """Removes the tables, and the schema if nothing else is in it."""
        with self.exclusive():
            tables = [self._address.table(name.rpartition(".")[2]) for name in self.existing()]
            for statement in sql.drop(self._schema, tables) if tables else ():
                self._client.run("dropping", statement)

    def arrange(self, layout: Layout | None) -> None:
        with self.exclusive():
            self._drawers = PostgresDrawers(self._client, layout)
            self._drawers.create()
            meta = Meta(self)
            meta.delete([_LAYOUT])
            for statement in sql.near(self._quoted, layout):
                self._client.run("creating", statement)
            if layout is not None:
                meta.put([(_LAYOUT, layout.name.encode())])

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """A transaction that holds the store's advisory lock, which every writer takes."""
        with self._client.transaction(self._begin):
            yield

    def _begin(self, connection: Connection) -> None:
        # Each statement sees what was committed before it, and so all that was under the lock.
        begin = "BEGIN ISOLATION LEVEL READ COMMITTED", *connection.begin
        statements = *begin, _AWAIT_STANDBYS, *self._lock
        found = last_row(connection.execute("; ".join(statements), prepare=False))
        if self._opened is not None and found != (self._opened,):
            raise TablesMissing(
                f"{self.url}: the tables were dropped, or dropped and created again, since they were opened. "
                "Open the store again"
            )

    def near(self, value: int, prefixes: Sequence[bytes], limits: NearLimits) -> NearRows:
        return near(self._client, self.drawers, value, prefixes, limits)

    def read_consistent(self, read: Callable[[], T]) -> T:
        return self._client.consistent(read)

    def commit(self, changes: Changes) -> None:
        with self.exclusive():
            if all(len(keys) < COPIED_ROWS for keys, _ in changes.put.values()):
                self._client.send_together()
            self.drawers.remove(changes.unindex.reshape(-1, KEY_BYTES), _NO_TIMES)
            for table, gone in changes.delete.items():
                self._records[table].delete(gone)
            for table, (keys, values) in changes.put.items():
                self._records[table].put_all(keys, values, changes.version)
            self.drawers.add(changes.index)

    def require_writable(self) -> None:
        """Raises StoreFailed if the server is read-only, StoreUnreachable."""
        self.open()

    def warnings(self) -> Sequence[str]:
        return durability.warnings(self._client)

    def compact(self, progress: Progress = no_progress, *, whole: bool = False) -> None:
        """Vacuum all tables, so that lookups need their indexes only and the planner has statistics. Reads
        and writes continue meanwhile."""
        statement = f"VACUUM (ANALYZE) {', '.join(map(self._address.table, (*self.tables, INDEX)))}"
        self._client.call("vacuuming", lambda connection: connection.execute(statement, prepare=False))
