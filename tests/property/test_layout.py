"""Every pair within a layout's guarantee meets in a drawer: that is what lookups rest on."""

from collections import Counter
from itertools import combinations, combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simhbase.drawers.join import segments
from simhbase.drawers.layout import Layout, layout
from simhbase.drawers.rowkeys import FLAG, prefixes, probes
from simhbase.drawers.scheme import SimHashScheme

A_THIRD = settings(max_examples=settings().max_examples // 3)  # for each of the layouts
LAYOUTS = ["5x2", "4x1", "4x4", "6x3", "7x3", "8x4", "10x3", "3x1", "2x1"]
FLIPPING = ["2x1p1", "3x1p1", "4x1p1", "5x2p1", "6x3p1"]


def meet(layout: Layout, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """bool (n,): of which of n pairs the lookup of one reads a drawer of the other."""
    read, filed = probes(left, layout)[:, :, np.newaxis], prefixes(right, layout)[:, np.newaxis]
    return (read == filed).all(axis=3).any(axis=(1, 2))


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


@pytest.mark.parametrize("name", LAYOUTS + FLIPPING)
def test_wherever_the_errors_fall_a_pair_within_the_guarantee_meets(name):
    found = layout(name)
    groups = pieces(found)
    rng = np.random.default_rng(1)
    for errors in range(1, found.guarantee + 1):
        if found.flips:  # two errors in a group spoil its tables, one does not
            patterns = list(combinations_with_replacement(range(len(groups)), errors))
        else:
            patterns = list(combinations(range(len(groups)), min(errors, len(groups))))
        chosen = [
            [
                int(bit)
                for group, times in Counter(pattern).items()
                for bit in rng.choice(groups[group], times, replace=False)
            ]
            for pattern in patterns
        ]
        flips = flips_of(chosen)
        base = rng.integers(0, 2**64, len(flips), dtype=np.uint64)
        assert meet(found, base, base ^ flips).all()


@pytest.mark.parametrize("name", LAYOUTS + FLIPPING)
def test_one_error_more_than_the_guarantee_can_keep_a_pair_apart(name):
    found = layout(name)
    groups = pieces(found)
    patterns = (
        combinations_with_replacement(range(len(groups)), found.guarantee + 1)
        if found.flips
        else combinations(range(len(groups)), found.guarantee + 1)
    )
    flips = flips_of(
        [
            [bit for group, times in Counter(pattern).items() for bit in groups[group][:times]]
            for pattern in patterns
        ]
    )
    base = np.zeros(len(flips), np.uint64)
    assert not meet(found, base, base ^ flips).all()


@pytest.mark.parametrize("name", LAYOUTS + FLIPPING)
@A_THIRD
@given(fingerprint=st.integers(0, 2**64 - 1), data=st.data())
def test_any_pair_within_the_guarantee_meets(name, fingerprint, data):
    found = layout(name)
    flips = data.draw(st.sets(st.integers(0, 63), max_size=found.guarantee))
    near = fingerprint ^ sum(1 << bit for bit in flips)
    pair = np.array([[fingerprint], [near]], np.uint64)
    assert meet(found, pair[0], pair[1]).all()


@pytest.mark.parametrize("name", ["5x2", "4x4"])
def test_every_pair_within_two_bits_meets(name):
    flips = flips_of([list(pair) for pair in combinations(range(64), 2)])
    base = np.random.default_rng(2).integers(0, 2**64, len(flips), dtype=np.uint64)
    assert meet(layout(name), base, base ^ flips).all()


@pytest.mark.full
@pytest.mark.parametrize("name", ["5x2", "4x1", "4x4", "6x3", "2x1p1", "3x1p1"])
def test_every_pair_within_three_bits_meets(name):
    flips = flips_of([list(triple) for triple in combinations(range(64), 3)])
    base = np.random.default_rng(3).integers(0, 2**64, len(flips), dtype=np.uint64)
    assert meet(layout(name), base, base ^ flips).all()


@pytest.mark.parametrize("name", LAYOUTS + FLIPPING)
def test_fingerprints_far_apart_share_no_drawer(name):
    base = np.random.default_rng(4).integers(0, 2**64, 100, dtype=np.uint64)
    assert not meet(layout(name), base, ~base).any()


@pytest.mark.parametrize("name", LAYOUTS + FLIPPING)
@A_THIRD
@given(fingerprint=st.integers(0, 2**64 - 1), flips=st.sets(st.integers(0, 63), max_size=8))
def test_the_tables_in_which_fingerprints_meet_are_those_whose_drawers_a_lookup_reads(
    name, fingerprint, flips
):
    other = fingerprint ^ sum(1 << bit for bit in flips)
    one, two = (np.array([value], np.uint64) for value in (fingerprint, other))
    found = layout(name)
    filed = {prefix.tobytes() for prefix in prefixes(two, found)[0]}
    read = [prefix for prefix in probes(one, found)[0] if prefix.tobytes() in filed]
    scheme = SimHashScheme(found, 0)
    assert scheme.shared_drawers(fingerprint, other) == tuple(int(prefix[FLAG]) for prefix in read)
    assert scheme.shared_drawers(other, fingerprint) == scheme.shared_drawers(fingerprint, other)
    joined = segments(one, found, 32) == segments(two, found, 32)
    assert joined.any() == bool(read)
