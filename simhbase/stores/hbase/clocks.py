"""Versions follow the servers' clock: opening for writing measures its difference from this machine's."""

from __future__ import annotations

from simhbase.errors import StoreFailed
from simhbase.process.logs import logger
from simhbase.stores.base import now as now
from simhbase.stores.hbase.client import GatewayClient
from simhbase.stores.hbase.connection import Connection
from simhbase.stores.hbase.requests import Table

WARNING_MS = 5_000
MOST_MS = 3_600_000
# Another column than that of records, so reads never return it.
_COLUMN = b"d:clock"
ROW = b"clock"

log = logger(__name__)


def ahead(client: GatewayClient, meta: Table) -> int:
    """Measure by how many milliseconds this machine's clock is ahead of a server's (negative: behind); 0 if
    the difference is less than the duration of the call. Warns from some seconds on.

    Raises StoreFailed if they differ by more than an hour, and the errors of a write.
    """
    before, there, after = server_time(client, meta)
    # The call itself accounts for part of the difference.
    difference = max(before - there, 0) + min(after - there, 0)
    if abs(difference) > MOST_MS:
        raise StoreFailed(
            f"this machine's clock is {_words(difference)} of HBase's, which is too much to correct: "
            "set the clocks with NTP, and open the store again"
        )
    if abs(difference) >= WARNING_MS:
        log.warning("this machine's clock is %s of HBase's: set the clocks with NTP", _words(difference))
    return difference


def server_time(client: GatewayClient, meta: Table) -> tuple[int, int, int]:
    """Write the row ROW of meta and read its timestamp: returns that, between this machine's times before and
    after. Raises the errors of a write."""

    def put(connection: Connection) -> tuple[int, int, int]:
        table = connection.table(meta.name)
        before = now()
        table.put(ROW, {_COLUMN: b""})
        after = now()
        ((_, time_there),) = table.row(ROW, [_COLUMN], include_timestamp=True).values()
        return before, time_there, after

    with client.writing(meta) as operation:
        return client.call(operation, put)


def _words(milliseconds: int) -> str:
    return f"{abs(milliseconds) / 1000:.0f} s {'ahead' if milliseconds > 0 else 'behind'}"
