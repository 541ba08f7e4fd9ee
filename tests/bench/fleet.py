"""The knee of a fleet of workers: throughput and latency against offered load, in RocksDB and in HBase.

Requests are due at moments that chance has set beforehand, at so many a second; whichever worker is free
takes the next one, and its latency counts from when it was due, also where all were busy then. So a fleet
that falls behind shows it (what is measured from when a worker begins does not: "coordinated omission").
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from multiprocessing.connection import Connection
from tempfile import TemporaryDirectory
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from simhbase.errors import TablesMissing
from simhbase.index import Index, open_index
from simhbase.model.values import Document
from simhbase.profile.profile import Profile
from simhbase.stores import drop_store
from simhbase.stores.hbase import HBaseBackend
from simhbase.stores.hbase.schema import Options
from tests import reference
from tests.bench.hbase import REGIONS, cluster
from tests.bench.report import Cell, Table

DOCUMENTS = 25_000
STORED = 10_000  # of these, before anything is asked
WORKERS = (1, 2, 4, 8, 16)
# Requests a second, and twice as many each time.
FIRST_LOADS = {"RocksDB": 50.0, "HBase": 10.0}
SECONDS = 3.0  # of each load
WARM_SECONDS = 1.0
KEPT_UP = 0.95  # of the offered load: less is beyond the knee
STARTING = 0.2  # seconds from the word until the first request is due
PREFIX = "bench-fleet"

Operation = Literal["find", "claim"]
Moments = NDArray[np.float64]


@dataclass(frozen=True)
class Step:
    """One load: when requests are due, in seconds after `begin`, which document is the first one's."""

    begin: float
    due: Moments
    first: int


@dataclass(frozen=True)
class Measured:
    """What became of one load: requests a second, and seconds from when they were due."""

    offered: float
    done: float
    p50: float
    p99: float

    @property
    def kept_up(self) -> bool:
        return self.done >= KEPT_UP * self.offered


class Fleet(Protocol):
    """Workers that take requests."""

    def run(self, step: Step) -> list[float]:
        """Seconds from when each request was due until it was answered."""


def measure(scale: float = 1.0) -> list[Table]:
    every = max(1, round(74_545 / (DOCUMENTS * scale)))
    documents = [Document(*pair) for pair in reference.documents("xwlb_chinadata", every)]
    return [*embedded(documents), *in_hbase(documents)]


def embedded(documents: Sequence[Document]) -> Iterator[Table]:
    with TemporaryDirectory() as folder:
        url = f"rocksdb:{folder}/store"
        with open_index(url, create=Profile(verify=False)) as index:
            index.add(documents[:STORED])
        yield knees("RocksDB, processes that read", "find", documents, partial(processes, url, "find"))
        yield knees("RocksDB, threads of the one writer", "claim", documents, partial(threads, url))


def in_hbase(documents: Sequence[Document]) -> Iterator[Table]:
    with cluster() as running:
        url = running.url(PREFIX)
        with suppress(TablesMissing):
            drop_store(url)
        HBaseBackend(url).make(Options(regions=REGIONS))
        try:
            with open_index(url, create=Profile(verify=False)) as index:
                index.add(documents[:STORED])
            for operation in ("find", "claim"):
                yield knees("HBase, processes", operation, documents, partial(processes, url, operation))
        finally:
            drop_store(url)


def knees(
    where: str,
    operation: Operation,
    documents: Sequence[Document],
    fleet_of: Callable[[Sequence[Document], int], Any],
) -> Table:
    """Doubles the load of each fleet until it does not keep up."""
    rows: list[list[Cell]] = []
    used = STORED  # what is claimed is new, as long as there is any
    for workers in WORKERS:
        with fleet_of(documents, workers) as fleet:
            load = FIRST_LOADS[where.partition(",")[0]]
            used += len(offer(fleet, load, WARM_SECONDS, used)[1])
            while True:
                found, seconds = offer(fleet, load, SECONDS, used)
                used += len(seconds)
                rows.append([workers, found.offered, found.done, 1000 * found.p50, 1000 * found.p99])
                if not found.kept_up:
                    break
                load *= 2
    return Table(
        f"A fleet's knee: {operation}, {where}",
        ["workers", "offered/s", "done/s", "p50, ms", "p99, ms"],
        rows,
        [
            f"One document a request, texts of real news, {STORED:,} stored before; latency from when a "
            f"request was due; {SECONDS:.0f} s each, doubled until less than {KEPT_UP:.0%} is done."
        ],
    )


