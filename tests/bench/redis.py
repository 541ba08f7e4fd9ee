"""Stores in Redis: lookups in batches against redis-py doing the same, loads, claims of processes."""

from __future__ import annotations

import os
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import redis
from numpy.typing import NDArray

import simhbase
from simhbase.drawers.layout import layout
from simhbase.drawers.rowkeys import PREFIX_BYTES, prefixes
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index, open_index
from simhbase.profile.profile import Profile
from tests.bench.report import Cell, Table
from tests.redis import Redis
from tests.services import started

DOCUMENTS = 1_000_000
AT_ONCE = 20_000
LOOKUPS, BATCH, RUNS = 10_000, 1_000, 3
LAYOUT = "4x1"
WITHIN = 3
PROCESSES, GROUPS, OF_GROUP, CLAIMED = 4, 250, 4, 20
Spent = tuple[float, float, float]  # seconds, processor time of this process, of the server


def measure(scale: float = 1.0) -> list[Table]:
    with started(Redis) as server:
        count = round(DOCUMENTS * scale)
        random = np.random.default_rng(1)
        values = random.integers(0, 1 << 64, count, dtype=np.uint64)
        asked = random.integers(0, 1 << 64, LOOKUPS, dtype=np.uint64)
        asked[::2] = values[random.integers(0, count, LOOKUPS // 2)] ^ np.uint64(0b10010)
        url = server.empty_store("bench")
        before = server.command("INFO", "memory")["used_memory"]
        with simhbase.open(url, create=Profile(verify=False, layout=LAYOUT)) as index:
            spent = timed(server, lambda: load(index, values))
            bytes_ = server.command("INFO", "memory")["used_memory"] - before
            version = server.command("INFO", "server")
            of_each = [each / count * 1e6 for each in spent[1:]]
            loaded: list[Cell] = [count / spent[0], *of_each, bytes_ / count]
            ways = {"redis-py": with_redis_py(server), "simhbase": lambda some: in_drawers(index, some)}
            same = zip(*(way(asked[:50]) for way in ways.values()), strict=True)
            assert all(np.array_equal(peer, own) for peer, own in same)
            found = {name: best(server, way, asked) for name, way in ways.items()}
            finding = best(server, lambda some: index.find_fingerprints(some), asked)
        claims = claiming(server.empty_store("claims"))
    name = version.get("valkey_version", version["redis_version"])
    return [
        Table(
            f"{version.get('server_name', 'redis')} {name} with {count:,} documents, {LAYOUT}",
            ["lookups", "us", "times", "client's processor time, us", "times", "server's, us"],
            [
                row(name, spent, found["redis-py"])
                for name, spent in [*found.items(), ("simhbase, with ids", finding)]
            ],
            [
                f"Batches of {BATCH:,}, best of {RUNS} runs: drawers and which of their fingerprints are "
                f"within {WITHIN} bits; half of the lookups are near a stored one. redis-py with hiredis: a "
                "pipeline of SMEMBERS, the rest by NumPy, too."
            ],
        ),
        Table(
            "Loads",
            ["documents/s", "client's processor time, us", "server's, us", "bytes a document"],
            [loaded],
            [f"In calls of {AT_ONCE:,}, without sketches; ids of 9 to 15 bytes; appendonly, no fsync."],
        ),
        Table(
            f"Claims by {PROCESSES} processes",
            ["claims/s", "accepted", "near pairs"],
            [claims],
            [f"{GROUPS} groups of {OF_GROUP} near fingerprints each, {CLAIMED} claims of a call."],
        ),
    ]


def row(name: str, spent: Spent, peer: Spent) -> list[Cell]:
    each = [seconds / LOOKUPS * 1e6 for seconds in spent]
    return [name, each[0], peer[0] / spent[0], each[1], peer[1] / spent[1], each[2]]


def load(index: Index, values: NDArray[np.uint64]) -> None:
    for start in range(0, len(values), AT_ONCE):
        some = values[start : start + AT_ONCE]
        index.add_fingerprints([f"document/{start + number}" for number in range(len(some))], some)


def best(server, way, asked: NDArray[np.uint64]) -> Spent:
    def all_of_them() -> None:
        for start in range(0, len(asked), BATCH):
            way(asked[start : start + BATCH])

    return tuple(map(min, zip(*(timed(server, all_of_them) for _ in range(RUNS)), strict=True)))


def timed(server: Redis, work) -> Spent:
    begin, used, there = perf_counter(), process_time(), server_time(server)
    work()
    return perf_counter() - begin, process_time() - used, server_time(server) - there


def server_time(server: Redis) -> float:
    """Seconds of the processor that the server has used (Linux)."""
    process = (server.folder / "pid").read_text()
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def in_drawers(index: Index, some: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.uint64]]:
    """Near fingerprints in each lookup's drawers: numbers of lookups, and fingerprints, each pair once."""
    wanted = prefixes(some, layout(LAYOUT)).reshape(-1, PREFIX_BYTES)
    names, places = np.unique(wanted.view("V5").ravel(), return_inverse=True)
    parts = list(index.store.drawers.read(names.view(np.uint8).reshape(-1, PREFIX_BYTES), 10_000))
    fingerprints = np.concatenate([part.fingerprints for part in parts])
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    starts = np.cumsum(lengths) - lengths
    sizes = lengths[places]
    rows = np.repeat(starts[places] - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
    return near(
        np.repeat(np.arange(len(places)) // len(layout(LAYOUT).tables), sizes), fingerprints[rows], some
    )


def with_redis_py(server: Redis):
    """The same by redis-py."""
    client = redis.Redis.from_url(server.url)

    def look_up(some: NDArray[np.uint64]) -> tuple[NDArray[np.intp], NDArray[np.uint64]]:
        pipeline = client.pipeline(transaction=False)
        for value in some.tolist():
            for table in range(4):
                pipeline.smembers(f"bench:{table + 1:02x}:{value >> 48 - 16 * table & 0xFFFF:04x}0000")
        answers = pipeline.execute()
        sizes = [len(members) for members in answers]
        members = np.array([int(member) for members in answers for member in members], dtype=np.int64)
        return near(np.repeat(np.arange(len(answers)) // 4, sizes), members.view(np.uint64), some)

    return look_up


def near(
    numbers: NDArray[np.intp], found: NDArray[np.uint64], some: NDArray[np.uint64]
) -> tuple[NDArray[np.intp], NDArray[np.uint64]]:
    is_near = np.bitwise_count(found ^ some[numbers]) <= WITHIN
    numbers, found = numbers[is_near], found[is_near]
    order = np.lexsort((found, numbers))
    numbers, found = numbers[order], found[order]
    is_new = np.ones(len(found), dtype=bool)
    is_new[1:] = (numbers[1:] != numbers[:-1]) | (found[1:] != found[:-1])
    return numbers[is_new], found[is_new]


def claiming(url: str) -> list[Cell]:
    """Claims per second of all processes, how many were accepted, and pairs of these that are near."""
    simhbase.open(url, create=Profile(verify=False, layout=LAYOUT)).close()
    random = np.random.default_rng(2)
    heads = random.integers(0, 1 << 64, GROUPS, dtype=np.uint64)
    values = (heads[:, None] ^ np.array([0, 1, 2, 4], dtype=np.uint64)[:OF_GROUP]).ravel()
    order = random.permutation(len(values))
    context = get_context("spawn")
    with context.Pool(PROCESSES) as pool:
        pool.map(warm, [url] * PROCESSES)
        begin = perf_counter()
        parts = [(url, part.tolist(), values[part]) for part in np.array_split(order, PROCESSES)]
        pool.map(claim, parts, chunksize=1)
        seconds = perf_counter() - begin
    with open_index(url, access="read") as index:
        kept = np.array([each.fingerprint for each in index.stored()], dtype=np.uint64)
    pairs = int((np.bitwise_count(kept[:, None] ^ kept) <= WITHIN).sum() - len(kept)) // 2
    return [len(values) / seconds, len(kept), pairs]


def warm(url: str) -> None:
    with open_index(url, access="read") as index:
        index.find_fingerprints(np.array([1], dtype=np.uint64))


def claim(part: tuple[str, list[int], NDArray[np.uint64]]) -> None:
    url, numbers, values = part
    with open_index(url) as index:
        for start in range(0, len(numbers), CLAIMED):
            ids = [f"d{number}" for number in numbers[start : start + CLAIMED]]
            index.claim_batch(ids, FingerprintBatch.bare(values[start : start + CLAIMED]))
