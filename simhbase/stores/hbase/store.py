"""A store whose tables are in HBase."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from simhbase.stores.base import RECORD_TABLES, Access, RecordTable
from simhbase.stores.ddl import INDEX, TABLES, table_spec
from simhbase.stores.hbase.address import Address
from simhbase.stores.hbase.calls import Client
from simhbase.stores.hbase.clock import Clock
from simhbase.stores.hbase.requests import TableRequests
from simhbase.stores.hbase.tables import INDEX_COLUMN, RECORD_COLUMN, HBaseDrawers, HBaseRecords


class HBaseStore:
    """See simhbase.stores.base.Store. What a call has acknowledged is in the servers' write-ahead
    logs; many processes may write."""

    def __init__(self, address: Address, access: Access) -> None:
        self.url = address.url
        self._client = Client(address, access)
        names = {table: table_spec(table, address.namespace, address.prefix).full_name for table in TABLES}
        self._index = TableRequests(names[INDEX], INDEX_COLUMN)
        self._tables = {table: TableRequests(names[table], RECORD_COLUMN) for table in RECORD_TABLES}
        self._clock = Clock(self._client, names["meta"])
        self.drawers = HBaseDrawers(self._client, self._index, self._clock)
        self._records = {
            table: HBaseRecords(self._client, requests, table) for table, requests in self._tables.items()
        }

    def records(self, table: RecordTable) -> HBaseRecords:
        """One of the other tables."""
        return self._records[table]

    def require_tables(self) -> None:
        """Raises TablesMissing, StoreFailed for a disabled table, StoreUnreachable."""
        for table in (self._index, *self._tables.values()):
            self._client.require(table)

    def exclusive(self) -> AbstractContextManager[object]:
        """Keeps nobody out: other processes would come in all the same.

        So two that load with --unique-only at once may both keep texts that are near each other; one
        alone, or any number without it, is right. Removals are ordered by `moment`, and a lookup
        notices what moves while it reads: see HBaseDrawers.read.
        """
        return nullcontext()

    def moment(self) -> int:
        """A server's time, in milliseconds; see Clock.moment."""
        return self._clock.moment()

    def refresh(self) -> None:
        """Does nothing: what others wrote is visible."""

    def sync(self) -> None:
        """Does nothing: what was acknowledged is in the write-ahead logs."""

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()
