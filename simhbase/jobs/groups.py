"""Groups of near-duplicates within one array of fingerprints: chains of near ones, or stars.

Only distinct fingerprints or texts are joined, so that a page copied a hundred thousand times costs no
more than two different ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.components import united
from simhbase.drawers.join import Distinct, Pairs, distances, distinct
from simhbase.drawers.scheme import Bounds, Distances, Scheme, identities
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.jobs.candidates import Candidates, Positions

PAIRS_AT_ONCE = 1 << 16
SKETCHES_AT_ONCE = 1 << 14
COMPARED_AT_ONCE = 1 << 12  # fewer: the answers of one batch spare many comparisons of the next


@dataclass(frozen=True)
class Groups:
    """Documents by their representatives.

    representative: int64 (n,), the representative of each (a document alone: itself); distance: (n,),
    to the representative, which in a connected component may be far; similarity: float64 (n,), to the
    representative, None where nothing tells it.
    """

    representative: NDArray[np.int64]
    distance: Distances
    similarity: NDArray[np.float64] | None = None

    @property
    def unique(self) -> NDArray[np.bool_]:
        same: NDArray[np.bool_] = self.representative == np.arange(len(self.representative))
        return same

    @cached_property
    def first(self) -> NDArray[np.int64]:
        """The first document in input order of each one's group: int64 (n,). It names the group, whoever
        stands for it."""
        return _least_of(self.representative, np.arange(len(self.representative)))

    @property
    def count(self) -> int:
        """How many groups have two documents or more."""
        return len(np.unique(self.representative[~self.unique]))


@dataclass(frozen=True)
class Exact:
    """What near documents must also be: similar, told of n texts by more than their fingerprints.

    texts: uint64 (n, 2), the same of two documents where their texts are; similarity: positions int64
    (m,) twice -> float64 (m,).
    """

    least: float
    texts: NDArray[np.uint64]
    similarity: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]]


@dataclass(frozen=True)
class _Chosen:
    rows: NDArray[Any]
    positions: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        return self.rows[self.positions[numbers]]


def chosen(rows: NDArray[Any], positions: NDArray[np.int64]) -> NDArray[Any]:
    """The rows at these positions, read when they are wanted."""
    return cast(NDArray[Any], _Chosen(rows, positions))


@dataclass(frozen=True)
class Compared:
    """n documents, and what is near among them: what their fingerprints find within the bounds, and is
    similar where that is told exactly."""

    fingerprints: FingerprintBatch
    scheme: Scheme
    bounds: Bounds
    exact: Exact | None = None

    def distinct(self, documents: NDArray[np.int64]) -> Distinct:
        """Those of m documents that are to be compared: of the same ones the first."""
        # Of one fingerprint there are different texts, which tell more of their similarity.
        if self.exact is not None:
            return distinct(chosen(self.exact.texts, documents))
        return self._distinct_fingerprints(documents)

    def candidates(self, documents: NDArray[np.int64]) -> Candidates:
        """Which of m different documents the fingerprints find near which."""
        if self.exact is None:
            return Candidates.of(np.arange(len(documents)), self._pairs(documents))
        found = self._distinct_fingerprints(documents)
        documents, fingerprint = documents[found.first], found.inverse
        del found  # there may be millions
        return Candidates.of(fingerprint, self._pairs(documents))

    def near_pairs(self, documents: NDArray[np.int64]) -> Iterator[Positions]:
        """Pairs of positions among m different documents that the fingerprints find: each once but in no
        order, in batches of bounded size."""
        if self.exact is None:
            return ((pairs.left, pairs.right) for pairs in self._pairs(documents))
        candidates = self.candidates(documents)
        return (candidates.behind(left) for left in candidates.batches(COMPARED_AT_ONCE))

    def similarity(
        self, documents: NDArray[np.int64], left: NDArray[np.int64], right: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Of the pairs of positions in `documents` (m,), counted exactly; 1 where nobody asks for it."""
        if self.exact is None:
            return np.ones(len(left))
        return self.exact.similarity(documents[left], documents[right])

    @property
    def least(self) -> float:
        """The similarity from which candidates are near."""
        return 0.0 if self.exact is None else self.exact.least

    def _pairs(self, documents: NDArray[np.int64]) -> Iterator[Pairs]:
        return self.scheme.pairs(self._chosen(documents), self.bounds)

    def _chosen(self, documents: NDArray[np.int64]) -> FingerprintBatch:
        values, sketches = self.fingerprints.values[documents], self.fingerprints.sketches
        return FingerprintBatch(values, chosen(sketches, documents))

    def _distinct_fingerprints(self, documents: NDArray[np.int64]) -> Distinct:
        named = self._chosen(documents)
        is_hash_of_sketch = self.scheme.listed_sketching is not None
        if self.bounds.mismatches is None or is_hash_of_sketch or self.scheme.sketching is None:
            return distinct(named.values)
        starts = range(0, len(named) or 1, SKETCHES_AT_ONCE)
        parts = (np.arange(start, min(start + SKETCHES_AT_ONCE, len(named))) for start in starts)
        return distinct(np.concatenate([identities(named[part], self.scheme.sketching) for part in parts]))

    def grouped(
        self, representative: NDArray[np.int64], similarity: NDArray[np.float64] | None = None
    ) -> Groups:
        """Groups with what is known of each document and its representative. similarity: float64 (n,),
        where that has been counted exactly."""
        sketching = self.scheme.sketching
        others = np.flatnonzero(representative != np.arange(len(representative)))
        of_others = representative[others]
        far: Distances = distances(self.fingerprints.values, others, of_others)
        alike = None
        if sketching is not None:
            sketches = self.fingerprints.sketches
            mismatches = sketching.mismatches_among(sketches, others, sketches, of_others)
            far = self.scheme.distances(far, mismatches)
            alike = sketching.similarity(mismatches)
        if self.exact is not None and similarity is not None:
            alike = similarity[others]
        elif self.exact is not None:
            alike = np.ones(len(others))
            different = (self.exact.texts[others] != self.exact.texts[of_others]).any(axis=1)
            alike[different] = self.exact.similarity(others[different], of_others[different])
        distance: Distances = np.zeros(len(representative), dtype=far.dtype)
        distance[others] = far
        if alike is None:
            return Groups(representative, distance)
        similarity = np.ones(len(representative))
        similarity[others] = alike
        return Groups(representative, distance, similarity)


