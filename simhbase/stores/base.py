"""The store protocols. They work on batches of arrays and bytes; no type of a backend is visible.

A store has one index table (`Drawers`) and a few tables of records. One contract suite (tests/contract)
checks every backend for what these docstrings promise.

There are three kinds of stores:
- atomic, one writing process (memory, RocksDB): all tables change in one step (`Store.commit`);
- atomic, many writing processes (PostgreSQL, Redis): the same; `Store.exclusive` locks in the server;
- with hints (HBase): any number of processes write each table separately (`HintingStore`). Every cell has a
  version and the highest version wins, so every call may be repeated, or arrive late, without harm.

Backends convert their errors to those of simhbase.errors: StoreUnreachable, StoreBusy, TablesMissing,
ReadOnly, StoreFailed. Every write may be repeated after a retryable error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.layout import Layout
from simhbase.drawers.rowkeys import KEY_BYTES, PREFIX_BYTES
from simhbase.model.moment import now as now
from simhbase.model.values import Size
from simhbase.process.progress import Progress, no_progress
from simhbase.stores.strings import Strings, pairs

T = TypeVar("T")
# "append" is "write" without lookups: an embedded store need not hold what only these read.
Access = Literal["write", "read", "append"]
Ttl = int | Literal["unknown"] | None
RecordTable = Literal["fingerprints", "documents", "obsolete", "meta", "met"]
# Called with what is damaged in a store: the table, if it is in one, and the problem.
NoteDamage = Callable[[RecordTable | None, str], None]
RECORD_TABLES: tuple[RecordTable, ...] = ("fingerprints", "documents", "obsolete", "meta")
# Obsolete rows are removed in the same step, so there is no table for them.
ATOMIC_TABLES: tuple[RecordTable, ...] = ("fingerprints", "documents", "meta")
MET: RecordTable = "met"  # only of a store that counts refused claims
TTL_ROW = b"ttl"  # in meta of atomic stores: seconds as decimal digits, put when a store is created
PART_ROWS = 1 << 18  # approximate size of one part of a read
SCANNED_AT_ONCE = 64  # fingerprints whose listings are read, where enough of them may be there
FINGERPRINT_BYTES = 8  # that keys of the table fingerprints begin with; an id follows
LARGEST_COMMIT = 1 << 17  # new documents of one commit; many are ingested as files
Columns = tuple[Strings, Strings]  # keys and values of rows
NO_ROWS = np.empty((0, 0, KEY_BYTES), dtype=np.uint8)


@dataclass(frozen=True, slots=True)
class DrawerRows:
    """A part of the rows of m drawers.

    drawers: int64 (p,), indices of the drawers with rows in this part; offsets: int64 (p + 1,); fingerprints:
    uint64 (total,), those of drawers[i] are fingerprints[offsets[i]:offsets[i + 1]], ascending. A drawer's
    rows may be in several parts, in order. truncated: int64 (q,), indices of drawers with more rows than the
    limit; each is reported once, in any part.
    """

    drawers: NDArray[np.int64]
    offsets: NDArray[np.int64]
    fingerprints: NDArray[np.uint64]
    truncated: NDArray[np.int64]


class DrawerHits(NamedTuple):
    """What a lookup finds in its drawers. bits: differing bits, by fingerprint; truncated: True if a drawer
    has more rows than the limit; rows: number read; largest: number read of the largest drawer."""

    bits: dict[int, int]
    truncated: bool
    rows: int
    largest: int


class NearLimits(NamedTuple):
    """Limits of one lookup.

    bits: most differing bits of a fingerprint; drawer: most rows of a drawer, None for all; listed: most rows
    of a fingerprint in the table fingerprints; hidden: fingerprints to leave out; document_key: the key of a
    document, given its id as bytes. None: no documents are read. of: what ids begin with; others are not
    listed. enough: rows of the table fingerprints beyond which the other near fingerprints may be left out,
    as the caller does not follow as many.
    """

    bits: int
    drawer: int | None
    listed: int
    hidden: frozenset[int] = frozenset()
    document_key: Callable[[bytes], bytes] | None = None
    of: bytes = b""
    enough: int | None = None


class NearRows(NamedTuple):
    """What one lookup reads. listed: rows of the table fingerprints, by near fingerprint; documents: rows of
    their documents, by the keys of these rows."""

    hits: DrawerHits
    listed: dict[int, list[Row]]
    documents: dict[bytes, Row | None]


@dataclass(frozen=True, slots=True)
class IndexRows:
    """Index rows. keys: uint8 (n, 13); times: int64 (n,), cell timestamps in milliseconds, 0 if the store
    keeps none."""

    keys: NDArray[np.uint8]
    times: NDArray[np.int64]


class Cell(NamedTuple):
    """A value and its version: int64, usually milliseconds since 1970 (0 in the meta table of stores without
    versions there)."""

    value: bytes
    version: int


Row = tuple[bytes, Cell]
Version = int | Sequence[int]  # for all rows, or for each


class Drawers(Protocol):
    """The index table: drawers of fingerprints.

    Backends choose how to lay out a drawer. One that was told the layout (`Store.arrange`) may keep a row per
    fingerprint and derive its drawers: there, to put or remove any row of a fingerprint is to put or remove
    all of them.
    """

    def add(self, keys: NDArray[np.uint8]) -> None:
        """Put rows with the server's time: keys (n, tables, 13) uint8. Existing rows get the new time."""

    def remove(self, keys: NDArray[np.uint8], times: NDArray[np.int64]) -> None:
        """Remove rows: keys (n, 13) uint8, each up to the time (n,) that was read: later puts survive."""

    def times(self, keys: NDArray[np.uint8]) -> NDArray[np.int64]:
        """When rows were put: keys (n, tables, 13) uint8 -> int64 (n, tables), milliseconds; -1 if absent, 0
        if the store keeps no times."""

    def read(self, prefixes: NDArray[np.uint8], limit: int | None) -> Iterator[DrawerRows]:
        """Read many drawers: prefixes (m, 5) uint8, distinct, in any order; up to `limit` rows per drawer
        (None: all), the same ones each time. The answer comes in parts of bounded size."""

    def iterate(self, start: bytes = b"", stop: bytes = b"") -> Iterator[IndexRows]:
        """Rows with keys from `start` until before `stop` (empty: the end), in batches of bounded size. Those
        of a drawer follow each other; drawers and their rows come in any order. Others may write meanwhile:
        their rows may be missing, or come twice."""

    def approximate_size(self) -> Size: ...


