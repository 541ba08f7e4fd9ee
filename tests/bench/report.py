"""Where figures go: Markdown and CSV for people, JSON for programs."""

from __future__ import annotations

import csv
import io
import os
import platform
import re
import resource
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

import orjson

from simhbase.quality.intervals import Estimate

PACKAGES = (
    "simhbase",
    "numpy",
    "jieba",
    "mmh3",
    "rocksdict",
    "simhash",
    "datasketch",
    "rensa",
)
Cell = str | int | float
_FIGURE = re.compile(r"[\d,.]+( \([\d-]+\))?")


@dataclass(frozen=True)
class Table:
    """Figures under one title; the first row is the peer that the others are compared with."""

    title: str
    columns: Sequence[str]
    rows: list[list[Cell]]
    notes: list[str] = field(default_factory=list)

    @property
    def file_name(self) -> str:
        """The CSV file of this table: its title in lower case, with dashes between words."""
        return "-".join(re.findall(r"\w+", self.title.lower())) + ".csv"

    def csv(self) -> str:
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([self.columns, *self.rows_as_text()])
        return file.getvalue()

    def rows_as_text(self) -> list[list[str]]:
        return [[_text(cell) for cell in row] for row in self.rows]

    def markdown(self) -> str:
        lines = [f"### {self.title}", "", _line(self.columns), _line(["---"] * len(self.columns))]
        lines += [_line(row) for row in self.rows_as_text()]
        return "\n".join([*lines, "", *(f"{note}\n" for note in self.notes)])


def machine() -> dict[str, Cell]:
    """What the figures were taken on."""
    cpu = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "processor": cpu[0] if cpu else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.platform(),
        "python": platform.python_version(),
        **{package: version(package) for package in PACKAGES},
    }


def render(tables: Sequence[Table]) -> str:
    facts = ", ".join(f"{name} {value}" for name, value in machine().items())
    return "\n".join([*(table.markdown() for table in tables), f"Measured on: {facts}.", ""])


def changes(folder: Path, tables: Sequence[Table]) -> list[str]:
    """Return rows that differ from the CSV files in a folder, or are new there, under their table's title.

    A row is known by its cells that are not figures.
    """
    told = []
    for table in tables:
        path = folder / table.file_name
        before = list(csv.reader(path.read_text("utf-8").splitlines()))[1:] if path.exists() else []
        known = {_name(cells): cells for cells in before}
        changed = [cells for cells in table.rows_as_text() if known.get(_name(cells)) != cells]
        if changed:
            told += [table.title, *(_change(known.get(_name(cells)), cells) for cells in changed)]
    return told


def _name(cells: Sequence[str]) -> tuple[str, ...]:
    return tuple(cell for cell in cells if not _FIGURE.fullmatch(cell))


def _change(before: Sequence[str] | None, now: Sequence[str]) -> str:
    if before is None or len(before) != len(now):
        return "  new: " + " | ".join(now)
    return "  " + " | ".join(
        new if old == new else f"{old} -> {new}" for old, new in zip(before, now, strict=True)
    )


def to_json(tables: Sequence[Table]) -> bytes:
    found = {
        table.title: [dict(zip(table.columns, row, strict=True)) for row in table.rows] for table in tables
    }
    return orjson.dumps({"machine": machine(), "tables": found}, option=orjson.OPT_INDENT_2)


def interleaved(
    runs: int, *actions: Callable[[], object], clock: Callable[[], float] = perf_counter
) -> list[float]:
    """Median seconds of each action, all run in turn, so that a drifting machine hits all alike."""
    seconds: list[list[float]] = [[] for _ in actions]
    for _ in range(runs):
        for action, times in zip(actions, seconds, strict=True):
            start = clock()
            action()
            times.append(clock() - start)
    return [statistics.median(times) for times in seconds]


@contextmanager
def drawn(path: Path, size: tuple[float, float]) -> Iterator[Any]:
    """A figure of Matplotlib, which is written to the path, as SVG or PNG."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams |= {"svg.hashsalt": path.stem, "svg.fonttype": "none"}
    figure = Figure(figsize=size, layout="constrained")
    yield figure
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def peak_memory_mb() -> float:
    """The largest resident size of this process so far, in MB (Linux counts in KiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def shown(estimate: Estimate | None) -> str:
    """A share in per cent with its interval."""
    if estimate is None:
        return "none"
    return f"{100 * estimate.value:.1f} ({100 * estimate.low:.0f}-{100 * estimate.high:.0f})"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _text(cell: Cell) -> str:
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.2f}"
    return f"{cell:,}" if isinstance(cell, int) else cell
