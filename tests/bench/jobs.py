"""Loads, dedup and all pairs, beside an older state of the source: scripts/bench --against COMMIT jobs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench import older
from tests.bench.growth import corpus
from tests.bench.report import Cell, Table
from tests.examples import write_articles
from tests.reference import documents

NEWS, TEXTS, FINGERPRINTS = 100_000, 1_000_000, 10_000_000
ROUNDS = 2
REJECTED = 3  # the exit code: done, but some articles have no text
NOW = "now"
# Only what older states have, too. Prints seconds of processor time, workers included, and the main process's
# peak in MB, which ru_maxrss does not tell: it counts the memory of the process that started this one.
MEASURED = """
import atexit, json, resource, sys
from pathlib import Path

def tell():
    used = [resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    seconds = sum(each.ru_utime + each.ru_stime for each in used)
    print(json.dumps((seconds, int(status["VmHWM"].split()[0]) >> 10)), file=sys.stderr)

atexit.register(tell)
"""
COMMAND = MEASURED + "from simhbase.cli import main; main()"
PAIRS = (
    MEASURED
    + """
import numpy as np
from simhbase.drawers.join import pair_batches

values = np.random.default_rng(1).integers(0, 2**64, int(sys.argv[1]), dtype=np.uint64)
for pairs in pair_batches(values, 3, None):
    pass
"""
)


def measure(scale: float = 1.0) -> list[Table]:
    """The best of some rounds, by turns with the older state, if there is one."""
    states = {NOW: Path(sys.executable)} | older.BUILT
    rows = list[list[Cell]]()
    with TemporaryDirectory(prefix="simhbase-jobs-") as folder:
        for name, program, arguments in jobs(Path(folder), scale):
            best = dict[str, tuple[float, int]]()
            for turn in range(ROUNDS):
                for state, python in states.items():
                    used = run(python, program, [each.format(f"{state}{turn}") for each in arguments])
                    best[state] = min(used, best.get(state, used))
            (now, peak), others = best.pop(NOW), best.values()
            row: list[Cell] = [name, round(now, 1), peak]
            rows.append(
                row + [cell for then, mb in others for cell in (round(then, 1), f"{then / now:.1f} x", mb)]
            )
            print(rows[-1], file=sys.stderr)
    columns = ["what", "processor time, s", "peak, MB"]
    columns += [
        title for commit in older.BUILT for title in (f"at {commit}, s", "times", f"peak at {commit}, MB")
    ]
    return [
        Table(
            "Jobs",
            columns,
            rows,
            [f"Each the best of {ROUNDS} processes. Peaks are those of the main process."],
        )
    ]


def jobs(folder: Path, scale: float) -> Iterator[tuple[str, str, list[str]]]:
    """Names, programs and their arguments, with {} for a name that nothing has yet."""
    write_articles(folder)
    articles = str(folder / "articles.jsonl")
    yield "the demo's load", COMMAND, ["load", articles, "--store", f"rocksdb:{folder}/demo{{}}"]
    both = chain(documents("xwlb_chinadata"), documents("xwlb_duckburn"))
    news = write(folder / "news.jsonl", (text for _, text in islice(both, round(NEWS * scale))))
    yield "load of news into RocksDB", COMMAND, ["load", str(news), "--store", f"rocksdb:{folder}/{{}}"]
    count = round(FINGERPRINTS * scale)
    yield f"all pairs within 3 bits of {count:,}", PAIRS, [str(count)]
    texts = write(folder / "texts.jsonl", corpus(round(TEXTS * scale)))
    yield (
        "dedup of the corpus of growth",
        COMMAND,
        ["dedup", str(texts), "--duplicates", f"{folder}/{{}}.jsonl"],
    )


def write(file: Path, texts: Iterator[str]) -> Path:
    with file.open("w") as lines:
        for number, text in enumerate(texts):
            lines.write(json.dumps({"id": str(number), "text": text}, ensure_ascii=False) + "\n")
    return file


def run(python: Path, program: str, arguments: list[str]) -> tuple[float, int]:
    command = [str(python), "-P", "-c", program, *arguments]  # -P: not the package in the working directory
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if done.returncode not in (0, REJECTED):
        raise RuntimeError(f"{' '.join(arguments)} ended with {done.returncode}: {done.stderr[-1000:]!r}")
    seconds, peak = json.loads(done.stderr.splitlines()[-1])
    return seconds, peak
