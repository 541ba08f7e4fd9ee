"""Exact similarity join: all pairs of sets with at least a Jaccard similarity, without comparing all pairs.

Two sets that reach the threshold share one of their rarest shingles (prefix filter), have similar sizes
(length filter), and share it at similar positions in the order of rarity (positional filter): Bayardo, Ma,
Srikant, Scaling Up All Pairs Similarity Search, WWW 2007; Xiao, Wang, Lin, Yu, Efficient Similarity Joins for
Near Duplicate Detection, WWW 2008. Remaining pairs are filtered by bitmaps, which bound the intersection from
above (Sandes, Teodoro, Melo: Bitmap Filter, Information Systems 88, 2020), and then compared exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhbase.errors import BadInput, UsageError
from simhbase.process.slices import bounded_slices, ranges
from simhbase.quality.pairs import Positions, TextPairs
from simhbase.text.jaccard import ShingleSets

MOST_MEETINGS = 2_000_000_000  # shingles that pairs share: minutes
_CHUNK_SHINGLES = 1 << 21  # shared shingles processed at once
_BITMAP_BITS = (64, 1 << 14)
_BITMAP_CELLS = 1 << 24
_SLACK = 1e-9  # for decimal fractions in binary: 0.7 x 10 must not require 8 of 10


def similar_pairs(sets: ShingleSets, threshold: float) -> TextPairs:
    """Find all pairs with a Jaccard similarity >= threshold. Raises UsageError for thresholds outside
    (0, 1], BadInput for sets of which so many are near each other that this would take hours."""
    if not 0 < threshold <= 1:
        raise UsageError(f"Jaccard threshold {threshold}: must be above 0, up to 1")
    bitmaps = _bitmaps(sets)
    found = (
        _reaching(sets, threshold, *_possible(sets, bitmaps, threshold, smaller, larger))
        for smaller, larger in _meetings(sets, threshold)
    )
    return TextPairs.of(len(sets.sizes), found)


def _reaching(
    sets: ShingleSets, threshold: float, smaller: Positions, larger: Positions
) -> tuple[Positions, Positions, NDArray[np.float64]]:
    similarity = sets.similarity(smaller, larger)
    reached = similarity >= threshold - _SLACK
    smaller, larger = smaller[reached], larger[reached]
    return np.minimum(smaller, larger), np.maximum(smaller, larger), similarity[reached]


def _least_common(threshold: float, sizes: Positions) -> Positions:
    """Least intersection of two sets that reach the threshold, given the sum of their sizes."""
    least: Positions = np.ceil(threshold / (1 + threshold) * sizes - _SLACK).astype(np.int64)
    return least


class _Prefixes(NamedTuple):
    """Shingles in prefixes of sets. token: the shingle; order: rank of the set by size; position: of the
    shingle in the set; each int64 (m,)."""

    token: Positions
    order: Positions
    position: Positions


def _meetings(sets: ShingleSets, threshold: float) -> Iterator[tuple[Positions, Positions]]:
    """Pairs of a smaller and a larger set whose prefixes share a shingle, each pair once. Sets probe for
    smaller ones, of which shorter prefixes suffice."""
    by_size = np.argsort(sets.sizes, kind="stable")
    n, sizes = len(by_size), sets.sizes[by_size]
    least = np.ceil(threshold * sizes - _SLACK).astype(np.int64)
    probes = _prefixes(sets, by_size, sizes - least + 1)
    indexed = _prefixes(sets, by_size, sizes - _least_common(threshold, 2 * sizes) + 1)
    keys = indexed.token * n + indexed.order
    ascending = np.argsort(keys, kind="stable")
    keys, order, position = keys[ascending], indexed.order[ascending], indexed.position[ascending]
    first = np.searchsorted(sizes, least)
    start = np.searchsorted(keys, probes.token * n + first[probes.order])
    counts = np.searchsorted(keys, probes.token * n + probes.order) - start
    if counts.sum() > MOST_MEETINGS:
        raise BadInput(
            f"of {n:,} texts so many are near each other that all of their pairs would take hours: measure "
            "fewer of them, or remove near-duplicates first (simhbase dedup)"
        )
    for chunk in _chunks_of_whole_sets(probes.order, counts):
        met = ranges(start[chunk], counts[chunk])
        probe = np.repeat(np.arange(chunk.start, chunk.stop), counts[chunk])
        smaller, larger = order[met], probes.order[probe]
        rest = np.minimum(sizes[smaller] - position[met], sizes[larger] - probes.position[probe])
        enough = rest >= _least_common(threshold, sizes[smaller] + sizes[larger])
        pairs = np.unique(larger[enough] * n + smaller[enough])
        yield by_size[pairs % n], by_size[pairs // n]


def _chunks_of_whole_sets(order: Positions, counts: Positions) -> Iterator[slice]:
    """Slices of probes. All probes of a set are in one slice, so that each of its pairs is found once."""
    borders = np.flatnonzero(np.diff(order, prepend=-1))
    if not len(borders):
        return
    ends = np.append(borders, len(counts))
    for chunk in bounded_slices(np.add.reduceat(counts, borders), _CHUNK_SHINGLES):
        yield slice(int(ends[chunk.start]), int(ends[chunk.stop]))


def _prefixes(sets: ShingleSets, by_size: Positions, lengths: Positions) -> _Prefixes:
    """The first `lengths` shingles of each set, rarest first, without those that no other set has. (None if
    the set shares too few shingles to reach the threshold with any other.)"""
    alone = (sets.sizes - sets.shared)[by_size]
    counts = np.maximum(lengths - alone, 0) * (sets.sizes[by_size] > 0)
    order = np.repeat(np.arange(len(by_size)), counts)
    places = ranges(np.zeros_like(counts), counts)
    token = sets.tokens[sets.offsets[by_size][order] + places].astype(np.int64)
    return _Prefixes(token, order, alone[order] + places)


def _bitmaps(sets: ShingleSets) -> NDArray[np.uint64]:
    """A bitmap for each of n sets, in which each shared shingle sets a bit: uint64 (n, words)."""
    least, most = _BITMAP_BITS
    typical = int(sets.shared.mean()) if len(sets.sizes) else 0
    bits = min(max(least, 1 << (2 * typical).bit_length()), most)
    words = np.empty((len(sets.sizes), bits // 64), np.uint64)
    at_once = max(1, _BITMAP_CELLS // bits)
    for start in range(0, len(words), at_once):
        end = min(start + at_once, len(words))
        cells = np.zeros((end - start, bits), dtype=np.bool_)
        documents = np.repeat(np.arange(end - start), sets.shared[start:end])
        cells[documents, sets.tokens[sets.offsets[start] : sets.offsets[end]] % bits] = True
        words[start:end] = np.packbits(cells, axis=1).view(np.uint64)
    return words


def _possible(
    sets: ShingleSets, bitmaps: NDArray[np.uint64], threshold: float, smaller: Positions, larger: Positions
) -> tuple[Positions, Positions]:
    """Pairs that may reach the threshold by their bitmaps. (Each differing bit is a shingle that only one of
    the two sets has.)"""
    alone = sets.sizes - sets.shared
    total = sets.sizes[smaller] + sets.sizes[larger]
    allowed = total - 2 * _least_common(threshold, total) - alone[smaller] - alone[larger]
    differing = np.zeros(len(smaller), dtype=np.int64)
    for word in bitmaps.T:
        differing += np.bitwise_count(word[smaller] ^ word[larger])
    kept = differing <= allowed
    return smaller[kept], larger[kept]