def offer(fleet: Fleet, load: float, seconds: float, first: int) -> tuple[Measured, list[float]]:
    due = np.cumsum(np.random.default_rng(first).exponential(1 / load, round(load * seconds)))
    latencies = fleet.run(Step(time.monotonic() + STARTING, due, first))
    ends = due + np.array(latencies)
    p50, p99 = np.percentile(latencies, (50, 99)).tolist()
    return Measured(len(due) / float(due[-1]), len(due) / float(ends.max()), p50, p99), latencies


def answer_all(
    index: Index, operation: Operation, documents: Sequence[Document], step: Step, take: Callable[[], int]
) -> list[tuple[int, float]]:
    """What one worker does: takes requests until there are none; their numbers and latencies."""
    found = []
    while (number := take()) < len(step.due):
        due = step.begin + float(step.due[number])
        time.sleep(max(0.0, due - time.monotonic()))
        document = documents[(step.first + number) % len(documents)]
        if operation == "find":
            index.find(document.text)
        else:
            index.claim_many([Document(f"{step.first + number}", document.text)])
        found.append((number, time.monotonic() - due))
    return found


def in_order(found: Sequence[tuple[int, float]]) -> list[float]:
    return [latency for _, latency in sorted(found)]


@contextmanager
def threads(url: str, documents: Sequence[Document], workers: int) -> Iterator[Fleet]:
    """Threads of one process that claim."""

    class Threads:
        def run(self, step: Step) -> list[float]:
            numbers = count()
            found: list[tuple[int, float]] = []

            def work() -> None:
                found.extend(answer_all(index, "claim", documents, step, lambda: next(numbers)))

            team = [threading.Thread(target=work) for _ in range(workers)]
            for thread in team:
                thread.start()
            for thread in team:
                thread.join()
            return in_order(found)

    with open_index(url) as index:
        _ = index.fingerprinter
        yield Threads()


@contextmanager
def processes(url: str, operation: Operation, documents: Sequence[Document], workers: int) -> Iterator[Fleet]:
    """Processes that open the store themselves."""
    context = multiprocessing.get_context("spawn")
    numbers = context.Value("q", 0)
    team: list[tuple[Any, Connection]] = []

    class Processes:
        def run(self, step: Step) -> list[float]:
            numbers.value = 0
            for _, pipe in team:
                pipe.send(step)
            return in_order([each for _, pipe in team for each in pipe.recv()])

    for _ in range(workers):
        ours, theirs = context.Pipe()
        arguments = (url, operation, documents, numbers, theirs)
        process = context.Process(target=serve, args=arguments, daemon=True)
        process.start()
        team.append((process, ours))
    for _, pipe in team:
        pipe.recv()
    try:
        yield Processes()
    finally:
        for process, pipe in team:
            pipe.send(None)
            process.join()


def serve(
    url: str, operation: Operation, documents: Sequence[Document], numbers: Any, pipe: Connection
) -> None:
    """A worker's process."""

    def take() -> int:
        with numbers.get_lock():
            numbers.value += 1
            return int(numbers.value) - 1

    access: Literal["read", "write"] = "read" if operation == "find" else "write"
    with open_index(url, access=access) as index:
        index.find(documents[0].text)
        pipe.send("ready")
        for step in iter(pipe.recv, None):
            pipe.send(answer_all(index, operation, documents, step, take))
