"""The servers' time, kept in a cell of the meta table."""

from __future__ import annotations

import secrets
import time
from typing import Any

from simhbase.stores.hbase.calls import Client, ask
from simhbase.stores.hbase.requests import TableRequests

# Clocks of region servers may differ by so much without harm; NTP keeps them closer.
CLOCK_SKEW = 0.01  # seconds
# Beside the column of the records, which therefore never show it.
CLOCK_COLUMN = b"d:clock"
_ROW = b"clock"
_MARK_BYTES = 8


class Clock:
    """A cell that everybody sets before they remove anything from the index."""

    def __init__(self, client: Client, meta: str) -> None:
        self._client = client
        self._table = TableRequests(meta, CLOCK_COLUMN)

    def moment(self) -> int:
        """A server's time, in milliseconds, that has passed when this returns.

        The time is that of a cell which is put and read back, because rows get their times from the
        servers, whose clocks this machine's may differ from. Whatever was put before has an earlier
        time or the same, and is removed; the pause gives a later one to whatever is put after, at
        servers whose clocks are behind by no more than CLOCK_SKEW.
        """
        mark = secrets.token_bytes(_MARK_BYTES)
        self._client.write(self._table, [lambda: ask(self._table.put([(_ROW, mark)]))])
        (cell,) = self._cells()
        timestamp: int = cell.timestamp
        time.sleep(CLOCK_SKEW)
        return timestamp

    def mark(self) -> bytes:
        """What the latest moment has left, another one each time; empty where there was none yet."""
        return b"".join(cell.value for cell in self._cells())

    def _cells(self) -> list[Any]:
        """The cell, or none."""
        (rows,) = self._client.read(self._table, [lambda: ask(self._table.get([_ROW]))])
        return [row.columns[CLOCK_COLUMN] for row in rows]
