"""How loads, lookups, checks and dedup grow with the corpus: by texts that were never asked, with the files
of the embedded store in the page cache and read from the disk.

python -m tests.bench.growth [--picture FILE] [--folder FOLDER] DOCUMENTS ...
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

import simhbase
from simhbase.admin import Administrator
from tests.bench.report import Table, drawn, render
from tests.reference import documents

SIZES = (100_000, 1_000_000)  # 2.2 GB of disk for every million
ASKED = 2_000  # one by one, and as many in batches
BATCH = 200
KEPT = 50_000  # documents that copies are made of
COPIES = 0.1  # of documents: near copies of another
_MEASURED = """
import atexit, resource, sys
from pathlib import Path
from time import process_time

merging = 0.0

def tell():
    own, workers = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    used = own.ru_utime + own.ru_stime + workers.ru_utime + workers.ru_stime
    # Not ru_maxrss, which counts the memory of the process that started this one.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(used, int(status["VmHWM"].split()[0]) >> 10, merging, file=sys.stderr)

atexit.register(tell)
if sys.argv[1] == "load":
    from simhbase.stores.rocksdb.store import RocksStore
    compact = RocksStore.compact

    def measured(*arguments):
        global merging
        start = process_time()
        compact(*arguments)
        merging = process_time() - start

    RocksStore.compact = measured
from simhbase.cli import main
main()
"""
_SENTENCE = re.compile(r"[^。！？]{10,90}[。！？]?")
_ASKED = (("stored texts", 0, False), ("the same from the disk", 0, True), ("other texts", 1, False))

Figures = dict[str, float]  # by name


def measure(scale: float = 1.0) -> list[Table]:
    sizes = [round(size * scale) for size in SIZES]
    with TemporaryDirectory(prefix="simhbase-bench-") as folder:
        return [_table(sizes, Path(folder))]


def _table(sizes: Sequence[int], folder: Path) -> Table:
    figures = [_measured(Path(folder, str(size)), size) for size in sizes]
    return Table(
        "Growth of the embedded store",
        ["documents", *(f"{size:,}" for size in sizes)],
        [[name, *(each[name] for each in figures)] for name in figures[0]],
        [
            "Documents are made of sentences of real news, one in ten is a near copy. Stored texts were "
            "never asked before; other texts are not stored. Reads are calls of read(2) for a text that "
            "is looked up by itself. Peaks are those of the main process; a worker takes 150 to 400 MB.",
        ],
    )


class _Stages:
    """Runs what is not noted in a folder as done, and notes its result there."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._notes = folder / "figures.json"
        self._done: dict[str, Any] = json.loads(self._notes.read_text()) if self._notes.exists() else {}

    def __call__(self, stage: str, do: Callable[[], Any]) -> Any:
        if stage not in self._done:
            self._done[stage] = do()
            self._notes.write_text(json.dumps(self._done))
        return self._done[stage]


def _measured(folder: Path, count: int) -> Figures:
    """The figures of one size."""
    once = _Stages(folder)
    corpus, store = folder / "corpus.jsonl", folder / "store"
    url = f"rocksdb:{store}"
    texts = once("corpus", lambda: _write_corpus(corpus, count))
    figures: Figures = {**once("load", lambda: _load(corpus, store, count))}
    for name, number, from_disk in _ASKED:
        found = once(name, partial(_asked, url, texts[number], from_disk))
        figures |= {f"{name}, {what}": figure for what, figure in found.items()}
    checking, _, _ = once("check", lambda: _run("check", "--store", url))
    figures["check, CPU s"] = round(checking, 1)
    figures["of the load's CPU, %"] = round(checking / count * 1e5 / figures["load, CPU ms a document"], 1)
    shutil.rmtree(store, ignore_errors=True)
    duplicates = folder / "duplicates.jsonl"
    grouping, peak, _ = once("dedup", lambda: _run("dedup", str(corpus), "--duplicates", str(duplicates)))
    for file in (corpus, duplicates):
        file.unlink(missing_ok=True)
    return figures | {"dedup, CPU s": round(grouping, 1), "dedup, peak MB": round(peak)}


def _load(corpus: Path, store: Path, count: int, settings: str = "") -> Figures:
    shutil.rmtree(store, ignore_errors=True)  # of a run that was stopped
    used, peak, merging = _run("load", str(corpus), "--store", f"rocksdb:{store}", settings=settings)
    with simhbase.open(f"rocksdb:{store}", access="read") as index:
        size = Administrator(index).stats().bytes
    return {
        "load, CPU ms a document": round(used / count * 1e3, 3),
        "load, peak MB": round(peak),
        "merge, % of the load's CPU": round(merging / used * 100, 1),
        "bytes a document": round(size / count),
    }


def _run(*command: str, settings: str = "") -> list[float]:
    """Processor time of a command and its workers in seconds, its own peak memory in MB, and the seconds of
    processor time that merging files took. settings: Python that runs first."""
    program = [sys.executable, "-c", settings + _MEASURED]
    done = subprocess.run([*program, *command], capture_output=True, check=True)
    return [float(figure) for figure in done.stderr.decode().splitlines()[-1].split()]


