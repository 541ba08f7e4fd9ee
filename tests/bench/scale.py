"""How loads, sizes and lookups grow with the number of documents, and what `simhbase plan` says of them.

python -m tests.bench.scale [--hbase] [--picture FILE] [--folder FOLDER] DOCUMENTS ...

Documents are skewed fingerprints with ids, without texts: into RocksDB as `load` writes them, with --hbase
into HBase by HFiles. A store grows from each size to the next one. Cold: the files are in no cache of the
system or of the process (in HBase they may be in the servers').
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import numpy as np
from numpy.typing import NDArray

import simhbase
from simhbase.admin.plan import TEXTS_PER_SECOND, Needs, plan, spread_of
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index, open_index
from simhbase.profile.profile import Profile
from simhbase.stores import drop_store
from simhbase.stores.hbase import HBaseBackend
from simhbase.stores.hbase.schema import Options
from simhbase.stores.hbase.tools import VARIABLE
from tests.bench.blocks import files_of
from tests.bench.growth import prepare_files
from tests.bench.hfiles import PATIENT, REGIONS, cluster, hand_over_all
from tests.bench.report import Table, drawn, render
from tests.bench.skewed import skewed

SIZES = (100_000, 300_000, 1_000_000)
LAYOUTS = ("5x2", "2x1p1")
STEP = 1 << 17  # documents of one write
STEP_OF_HFILES = 1 << 21  # a multiple of it: HBase's tool takes seconds to start
SAMPLE = 100_000  # fingerprints that tell how drawers fill
ASKED = 1_000
BATCH = 200
ID_BYTES = 16
Figures = dict[str, float]  # by name
Words = NDArray[np.uint64]


def measure(scale: float = 1.0) -> list[Table]:
    with TemporaryDirectory(prefix="simhbase-bench-") as folder:
        return [_table("rocksdb", grown([round(size * scale) for size in SIZES], Path(folder)))]


def grown(sizes: Sequence[int], folder: Path) -> dict[str, dict[int, Figures]]:
    """Figures by layout and number of documents, in RocksDB."""
    found: dict[str, dict[int, Figures]] = {}
    for layout in LAYOUTS:
        path = folder / layout
        found[layout] = {}
        for before, size in zip([0, *sizes], sizes, strict=False):
            with open_index(f"rocksdb:{path}", create=_profile(layout)) as index:
                figures = _loaded(index, before, size)
                figures["bytes a document"] = simhbase.Administrator(index).stats().bytes / size
            for name, from_disk in (("cold", True), ("warm", False)):
                prepare_files(path, from_disk)
                with open_index(f"rocksdb:{path}", access="read") as index:
                    figures |= _asked(index, size, name)
            found[layout][size] = figures | _planned("rocksdb", layout, size)
            print(layout, size, found[layout][size], file=sys.stderr)
    return found


def grown_in_hbase(sizes: Sequence[int], folder: Path) -> dict[str, dict[int, Figures]]:
    """The same in HBase, by HFiles."""
    found: dict[str, dict[int, Figures]] = {}
    with cluster() as running, ExitStack() as stack:
        os.environ[VARIABLE] = shlex.join(running.command("run"))
        for layout in LAYOUTS:
            url = running.url(f"scale-{layout}", timeout=PATIENT)
            HBaseBackend(url).make(Options(regions=REGIONS))
            stack.callback(drop_store, url)
            found[layout] = {}
            for before, size in zip([0, *sizes], sizes, strict=False):
                with open_index(url, create=_profile(layout)) as index:
                    figures = _loaded(index, before, size, folder)
                    # What `stats` says of so many skewed rows is a guess.
                    figures["bytes a document"] = sum(files_of(running, f"scale-{layout}_*").values()) / size
                    figures |= _asked(index, size, "first") | _asked(index, size, "warm")
                found[layout][size] = figures | _planned("hbase", layout, size)
                print(layout, size, found[layout][size], file=sys.stderr)
    return found


def _profile(layout: str) -> Profile:
    return Profile(layout=layout, verify=False)


def _documents(start: int, stop: int, step: int = STEP) -> Iterator[tuple[list[str], Words]]:
    """Documents from number `start` on, by steps that do not depend on it."""
    for first in range(start // step * step, stop, step):
        parts = [skewed(STEP, seed=seed) for seed in range(first, min(first + step, stop), STEP)]
        values = np.concatenate(parts)[max(start - first, 0) : stop - first]
        number = max(start, first)
        yield [f"{each:0{ID_BYTES}}" for each in range(number, number + len(values))], values


def _loaded(index: Index, before: int, size: int, folder: Path | None = None) -> Figures:
    """Seconds and processor time of loading documents, without generating them. folder: by HFiles."""
    seconds, used = 0.0, 0.0
    for ids, values in _documents(before, size, STEP if folder is None else STEP_OF_HFILES):
        begin, began = perf_counter(), process_time()
        batch = FingerprintBatch.bare(values)
        if folder is None:
            index.add_batch(ids, batch)
        else:
            hand_over_all(ids, batch, index, str(folder))
        seconds, used = seconds + perf_counter() - begin, used + process_time() - began
    begin, began = perf_counter(), process_time()
    index.store.compact()
    seconds, used = seconds + perf_counter() - begin, used + process_time() - began
    loaded = size - before
    return {"load, documents/s": loaded / seconds, "load, CPU microseconds": 1e6 * used / loaded}


def _asked(index: Index, size: int, name: str) -> Figures:
    """Lookups one by one and in batches; half of the queries are 3 bits from a stored fingerprint."""
    random = np.random.default_rng(size)
    queries = skewed(2 * ASKED, seed=size + 1)
    stored = np.concatenate([values for _, values in _documents(0, min(size, STEP))])
    queries[::2] = random.choice(stored, ASKED) ^ np.uint64(1 << 60 | 1 << 33 | 1 << 5)
    seconds = []
    for number in range(ASKED):
        begin = perf_counter()
        found = index.find_fingerprints(queries[number : number + 1])
        seconds.append(perf_counter() - begin)
        assert number % 2 or found[0].matches, "a stored fingerprint was not found"
    began = process_time()
    for first in range(ASKED, 2 * ASKED, BATCH):
        index.find_fingerprints(queries[first : first + BATCH])
    used = process_time() - began
    p50, p99 = (1e3 * np.percentile(seconds, [50, 99])).tolist()
    return {
        f"{name}, p50 ms": p50,
        f"{name}, p99 ms": p99,
        f"{name}, CPU microseconds in batches of {BATCH}": 1e6 * used / ASKED,
    }


def _planned(kind: str, layout: str, size: int) -> Figures:
    """What `simhbase plan` says, with the spread of these fingerprints."""
    profile = _profile(layout)
    sample = FingerprintBatch.bare(np.unique(skewed(SAMPLE, seed=1)))
    order = np.random.default_rng(1).permutation(len(sample))
    spread = spread_of(sample[order], profile.index_scheme, 1.0, "skewed fingerprints")
    planned = plan(size, profile, spread, id_bytes=ID_BYTES)
    needs: Needs = next(each for each in planned.stores if each.store == kind)
    hours = needs.load_hours if needs.hfiles_hours is None else needs.hfiles_hours
    return {
        "planned bytes a document": 1e9 * needs.disk_gb / size,
        "planned load, CPU microseconds": 3600e6 * hours / size - 1e6 / TEXTS_PER_SECOND,
        "planned lookup, CPU microseconds": 1e3 * needs.lookup_ms,
    }


def _table(kind: str, found: dict[str, dict[int, Figures]]) -> Table:
    columns = [(layout, size) for layout, by_size in found.items() for size in by_size]
    names = next(iter(found[columns[0][0]].values()))
    return Table(
        f"Growth of {kind} by fingerprints",
        ["", *(f"{layout}, {size:,}" for layout, size in columns)],
        [[name, *(found[layout][size][name] for layout, size in columns)] for name in names],
        [
            "Skewed fingerprints with ids of 16 bytes, no sketches; half of the lookups are 3 bits from a "
            "stored one. Planned: `simhbase plan` with the spread of these fingerprints. CPU of this process."
        ],
    )


PANELS = (
    ("bytes a document", ("bytes a document",), "planned bytes a document"),
    ("load, CPU microseconds", ("load, CPU microseconds",), "planned load, CPU microseconds"),
    (
        "lookup, CPU microseconds",
        (f"warm, CPU microseconds in batches of {BATCH}",),
        "planned lookup, CPU microseconds",
    ),
    ("lookup, ms", ("warm, p50 ms", "warm, p99 ms", "cold, p50 ms", "first, p50 ms"), ""),
)


def draw(found: dict[str, dict[int, Figures]], path: Path) -> None:
    """Draw the figures over the number of documents, and the plan as dashed lines."""
    with drawn(path, (11, 7)) as figure:
        for axes, (label, measured, planned) in zip(figure.subplots(2, 2).flat, PANELS, strict=True):
            for color, (layout, by_size) in zip(("C0", "C1"), found.items(), strict=False):
                sizes = list(by_size)
                for name, marker in zip(measured, "os^v", strict=False):
                    if name in by_size[sizes[0]]:
                        points = [figures[name] for figures in by_size.values()]
                        axes.plot(sizes, points, marker=marker, color=color, label=f"{layout}, {name}")
                if planned:
                    points = [figures[planned] for figures in by_size.values()]
                    axes.plot(sizes, points, "--", color=color, label=f"{layout}, planned")
            axes.set(xscale="log", xlabel="documents", ylabel=label)
            axes.set_ylim(bottom=0)
            axes.legend(fontsize="small")
            axes.grid(alpha=0.3)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("documents", type=int, nargs="+")
    parser.add_argument("--hbase", action="store_true", help="into HBase by HFiles, in place of RocksDB")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the figures, as SVG or PNG")
    parser.add_argument("--folder", type=Path, help="where the stores are made; a temporary one by default")
    options = parser.parse_args()
    sizes = sorted(options.documents)
    with TemporaryDirectory(prefix="simhbase-bench-", dir=options.folder) as folder:
        found = (grown_in_hbase if options.hbase else grown)(sizes, Path(folder))
    print(render([_table("hbase" if options.hbase else "rocksdb", found)]))
    if options.picture:
        draw(found, options.picture)


if __name__ == "__main__":
    main()
