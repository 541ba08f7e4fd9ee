"""Claims in HBase: against lookups and adds, which leave a race; in common batches against a batch each."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import cast

import numpy as np

from simhbase.corpus.inputs import Inputs
from simhbase.corpus.record import InputOptions
from simhbase.errors import TablesMissing
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index.claims.batch import ClaimContext, ClaimKind
from simhbase.index.claims.claim import BatchClaimer, Claimed, Claimer, QueuedClaims
from simhbase.index.reader import Reader
from simhbase.index.stored_profile import write_profile
from simhbase.index.writer import DocumentBatch, Writer
from simhbase.loads.load import load
from simhbase.model.values import Claim
from simhbase.online.client import Client
from simhbase.profile.profile import Profile
from simhbase.stores import drop_store, open_store
from simhbase.stores.base import HintingStore, Store
from simhbase.stores.hbase import HBaseBackend
from simhbase.stores.hbase.schema import Options
from tests.bench.hfiles import REGIONS, cluster, fingerprints, processor_time
from tests.bench.report import Cell, Table
from tests.bench.serve import processor_seconds
from tests.claiming import claims_of
from tests.cluster import Cluster
from tests.service import serving

PREFIX = "bench-claims"
TOGETHER = 2_000  # documents of a batch of claims
ALONE = 200  # documents claimed one at a time, by each way
LOADED = 10_000
CALLERS = 32
WORDS = 40  # of a text
SECONDS = 4.0  # of each way in each run
RUNS = 3
PROFILE = Profile(verify=False)
SCHEME = PROFILE.index_scheme
KIND = ClaimKind(SCHEME.bounds(None, None))

Batch = tuple[list[str], FingerprintBatch]
Way = Callable[[Sequence[Batch]], Iterator[float]]  # seconds of each batch


def measure(scale: float = 1.0) -> list[Table]:
    with cluster() as running:
        url = running.url(PREFIX)
        with suppress(TablesMissing):
            drop_store(url)
        HBaseBackend(url).make(Options(regions=REGIONS))
        try:
            with closing(open_store(url, "write")) as store:
                write_profile(store, PROFILE)
                documents = new_documents()
                return [
                    against_adds(running, store, documents, scale),
                    by_many(running, store, documents, scale),
                    by_load(running, url, scale),
                ]
        finally:
            drop_store(url)


def new_documents() -> Iterator[tuple[str, int]]:
    for seed in count(90_000):
        for number, value in enumerate(fingerprints(10_000, seed).tolist()):
            yield f"claims/{seed}/{number}", value


def taken(documents: Iterator[tuple[str, int]], n: int) -> Batch:
    pairs = [next(documents) for _ in range(n)]
    values = np.array([value for _, value in pairs], dtype=np.uint64)
    return [document for document, _ in pairs], FingerprintBatch.bare(values)


def new_texts() -> Iterator[tuple[str, str]]:
    chance = random.Random(90_000)
    for number in count():
        yield f"texts/{number}", " ".join(f"{chance.getrandbits(40):x}" for _ in range(WORDS))


class Spent:
    """Seconds, and of those of a processor: this process's, the servers' and some others'."""

    def __init__(self, running: Cluster, *others: int) -> None:
        self._running, self._others, self._start = running, others, perf_counter()
        self._before = self._processor_time()

    def _processor_time(self) -> float:
        return sum(processor_time(self._running)) + sum(map(processor_seconds, self._others))

    def until_now(self) -> tuple[float, float]:
        return perf_counter() - self._start, self._processor_time() - self._before


