import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhbase.quality.intervals import estimate


def share(hits: list[bool], names: list[int] | None = None, weights: list[float] | None = None):
    return estimate(
        np.array(hits, dtype=np.bool_),
        np.array(range(len(hits)) if names is None else names, dtype=np.int64),
        np.array([1.0] * len(hits) if weights is None else weights),
    )


def test_the_interval_is_wilsons():
    found = share([True] * 8 + [False] * 2)
    # From Wilson's formula by hand, z = 1.96: (0.8 + 0.192 +- 1.96 sqrt(0.016 + 0.0096)) / 1.384
    assert (found.value, found.pairs) == (0.8, 10)
    assert (found.low, found.high) == pytest.approx((0.4902, 0.9433), abs=1e-4)


def test_where_all_are_hits_the_interval_still_has_a_width():
    found = share([True] * 20)
    assert (found.value, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(0.8389, abs=1e-4)


def test_pairs_of_one_cluster_are_one_observation():
    alone = share([True, False, True, True])
    copies = share([True] * 30 + [False] * 30 + [True] * 60, [0] * 30 + [1] * 30 + [2] * 30 + [3] * 30)
    assert (copies.value, copies.low, copies.high) == pytest.approx((alone.value, alone.low, alone.high))


def test_a_pair_counts_for_its_weight():
    assert share([True, False], weights=[3.0, 1.0]).value == 0.75


def test_there_is_no_share_of_nothing():
    assert share([]) is None


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.floats(0.1, 100)), min_size=1))
def test_an_interval_holds_its_value_and_lies_within_0_and_1(observed):
    hits, names, weights = map(list, zip(*observed, strict=True))
    found = share(hits, names, weights)
    assert 0 <= found.low <= found.value <= found.high <= 1 + 1e-12
