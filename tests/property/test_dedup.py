from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhbase.drawers import crowds
from simhbase.drawers.groups import ExactSimilarity, Groups, Matcher, groups, stars
from simhbase.drawers.join import Pairs, default_layout
from simhbase.drawers.scheme import Bounds, SimHashScheme
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.process.progress import no_progress

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


large_drawers = st.sampled_from([crowds.LARGE, 1])


@pytest.mark.parametrize("bits", [64, 128])
@given(values=shuffled_values(), k=st.integers(0, 4), large=large_drawers)
def test_groups_are_the_connected_components_named_by_their_first_document(bits, values, k, large):
    layout = default_layout(k, len(values), bits)
    with patch.multiple(crowds, LARGE=large, NEAR=0):
        found = groups(
            Matcher(FingerprintBatch.bare(as_array(values, bits)), SimHashScheme(layout, k), Bounds(k))
        )
    assert found.representative.tolist() == components(values, k, bits)
    assert found.distance.tolist() == [
        apart(value, values[first], bits)
        for value, first in zip(values, found.representative.tolist(), strict=True)
    ]


@dataclass(frozen=True, slots=True)
class OnePairAtATime(SimHashScheme):
    """Finds the same pairs in as many batches, the last one first."""

    def pairs(
        self, fingerprints: FingerprintBatch, bounds: Bounds, progress=no_progress, crowds=None
    ) -> Iterator[Pairs]:
        for batch in SimHashScheme.pairs(self, fingerprints, bounds, crowds=crowds):
            for place in reversed(range(len(batch.left))):
                yield batch.where(np.arange(len(batch.left)) == place)


def grouped(grouping, values: list[int], k: int, order=None, kind=SimHashScheme, exact=None) -> Groups:
    order = None if order is None else np.array(order, dtype=np.int64)
    scheme = kind(default_layout(k, len(values)), k)
    return grouping(Matcher(FingerprintBatch.bare(as_array(values, 64)), scheme, Bounds(k), exact), order)


def ordered_values():
    """Values, and their positions in an order of preference."""
    return shuffled_values().flatmap(
        lambda values: st.tuples(st.just(values), st.permutations(range(len(values))))
    )


def stars_one_by_one(values: list[int], k: int, order: list[int]) -> list[int]:
    representative: list[int] = [NONE] * len(values)
    for leader in order:
        if representative[leader] == NONE:
            for other, value in enumerate(values):
                if representative[other] == NONE and apart(value, values[leader], 64) <= k:
                    representative[other] = leader
    return representative


@given(ordered=ordered_values(), k=st.integers(0, 4))
def test_the_most_preferred_of_a_chain_stands_for_it(ordered, k):
    values, order = ordered
    chains = components(values, k, 64)
    best = {chains[document]: document for document in reversed(order)}
    found = grouped(groups, values, k, order)
    assert found.representative.tolist() == [best[chain] for chain in chains]
    assert found.first.tolist() == chains


@given(ordered=ordered_values(), k=st.integers(0, 4), large=large_drawers)
def test_the_best_document_left_leads_all_that_are_near_it_and_left(ordered, k, large):
    values, order = ordered
    with patch.multiple(crowds, LARGE=large, NEAR=0):
        found = grouped(stars, values, k, order)
    assert found.representative.tolist() == stars_one_by_one(values, k, order)
    assert found.distance.max() <= k


@pytest.mark.parametrize("grouping", [groups, stars])
@given(ordered=ordered_values(), k=st.integers(0, 4))
def test_each_group_has_one_representative_and_the_name_of_its_first_document(grouping, ordered, k):
    values, order = ordered
    found = grouped(grouping, values, k, order)
    for representative in set(found.representative.tolist()):
        members = np.flatnonzero(found.representative == representative)
        assert representative in members
        assert set(found.first[members].tolist()) == {members[0]}


