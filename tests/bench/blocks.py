"""Lookups of new texts in HBase by what its tables are given: Bloom filters and the block cache, before and
after a major compaction."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from simhbase.drawers.rowkeys import PREFIX_BYTES, prefixes
from simhbase.index import open_index
from simhbase.profile.profile import Profile
from simhbase.stores import drop_store, open_store
from simhbase.stores.base import Store
from simhbase.stores.hbase import HBaseBackend
from simhbase.stores.hbase.schema import Options
from simhbase.stores.hbase.tools import VARIABLE
from tests.bench.hfiles import (
    LAYOUT,
    PATIENT,
    REGIONS,
    Words,
    cluster,
    fingerprints,
    hand_over_index,
    processor_time,
)
from tests.bench.report import Cell, Table
from tests.cluster import Cluster

PREFIX = "bench-blocks"
INDEX = f"{PREFIX}_index"
DOCUMENTS = 2_000_000
FILES = 4  # of each region, before they are compacted
ASKED = 300  # one by one, and as many in batches
BATCH = 200
DRAWER_LIMIT = 10_000
COMPACTED = 600  # seconds that a compaction may take


def measure(scale: float = 1.0) -> list[Table]:
    n = round(DOCUMENTS * scale)
    rows: list[list[Cell]] = []
    with cluster() as running:
        os.environ[VARIABLE] = shlex.join(running.command("run"))
        for bloom in ("ROWPREFIX_FIXED_LENGTH", "NONE"):
            with _filled(running, n, bloom) as (ways, stored):
                chance = np.random.default_rng(7)
                replaced: dict[Path, int] = {}  # HBase removes them some minutes later
                for files in (FILES, 1):
                    if files == 1:
                        replaced = files_of(running, INDEX)
                        _compact(running)
                    size = sum(files_of(running, INDEX, replaced).values()) >> 20
                    for cached in ("true", "false"):
                        running.shell(f"alter '{INDEX}', {{NAME => 'i', BLOCKCACHE => '{cached}'}}")
                        for way, store in ways.items():
                            near = chance.choice(stored, 2 * ASKED, replace=False) ^ np.uint64(1)
                            others = chance.integers(0, 2**64, 2 * ASKED, dtype=np.uint64)
                            kinds = [_asked(running, store, asked) for asked in (near, others)]
                            rows.append([way, bloom, files, cached, size, *chain(*kinds)])
    return [
        Table(
            f"HBase: lookups among {n:,} documents by the attributes of the index",
            [
                *("way", "Bloom filter", "files a region", "block cache", "MB"),
                *(
                    f"{what}: {figure}"
                    for what in ("full drawers", "empty drawers")
                    for figure in ("p50 ms", "kB read", "texts/s in batches", "CPU ms of the servers")
                ),
            ],
            rows,
            [
                f"New texts each time, {ASKED:,} one by one and {ASKED:,} in batches of {BATCH}. Full "
                "drawers have a row or more, of the empty ones hardly any has. Files are in the page cache; "
                f"{REGIONS} regions; the servers' reads and processor time are those of single texts."
            ],
        )
    ]


@contextmanager
def _filled(running: Cluster, n: int, bloom: str) -> Iterator[tuple[dict[str, Store], Words]]:
    """A store whose index has n fingerprints in FILES files a region, opened for each way, and those."""
    url = running.url(PREFIX, timeout=PATIENT)
    stored = fingerprints(n, seed=3)
    HBaseBackend(url).make(Options(regions=REGIONS))
    try:
        with open_index(url, create=Profile(verify=False)) as index, TemporaryDirectory() as folder:
            running.shell(f"alter '{INDEX}', {{NAME => 'i', BLOOMFILTER => '{bloom}'}}")
            running.shell(f"alter '{INDEX}', COMPACTION_ENABLED => 'false'")
            hand_over_index(stored, index, folder, FILES)
        plain = f"{url.partition('?')[0]}?timeout={PATIENT}"  # without a Thrift 2 gateway
        with closing(open_store(url, "read")) as filtered, closing(open_store(plain, "read")) as scanned:
            yield {"a scan a region": filtered, "a scan a drawer": scanned}, stored
    finally:
        drop_store(url)


def _compact(running: Cluster) -> None:
    running.shell(f"alter '{INDEX}', COMPACTION_ENABLED => 'true'\nmajor_compact '{INDEX}'")
    end = time.monotonic() + COMPACTED
    time.sleep(2)  # the servers are only told
    while "NONE" not in running.shell(f"puts @shell.admin.getCompactionState('{INDEX}')"):
        assert time.monotonic() < end
        time.sleep(1)


def files_of(running: Cluster, tables: str, without: Collection[Path] = ()) -> dict[Path, int]:
    """Sizes of the files of tables, given as a pattern of names."""
    found = running.folder.rglob(f"data/*/{tables}/*/?/*")
    return {
        each: each.stat().st_size for each in found if "archive" not in each.parts and each not in without
    }


def _asked(running: Cluster, store: Store, asked: Words) -> list[Cell]:
    """Milliseconds, kB that the servers read, texts a second in batches, and the servers' milliseconds."""
    wanted = prefixes(asked, LAYOUT)
    for drawers in wanted[:20]:  # connections open
        list(store.drawers.read(drawers, DRAWER_LIMIT))
    read, used, seconds = _read(running), processor_time(running)[2], []
    for drawers in wanted[20:ASKED]:
        start = perf_counter()
        list(store.drawers.read(drawers, DRAWER_LIMIT))
        seconds.append(perf_counter() - start)
    read, used = _read(running) - read, processor_time(running)[2] - used
    start = perf_counter()
    for first in range(ASKED, len(wanted), BATCH):
        drawers = np.unique(wanted[first : first + BATCH].reshape(-1, PREFIX_BYTES), axis=0)
        list(store.drawers.read(drawers, DRAWER_LIMIT))
    rate = (len(wanted) - ASKED) / (perf_counter() - start)
    return [
        round(median(seconds) * 1e3, 2),
        round(read / len(seconds) / 1e3, 1),
        round(rate),
        round(used / len(seconds) * 1e3, 2),
    ]


def _read(running: Cluster) -> int:
    """Bytes that the servers have read so far."""
    found = (Path(f"/proc/{pid}/io").read_text() for pid in running.description["pids"].values())
    return sum(int(io.partition("rchar: ")[2].split()[0]) for io in found)
