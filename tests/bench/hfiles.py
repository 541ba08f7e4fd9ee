"""Loads into HBase as HFiles against the same through the gateway, into new tables each time."""

from __future__ import annotations

import json
import os
import resource
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from simhbase.corpus.inputs import Inputs
from simhbase.drawers.layout import layout
from simhbase.drawers.rowkeys import KEY_BYTES, encode
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index, open_index
from simhbase.index.writer import DocumentBatch
from simhbase.loads.hfiles import HFileLoad
from simhbase.loads.load import load
from simhbase.profile.profile import Profile
from simhbase.stores import drop_store
from simhbase.stores.hbase import HBaseBackend, HBaseStore
from simhbase.stores.hbase.hfiles import HFiles, buckets_for, even_borders
from simhbase.stores.hbase.schema import INDEX, Options
from simhbase.stores.hbase.tools import VARIABLE, hbase_command
from simhbase.stores.hbase.workfolder import WorkFolder
from simhbase.stores.strings import Strings
from tests.bench.report import Cell, Table
from tests.cluster import Cluster
from tests.reference import documents

PREFIX = "bench-files"
REGIONS = 16
WORKERS = 2
TEXTS = 150_000
DOCUMENTS = 1_000_000
FEWER = 0.3  # this part of them as well
STEP = 131_072  # documents of a write, as a load of prepared fingerprints takes them
PATIENT = 600  # seconds for a call: a busy machine must not end the measurement
KEYS_STEP = 10_000  # the same of the index, through the gateway
LAYOUT = layout("5x2")
TABLES = len(LAYOUT.tables)
Words = NDArray[np.uint64]


@contextmanager
def cluster() -> Iterator[Cluster]:
    """The HBase in the folder SIMHBASE_HBASE, or one that lives as long as the measurement."""
    with ExitStack() as stack:
        folder = os.environ.get("SIMHBASE_HBASE") or stack.enter_context(TemporaryDirectory())
        found = Cluster(Path(folder))
        if not found.is_up():
            found.run("up")
            stack.callback(found.run, "down")
        yield found


def measure(scale: float = 1.0) -> list[Table]:
    with cluster() as running:
        os.environ[VARIABLE] = shlex.join(running.command("run"))
        return [by_files(running, round(DOCUMENTS * scale)), by_texts(running, round(TEXTS * scale))]


def by_files(running: Cluster, n: int) -> Table:
    """The same new documents through the gateway and as HFiles, into new tables each time."""
    rows: list[list[Cell]] = []
    for number in (round(n * FEWER), n):
        batch = FingerprintBatch.bare(fingerprints(number, seed=3))
        ids = [f"2026/11/22/{each:09}" for each in range(number)]
        for what, *ways in (
            ("index", partial(put_index, batch.values), partial(hand_over_index, batch.values)),
            ("all tables", partial(put_all, ids, batch), partial(hand_over_all, ids, batch)),
        ):
            found = [into_new_tables(running, write) for write in ways]
            for how, spent in zip(("gateway", "HFiles"), found, strict=True):
                ratios = [
                    found[0].seconds / spent.seconds,
                    sum(found[0].processor) / sum(spent.processor),
                ]
                name = f"{what} of {number:,}, {how}"
                rows.append([name, number / spent.seconds, *ratios, *spent.processor, spent.flushes])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    processor = ("simhbase", "tools", "servers")
    return Table(
        "HBase: loads through the gateway and as HFiles",
        [
            *("how", "documents/s", "against the gateway", "the same by processor time"),
            *(f"processor time of {each}, s" for each in processor),
            "flushes",
        ],
        rows,
        [
            f"Documents with fingerprints, {REGIONS} regions, one run each; HFiles with all their checks.",
            f"Load of the machine {os.getloadavg()[1]:.0f}; simhbase's peak of memory {peak} MB.",
        ],
    )


