"""Combines many key ranges into one scan, through Thrift 2.

The server seeks from one range to the next, so all ranges of a region cost one call. If no gateway supports
this, or knows the filter, the caller uses Thrift 1.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simhbase.process.logs import logger
from simhbase.stores.hbase.answers import UnexpectedRow
from simhbase.stores.hbase.client import GatewayClient, Operation, tasks
from simhbase.stores.hbase.connection import AnswerTooLarge, CallFailed, CallRefused
from simhbase.stores.hbase.requests import Request, Table

MOST_RANGES = 2_000  # of one filter
FEWEST_RANGES = 50  # within a region that justify a separate call
ROWS = 8_192  # of one answer
# Share of an operation's remaining time that Thrift 2 may take before Thrift 1 takes over.
SHARE = 1 / 4
FIRST_REST, LONGEST_REST = 10.0, 300.0  # seconds without Thrift 2 after it has failed
REGIONS_SECONDS = 600.0  # lifetime of the cached regions

log = logger(__name__)


class FilteredScans:
    """Reads one table with filters. client: for Thrift 1; filtering: for Thrift 2."""

    def __init__(self, client: GatewayClient, filtering: GatewayClient, table: Table) -> None:
        self._client = client
        self._filtering = filtering
        self._table = table
        self._known = True
        self._rest = self._until = 0.0
        self._regions: NDArray[np.bytes_] = np.array([b""])
        self._regions_until = 0.0

    def is_usable(self) -> bool:
        """True if it should be tried."""
        return self._known and time.monotonic() >= self._until

    def forget(self, why: object) -> None:
        """Disable it: the gateway does not know the filter."""
        self._known = False
        log.warning("%s is read through Thrift 1 from now on: %s", self._table.name, why)

    def chunks(self, operation: Operation, starts: NDArray[np.bytes_]) -> list[tuple[int, int]]:
        """Group ranges into scans, as (first, last + 1): those that begin in one region, but leaving some for
        every connection. starts: sorted starts of the ranges."""
        regions = np.searchsorted(self._region_starts(operation), starts, side="right")
        most = self._filtering.share(len(starts), FEWEST_RANGES, MOST_RANGES)
        borders = [0, *(np.flatnonzero(np.diff(regions)) + 1).tolist(), len(starts)]
        return [
            (first, min(first + most, end))
            for begin, end in pairwise(borders)
            for first in range(begin, end, most)
        ]

    def read(self, operation: Operation, requests: Sequence[Request]) -> list[Any] | None:
        """The answers to requests; None if Thrift 1 must take over."""
        now = time.monotonic()
        deadline = now + (operation.end - now) * SHARE
        try:
            answers: list[Any] = self._filtering.try_once(tasks(requests), deadline)
        except UnexpectedRow:
            return None  # and says which row that is
        except AnswerTooLarge:
            return None  # and asks for fewer rows at once: sketches may have 16 kB
        except CallFailed as problem:
            if isinstance(problem, CallRefused):
                if problem.final:
                    self.forget(problem)
                return None
            self._rest = min(max(2 * self._rest, FIRST_REST), LONGEST_REST)
            self._until = time.monotonic() + self._rest
            log.warning("%s: Thrift 1 goes on, for %.0f s: %s", operation.doing, self._rest, problem)
            return None
        self._rest = 0.0
        return answers

    def _region_starts(self, operation: Operation) -> NDArray[np.bytes_]:
        """Sorted first keys of the regions. They may be outdated or unavailable while regions split: then a
        scan visits several regions in turn, which takes longer."""
        now = time.monotonic()
        if now >= self._regions_until:
            try:
                found = self._client.attempt(
                    lambda connection: connection.table(self._table.name).regions(),
                    now + (operation.end - now) * SHARE,
                )
            except CallFailed as problem:
                self._regions_until = time.monotonic() + FIRST_REST
                said = f"{operation.doing}: the regions of {self._table.name} are unknown: {problem}"
                operation.outage.failed(problem, said, gone=problem.is_gone)
            else:
                self._regions = np.array(sorted(region["start_key"] for region in found) or [b""])
                self._regions_until = time.monotonic() + REGIONS_SECONDS
        return self._regions
