"""Whole loads into the embedded store: how long the stages take, and how much processor time and memory."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

from simhbase.corpus.inputs import Inputs
from simhbase.corpus.record import InputOptions
from simhbase.loads import load as load_job
from simhbase.loads.checkpoints import Checkpoints
from tests.bench.report import Cell, Table
from tests.reference import documents

TEXTS = (10_000, 74_545)
FINGERPRINTS = (10_000, 1_000_000)
THREADS = (1, 2)


def measure(scale: float = 1.0) -> list[Table]:
    rows: list[list[Cell]] = []
    with TemporaryDirectory(prefix="simhbase-bench-") as folder:
        for count in TEXTS:
            file = texts(Path(folder), round(count * scale))
            rows += [["news", *alone(file, threads)] for threads in THREADS]
        for count in FINGERPRINTS:
            file = fingerprints(Path(folder), round(count * scale))
            rows.append(["fingerprints", *alone(file, 1)])
    return [
        Table(
            "Loads into the embedded store",
            [
                "documents are",
                "documents",
                "threads",
                "documents/s",
                "processor time a document, us",
                "reading, %",
                "storing, %",
                "peak memory, MB",
            ],
            rows,
            [
                "Each load is a process of its own. Reading and storing: shares of the load's time in the "
                "main thread, beside which the others work. Memory grows until RocksDB's caches are full."
            ],
        )
    ]


def texts(folder: Path, count: int) -> Path:
    """A file of real news."""
    file = folder / f"texts-{count}.jsonl"
    with file.open("w") as out:
        for document, text in islice(documents("xwlb_chinadata"), count):
            out.write(json.dumps({"id": document, "text": text}, ensure_ascii=False) + "\n")
    return file


def fingerprints(folder: Path, count: int) -> Path:
    """A file of random fingerprints."""
    file = folder / f"fingerprints-{count}.jsonl"
    values = np.random.default_rng(1).integers(0, 2**64, count, dtype=np.uint64)
    with file.open("w") as out:
        for number, value in enumerate(values.tolist()):
            out.write(f'{{"id":"document-{number}","f":"{value:016x}"}}\n')
    return file


def alone(file: Path, threads: int, *options: str) -> list[Cell]:
    """The figures of a load in a process of its own."""
    command = [sys.executable, "-m", "tests.bench.load", str(file), str(threads), *options]
    done = subprocess.run(command, capture_output=True, check=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


class Stage:
    """Time that is spent in one kind of calls."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed_call(*arguments: Any, **options: Any) -> Any:
            start = perf_counter()
            try:
                return call(*arguments, **options)
            finally:
                self.seconds += perf_counter() - start

        return timed_call

    def timed_steps(self, call: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        def timed_iteration(*arguments: Any, **options: Any) -> Iterator[Any]:
            step = self.timed(lambda items: next(items, None))
            items = call(*arguments, **options)
            while (item := step(items)) is not None:
                yield item

        return timed_iteration


def _load(file: Path, threads: int) -> list[Cell]:
    reading, storing = Stage(), Stage()
    Checkpoints.remaining = reading.timed_steps(Checkpoints.remaining)  # type: ignore[method-assign]
    run = load_job._LoadRun
    run._write_to_store = storing.timed(run._write_to_store)  # type: ignore[method-assign]
    field = "f" if file.name.startswith("fingerprints") else None
    inputs = Inputs([str(file)], InputOptions(fingerprint_field=field), threads=threads)
    start = perf_counter()
    with TemporaryDirectory(prefix="simhbase-bench-") as folder:
        report = load_job.load(inputs, f"rocksdb:{folder}/s")
    seconds = perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_SELF)
    return [
        report.documents,
        threads,
        round(report.documents / seconds),
        round((used.ru_utime + used.ru_stime) / report.documents * 1e6, 1),
        *(round(stage.seconds / seconds * 100) for stage in (reading, storing)),
        used.ru_maxrss // 1024,
    ]


if __name__ == "__main__":
    found = _load(Path(sys.argv[1]), int(sys.argv[2]))
    print(json.dumps(found))