class Records(Protocol):
    """A table of values by byte keys, ordered as unsigned bytes."""

    def get(self, keys: Sequence[bytes]) -> list[Cell | None]:
        """The cells of keys, None if a key is absent."""

    def put(self, rows: Sequence[tuple[bytes, bytes]], version: Version | None = None) -> None:
        """Write rows; all are acknowledged on return. Cells with a higher version stay. For duplicate keys
        the last value wins. version: None for meta: the store's own time."""

    def delete(self, keys: Sequence[bytes], versions: Sequence[int] | None = None) -> None:
        """Delete the cells of keys, each up to a version; None: the current cell. A later put of a higher
        version (or, for None, any put) is visible at once."""

    def scan(self, prefixes: Sequence[bytes], limit: int) -> list[list[Row]]:
        """For each prefix, up to `limit` rows whose keys start with it, in key order."""

    def iterate(self, start: bytes = b"", stop: bytes = b"") -> Iterator[list[Row]]:
        """Rows in key order from `start` (inclusive) until before `stop` (empty: the end), in batches of
        bounded size."""

    def compare_and_set(self, key: bytes, expected: bytes | None, value: bytes) -> bool:
        """Set `value` atomically if the key holds `expected` (None: is absent). True if the key holds `value`
        now, even if it did before: a call may be executed twice, and callers of whom only one may succeed
        must set different values. The new version is not lower than the old one. Neither value may be empty,
        which HBase could not tell from an absent one."""

    def approximate_size(self) -> Size: ...


