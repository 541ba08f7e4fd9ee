"""The hottest fingerprints and drawers of every store, by brute force."""

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

import simhbase
from simhbase import Index, Profile
from simhbase.admin import Administrator
from simhbase.admin.hot import HotDrawer, HotFingerprint, Hottest
from simhbase.errors import UsageError
from simhbase.fingerprint.batch import FingerprintBatch
from tests.contract.conftest import Backend
from tests.contract.plain import all_rows

PARTS = 7


@pytest.fixture
def documents() -> list[int]:
    """The fingerprint of each document: some have many, and some begin alike."""
    chance = np.random.default_rng(5)
    values = chance.integers(0, 1 << 64, 300, dtype=np.uint64)
    values[:100] = values[:100] >> np.uint64(40) | np.uint64(0x0123 << 48)
    return [0, (1 << 64) - 1, *np.repeat(values, chance.geometric(0.3, len(values))).tolist()]


@pytest.fixture
def index(backend: Backend, documents: list[int]) -> Iterator[Index]:
    with simhbase.open(backend.url(0), create=Profile(verify=False)) as index:
        ids = [f"d{number}" for number in range(len(documents))]
        index.add_batch(ids, FingerprintBatch.bare(np.array(documents, dtype=np.uint64)))
        yield index


def sorted_by_count(counts: Counter) -> list[tuple]:
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))


def test_they_are_those_of_brute_force(index, documents):
    fingerprints = [HotFingerprint(*each) for each in sorted_by_count(Counter(documents))]
    rows = sorted_by_count(Counter(key[:5] for key in all_rows(index.store)))
    drawers = [HotDrawer(prefix, prefix[4], count) for prefix, count in rows]
    assert drawers[0].rows >= 100
    for most in (1, 5, 10**6):
        hot = Administrator(index).hot(most)
        assert list(hot.fingerprints) == fingerprints[:most]
        assert list(hot.drawers) == drawers[:most]


def test_parts_are_the_whole_and_cut_nothing(index):
    whole = Administrator(index).hot(10**6)
    parts = [Administrator(index).hot(10**6, part=(number, PARTS)) for number in range(1, PARTS + 1)]
    assert sum(len(part.fingerprints) > 0 for part in parts) > 1
    by_count = [each for part in parts for each in part.fingerprints]
    assert sorted(by_count, key=lambda each: (-each.documents, each.fingerprint)) == list(whole.fingerprints)
    drawers = [each for part in parts for each in part.drawers]
    assert sorted(drawers, key=lambda each: (-each.rows, each.prefix)) == list(whole.drawers)


def test_it_says_how_far_it_is(index, documents):
    told = []

    class Told:
        def __enter__(self):
            return lambda counted, done: told.append(done)

        def __exit__(self, *error):
            pass

    Administrator(index).hot(3, progress=lambda unit, total: Told())
    assert told[-1] == len(documents) + len(all_rows(index.store))


def test_an_empty_store_has_none(backend):
    with simhbase.open(backend.url(0), create=Profile(verify=False)) as index:
        assert Administrator(index).hot() == type(Administrator(index).hot())((), ())


@pytest.mark.parametrize("wrong", [{"most": 0}, {"most": "5"}, {"part": (2, 1)}])
def test_what_is_no_number_or_part_is_refused(wrong):
    with simhbase.open("memory:", create=Profile(verify=False)) as index, pytest.raises(UsageError):
        Administrator(index).hot(**wrong)


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_batches_may_end_anywhere(documents, size):
    ascending = np.array(sorted(documents), dtype=np.uint64)
    for most in (1, 4, 1000):
        hottest = Hottest(most)
        for start in range(0, len(ascending), size):
            hottest.add(ascending[start : start + size])
        hottest.add(ascending[:0])
        assert hottest.result() == sorted_by_count(Counter(documents))[:most]


def test_of_equal_counts_the_smaller_number_comes_first_in_any_order():
    hottest = Hottest(1)
    for number in (5, 3, 4):
        hottest.add(np.array([number], dtype=np.uint64))
    assert hottest.result() == [(3, 1)]