@pytest.mark.parametrize("grouping", [groups, stars])
@given(ordered=ordered_values(), k=st.integers(0, 4))
def test_groups_do_not_depend_on_the_batches_that_pairs_come_in(grouping, ordered, k):
    values, order = ordered
    one, other = (grouped(grouping, values, k, order, kind) for kind in (SimHashScheme, OnePairAtATime))
    assert one.representative.tolist() == other.representative.tolist()


@given(ordered=ordered_values(), k=st.integers(0, 4), data=st.data())
def test_added_documents_only_merge_groups_and_the_earliest_name_stays(ordered, k, data):
    values, order = ordered
    n = data.draw(st.integers(1, len(values)))
    before = grouped(groups, values[:n], k).first
    after = grouped(groups, values, k, order).first[:n]
    for name in np.unique(after):
        merged = before[after == name]
        assert name == merged.min()
        assert np.isin(before, merged).sum() == len(merged)


@given(values=shuffled_values(), k=st.integers(0, 4), data=st.data())
def test_added_documents_change_nothing_for_those_near_the_first_of_their_group(values, k, data):
    n = data.draw(st.integers(1, len(values)))
    after = grouped(stars, values, k).representative[:n]
    assert grouped(stars, values[:n], k).representative.tolist() == after.tolist()


def kinds_of(values: list[int]):
    """Of each value a kind: documents of one kind are similar, as those of one text are."""
    return st.lists(st.integers(0, 2), min_size=len(values), max_size=len(values)).map(np.array)


def exact_of(values: list[int], kinds) -> ExactSimilarity:
    texts = np.stack([np.array(values, dtype=np.uint64), kinds.astype(np.uint64)], axis=1)
    return ExactSimilarity(0.5, texts, lambda left, right: (kinds[left] == kinds[right]).astype(np.float64))


@pytest.mark.parametrize("kind", [SimHashScheme, OnePairAtATime])
@given(values=shuffled_values(), k=st.integers(0, 4), data=st.data())
def test_chains_of_similar_documents_are_groups_whatever_else_has_their_fingerprints(kind, values, k, data):
    kinds = data.draw(kinds_of(values))
    expected = [NONE] * len(values)
    for each in set(kinds.tolist()):
        (chosen,) = np.nonzero(kinds == each)
        inside = components([values[place] for place in chosen], k, 64)
        for place, first in zip(chosen, inside, strict=True):
            expected[place] = chosen[first]
    found = grouped(groups, values, k, kind=kind, exact=exact_of(values, kinds))
    assert found.representative.tolist() == expected


@given(ordered=ordered_values(), k=st.integers(0, 4), data=st.data())
def test_the_best_document_left_leads_all_that_are_similar_to_it_and_left(ordered, k, data):
    values, order = ordered
    kinds = data.draw(kinds_of(values))
    found = grouped(stars, values, k, order, exact=exact_of(values, kinds))
    representative = np.full(len(values), NONE)
    for leader in order:
        for other, value in enumerate(values):
            near = apart(value, values[leader], 64) <= k and kinds[other] == kinds[leader]
            if representative[leader] in (NONE, leader) and representative[other] == NONE and near:
                representative[other] = leader
    assert found.representative.tolist() == representative.tolist()
    assert (found.similarity == 1).all()


def similarities_of(data, values: list[int], kinds, *, both_ways: bool = True):
    """A similarity for each two texts, which says nothing of a third one's: 1 for equal ones."""
    texts = list(zip(values, kinds.tolist(), strict=True))
    names = sorted(set(texts))
    drawn = data.draw(
        st.lists(st.sampled_from([0.2, 0.5, 0.9]), min_size=len(names) ** 2, max_size=len(names) ** 2)
    )
    matrix = np.array(drawn).reshape(len(names), len(names))
    if both_ways:
        matrix = np.minimum(matrix, matrix.T)
    np.fill_diagonal(matrix, 1)
    numbers = np.array([names.index(text) for text in texts])
    return matrix[np.ix_(numbers, numbers)]


