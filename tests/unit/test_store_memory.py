"""How much memory an embedded store takes."""

import os
from pathlib import Path

import numpy as np
import pytest

import simhbase
from simhbase.admin import Administrator
from simhbase.drawers.layout import layout
from simhbase.drawers.rowkeys import PREFIX_BYTES, encode
from simhbase.errors import UsageError
from simhbase.online.metrics import ServiceMetrics
from simhbase.process import machine
from simhbase.profile.profile import Profile
from simhbase.stores import create_store
from simhbase.stores.rocksdb import memory
from simhbase.stores.rocksdb.database import Database, open_writer
from simhbase.stores.rocksdb.options import INDEX
from simhbase.stores.rocksdb.store import FETCHED, RocksStore


@pytest.mark.parametrize(
    ("options", "capacity"),
    [("cache=1m", 1 << 20), ("cache=64M", 64 << 20), ("cache=2g", 2 << 30), ("cache=2097152", 2 << 20)],
)
def test_a_url_says_how_large_the_cache_is(options: str, capacity: int) -> None:
    assert memory.memory_for(f"rocksdb:store?{options}").capacity == capacity


@pytest.mark.parametrize(
    "options", ["cache", "cache=", "cache=1", "cache=-1m", "cache=1t", "cash=1m", "x=1&cache=1m"]
)
def test_other_options_are_refused(options: str) -> None:
    with pytest.raises(UsageError, match="cache=256m"):
        create_store(f"rocksdb:/nowhere?{options}")


@pytest.mark.parametrize(
    ("groups", "files", "limit"),
    [
        ("0::/\n", {"memory.max": "536870912\n"}, 512 << 20),
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": "268435456\n"}, 256 << 20),
        ("4:memory:/outside\n0::/\n", {"memory/memory.limit_in_bytes": "134217728\n"}, 128 << 20),
        ("0::/\n", {"memory.max": "max\n"}, None),
        ("", {}, None),
    ],
)
def test_the_limit_of_a_container_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, groups: str, files: dict[str, str], limit: int | None
) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "of this process").write_text(groups)
    monkeypatch.setattr(machine, "_CGROUPS", tmp_path)
    monkeypatch.setattr(machine, "_OWN_GROUPS", tmp_path / "of this process")
    assert machine.memory_limit() < 1 << 50
    if limit is not None:
        assert machine.memory_limit() == limit
        assert memory.memory_for("").capacity == max(limit // memory.CACHE_SHARE, memory.LEAST_CACHE)
        assert machine.usable_processes() == 1


@pytest.mark.parametrize(("megabytes", "processes"), [(300, 1), (512, 1), (1024, 2), (4096, 8)])
def test_workers_are_as_many_as_cores_and_memory_allow(
    monkeypatch: pytest.MonkeyPatch, megabytes: int, processes: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(8))
    monkeypatch.setattr(machine, "memory_limit", lambda: megabytes << 20)
    assert machine.usable_processes() == processes


@pytest.mark.parametrize("processes", [1, 2, 8, 50])
def test_workers_share_the_memory_for_which_they_are_counted(
    monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    monkeypatch.setattr(machine, "memory_limit", lambda: 4 << 30)
    share = machine.share_of_memory(processes)
    assert share >= machine.WORKER_BYTES
    if share > machine.WORKER_BYTES:
        assert processes * share + machine.OWN_BYTES <= 4 << 30


def test_filters_are_held_where_they_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "1.sst").write_bytes(bytes(1 << 20))
    monkeypatch.setattr(memory, "memory_limit", lambda: memory.FILTER_SHARE * 90_000)
    assert not memory.memory_for("").has_room_for_filters(tmp_path)
    monkeypatch.setattr(memory, "memory_limit", lambda: memory.FILTER_SHARE * 100_000)
    assert memory.memory_for("").has_room_for_filters(tmp_path)


def test_appending_holds_no_filters(tmp_path: Path) -> None:
    values = np.random.default_rng(3).integers(0, 2**64, 20_000, dtype=np.uint64)
    url = f"rocksdb:{tmp_path / 'store'}"
    held, found = {}, {}
    with simhbase.open(url, create=Profile(verify=False), access="append") as index:
        index.add_fingerprints(list(map(str, range(len(values)))), values)
    for access in ("append", "write", "read"):
        with simhbase.open(url, access=access) as index:
            assert isinstance(index.store, RocksStore)
            if access == "append":
                index.store.compact(whole=True)
            family = index.store.database.families[INDEX]
            held[access] = family.property_int_value("rocksdb.estimate-table-readers-mem")
            found[access] = index.find_fingerprints(values[:200] ^ np.uint64(1))
    assert held["write"] == held["read"] > 8 * len(values), "8 bits a row, ten rows a document"
    assert held["append"] < 0.1 * held["write"]
    assert found["append"] == found["write"] == found["read"]
    assert all(found["read"])


@pytest.mark.parametrize("unique_only", [False, True])
def test_a_load_holds_filters_if_it_looks_documents_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unique_only: bool
) -> None:
    opened = list[bool]()
    monkeypatch.setattr(
        "simhbase.stores.rocksdb.open_writer",
        lambda url, path, options, memory: (
            opened.append(memory.holds_filters) or open_writer(url, path, options, memory)
        ),
    )
    (tmp_path / "texts.jsonl").write_text('{"id": "1", "text": "one two three four five"}\n')
    for _ in range(2):  # the store is created, then opened
        simhbase.load(tmp_path / "texts.jsonl", f"rocksdb:{tmp_path / 'store'}", unique_only=unique_only)
    assert set(opened) == {unique_only}


