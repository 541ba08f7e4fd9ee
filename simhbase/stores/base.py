"""The store protocols: batch-first, in arrays and bytes; no backend's type leaks.

A store holds one index table (`Drawers`) and a few tables of records. One contract suite
(tests/contract) runs against every backend; what these docstrings promise is what it checks.

There are two kinds of stores. An atomic one changes all its tables in one step (`AtomicStore.commit`),
by one writing process. In the others any number of processes write, each table by itself: there every
cell has a version, the last writer wins by version whatever arrives when, and so every call may be
repeated, or carried out late, without harm.

Errors of a backend become those of simhbase.errors at this border: StoreUnreachable, StoreBusy,
TablesMissing, ReadOnly, StoreFailed. Every write may be repeated after a retryable error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from simhbase.model import Size
from simhbase.progress import Progress, no_progress
from simhbase.stores.strings import Strings

T = TypeVar("T")
Access = Literal["write", "read"]
RecordTable = Literal["fingerprints", "documents", "obsolete", "meta"]
RECORD_TABLES: tuple[RecordTable, ...] = ("fingerprints", "documents", "obsolete", "meta")
# In one step what becomes obsolete is removed, so that nobody has to come back for it.
ATOMIC_TABLES: tuple[RecordTable, ...] = ("fingerprints", "documents", "meta")
TTL_ROW = b"ttl"  # in meta of atomic stores: seconds as decimal digits, put when a store is created
PART_ROWS = 1 << 18  # of one part of a read, about


def now() -> int:
    """This machine's time, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class DrawerRows:
    """A part of what a read of m drawers found.

    drawers: int64 (p,), indices of the drawers that have rows in this part; offsets: int64 (p + 1,);
    fingerprints: uint64 (total,), those of drawer drawers[i] are fingerprints[offsets[i]:offsets[i + 1]].
    Within a drawer they ascend. A drawer's rows may be in several parts, in order. truncated: int64 (q,),
    indices of drawers that hold more rows than the limit; each is said once, in any part.
    """

    drawers: NDArray[np.int64]
    offsets: NDArray[np.int64]
    fingerprints: NDArray[np.uint64]
    truncated: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class IndexRows:
    """Rows of the index: keys uint8 (n, 13), and the times of their cells, int64 (n,), in milliseconds;
    0 where the store has none."""

    keys: NDArray[np.uint8]
    times: NDArray[np.int64]


class Cell(NamedTuple):
    """A value, and its version: int64, milliseconds since 1970 or more (0 in the table meta of stores
    that keep none there)."""

    value: bytes
    version: int


class CompareAndSet(NamedTuple):
    """Sets a key to `value` if it holds `expected` (None: is absent). never_empty: the key never holds an
    empty value, which spares HBase a look at which of the two it is."""

    key: bytes
    expected: bytes | None
    value: bytes
    never_empty: bool = False


Row = tuple[bytes, Cell]
Version = int | Sequence[int]  # of all rows, or of each


class Drawers(Protocol):
    """The index table: drawers of fingerprints. How a drawer is laid out is the backend's."""

    def add(self, keys: NDArray[np.uint8]) -> None:
        """Puts rows, at the server's time: keys (n, tables, 13) uint8. Rows that exist get a new time."""

    def remove(self, keys: NDArray[np.uint8], times: NDArray[np.int64]) -> None:
        """Removes rows: keys (n, 13) uint8, each up to the time (n,) that was seen: one that is put again
        later survives."""

    def times(self, keys: NDArray[np.uint8]) -> NDArray[np.int64]:
        """When rows were put: keys (n, tables, 13) uint8 -> int64 (n, tables), milliseconds; -1 where there
        is none, 0 where the store keeps no times."""

    def read(self, prefixes: NDArray[np.uint8], limit: int | None) -> Iterator[DrawerRows]:
        """Reads many drawers at once: prefixes (m, 5) uint8 in any order, all different; at most `limit`
        rows of each drawer, the smallest (None: all). The answer comes in parts of bounded size."""

    def iterate(self, start: bytes = b"", stop: bytes = b"") -> Iterator[IndexRows]:
        """Rows in key order from `start` to before `stop` (empty: the end), in batches of bounded size."""

    def approximate_size(self) -> Size: ...


class Records(Protocol):
    """A table of values under byte keys, ordered as unsigned bytes."""

    def get(self, keys: Sequence[bytes]) -> list[Cell | None]:
        """The cells of keys, None where a key is absent."""

    def put(self, rows: Sequence[tuple[bytes, bytes]], version: Version | None = None) -> None:
        """Writes rows; all of them are acknowledged when it returns. A cell of a higher version stays as
        it is. Of a key that comes twice the last value counts. None, for meta: the store's own time."""

    def delete(self, keys: Sequence[bytes], versions: Sequence[int] | None = None) -> None:
        """Deletes the cells of keys, each up to a version; None: what is there now. A put of a higher
        version that follows, or for None any put, is visible at once."""

    def scan(self, prefixes: Sequence[bytes], limit: int) -> list[list[Row]]:
        """For each prefix, at most `limit` rows whose keys start with it, in key order."""

    def iterate(self, start: bytes = b"", stop: bytes = b"") -> Iterator[list[Row]]:
        """Rows in key order from `start` (inclusive) to before `stop` (empty: the end), in batches of
        bounded size."""

    def compare_and_set(self, key: bytes, expected: bytes | None, value: bytes) -> bool:
        """Sets `value` if the key holds `expected` (None: is absent), atomically. True if the key holds
        `value` now, also if it did before: a call may be carried out twice, and two callers who must not both
        succeed set different values. The new version is not lower than the old one."""

    def compare_and_set_many(self, changes: Sequence[CompareAndSet]) -> list[bool]:
        """Compare and set many keys, all different, each by itself."""

    def increment(self, key: bytes, by: int = 1) -> int:
        """Adds to an int64 big-endian counter (absent: 0), atomically; returns the new value."""

    def approximate_size(self) -> Size: ...


