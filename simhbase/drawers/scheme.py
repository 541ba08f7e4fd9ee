"""Which drawers a fingerprint is in, and which of those found there match: a class a scheme."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from math import log2
from numbers import Real
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers import rowkeys
from simhbase.drawers.bands import Bands
from simhbase.drawers.join import WORD_BITS, Pairs, gathered, mates, pair_batches, segments, sharing_batches
from simhbase.drawers.layout import SEGMENT_BITS, Layout, Run, layout, require_within_guarantee
from simhbase.errors import UsageError
from simhbase.fingerprint import hamming, minhash
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.minhash import COUNTED, SketchParameters
from simhbase.fingerprint.pipeline import to_int

Distances = NDArray[np.uint8] | NDArray[np.int64]

AUTO = "auto"
_SKETCHES_AT_ONCE = 1 << 14


@dataclass(frozen=True, slots=True)
class RisingThreshold:
    """The similarity from which texts are near, by the number of features of the text that has fewer: `least`
    up to `least_to` of them, `most` from COUNTED on, and between the two more by the same for twice as many.

    As it rises slowly, no length parts near texts. docs/quality.md has it beside fixed thresholds.
    """

    least: float
    most: float
    least_to: int

    def of(self, features: int) -> float:
        """That of so many features."""
        doublings = log2(max(features, self.least_to) / self.least_to) / log2(COUNTED / self.least_to)
        return self.least + (self.most - self.least) * min(doublings, 1.0)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is near: a shared drawer, at most `bits` between the fingerprints, and at most `mismatches` slots
    between the sketches. (Within a layout's guarantee there always is a shared drawer.) None: sketches decide
    nothing; an array, int64 (COUNTED + 1,), says how many by the number of features of the text that has
    fewer."""

    bits: int
    mismatches: int | NDArray[np.int64] | None = None

    def verified(
        self,
        sketching: SketchParameters,
        a: NDArray[np.uint8],
        left: NDArray[np.int64],
        b: NDArray[np.uint8],
        right: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Of the sketches a at left (m,) and b at right (m,): how many slots differ, and whether these are
        few enough: two times (m,)."""
        mismatches = sketching.mismatches_among(a, left, b, right)
        if self.mismatches is None:
            return mismatches, np.ones(len(left), dtype=np.bool_)
        most = self.mismatches
        if isinstance(most, np.ndarray):
            most = most[np.minimum(sketching.features(a[left]), sketching.features(b[right]))]
        return mismatches, mismatches <= most


def identities(fingerprints: FingerprintBatch, sketching: SketchParameters | None) -> NDArray[np.uint64]:
    """Equal for equal fingerprints with their sketches: uint64 (n,), or (n, 2) where texts of one
    fingerprint may differ in their sketches."""
    if sketching is None:
        return fingerprints.values
    values = fingerprints.values
    if values.ndim == 2:
        values = minhash.fingerprints(np.ascontiguousarray(values).view(np.uint8))
    return np.column_stack([values, minhash.fingerprints(fingerprints.sketches)])


class Scheme(Protocol):
    """One scheme with its parameters."""

    @property
    def tables(self) -> int:
        """In how many drawers a fingerprint is indexed."""

    @property
    def sketching(self) -> SketchParameters | None:
        """What is kept of a text beside its fingerprint, None where nothing is."""

    @property
    def threshold(self) -> float | RisingThreshold | None:
        """The similarity that lookups ask for unless told otherwise."""

    @property
    def listed_sketching(self) -> SketchParameters | None:
        """What is kept in the rows that list a fingerprint's documents: the sketch where the fingerprint is a
        hash of it, so that all of them have the same. Others are kept in the documents' own rows."""

    def bounds(self, k: int | None, min_similarity: float | None) -> Bounds:
        """Bounds that a lookup asks for, the profile's for None. Raises UsageError for one that the
        scheme cannot keep or does not know."""

    def loose_bounds(self, similarity: float) -> Bounds:
        """Bounds for what is then compared exactly: those that nearly all texts of this similarity
        keep which the scheme could find at all. Raises UsageError for one outside 0 to 1."""

    def rule(self, min_similarity: float | None) -> str:
        """The bounds of the profile's k and of a similarity, the profile's for None, in words: `within 3
        bits, similarity >= 0.8`."""

    def prefixes(self, fingerprints: FingerprintBatch) -> NDArray[np.uint8]:
        """The drawers of n fingerprints: uint8 (n, tables, 5)."""

    def keys(self, fingerprints: FingerprintBatch) -> NDArray[np.uint8]:
        """Their rows there: uint8 (n, tables, 13)."""

    @property
    def drawer_runs(self) -> tuple[tuple[Run, ...], ...]:
        """What names the drawers of each table: runs of bits of fingerprints, or of slots of sketches."""

    def shared_drawers(self, a: int, b: int) -> tuple[int, ...] | None:
        """The flags of the drawers that two fingerprints share; None where these alone do not tell."""

    def meetings(self, a: FingerprintBatch, b: FingerprintBatch) -> list[tuple[int, ...]]:
        """The flags of the drawers that they share, elementwise of two times n."""

    def bits_apart(self, a: NDArray[np.uint64], b: NDArray[np.uint64]) -> Distances:
        """What fingerprints alone tell of their distance, elementwise; nothing: 0."""

    def bits_between(self, a: int, b: int) -> int:
        """The same of two fingerprints: quicker for a few than a call of NumPy."""

    def distances(self, bits: Distances, mismatches: NDArray[np.int64]) -> Distances:
        """What matches are ordered by, of both measures."""

    def pairs(self, fingerprints: FingerprintBatch, bounds: Bounds) -> Iterator[Pairs]:
        """All near pairs among n, each once but in no order, in batches of bounded size."""

    def segments(self, fingerprints: FingerprintBatch) -> NDArray[np.uint64]:
        """The drawers of n fingerprints as numbers: uint64 (n, tables)."""

    def mates(
        self, fingerprints: FingerprintBatch, drawers: NDArray[np.uint32], bounds: Bounds
    ) -> Iterator[Pairs]:
        """The near pairs of those that share one drawer, uint32 (n,): each once, at most n at a time."""


@dataclass(frozen=True, slots=True)
class SimHashScheme:
    """Blocks of the fingerprint name its drawers; near ones differ in few bits.

    sketching: of the sketches that matches are verified by, if they are; threshold: the similarity that these
    then have to show unless another is asked for; reach: within so many bits fingerprints that share a drawer
    match, too, if that is more than k.
    """

    layout: Layout
    k: int
    sketching: SketchParameters | None = None
    threshold: float | None = None
    reach: int = 0

    @property
    def tables(self) -> int:
        """In how many drawers a fingerprint is indexed."""
        return len(self.layout.tables)

    @property
    def listed_sketching(self) -> None:
        """Nothing: different texts may have one fingerprint."""

    def bounds(self, k: int | None, min_similarity: float | None) -> Bounds:
        """A k that is asked for limits the reach, too. Raises UsageError for one above the layout's
        guarantee, and for a similarity where nothing tells it."""
        if k is None:
            k = self._farthest
        else:
            require_within_guarantee(k, self.layout)
        min_similarity = self.threshold if min_similarity is None else min_similarity
        if min_similarity is None:
            return self._any_similarity(k)
        if self.sketching is None:
            raise UsageError(
                "the store keeps no sketches to estimate similarities by: create one with verify=true or "
                "scheme=minhash",
                parameter="min_similarity",
            )
        return Bounds(k, self.sketching.most_mismatches(_similarity(min_similarity)))

    def loose_bounds(self, similarity: float) -> Bounds:
        """The bits alone, and the numbers where they count."""
        _ = _similarity(similarity)
        return self._any_similarity(self._farthest)

    def _any_similarity(self, bits: int) -> Bounds:
        numbered = self.sketching is not None and self.sketching.numbered
        return Bounds(bits, self.sketching.slots if self.sketching and numbered else None)

    @property
    def _farthest(self) -> int:
        return max(self.k, self.reach)

    def rule(self, min_similarity: float | None) -> str:
        """The bits, and the similarity where matches are verified."""
        least = self.threshold if min_similarity is None else min_similarity
        words = self.within if least is None else f"{self.within}, similarity >= {least:g}"
        return words + same_numbers(self.sketching)

    @property
    def within(self) -> str:
        """The part of the rule about bits."""
        return f"within {self._farthest} bits" + (" in a shared drawer" if self.reach > self.k else "")

    def prefixes(self, fingerprints: FingerprintBatch) -> NDArray[np.uint8]:
        """The drawers of n fingerprints: uint8 (n, tables, 5)."""
        return rowkeys.prefixes(fingerprints.values, self.layout)

    def keys(self, fingerprints: FingerprintBatch) -> NDArray[np.uint8]:
        """Their rows there: uint8 (n, tables, 13)."""
        return rowkeys.encode(fingerprints.values, self.layout)

    @property
    def drawer_runs(self) -> tuple[tuple[Run, ...], ...]:
        """The blocks of each table, adjacent ones as one run of bits."""
        return self.layout.tables

    def shared_drawers(self, a: int, b: int) -> tuple[int, ...]:
        """The flags of the drawers that two fingerprints share: those of whose bits none differ."""
        return _agreeing(self.layout.name, self.layout.bits, a ^ b)

    def meetings(self, a: FingerprintBatch, b: FingerprintBatch) -> list[tuple[int, ...]]:
        """The flags of the drawers that they share, elementwise of two times n."""
        pairs = zip(map(to_int, a.values), map(to_int, b.values), strict=True)
        return [self.shared_drawers(*pair) for pair in pairs]

    def bits_apart(self, a: NDArray[np.uint64], b: NDArray[np.uint64]) -> Distances:
        """How many bits differ."""
        return hamming.distance(a, b)

    def bits_between(self, a: int, b: int) -> int:
        """How many bits differ."""
        return (a ^ b).bit_count()

    def distances(self, bits: Distances, mismatches: NDArray[np.int64]) -> Distances:
        """The bits."""
        return bits

    def pairs(self, fingerprints: FingerprintBatch, bounds: Bounds) -> Iterator[Pairs]:
        """All near pairs among n, each once but in no order, in batches of bounded size."""
        k, reach = (0, bounds.bits) if self.reach > self.k else (bounds.bits, 0)
        batches = pair_batches(fingerprints.values, k, self.layout, reach)
        return self._verified(batches, fingerprints.sketches, bounds)

    def segments(self, fingerprints: FingerprintBatch) -> NDArray[np.uint64]:
        """The drawers of n fingerprints as numbers: uint64 (n, tables)."""
        name_bits = SEGMENT_BITS if self.reach > self.k else WORD_BITS
        return segments(fingerprints.values, self.layout, name_bits)

    def mates(
        self, fingerprints: FingerprintBatch, drawers: NDArray[np.uint32], bounds: Bounds
    ) -> Iterator[Pairs]:
        """The near pairs of those that share one drawer, uint32 (n,): each once, at most n at a time."""
        found = mates(fingerprints.values, drawers, bounds.bits)
        return self._verified(found, fingerprints.sketches, bounds)

    def _verified(
        self, batches: Iterator[Pairs], sketches: NDArray[np.uint8], bounds: Bounds
    ) -> Iterator[Pairs]:
        if self.sketching is None or bounds.mismatches is None:
            return batches
        sketching = self.sketching
        return (
            pairs.where(bounds.verified(sketching, sketches, pairs.left, sketches, pairs.right)[1])
            for pairs in batches
        )


@dataclass(frozen=True, slots=True)
class MinHashScheme:
    """Bands of the sketch name the drawers; near ones have similar sketches.

    threshold: how similar, or a rising one where sketches tell the features.
    """

    bands: Bands
    sketching: SketchParameters
    threshold: float | RisingThreshold

    @property
    def tables(self) -> int:
        """In how many drawers a fingerprint is indexed."""
        return self.bands.number

    @property
    def listed_sketching(self) -> SketchParameters:
        """The sketch."""
        return self.sketching

    def bounds(self, k: int | None, min_similarity: float | None) -> Bounds:
        """Raises UsageError for a k, which is of bits."""
        if k is not None:
            raise UsageError(
                "scheme minhash compares by similarity: give a minimum similarity instead", parameter="k"
            )
        wanted = self.threshold if min_similarity is None else min_similarity
        if isinstance(wanted, RisingThreshold):
            return Bounds(0, _most_mismatches_by_features(self.sketching, wanted))
        return Bounds(0, self.sketching.most_mismatches(_similarity(wanted)))

    def loose_bounds(self, similarity: float) -> Bounds:
        """Four standard errors of the estimate below."""
        return self.bounds(None, max(0.0, _similarity(similarity) - 4 * self.sketching.standard_error))

    def rule(self, min_similarity: float | None) -> str:
        """The similarity."""
        wanted = self.threshold if min_similarity is None else min_similarity
        if isinstance(wanted, RisingThreshold):
            words = f"similarity >= {wanted.least:g} to {wanted.most:g} by the number of features"
        else:
            words = f"similarity >= {wanted:g}"
        return words + same_numbers(self.sketching)

    def prefixes(self, fingerprints: FingerprintBatch) -> NDArray[np.uint8]:
        """The drawers of n fingerprints: uint8 (n, tables, 5)."""
        return self.keys(fingerprints)[..., : rowkeys.PREFIX_BYTES]

    def keys(self, fingerprints: FingerprintBatch) -> NDArray[np.uint8]:
        """Their rows there: uint8 (n, tables, 13)."""
        return rowkeys.encode_segments(self._segments(fingerprints), fingerprints.values)

    @property
    def drawer_runs(self) -> tuple[tuple[Run, ...], ...]:
        """The slots of each band."""
        rows = self.bands.rows
        return tuple((Run(band * rows, rows),) for band in range(self.bands.number))

    def shared_drawers(self, a: int, b: int) -> None:
        """Not told: they are of the sketches."""

    def meetings(self, a: FingerprintBatch, b: FingerprintBatch) -> list[tuple[int, ...]]:
        """The flags of the bands that they share, elementwise of two times n."""
        shared = self._segments(a) == self._segments(b)
        return [tuple((np.flatnonzero(flags) + 1).tolist()) for flags in shared]

    def bits_apart(self, a: NDArray[np.uint64], b: NDArray[np.uint64]) -> Distances:
        """Nothing: fingerprints of similar texts have nothing in common."""
        return np.zeros(np.broadcast_shapes(a.shape, b.shape), dtype=np.uint8)

    def bits_between(self, a: int, b: int) -> int:
        """Nothing."""
        return 0

    def distances(self, bits: Distances, mismatches: NDArray[np.int64]) -> Distances:
        """The mismatching slots."""
        return mismatches

    def pairs(self, fingerprints: FingerprintBatch, bounds: Bounds) -> Iterator[Pairs]:
        """All near pairs among n that share a band, each once but in no order, in batches of bounded
        size."""
        found = (self._of_band(band, fingerprints, bounds) for band in range(self.bands.number))
        return gathered(chain.from_iterable(found))

    def segments(self, fingerprints: FingerprintBatch) -> NDArray[np.uint64]:
        """The drawers of n fingerprints as numbers: uint64 (n, tables)."""
        return self._segments(fingerprints).astype(np.uint64)

    def mates(
        self, fingerprints: FingerprintBatch, drawers: NDArray[np.uint32], bounds: Bounds
    ) -> Iterator[Pairs]:
        """The near pairs of those that share one drawer, uint32 (n,): each once, at most n at a time."""
        for left, right in sharing_batches(drawers):
            sketches = fingerprints.sketches
            mismatches, few = bounds.verified(self.sketching, sketches, left, sketches, right)
            yield Pairs(left, right, mismatches).where(few)

    def _of_band(self, band: int, fingerprints: FingerprintBatch, bounds: Bounds) -> Iterator[Pairs]:
        """The near pairs of which this is the first band that they share. Sketches, which may be on the disk,
        are read in parts."""
        n, bits, slots_of = len(fingerprints), self.sketching.bits, self.sketching.slots_of
        segments = np.empty(n, dtype=np.uint32)
        for start in range(0, n, _SKETCHES_AT_ONCE):
            part = np.arange(start, min(start + _SKETCHES_AT_ONCE, n))
            segments[part] = self.bands.segments_of(band, slots_of(fingerprints.sketches[part]), bits)
        for left, right in sharing_batches(segments):
            a, b, everyone = fingerprints.sketches[left], fingerprints.sketches[right], np.arange(len(left))
            mismatches, few = bounds.verified(self.sketching, a, everyone, b, everyone)
            agreeing = self.bands.agreeing(slots_of(a), slots_of(b), bits)
            new = agreeing[:, band] & ~agreeing[:, :band].any(axis=1)
            yield Pairs(left, right, mismatches).where(few & new)

    def _segments(self, fingerprints: FingerprintBatch) -> NDArray[np.uint32]:
        return self.bands.segments(self.sketching.slots_of(fingerprints.sketches), self.sketching.bits)


@lru_cache
def _most_mismatches_by_features(
    sketching: SketchParameters, threshold: RisingThreshold
) -> NDArray[np.int64]:
    return np.array([sketching.most_mismatches(threshold.of(features)) for features in range(COUNTED + 1)])


def same_numbers(sketching: SketchParameters | None) -> str:
    """What a rule says of numbers."""
    return ", same numbers" if sketching is not None and sketching.numbered else ""


def _similarity(value: float) -> float:
    if not isinstance(value, Real) or not 0 <= value <= 1:
        raise UsageError(f"must be from 0 to 1, not {value!r}", parameter="min_similarity")
    return value


@lru_cache(1 << 16)
def _agreeing(name: str, bits: int, differing: int) -> tuple[int, ...]:
    """The flags of the drawers of a layout that two fingerprints share which differ in these bits."""
    # By the layout's name: to hash its runs takes longer than all else here.
    masks = rowkeys.segment_masks(layout(name, bits))
    return tuple(flag for flag, mask in enumerate(masks, 1) if not differing & mask)
