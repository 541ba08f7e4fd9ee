"""Exact similarity join: all pairs of sets with at least a Jaccard similarity, without comparing all pairs.

Two sets that reach the threshold share one of their rarest shingles (prefix filter), have similar sizes
(length filter), and share it at similar positions in the order of rarity (positional filter): Bayardo, Ma,
Srikant, Scaling Up All Pairs Similarity Search, WWW 2007; Xiao, Wang, Lin, Yu, Efficient Similarity Joins for
Near Duplicate Detection, WWW 2008. Remaining pairs are filtered by bitmaps, which bound the intersection from
above (Sandes, Teodoro, Melo: Bitmap Filter, Information Systems 88, 2020), and then compared exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simhbase.errors import UsageError
from simhbase.fingerprint.hamming import distance
from simhbase.slices import bounded_slices, ranges
from simhbase.text.jaccard import ShingleSets, jaccard

_CHUNK_SHINGLES = 1 << 21  # shared shingles processed at once
_BITMAP_BITS = (64, 1 << 14)
_BITMAP_CELLS = 1 << 24
_SLACK = 1e-9  # for decimal fractions in binary: 0.7 x 10 must not require 8 of 10


@dataclass(frozen=True, slots=True)
class SimilarPairs:
    """Pairs of texts: left and right int64 (m,) with left < right, sorted; jaccard float64 (m,)."""

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    jaccard: NDArray[np.float64]

    def at_least(self, similarity: float) -> SimilarPairs:
        chosen = self.jaccard >= similarity
        return SimilarPairs(self.left[chosen], self.right[chosen], self.jaccard[chosen])

    def union(self, others: SimilarPairs) -> SimilarPairs:
        both = [np.concatenate(parts) for parts in ((self.left, others.left), (self.right, others.right))]
        pairs, first = np.unique(np.stack(both, axis=1), axis=0, return_index=True)
        return SimilarPairs(pairs[:, 0], pairs[:, 1], np.concatenate([self.jaccard, others.jaccard])[first])


def similar_pairs(sets: ShingleSets, threshold: float) -> SimilarPairs:
    """Find all pairs with a Jaccard similarity >= threshold. Raises UsageError for thresholds outside
    (0, 1]."""
    if not 0 < threshold <= 1:
        raise UsageError(f"Jaccard threshold {threshold}: must be above 0, up to 1")
    prefixes = _Prefixes.of(sets, threshold)
    bitmaps = _Bitmaps.of(sets)
    parts = [
        _reaching(sets, threshold, *bitmaps.possible(threshold, smaller, larger))
        for smaller, larger in prefixes.meetings()
    ]
    left = np.concatenate([np.empty(0, np.int64), *(part.left for part in parts)])
    right = np.concatenate([np.empty(0, np.int64), *(part.right for part in parts)])
    similarity = np.concatenate([np.empty(0), *(part.jaccard for part in parts)])
    order = np.lexsort((right, left))
    return SimilarPairs(left[order], right[order], similarity[order])


def _reaching(
    sets: ShingleSets, threshold: float, smaller: NDArray[np.int64], larger: NDArray[np.int64]
) -> SimilarPairs:
    similarity = jaccard(sets, smaller, larger)
    reached = similarity >= threshold - _SLACK
    smaller, larger = smaller[reached], larger[reached]
    return SimilarPairs(np.minimum(smaller, larger), np.maximum(smaller, larger), similarity[reached])


def _least_common(threshold: float, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Least intersection of two sets that reach the threshold, given the sum of their sizes."""
    least: NDArray[np.int64] = np.ceil(threshold / (1 + threshold) * sizes - _SLACK).astype(np.int64)
    return least


@dataclass(frozen=True, slots=True)
class _PrefixShingles:
    """Shingles in prefixes. token: the shingle; order: rank of the set by size; position: of the shingle in
    the set; each int64 (m,)."""

    token: NDArray[np.int64]
    order: NDArray[np.int64]
    position: NDArray[np.int64]

    def sorted_by(self, keys: NDArray[np.int64]) -> _PrefixShingles:
        places = np.argsort(keys, kind="stable")
        return _PrefixShingles(self.token[places], self.order[places], self.position[places])


