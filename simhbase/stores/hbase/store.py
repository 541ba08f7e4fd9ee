"""A store whose tables are in HBase."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext

from simhbase.stores.base import RECORD_TABLES, Access, RecordTable
from simhbase.stores.ddl import INDEX, TABLES, table_spec
from simhbase.stores.hbase.address import Address
from simhbase.stores.hbase.calls import Client, ask
from simhbase.stores.hbase.requests import TableRequests
from simhbase.stores.hbase.tables import INDEX_COLUMN, RECORD_COLUMN, HBaseDrawers, HBaseRecords

# Clocks of region servers may differ by so much without harm; NTP keeps them closer.
CLOCK_SKEW = 0.01  # seconds
# Beside the column of the records, which therefore never show it.
_CLOCK_ROW, _CLOCK_COLUMN = b"clock", b"d:clock"


class HBaseStore:
    """See simhbase.stores.base.Store. What a call has acknowledged is in the servers' write-ahead
    logs; many processes may write."""

    def __init__(self, address: Address, access: Access) -> None:
        self.url = address.url
        self._client = Client(address, access)
        names = {table: table_spec(table, address.namespace, address.prefix).full_name for table in TABLES}
        self._index = TableRequests(names[INDEX], INDEX_COLUMN)
        self._tables = {table: TableRequests(names[table], RECORD_COLUMN) for table in RECORD_TABLES}
        self._clock = TableRequests(names["meta"], _CLOCK_COLUMN)
        self.drawers = HBaseDrawers(self._client, self._index)
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
        """Keeps nobody out: other processes would come in all the same."""
        return nullcontext()

    def moment(self) -> int:
        """A server's time, in milliseconds, that has passed when this returns.

        The time is that of a cell which is put and read back, because rows get their times from the
        servers, whose clocks this machine's may differ from. Whatever was put before has an earlier
        time or the same, and is removed; the pause gives a later one to whatever is put after, at
        servers whose clocks are behind by no more than CLOCK_SKEW.
        """
        self._client.write(self._clock, [lambda: ask(self._clock.put([(_CLOCK_ROW, b"")]))])
        ((row,),) = self._client.read(self._clock, [lambda: ask(self._clock.get([_CLOCK_ROW]))])
        moment: int = row.columns[_CLOCK_COLUMN].timestamp
        time.sleep(CLOCK_SKEW)
        return moment

    def refresh(self) -> None:
        """Does nothing: what others wrote is visible."""

    def sync(self) -> None:
        """Does nothing: what was acknowledged is in the write-ahead logs."""

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()