def _write_corpus(file: Path, count: int) -> tuple[list[str], list[str]]:
    """Writes so many documents; returns some of their texts, and others of the same kind."""
    made = corpus(count + 2 * ASKED)
    chance = random.Random(3)
    chosen = set(chance.sample(range(count), min(2 * ASKED, count)))
    stored = []
    with file.open("w") as lines:
        for number in range(count):
            text = next(made)
            lines.write(json.dumps({"id": str(number), "text": text}, ensure_ascii=False) + "\n")
            if number in chosen:
                stored.append(text)
    chance.shuffle(stored)
    return stored, list(made)


def corpus(count: int) -> Iterator[str]:
    """Texts of five sentences of real news, three of them neighbours."""
    chance = random.Random(7)
    items = [
        sentences for _, text in documents("xwlb_chinadata") if len(sentences := _SENTENCE.findall(text)) >= 4
    ]
    pool = [sentence for sentences in items for sentence in sentences]
    kept: list[str] = []
    for _ in range(count):
        if kept and chance.random() < COPIES:
            text = chance.choice(kept)
            place = chance.randrange(len(text))
            yield text[:place] + chance.choice(pool)[:6] + text[place + 4 :]
            continue
        sentences = chance.choice(items)
        first = chance.randrange(max(1, len(sentences) - 3))
        chosen = [*sentences[first : first + 3], chance.choice(pool), chance.choice(pool)]
        chance.shuffle(chosen)
        text = "".join(chosen)
        if len(kept) < KEPT:
            kept.append(text)
        else:
            kept[chance.randrange(KEPT)] = text
        yield text


def _asked(url: str, texts: list[str], from_disk: bool) -> Figures:
    """Reads and milliseconds of a text, texts a second and CPU of one in batches."""
    folder = Path(url.partition(":")[2].partition("?")[0])
    with simhbase.open(url, access="read") as index:
        made = index.fingerprinter.fingerprint_many(texts).fingerprints
        index.find_batch(made[-1:])  # what is read once
        prepare_files(folder, from_disk)
        reads, seconds = _reads(), []
        half = len(made) // 2
        for number in range(half):
            start = perf_counter()
            index.find_batch(made[number : number + 1])
            seconds.append(perf_counter() - start)
        reads = _reads() - reads
        prepare_files(folder, from_disk)
        start, used = perf_counter(), _cpu()
        for first in range(half, len(made), BATCH):
            index.find_batch(made[first : first + BATCH])
        taken, used = perf_counter() - start, _cpu() - used
    asked = len(made) - half
    return {
        "reads": round(reads / half, 1),
        "p50 ms": round(float(np.median(seconds)) * 1e3, 2),
        f"batches of {BATCH}, texts/s": round(asked / taken),
        "CPU ms": round(used / asked * 1e3, 3),
    }


def _cpu() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    return own.ru_utime + own.ru_stime


def _reads() -> int:
    """read(2) calls of this process so far."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("syscr")).split()[1])


def prepare_files(folder: Path, from_disk: bool) -> None:
    """Brings the files of rows into the page cache, or out of it."""
    for file in folder.glob("*.sst"):
        if from_disk:
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        else:
            file.read_bytes()


# Panels of the picture: what is on the axis, and the figures that are drawn.
PANELS = (
    ("reads of files for one text", ("stored texts, reads", "other texts, reads")),
    ("ms for one text, median", tuple(f"{name}, p50 ms" for name, *_ in _ASKED)),
    ("texts/s, 200 at once", tuple(f"{name}, batches of {BATCH}, texts/s" for name, *_ in _ASKED)),
    ("processor time, s", ("check, CPU s", "dedup, CPU s")),
    ("processor time, ms a document", ("load, CPU ms a document",)),
    ("peak memory, MB", ("load, peak MB", "dedup, peak MB")),
)


def draw(table: Table, path: Path) -> None:
    """Draws the figures over the number of documents."""
    sizes = [int(size.replace(",", "")) for size in table.columns[1:]]
    figures = {str(name): values for name, *values in table.rows}
    with drawn(path, (11, 6)) as figure:
        for axes, (name, lines) in zip(figure.subplots(2, 3).flat, PANELS, strict=True):
            for each in lines:
                axes.plot(sizes, figures[each], marker="o", label=each.partition(",")[0])
            axes.set(xscale="log", yscale="log", xlabel="documents", ylabel=name)
            axes.legend(fontsize="small")
            axes.grid(alpha=0.3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("documents", type=int, nargs="+")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the figures, as SVG or PNG")
    parser.add_argument(
        "--folder", type=Path, help="keep what is done here: the same command resumes a run that was stopped"
    )
    given = parser.parse_args()
    kept = nullcontext(given.folder) if given.folder else TemporaryDirectory(prefix="simhbase-bench-")
    with kept as folder:
        table = _table(given.documents, Path(folder))
    print(render([table]))
    if given.picture:
        draw(table, given.picture)


if __name__ == "__main__":
    main()
