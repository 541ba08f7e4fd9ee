"""Large drawers of SimHash, many of whose members are near each other: n of them have n * n / 2 pairs, which
are not listed (see core/src/candidates.rs)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.join import Pairs, distances, segments_by_table
from simhbase.drawers.layout import Layout
from simhbase.process.slices import numbers_below

LARGE = 1024  # members; fewer are paired with each other
NEAR = 0.1  # share of pairs of a crowd that are near, at least: others are cheaper to list
_SAMPLED = 512  # pairs
_BUCKETS = 22  # bits


class CrowdedDrawers:
    """The crowds among n fingerprints: uint64 (n,) or (n, 2).

    drawers: positions in each, ascending. name_bits: maximum bits that name a drawer; most: by which near
    ones differ.
    """

    def __init__(self, fingerprints: NDArray[np.uint64], layout: Layout, name_bits: int, most: int) -> None:
        self.drawers: list[NDArray[np.int64]] = []
        n, tables = len(fingerprints), list[list[NDArray[np.int64]]]()
        for named in segments_by_table(fingerprints, layout, name_bits) if n > LARGE else ():
            tables.append([each for each in _large(named) if _is_crowd(fingerprints[each], most)])
            self.drawers += tables[-1]
        if not self.drawers:
            return
        members = np.unique(np.concatenate(self.drawers))
        kind = numbers_below(n)
        self._place = np.full(n, -1, dtype=kind)  # among the members
        self._place[members] = np.arange(len(members), dtype=kind)
        # The number of each member's drawer by table: 0 for none.
        self._drawer = np.zeros((len(members), len(tables)), dtype=np.int32)
        for table, crowds in enumerate(tables):
            for number, crowd in enumerate(crowds, 1):
                self._drawer[self._place[crowd], table] = number

    def without_mates(self, batches: Iterator[Pairs]) -> Iterator[Pairs]:
        """The pairs that share no crowd."""
        return (pairs.where(~self._are_mates(pairs)) for pairs in batches) if self.drawers else batches

    def _are_mates(self, pairs: Pairs) -> NDArray[np.bool_]:
        one, other = self._place[pairs.left], self._place[pairs.right]
        both = np.flatnonzero((one >= 0) & (other >= 0))
        drawers = self._drawer[one[both]]
        found = np.zeros(len(pairs.left), dtype=np.bool_)
        found[both] = ((drawers == self._drawer[other[both]]) & (drawers > 0)).any(axis=1)
        return found


def _large(named: NDArray[np.uint64]) -> Iterator[NDArray[np.int64]]:
    """The positions in each large drawer of a table, ascending. named: the drawers of n fingerprints."""
    bits = min(len(named).bit_length() + 2, _BUCKETS)
    bucket = (named & np.uint64((1 << bits) - 1)).astype(np.int32)
    candidates = np.flatnonzero((np.bincount(bucket, minlength=1 << bits) > LARGE)[bucket])
    # By one sort: there may be thousands of large drawers.
    candidates = candidates[np.argsort(named[candidates], kind="stable")]
    _, starts, sizes = np.unique(named[candidates], return_index=True, return_counts=True)
    for number in np.flatnonzero(sizes > LARGE).tolist():
        # A copy: a view would keep all candidates of this table as long as one crowd is used.
        yield candidates[starts[number] : starts[number] + sizes[number]].copy()


def _is_crowd(members: NDArray[np.uint64], most: int) -> bool:
    one, other = members[np.random.default_rng(0).integers(0, len(members), (2, _SAMPLED))]
    return bool((distances(one, other) <= most).mean() >= NEAR)
