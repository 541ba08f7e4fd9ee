"""Groups of near duplicates within one array of fingerprints: chains of near ones, or stars.

Only distinct fingerprints are joined, so that a page copied a hundred thousand times costs no more
than two different ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simhbase.filing import Bounds, Distances, Filing
from simhbase.pairs import Pairs, distances, distinct, united
from simhbase.prints import Prints

PAIRS_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class Groups:
    """Documents that one of them stands for.

    representative: int64 (n,), the one that stands for each (a document alone: itself); distance: (n,),
    to the representative, which in a chain of near texts may be far; similarity: float64 (n,), to the
    representative, None where nothing tells it.
    """

    representative: NDArray[np.int64]
    distance: Distances
    similarity: NDArray[np.float64] | None = None

    @property
    def unique(self) -> NDArray[np.bool_]:
        """Which documents are representatives: bool (n,)."""
        same: NDArray[np.bool_] = self.representative == np.arange(len(self.representative))
        return same

    @property
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
    """What near documents must also be: similar, told of pairs of documents by more than their prints.

    similarity: positions int64 (m,) twice -> float64 (m,).
    """

    least: float
    similarity: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]]


def groups(
    prints: Prints,
    filing: Filing,
    bounds: Bounds,
    exact: Exact | None = None,
    order: NDArray[np.int64] | None = None,
) -> Groups:
    """Groups documents joined by chains of near pairs: connected components. Those of the same
    fingerprint are equal, and the first of them is compared with others.

    order: int64 (n,), the documents from the one that stands for others first to the one that does so
    last; None for input order. It does not change who is in a group. Documents added behind others only
    ever merge groups, so that the first of each keeps naming it or yields to an earlier one.
    """
    values = distinct(prints.values)
    root = np.arange(len(values.values))
    for pairs in _near_pairs(prints, values.first, filing, bounds, exact):
        root = united(root, pairs.left, pairs.right)
    representative = values.first[root[values.inverse]]
    if order is not None:
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        representative = order[_least_of(representative, rank)]
    similarity = None
    if exact is not None:
        similarity = _exactly(np.arange(len(prints)), representative, exact)
    return _grouped(prints, filing, representative, similarity)


def stars(
    prints: Prints,
    filing: Filing,
    bounds: Bounds,
    exact: Exact | None = None,
    order: NDArray[np.int64] | None = None,
) -> Groups:
    """Groups documents around those that stand for them: each is near its own. The first in `order` (see
    `groups`) that is not yet in a group leads the next, with all that are near it and in none.

    In input order documents added behind others change nothing for these. In another one that leads
    takes those near it out of their groups. Takes 8 bytes for each near pair of different fingerprints,
    and as many again while they are gathered.
    """
    representative = np.arange(len(prints))
    rest = representative.copy() if order is None else order
    if exact is None:
        representative[rest] = _leaders(rest, prints, filing, bounds, exact)
        return _grouped(prints, filing, representative, None)
    similarity = np.ones(len(prints))
    while len(rest):  # texts of one fingerprint need not be similar: those that are not try again
        representative[rest] = _leaders(rest, prints, filing, bounds, exact)
        similarity[rest] = _exactly(rest, representative[rest], exact)
        rest = rest[similarity[rest] < exact.least]
    return _grouped(prints, filing, representative, similarity)


def _grouped(
    prints: Prints,
    filing: Filing,
    representative: NDArray[np.int64],
    exactly: NDArray[np.float64] | None,
) -> Groups:
    """Groups with what is known of each document and its representative."""
    everyone = np.arange(len(prints))
    distance: Distances = distances(prints.values, everyone, representative)
    similarity = None
    if filing.form is not None:
        unequal = filing.form.unequal_among(prints.sketches, everyone, prints.sketches, representative)
        distance, similarity = filing.distances(distance, unequal), filing.form.similarity(unequal)
    return Groups(representative, distance, similarity if exactly is None else exactly)


def _near_pairs(
    prints: Prints, documents: NDArray[np.int64], filing: Filing, bounds: Bounds, exact: Exact | None
) -> Iterator[Pairs]:
    """Pairs of positions in `documents` (m,) of those that are near."""
    for pairs in filing.pairs(prints[documents], bounds):
        if exact is None:
            yield pairs
        else:
            similarity = exact.similarity(documents[pairs.left], documents[pairs.right])
            yield pairs.where(similarity >= exact.least)


def _exactly(
    documents: NDArray[np.int64], representative: NDArray[np.int64], exact: Exact
) -> NDArray[np.float64]:
    """The similarity of each of m documents to its representative."""
    similarity = np.ones(len(documents))
    others = np.flatnonzero(representative != documents)
    similarity[others] = exact.similarity(documents[others], representative[others])
    return similarity


def _least_of(group: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The least value in the group of each document: groups 0 .. n - 1 and values int64 (n,)."""
    least = np.full(len(group), np.iinfo(np.int64).max)
    np.minimum.at(least, group, values)
    return least[group]


def _leaders(
    order: NDArray[np.int64], prints: Prints, filing: Filing, bounds: Bounds, exact: Exact | None
) -> NDArray[np.int64]:
    """Who leads each of the documents of `order` (m,), which comes first where several could."""
    values = distinct(prints.values[order])
    documents = order[values.first]
    none = np.empty(0, dtype=np.uint64)
    near = _near_pairs(prints, documents, filing, bounds, exact)
    keys = np.concatenate([none, *map(_keys, near)])
    keys.sort()
    leader = _first_free(len(documents), keys)
    return documents[leader[values.inverse]]


def _keys(pairs: Pairs) -> NDArray[np.uint64]:
    """Both positions of each pair in one integer, which sorts by left, then right."""
    return pairs.left.astype(np.uint64) << np.uint64(32) | pairs.right.astype(np.uint64)


def _first_free(n: int, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """For each of n who takes it: in the order of sorted keys, left takes right if both are free.

    One after the other, since each step needs the one before: in a long chain no two could be taken
    at once.
    """
    leader = np.arange(n)
    one_by_one = leader.data  # several times faster than an array to read and write single items
    for start in range(0, len(keys), PAIRS_AT_ONCE):
        lot = keys[start : start + PAIRS_AT_ONCE]
        left, right = (lot >> np.uint64(32)).astype(np.int64), (lot & np.uint64(2**32 - 1)).astype(np.int64)
        free = (leader[left] == left) & (leader[right] == right)
        for one, other in zip(left[free].tolist(), right[free].tolist(), strict=True):
            if one_by_one[one] == one and one_by_one[other] == other:
                one_by_one[other] = one
    return leader
