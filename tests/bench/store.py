"""The embedded store against bare rocksdict calls on a store of the same options, in turn."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from rocksdict import ReadOptions, WriteBatch

from simhbase.drawers.layout import layout
from simhbase.drawers.rowkeys import KEY_BYTES, PREFIX_BYTES, encode, prefixes
from simhbase.drawers.scheme import SimHashScheme
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index.reader import DRAWER_LIMIT, Reader
from simhbase.index.writer import DocumentBatch, Writer
from simhbase.model.values import Lookup
from simhbase.stores import create_store
from simhbase.stores.arrays import to_bytes
from simhbase.stores.base import LARGEST_COMMIT
from simhbase.stores.rocksdb import INDEX, RocksStore
from tests.bench.report import Cell, Table, peak_memory_mb

SIZES = (100_000, 1_000_000)
BATCH = 1000
QUERIES = 2000
BATCHES = (10, 100)
LAYOUT = layout("5x2")
TABLES = len(LAYOUT.tables)
SCHEME = SimHashScheme(LAYOUT, k=LAYOUT.guarantee)
Words = NDArray[np.uint64]


def stored(n: int) -> Words:
    return np.random.default_rng(1).integers(0, 2**64, n, dtype=np.uint64)


def planted(fingerprints: Words) -> Words:
    """Neighbours of some of the fingerprints, 0 to 3 bits away by turns."""
    rng = np.random.default_rng(2)
    near = rng.choice(fingerprints, QUERIES)
    for bits in range(1, LAYOUT.guarantee + 1):
        flips = np.uint64(1) << rng.integers(21 * (bits - 1), 21 * bits, QUERIES, dtype=np.uint64)
        near ^= np.where(np.arange(QUERIES) % (LAYOUT.guarantee + 1) >= bits, flips, np.uint64(0))
    return near


def strangers() -> Words:
    return np.random.default_rng(3).integers(0, 2**64, QUERIES, dtype=np.uint64)


@dataclass(frozen=True)
class Bare:
    """What one would write without simhbase: rows and prefixes are ready, each call is rocksdict's."""

    store: RocksStore

    def insert(self, rows: list[bytes]) -> None:
        handle = self.store.database.handles[INDEX]
        batch = WriteBatch(raw_mode=True)
        for row in rows:
            batch.put(row, b"", handle)
        self.store.database.rdict.write(batch)

    def look_up(self, starts: list[bytes]) -> list[bytes]:
        iterator = self.store.database.families[INDEX].iter(WITHIN_PREFIX)
        rows = []
        for start in starts:
            iterator.seek(start)
            while iterator.valid():
                rows.append(iterator.key())
                iterator.next()
        return rows

    def find(self, query: Words, starts: list[bytes]) -> list[tuple[int, str]]:
        """Distances and ids of the documents near one query."""
        rows = {row[PREFIX_BYTES:] for row in self.look_up(starts)}
        values = np.frombuffer(b"".join(rows), dtype=">u8").astype(np.uint64)
        bits = np.bitwise_count(values ^ query)
        iterator = self.store.database.families["fingerprints"].iter(IN_ORDER)
        found = []
        for value, apart in zip(values.tolist(), bits.tolist(), strict=True):
            if apart <= LAYOUT.guarantee:
                prefix = value.to_bytes(8)
                iterator.seek(prefix)
                while iterator.valid() and (key := iterator.key()).startswith(prefix):
                    found.append((apart, key[8:].decode()))
                    iterator.next()
        return sorted(found)


WITHIN_PREFIX = ReadOptions()
WITHIN_PREFIX.set_prefix_same_as_start(True)
IN_ORDER = ReadOptions()
IN_ORDER.set_total_order_seek(True)


