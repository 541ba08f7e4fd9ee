"""The HBase store against happybase and bare calls of the gateway, by turns on one server."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import happybase
import numpy as np
from Hbase_thrift import BatchMutation, Mutation, TScan
from numpy.typing import NDArray

from simhbase.drawers.rowkeys import KEY_BYTES, PREFIX_BYTES, encode, prefixes
from simhbase.drawers.scheme import SimHashScheme
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index.reader import DRAWER_LIMIT
from simhbase.index.writer import DocumentBatch, Writer
from simhbase.stores import drop_store, open_store
from simhbase.stores.arrays import to_bytes
from simhbase.stores.base import Store
from simhbase.stores.hbase import HBaseBackend
from simhbase.stores.hbase.schema import Options
from simhbase.stores.strings import pairs
from tests.bench import hfiles
from tests.bench.hfiles import LAYOUT, REGIONS, TABLES, Words, cluster, fingerprints
from tests.bench.report import Cell, Table
from tests.cluster import Cluster

PREFIX = "bench"
DOCUMENTS = 100_000  # stored before anything is looked up
BATCH = 10_000  # documents of one timed insertion
ROW_BY_ROW = 100
CALL_ROWS = 5_000  # of a bare mutateRows
LOOKUPS = 200
CONNECTIONS = (1, 4, 8)
BATCHES = (10, 50, 200)
PROCESSES = 4
PROCESS_SECONDS = 5.0
STARTING_SECONDS = 10.0  # until all processes have certainly started
RUNS = 3
COMPACTION_SECONDS = 15.0
SCHEME = SimHashScheme(LAYOUT, 3)
LOADED = 12_288  # documents of one timed load
STEP = 4_096
COLUMN = b"i:"


def measure(scale: float = 1.0) -> list[Table]:
    with cluster() as running:
        files = hfiles.by_files(running, round(hfiles.DOCUMENTS * scale))
        HBaseBackend(running.url(PREFIX)).make(Options(regions=REGIONS))
        try:
            with closing(open_store(running.url(PREFIX), "write")) as store:
                writes = inserting(running, store, round(BATCH * scale))
                loads = loading(running, store, round(LOADED * scale))
                stored = fingerprints(round(DOCUMENTS * scale), seed=1)
                fill(running, store, stored)
            return [
                writes,
                loads,
                files,
                looking_up(running, stored),
                many_processes(running, stored),
            ]
        finally:
            drop_store(running.url(PREFIX))


def fill(running: Cluster, store: Store, stored: Words) -> None:
    """Puts fingerprints into files, as they are after some days."""
    for start in range(0, len(stored), BATCH):
        store.drawers.add(encode(stored[start : start + BATCH], LAYOUT))
    running.shell(f"flush '{PREFIX}_index'\nmajor_compact '{PREFIX}_index'\n")
    time.sleep(COMPACTION_SECONDS)  # the shell does not wait for it


class Bare:
    """What one would write without simhbase: happybase, and its client's calls without waiting for
    each answer."""

    def __init__(self, running: Cluster) -> None:
        host, port = running.gateway
        self.connections = [happybase.Connection(host, port, timeout=60_000) for _ in range(max(CONNECTIONS))]
        self.table = f"{PREFIX}_index".encode()

    def close(self) -> None:
        for connection in self.connections:
            connection.close()

    def put_rows(self, keys: NDArray[np.uint8]) -> None:
        table = self.connections[0].table(self.table)
        for row in to_bytes(keys):
            table.put(row, {COLUMN: b""})

    def put_batch(self, keys: NDArray[np.uint8]) -> None:
        with self.connections[0].table(self.table).batch(batch_size=1000) as batch:
            for row in to_bytes(keys):
                batch.put(row, {COLUMN: b""})

    def put_documents(self, documents: DocumentBatch) -> None:
        """The rows that simhbase writes for new documents."""
        rows = {
            "fingerprints": documents.listings(SCHEME),
            "index": [(row, b"") for row in to_bytes(documents.index_keys(SCHEME))],
            "documents": pairs(*documents.document_rows(SCHEME)),
        }
        for table, put in rows.items():
            column = COLUMN if table == "index" else b"d:"
            with self.connections[0].table(f"{PREFIX}_{table}").batch(batch_size=1000) as batch:
                for row, value in put:
                    batch.put(row, {column: value})

    def mutate_rows(self, number: int, keys: NDArray[np.uint8]) -> None:
        """mutateRows of many rows, a call under way on each connection."""
        rows = to_bytes(keys)
        clients = [connection.client for connection in self.connections[:number]]
        owing = []
        for turn, start in enumerate(range(0, len(rows), CALL_ROWS)):
            client = clients[turn % number]
            batch = [
                BatchMutation(row=row, mutations=[Mutation(column=COLUMN, value=b"")])
                for row in rows[start : start + CALL_ROWS]
            ]
            if turn >= number:
                client._recv("mutateRows")
                owing.remove(client)
            client._send("mutateRows", tableName=self.table, rowBatches=batch, attributes={})
            owing.append(client)
        for client in owing:
            client._recv("mutateRows")

    def scan_each(self, starts: Sequence[bytes]) -> list[bytes]:
        """One happybase scan after the other."""
        table = self.connections[0].table(self.table)
        return [row for start in starts for row, _ in table.scan(row_start=start, row_stop=stop_of(start))]

    def scan_all(self, number: int, starts: Sequence[bytes]) -> list[bytes]:
        """All opens, all reads, all closes, over some connections."""
        clients = [connection.client for connection in self.connections[:number]]
        turns = [clients[turn % number] for turn in range(len(starts))]
        for client, start in zip(turns, starts, strict=True):
            scan = TScan(startRow=start, stopRow=stop_of(start), caching=DRAWER_LIMIT + 1)
            client._send("scannerOpenWithScan", tableName=self.table, scan=scan, attributes={})
        scanners = [client._recv("scannerOpenWithScan") for client in turns]
        for client, scanner in zip(turns, scanners, strict=True):
            client._send("scannerGetList", id=scanner, nbRows=DRAWER_LIMIT + 1)
        rows = [row.row for client in turns for row in client._recv("scannerGetList")]
        for client, scanner in zip(turns, scanners, strict=True):
            client._send("scannerClose", id=scanner)
        for client in turns:
            client._recv("scannerClose")
        return rows


def stop_of(start: bytes) -> bytes:
    return start + b"\xff" * (KEY_BYTES - PREFIX_BYTES) + b"\x00"


def inserting(running: Cluster, store: Store, n: int) -> Table:
    """The same number of new rows by each way in turn."""
    with closing(Bare(running)) as bare:
        return _inserting(store, bare, n)


def loading(running: Cluster, store: Store, n: int) -> Table:
    """All rows of a load, documents and hints: the same by each way in turn."""
    peer = "happybase, table.batch(batch_size=1000)"
    seconds: dict[str, list[float]] = {peer: [], "simhbase, its writer": []}
    writer = Writer(store, SCHEME)
    with closing(Bare(running)) as bare:
        for run in range(RUNS):
            batch = FingerprintBatch.bare(fingerprints(n, seed=50_000 + run))
            for name, write, names in zip(seconds, (bare.put_documents, writer.add), "ab", strict=True):
                ids = [f"{names}{run}/{number}" for number in range(n)]
                documents = DocumentBatch(ids, batch)
                start = perf_counter()
                for first in range(0, n, STEP):
                    write(documents[range(first, min(first + STEP, n))])
                seconds[name].append(perf_counter() - start)
    rates = {name: n / median(spent) for name, spent in seconds.items()}
    return Table(
        f"HBase: loading new documents, {TABLES + 2} rows each in three tables",
        ["how", "documents/s", "against happybase"],
        [[name, rate, rate / rates[peer]] for name, rate in rates.items()],
        [f"Steps of {STEP:,} documents, as `load` takes them; the median of {RUNS} runs, by turns."],
    )


def _inserting(store: Store, bare: Bare, n: int) -> Table:
    seeds = iter(range(100, 10_000))

    def rate(write: Callable[[NDArray[np.uint8]], None], documents: int) -> float:
        keys = encode(fingerprints(documents, next(seeds)), LAYOUT)
        start = perf_counter()
        write(keys)
        return documents / (perf_counter() - start)

    ways: dict[str, tuple[Callable[[NDArray[np.uint8]], None], int]] = {
        "happybase, table.put of each row": (bare.put_rows, ROW_BY_ROW),
        "happybase, table.batch(batch_size=1000)": (bare.put_batch, n),
        "bare mutateRows, 1 connection": (partial(bare.mutate_rows, 1), n),
        "bare mutateRows of happybase's classes, 4 connections": (partial(bare.mutate_rows, 4), n),
        "simhbase, drawers.add, put together by NumPy, 4 connections": (store.drawers.add, n),
    }
    for write, _ in ways.values():  # the server warms up
        write(encode(fingerprints(ROW_BY_ROW, next(seeds)), LAYOUT))
    store.drawers.add(encode(fingerprints(n, next(seeds)), LAYOUT))
    rates = {name: [] for name in ways}
    for _ in range(RUNS):
        for name, (write, documents) in ways.items():
            rates[name].append(rate(write, documents))
    batch = median(rates["happybase, table.batch(batch_size=1000)"])
    rows: list[list[Cell]] = [
        [name, median(found), median(found) / batch, f"{min(found):,.0f} to {max(found):,.0f}"]
        for name, found in rates.items()
    ]
    return Table(
        "Rows of the index into HBase, ten a document",
        ["how", "documents/s", "times happybase's batch", "range"],
        rows,
        [f"{n:,} documents a run, {RUNS} runs by turns, {REGIONS} regions."],
    )


def looking_up(running: Cluster, stored: Words) -> Table:
    """The drawers of one fingerprint, read by each way in turn."""
    near = np.random.default_rng(2).choice(stored, LOOKUPS) ^ np.uint64(1)
    asked = prefixes(near, LAYOUT)
    with ExitStack() as stack:
        bare = stack.enter_context(closing(Bare(running)))
        urls = {
            f"simhbase, {how}, connections: {number}": f"{url}connections={number}"
            for how, url in {
                "a scan a drawer": running.url(PREFIX).partition("?")[0] + "?",
                "a scan a region": running.url(PREFIX) + "&",
            }.items()
            for number in CONNECTIONS
        }
        stores = {name: stack.enter_context(closing(open_store(url, "read"))) for name, url in urls.items()}
        ways: dict[str, Callable[[NDArray[np.uint8]], object]] = {
            "ten happybase scans": lambda drawers: bare.scan_each(to_bytes(drawers)),
            **{
                f"bare pipelined calls, connections: {number}": lambda drawers, number=number: bare.scan_all(
                    number, to_bytes(drawers)
                )
                for number in CONNECTIONS
            },
            **{
                name: lambda drawers, store=store: list(store.drawers.read(drawers, DRAWER_LIMIT))
                for name, store in stores.items()
            },
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for number, drawers in enumerate(asked):
            for name, look in ways.items():
                start = perf_counter()
                look(drawers)
                if number >= LOOKUPS // 10:  # the first ones warm up
                    seconds[name].append(perf_counter() - start)
    first = median(seconds["ten happybase scans"])
    rows: list[list[Cell]] = [
        [name, 1000 * median(found), 1000 * float(np.quantile(found, 0.95)), median(found) / first]
        for name, found in seconds.items()
    ]
    return Table(
        f"The ten drawers of one lookup, {len(stored):,} documents in HBase",
        ["how", "p50, ms", "p95, ms", "p50 / ten happybase scans"],
        rows,
        [f"{LOOKUPS} lookups by each way in turn, flushed and compacted, {REGIONS} regions."],
    )


def many_processes(running: Cluster, stored: Words) -> Table:
    """Lookups a second of one process that scans naively, and of several that ask in batches."""
    naive = lookups_a_second(1, partial(scan_naively, running, stored))
    rows: list[list[Cell]] = [["ten happybase scans each", 1, naive, 1.0]]
    for processes in (1, PROCESSES):
        for batch in (1, *BATCHES):
            look = partial(look_up_batches, running.url(PREFIX), stored, batch)
            found = lookups_a_second(processes, look)
            rows.append([f"simhbase, batches of {batch}", processes, found, found / naive])
    return Table(
        "Lookups a second",
        ["how", "processes", "lookups/s", "times the first"],
        rows,
        [f"Each for {PROCESS_SECONDS:.0f} s, gateway and HBase on the same machine."],
    )


def lookups_a_second(processes: int, look: Callable[[int, Any], float]) -> float:
    """Runs a function that looks up until the end in so many processes at once; what it returns is
    the number of lookups."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes) as pool:
        begin = time.time() + STARTING_SECONDS
        return sum(pool.map(partial(look, begin), range(processes))) / PROCESS_SECONDS


def scan_naively(running: Cluster, stored: Words, begin: float, seed: int) -> int:
    with closing(Bare(running)) as bare:
        return count_until_the_end(begin, stored, seed, 1, lambda drawers: bare.scan_each(to_bytes(drawers)))


def look_up_batches(url: str, stored: Words, batch: int, begin: float, seed: int) -> int:
    with closing(open_store(url, "read")) as store:
        return count_until_the_end(
            begin, stored, seed, batch, lambda drawers: list(store.drawers.read(drawers, DRAWER_LIMIT))
        )


def count_until_the_end(
    begin: float, stored: Words, seed: int, batch: int, look: Callable[[NDArray[np.uint8]], object]
) -> int:
    queries = np.random.default_rng(seed).permutation(stored)
    look(prefixes(queries[:1], LAYOUT).reshape(-1, PREFIX_BYTES))
    time.sleep(max(0.0, begin - time.time()))
    done = 0
    while time.time() < begin + PROCESS_SECONDS:
        some = queries[np.arange(done, done + batch) % len(queries)]
        look(np.unique(prefixes(some, LAYOUT).reshape(-1, PREFIX_BYTES), axis=0))
        done += batch
    return done