def by_texts(running: Cluster, n: int) -> Table:
    """Whole loads of the same news, fingerprints included, by both roads, with the default profile."""
    url = running.url(PREFIX, timeout=PATIENT)
    rows: list[list[Cell]] = []
    with TemporaryDirectory() as folder:
        file = Path(folder) / "news.jsonl"
        with file.open("w") as out:
            for number, (_, text) in enumerate(islice(cycle(documents("xwlb_chinadata")), n)):
                out.write(json.dumps({"id": str(number), "text": f"{text} {number}"}) + "\n")
        first = 0.0
        roads: tuple[Literal["hfiles"] | None, ...] = (None, "hfiles")
        for how in roads:
            HBaseBackend(url).make(Options(regions=REGIONS))
            open_index(url, create="default").close()
            before, start = processor_time(running), perf_counter()
            load(Inputs([str(file)], threads=WORKERS), url, via=how, work_folder=how and folder)
            seconds, after = perf_counter() - start, processor_time(running)
            drop_store(url)
            first = first or seconds
            spent = (later - earlier for later, earlier in zip(after, before, strict=True))
            rows.append([how or "gateway", n / seconds, first / seconds, *spent])
    return Table(
        f"HBase: loads of {n:,} texts of news by {WORKERS} threads",
        [
            *("how", "documents/s", "against the gateway"),
            *(f"processor time of {each}, s" for each in ("simhbase", "workers and tools", "servers")),
        ],
        rows,
        ["One run each; fingerprints included, default profile."],
    )


@dataclass(frozen=True)
class Spent:
    """What a write took. processor: seconds of this process, of HBase's tools and of its servers."""

    seconds: float
    processor: tuple[float, float, float]
    flushes: int


def into_new_tables(running: Cluster, write: Callable[[Index, str], object]) -> Spent:
    """What a write into new tables takes. It gets a folder, too."""
    url = running.url(PREFIX, timeout=PATIENT)
    HBaseBackend(url).make(Options(regions=REGIONS))
    try:
        with open_index(url, create=Profile(verify=False)) as index, TemporaryDirectory() as folder:
            before, start, flushes_before = processor_time(running), perf_counter(), flushes(running)
            write(index, folder)
            seconds, after = perf_counter() - start, processor_time(running)
    finally:
        drop_store(url)
    own, tools, servers = (later - earlier for later, earlier in zip(after, before, strict=True))
    return Spent(seconds, (own, tools, servers), flushes(running) - flushes_before)


def processor_time(running: Cluster) -> tuple[float, float, float]:
    """Seconds of this process, of its children that have ended, and of HBase's servers."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own, tools = (usage.ru_utime + usage.ru_stime for usage in usages)
    stats = [Path(f"/proc/{pid}/stat").read_text() for pid in running.description["pids"].values()]
    ticks = sum(sum(map(int, stat.rpartition(")")[2].split()[11:13])) for stat in stats)
    return own, tools, ticks / os.sysconf("SC_CLK_TCK")


def flushes(running: Cluster) -> int:
    """Flushes of all tables until now."""
    return running.run("logs", "master").count("Finished flush")


def put_index(values: Words, index: Index, _folder: str) -> None:
    for start in range(0, len(values), KEYS_STEP):
        index.store.drawers.add(encode(values[start : start + KEYS_STEP], LAYOUT))


def put_all(ids: Sequence[str], batch: FingerprintBatch, index: Index, _folder: str) -> None:
    for first in range(0, len(ids), STEP):
        index.add_batch(ids[first : first + STEP], batch[first : first + STEP])


def hand_over_index(values: Words, index: Index, folder: str, files: int = 1) -> None:
    """files: of each region."""
    store = cast(HBaseStore, index.store)
    hfiles = HFiles(store, hbase_command(), WorkFolder(folder, "work"), lambda: None, print)
    with closing(hfiles):
        hfiles.start()
        for part in np.array_split(values, files):
            borders = even_borders(buckets_for(len(part) * TABLES))
            with closing(hfiles.rows(INDEX, store.server_time(), borders)) as rows:
                for start in range(0, len(part), STEP):
                    keys = encode(part[start : start + STEP], LAYOUT).reshape(-1, KEY_BYTES)
                    rows.put(Strings.rows_of(keys), Strings.empty(len(keys)))
                hfiles.hand_over(rows, lambda: None)


def hand_over_all(ids: Sequence[str], batch: FingerprintBatch, index: Index, folder: str) -> None:
    with HFileLoad(index, folder, "bench", lambda: None, print) as taking:
        for first in range(0, len(ids), STEP):
            taking.append(DocumentBatch(ids[first : first + STEP], batch[first : first + STEP]))
        taking.hand_over()


def fingerprints(n: int, seed: int) -> Words:
    return np.random.default_rng(seed).integers(0, 2**64, n, dtype=np.uint64)
