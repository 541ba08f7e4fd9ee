"""Near duplicates within one array of fingerprints: groups, or greedy selection in input order.

Both join distinct fingerprints only, so that a page copied a hundred thousand times costs no more
than two different ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simhbase.layout import Layout
from simhbase.pairs import Distinct, Pairs, distances, distinct, pair_batches, pairs_within

NONE = -1
_NEVER = np.iinfo(np.int64).max  # later than any document


@dataclass(frozen=True, slots=True)
class Groups:
    """Connected components of documents within k bits of each other.

    representative: int64 (n,), the group's first document in input order (a document alone: itself);
    distance: uint8 (n,), to the representative. In a chain of near texts it may exceed k.
    """

    representative: NDArray[np.int64]
    distance: NDArray[np.uint8]

    @property
    def unique(self) -> NDArray[np.bool_]:
        """Which documents are representatives: bool (n,)."""
        return _is_itself(self.representative)

    @property
    def count(self) -> int:
        """How many groups have two documents or more."""
        return len(np.unique(self.representative[~self.unique]))


@dataclass(frozen=True, slots=True)
class Selection:
    """What greedy selection kept.

    keeper: int64 (n,), the document itself where it was kept; else the nearest one kept before it,
    the earlier of two as near; NONE (-1) for an excluded document without one;
    distance: uint8 (n,), to the keeper; 0 where there is none.
    """

    keeper: NDArray[np.int64]
    distance: NDArray[np.uint8]

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which documents were kept: bool (n,)."""
        return _is_itself(self.keeper)


def groups(fingerprints: NDArray[np.uint64], k: int, layout: Layout | None = None) -> Groups:
    """Groups documents joined by chains of pairs within k: uint64 (n,) or (n, 2).

    Raises UsageError as `pairs_within` does.
    """
    values = distinct(fingerprints)
    root = np.arange(len(values.values))
    for pairs in pair_batches(values.values, k, layout):
        root = _united(root, pairs)
    representative = values.first[root[values.inverse]]
    everyone = np.arange(len(fingerprints))
    return Groups(representative, distances(fingerprints, everyone, representative))


def greedy_keep(
    fingerprints: NDArray[np.uint64],
    k: int,
    layout: Layout | None = None,
    excluded: NDArray[np.bool_] | None = None,
) -> Selection:
    """Keeps a document if none that was kept before it is within k: uint64 (n,) or (n, 2).

    excluded: bool (n,), documents that are known to be duplicates of something else. They are not
    kept, and nothing is dropped because of them.
    Raises UsageError as `pairs_within` does.
    """
    values = distinct(fingerprints)
    candidate = _first_candidates(values, excluded)
    near = _both_ways(pairs_within(values.values, k, layout))
    kept_at = np.where(_kept(candidate, near), candidate, _NEVER)
    return _nearest_kept(values.inverse, kept_at, near)


def _is_itself(reference: NDArray[np.int64]) -> NDArray[np.bool_]:
    same: NDArray[np.bool_] = reference == np.arange(len(reference))
    return same


def _united(root: NDArray[np.int64], pairs: Pairs) -> NDArray[np.int64]:
    """Joins sets, each of which is named by its least member: root int64 (n,) says by which.

    Each round hangs the larger root of every pair under the least it meets, then shortens the
    paths until all members point at their root again (the vectorised form of union-find: Shiloach
    and Vishkin, An O(log n) parallel connectivity algorithm, 1982).
    """
    left, right = root[pairs.left], root[pairs.right]
    while len(apart := np.flatnonzero(left != right)):
        left, right = left[apart], right[apart]
        root = root.copy()
        np.minimum.at(root, np.maximum(left, right), np.minimum(left, right))
        while not np.array_equal(root, shorter := root[root]):
            root = shorter
        left, right = root[left], root[right]
    return root


def _first_candidates(values: Distinct, excluded: NDArray[np.bool_] | None) -> NDArray[np.int64]:
    """The first document of each value that may be kept, or _NEVER: int64 (m,)."""
    if excluded is None:
        return values.first
    documents = np.flatnonzero(~excluded)
    candidate = np.full(len(values.first), _NEVER)
    np.minimum.at(candidate, values.inverse[documents], documents)
    return candidate


def _both_ways(pairs: Pairs) -> Pairs:
    """Each pair as left to right and as right to left, sorted by left."""
    left = np.concatenate([pairs.left, pairs.right])
    right = np.concatenate([pairs.right, pairs.left])
    distance = np.concatenate([pairs.distance, pairs.distance])
    order = np.argsort(left, kind="stable")
    return Pairs(left[order], right[order], distance[order])


def _kept(candidate: NDArray[np.int64], near: Pairs) -> NDArray[np.bool_]:
    """Which values are kept: bool (m,). `near` holds each pair both ways, sorted by left."""
    kept: NDArray[np.bool_] = candidate != _NEVER
    values, starts = np.unique(near.left, return_index=True)
    ends = np.append(starts[1:], len(near.left))
    in_turn = np.argsort(candidate[values])
    for value, start, end in zip(values[in_turn], starts[in_turn], ends[in_turn], strict=True):
        if kept[value]:  # then none of its neighbours was kept before it
            kept[near.right[start:end]] = False
    return kept


def _nearest_kept(inverse: NDArray[np.int64], kept_at: NDArray[np.int64], near: Pairs) -> Selection:
    """For every document the nearest one kept up to it, from the documents kept of each value."""
    kept = np.flatnonzero(kept_at != _NEVER)
    near_kept = np.flatnonzero(kept_at[near.right] != _NEVER)
    value = np.concatenate([kept, near.left[near_kept]])
    keeper = kept_at[np.concatenate([kept, near.right[near_kept]])]
    distance = np.concatenate([np.zeros(len(kept), np.uint8), near.distance[near_kept]])
    order = np.lexsort((keeper, distance, value))
    value, keeper, distance = value[order], keeper[order], distance[order]

    selection = Selection(np.full(len(inverse), NONE), np.zeros(len(inverse), np.uint8))
    choices = np.searchsorted(value, np.arange(len(kept_at) + 1))
    choice, end = choices[inverse], choices[inverse + 1]
    undecided = np.arange(len(inverse))
    while len(undecided := undecided[choice[undecided] < end[undecided]]):
        chosen = choice[undecided]
        in_time = keeper[chosen] <= undecided
        selection.keeper[undecided[in_time]] = keeper[chosen[in_time]]
        selection.distance[undecided[in_time]] = distance[chosen[in_time]]
        undecided = undecided[~in_time]
        choice[undecided] += 1
    return selection
