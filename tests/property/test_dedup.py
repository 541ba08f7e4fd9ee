from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhbase.bulk.dedup import NONE, greedy_keep, groups

BASE = 0x0123456789ABCDEF


def near_values():
    """Values along a walk of single bits: chains, copies and pairs at every small distance."""
    flips = st.lists(st.integers(0, 7), max_size=30)
    return flips.map(walk)


def walk(flips: list[int]) -> list[int]:
    values = [BASE]
    for flip in flips:
        values.append(values[-1] ^ (1 << flip * 9))
    return values


def shuffled_values():
    return near_values().flatmap(st.permutations)


def as_array(values: list[int], bits: int):
    if bits == 64:
        return np.array(values, dtype=np.uint64)
    return np.array([(value, ~value & (2**64 - 1)) for value in values], dtype=np.uint64)


def apart(a: int, b: int, bits: int) -> int:
    return (a ^ b).bit_count() * bits // 64


def components(values: list[int], k: int, bits: int) -> list[int]:
    representative: list[int] = [NONE] * len(values)
    for start in range(len(values)):
        reached = [start] if representative[start] == NONE else []
        while reached:
            member = reached.pop()
            representative[member] = start
            reached += [
                other
                for other, value in enumerate(values)
                if representative[other] == NONE
                and other not in reached
                and apart(value, values[member], bits) <= k
            ]
    return representative


@pytest.mark.parametrize("bits", [64, 128])
@given(values=shuffled_values(), k=st.integers(0, 4))
def test_groups_are_the_connected_components_named_by_their_first_document(bits, values, k):
    found = groups(as_array(values, bits), k)
    assert found.representative.tolist() == components(values, k, bits)
    assert found.distance.tolist() == [
        apart(value, values[first], bits)
        for value, first in zip(values, found.representative.tolist(), strict=True)
    ]


def greedily(values: list[int], k: int, excluded: list[bool]) -> list[tuple[int, int]]:
    kept: list[int] = []
    outcome = []
    for i, value in enumerate(values):
        near = [((value ^ values[j]).bit_count(), j) for j in kept]
        near = [choice for choice in near if choice[0] <= k]
        if not near and not excluded[i]:
            kept.append(i)
            near = [(0, i)]
        distance, keeper = min(near, default=(0, NONE))
        outcome.append((keeper, distance))
    return outcome


@given(data=st.data(), values=shuffled_values(), k=st.integers(0, 4))
def test_greedy_selection_is_that_of_one_document_after_the_other(data, values, k):
    n = len(values)
    excluded = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    found = greedy_keep(as_array(values, 64), k, excluded=np.array(excluded))
    assert list(zip(found.keeper.tolist(), found.distance.tolist(), strict=True)) == greedily(
        values, k, excluded
    )
    assert found.kept.tolist() == [keeper == i for i, keeper in enumerate(found.keeper.tolist())]


@given(values=shuffled_values(), k=st.integers(0, 4))
def test_greedy_selection_excludes_nobody_by_default(values, k):
    found = greedy_keep(as_array(values, 64), k)
    assert list(zip(found.keeper.tolist(), found.distance.tolist(), strict=True)) == greedily(
        values, k, [False] * len(values)
    )
