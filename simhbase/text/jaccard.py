"""Exact Jaccard similarity of pairs of shingle sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simhbase.slices import bounded_slices, ranges
from simhbase.text.extractor import Extractor, FeatureBatch
from simhbase.text.features import FeatureOptions

SHINGLES = "chars:3"
PAIRS = "chars:2"  # for short texts
_CHUNK_SHINGLES = 1 << 22  # shingles compared at once
_LOW_WORD = np.uint64(0xFFFFFFFF)
_WORD_BITS = np.uint64(32)


@dataclass(frozen=True, slots=True)
class ShingleSets:
    """Shingle sets of n texts, without shingles that only one text has (they are in no intersection).

    tokens: uint32 (m,), set after set, ascending within a set; a token is the rank of a shingle by the number
    of sets that contain it, rarest first. offsets: int64 (n + 1,), set i is
    tokens[offsets[i]:offsets[i + 1]]. sizes: int64 (n,), sizes of the complete sets.
    """

    tokens: NDArray[np.uint32]
    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @property
    def shared(self) -> NDArray[np.int64]:
        """Number of shingles of each set that other sets contain, too: int64 (n,)."""
        return np.diff(self.offsets)


def shingle_extractor() -> Extractor:
    """An extractor of character 3-shingles of normalised text without white space."""
    return Extractor(FeatureOptions(kind=SHINGLES))


def shingle_sets(texts: Sequence[str], kind: str = SHINGLES) -> ShingleSets:
    """Feature sets of n texts. kind: see FeatureOptions. A text that is too short has an empty set."""
    return sets_of(Extractor(FeatureOptions(kind=kind)).extract(texts))


def sets_of(batch: FeatureBatch) -> ShingleSets:
    """Sets of the features of n texts; ignores repeats."""
    keys = _distinct_features(batch)
    documents, ids = keys >> _WORD_BITS, keys & _LOW_WORD
    sizes = np.bincount(documents.astype(np.int64), minlength=len(batch.counts))
    frequencies = np.bincount(ids.astype(np.int64))
    ranks = np.empty(len(frequencies), dtype=np.uint64)
    ranks[np.argsort(frequencies, kind="stable")] = np.arange(len(frequencies), dtype=np.uint64)
    shared = frequencies[ids] > 1
    keys = (documents[shared] << _WORD_BITS) | ranks[ids[shared]]
    keys.sort()
    bounds = np.arange(len(batch.counts) + 1, dtype=np.uint64) << _WORD_BITS
    return ShingleSets((keys & _LOW_WORD).astype(np.uint32), np.searchsorted(keys, bounds), sizes)


def _distinct_features(batch: FeatureBatch) -> NDArray[np.uint64]:
    """Pairs of text number (high word) and feature number (low word), distinct and ascending."""
    features = batch.digests
    order = np.argsort(features)
    ascending = features[order]
    new = np.ones(len(features), dtype=np.bool_)
    new[1:] = ascending[1:] != ascending[:-1]
    documents = np.repeat(np.arange(len(batch.counts), dtype=np.uint64), batch.counts)
    keys = (documents[order] << _WORD_BITS) | (np.cumsum(new, dtype=np.uint64) - np.uint64(1))
    keys.sort()
    return keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys


def jaccard(sets: ShingleSets, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.float64]:
    """Similarity of m pairs of sets: positions int64 (m,) -> float64 (m,), 0 for two empty sets."""
    common = _common(sets, left, right)
    union = sets.sizes[left] + sets.sizes[right] - common
    similarity: NDArray[np.float64] = common / np.maximum(union, 1)
    return similarity


def _common(sets: ShingleSets, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
    total = sets.shared[left] + sets.shared[right]
    parts = [
        _chunk_common(sets, left[chunk], right[chunk]) for chunk in bounded_slices(total, _CHUNK_SHINGLES)
    ]
    return np.concatenate([np.empty(0, np.int64), *parts])


def _chunk_common(sets: ShingleSets, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
    both = np.concatenate([_members(sets, left), _members(sets, right)])
    both.sort(kind="stable")  # merges the two ascending runs
    twice = both[1:][both[1:] == both[:-1]]
    counts: NDArray[np.int64] = np.bincount((twice >> _WORD_BITS).astype(np.int64), minlength=len(left))
    return counts


def _members(sets: ShingleSets, chosen: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Tokens of the chosen sets, with the position in `chosen` in the high word."""
    counts = sets.shared[chosen]
    numbers = np.repeat(np.arange(len(chosen), dtype=np.uint64), counts)
    return (numbers << _WORD_BITS) | sets.tokens[ranges(sets.offsets[chosen], counts)]
