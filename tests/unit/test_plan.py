"""What a number of documents would need, beside what loaded stores show."""

from itertools import combinations
from time import sleep

import numpy as np
import pytest

from simhbase.admin import plan as planning
from simhbase.admin.plan import (
    Needs,
    evenly_spread,
    measured_spread,
    plan,
    spread_as_news,
    spread_of,
)
from simhbase.admin.stats import sizes
from simhbase.errors import UsageError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index, open_index
from simhbase.profile.profile import MinHashProfile, Profile, SimHashProfile
from simhbase.stores import drop_store
from simhbase.stores.hbase import HBaseBackend
from simhbase.stores.hbase.schema import INDEX, Options
from tests.cluster import Cluster
from tests.command_line import run
from tests.postgresql import PostgreSQL
from tests.redis import Redis

WITHIN = 0.15


def uneven(n: int, seed: int = 1) -> FingerprintBatch:
    """Fingerprints that fill drawers unevenly, as those of texts do: some bits are nearly always set."""
    often, chance = np.random.default_rng(0).uniform(0.25, 0.75, 64), np.random.default_rng(seed)
    bits = chance.random((n, 64)) < often
    return FingerprintBatch.bare(np.packbits(bits, axis=1).view(">u8").ravel().astype(np.uint64))


def ids(n: int) -> list[str]:
    return [
        f"{value:016x}" for value in np.random.default_rng(n).integers(0, 2**64, n, dtype=np.uint64).tolist()
    ]


@pytest.mark.parametrize("layout", ["4x1", "5x2", "2x1p1"])
def test_rows_that_lookups_read_are_counted_as_brute_force_does(layout):
    scheme = SimHashProfile(layout=layout, verify=False).index_scheme
    values = uneven(400).values & np.uint64(0xFFF00FFF00FFF00F)  # full drawers of every layout
    sample = FingerprintBatch.bare(np.unique(values))
    met, related = 0, 0
    for one, other in combinations(sample.values.tolist(), 2):
        shared = len(scheme.shared_drawers(one, other))
        if scheme.layout.flips:  # a lookup reads each of these drawers by one of its probes
            shared = sum(((one ^ other) & mask).bit_count() <= 1 for mask in (0xFFFFFFFF << 32, 0xFFFFFFFF))
        met += 2 * shared
        related += 2 * shared * ((one ^ other).bit_count() <= 12)
    spread = spread_of(sample, scheme, 1.0, "here")
    n = len(sample)
    assert spread.related * n == pytest.approx(related)
    assert spread.unrelated * n * n == pytest.approx(met - related)


def test_uniform_fingerprints_spread_evenly():
    values = np.random.default_rng(1).integers(0, 2**64, 20_000, dtype=np.uint64)
    scheme = SimHashProfile(layout="4x1", verify=False).index_scheme
    spread = spread_of(FingerprintBatch.bare(values), scheme, 1.0, "here")
    assert spread.unrelated == pytest.approx(evenly_spread(scheme).unrelated, rel=0.05)
    assert spread.related < 0.01
    assert spread_as_news(scheme).unrelated == pytest.approx(2.5 * spread.unrelated, rel=0.05)


def test_of_a_drawer_that_equal_texts_fill_some_rows_stand_for_all(monkeypatch):
    """60,000 equal texts took 5 GB at once, and 12 billion comparisons."""
    compared = list[int]()

    def counting(*given):
        compared.append(len(given[2]))
        return are_related(*given)

    are_related = planning._are_related
    monkeypatch.setattr(planning, "_are_related", counting)
    values = np.random.default_rng(1).permutation(np.append(uneven(5_000).values, np.zeros(5_000, np.uint64)))
    scheme = SimHashProfile(layout="4x1", verify=False).index_scheme
    spread = spread_of(FingerprintBatch.bare(values), scheme, 1.0, "here")
    assert spread.related == pytest.approx(4 * 5_000 / 2, rel=0.01)
    assert sum(compared) < 10_000 * 4 * 300
    assert max(compared) <= 1 << 22


def fill(index: Index, n: int) -> None:
    index.add_fingerprints(ids(n), uneven(n).values)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["4x1", "3x1p1"])