class Store(Protocol):
    @property
    def url(self) -> str: ...

    @property
    def tables(self) -> tuple[RecordTable, ...]:
        """Names of its record tables."""

    def ttl(self) -> Ttl:
        """Seconds after which documents expire, or None; "unknown" if the user may not know. HBase drops
        their cells; in an atomic store they stay until removed."""

    @property
    def drawers(self) -> Drawers: ...

    def records(self, table: RecordTable) -> Records: ...

    def now(self) -> int:
        """Milliseconds since 1970 by the clock for versions: with several writing machines, the servers'
        clock, as measured when the store was opened for writing."""

    def keep_counts(self) -> None:
        """Tells a store that its profile says that it counts refused claims: `met` is one of its tables from
        now on. In HBase raises TablesMissing if it is not there."""

    @property
    def multi_writer(self) -> bool:
        """True if several processes may write at once."""

    @property
    def keeps_hints(self) -> bool:
        """True for a HintingStore: its tables are written separately, so that a row of one is only a hint,
        and obsolete rows are noted rather than removed. Others are atomic: they have no table `obsolete`, and
        nothing to vacuum except expired documents."""

    @property
    def largest_commit(self) -> int:
        """Documents of one commit, at most: how long others may be kept waiting."""

    def commit(self, changes: Changes) -> None:
        """Make all changes, durably: all or none in an atomic store, otherwise in an order that misses no
        document if it stops in between."""

    def arrange(self, layout: Layout | None) -> None:
        """Tells an empty store, before its profile is written, which bits of a fingerprint name its drawers;
        None: fingerprints do not determine them. Call it under `exclusive`."""

    def exclusive(self) -> AbstractContextManager[object]:
        """Locks out all other writers of an atomic store, in any thread or process, for a read-then-write;
        re-entrant. In PostgreSQL, what is written inside becomes visible at its end, all or nothing; in
        others each commit is a step of its own. No effect in stores with hints."""

    def read_consistent(self, read: Callable[[], T]) -> T:
        """Call `read` with a consistent view of all tables: if rows were removed meanwhile, it is called a
        second time."""

    def near(self, value: int, prefixes: Sequence[bytes], limits: NearLimits) -> NearRows:
        """Look one fingerprint up, with a consistent view of all tables: drawers with these prefixes (5 bytes
        each), what the near fingerprints in them list, and the documents. The same rows as by `Drawers.read`,
        `Records.scan` and `Records.get`, which are for many."""

    def fail_fast(self) -> None:
        """From now on, calls fail at once while the server is known not to answer, instead of waiting for it:
        for callers with clients of their own."""

    def refresh(self) -> None:
        """Make other processes' writes visible to a reader."""

    def sync(self) -> None:
        """Return when all previous writes survive a crash of the machine."""

    def warnings(self) -> Sequence[str]:
        """Settings of the server by which acknowledged writes may be lost, for the administrator."""

    def recount(self, *, repair: bool) -> Sequence[str]:
        """Count the rows of each table again, in a store that notices by its counts that rows are lost: what
        is left can be read then, only by this object without `repair`. Returns the tables whose counts are,
        or were, wrong."""

    def require_writable(self) -> None:
        """Raise StoreFailed if writes are known to fail; recover if possible. For readiness checks."""

    def compact(self, progress: Progress = no_progress, *, whole: bool = False) -> None:
        """Merge files after many writes, so that lookups read few; frees the space of deleted rows. whole:
        even if little was written. Optional, and may be interrupted."""

    def counters(self) -> Mapping[str, int]:
        """Counts since it was opened, by name: retries etc."""

    def gauges(self) -> Mapping[str, int]:
        """Current values, by name: connections etc."""

    def close(self) -> None:
        """Release all resources; may be called twice."""


@dataclass(frozen=True)
class Changes:
    """What one commit writes: index rows uint8 (n, tables, 13), rows of records, and keys to delete.

    version: of documents rows, and of listings: for all, or for each by position, the same in both tables
    (documents may have more rows than listings). put: per table, distinct keys and their values. unindex,
    delete: only for atomic stores; a row that is both removed and put stays. time: when the operation began,
    for a store that keeps hints: the version of its notes in `obsolete`.
    """

    version: Version
    index: NDArray[np.uint8] = field(default_factory=lambda: NO_ROWS)
    unindex: NDArray[np.uint8] = field(default_factory=lambda: NO_ROWS)
    put: Mapping[RecordTable, Columns] = field(default_factory=dict)
    delete: Mapping[RecordTable, Sequence[bytes]] = field(default_factory=dict)
    time: int = 0

    def rows(self, table: RecordTable) -> list[tuple[bytes, bytes]]:
        """Rows to put into a table."""
        return pairs(*self.put[table]) if table in self.put else []


NamedCells = dict[bytes, Cell]  # cells of one row by name; the document's own has the empty name


