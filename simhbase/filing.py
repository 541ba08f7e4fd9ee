"""How fingerprints are filed in drawers, and which of those found there count as near: a class a scheme."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import log2
from numbers import Real
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simhbase import hamming, minhash, rowkeys
from simhbase.errors import UsageError
from simhbase.layout import Layout, require_within_guarantee
from simhbase.minhash import COUNTED, Bands, SketchForm
from simhbase.pairs import Pairs, gathered, pair_batches, sharing_batches
from simhbase.prints import Prints

Distances = NDArray[np.uint8] | NDArray[np.int64]

AUTO = "auto"
LEAST_THRESHOLD = 0.5
_MOST_THRESHOLD = 0.7
_LEAST_FROM = 16  # features


def threshold_of(features: int) -> float:
    """The similarity from which texts are near of which the shorter has so many features (`chars:auto`):
    0.5 up to 16, 0.7 from COUNTED on, and between the two a fifteenth more for twice as many.

    Sentences of 17 characters that differ in two of them have a similarity of 0.6, from which estimates
    stray by 0.1 where there are 128 slots; texts of one template and more than 140 characters are not
    parted from near duplicates below 0.7. As it rises slowly, no length parts near texts. docs/quality.md
    has it beside fixed thresholds.
    """
    doublings = log2(max(features, _LEAST_FROM) / _LEAST_FROM) / log2(COUNTED / _LEAST_FROM)
    return LEAST_THRESHOLD + (_MOST_THRESHOLD - LEAST_THRESHOLD) * min(doublings, 1.0)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is near: at most `bits` between the fingerprints, and at most `unequal` slots between the
    sketches. None: sketches decide nothing; an array, int64 (COUNTED + 1,), says how many by the number
    of features of the text that has fewer."""

    bits: int
    unequal: int | NDArray[np.int64] | None = None

    def most_unequal(
        self,
        form: SketchForm,
        a: NDArray[np.uint8],
        left: NDArray[np.int64],
        b: NDArray[np.uint8],
        right: NDArray[np.int64],
    ) -> int | NDArray[np.int64]:
        """How many slots may differ between the sketches a at left (m,) and b at right (m,)."""
        if not isinstance(self.unequal, np.ndarray):
            return form.slots if self.unequal is None else self.unequal
        return self.unequal[np.minimum(form.features(a)[left], form.features(b)[right])]


def identities(prints: Prints, form: SketchForm | None) -> NDArray[np.uint64]:
    """Equal for equal prints: uint64 (n,), or (n, 2) where texts of one fingerprint may differ in their
    sketches."""
    if form is None:
        return prints.values
    values = prints.values
    if values.ndim == 2:
        values = minhash.fingerprints(np.ascontiguousarray(values).view(np.uint8))
    return np.column_stack([values, minhash.fingerprints(prints.sketches)])


class Filing(Protocol):
    """One scheme with its parameters."""

    @property
    def tables(self) -> int:
        """In how many drawers a fingerprint is filed."""

    @property
    def form(self) -> SketchForm | None:
        """What is kept of a text beside its fingerprint, None where nothing is."""

    def bounds(self, k: int | None, min_similarity: float | None) -> Bounds:
        """Bounds that a lookup asks for, the profile's for None. Raises UsageError for one that the
        scheme cannot keep or does not know."""

    def loose_bounds(self, similarity: float) -> Bounds:
        """Bounds for what is then compared exactly: those that nearly all texts of this similarity
        keep which the scheme could find at all. Raises UsageError for one outside 0 to 1."""

    def prefixes(self, prints: Prints) -> NDArray[np.uint8]:
        """The drawers of n fingerprints: uint8 (n, tables, 5)."""

    def keys(self, prints: Prints) -> NDArray[np.uint8]:
        """Their rows there: uint8 (n, tables, 13)."""

    def bits_apart(self, a: NDArray[np.uint64], b: NDArray[np.uint64]) -> Distances:
        """What fingerprints alone tell of their distance, elementwise; nothing: 0."""

    def distances(self, bits: Distances, unequal: NDArray[np.int64]) -> Distances:
        """What matches are ordered by, of both measures."""

    def pairs(self, prints: Prints, bounds: Bounds) -> Iterator[Pairs]:
        """All near pairs among n, each once but in no order, in batches of bounded size."""


