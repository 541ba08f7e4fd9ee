"""Lookups of one text or fingerprint on each store, beside those of an older state of the source."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench import older
from tests.bench.lookup_program import PROFILES
from tests.bench.report import Cell, Table
from tests.postgresql import PostgreSQL
from tests.redis import Redis
from tests.services import started

PROGRAM = Path(__file__).with_name("lookup_program.py")
DOCUMENTS = 20_000
ROUNDS = 3
NOW = "now"
COLUMNS = ["store", "profile", "what", "us, median"]


def measure(scale: float = 1.0) -> list[Table]:
    """The medians of stores, each the best of some rounds; by turns with the older state, if there is one."""
    states = {NOW: Path(sys.executable)} | older.BUILT
    count = max(round(DOCUMENTS * scale), 1_000)
    rows = list[list[Cell]]()
    with TemporaryDirectory() as folder, ExitStack() as servers:
        for name, url in stores(Path(folder), servers):
            for profile in PROFILES:
                best = dict[str, dict[str, float]]()
                for turn, (state, python) in product(range(ROUNDS), states.items()):
                    for what, us in measured(python, url(f"{state}{turn}{profile[0]}"), profile, count):
                        took = best.setdefault(what, {})
                        took[state] = min(us, took.get(state, us))
                rows += [row_of([name, profile, what], took) for what, took in best.items()]
    columns = COLUMNS + [title for commit in older.BUILT for title in (f"at {commit}", "times")]
    notes = [
        f"{count:,} texts of 490 characters. Each figure is the median of 1,000 lookups, the best of "
        f"{ROUNDS} processes. The servers run on the same machine."
    ]
    return [Table("One lookup", columns, rows, notes)]


def stores(folder: Path, servers: ExitStack) -> Iterator[tuple[str, Callable[[str], str]]]:
    """Names of stores, and a function that makes the URL of an empty one."""
    yield "memory", lambda _: "memory:"
    yield "rocksdb", lambda name: f"rocksdb:{folder / name}"
    for kind in (PostgreSQL, Redis):
        yield kind.__name__.lower(), servers.enter_context(started(kind)).empty_store


def measured(python: Path, url: str, profile: str, count: int) -> Iterator[tuple[str, float]]:
    """Runs the program: what was looked up, and microseconds."""
    command = [str(python), str(PROGRAM), url, profile, str(count)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    yield from map(json.loads, done.stdout.splitlines())


def row_of(names: list[Cell], took: dict[str, float]) -> list[Cell]:
    now = took.pop(NOW)
    then = (cell for us in took.values() for cell in (round(us, 1), f"{us / now:.1f} x"))
    return [*names, round(now, 1), *then]
