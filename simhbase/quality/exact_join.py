"""All pairs of sets whose Jaccard similarity reaches a threshold: exact, and without comparing all pairs.

Two sets that reach the threshold share one of the rarest shingles of each (prefix filter), have
similar sizes (length filter), and share it at similar places in the order of rarity (positional
filter): Bayardo, Ma, Srikant, Scaling Up All Pairs Similarity Search, WWW 2007; Xiao, Wang, Lin, Yu,
Efficient Similarity Joins for Near Duplicate Detection, WWW 2008. What is left is compared as bitmaps
that bound the intersection from above (Sandes, Teodoro, Melo: Bitmap Filter, Information Systems 88,
2020), and what is still left exactly.
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

_CHUNK_SHINGLES = 1 << 21  # meetings looked at at once
_BITMAP_BITS = (64, 1 << 14)
_BITMAP_CELLS = 1 << 24
_SLACK = 1e-9  # thresholds are decimal fractions: 0.7 x 10 must not need 8 of 10


@dataclass(frozen=True, slots=True)
class SimilarPairs:
    """Pairs of texts: left and right int64 (m,) with left < right, sorted; jaccard float64 (m,)."""

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    jaccard: NDArray[np.float64]

    def of_at_least(self, similarity: float) -> SimilarPairs:
        chosen = self.jaccard >= similarity
        return SimilarPairs(self.left[chosen], self.right[chosen], self.jaccard[chosen])

    def and_also(self, others: SimilarPairs) -> SimilarPairs:
        both = [np.concatenate(parts) for parts in ((self.left, others.left), (self.right, others.right))]
        pairs, first = np.unique(np.stack(both, axis=1), axis=0, return_index=True)
        return SimilarPairs(pairs[:, 0], pairs[:, 1], np.concatenate([self.jaccard, others.jaccard])[first])


def similar_pairs(sets: ShingleSets, threshold: float) -> SimilarPairs:
    """All pairs of Jaccard similarity >= threshold. Raises UsageError for one outside (0, 1]."""
    if not 0 < threshold <= 1:
        raise UsageError(f"Jaccard threshold {threshold}: choose more than 0 and at most 1")
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
    """The least intersection of two sets whose sizes have this sum, if they reach the threshold."""
    least: NDArray[np.int64] = np.ceil(threshold / (1 + threshold) * sizes - _SLACK).astype(np.int64)
    return least


@dataclass(frozen=True, slots=True)
class _PrefixShingles:
    """Shingles in prefixes: token (of the shingle), order (of the set, by size) and position (of the
    shingle in the set), each int64 (m,)."""

    token: NDArray[np.int64]
    order: NDArray[np.int64]
    position: NDArray[np.int64]

    def sorted_by(self, keys: NDArray[np.int64]) -> _PrefixShingles:
        places = np.argsort(keys, kind="stable")
        return _PrefixShingles(self.token[places], self.order[places], self.position[places])


@dataclass(frozen=True)
class _Prefixes:
    """Where sets meet, when they are taken by ascending size and each looks for smaller ones.

    by_size: int64 (n,), the sets in that order; sizes: int64 (n,), theirs. probes: the prefixes of
    the looking sets; indexed: the shorter prefixes that the smaller one of two sets needs.
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
        """Pairs of a smaller and a larger set that share a shingle of both prefixes, each pair once."""
        n = len(self.by_size)
        least = np.ceil(self.threshold * self.sizes - _SLACK)
        first = np.searchsorted(self.sizes, least)
        keys = self.indexed.token * n + self.indexed.order
        start = np.searchsorted(keys, self.probes.token * n + first[self.probes.order])
        counts = np.searchsorted(keys, self.probes.token * n + self.probes.order) - start
        for chunk in self._lots_of_whole_sets(counts):
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

    def _lots_of_whole_sets(self, counts: NDArray[np.int64]) -> Iterator[slice]:
        """Slices of the probes that split no set's: what it meets twice is in one chunk."""
        borders = np.flatnonzero(np.diff(self.probes.order, prepend=-1))
        if not len(borders):
            return
        ends = np.append(borders, len(counts))
        for chunk in bounded_slices(np.add.reduceat(counts, borders), _CHUNK_SHINGLES):
            yield slice(int(ends[chunk.start]), int(ends[chunk.stop]))


def _entries(sets: ShingleSets, by_size: NDArray[np.int64], lengths: NDArray[np.int64]) -> _PrefixShingles:
    """The first `lengths` shingles of each set, the rarest first, but for those no other set has.

    A set whose shared shingles are too few to reach the threshold with any other has none.
    """
    alone = (sets.sizes - sets.shared)[by_size]
    counts = np.maximum(lengths - alone, 0) * (sets.sizes[by_size] > 0)
    order = np.repeat(np.arange(len(by_size)), counts)
    places = ranges(np.zeros_like(counts), counts)
    token = sets.tokens[sets.offsets[by_size][order] + places].astype(np.int64)
    return _PrefixShingles(token, order, alone[order] + places)


@dataclass(frozen=True)
class _Bitmaps:
    """A bitmap a set, in which each of its shared shingles sets one bit: uint64 (n, words)."""

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
        """The pairs whose bitmaps allow for the threshold: every differing bit is a shingle that
        only one of the two has."""
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