def groups(compared: Compared, order: NDArray[np.int64] | None = None) -> Groups:
    """Groups documents joined by chains of near pairs: connected components. Those of the same
    fingerprint are equal; where similarity is asked for, those of the same text or sketch are.

    order: int64 (n,), the documents from the one that is a representative first to the one that is so
    last; None for input order. It does not change who is in a group. Documents added behind others only
    ever merge groups, so that the first of each keeps naming it or yields to an earlier one.
    """
    values = compared.distinct(np.arange(len(compared.fingerprints)))
    root = np.arange(len(values.first))
    for left, right in compared.near_pairs(values.first):
        apart = root[left] != root[right]
        left, right = left[apart], right[apart]
        near = compared.similarity(values.first, left, right) >= compared.least
        root = united(root, left[near], right[near])
    representative = values.first[root[values.inverse]]
    if order is not None:
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        representative = order[_least_of(representative, rank)]
    return compared.grouped(representative)


def stars(compared: Compared, order: NDArray[np.int64] | None = None) -> Groups:
    """Groups documents around representatives: each matches its own. The first in `order` (see
    `groups`) that is not yet in a group leads the next, with all that are near it and in none.

    In input order documents added behind others change nothing for these. In another one that leads
    takes those near it out of their groups. Takes 8 bytes for each near pair of different fingerprints
    (16 where texts are compared), and as many again while they are gathered.
    """
    values = compared.distinct(np.arange(len(compared.fingerprints)) if order is None else order)
    documents = values.first if order is None else order[values.first]
    leader, similarity = _led(compared, documents)
    representative, similarity = documents[leader][values.inverse], similarity[values.inverse]
    del values, documents, leader
    if order is not None:
        place = np.argsort(order)
        representative, similarity = representative[place], similarity[place]
    return compared.grouped(representative, similarity)


def _led(compared: Compared, documents: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The position of each one's leader among m different documents, and the similarity to it."""
    candidates = compared.candidates(documents)
    batches = candidates.batches(PAIRS_AT_ONCE if compared.exact is None else COMPARED_AT_ONCE)
    leader, similarity = np.arange(len(documents)), np.ones(len(documents))
    for batch in batches:
        left, right = candidates.behind(batch[leader[batch] == batch])
        free = leader[right] == right
        left, right = left[free], right[free]
        found = compared.similarity(documents, left, right)
        near = found >= compared.least
        left, right, found = left[near], right[near], found[near]
        _take(leader, left, right)
        taken = leader[right] == left
        similarity[right[taken]] = found[taken]
    return leader, similarity


def _least_of(group: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The least value in the group of each document: groups 0 .. n - 1 and values int64 (n,)."""
    least = np.full(len(group), np.iinfo(np.int64).max)
    np.minimum.at(least, group, values)
    return least[group]


def _take(leader: NDArray[np.int64], left: NDArray[np.int64], right: NDArray[np.int64]) -> None:
    """Notes in `leader` who takes each: in the order of the pairs, left takes right if both are free.

    One after the other, since each step needs the one before: in a long chain no two could be taken
    at once.
    """
    one_by_one = leader.data  # several times faster than an array to read and write single items
    for one, other in zip(left.tolist(), right.tolist(), strict=True):
        if one_by_one[one] == one and one_by_one[other] == other:
            one_by_one[other] = one