@pytest.mark.parametrize("at_once", [1, 7, 1 << 12])
@given(ordered=ordered_values(), k=st.integers(0, 4), data=st.data())
def test_every_member_is_as_near_and_as_similar_to_its_representative_as_asked_for(at_once, ordered, k, data):
    values, order = ordered
    kinds = data.draw(kinds_of(values))
    matrix = similarities_of(data, values, kinds)
    exact = replace(exact_of(values, kinds), similarity=lambda left, right: matrix[left, right])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("simhbase.drawers.groups.PAIRS_AT_ONCE", at_once)
        patch.setattr("simhbase.drawers.crowds.LARGE", data.draw(large_drawers))
        patch.setattr("simhbase.drawers.crowds.NEAR", 0)
        found = grouped(stars, values, k, order, exact=exact)
    everyone = np.arange(len(values))
    assert found.distance.max() <= k
    assert (matrix[everyone, found.representative] >= exact.least).all()
    assert found.similarity.tolist() == matrix[everyone, found.representative].tolist()
    assert found.representative.tolist() == verified_stars(values, k, order, matrix >= exact.least)
    for text in set(zip(values, kinds.tolist(), strict=True)):
        same = [place for place in everyone if (values[place], kinds[place]) == text]
        assert len(set(found.representative[same].tolist())) == 1


@pytest.mark.parametrize("at_once", [1, 7, 1 << 12])
@given(ordered=ordered_values(), k=st.integers(0, 4), data=st.data())
def test_what_the_best_document_does_not_contain_stays_and_may_lead(at_once, ordered, k, data):
    values, order = ordered
    kinds = data.draw(kinds_of(values))
    matrix = similarities_of(data, values, kinds)
    contained = similarities_of(data, values, kinds, both_ways=False)
    exact = replace(
        exact_of(values, kinds),
        similarity=lambda left, right: matrix[left, right],
        contains=lambda kept, removed: contained[kept, removed] >= 0.5,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("simhbase.drawers.groups.PAIRS_AT_ONCE", at_once)
        found = grouped(stars, values, k, order, exact=exact)
    similar = matrix >= exact.least
    expected = verified_stars(values, k, order, similar & (contained >= 0.5))
    assert found.representative.tolist() == expected
    names, rank = list(zip(values, kinds.tolist(), strict=True)), np.argsort(order)
    left_out = {
        names[document]
        for document in order
        for leader in set(expected)
        if expected[document] == document
        and rank[leader] < rank[document]
        and similar[leader, document]
        and apart(values[leader], values[document], 64) <= k
    }
    assert np.count_nonzero(found.apart & found.unique) == len(left_out)


def verified_stars(values: list[int], k: int, order: list[int], similar) -> list[int]:
    representative = [NONE] * len(values)
    for leader in order:
        if representative[leader] != NONE:
            continue
        for other, value in enumerate(values):
            near = apart(value, values[leader], 64) <= k and similar[leader, other]
            if representative[other] == NONE and near:
                representative[other] = leader
    return representative


@given(values=shuffled_values(), k=st.integers(0, 4), data=st.data())
def test_chains_join_what_is_near_and_similar_however_many_are_compared_at_once(values, k, data):
    kinds = data.draw(kinds_of(values))
    matrix = similarities_of(data, values, kinds)
    exact = replace(exact_of(values, kinds), similarity=lambda left, right: matrix[left, right])
    found = []
    for at_once in (1, 7, 1 << 12):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("simhbase.drawers.groups.PAIRS_AT_ONCE", at_once)
            found.append(grouped(groups, values, k, exact=exact).representative.tolist())
    near = [[apart(one, other, 64) <= k for other in values] for one in values]
    linked = np.array(near) & (matrix >= exact.least)
    reached = np.linalg.matrix_power(linked.astype(object), len(values)) > 0
    assert found == [np.argmax(reached, axis=1).tolist()] * 3
