"""Processor time of new processes, beside `python -c pass` and an import of NumPy."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import simhbase
from tests.bench.report import Cell, Table

RUNS = 15
TEXT = "The council has decided to build a new bridge across the river."
CORE = f"""
from simhbase._core import Form, Pipeline
from simhbase.text.dictionary import dictionary
form = Form(None)
arguments = ("words", "capped", 0, 2, [], {{}}, 0, 64, 2, None, (256, 2, 0, False, False, False))
Pipeline(form, dictionary(), *arguments).fingerprint([{TEXT!r}])
"""
PROFILE = f"import simhbase; simhbase.Profile().fingerprinter().fingerprint({TEXT!r})"


def measure(scale: float = 1.0) -> list[Table]:
    """What each process costs from its start to its end."""
    with TemporaryDirectory(prefix="simhbase-bench-") as folder:
        store = f"rocksdb:{folder}/store"
        with simhbase.open(store, create="default") as index:
            index.add([("a", TEXT)])
        python = [sys.executable, "-c"]
        find = [str(Path(sys.executable).with_name("simhbase")), "find", "--store", store]
        seconds = _processor_seconds(
            {
                "python -c pass": [*python, "pass"],
                "import numpy": [*python, "import numpy"],
                "first fingerprint, by the core": [*python, CORE],
                "first fingerprint, by a profile": [*python, PROFILE],
                "find --id": [*find, "--id", "a"],
                "find --text": [*find, "--text", TEXT],
            },
            # As where a package is installed: its modules are compiled. The first run does it.
            {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": f"{folder}/compiled"},
            max(2, round(RUNS * scale)),
        )
    start, numpy = seconds["python -c pass"], seconds["import numpy"]
    rows: list[list[Cell]] = [
        [name, 1e3 * each, each / start, each / numpy] for name, each in seconds.items()
    ]
    return [
        Table(
            "A new process",
            ["process", "processor time, ms", "times pass", "times NumPy"],
            rows,
            [f"Medians of {RUNS} interleaved runs."],
        )
    ]


def _processor_seconds(
    commands: Mapping[str, Sequence[str]], environment: Mapping[str, str], runs: int
) -> dict[str, float]:
    """Medians, by name; a run before them does not count."""
    found: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(1 + runs):
        for name, command in commands.items():
            before = _children()
            subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
            found[name].append(_children() - before)
    return {name: statistics.median(times[1:]) for name, times in found.items()}


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
