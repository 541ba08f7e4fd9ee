"""The store protocols: batch-first, in arrays and bytes; no backend's type leaks.

A store holds one index table (`Drawers`) and three tables of records. One contract suite
(tests/contract) runs against every backend; what these docstrings promise is what it checks.

Errors of a backend become those of simhbase.errors at this border: StoreUnreachable, StoreBusy,
TablesMissing, ReadOnly, StoreFailed. Every write may be repeated after a retryable error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Access = Literal["write", "read"]
RecordTable = Literal["fingerprints", "documents", "meta"]
RECORD_TABLES: tuple[RecordTable, ...] = ("fingerprints", "documents", "meta")


@dataclass(frozen=True, slots=True)
class DrawerRows:
    """What a read of m drawers found.

    fingerprints: uint64 (total,), drawer after drawer, ascending within a drawer;
    offsets: int64 (m + 1,), drawer i is fingerprints[offsets[i]:offsets[i + 1]];
    truncated: bool (m,), true where the drawer holds more rows than the limit.
    """

    fingerprints: NDArray[np.uint64]
    offsets: NDArray[np.int64]
    truncated: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Size:
    """Roughly how large a table is: rows, and bytes as stored. Estimates, cheap to get."""

    rows: int
    bytes: int


class Drawers(Protocol):
    """The index table: drawers of fingerprints. How a drawer is laid out is the backend's."""

    def add(self, keys: NDArray[np.uint8]) -> None:
        """Puts rows: keys (n, tables, 13) uint8. Rows that exist stay."""

    def remove(self, keys: NDArray[np.uint8], before: int) -> None:
        """Removes rows: keys (n, tables, 13) uint8. `before` is a `Store.moment()`: a row put
        again later than that moment by another process survives."""

    def contains(self, keys: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Which rows exist: keys (n, tables, 13) uint8 -> bool (n, tables)."""

    def read(self, prefixes: NDArray[np.uint8], limit: int | None) -> DrawerRows:
        """Reads many drawers at once: prefixes (m, 5) uint8 in any order, repeats allowed; at
        most `limit` rows of each drawer (None: all)."""

    def iterate(self) -> Iterator[NDArray[np.uint8]]:
        """All rows in key order, in batches (n, 13) uint8 of bounded size."""

    def approximate_size(self) -> Size:
        """Rows and bytes of the table."""


class Records(Protocol):
    """A table of values under byte keys, ordered as unsigned bytes."""

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of keys, None where a key is absent."""

    def put(self, rows: Sequence[tuple[bytes, bytes]]) -> None:
        """Writes rows; all of them are acknowledged when it returns."""

    def delete(self, keys: Sequence[bytes]) -> None:
        """Deletes keys, present or not. A put that follows is visible at once."""

    def scan(self, prefixes: Sequence[bytes], limit: int) -> list[list[tuple[bytes, bytes]]]:
        """For each prefix, at most `limit` rows whose keys start with it, in key order."""

    def iterate(self, start: bytes = b"") -> Iterator[list[tuple[bytes, bytes]]]:
        """Rows in key order from `start` (inclusive) on, in batches of bounded size."""

    def compare_and_set(self, key: bytes, expected: bytes | None, value: bytes) -> bool:
        """Sets `value` if the key holds `expected` (None: is absent), atomically; true if it did."""

    def increment(self, key: bytes, by: int = 1) -> int:
        """Adds to an int64 big-endian counter (absent: 0), atomically; returns the new value."""

    def approximate_size(self) -> Size:
        """Rows and bytes of the table."""


class Store(Protocol):
    """One index's tables."""

    @property
    def url(self) -> str:
        """The URL it was opened with."""

    @property
    def drawers(self) -> Drawers:
        """The index table."""

    def records(self, table: RecordTable) -> Records:
        """One of the other tables."""

    def exclusive(self) -> AbstractContextManager[object]:
        """Held around a read-then-write that threads of this process must not interleave. Where
        many processes write (HBase) it does nothing, and `moment` orders removals instead."""

    def moment(self) -> int:
        """A time for `Drawers.remove`, not later than any put that starts after this call."""

    def refresh(self) -> None:
        """Makes what other processes wrote visible to a reader."""

    def sync(self) -> None:
        """Returns when everything written before survives the loss of this process and machine."""

    def close(self) -> None:
        """Gives everything back; may be called twice."""