@dataclass(frozen=True)
class _Prefixes:
    """Prefixes of sets in ascending order of size; each set probes for smaller ones.

    by_size: int64 (n,), the sets in that order; sizes: int64 (n,). probes: prefixes of probing sets; indexed:
    shorter prefixes, which suffice for the smaller set of a pair.
    """

    threshold: float
    by_size: NDArray[np.int64]
    sizes: NDArray[np.int64]
    probes: _PrefixShingles
    indexed: _PrefixShingles

    @classmethod
    def of(cls, sets: ShingleSets, threshold: float) -> _Prefixes:
        by_size = np.argsort(sets.sizes, kind="stable")
        sizes = sets.sizes[by_size]
        probes = _entries(sets, by_size, sizes - np.ceil(threshold * sizes - _SLACK).astype(np.int64) + 1)
        indexed = _entries(sets, by_size, sizes - _least_common(threshold, 2 * sizes) + 1)
        keys = indexed.token * len(by_size) + indexed.order
        return cls(threshold, by_size, sizes, probes, indexed.sorted_by(keys))

    def meetings(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Pairs of a smaller and a larger set whose prefixes share a shingle, each pair once."""
        n = len(self.by_size)
        least = np.ceil(self.threshold * self.sizes - _SLACK)
        first = np.searchsorted(self.sizes, least)
        keys = self.indexed.token * n + self.indexed.order
        start = np.searchsorted(keys, self.probes.token * n + first[self.probes.order])
        counts = np.searchsorted(keys, self.probes.token * n + self.probes.order) - start
        for chunk in self._chunks_of_whole_sets(counts):
            met = ranges(start[chunk], counts[chunk])
            probe = np.repeat(np.arange(chunk.start, chunk.stop), counts[chunk])
            smaller, larger = self.indexed.order[met], self.probes.order[probe]
            rest = np.minimum(
                self.sizes[smaller] - self.indexed.position[met],
                self.sizes[larger] - self.probes.position[probe],
            )
            enough = rest >= _least_common(self.threshold, self.sizes[smaller] + self.sizes[larger])
            pairs = np.unique(larger[enough] * n + smaller[enough])
            yield self.by_size[pairs % n], self.by_size[pairs // n]

    def _chunks_of_whole_sets(self, counts: NDArray[np.int64]) -> Iterator[slice]:
        """Slices of probes. All probes of a set are in one slice, so that each of its pairs is found once."""
        borders = np.flatnonzero(np.diff(self.probes.order, prepend=-1))
        if not len(borders):
            return
        ends = np.append(borders, len(counts))
        for chunk in bounded_slices(np.add.reduceat(counts, borders), _CHUNK_SHINGLES):
            yield slice(int(ends[chunk.start]), int(ends[chunk.stop]))


def _entries(sets: ShingleSets, by_size: NDArray[np.int64], lengths: NDArray[np.int64]) -> _PrefixShingles:
    """The first `lengths` shingles of each set, rarest first, without those that no other set has. (None if
    the set shares too few shingles to reach the threshold with any other.)"""
    alone = (sets.sizes - sets.shared)[by_size]
    counts = np.maximum(lengths - alone, 0) * (sets.sizes[by_size] > 0)
    order = np.repeat(np.arange(len(by_size)), counts)
    places = ranges(np.zeros_like(counts), counts)
    token = sets.tokens[sets.offsets[by_size][order] + places].astype(np.int64)
    return _PrefixShingles(token, order, alone[order] + places)


@dataclass(frozen=True)
class _Bitmaps:
    """A bitmap for each set, in which each shared shingle sets a bit. words: uint64 (n, words)."""

    sets: ShingleSets
    words: NDArray[np.uint64]

    @classmethod
    def of(cls, sets: ShingleSets) -> _Bitmaps:
        least, most = _BITMAP_BITS
        typical = int(sets.shared.mean()) if len(sets.sizes) else 0
        bits = min(max(least, 1 << (2 * typical).bit_length()), most)
        at_once = max(1, _BITMAP_CELLS // bits)
        parts = [
            _bitmaps(sets, start, min(start + at_once, len(sets.sizes)), bits)
            for start in range(0, len(sets.sizes), at_once)
        ]
        return cls(sets, np.concatenate([np.empty((0, bits // 64), np.uint64), *parts]))

    def possible(
        self, threshold: float, smaller: NDArray[np.int64], larger: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pairs that may reach the threshold by their bitmaps. (Each differing bit is a shingle that only one
        of the two sets has.)"""
        alone = self.sets.sizes - self.sets.shared
        total = self.sets.sizes[smaller] + self.sets.sizes[larger]
        allowed = total - 2 * _least_common(threshold, total) - alone[smaller] - alone[larger]
        differing = np.zeros(len(smaller), dtype=np.int64)
        for word in self.words.T:
            differing += distance(word[smaller], word[larger])
        kept = differing <= allowed
        return smaller[kept], larger[kept]


def _bitmaps(sets: ShingleSets, start: int, end: int, bits: int) -> NDArray[np.uint64]:
    cells = np.zeros((end - start, bits), dtype=np.bool_)
    documents = np.repeat(np.arange(end - start), sets.shared[start:end])
    tokens = sets.tokens[sets.offsets[start] : sets.offsets[end]]
    cells[documents, tokens % bits] = True
    return np.packbits(cells, axis=1).view(np.uint64)
