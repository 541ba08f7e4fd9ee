from __future__ import annotations

from itertools import combinations
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from simhbase.drawers import join, near_values
from simhbase.drawers.components import merge_components
from simhbase.drawers.join import default_layout, distances, distinct, pair_batches, pairs_within
from simhbase.drawers.layout import layout

LAYOUTS = ["5x2", "4x1", "4x4", "6x3", "3x1", "7x3", "8x2", "2x1p1", "4x2p1"]


def flipped(value: int, bits: list[int]) -> int:
    for bit in bits:
        value ^= 1 << bit
    return value


@st.composite
def clustered(draw: st.DrawFn, bits: int) -> NDArray[np.uint64]:
    """A few centres and values a few bits away from them, copies included."""
    centres = draw(st.lists(st.integers(0, 2**bits - 1), min_size=1, max_size=4))
    flips = st.lists(st.integers(0, bits - 1), max_size=6)
    members = draw(st.lists(st.tuples(st.sampled_from(centres), flips), max_size=40))
    return as_array([flipped(centre, flip) for centre, flip in members], bits)


def as_array(values: list[int], bits: int) -> NDArray[np.uint64]:
    if bits == 64:
        return np.array(values, dtype=np.uint64)
    words = [(value >> 64, value & (2**64 - 1)) for value in values]
    return np.array(words, dtype=np.uint64).reshape(-1, 2)


def as_integers(fingerprints: NDArray[np.uint64]) -> list[int]:
    if fingerprints.ndim == 1:
        return [int(value) for value in fingerprints]
    return [int(high) << 64 | int(low) for high, low in fingerprints]


def brute_force(fingerprints: NDArray[np.uint64], k: int) -> list[tuple[int, int, int]]:
    pairs = combinations(enumerate(as_integers(fingerprints)), 2)
    return [(i, j, (a ^ b).bit_count()) for (i, a), (j, b) in pairs if (a ^ b).bit_count() <= k]


def as_rows(pairs: object) -> list[tuple[int, int, int]]:
    return list(zip(pairs.left.tolist(), pairs.right.tolist(), pairs.distance.tolist(), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("bits", [64, 128])
@pytest.mark.parametrize("name", LAYOUTS)
@settings(max_examples=settings().max_examples // 3)  # for each of the layouts
@given(data=st.data())
def test_every_layout_finds_exactly_the_pairs_of_brute_force_in_order(name, bits, data):
    fingerprints = data.draw(clustered(bits))
    tables = layout(name, bits)
    k = data.draw(st.integers(0, tables.guarantee))
    assert as_rows(pairs_within(fingerprints, k, tables)) == brute_force(fingerprints, k)


@pytest.mark.parametrize("bits", [64, 128])
@given(data=st.data(), k=st.integers(0, 9))
def test_the_default_layout_of_any_k_finds_exactly_the_pairs_of_brute_force(bits, data, k):
    fingerprints = data.draw(clustered(bits))
    assert as_rows(pairs_within(fingerprints, k)) == brute_force(fingerprints, k)


@given(
    bits=st.sampled_from([64, 128]),
    k=st.integers(0, 31),
    n=st.integers(0, 2**31),
)
def test_the_default_layout_guarantees_k_for_any_number_of_fingerprints(bits, k, n):
    chosen = default_layout(k, n, bits)
    assert chosen.guarantee >= k
    assert chosen.bits == bits


@pytest.mark.parametrize("bits", [64, 128])
@given(data=st.data())
def test_distinct_values_appear_in_the_order_of_their_first_positions(bits, data):
    fingerprints = data.draw(clustered(bits))
    found = distinct(fingerprints)
    integers = as_integers(fingerprints)
    assert as_integers(fingerprints[found.first]) == list(dict.fromkeys(integers))
    assert as_integers(fingerprints[found.first][found.inverse]) == integers
    assert found.first.tolist() == [integers.index(value) for value in dict.fromkeys(integers)]


@pytest.mark.parametrize("bits", [64, 128])
@given(data=st.data())
def test_distances_are_the_bits_that_differ(bits, data):
    fingerprints = data.draw(clustered(bits))
    integers = as_integers(fingerprints)
    expected = [(a ^ b).bit_count() for a, b in zip(integers, integers[::-1], strict=True)]
    assert distances(fingerprints, fingerprints[::-1]).tolist() == expected


@given(data=st.data())
def test_batches_hold_every_pair_once(data):
    fingerprints = data.draw(clustered(64))
    batches = list(pair_batches(fingerprints, 3))
    rows = [row for batch in batches for row in as_rows(batch)]
    assert sorted(rows) == brute_force(fingerprints, 3)


@pytest.mark.parametrize("name", ["5x2", "4x1"])
@given(data=st.data())
def test_steps_of_any_size_hold_every_pair_once(name, data):
    fingerprints = data.draw(clustered(64))
    k = data.draw(st.integers(0, 3))
    at_once = data.draw(st.integers(1, 40))
    with patch.object(near_values, "AT_ONCE", at_once), patch.object(join, "BATCH_PAIRS", 2):
        rows = [row for batch in pair_batches(fingerprints, k, layout(name)) for row in as_rows(batch)]
    assert sorted(rows) == brute_force(fingerprints, k)


@pytest.mark.slow
@pytest.mark.parametrize("name", [None, "5x2", "2x1", "6x3", "2x1p1"])
@pytest.mark.parametrize("upper", [64, 20, 3])  # random bits above the lower ones, of which few are set
def test_many_values_in_small_and_large_buckets_hold_every_pair_once(name, upper):
    drawn = np.random.default_rng(upper)
    centres = drawn.integers(0, 2**64, 600, dtype=np.uint64) >> np.uint64(64 - upper) << np.uint64(64 - upper)
    flips = np.uint64(1) << drawn.integers(0, 64, (1200, 4), dtype=np.uint64)
    flips[drawn.random(flips.shape) < 0.5] = 0
    values = np.concatenate([centres, drawn.choice(centres, 1200) ^ np.bitwise_xor.reduce(flips, axis=1)])
    tables = None if name is None else layout(name)
    k = 3 if tables is None else tables.guarantee
    expected = [
        (one, one + 1 + int(other), int(apart[other]))
        for one in range(len(values))
        for apart in [np.bitwise_count(values[one + 1 :] ^ values[one])]
        for other in np.flatnonzero(apart <= k)
    ]
    with patch.object(near_values, "AT_ONCE", 400):
        assert as_rows(pairs_within(values, k, tables)) == expected
    assert expected


@pytest.mark.parametrize("n", [1 << 16, 1 << 24, 1 << 26, 1 << 28])
def test_three_bits_wherever_they_are_leave_a_table_equal(n):
    tables = near_values.tables_within_three(n)
    names = [
        sum(1 << (63 - bit) for run in table for bit in range(run.start, run.start + run.width))
        for table in tables
    ]
    single = np.uint64(1) << np.arange(64, dtype=np.uint64)
    flips = np.unique(single[:, None, None] | single[:, None] | single)
    assert len(flips) == 64 + 2016 + 41664
    equal = [flips & np.uint64(name) == 0 for name in names]
    assert np.logical_or.reduce(equal).all()


@given(
    st.integers(1, 30).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))))
    )
)
def test_united_sets_are_connected_components_named_by_their_least_member(graph):
    n, edges = graph
    expected = list(range(n))
    for _ in range(n):
        for one, other in edges:
            expected[one] = expected[other] = min(expected[one], expected[other])
    left, right = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    assert merge_components(np.arange(n), left, right).tolist() == expected
