"""The tables of a store, and operations on all of them in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from typing import TypeVar

import mmh3
import numpy as np

from simhbase.drawers.layout import Layout
from simhbase.drawers.layout import layout as layout_called
from simhbase.drawers.rowkeys import KEY_BYTES
from simhbase.errors import StoreFailed, TablesMissing
from simhbase.progress import Progress, no_progress
from simhbase.stores.arrays import ahead_of, ttl_in
from simhbase.stores.base import ATOMIC_TABLES, LARGEST_COMMIT, Access, Changes, RecordTable, now
from simhbase.stores.postgresql import sql
from simhbase.stores.postgresql.client import Client, Cursor
from simhbase.stores.postgresql.drawers import INDEX, PostgresDrawers
from simhbase.stores.postgresql.records import COPIED_ROWS, PostgresRecords
from simhbase.stores.postgresql.url import Address

T = TypeVar("T")
_LAYOUT = b"layout"  # row of meta: the layout of an index table that drawers are derived from
_SCHEMAS = "SELECT 1 FROM pg_namespace WHERE nspname = %b::text"
_NO_TIMES = np.empty(0, dtype=np.int64)


class PostgresStore:
    tables = ATOMIC_TABLES
    multi_writer = True
    largest_commit = LARGEST_COMMIT

    def __init__(self, address: Address, access: Access) -> None:
        self.url = address.url
        self._schema = address.schema
        self._access = access
        self._client = Client(address, access)
        self._ahead = 0  # milliseconds of this machine's clock
        self._records = {table: PostgresRecords(self._client, table) for table in self.tables}
        self._drawers: PostgresDrawers | None = None
        lock = mmh3.hash64(f"simhbase {address.schema}", signed=True)[0]
        self._lock = f"BEGIN; SELECT pg_advisory_xact_lock({lock})"

    def open(self) -> None:
        """Reads how drawers are laid out, and the server's clock. Raises TablesMissing, and StoreFailed for
        a server that cannot be written to."""
        before = now()
        ((there, ms, read_only),) = self._client.rows(
            "opening",
            f"SELECT to_regclass('{self._schema}.meta') IS NOT NULL, "
            "floor(extract(epoch FROM clock_timestamp()) * 1000)::int8, "
            "current_setting('transaction_read_only') = 'on'",
        )
        if not there:
            raise TablesMissing(
                f"{self.url}: there are no tables in the schema {self._schema}. Create them with 'simhbase "
                "tables create', or correct schema= in the URL"
            )
        if read_only and self._access != "read":
            raise StoreFailed(f"{self.url}: the server is read-only, such as a standby. Name the primary")
        self._ahead = ahead_of(before, ms, now())

    @property
    def drawers(self) -> PostgresDrawers:
        # Not when it is opened: another process may be creating the tables.
        if self._drawers is None:
            (cell,) = self.records("meta").get([_LAYOUT])
            layout = None if cell is None else layout_called(cell.value.decode())
            self._drawers = PostgresDrawers(self._client, layout)
        return self._drawers

    def create(self) -> None:
        """Creates what is missing."""
        with self.exclusive():
            if self.existing_tables():
                return
            # To create a schema if it does not exist takes the right to create one even if it does.
            if not self._client.rows("creating", _SCHEMAS, [self._schema]):
                self._client.run("creating", f"CREATE SCHEMA {self._schema}")
            for statement in (*map(sql.records, self.tables), *sql.documents(self._schema)):
                self._client.run("creating", statement)
            PostgresDrawers(self._client, None).create()

    def existing_tables(self) -> list[str]:
        """The tables of the store that exist, with their schema."""
        names = [f"{self._schema}.{table}" for table in (*self.tables, INDEX)]
        there = self._client.rows(
            "opening",
            "SELECT name FROM unnest(%b::text[]) AS name WHERE to_regclass(name) IS NOT NULL",
            [names],
        )
        return [name for (name,) in there]

    def drop(self) -> None:
        """Removes the tables, and the schema if nothing else is in it."""
        with self.exclusive():
            for statement in sql.drop(self._schema, (*self.tables, INDEX)):
                self._client.run("dropping", statement)

    def arrange(self, layout: Layout | None) -> None:
        with self.exclusive():
            self._drawers = PostgresDrawers(self._client, layout)
            self._drawers.create()
            meta = self.records("meta")
            meta.delete([_LAYOUT])
            for statement in sql.near(self._schema, layout):
                self._client.run("creating", statement)
            if layout is not None:
                meta.put([(_LAYOUT, layout.name.encode())])

    def records(self, table: RecordTable) -> PostgresRecords:
        return self._records[table]

    def ttl(self) -> int | None:
        """Seconds after which documents expire; cached."""
        return self._ttl

    @cached_property
    def _ttl(self) -> int | None:
        return ttl_in(self.records("meta"))

    def now(self) -> int:
        """The server's clock."""
        return now() - self._ahead

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """A transaction that holds the store's advisory lock, which every writer takes."""
        with self._client.transaction("writing", self._lock):
            yield

    def read_consistent(self, read: Callable[[], T]) -> T:
        return self._client.consistent(read)

    def commit(self, changes: Changes) -> None:
        few = all(len(keys) < COPIED_ROWS for keys, _ in changes.put.values())
        with self.exclusive(), self._client.together("writing") if few else nullcontext():
            self.drawers.remove(changes.unindex.reshape(-1, KEY_BYTES), _NO_TIMES)
            for table, gone in changes.delete.items():
                self._records[table].delete(gone)
            for table, (keys, values) in changes.put.items():
                self._records[table].put_all(keys, values, changes.version)
            self.drawers.add(changes.index)

    def refresh(self) -> None: ...

    def sync(self) -> None: ...

    def warnings(self) -> Sequence[str]:
        return ()

    def require_writable(self) -> None:
        """Raises StoreFailed if the server is read-only, StoreUnreachable."""
        self.open()

    def compact(self, progress: Progress = no_progress, *, whole: bool = False) -> None:
        """Vacuum all tables, so that lookups need their indexes only and the planner has statistics. Reads
        and writes continue meanwhile."""

        def vacuum(cursor: Cursor) -> None:
            cursor.execute(f"VACUUM (ANALYZE) {', '.join((*self.tables, INDEX))}", prepare=False)

        self._client.call("vacuuming", vacuum)

    def counters(self) -> Mapping[str, int]:
        return {"retries": self._client.pool.retries}

    def gauges(self) -> Mapping[str, int]:
        return {
            "connections_allowed": self._client.pool.most,
            "connections_in_use": self._client.pool.in_use,
        }

    def close(self) -> None:
        self._client.pool.close()
