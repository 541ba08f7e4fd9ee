"""A small run of scripts/bench peers, with what needs no installation."""

import numpy as np
import pytest

from tests.bench import peers


@pytest.mark.slow
def test_programs_are_compared_with_brute_force_and_others_are_named(tmp_path, monkeypatch):
    monkeypatch.setitem(peers.PACKAGES, "unknown", ())
    names = ["simhbase in memory", "simhbase match", "simhbase, RocksDB", "SQLite bare", "unknown"]
    picture = tmp_path / "peers.svg"
    *kinds, failures = peers.compared(names, [500], "", picture)
    assert [table.title.rpartition(", ")[2] for table in kinds] == [
        "uniform fingerprints",
        "skewed fingerprints",
    ]
    for table in kinds:
        assert [row[0] for row in table.rows] == names[:4]
        assert {(row[-2], row[-1]) for row in table.rows} == {("100.0 %", 0)}
    assert failures.rows == [["unknown", "it can be installed, but nothing here uses it"]]
    assert b"SQLite bare" in picture.read_bytes()


@pytest.mark.parametrize("kind", peers.KINDS)
def test_half_of_the_queries_are_near_a_stored_fingerprint(kind):
    work = peers.Work.of(kind, 2000)
    near = work.near()
    assert len({query for query, _ in near}) == len(work.queries) // 2
    apart = [int(np.bitwise_count(np.uint64(value) ^ work.queries[query])) for query, value in near]
    assert set(apart) == {0, 1, 2, 3}


def test_an_answer_that_misses_lowers_recall():
    measured = peers.Measured(build=1.0, size=100, p50=1e-6, p99=1e-6, rate=1.0, found={(0, 1), (2, 3)})
    assert measured.cells({(0, 1), (1, 2)}, 10)[-2:] == ["50.0 %", 1]
