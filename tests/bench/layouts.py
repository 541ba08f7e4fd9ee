"""Layouts side by side: what a document costs, and what a lookup reads, in RocksDB and in HBase.

Fingerprints are uniform, so that drawers are as full as the layout makes them. Those of real texts fill them
several times as densely.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index, open_index
from simhbase.process.progress import no_progress
from simhbase.profile.profile import Profile
from simhbase.stores import drop_store
from simhbase.stores.hbase import HBaseBackend
from simhbase.stores.hbase.schema import INDEX, Options
from tests.bench.hfiles import REGIONS, cluster
from tests.bench.report import Cell, Table
from tests.cluster import Cluster

LAYOUTS = ("5x2", "4x1", "2x1p1")
DOCUMENTS = {"RocksDB": 1_000_000, "HBase": 100_000}
STEP = {"RocksDB": 1 << 17, "HBase": 10_000}  # documents of one call, by turns
LOOKUPS = 1_000
BATCH = 50
TABLES = ("fingerprints", "documents")
DISCHARGED_SECONDS = 400.0
Words = NDArray[np.uint64]


def measure(scale: float = 1.0) -> list[Table]:
    return [embedded(round(DOCUMENTS["RocksDB"] * scale)), in_hbase(round(DOCUMENTS["HBase"] * scale))]


def embedded(documents: int) -> Table:
    with TemporaryDirectory(prefix="simhbase-bench-") as folder, ExitStack() as opened:
        indexes = {
            name: opened.enter_context(open_index(f"rocksdb:{folder}/{name}", create=_profile(name)))
            for name in LAYOUTS
        }
        loads = _load(indexes, _values(documents), STEP["RocksDB"])
        for index in indexes.values():
            index.store.compact(no_progress, whole=True)
        sizes = {name: _bytes(Path(folder, name)) / documents for name in LAYOUTS}
        return _table("RocksDB", documents, indexes, loads, sizes)


def in_hbase(documents: int) -> Table:
    with cluster() as running, ExitStack() as opened:
        indexes = {name: opened.enter_context(_tables(running, name)) for name in LAYOUTS}
        loads = _load(indexes, _values(documents), STEP["HBase"])
        tables = [f"{_prefix(name)}_{table}" for name in LAYOUTS for table in (INDEX, *TABLES)]
        running.shell("".join(f"flush '{table}'\nmajor_compact '{table}'\n" for table in tables))
        sizes = {name: _compacted_bytes(running.folder, _prefix(name)) / documents for name in LAYOUTS}
        return _table("HBase", documents, indexes, loads, sizes)


@contextmanager
def _tables(running: Cluster, name: str) -> Iterator[Index]:
    url = running.url(_prefix(name))
    HBaseBackend(url).make(Options(regions=REGIONS))
    try:
        with open_index(url, create=_profile(name)) as index:
            yield index
    finally:
        drop_store(url)


def _prefix(name: str) -> str:
    return f"bench-{name}"


def _profile(name: str) -> Profile:
    return Profile(layout=name, verify=False)


def _values(n: int) -> Words:
    return np.random.default_rng(1).integers(0, 2**64, n, dtype=np.uint64)


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*.sst"))


def _compacted_bytes(folder: Path, prefix: str) -> int:
    """Bytes of the tables' files, once the servers have removed those that were compacted, which takes
    minutes."""
    end = perf_counter() + DISCHARGED_SECONDS
    while perf_counter() < end:
        files = [file for file in folder.rglob(f"data/*/{prefix}_*/*/?/*") if file.is_file()]
        if len({file.parent for file in files}) == len(files):
            return sum(file.stat().st_size for file in files)
        time.sleep(1)
    raise TimeoutError(f"tables {prefix}_* still have files that were compacted")


def _load(indexes: dict[str, Index], values: Words, step: int) -> dict[str, float]:
    """Documents per second of each, loaded by turns."""
    seconds = dict.fromkeys(indexes, 0.0)
    for start in range(0, len(values), step):
        part = values[start : start + step]
        ids = [f"{value:016x}" for value in part.tolist()]
        for name, index in indexes.items():
            begin = perf_counter()
            index.add_fingerprints(ids, part)
            seconds[name] += perf_counter() - begin
    return {name: len(values) / each for name, each in seconds.items()}


def _table(
    where: str,
    documents: int,
    indexes: dict[str, Index],
    loads: dict[str, float],
    sizes: dict[str, float],
) -> Table:
    queries = np.random.default_rng(2).integers(0, 2**64, LOOKUPS, dtype=np.uint64)
    single, batches = _look_up(indexes, queries, 1), _look_up(indexes, queries, BATCH)
    rows: list[list[Cell]] = []
    for name, index in indexes.items():
        scheme = index.profile.index_scheme
        probes = scheme.probes(FingerprintBatch.bare(queries[:1])).shape[1]
        rows.append(
            [
                name,
                scheme.tables,
                probes,
                loads[name],
                loads[name] / loads[LAYOUTS[0]],
                *([sizes[name]] if sizes else []),
                1e6 * median(single[name]),
                median(single[name]) / median(single[LAYOUTS[0]]),
                BATCH / median(batches[name]),
            ]
        )
    return Table(
        f"Layouts in {where}, {documents:,} documents",
        [
            *("layout", "rows a document", "drawers a lookup", "load, documents/s", f"times {LAYOUTS[0]}'s"),
            *(["bytes a document, all tables"] if sizes else []),
            *("find, p50, microseconds", f"of {LAYOUTS[0]}'s", f"lookups/s in batches of {BATCH}"),
        ],
        rows,
        ["Uniform fingerprints, and queries that find nothing; layouts by turns in one process."],
    )


def _look_up(indexes: dict[str, Index], queries: Words, size: int) -> dict[str, Sequence[float]]:
    """Seconds of each read, by layout."""
    seconds: dict[str, list[float]] = {name: [] for name in indexes}
    for start in range(0, len(queries), size):
        for name, index in indexes.items():
            begin = perf_counter()
            index.find_fingerprints(queries[start : start + size])
            seconds[name].append(perf_counter() - begin)
    return seconds