def test_a_quarter_of_the_documents_tells_what_lookups_read_among_all(tmp_path, layout):
    profile, n = SimHashProfile(layout=layout, verify=False), 20_000
    scheme = profile.index_scheme
    with open_index(f"rocksdb:{tmp_path}/s", create=profile) as index:
        fill(index, n)
        planned = plan(n, profile, measured_spread(index, scheme, n // 4))
        asked = scheme.probes(uneven(2000, seed=2)).reshape(-1, 5)
        read = sum(int(np.diff(part.offsets).sum()) for part in index.store.drawers.read(asked, None)) / 2000
    assert planned.rows_read == pytest.approx(read, rel=WITHIN)


def needs(n: int, profile: Profile, store: str, **given: object) -> Needs:
    stores = plan(n, profile, spread_as_news(profile.index_scheme), **given).stores  # type: ignore[arg-type]
    return next(each for each in stores if each.store == store)


def planned_bytes(n: int, profile: Profile, store: str) -> float:
    return needs(n, profile, store, id_bytes=16).disk_gb * 1e9


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["4x1", "5x2", "2x1p1"])
def test_bytes_in_rocksdb_are_as_planned(tmp_path, layout):
    profile, n = SimHashProfile(layout=layout, verify=False), 50_000
    with open_index(f"rocksdb:{tmp_path}/s", create=profile) as index:
        fill(index, n)
        index.store.compact(whole=True)
        found = sum(each.bytes for each in sizes(index.store).values())
    assert found == pytest.approx(planned_bytes(n, profile, "rocksdb"), rel=WITHIN)


@pytest.mark.postgresql
@pytest.mark.parametrize("layout", ["4x1", "5x2"])
def test_bytes_in_postgresql_are_as_planned(postgresql: PostgreSQL, layout):
    profile, n = SimHashProfile(layout=layout, verify=False), 20_000
    with open_index(postgresql.empty_store("planned"), create=profile) as index:
        fill(index, n)
        found = sum(each.bytes for each in sizes(index.store).values())
    assert found == pytest.approx(planned_bytes(n, profile, "postgresql"), rel=WITHIN)


@pytest.mark.redis
@pytest.mark.parametrize("layout", ["4x1", "5x2"])
def test_bytes_in_redis_are_as_planned(redis: Redis, layout):
    """With uniform fingerprints, as few documents leave most drawers empty."""
    profile, n, url = SimHashProfile(layout=layout, verify=False), 20_000, redis.empty_store("planned")
    values = np.random.default_rng(1).integers(0, 2**64, n, dtype=np.uint64)
    while redis.command("INFO", "memory")["lazyfree_pending_objects"]:
        sleep(0.01)  # what stores of other tests held is freed beside us
    before = redis.command("INFO", "memory")["used_memory"]
    with open_index(url, create=profile) as index:
        index.add_fingerprints(ids(n), values)
        found = sum(each.bytes for each in sizes(index.store).values())
    held = redis.command("INFO", "memory")["used_memory"] - before
    assert found == pytest.approx(planned_bytes(n, profile, "redis"), rel=WITHIN)
    assert found == pytest.approx(held, rel=WITHIN)


@pytest.mark.hbase
def test_bytes_in_hbase_are_as_planned(hbase: Cluster):
    profile, n, url = SimHashProfile(verify=False), 20_000, hbase.url("planned")
    HBaseBackend(url).make(Options(regions=1))
    try:
        with open_index(url, create=profile) as index:
            fill(index, n)
        tables = [f"planned_{table}" for table in (INDEX, "fingerprints", "documents")]
        hbase.shell("".join(f"flush '{table}'\n" for table in tables))
        found = sum(
            file.stat().st_size
            for table in tables
            for file in hbase.folder.rglob(f"data/*/{table}/*/?/*")
            if file.is_file()
        )
    finally:
        drop_store(url)
    assert found == pytest.approx(planned_bytes(n, profile, "hbase"), rel=WITHIN)


def test_each_kind_of_store_ends_where_a_machine_or_its_drawers_do():
    profile = Profile()
    for store, limit in {
        "rocksdb": "memory",
        "postgresql": "memory",
        "redis": "memory",
        "hbase": "drawer",
    }.items():
        most = needs(1, profile, store).most_documents
        assert limit in needs(1, profile, store).limit
        assert store == "hbase" or needs(round(0.99 * most), profile, store).machines == 1
        assert needs(round(1.01 * most), profile, store).machines != 1
        larger = needs(1, profile, store, memory_gb=6400, disk_gb=10).limit
        assert ("disk" in larger) == (store != "hbase")
    assert needs(10**10, profile, "hbase", replication=9).machines > needs(10**10, profile, "hbase").machines


def test_what_lookups_cost_grows_with_documents_and_lookups():
    profile = MinHashProfile()
    few, many = needs(10**6, profile, "hbase", lookups=10), needs(10**10, profile, "hbase", lookups=100)
    assert few.processors
    assert many.processors
    assert many.processors > 10 * few.processors
    assert many.lookup_ms > few.lookup_ms


def test_the_scarcest_resource_decides_how_many_machines_there_are():
    def decided(store: str, **given: object) -> tuple[int | None, str]:
        found = needs(10**9, Profile(), store, **given)
        return found.machines, found.decided_by

    one = {"memory_gb": 10**4, "disk_gb": 10**5, "processors": 10**4, "lookups": 1000}
    one["replication"] = 1
    for store in ("rocksdb", "hbase"):
        assert decided(store, **one)[0] == 1
        for name in ("memory_gb", "disk_gb", "processors"):
            machines, by = decided(store, **one | {name: 1})
            assert by == name.removesuffix("_gb")
            assert machines is None if store == "rocksdb" else machines > 1
    assert decided("hbase", **one | {"replication": 3}) == (3, "replicas")
    busy = needs(10**10, Profile(), "hbase", lookups=100_000)
    assert busy.processors
    assert busy.machines == -(-busy.processors // 16)


def test_few_lookups_are_no_processors_of_0_00():
    assert needs(10**6, Profile(), "rocksdb").processors is None
    assert needs(10**6, Profile(), "rocksdb", lookups=0.001).processors == 0.01


def test_hours_of_a_load_follow_from_what_it_does_and_the_length_of_texts():
    for store in ("rocksdb", "postgresql", "redis", "hbase"):
        short, long = (needs(10**9, Profile(), store, characters=each) for each in (150, 5000))
        assert short.load_hours < short.unique_hours
        assert long.load_hours - short.load_hours == pytest.approx(1e9 * 4850 * 0.065 / 3600e6)
        looked_up = (short.unique_hours - short.load_hours) * 3600e3 / 1e9
        assert short.lookup_ms / 2 < looked_up < short.lookup_ms


def test_disk_reads_of_a_lookup_are_those_of_its_drawers_and_matches():
    few, many = needs(10**4, Profile(), "rocksdb"), needs(10**10, Profile(), "rocksdb")
    assert few.disk_reads
    assert many.disk_reads
    assert 10 < few.disk_reads < 12
    assert many.disk_reads > 50
    assert needs(10**10, Profile(), "redis").disk_reads is None


def test_drawers_that_would_be_cut_are_warned_of(tmp_path):
    profile = SimHashProfile(layout="4x1", verify=False)
    spread = spread_as_news(profile.index_scheme)
    assert plan(10**6, profile, spread).warnings == []
    assert "6x3" in plan(10**9, profile, spread).warnings[0]
    with open_index("memory:", create=profile) as index:
        with pytest.raises(UsageError, match="too few documents"):
            measured_spread(index, profile.index_scheme)
        values = np.arange(100, dtype=np.uint64) << np.uint64(40)  # which share most of their drawers
        index.add_fingerprints(ids(100), values)
        measured = measured_spread(index, profile.index_scheme)
    small, hot = plan(10**5, profile, measured).warnings
    assert "measured on 100 documents only" in small
    assert "simhbase stats --hot" in hot


@pytest.mark.parametrize("option", ["--lookups", "--memory", "--disk"])
@pytest.mark.parametrize("value", ["nan", "inf", "1e308"])
def test_a_number_that_is_none_is_a_usage_error(tmp_path, option, value):
    assert run("plan", "1000", option, value, cwd=tmp_path).returncode == 2
