from __future__ import annotations

import tracemalloc
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import pytest

from simhbase.drawers import near_values
from simhbase.drawers.join import default_layout, distinct, mates, pair_batches, pairs_within, segments
from simhbase.drawers.layout import layout
from simhbase.errors import UsageError


def with_planted_pairs(n, planted, bits):
    """n random fingerprints, and the pairs of positions planted at distances 0, 1, 2, 3 in turn."""
    random = np.random.default_rng(n)
    words = bits // 64
    fingerprints = random.integers(0, 2**64, (n, words), dtype=np.uint64)
    left, right = random.permutation(n)[: 2 * planted].reshape(2, -1)
    fingerprints[right] = fingerprints[left]
    for i, position in enumerate(right):
        for bit in random.permutation(bits)[: i % 4]:
            fingerprints[position, bit // 64] ^= np.uint64(1) << np.uint64(bit % 64)
    distance = np.arange(planted) % 4
    rows = sorted(zip(np.minimum(left, right), np.maximum(left, right), distance, strict=True))
    return fingerprints.reshape(-1) if words == 1 else fingerprints, rows


@pytest.mark.parametrize("bits", [64, 128])
def test_ten_thousand_planted_pairs_are_found_among_a_million(bits):
    fingerprints, planted = with_planted_pairs(1_000_000, 10_000, bits)
    found = pairs_within(fingerprints, 3)
    assert sorted(zip(found.left, found.right, found.distance, strict=True)) == planted


def test_results_have_the_documented_types():
    found = pairs_within(np.array([1, 3, 1], dtype=np.uint64), 3)
    assert (found.left.dtype, found.right.dtype, found.distance.dtype) == (np.int64, np.int64, np.uint8)
    assert (found.left.tolist(), found.right.tolist()) == ([0, 0, 1], [1, 2, 2])


@pytest.mark.parametrize("shape", [(0,), (1,), (0, 2), (1, 2)])
def test_fewer_than_two_fingerprints_have_no_pairs(shape):
    assert len(pairs_within(np.zeros(shape, dtype=np.uint64), 3).left) == 0


@pytest.mark.parametrize(("n", "tables"), [(1000, 4), (100_000, 8)])
def test_progress_counts_each_fingerprint_once_for_each_table(n, tables):
    counted, begun = [], []

    @contextmanager
    def progress(unit, total):
        begun.append((unit, total()))
        yield lambda count, done: counted.append(count)

    values = np.random.default_rng(1).integers(0, 2**64, n, dtype=np.uint64)
    with patch.object(near_values, "AT_ONCE", n // 4):
        assert len(list(pair_batches(values, 3, progress=progress))) == 1
    assert begun == [("comparisons", n * tables)]
    assert sum(counted) == n * tables
    assert len(counted) >= 4


def test_a_drawer_that_everything_shares_needs_memory_for_its_members_only():
    """4,000 values within 24 bits: 8 million comparisons in the first drawers."""
    values = np.random.default_rng(1).integers(0, 2**24, 4_000, dtype=np.uint64)
    assert most_memory_of(lambda: sum(len(batch.left) for batch in pair_batches(values, 3))) < 4_000_000


@pytest.mark.slow
def test_very_many_near_pairs_need_memory_for_a_batch_only():
    """All 8,192 values of 13 bits: 17 million pairs within 7 bits."""
    values = np.arange(1 << 13, dtype=np.uint64)
    found = pair_batches(values, 3, layout("5x2"), reach=6)
    assert most_memory_of(lambda: sum(len(batch.left) for batch in found)) < 120_000_000


def most_memory_of(work):
    tracemalloc.start()
    work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("k", [0, 1, 2, 3])
def test_up_to_three_bits_two_blocks_are_enough(k):
    assert default_layout(k, 10**9).name == f"{max(k, 1) + 2}x2"


def test_larger_k_takes_more_blocks_where_drawers_would_hold_many():
    names = [default_layout(6, n).name for n in (10_000, 1_000_000)]
    assert names == ["8x2", "9x3"]


def test_no_default_layout_has_more_tables_than_a_layout_may():
    assert {len(default_layout(k, 10**9).tables) <= 255 for k in range(32)} == {True}


@pytest.mark.parametrize(("k", "bits"), [(-1, 64), (32, 64), (64, 128)])
def test_a_k_that_says_nothing_is_refused(k, bits):
    with pytest.raises(UsageError, match=f"k: must be .*, not {k}"):
        default_layout(k, 10, bits)


def test_a_layout_that_does_not_guarantee_k_is_refused():
    with pytest.raises(UsageError, match=r"k: must be 0 to 3 with layout 5x2, not 4.*6x2"):
        pairs_within(np.zeros(3, dtype=np.uint64), 4, layout("5x2"))


def test_a_layout_for_other_fingerprints_is_refused():
    with pytest.raises(UsageError, match="is for 64-bit fingerprints, these have 128"):
        pairs_within(np.zeros((3, 2), dtype=np.uint64), 3, layout("5x2"))


def test_refusals_do_not_wait_for_the_first_batch():
    with pytest.raises(UsageError):
        pair_batches(np.zeros(3, dtype=np.uint64), 4, layout("5x2"))


@pytest.mark.parametrize(
    "wrong",
    [np.zeros(3, dtype=np.int64), np.zeros((3, 3), dtype=np.uint64), np.zeros((1, 3, 2), dtype=np.uint64)],
)
def test_arrays_that_are_no_fingerprints_are_refused(wrong):
    with pytest.raises(UsageError, match="must be a uint64 array"):
        pairs_within(wrong, 3)
    with pytest.raises(UsageError, match="must be a uint64 array"):
        distinct(wrong)


@pytest.mark.parametrize("bits", [64, 128])
def test_mates_and_segments_of_drawers_give_all_pairs(bits):
    rng = np.random.default_rng(7)
    values = rng.integers(0, 2**64, (300, bits // 64), dtype=np.uint64)
    values = np.concatenate([values, values[:100] ^ np.uint64(1 << 63), values[50:150] ^ np.uint64(5)])
    values = values if bits == 128 else values[:, 0]
    chosen = layout("5x2", bits)
    found = set()
    for segment in segments(values, chosen).T:
        drawers = np.unique(segment, return_inverse=True)[1].astype(np.uint32)
        for pairs in mates(values, drawers, 3):
            found |= set(zip(pairs.left.tolist(), pairs.right.tolist(), pairs.distance.tolist(), strict=True))
    expected = pairs_within(values, 3, chosen)
    assert found == set(
        zip(expected.left.tolist(), expected.right.tolist(), expected.distance.tolist(), strict=True)
    )
    assert len(found) >= 100


def test_there_are_no_mates_of_one():
    assert list(mates(np.zeros(1, np.uint64), np.zeros(1, np.uint32), 3)) == []
