"""Where figures go: Markdown for people, JSON for programs, both with the machine and the versions."""

from __future__ import annotations

import os
import platform
import re
import resource
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

import orjson

from simhbase.quality.intervals import Estimate

PACKAGES = (
    "simhbase",
    "numpy",
    "rjieba",
    "jieba",
    "mmh3",
    "rocksdict",
    "simhash",
    "datasketch",
    "rensa",
    "numba",
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

    def markdown(self) -> str:
        lines = [f"### {self.title}", "", _line(self.columns), _line(["---"] * len(self.columns))]
        lines += [_line([_text(cell) for cell in row]) for row in self.rows]
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


def changes(page: str, tables: Sequence[Table]) -> list[str]:
    """Rows that are others than in a page that `render` has made earlier, and those that it does not have: a
    line of each, after a line with its table's title. A row is known by its cells that are no figures."""
    parts = (part.partition("\n") for part in page.split("### "))
    by_title = {title: [_cells(line) for line in rest.splitlines()] for title, _, rest in parts}
    told = []
    for table in tables:
        known = {_name(cells): cells for cells in by_title.get(table.title, []) if cells}
        rows = [_cells(_line([_text(cell) for cell in row])) for row in table.rows]
        changed = [cells for cells in rows if known.get(_name(cells)) != cells]
        if changed:
            told += [table.title, *(_change(known.get(_name(cells)), cells) for cells in changed)]
    return told


def _cells(line: str) -> list[str]:
    return line.strip("| ").split(" | ") if line.startswith("| ") else []


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


def interleaved(runs: int, *actions: Callable[[], object]) -> list[float]:
    """Median seconds of each action, all run in turn, so that a drifting machine hits all alike."""
    seconds: list[list[float]] = [[] for _ in actions]
    for _ in range(runs):
        for action, times in zip(actions, seconds, strict=True):
            start = perf_counter()
            action()
            times.append(perf_counter() - start)
    return [statistics.median(times) for times in seconds]


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