class NamedRecords(Protocol):
    """Further, named cells in rows of the documents table, which `Records` neither reads nor deletes."""

    def get(self, keys: Sequence[bytes]) -> list[NamedCells]:
        """All cells of rows. Each row is read atomically."""

    def iterate(self, start: bytes = b"", stop: bytes = b"") -> Iterator[list[tuple[bytes, NamedCells]]]:
        """All cells of rows, in the order and batches of `Records.iterate`."""

    def put(self, name: bytes, rows: Sequence[tuple[bytes, bytes]], versions: Sequence[int]) -> None:
        """Write a cell with this name to rows, each with its version."""

    def delete(self, cells: Sequence[tuple[bytes, bytes]], versions: Sequence[int]) -> None:
        """Delete cells, given by key and name, each up to a version."""


class HintingRecords(Records, Protocol):
    """Records of a HintingStore."""

    def increment(self, key: bytes) -> int:
        """Add 1 to an int64 big-endian counter (absent: 0), atomically; returns the new value."""


class HintingStore(Store, Protocol):
    """A store whose tables are written separately, by many processes."""

    def records(self, table: RecordTable) -> HintingRecords: ...

    @property
    def document_cells(self) -> NamedRecords:
        """Named cells of the documents table."""

    def put_pending(
        self,
        name: bytes,
        documents: Sequence[tuple[bytes, bytes]],
        listings: Sequence[tuple[bytes, bytes]],
        keys: NDArray[np.uint8],
        versions: Sequence[int],
    ) -> None:
        """Write named cells of n documents rows and n rows of fingerprints, each with its version, and index
        rows (m, tables, 13) at the server's time, in parallel and in any order."""


def listed_rows(store: Store, hits: DrawerHits, limits: NearLimits) -> NearRows:
    """What near fingerprints list, and the documents. Hidden fingerprints leave the hits."""
    return listed_by(hits, limits, store.records("fingerprints").scan, store.records("documents").get)


def listed_by(
    hits: DrawerHits,
    limits: NearLimits,
    scan: Callable[[list[bytes], int], list[list[Row]]],
    get: Callable[[list[bytes]], list[Cell | None]],
) -> NearRows:
    """Like `listed_rows`, by `Records.scan` of the table fingerprints and `Records.get` of the documents."""
    if not limits.hidden.isdisjoint(hits.bits):
        bits = {value: bits for value, bits in hits.bits.items() if value not in limits.hidden}
        hits = hits._replace(bits=bits)
    if not hits.bits:
        return NearRows(hits, {}, {})
    prefixes = [value.to_bytes(FINGERPRINT_BYTES) + limits.of for value in hits.bits]
    at_once, listed = len(prefixes) if limits.enough is None else SCANNED_AT_ONCE, list[list[Row]]()
    for start in range(0, len(prefixes), at_once):
        listed += scan(prefixes[start : start + at_once], limits.listed)
        if limits.enough is not None and sum(map(len, listed)) > limits.enough:
            break
    documents: dict[bytes, Row | None] = {}
    if limits.document_key is not None:
        listings = [key for rows in listed for key, _ in rows]
        keys = [limits.document_key(key[FINGERPRINT_BYTES:]) for key in listings]
        for listing, key, cell in zip(listings, keys, get(keys), strict=True):
            documents[listing] = None if cell is None else (key, cell)
    return NearRows(hits, dict(zip(hits.bits, listed, strict=False)), documents)


def near_by_read(store: Store, value: int, prefixes: Sequence[bytes], limits: NearLimits) -> NearRows:
    """`Store.near` of a store that reads the drawers of one as it reads those of many."""
    near, sizes, truncated = dict[int, int](), Counter[int](), False
    drawers = np.frombuffer(b"".join(prefixes), np.uint8).reshape(-1, PREFIX_BYTES)
    for part in store.drawers.read(drawers, limits.drawer):
        for found in part.fingerprints.tolist():
            if (far := (found ^ value).bit_count()) <= limits.bits:
                near[found] = far
        sizes.update(dict(zip(part.drawers.tolist(), np.diff(part.offsets).tolist(), strict=True)))
        truncated |= len(part.truncated) > 0
    hits = DrawerHits(near, truncated, sizes.total(), max(sizes.values(), default=0))
    return listed_rows(store, hits, limits)
