from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from simhbase.bulk.dedup import NONE, greedy_keep, groups
from simhbase.errors import UsageError
from simhbase.layout import layout


def chain(length):
    """Values one bit from the next, the ends `length` bits apart."""
    return np.array([(1 << i) - 1 for i in range(length + 1)], dtype=np.uint64)


def test_a_chain_is_one_group_whose_far_end_exceeds_k():
    found = groups(chain(10), 1)
    assert found.representative.tolist() == [0] * 11
    assert found.distance.tolist() == list(range(11))
    assert (found.unique.sum(), found.count) == (1, 1)


def test_a_long_chain_in_any_order_is_one_group_named_by_its_first():
    gray = np.arange(1 << 14, dtype=np.uint64)
    gray ^= gray >> np.uint64(1)  # neighbours differ in one bit
    values = np.random.default_rng(3).permutation(gray << np.uint64(20))
    assert set(groups(values, 1).representative.tolist()) == {0}


def test_documents_alone_are_their_own_representatives_and_no_group():
    found = groups(np.array([0, 0xFFFF, 0xFFFF0000], dtype=np.uint64), 3)
    assert found.representative.tolist() == [0, 1, 2]
    assert (found.unique.tolist(), found.count) == ([True] * 3, 0)


def test_groups_are_counted_where_they_have_two_documents_or_more():
    found = groups(np.array([0, 1, 0xFFFF, 0xFFFE, 0xFFFF0000], dtype=np.uint64), 3)
    assert found.count == 2
    assert found.unique.sum() == 3


def test_greedy_keeps_the_far_end_of_a_chain():
    found = greedy_keep(chain(6), 2)
    assert found.kept.tolist() == [True, False, False, True, False, False, True]
    assert found.keeper.tolist() == [0, 0, 0, 3, 3, 3, 6]
    assert found.distance.tolist() == [0, 1, 2, 0, 1, 2, 0]


def test_greedy_names_the_earlier_of_two_as_near():
    found = greedy_keep(np.array([0b11000, 0b00011, 0b01010], dtype=np.uint64), 2)
    assert found.keeper.tolist() == [0, 1, 0]


def test_greedy_prefers_a_nearer_keeper_only_once_it_is_kept():
    """The last copy of 0b0111 is nearer to 0b1111, kept between the two copies."""
    values = np.array([0b0001, 0b0111, 0b1111, 0b0111], dtype=np.uint64)
    found = greedy_keep(values, 2)
    assert found.keeper.tolist() == [0, 0, 2, 2]
    assert found.distance.tolist() == [0, 2, 0, 1]


def test_an_excluded_document_is_not_kept_and_drops_nobody():
    values = np.array([0, 1, 1, 0xFF00], dtype=np.uint64)
    found = greedy_keep(values, 1, excluded=np.array([True, False, False, True]))
    assert found.keeper.tolist() == [NONE, 1, 1, NONE]
    assert found.kept.tolist() == [False, True, False, False]


def test_an_excluded_document_still_learns_the_nearest_kept_before_it():
    values = np.array([0, 1], dtype=np.uint64)
    found = greedy_keep(values, 1, excluded=np.array([False, True]))
    assert (found.keeper.tolist(), found.distance.tolist()) == ([0, 0], [0, 1])


@pytest.mark.parametrize("select", [groups, greedy_keep])
def test_a_page_copied_a_hundred_thousand_times_costs_no_more_than_its_documents(select):
    values = np.full(100_000, 0xABCD, dtype=np.uint64)
    values[7] = 0xABCC
    tracemalloc.start()
    select(values, 3)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200 * len(values)


@pytest.mark.parametrize("select", [groups, greedy_keep])
def test_no_documents_give_empty_answers(select):
    found = select(np.empty(0, dtype=np.uint64), 3)
    assert len(found.distance) == 0


@pytest.mark.parametrize("select", [groups, greedy_keep])
def test_a_layout_that_does_not_guarantee_k_is_refused(select):
    with pytest.raises(UsageError, match="within 3 bits"):
        select(np.zeros(3, dtype=np.uint64), 4, layout("5x2"))