@dataclass(frozen=True)
class Ours:
    store: RocksStore

    def insert(self, fingerprints: Words) -> None:
        self.store.drawers.add(encode(fingerprints, LAYOUT))

    def look_up(self, fingerprints: Words) -> tuple[Words, NDArray[np.uint8]]:
        """Queries and distances of all candidates: prefixes, one read of the drawers, XOR."""
        wanted = prefixes(fingerprints, LAYOUT).reshape(-1, PREFIX_BYTES)
        found = []
        for part in self.store.drawers.read(wanted, DRAWER_LIMIT):
            queries = fingerprints
            if len(fingerprints) > 1:
                queries = np.repeat(fingerprints[part.drawers // TABLES], np.diff(part.offsets))
            found.append((queries, np.bitwise_count(part.fingerprints ^ queries)))
        if len(found) == 1:
            return found[0]
        queries, distances = (np.concatenate(column) for column in zip(*found, strict=True))
        return queries, distances

    def add(self, fingerprints: Words) -> None:
        """Documents whose ids are their fingerprints."""
        ids = [f"{value:016x}" for value in fingerprints.tolist()]
        Writer(self.store, SCHEME).add(DocumentBatch(ids, FingerprintBatch.bare(fingerprints)))

    def find(self, fingerprints: Words) -> list[Lookup]:
        return Reader(self.store, SCHEME).find(FingerprintBatch.bare(fingerprints))


def measure(scale: float = 1.0) -> list[Table]:
    inserting: list[list[Cell]] = []
    single: list[list[Cell]] = []
    batched: list[list[Cell]] = []
    finding: list[list[Cell]] = []
    many: list[list[Cell]] = []
    for size in SIZES:
        n = round(size * scale)
        with TemporaryDirectory(prefix="simhbase-bench-") as folder:
            alone = insert_alone(f"rocksdb:{folder}/alone", n)
            with (
                closing(create_store(f"rocksdb:{folder}/bare")) as bare,
                closing(create_store(f"rocksdb:{folder}/ours")) as ours,
            ):
                rates = insert_in_turn(Bare(bare), Ours(ours), stored(n))
                look_ups(n, "as written", Bare(bare), Ours(ours), single, batched)
                for store in (bare, ours):
                    store.database.families[INDEX].flush()
                    store.database.families[INDEX].compact_range(None, None)
                look_ups(n, "compacted", Bare(bare), Ours(ours), single, batched)
                inserting.append([n, *rates, rates[1] / rates[0], *alone, table_files(folder, "ours") / n])
            with closing(create_store(f"rocksdb:{folder}/documents")) as store:
                finding.append([n, *finds(store, stored(n))])
            many += many_at_once(folder, stored(n))
    return [
        Table(
            "Embedded store: inserting prepared fingerprints, 10 rows each",
            [
                "documents",
                "bare WriteBatch, documents/s",
                "simhbase, documents/s",
                "simhbase / bare",
                "simhbase alone, documents/s",
                "the same, synced each batch",
                "its peak memory, MB",
                "bytes a document, compacted",
            ],
            inserting,
            [
                f"Batches of {BATCH:,}. The first two insert by turns, so that each shares the machine with "
                "the other's compactions; alone is a process of its own."
            ],
        ),
        Table(
            "Embedded store: one lookup, microseconds",
            [
                "documents",
                "store",
                "queries",
                "bare p50",
                "simhbase p50",
                "simhbase / bare",
                "bare p99",
                "simhbase p99",
                "planted neighbours missed",
            ],
            single,
            [
                "Bare: 10 seeks of prepared prefixes with one iterator. simhbase: prefixes, drawers, XOR. "
                f"{QUERIES:,} queries of each kind: planted 0 to 3 bits from a stored fingerprint, or random."
            ],
        ),
        Table(
            "Embedded store: lookups a second in batches",
            ["documents", "store", "batch", "bare", "simhbase", "simhbase / bare"],
            batched,
        ),
        Table(
            "Embedded store: finding stored documents, one query at a time, microseconds",
            ["documents", "bare p50", "simhbase p50", "simhbase / bare", "answers that differ"],
            finding,
            [
                "As written. Bare: 10 seeks of prepared prefixes, XOR, and a seek for the ids of each near "
                "fingerprint. simhbase: Reader.find. Queries are planted as above: all find something."
            ],
        ),
        Table(
            "Embedded store: many new documents at once",
            [
                "documents",
                "tables",
                "by the log, documents/s",
                "as files, documents/s",
                "files / log",
                "p50 of a lookup right after, us",
                "compacted, us",
            ],
            many,
            [
                f"With the time until the store is settled. The log: batches of {BATCH:,}. Files: all at "
                f"once, of which each is up to {LARGEST_COMMIT:,} documents; of the index alone one."
            ],
        ),
    ]


def many_at_once(folder: str, fingerprints: Words) -> list[list[Cell]]:
    """A row for the index alone, and one for documents."""
    n = len(fingerprints)

    def index_by_log(ours: Ours) -> None:
        for start in range(0, n, BATCH):
            ours.insert(fingerprints[start : start + BATCH])

    def index_as_file(ours: Ours) -> None:
        keys = encode(fingerprints, LAYOUT).reshape(-1, KEY_BYTES)
        ours.store.database.add_files(keys, {})

    def by_log(ours: Ours) -> None:
        for start in range(0, n, BATCH):
            ours.add(fingerprints[start : start + BATCH])

    rows: list[list[Cell]] = []
    for tables, log, files in (
        ("index", index_by_log, index_as_file),
        ("all", by_log, lambda ours: ours.add(fingerprints)),
    ):
        rates: list[float] = []
        for how, write in (("log", log), ("files", files)):
            with closing(create_store(f"rocksdb:{folder}/{tables}-{how}")) as store:
                ours = Ours(store)
                rates.append(n / timed(lambda ours=ours, write=write: _write_and_settle(ours, write)))
                after = lookup_p50(ours, fingerprints)
                store.database.families[INDEX].compact_range(None, None)
                compacted = lookup_p50(ours, fingerprints)
        rows.append([n, tables, *rates, rates[1] / rates[0], after, compacted])
    return rows


def _write_and_settle(ours: Ours, write: Callable[[Ours], None]) -> None:
    write(ours)
    ours.store.compact()


def lookup_p50(ours: Ours, fingerprints: Words) -> float:
    """Microseconds of a lookup that finds something, once the caches are filled."""
    queries = planted(fingerprints)
    for _ in range(2):
        seconds = [
            timed(lambda number=number: ours.look_up(queries[number : number + 1]))
            for number in range(len(queries))
        ]
    return float(np.median(seconds)) * 1e6


def finds(store: RocksStore, fingerprints: Words) -> list[Cell]:
    """Microseconds of both, their ratio, and how many answers differ."""
    ours, bare = Ours(store), Bare(store)
    for start in range(0, len(fingerprints), BATCH):
        ours.add(fingerprints[start : start + BATCH])
    queries = planted(fingerprints)
    differing = 0
    for _ in range(2):  # the first fills the caches
        seconds = []
        for number in range(len(queries)):
            query = queries[number : number + 1]
            starts = to_bytes(prefixes(query, LAYOUT))
            begin = perf_counter()
            expected = bare.find(query, starts)
            between = perf_counter()
            (found,) = ours.find(query)
            seconds.append((between - begin, perf_counter() - between))
            differing += expected != [(match.distance, match.id) for match in found.matches]
    p50 = (np.median(np.array(seconds), axis=0) * 1e6).tolist()
    return [*p50, p50[1] / p50[0], differing]


def insert_in_turn(bare: Bare, ours: Ours, fingerprints: Words) -> list[float]:
    """Documents a second of both."""
    seconds = [0.0, 0.0]
    for start in range(0, len(fingerprints), BATCH):
        batch = fingerprints[start : start + BATCH]
        rows = to_bytes(encode(batch, LAYOUT))
        seconds[0] += timed(lambda rows=rows: bare.insert(rows))
        seconds[1] += timed(lambda batch=batch: ours.insert(batch))
    return [len(fingerprints) / spent for spent in seconds]


def insert_alone(url: str, n: int) -> list[Cell]:
    """Documents a second without and with a sync of each batch, and MB, of a process that only inserts."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_insert_alone, (url, n))


def _insert_alone(url: str, n: int) -> list[Cell]:
    fingerprints = stored(n)
    rates: list[Cell] = []
    for name, sync in (("plain", False), ("synced", True)):
        with closing(create_store(f"{url}-{name}")) as store:
            ours = Ours(store)
            start = perf_counter()
            for first in range(0, n, BATCH):
                ours.insert(fingerprints[first : first + BATCH])
                if sync:
                    store.sync()
            rates.append(n / (perf_counter() - start))
    return [*rates, peak_memory_mb()]


def look_ups(
    n: int, state: str, bare: Bare, ours: Ours, single: list[list[Cell]], batched: list[list[Cell]]
) -> None:
    near, far = planted(stored(n)), strangers()
    for kind, queries in (("planted", near), ("random", far)):
        look_ups_in_turn(bare, ours, queries, 1)  # fills the caches of both
        seconds = look_ups_in_turn(bare, ours, queries, 1)
        p50, p99 = (np.percentile(seconds * 1e6, percentile, axis=1).tolist() for percentile in (50, 99))
        missed: Cell = missing(ours, queries) if kind == "planted" else ""
        single.append([n, state, kind, *p50, p50[1] / p50[0], *p99, missed])
    for batch in BATCHES:
        spent = look_ups_in_turn(bare, ours, near, batch).sum(axis=1)
        rates = (QUERIES / spent).tolist()
        batched.append([n, state, batch, *rates, rates[1] / rates[0]])


def look_ups_in_turn(bare: Bare, ours: Ours, queries: Words, batch: int) -> NDArray[np.float64]:
    """Seconds of each batch of queries, (2, batches)."""
    seconds = []
    for start in range(0, len(queries), batch):
        asked = queries[start : start + batch]
        starts = to_bytes(prefixes(asked, LAYOUT))
        seconds.append(
            [
                timed(lambda starts=starts: bare.look_up(starts)),
                timed(lambda asked=asked: ours.look_up(asked)),
            ]
        )
    return np.array(seconds).T


def missing(ours: Ours, queries: Words) -> int:
    """How many of the planted queries do not find a neighbour at their distance or nearer."""
    planted_at = dict(
        zip(queries.tolist(), (np.arange(len(queries)) % (LAYOUT.guarantee + 1)).tolist(), strict=True)
    )
    found, distances = ours.look_up(queries)
    near = {
        query
        for query, bits in zip(found.tolist(), distances.tolist(), strict=True)
        if bits <= planted_at[query]
    }
    return len(planted_at) - len(near)


def table_files(folder: str, name: str) -> int:
    return sum(file.stat().st_size for file in (Path(folder) / name).glob("*.sst"))


def timed(action: Callable[[], object]) -> float:
    start = perf_counter()
    action()
    return perf_counter() - start
