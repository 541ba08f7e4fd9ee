"""Stores in PostgreSQL: loads, bytes, and lookups in batches against the same statement one by one."""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

import simhbase
from simhbase.drawers.layout import layout
from simhbase.drawers.rowkeys import PREFIX_BYTES, prefixes
from simhbase.index import Index
from simhbase.profile.profile import Profile
from tests.bench.report import Cell, Table
from tests.postgresql import PostgreSQL
from tests.services import started

DOCUMENTS = 1_000_000
AT_ONCE = 50_000
LOOKUPS, BATCH = 20_000, 1_000
SINGLE = 2_000


def measure(scale: float = 1.0) -> list[Table]:
    """The layouts of up to ten tables."""
    with started(PostgreSQL) as server:
        rows = [measured(server, name, round(DOCUMENTS * scale)) for name in ("4x1", "5x2")]
    return [
        Table(
            f"PostgreSQL with {round(DOCUMENTS * scale):,} documents",
            [
                "layout",
                "loaded, documents/s",
                "bytes a document",
                "of them index",
                "drawers in batches, us a lookup",
                "one by one, us",
                "times",
                "server's processor time, us",
                "one by one, us",
                "client's, us",
                "find in batches, us",
                "find one by one, us",
            ],
            rows,
            [
                "Random fingerprints, half of the lookups within 3 bits of a stored one. Batches of "
                f"{BATCH:,}; the client's time is processor time. Loads go by COPY, in steps of {AT_ONCE:,}, "
                "then VACUUM, which is not in the rate. The server does not fsync."
            ],
        )
    ]


def measured(server: PostgreSQL, name: str, count: int) -> list[Cell]:
    random = np.random.default_rng(1)
    values = random.integers(0, 1 << 64, count, dtype=np.uint64)
    asked = random.integers(0, 1 << 64, LOOKUPS, dtype=np.uint64)
    asked[::2] = values[random.integers(0, count, LOOKUPS // 2)] ^ np.uint64(0b10010)
    with simhbase.open(server.empty_store("bench"), create=Profile(verify=False, layout=name)) as index:
        begin = perf_counter()
        for start in range(0, count, AT_ONCE):
            some = values[start : start + AT_ONCE]
            index.add_fingerprints([f"document/{start + number}" for number in range(len(some))], some)
        loading = perf_counter() - begin
        index.store.compact()
        of_tables = simhbase.Administrator(index).stats().table_estimates
        whole = sum(each.bytes for each in of_tables.values())
        read_drawers(index, name, asked[:BATCH], BATCH)  # prepared, and cached
        batches, server_part, client = read_drawers(index, name, asked, BATCH)
        single, server_single, _ = read_drawers(index, name, asked[:SINGLE], 1)
        return [
            name,
            count / loading,
            whole / count,
            of_tables["index"].bytes / count,
            batches * 1e6,
            single * 1e6,
            single / batches,
            server_part * 1e6,
            server_single * 1e6,
            client * 1e6,
            finding(index, asked, BATCH) * 1e6,
            finding(index, asked[:SINGLE], 1) * 1e6,
        ]


def read_drawers(index: Index, name: str, asked: np.ndarray, at_once: int) -> tuple[float, float, float]:
    """Seconds of a lookup's drawers, and processor time of the server and of this process."""
    begin, used, there = perf_counter(), process_time(), server_time(index)
    for start in range(0, len(asked), at_once):
        wanted = prefixes(asked[start : start + at_once], layout(name)).reshape(-1, PREFIX_BYTES)
        for _ in index.store.drawers.read(np.unique(wanted, axis=0) if at_once > 1 else wanted, 10_000):
            pass
    spent = perf_counter() - begin, server_time(index) - there, process_time() - used
    return tuple(seconds / len(asked) for seconds in spent)


def server_time(index: Index) -> float:
    """Seconds of the processor that the server's process of our connection has used (Linux)."""
    ((process,),) = index.store._client.rows("asking", "SELECT pg_backend_pid()")
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def finding(index: Index, asked: np.ndarray, at_once: int) -> float:
    """Seconds of a lookup with its documents."""
    begin = perf_counter()
    for start in range(0, len(asked), at_once):
        index.find_fingerprints(asked[start : start + at_once])
    return (perf_counter() - begin) / len(asked)
