from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from time import process_time
from typing import TypeVar

import numpy as np
import pytest

from simhbase._core import Candidates
from simhbase.drawers.crowds import LARGE, _large
from simhbase.drawers.groups import (
    PAIRS_AT_ONCE,
    ExactSimilarity,
    Groups,
    Matcher,
    groups,
    stars,
)
from simhbase.drawers.join import default_layout
from simhbase.drawers.layout import layout
from simhbase.drawers.scheme import Bounds, SimHashScheme
from simhbase.errors import UsageError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.sketches import fingerprints
from simhbase.process import spool
from simhbase.process.spool import SpooledRows
from simhbase.profile.profile import PRESETS, Profile

T = TypeVar("T")


def peak_of(call: Callable[[], T]) -> tuple[T, int]:
    """What a call returns, and by how many bytes this process grew meanwhile, at most: the core's, too."""
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here on
    return call(), resident("VmHWM") - before


def resident(name: str) -> int:
    (kibibytes,) = re.findall(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(kibibytes) << 10


def grouped(values: np.ndarray, k: int) -> Groups:
    return groups(
        Matcher(FingerprintBatch.bare(values), SimHashScheme(default_layout(k, len(values)), k), Bounds(k))
    )


def chain(length):
    """Values one bit from the next, the ends `length` bits apart."""
    return np.array([(1 << i) - 1 for i in range(length + 1)], dtype=np.uint64)


def test_a_chain_is_one_group_whose_far_end_exceeds_k():
    found = grouped(chain(10), 1)
    assert found.representative.tolist() == [0] * 11
    assert found.distance.tolist() == list(range(11))
    assert (found.unique.sum(), found.count) == (1, 1)


def test_a_long_chain_in_any_order_is_one_group_named_by_its_first():
    gray = np.arange(1 << 14, dtype=np.uint64)
    gray ^= gray >> np.uint64(1)  # neighbours differ in one bit
    values = np.random.default_rng(3).permutation(gray << np.uint64(20))
    assert set(grouped(values, 1).representative.tolist()) == {0}


def test_documents_alone_are_their_own_representatives_and_no_group():
    found = grouped(np.array([0, 0xFFFF, 0xFFFF0000], dtype=np.uint64), 3)
    assert found.representative.tolist() == [0, 1, 2]
    assert (found.unique.tolist(), found.count) == ([True] * 3, 0)


def test_groups_are_counted_where_they_have_two_documents_or_more():
    found = grouped(np.array([0, 1, 0xFFFF, 0xFFFE, 0xFFFF0000], dtype=np.uint64), 3)
    assert found.count == 2
    assert found.unique.sum() == 3


def test_a_page_copied_a_hundred_thousand_times_costs_no_more_than_its_documents():
    values = np.full(100_000, 0xABCD, dtype=np.uint64)
    values[7] = 0xABCC
    _, peak = peak_of(lambda: grouped(values, 3))
    assert peak < 200 * len(values)


def test_no_documents_give_empty_answers():
    found = grouped(np.empty(0, dtype=np.uint64), 3)
    assert len(found.distance) == 0


def test_a_layout_that_does_not_guarantee_k_is_refused():
    with pytest.raises(UsageError, match="0 to 3 with layout 5x2"):
        groups(
            Matcher(
                FingerprintBatch.bare(np.zeros(3, dtype=np.uint64)),
                SimHashScheme(layout("5x2"), 3),
                Bounds(4),
            )
        )


def test_a_star_ends_where_documents_are_no_longer_near_its_first():
    values = chain(6)
    found = stars(Matcher(FingerprintBatch.bare(values), SimHashScheme(default_layout(1, 7), 1), Bounds(1)))
    assert found.representative.tolist() == [0, 0, 2, 2, 4, 4, 6]
    assert found.distance.tolist() == [0, 1, 0, 1, 0, 1, 0]
    assert (found.unique.sum(), found.count) == (4, 3)


def test_stars_of_more_pairs_than_are_looked_at_together_are_taken_in_order():
    centres = np.random.default_rng(5).integers(0, 2**64, PAIRS_AT_ONCE, dtype=np.uint64)
    values = np.concatenate([centres ^ np.uint64(bits) for bits in (0, 1, 2)])
    found = stars(Matcher(FingerprintBatch.bare(values), SimHashScheme(layout("5x2"), 2), Bounds(2)))
    assert found.representative.tolist() == list(range(len(centres))) * 3


def test_no_documents_give_no_stars():
    none = FingerprintBatch.bare(np.empty(0, dtype=np.uint64))
    assert stars(Matcher(none, SimHashScheme(layout("5x2"), 3), Bounds(3))).count == 0


def test_the_most_preferred_stands_for_a_group_that_its_first_names():
    order = np.array([3, 2, 1, 0, 4])
    values = np.array([0, 1, 0xFFFF, 3, 0xFFFE], dtype=np.uint64)
    found = groups(Matcher(FingerprintBatch.bare(values), SimHashScheme(layout("5x2"), 1), Bounds(1)), order)
    assert found.representative.tolist() == [3, 3, 2, 3, 2]
    assert found.first.tolist() == [0, 0, 2, 0, 2]
    assert found.distance.tolist() == [2, 1, 0, 0, 1]


@pytest.mark.parametrize("grouping", [groups, stars])
def test_very_many_texts_of_one_fingerprint_take_no_memory_for_their_pairs(grouping):
    n = 2000
    names = np.column_stack([np.arange(n, dtype=np.uint64)] * 2)
    compared = []

    def similarity(left, right):
        compared.append(len(left))
        return np.ones(len(left))

    values = FingerprintBatch.bare(np.full(n, 0xABCD, dtype=np.uint64))
    exact = ExactSimilarity(0.5, names, similarity)
    matcher = Matcher(values, SimHashScheme(layout("5x2"), 3), Bounds(3), exact)
    found, peak = peak_of(lambda: grouping(matcher))
    assert set(found.representative.tolist()) == {0}
    assert peak < 500 * n  # a list of the pairs takes 4 * n bytes a document
    assert sum(compared) <= 3 * n


def test_texts_that_are_equal_are_not_compared():
    names = np.repeat(np.arange(2, dtype=np.uint64), 50)
    compared = []

    def similarity(left, right):
        compared.extend(zip(left.tolist(), right.tolist(), strict=True))
        return np.zeros(len(left))

    values = FingerprintBatch.bare(np.zeros(100, dtype=np.uint64))
    exact = ExactSimilarity(0.5, np.column_stack([names, names]), similarity)
    found = stars(Matcher(values, SimHashScheme(layout("5x2"), 3), Bounds(3), exact))
    assert compared == [(0, 50)]
    assert found.representative.tolist() == [0] * 50 + [50] * 50
    assert set(found.similarity.tolist()) == {1}


def crowded(n: int) -> tuple[FingerprintBatch, np.ndarray]:
    """Sketches around five centres, some of which differ too much from their centre or have the same
    fingerprint as another one, and which of their texts are alike."""
    chance = np.random.default_rng(n)
    centres = chance.integers(0, 256, (5, 128), dtype=np.uint8)
    sketches = centres[chance.integers(0, 5, n)]
    for row in sketches:
        row[chance.integers(0, 128, chance.integers(0, 60))] += 1
    sketches[::9] = sketches[::9][::-1]
    return FingerprintBatch(fingerprints(sketches), sketches), np.triu(chance.random((n, n)), 1)


def all_near(batch: FingerprintBatch, alike: np.ndarray, least: float) -> np.ndarray:
    scheme = Profile(scheme="minhash", slots=128).index_scheme
    one, other = np.triu_indices(len(batch), 1)
    near = scheme.bounds(None, None).verified(scheme.sketching, batch.sketches, one, batch.sketches, other)[1]
    segments = scheme.segments(batch)
    near &= (segments[one] == segments[other]).any(axis=1) & (alike[one, other] >= least)
    matrix = np.zeros(alike.shape, dtype=np.bool_)
    matrix[one[near], other[near]] = True
    return matrix


def test_thousands_of_large_drawers_take_the_time_of_their_members():
    """Not of each with all: 3 million fingerprints took 45 s, 30 million an hour."""
    named = np.random.default_rng(1).integers(0, 1 << 32, 1500, dtype=np.uint64).repeat(LARGE + 1)
    np.random.default_rng(2).shuffle(named)
    begin = process_time()
    np.argsort(named, kind="stable")
    sorted_ = process_time()
    found = list(_large(named))
    assert process_time() - sorted_ < 5 * (sorted_ - begin)
    assert [len(each) for each in found] == [LARGE + 1] * 1500
    assert all((np.diff(each) > 0).all() and len(set(named[each].tolist())) == 1 for each in found)


@pytest.mark.parametrize("least", [0.0, 0.3, 0.9])
def test_groups_of_crowds_are_those_of_all_pairs(least):
    n = 300
    batch, alike = crowded(n)
    near = all_near(batch, alike, least)
    star = np.arange(n)
    for i in range(n):
        if star[i] == i:
            taken = np.flatnonzero(near[i] & (star == np.arange(n)))
            star[taken] = i
    part = np.arange(n)
    for i, j in np.argwhere(near).tolist():
        part[part == part[j]] = part[i]
    names = np.column_stack([np.arange(n, dtype=np.uint64)] * 2)
    exact = ExactSimilarity(least, names, lambda a, b: alike[np.minimum(a, b), np.maximum(a, b)])
    scheme = Profile(scheme="minhash", slots=128).index_scheme
    matcher = Matcher(batch, scheme, scheme.bounds(None, None), exact)
    assert stars(matcher).representative.tolist() == star.tolist()
    assert groups(matcher).first.tolist() == [np.flatnonzero(part == each)[0] for each in part]


@pytest.mark.parametrize("compares_texts", [False, True])
@pytest.mark.parametrize("grouping", [groups, stars])
def test_a_cluster_of_near_texts_costs_a_comparison_for_each(monkeypatch, grouping, compares_texts):
    n = 1500
    sketches = np.zeros((n, 128), dtype=np.uint8)
    sketches[np.arange(n), np.random.default_rng(2).integers(0, 128, n)] = np.arange(n) % 255 + 1
    compared = []
    verified = Bounds.verified

    def counted(bounds, sketching, a, left, b, right):
        compared.append(len(left))
        return verified(bounds, sketching, a, left, b, right)

    monkeypatch.setattr(Bounds, "verified", counted)
    batch, scheme = (
        FingerprintBatch(fingerprints(sketches), sketches),
        Profile(scheme="minhash", slots=128).index_scheme,
    )
    names = np.column_stack([np.arange(n, dtype=np.uint64)] * 2)
    exact = ExactSimilarity(0.5, names, lambda left, right: np.ones(len(left))) if compares_texts else None
    found, peak = peak_of(lambda: grouping(Matcher(batch, scheme, scheme.bounds(None, None), exact)))
    assert found.count == 1
    assert sum(compared) <= 2 * n
    assert peak < 20_000 * n


@pytest.mark.parametrize(
    ("grouping", "counts"), [(groups, "similarity"), (stars, "similarity"), (stars, "containment")]
)
def test_a_crowd_of_near_texts_of_which_none_matches_takes_linear_time(grouping, counts):
    """The last two are copies of each other, which are found behind all the others."""
    compared = dict[int, int]()

    def crowd(n: int) -> Groups:
        chance = np.random.default_rng(n)
        sketches = np.zeros((n, 128), dtype=np.uint8)
        for sketch in sketches[:-1]:
            sketch[chance.choice(128, 10, replace=False)] = chance.integers(1, 256, 10)
        sketches[-1] = sketches[-2]
        sketches[-1, chance.choice(128, 3, replace=False)] = 7

        def matches(left, right):
            compared[n] = compared.get(n, 0) + len(left)
            return (left >= n - 2) & (right >= n - 2)

        def of_similar(left, right):
            return np.where(matches(left, right), 0.9, 0.3)

        names = np.column_stack([np.arange(n, dtype=np.uint64)] * 2)
        exact = ExactSimilarity(0.5, names, of_similar)
        if counts == "containment":
            exact = ExactSimilarity(0.5, names, lambda left, right: np.ones(len(left)), matches)
        batch, scheme = (
            FingerprintBatch(fingerprints(sketches), sketches),
            Profile(scheme="minhash", slots=128).index_scheme,
        )
        return grouping(Matcher(batch, scheme, scheme.bounds(None, None), exact))

    for n in (500, 2000):
        found = crowd(n)
        assert found.representative.tolist() == [*range(n - 1), n - 2]
        assert compared[n] < n * 200
        assert 0.5 * n < np.count_nonzero(found.truncated) < n


@pytest.mark.parametrize("grouping", [groups, stars])
@pytest.mark.parametrize("contained", [1.0, 0.6])
def test_groups_of_a_crowd_do_not_depend_on_how_many_are_compared_at_once(monkeypatch, grouping, contained):
    """A text is compared with few of many near ones, of which some match, and some of these contain it."""
    n = 500
    chance = np.random.default_rng(5)
    sketches = np.zeros((n, 128), dtype=np.uint8)
    for sketch in sketches:
        sketch[chance.choice(128, 12, replace=False)] = chance.integers(1, 256, 12)

    def share(left, right, factor):
        return ((left * factor + right * 7919) % 10_007) / 10_007

    exact = ExactSimilarity(
        0.9985,
        np.column_stack([np.arange(n, dtype=np.uint64)] * 2),
        lambda left, right: share(left, right, 104_729),
        lambda left, right: share(left, right, 1_299_709) < contained,
    )
    scheme = Profile(scheme="minhash", slots=128).index_scheme
    batch = FingerprintBatch(fingerprints(sketches), sketches)
    found = []
    for at_once in (1, PAIRS_AT_ONCE, n * n):
        monkeypatch.setattr("simhbase.drawers.groups.PAIRS_AT_ONCE", at_once)
        found.append(grouping(Matcher(batch, scheme, scheme.bounds(None, None), exact)))
    for each in found[1:]:
        for one, other in zip(vars(found[0]).values(), vars(each).values(), strict=True):
            np.testing.assert_array_equal(one, other)
    assert 0 < found[0].count < n / 2
    assert np.count_nonzero(found[0].truncated) > n / 2


@pytest.mark.parametrize("grouping", [groups, stars])
@pytest.mark.parametrize("preset", ["default", "complete"])
def test_the_sketches_of_a_crowd_that_are_not_near_are_compared_in_linear_time(monkeypatch, grouping, preset):
    """The last one is near the first."""
    monkeypatch.setattr("simhbase.drawers.groups.LOOKS", 50)
    scheme, compared = Profile(**PRESETS[preset]).index_scheme, list[int]()
    are_near = type(scheme).are_near

    def counted(self, fingerprints, bounds, left, right):
        compared.append(len(left))
        return are_near(self, fingerprints, bounds, left, right)

    monkeypatch.setattr(type(scheme), "are_near", counted)

    def crowd(n: int) -> tuple[Groups, int]:
        chance = np.random.default_rng(n)
        sketches = chance.integers(0, 256, (n, scheme.sketching.bytes), dtype=np.uint8)
        sketches[:, :8] = 1  # a band
        sketches[-1] = sketches[0]
        sketches[-1, -1] ^= 1
        values = np.full(n, 7, dtype=np.uint64) if preset == "default" else fingerprints(sketches)
        compared.clear()
        found = grouping(Matcher(FingerprintBatch(values, sketches), scheme, scheme.bounds(None, None)))
        return found, sum(compared)

    (few, in_few), (many, in_many) = crowd(2000), crowd(4000)
    assert in_few <= 2000 * 51
    assert in_many < 2.1 * in_few
    for found, n in ((few, 2000), (many, 4000)):
        assert found.representative.tolist() == [*range(n - 1), 0]
        last = [n - 1] if grouping is stars else []  # which the first leads, so that nothing is missing
        assert np.flatnonzero(~found.truncated).tolist() == [*range(51), *last]
    assert not crowd(40)[0].truncated.any()


def minhashed(n: int, folder: Path, *, compares_texts: bool) -> tuple[Groups, int]:
    """Groups of random sketches on disk, two in a thousand alike, and the most memory that they took, also in
    the core."""
    chance, scheme = np.random.default_rng(n), Profile(scheme="minhash", slots=128).index_scheme
    values = np.empty(n, dtype=np.uint64)
    with (
        closing(SpooledRows(folder, np.empty((0, 128), np.uint8))) as sketches,
        closing(SpooledRows(folder, np.empty((0, 2), np.uint64))) as texts,
    ):
        for start in range(0, n, 1000):
            part = chance.integers(0, 256, (1000, 128), dtype=np.uint8)
            part[0] = part[1]
            part[0, ::20] += 1
            sketches.append(part)
            texts.append(chance.integers(0, 2**64, (1000, 2), dtype=np.uint64))
            values[start : start + 1000] = fingerprints(part)
        exact = ExactSimilarity(0.5, texts, lambda left, right: np.ones(len(left)))
        batch, bounds = FingerprintBatch(values, sketches), scheme.bounds(None, None)
        return peak_of(lambda: stars(Matcher(batch, scheme, bounds, exact if compares_texts else None)))


@pytest.mark.slow
@pytest.mark.parametrize("compares_texts", [False, True])
def test_a_document_takes_less_memory_than_its_sketch(tmp_path, monkeypatch, compares_texts):
    monkeypatch.setattr(spool, "IN_MEMORY", 0)
    (few, peak_of_few), (many, peak_of_many) = (
        minhashed(n, tmp_path, compares_texts=compares_texts) for n in (100_000, 300_000)
    )
    assert (few.count, many.count) == (100, 300)
    assert (peak_of_many - peak_of_few) / 200_000 < 128


@pytest.mark.parametrize("grouping", [groups, stars])
def test_candidates_taken_one_by_one_give_the_same_groups(monkeypatch, grouping):
    chance = np.random.default_rng(4)
    values = chance.integers(0, 2**10, 500, dtype=np.uint64)  # several of each, all near others
    texts = np.column_stack([np.arange(500, dtype=np.uint64)] * 2)
    alike = chance.random((500, 500))
    exact = ExactSimilarity(0.995, texts, lambda left, right: alike[left, right])
    matcher = Matcher(FingerprintBatch.bare(values), SimHashScheme(layout("5x2"), 3), Bounds(3), exact)
    whole = grouping(matcher)
    monkeypatch.setattr("simhbase.drawers.groups.PAIRS_AT_ONCE", 1)
    in_parts = grouping(matcher)
    assert in_parts.representative.tolist() == whole.representative.tolist()
    assert in_parts.distance.tolist() == whole.distance.tolist()
    assert whole.count > 20


def test_more_documents_than_numbers_are_refused(monkeypatch):
    values = np.arange(3, dtype=np.uint64) << np.uint64(30)
    monkeypatch.setattr("simhbase.drawers.groups.MOST", 2)
    with pytest.raises(UsageError, match="at most 2 different texts"):
        grouped(values, 0)
    with pytest.raises(ValueError, match="too many documents"):
        Candidates(1 << 31, None, False, 1)


def test_pairs_of_a_large_drawer_are_listed_if_few_are_near():
    chance = np.random.default_rng(7)
    scheme, count = SimHashScheme(layout("5x2"), 3, reach=7), LARGE + 500
    drawer = np.uint64(0x0123456 << 38)  # the first two blocks
    near = drawer ^ np.bitwise_xor.reduce(np.uint64(1) << chance.integers(0, 38, (3, count), dtype=np.uint64))
    apart = drawer ^ chance.integers(0, 1 << 38, count, dtype=np.uint64)
    for values, is_crowd in ((near, True), (apart, False)):
        batch, crowds = FingerprintBatch.bare(np.unique(values)), list[np.ndarray]()
        listed = sum(len(each.left) for each in scheme.pairs(batch, Bounds(7), crowds=crowds))
        everything = sum(len(each.left) for each in scheme.pairs(batch, Bounds(7)))
        assert bool(crowds) == is_crowd
        if is_crowd:  # all share the first drawer
            assert len(batch) ** 2 / 4 < everything
            assert listed == 0
            assert max(map(len, crowds)) == len(batch)
        else:
            assert listed == everything > 0