class Store(Protocol):
    @property
    def url(self) -> str: ...

    @property
    def tables(self) -> tuple[RecordTable, ...]:
        """The tables of records that it has."""

    def ttl(self) -> int | None:
        """Seconds after which documents expire, None where they stay. HBase drops their cells; in an atomic
        store they stay until somebody removes them."""

    @property
    def drawers(self) -> Drawers: ...

    def records(self, table: RecordTable) -> Records: ...

    def now(self) -> int:
        """Milliseconds since 1970 by the clock that versions go by: where several machines write, the
        servers', as far as opening for writing compared it with this machine's."""

    def exclusive(self) -> AbstractContextManager[object]:
        """Held around a read-then-write that threads of this process must not interleave. Where many
        processes write it does nothing."""

    def read_consistent(self, read: Callable[[], T]) -> T:
        """What `read` returns, which sees no table without what another had lost to it: where rows are
        removed as they become obsolete, `read` may be called a second time."""

    def refresh(self) -> None:
        """Makes what other processes wrote visible to a reader."""

    def sync(self) -> None:
        """Returns when everything written before survives the loss of this process and machine."""

    def require_writable(self) -> None:
        """Raises StoreFailed where a write is known to fail; mends that where it can. For readiness."""

    def compact(self, progress: Progress = no_progress, *, whole: bool = False) -> None:
        """For use after a great many writes: merges files, so that a lookup reads few. What was deleted takes
        no room any more. whole: also where little was written. May be left out, and interrupted."""

    def counters(self) -> Mapping[str, int]:
        """What has happened since it was opened, by name: retries and the like."""

    def gauges(self) -> Mapping[str, int]:
        """What there is at this moment, by name: connections and the like."""

    def close(self) -> None:
        """Gives everything back; may be called twice."""


@dataclass(frozen=True)
class Changes:
    """What an atomic store does in one step: index rows uint8 (n, tables, 13), rows of records, and keys to
    delete. put: of each table keys, all different, and their values. What is both removed and put stays.
    version: of all rows that are put; or of each, by its place, the same in all tables."""

    version: Version
    index: NDArray[np.uint8]
    unindex: NDArray[np.uint8]
    put: Mapping[RecordTable, tuple[Strings, Strings]] = field(default_factory=dict)
    delete: Mapping[RecordTable, Sequence[bytes]] = field(default_factory=dict)


class AtomicStore(Store, Protocol):
    """A store in which all tables change together. It has no table `obsolete`."""

    def commit(self, changes: Changes) -> None:
        """Makes all changes or none; they survive the loss of the machine when it returns."""


NamedCells = dict[bytes, Cell]  # of one row, by name; the row's own is under the empty name


class NamedRecords(Protocol):
    """The cells of documents rows beside their own, each with a name, which `Records` neither reads nor
    deletes."""

    def get(self, keys: Sequence[bytes]) -> list[NamedCells]:
        """All cells of rows. Each row is read in one piece."""

    def iterate(self, start: bytes = b"", stop: bytes = b"") -> Iterator[list[tuple[bytes, NamedCells]]]:
        """All cells of rows, in the order and the batches of `Records.iterate`."""

    def put(self, name: bytes, rows: Sequence[tuple[bytes, bytes]], versions: Sequence[int]) -> None:
        """Writes a cell of this name to rows, each at its version."""

    def delete(self, name: bytes, keys: Sequence[bytes], versions: Sequence[int]) -> None:
        """Deletes the cells of this name, each up to a version."""


class SharedStore(Store, Protocol):
    """A store that many processes write, each table by itself."""

    @property
    def document_cells(self) -> NamedRecords:
        """The cells of documents rows beside their own."""

    def put_pending(
        self,
        name: bytes,
        documents: Sequence[tuple[bytes, bytes]],
        listings: Sequence[tuple[bytes, bytes]],
        keys: NDArray[np.uint8],
        versions: Sequence[int],
    ) -> None:
        """Writes cells of a name beside n documents rows, and n rows of fingerprints, each at its version,
        and index rows (m, tables, 13) at the server's time: all at once, in any order."""


def multi_writer(store: Store) -> bool:
    """Whether many processes write to a store, so that what becomes obsolete is noted and not removed;
    such a store is a SharedStore, others are an AtomicStore."""
    return "obsolete" in store.tables
