"""Opening for writing compares this machine's clock with a server's: versions are this machine's time."""

from __future__ import annotations

import time

from simhbase.errors import StoreFailed
from simhbase.logs import logger
from simhbase.stores.hbase.client import Client
from simhbase.stores.hbase.connection import Connection
from simhbase.stores.hbase.requests import Table

WARNING_MS = 5_000
MOST_MS = 3_600_000
# Beside the column of the records, which therefore never show it.
_COLUMN = b"d:clock"
ROW = b"clock"

log = logger(__name__)


def now() -> int:
    """This machine's time, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def compare(client: Client, meta: Table) -> None:
    """Raises StoreFailed where this machine's clock differs by more than an hour from a server's, and what a
    write raises; warns where it differs by more than some seconds."""
    before, there, after = server_time(client, meta)
    # The call itself took some of the time between.
    difference = max(before - there, 0) + min(after - there, 0)
    if abs(difference) > MOST_MS:
        raise StoreFailed(
            f"this machine's clock is {_words(difference)} of HBase's, and of two writes the one with the "
            "later time counts: set the clocks with NTP, and open the store again"
        )
    if abs(difference) >= WARNING_MS:
        log.warning("this machine's clock is %s of HBase's: set the clocks with NTP", _words(difference))


def server_time(client: Client, meta: Table) -> tuple[int, int, int]:
    """Puts a cell in the row ROW of meta, and looks which time it was given: that, between this machine's
    times before and after it. Raises what a write raises."""

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