def test_the_size_of_the_cache_and_how_often_it_hits_are_in_stats_and_metrics(tmp_path: Path) -> None:
    values = np.random.default_rng(1).integers(0, 2**64, 5_000, dtype=np.uint64)
    url = f"rocksdb:{tmp_path / 'store'}?cache=4m"
    with simhbase.open(url, create=Profile(verify=False)) as index:
        index.add_fingerprints([str(number) for number in range(len(values))], values)
    with simhbase.open(url, access="read") as index:
        index.find_fingerprints(values[:100])
        first = index.counters()
        index.find_fingerprints(values[:100])
        page = ServiceMetrics().page(index.counters(), index.gauges()).decode()
        again = Administrator(index).stats().operations
    assert first["cache_misses"] > 0
    assert again["cache_misses"] == first["cache_misses"]
    assert again["cache_hits"] > first["cache_hits"]
    assert again["cache_bytes"] == 4 << 20
    assert 4 << 10 < again["cache_used_bytes"] <= 4 << 20
    told = dict(line.rsplit(" ", 1) for line in page.splitlines())
    assert float(told["simhbase_cache_bytes"]) == 4 << 20
    assert float(told["simhbase_cache_used_bytes"]) == again["cache_used_bytes"]
    assert float(told['simhbase_store_total{event="cache_hits"}']) >= again["cache_hits"]


def test_drawers_whose_blocks_come_from_the_disk_are_fetched_by_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks that the disk is said to give: three a drawer, then none."""
    keys = encode(np.random.default_rng(2).integers(0, 2**64, 600, dtype=np.uint64), layout("5x2"))
    prefixes = keys.reshape(-1, keys.shape[-1])[:, :PREFIX_BYTES]
    store = create_store(f"rocksdb:{tmp_path / 'store'}")
    assert isinstance(store, RocksStore)
    store.drawers.add(keys)
    given, each, fetched = 0, 3, list[int]()

    def blocks_read() -> int:
        nonlocal given
        given += each * len(prefixes)
        return given

    def prefetch(self: Database, table: str, keys: list[bytes]) -> None:
        fetched.append(len(keys))
        whole(self, table, keys)

    whole = Database.prefetch
    monkeypatch.setattr(Database, "prefetch", prefetch)
    monkeypatch.setattr("simhbase.stores.rocksdb.store._blocks_read", blocks_read)

    def rows() -> list[tuple[list[int], list[int]]]:
        parts = store.drawers.read(prefixes, 10)
        return [(part.fingerprints.tolist(), part.offsets.tolist()) for part in parts]

    first = rows()
    assert sum(len(found) for found, _ in first) >= len(prefixes)
    assert fetched == [FETCHED, len(prefixes) - 2 * FETCHED], "the first part tells where blocks come from"
    each = 0
    assert rows() == first
    assert len(fetched) == 3, "the part after the one that was in memory is not fetched"
    store.drawers.times(keys)
    list(store.drawers.read(prefixes[:10], 10))
    assert len(fetched) == 3
    store.close()