def against_adds(running: Cluster, store: Store, documents: Iterator[tuple[str, int]], scale: float) -> Table:
    """New documents, one at a time and all at once."""
    writer, reader = Writer(store, SCHEME), Reader(store, SCHEME)
    context = ClaimContext(cast(HintingStore, store), SCHEME)
    n, alone = round(TOGETHER * scale), round(ALONE * scale)

    def look_up_and_add(batches: Sequence[Batch]) -> Iterator[float]:
        for ids, batch in batches:
            start = perf_counter()
            reader.find(batch)
            writer.add(DocumentBatch(ids, batch))
            yield perf_counter() - start

    def claim(batches: Sequence[Batch]) -> Iterator[float]:
        with closing(BatchClaimer(context)) as claimer:  # cleans up at the end
            for ids, batch in batches:
                start = perf_counter()
                assert all(each.accepted for each in claimed(claimer, ids, batch).claims)
                yield perf_counter() - start

    ways: dict[str, Way] = {"lookup, then add": look_up_and_add, "claim": claim}
    rates: dict[str, list[float]] = {name: [] for name in ways}
    of_all = dict.fromkeys(ways, 0.0)
    for run in range(RUNS + 1):
        for name, way in ways.items():
            some, before = [taken(documents, n)], Spent(running)
            found = [n / seconds for seconds in way(some)]
            if run:  # the first one warms up
                rates[name] += found
                of_all[name] += before.until_now()[1]
    one: dict[str, list[float]] = {name: [] for name in ways}
    of_one = dict.fromkeys(ways, 0.0)
    for _ in range(10):
        for name, way in ways.items():
            some, before = [taken(documents, 1) for _ in range(alone // 10 or 1)], Spent(running)
            one[name] += way(some)
            of_one[name] += before.until_now()[1]
    first = next(iter(ways))
    rows: list[list[Cell]] = [
        [
            name,
            1000 * median(one[name]),
            median(one[name]) / median(one[first]),
            of_one[name] / of_one[first],
            median(rates[name]),
            median(rates[name]) / median(rates[first]),
            of_all[first] / of_all[name],
        ]
        for name in ways
    ]
    together = f"{n:,} at once"
    return Table(
        "Claims of new documents in HBase",
        [
            *("how", "one, p50 ms", "times", "times, processor time"),
            *(f"{together}, documents/s", "of the first", "of the first, processor time"),
        ],
        rows,
        [
            f"{RUNS} runs with all at once, and {alone} documents each one at a time behind these, by turns. "
            "Processor time is of this process and the servers, and includes what goes on after the answers."
        ],
    )


def by_many(running: Cluster, store: Store, documents: Iterator[tuple[str, int]], scale: float) -> Table:
    """One new document after the other by each of many callers."""
    context = ClaimContext(cast(HintingStore, store), SCHEME)
    lock = threading.Lock()

    def take() -> tuple[list[str], FingerprintBatch]:
        with lock:
            return taken(documents, 1)

    texts = new_texts()

    def take_text() -> tuple[str, str]:
        with lock:
            return next(texts)

    with (
        closing(BatchClaimer(context)) as shared,
        TemporaryDirectory() as folder,
        serving(store.url, Path(folder), "--log-level", "warning") as service,
        Client(service.url) as client,
    ):
        seconds = SECONDS * scale
        ways: dict[str, Callable[[], list[float]]] = {
            f"{CALLERS} threads, a batch each": lambda: by_threads(
                lambda: claims_of(context, *take()).claims[0], seconds
            ),
            f"{CALLERS} threads, common batches": lambda: by_threads(
                lambda: claimed(shared, *take()).claims[0], seconds
            ),
            f"{CALLERS} tasks of asyncio, common batches": lambda: asyncio.run(
                by_tasks(shared, take, seconds)
            ),
            f"{CALLERS} clients of the service, texts": lambda: by_threads(
                lambda: client.claim(*take_text()), seconds
            ),
        }
        found: dict[str, list[tuple[float, ...]]] = {name: [] for name in ways}
        for run in range(RUNS + 1):
            for name, way in ways.items():
                before = Spent(running, service.process.pid)
                latencies = way()
                spent, used = before.until_now()
                if run:  # the first one warms up
                    figures = np.percentile(latencies, (50, 99)).tolist()
                    found[name].append((len(latencies) / spent, 1000 * used / len(latencies), *figures))
    medians = {name: [median(column) for column in zip(*each, strict=True)] for name, each in found.items()}
    first = medians[next(iter(ways))]
    return Table(
        "Claims of many callers in HBase",
        ["who claims", "claims/s", "times", "processor time of one, ms", "of it", "p50, ms", "p99, ms"],
        [
            [name, rate, rate / first[0], used, used / first[1], 1000 * p50, 1000 * p99]
            for name, (rate, used, p50, p99) in medians.items()
        ],
        [
            f"A new document each, again and again; medians of {RUNS} runs by turns. Clients are threads of "
            f"this process, and claim texts of {WORDS} words. Processor time is of this process, the service "
            "and HBase."
        ],
    )


def claimed(claimer: Claimer, ids: Sequence[str], batch: FingerprintBatch) -> Claimed:
    request = QueuedClaims.of(DocumentBatch(ids, batch), KIND)
    claimer.begin(request)
    return request.result()


def by_threads(claim: Callable[[], Claim], seconds: float) -> list[float]:
    end, latencies = perf_counter() + seconds, list[float]()

    def work() -> None:
        while (start := perf_counter()) < end:
            assert claim().accepted
            latencies.append(perf_counter() - start)

    threads = [threading.Thread(target=work) for _ in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return latencies


async def by_tasks(
    claimer: Claimer, take: Callable[[], tuple[list[str], FingerprintBatch]], seconds: float
) -> list[float]:
    end, latencies = perf_counter() + seconds, list[float]()

    async def work() -> None:
        while (start := perf_counter()) < end:
            request = QueuedClaims.of(DocumentBatch(*take()), KIND)
            claimer.begin(request)
            assert (await asyncio.wrap_future(request.future)).claims[0].accepted
            latencies.append(perf_counter() - start)

    await asyncio.gather(*(work() for _ in range(CALLERS)))
    return latencies


def by_load(running: Cluster, url: str, scale: float) -> Table:
    """Files of new documents with fingerprints, loaded with and without claims."""
    n = round(LOADED * scale)
    found: dict[str, list[tuple[float, float]]] = {"load": [], "load --unique-only": []}
    with TemporaryDirectory() as folder:
        for run in range(RUNS):
            for way, figures in enumerate(found.values()):
                path = Path(folder) / f"{run}-{way}.jsonl"
                values = fingerprints(n, seed=300 + 2 * run + way).tolist()
                path.write_text(
                    "".join(
                        json.dumps({"id": f"loads/{run}/{way}/{number}", "hash": f"{value:016x}"}) + "\n"
                        for number, value in enumerate(values)
                    )
                )
                before = Spent(running)
                inputs = Inputs([str(path)], InputOptions(fingerprint_field="hash"))
                load(inputs, url, unique_only=bool(way))
                figures.append(before.until_now())
    medians = {name: [median(column) for column in zip(*each, strict=True)] for name, each in found.items()}
    seconds, used = medians["load"]
    return Table(
        f"Loading {n:,} new documents into HBase",
        ["how", "documents/s", "of load", "the same by processor time"],
        [[name, n / spent, seconds / spent, used / own] for name, (spent, own) in medians.items()],
        [f"Fingerprints made elsewhere; medians of {RUNS} runs by turns."],
    )
