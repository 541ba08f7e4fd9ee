"""Lookups of many threads and tasks that share reads, against a read for each, in RocksDB and in HBase."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from itertools import cycle, islice
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from simhbase.errors import TablesMissing
from simhbase.index import Index, open_index
from simhbase.model.values import Document
from simhbase.online.shared import SharedLookups
from simhbase.profile.profile import Profile
from simhbase.stores import drop_store
from simhbase.stores.hbase import HBaseBackend
from simhbase.stores.hbase.schema import Options
from tests import reference
from tests.bench.hbase import REGIONS, cluster
from tests.bench.report import Cell, Table

DOCUMENTS = 20_000
CLIENTS = 32
RUNS = 3
SECONDS = 4.0  # of each way in each run
READERS = 2  # beside the one that is the default
PREFIX = "bench-shared"

Figures = tuple[float, float, float]  # lookups a second, and of one the median and the 99th percentile in s
Way = Callable[[Sequence[str]], Figures]


def measure(scale: float = 1.0) -> list[Table]:
    every = max(1, round(74_545 / (DOCUMENTS * scale)))
    documents = [Document(*pair) for pair in reference.documents("xwlb_chinadata", every)]
    return [embedded(documents), in_hbase(documents)]


def embedded(documents: Sequence[Document]) -> Table:
    with TemporaryDirectory() as folder, filled(f"rocksdb:{folder}/store", documents) as index:
        return compared("RocksDB", index, documents)


def in_hbase(documents: Sequence[Document]) -> Table:
    with cluster() as running:
        url = running.url(PREFIX)
        with suppress(TablesMissing):
            drop_store(url)
        HBaseBackend(url).make(Options(regions=REGIONS))
        try:
            with filled(url, documents) as index:
                return compared("HBase, one filtered scan a region", index, documents)
        finally:
            drop_store(url)


def filled(url: str, documents: Sequence[Document]) -> Index:
    index = open_index(url, create=Profile(verify=False))
    index.add(documents)
    return index


def compared(where: str, index: Index, documents: Sequence[Document]) -> Table:
    """All ways by turns, so that a drifting machine hits all alike."""
    texts = [document.text for document in documents]
    np.random.default_rng(5).shuffle(texts)
    with ExitStack() as stack:
        shared = stack.enter_context(SharedLookups(index))
        more = stack.enter_context(SharedLookups(index, readers=READERS))
        ways: dict[str, Way] = {
            "1 thread, a read each": lambda some: by_threads(1, index.find, some),
            "1 thread, shared": lambda some: by_threads(1, shared.find, some),
            f"{CLIENTS} threads, a read each": lambda some: by_threads(CLIENTS, index.find, some),
            f"{CLIENTS} threads, shared": lambda some: by_threads(CLIENTS, shared.find, some),
            f"{CLIENTS} threads, shared, {READERS} readers": lambda some: by_threads(
                CLIENTS, more.find, some
            ),
            f"{CLIENTS} tasks of asyncio, shared": lambda some: asyncio.run(by_tasks(CLIENTS, shared, some)),
        }
        found: dict[str, list[Figures]] = {name: [] for name in ways}
        for run in range(RUNS + 1):
            for number, (name, way) in enumerate(ways.items()):
                figures = way(texts[(run * len(ways) + number) * 97 % len(texts) :] + texts)
                if run:  # the first one warms up
                    found[name].append(figures)
    rates = {name: median(rate for rate, _, _ in figures) for name, figures in found.items()}
    alone = {name.split()[0]: rate for name, rate in rates.items() if name.endswith("a read each")}
    rows: list[list[Cell]] = [
        [
            name,
            rate,
            rate / alone[name.split()[0]],
            *(1000 * median(each[place] for each in found[name]) for place in (1, 2)),
        ]
        for name, rate in rates.items()
    ]
    return Table(
        f"Lookups that share reads: {where}",
        ["who asks", "lookups/s", "times a read each", "p50, ms", "p99, ms"],
        rows,
        [
            f"Texts of {np.mean([len(text) for text in texts]):.0f} characters among {len(texts):,}, "
            f"fingerprints included; each asks anew when it has its answer; medians of {RUNS} runs by turns, "
            f"{SECONDS:.0f} s each."
        ],
    )


def by_threads(clients: int, find: Callable[[str], object], texts: Sequence[str]) -> Figures:
    end = perf_counter() + SECONDS
    seconds: list[float] = []

    def ask(own: Sequence[str]) -> None:
        for text in cycle(own):
            start = perf_counter()
            if start > end:
                return
            find(text)
            seconds.append(perf_counter() - start)

    threads = [
        threading.Thread(target=ask, args=(list(islice(texts, number, None, clients)),))
        for number in range(clients)
    ]
    start = perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return figures(seconds, perf_counter() - start)


async def by_tasks(clients: int, shared: SharedLookups, texts: Sequence[str]) -> Figures:
    begin = perf_counter()
    seconds: list[float] = []
    waiting = cycle(texts)

    async def ask() -> None:
        while (start := perf_counter()) < begin + SECONDS:
            await shared.afind(next(waiting))
            seconds.append(perf_counter() - start)

    await asyncio.gather(*(ask() for _ in range(clients)))
    return figures(seconds, perf_counter() - begin)


def figures(seconds: Sequence[float], spent: float) -> Figures:
    p50, p99 = np.percentile(seconds, (50, 99)).tolist()
    return len(seconds) / spent, p50, p99
