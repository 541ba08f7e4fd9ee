"""How loads, lookups, checks and dedup grow with the corpus: by texts that were never asked, with the files
of the embedded store in the page cache and read from the disk.

python -m tests.bench.growth [--picture FILE] DOCUMENTS ...
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

import simhbase
from simhbase.admin import Administrator
from tests.bench.report import Cell, Table, render
from tests.reference import documents

SIZES = (100_000, 1_000_000)  # 2.2 GB of disk for every million
ASKED = 2_000  # one by one, and as many in batches
BATCH = 200
KEPT = 50_000  # documents that copies are made of
COPIES = 0.1  # of documents: near copies of another
_MEASURED = """
import atexit, resource, sys

def tell():
    own, workers = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    print(own.ru_utime + own.ru_stime + workers.ru_utime + workers.ru_stime, own.ru_maxrss, file=sys.stderr)

atexit.register(tell)
from simhbase.cli import main
main()
"""
_SENTENCE = re.compile(r"[^。！？]{10,90}[。！？]?")


def measure(scale: float = 1.0) -> list[Table]:
    return [_table([round(size * scale) for size in SIZES])]


def _table(sizes: Sequence[int]) -> Table:
    with TemporaryDirectory(prefix="simhbase-bench-") as folder:
        rows = [_row(Path(folder), size) for size in sizes]
    return Table(
        "Growth of the embedded store",
        [
            "documents",
            "load, CPU ms a document",
            "load, peak MB",
            "bytes a document",
            *(
                f"{what}, {figure}"
                for what in ("stored texts", "the same from the disk", "other texts")
                for figure in ("reads", "p50 ms", "batches of 200, texts/s", "CPU ms")
            ),
            "check, CPU s",
            "of the load's CPU, %",
            "dedup, CPU s",
            "dedup, peak MB",
        ],
        rows,
        [
            "Documents are made of sentences of real news, one in ten is a near copy. Stored texts were "
            "never asked before; other texts are not stored. Reads are calls of read(2) for a text that "
            "is looked up by itself. Peaks are those of the main process, which grow; a worker takes 150 to "
            "400 MB.",
        ],
    )


def _row(folder: Path, count: int) -> list[Cell]:
    corpus, url = folder / "corpus.jsonl", f"rocksdb:{folder / 'store'}"
    texts = _write_corpus(corpus, count)
    loading, load_peak = _run("load", str(corpus), "--store", url)
    with simhbase.open(url, access="read") as index:
        size = Administrator(index).stats().bytes
    figures = [_asked(url, *given) for given in ((texts[0], False), (texts[0], True), (texts[1], False))]
    checking, _ = _run("check", "--store", url)
    _run("tables", "drop", "--yes", "--store", url)
    grouping, dedup_peak = _run("dedup", str(corpus), "--duplicates", str(folder / "duplicates.jsonl"))
    return [
        count,
        round(loading / count * 1e3, 3),
        load_peak,
        round(size / count),
        *(cell for cells in figures for cell in cells),
        round(checking, 1),
        round(checking / loading * 100, 1),
        round(grouping, 1),
        dedup_peak,
    ]


def _run(*command: str) -> tuple[float, int]:
    """Processor time of a command and its workers in seconds, and its own peak memory in MB."""
    done = subprocess.run([sys.executable, "-c", _MEASURED, *command], capture_output=True, check=True)
    used, peak = done.stderr.decode().splitlines()[-1].split()
    return float(used), int(peak) >> 10


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


def _asked(url: str, texts: list[str], from_disk: bool) -> list[Cell]:
    """Reads and milliseconds of a text, texts a second and CPU of one in batches."""
    folder = Path(url.partition(":")[2])
    with simhbase.open(url, access="read") as index:
        found = index.fingerprinter.fingerprint_many(texts)
        values = found.fingerprints.values
        index.find_fingerprints(values[-1:])  # what is read once
        _prepare(folder, from_disk)
        reads, seconds = _reads(), []
        half = len(values) // 2
        for value in values[:half].tolist():
            start = perf_counter()
            index.find_fingerprints([value])
            seconds.append(perf_counter() - start)
        reads = _reads() - reads
        _prepare(folder, from_disk)
        start, used = perf_counter(), _cpu()
        for first in range(half, len(values), BATCH):
            index.find_fingerprints(values[first : first + BATCH])
        taken, used = perf_counter() - start, _cpu() - used
    asked = len(values) - half
    return [
        round(reads / half, 1),
        round(float(np.median(seconds)) * 1e3, 2),
        round(asked / taken),
        round(used / asked * 1e3, 3),
    ]


def _cpu() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    return own.ru_utime + own.ru_stime


def _reads() -> int:
    """read(2) calls of this process so far."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("syscr")).split()[1])


def _prepare(folder: Path, from_disk: bool) -> None:
    """Brings the files of rows into the page cache, or out of it."""
    for file in folder.glob("*.sst"):
        if from_disk:
            with file.open("rb") as opened:
                os.fsync(opened.fileno())
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        else:
            file.read_bytes()


# Panels of the picture: what is on the axis, and the columns that are drawn.
PANELS = (
    ("reads of files for one text", ("stored texts, reads", "other texts, reads")),
    (
        "ms for one text, median",
        ("stored texts, p50 ms", "the same from the disk, p50 ms", "other texts, p50 ms"),
    ),
    (
        "texts/s, 200 at once",
        tuple(
            f"{what}, batches of 200, texts/s"
            for what in ("stored texts", "the same from the disk", "other texts")
        ),
    ),
    ("processor time, s", ("check, CPU s", "dedup, CPU s")),
    ("processor time, ms a document", ("load, CPU ms a document",)),
    ("peak memory, MB", ("load, peak MB", "dedup, peak MB")),
)


def draw(table: Table, path: Path) -> None:
    """Draws the columns over the number of documents."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams |= {"svg.hashsalt": "growth", "svg.fonttype": "none"}
    columns = dict(zip(table.columns, zip(*table.rows, strict=True), strict=True))
    figure = Figure(figsize=(11, 6), layout="constrained")
    for axes, (name, drawn) in zip(figure.subplots(2, 3).flat, PANELS, strict=True):
        for column in drawn:
            axes.plot(columns["documents"], columns[column], marker="o", label=column.partition(",")[0])
        axes.set(xscale="log", yscale="log", xlabel="documents", ylabel=name)
        axes.legend(fontsize="small")
        axes.grid(alpha=0.3)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("documents", type=int, nargs="+")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the figures, as SVG or PNG")
    options = parser.parse_args()
    table = _table(options.documents)
    print(render([table]))
    if options.picture:
        draw(table, options.picture)


if __name__ == "__main__":
    main()