@dataclass(frozen=True, slots=True)
class SimHashFiling:
    """Blocks of the fingerprint name its drawers; near ones differ in few bits.

    form: of the sketches that matches are verified by, if they are; threshold: the similarity that these
    then have to show unless another is asked for. Documents of one fingerprint share
    the sketch that was written last.
    """

    layout: Layout
    k: int
    form: SketchForm | None = None
    threshold: float | None = None

    @property
    def tables(self) -> int:
        """In how many drawers a fingerprint is filed."""
        return len(self.layout.tables)

    def bounds(self, k: int | None, min_similarity: float | None) -> Bounds:
        """Raises UsageError for a k above the layout's guarantee, and for a similarity where nothing
        tells it."""
        k = self.k if k is None else k
        require_within_guarantee(k, self.layout)
        min_similarity = self.threshold if min_similarity is None else min_similarity
        if min_similarity is None:
            return Bounds(k)
        if self.form is None:
            raise UsageError(
                "min_similarity: this index keeps no sketches to estimate similarities by. They are kept "
                "where it is created with --verify, or with the scheme minhash"
            )
        return Bounds(k, self.form.most_unequal(_similarity(min_similarity)))

    def loose_bounds(self, similarity: float) -> Bounds:
        """The bits alone."""
        _ = _similarity(similarity)
        return Bounds(self.k)

    def prefixes(self, prints: Prints) -> NDArray[np.uint8]:
        """The drawers of n fingerprints: uint8 (n, tables, 5)."""
        return rowkeys.prefixes(prints.values, self.layout)

    def keys(self, prints: Prints) -> NDArray[np.uint8]:
        """Their rows there: uint8 (n, tables, 13)."""
        return rowkeys.encode(prints.values, self.layout)

    def bits_apart(self, a: NDArray[np.uint64], b: NDArray[np.uint64]) -> Distances:
        """How many bits differ."""
        return hamming.distance(a, b)

    def distances(self, bits: Distances, unequal: NDArray[np.int64]) -> Distances:
        """The bits."""
        return bits

    def pairs(self, prints: Prints, bounds: Bounds) -> Iterator[Pairs]:
        """All near pairs among n, each once but in no order, in batches of bounded size."""
        batches = pair_batches(prints.values, bounds.bits, self.layout)
        if self.form is None or bounds.unequal is None:
            return batches
        form = self.form
        return (
            pairs.where(form.unequal_among(*compared) <= bounds.most_unequal(form, *compared))
            for pairs in batches
            for compared in [(prints.sketches, pairs.left, prints.sketches, pairs.right)]
        )


@dataclass(frozen=True, slots=True)
class MinHashFiling:
    """Bands of the sketch name the drawers; near ones have similar sketches.

    threshold: how similar, or AUTO for what `threshold_of` says, where sketches tell the features.
    """

    bands: Bands
    form: SketchForm
    threshold: float | str

    @property
    def tables(self) -> int:
        """In how many drawers a fingerprint is filed."""
        return self.bands.number

    def bounds(self, k: int | None, min_similarity: float | None) -> Bounds:
        """Raises UsageError for a k, which is of bits."""
        if k is not None:
            raise UsageError(f"k = {k}: scheme minhash compares by similarity, give min_similarity instead")
        wanted = self.threshold if min_similarity is None else min_similarity
        if min_similarity is None and self.threshold == AUTO:
            return Bounds(0, _most_unequal_by_features(self.form))
        return Bounds(0, self.form.most_unequal(_similarity(wanted)))

    def loose_bounds(self, similarity: float) -> Bounds:
        """Four standard errors of the estimate below."""
        return self.bounds(None, max(0.0, _similarity(similarity) - 4 * self.form.standard_error))

    def prefixes(self, prints: Prints) -> NDArray[np.uint8]:
        """The drawers of n fingerprints: uint8 (n, tables, 5)."""
        return self.keys(prints)[..., : rowkeys.PREFIX_BYTES]

    def keys(self, prints: Prints) -> NDArray[np.uint8]:
        """Their rows there: uint8 (n, tables, 13)."""
        return rowkeys.filed(self._segments(prints), prints.values)

    def bits_apart(self, a: NDArray[np.uint64], b: NDArray[np.uint64]) -> Distances:
        """Nothing: fingerprints of similar texts have nothing in common."""
        return np.zeros(np.broadcast_shapes(a.shape, b.shape), dtype=np.uint8)

    def distances(self, bits: Distances, unequal: NDArray[np.int64]) -> Distances:
        """The unequal slots."""
        return unequal

    def pairs(self, prints: Prints, bounds: Bounds) -> Iterator[Pairs]:
        """All near pairs among n that share a band, each once but in no order, in batches of bounded
        size."""
        return gathered(self._judged(prints, bounds))

    def _judged(self, prints: Prints, bounds: Bounds) -> Iterator[Pairs]:
        for left, right in sharing_batches(self._segments(prints)):
            compared = prints.sketches, left, prints.sketches, right
            unequal = self.form.unequal_among(*compared)
            yield Pairs(left, right, unequal).where(unequal <= bounds.most_unequal(self.form, *compared))

    def _segments(self, prints: Prints) -> NDArray[np.uint32]:
        return self.bands.segments(self.form.slots_of(prints.sketches), self.form.bits)


@lru_cache
def _most_unequal_by_features(form: SketchForm) -> NDArray[np.int64]:
    return np.array([form.most_unequal(threshold_of(features)) for features in range(COUNTED + 1)])


def _similarity(value: float | str) -> float:
    if isinstance(value, str) or not isinstance(value, Real) or not 0 <= value <= 1:
        raise UsageError(f"a similarity of {value!r}: use 0 to 1")
    return value
