"""Copying an embedded store to one with other drawers, by the log and as files of RocksDB's own."""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from simhbase.admin.migrate import COPIED_AT_ONCE, Migration
from simhbase.index import open_index
from simhbase.profile.profile import Profile
from simhbase.stores.rocksdb.store import BATCH_ROWS
from tests.bench.report import Cell, Table

SIZE = 1_000_000
LAYOUTS = ("5x2", "6x3")


def measure(scale: float = 1.0) -> list[Table]:
    """A row a layout of the target."""
    n = round(SIZE * scale)
    rows: list[list[Cell]] = []
    with TemporaryDirectory(prefix="simhbase-bench-") as folder:
        source = f"rocksdb:{folder}/source"
        fingerprints = np.random.default_rng(1).integers(0, 2**64, n, dtype=np.uint64)
        with open_index(source, create=Profile(verify=False)) as index:
            index.add_fingerprints([f"document/{number}" for number in range(n)], fingerprints)
        for layout in LAYOUTS:
            rates = [
                n / seconds(source, Path(folder) / "target", layout, size)
                for size in (BATCH_ROWS, COPIED_AT_ONCE)
            ]
            rows.append([layout, n, *rates, rates[1] / rates[0]])
    return [
        Table(
            "Embedded store: copied to another one",
            ["layout", "documents", "by the log, documents/s", "as files, documents/s", "files / log"],
            rows,
            [
                f"With the time until the target is settled. The log: {BATCH_ROWS:,} documents at once; "
                f"files: {COPIED_AT_ONCE:,} and more."
            ],
        )
    ]


def seconds(source: str, target: Path, layout: str, copied_at_once: int) -> float:
    """What a copy of everything takes."""
    with (
        open_index(source, access="read") as here,
        open_index(f"rocksdb:{target}", create=Profile(verify=False, layout=layout)) as there,
    ):
        start = perf_counter()
        Migration(here, there, copied_at_once=copied_at_once).run()
        there.store.compact()
        spent = perf_counter() - start
    rmtree(target)
    return spent
