"""A store whose tables are in HBase, and the order in which they are written.

Any number of processes write without locks, with clocks that differ, through gateways that may carry out a
call twice, or late. HBase changes one row at a time. So a document is written in this order (`commit`), each
step when the one before is acknowledged:

1. `obsolete`: notes for vacuum, of the listings that the commit will make obsolete. They have the time of the
   operation: vacuum waits by it until operations and lookups that it may disturb have ended.
2. `fingerprints`: its listing, a hint: the document may have this fingerprint.
3. `index`: its drawers, also hints. They have the server's time, as documents whose clocks differ share them.
4. `documents`: the commit. This row is authoritative, also for a deleted document.

A crash leaves hints that lead nowhere, never a document without hints. Nothing is deleted: a delete would
hide later puts, and a lookup may need the old hints, which lead to the document where it is now. Of a
documents row the highest version wins, so that repeated and late calls change nothing. Its listing has the
same version, but is never older than the operation: vacuum and repair remove old hints without a document.

`tests/exploration.py` runs this under every interleaving of its calls. Rows that are loaded as files keep the
order (`loads/hfiles.py`). Claims put theirs with pending cells first, which are no commit (`put_pending`,
`index/claims/batch.py`), and end with step 4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from thriftpy2.thrift import TApplicationException

from simhbase.drawers.layout import Layout
from simhbase.errors import StoreFailed
from simhbase.process.logs import logger
from simhbase.process.progress import Progress, no_progress
from simhbase.stores.arrays import versions_of
from simhbase.stores.attempts import Outage
from simhbase.stores.base import (
    LARGEST_COMMIT,
    MET,
    RECORD_TABLES,
    Access,
    Changes,
    NearLimits,
    NearRows,
    RecordTable,
    Ttl,
    near_by_read,
)
from simhbase.stores.hbase import clocks
from simhbase.stores.hbase.client import GatewayClient, tasks
from simhbase.stores.hbase.connection import ACCESS_DENIED, CallRefused, Connection
from simhbase.stores.hbase.counters import Counters
from simhbase.stores.hbase.drawers import HBaseDrawers
from simhbase.stores.hbase.filtered import FilteredScans
from simhbase.stores.hbase.interface import thrift2
from simhbase.stores.hbase.pool import thrift1_pool, thrift2_pool
from simhbase.stores.hbase.records import HBaseNamedRecords, HBaseRecords
from simhbase.stores.hbase.requests import Table
from simhbase.stores.hbase.schema import INDEX, TABLES, table_spec
from simhbase.stores.hbase.url import Address

INDEX_COLUMN, RECORD_COLUMN = b"i:", b"d:"  # without the colon the gateway fails inside
# HBase says so where cells stay.
_FOREVER = (-1, 2**31 - 1)

T = TypeVar("T")

log = logger(__name__)


# Filtered scans read all cells of rows; documents rows also have those of claims.
SCANNED = ("fingerprints", "obsolete", MET)


class HBaseStore:
    """Implements HintingStore. Acknowledged writes are in the servers' write-ahead logs; many processes may
    write."""

    tables: tuple[RecordTable, ...] = RECORD_TABLES
    multi_writer = True
    keeps_hints = True
    largest_commit = LARGEST_COMMIT

    def __init__(self, address: Address, access: Access) -> None:
        self.url = address.url
        self._access = access
        self._counters = Counters()
        pool = thrift1_pool(address, self._counters)
        self._outage = Outage(address.url)
        self._client = GatewayClient(address, access, pool, self._counters, self._outage)
        pool2 = thrift2_pool(address, thrift2.Reading, self._counters)
        self._filtering = (
            GatewayClient(address, "read", pool2, self._counters, self._outage) if address.gateways2 else None
        )
        tables = (*TABLES, MET)
        names = {table: table_spec(table, address.namespace, address.prefix).full_name for table in tables}
        self._index = Table(names[INDEX], INDEX_COLUMN)
        self._tables = {table: Table(names[table], RECORD_COLUMN) for table in (*RECORD_TABLES, MET)}
        self.drawers = HBaseDrawers(self._client, self._index, self._filtered(self._index), self._counters)
        self._records = {
            name: HBaseRecords(self._client, table, name, self._filtered(table) if name in SCANNED else None)
            for name, table in self._tables.items()
        }
        self.document_cells = HBaseNamedRecords(self._client, self._tables["documents"])
        self._ttl: tuple[Ttl] | None = None
        self._clock_ahead = 0  # milliseconds

    def records(self, table: RecordTable) -> HBaseRecords:
        return self._records[table]

    def keep_counts(self) -> None:
        self._client.require(self._tables[MET])
        self.tables = (*RECORD_TABLES, MET)

    def commit(self, changes: Changes) -> None:
        """Write the tables in the order of the rules above. Each call waits for its acknowledgement."""
        listings, version = changes.rows("fingerprints"), changes.version
        hinted = [max(changes.time, at) for _, at in zip(listings, versions_of(version), strict=False)]
        self.records("obsolete").put(changes.rows("obsolete"), changes.time)
        self.records("fingerprints").put(listings, hinted)
        self.drawers.add(changes.index)
        self.records("documents").put(changes.rows("documents"), version)

    def put_pending(
        self,
        name: bytes,
        documents: Sequence[tuple[bytes, bytes]],
        listings: Sequence[tuple[bytes, bytes]],
        keys: NDArray[np.uint8],
        versions: Sequence[int],
    ) -> None:
        requests = [
            *self.document_cells.puts(name, documents, versions),
            *self._records["fingerprints"].puts(listings, versions),
            *self.drawers.puts(keys),
        ]
        with self._client.writing(self._tables["documents"]) as operation:
            self._client.write(operation, tasks(requests))

    def table(self, name: str) -> Table:
        """One of schema.TABLES."""
        return self._index if name == INDEX else self._tables[cast(RecordTable, name)]

    def region_starts(self, name: str) -> list[bytes]:
        """Current first keys of a table's regions, sorted."""
        table = self.table(name)

        def regions(connection: Connection) -> list[dict[str, Any]]:
            try:
                found: list[dict[str, Any]] = connection.table(table.name).regions()
            except TApplicationException as error:
                # A gateway fails on a region that is being split.
                raise CallRefused(connection.gateway, str(error.message), final=False) from error
            return found

        with self._client.reading(table) as operation:
            found = self._client.call(operation, regions)
        return sorted(region["start_key"] for region in found)

    def server_time(self) -> int:
        """A server's time in milliseconds since 1970; writes the row clocks.ROW of meta."""
        _, there, _ = clocks.server_time(self._client, self._tables["meta"])
        return there

    def ttl(self) -> Ttl:
        """Seconds after which cells of documents expire; None if they do not, "unknown" if the gateway's user
        may not know. Cached."""
        if self._ttl is None:
            try:
                found: Ttl = self._read_ttl()
            except StoreFailed as error:
                if ACCESS_DENIED not in str(error):
                    raise
                log.warning("unchanged documents are not rewritten before they expire: %s", error)
                found = "unknown"
            self._ttl = (None if found in _FOREVER else found,)
        return self._ttl[0]

    def _read_ttl(self) -> int:
        table = self._tables["documents"]
        with self._client.reading(table, "describing") as operation:
            families = self._client.call(
                operation, lambda connection: connection.table(table.name).families()
            )
        seconds: int = families[RECORD_COLUMN.rstrip(b":")]["time_to_live"]
        return seconds

    def require(self) -> None:
        """Raises TablesMissing, StoreUnreachable, and StoreFailed for a disabled table or, if opened for
        writing, a wrong clock."""
        for table in (self._index, *(self._tables[name] for name in RECORD_TABLES)):
            self._client.require(table)
        if self._access != "read":
            self._clock_ahead = clocks.ahead(self._client, self._tables["meta"])

    def now(self) -> int:
        """The servers' time, as measured when opening for writing: with a clock that is ahead, a delayed call
        could overwrite newer data."""
        return clocks.now() - self._clock_ahead

    def arrange(self, layout: Layout | None) -> None: ...

    def exclusive(self) -> AbstractContextManager[object]:
        """No effect: other processes write anyway."""
        return nullcontext()

    def read_consistent(self, read: Callable[[], T]) -> T:
        """Calls `read`: rows that a reader may need are not removed."""
        return read()

    def near(self, value: int, prefixes: Sequence[bytes], limits: NearLimits) -> NearRows:
        return near_by_read(self, value, prefixes, limits)

    def fail_fast(self) -> None:
        self._outage.fails_fast = True

    def refresh(self) -> None:
        """No effect: all writes are visible."""

    def sync(self) -> None:
        """No effect: acknowledged writes are in write-ahead logs."""

    def warnings(self) -> Sequence[str]:
        return ()

    def recount(self, *, repair: bool) -> Sequence[str]:
        return ()

    def require_writable(self) -> None:
        """No effect: calls report failures."""

    def compact(self, progress: Progress = no_progress, *, whole: bool = False) -> None:
        """No effect: region servers compact their files themselves."""

    def counters(self) -> Mapping[str, int]:
        """Counts since it was opened; see counters.NAMES."""
        return self._counters.numbers()

    def gauges(self) -> Mapping[str, int]:
        """Use of its connections, for both Thrift versions; see Pool.gauges."""
        clients = (self._client,) if self._filtering is None else (self._client, self._filtering)
        numbers = [client.gauges() for client in clients]
        return {name: sum(each[name] for each in numbers) for name in numbers[0]}

    def close(self) -> None:
        self._client.close()
        if self._filtering is not None:
            self._filtering.close()

    def _filtered(self, table: Table) -> FilteredScans | None:
        return FilteredScans(self._client, self._filtering, table) if self._filtering is not None else None
