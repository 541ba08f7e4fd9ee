from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhbase.bulk.dedup import groups
from simhbase.filing import Bounds, SimHashFiling
from simhbase.pairs import default_layout
from simhbase.prints import Prints

BASE = 0x0123456789ABCDEF
NONE = -1


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
    layout = default_layout(k, len(values), bits)
    found = groups(Prints.bare(as_array(values, bits)), SimHashFiling(layout, k), Bounds(k))
    assert found.representative.tolist() == components(values, k, bits)
    assert found.distance.tolist() == [
        apart(value, values[first], bits)
        for value, first in zip(values, found.representative.tolist(), strict=True)
    ]
