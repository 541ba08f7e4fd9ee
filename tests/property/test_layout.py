"""Every pair within a layout's guarantee shares a drawer: that is what lookups rest on."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhbase.drawers.layout import Layout, layout
from simhbase.drawers.rowkeys import prefixes
from simhbase.drawers.scheme import SimHashScheme

LAYOUTS = ["5x2", "4x1", "4x4", "6x3", "7x3", "8x4", "10x3", "3x1", "2x1"]


def share_a_drawer(layout: Layout, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """bool (n,): which of n pairs have a prefix in common."""
    return (prefixes(left, layout) == prefixes(right, layout)).all(axis=2).any(axis=1)


def flips_of(chosen: list[list[int]]) -> np.ndarray:
    """Words with the bits of each row set, counted from the most significant: uint64 (n,)."""
    return np.bitwise_or.reduce(np.uint64(1) << (63 - np.array(chosen)).astype(np.uint64), axis=1)


def pieces(layout: Layout) -> list[list[int]]:
    """The bits, in groups that the same tables hold: where within a group a bit flips is all the same."""
    groups: dict[tuple[bool, ...], list[int]] = {}
    for bit in range(64):
        tables = tuple(
            any(run.start <= bit < run.start + run.width for run in table) for table in layout.tables
        )
        groups.setdefault(tables, []).append(bit)
    return list(groups.values())


@pytest.mark.parametrize("name", LAYOUTS)
def test_wherever_the_errors_fall_a_pair_within_the_guarantee_meets(name):
    found = layout(name)
    groups = pieces(found)
    rng = np.random.default_rng(1)
    for errors in range(1, found.guarantee + 1):
        patterns = list(combinations(range(len(groups)), min(errors, len(groups))))
        # Distinct groups are the worst case: errors that share a group spoil no more tables than one.
        chosen = [[int(rng.choice(groups[group])) for group in pattern] for pattern in patterns]
        flips = flips_of(chosen)
        base = rng.integers(0, 2**64, len(flips), dtype=np.uint64)
        assert share_a_drawer(found, base, base ^ flips).all()


@pytest.mark.parametrize("name", LAYOUTS)
def test_one_error_more_than_the_guarantee_can_keep_a_pair_apart(name):
    found = layout(name)
    groups = pieces(found)
    patterns = combinations(groups, found.guarantee + 1)
    flips = flips_of([[group[0] for group in pattern] for pattern in patterns])
    base = np.zeros(len(flips), np.uint64)
    assert not share_a_drawer(found, base, base ^ flips).all()


@pytest.mark.parametrize("name", LAYOUTS)
@given(fingerprint=st.integers(0, 2**64 - 1), data=st.data())
def test_any_pair_within_the_guarantee_meets(name, fingerprint, data):
    found = layout(name)
    flips = data.draw(st.sets(st.integers(0, 63), max_size=found.guarantee))
    near = fingerprint ^ sum(1 << bit for bit in flips)
    pair = np.array([[fingerprint], [near]], np.uint64)
    assert share_a_drawer(found, pair[0], pair[1]).all()


@pytest.mark.parametrize("name", ["5x2", "4x4"])
def test_every_pair_within_two_bits_meets(name):
    flips = flips_of([list(pair) for pair in combinations(range(64), 2)])
    base = np.random.default_rng(2).integers(0, 2**64, len(flips), dtype=np.uint64)
    assert share_a_drawer(layout(name), base, base ^ flips).all()


@pytest.mark.full
@pytest.mark.parametrize("name", ["5x2", "4x1", "4x4", "6x3"])
def test_every_pair_within_three_bits_meets(name):
    flips = flips_of([list(triple) for triple in combinations(range(64), 3)])
    base = np.random.default_rng(3).integers(0, 2**64, len(flips), dtype=np.uint64)
    assert share_a_drawer(layout(name), base, base ^ flips).all()


@pytest.mark.parametrize("name", LAYOUTS)
def test_fingerprints_far_apart_share_no_drawer(name):
    base = np.random.default_rng(4).integers(0, 2**64, 100, dtype=np.uint64)
    assert not share_a_drawer(layout(name), base, ~base).any()


@pytest.mark.parametrize("name", LAYOUTS)
@given(fingerprint=st.integers(0, 2**64 - 1), flips=st.sets(st.integers(0, 63), max_size=8))
def test_the_drawers_that_fingerprints_share_are_those_of_equal_prefixes(name, fingerprint, flips):
    other = fingerprint ^ sum(1 << bit for bit in flips)
    left, right = (prefixes(np.array([value], np.uint64), layout(name))[0] for value in (fingerprint, other))
    shared = SimHashScheme(layout(name), 0).shared_drawers(fingerprint, other)
    assert [flag - 1 for flag in shared] == np.flatnonzero((left == right).all(axis=1)).tolist()
