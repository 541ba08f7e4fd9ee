"""SimHash and MinHash schemes: drawers, distances and bounds of matches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from simhbase import _core
from simhbase._core import meet_first
from simhbase.drawers import banding, rowkeys
from simhbase.drawers.bands import Bands
from simhbase.drawers.crowds import CrowdedDrawers
from simhbase.drawers.join import (
    WORD_BITS,
    Pairs,
    distances,
    mates,
    pair_batches,
    segments,
    sharing_batches,
)
from simhbase.drawers.layout import SEGMENT_BITS, Layout, Run, layout, require_within_guarantee
from simhbase.drawers.near_values import COMPARED
from simhbase.drawers.threshold import RisingThreshold
from simhbase.errors import UsageError
from simhbase.fingerprint import sketches
from simhbase.fingerprint.batch import FingerprintBatch, to_int
from simhbase.fingerprint.minhash import COUNTED, SketchParameters
from simhbase.fingerprint.pipeline import TextFingerprint
from simhbase.fingerprint.sketches import pair_mismatches
from simhbase.model.thresholds import SIMILAR
from simhbase.process.progress import Progress, no_progress
from simhbase.process.slices import Numbers

Distances = NDArray[np.uint8] | NDArray[np.int64]

FEW_FOUND = 0.9  # share of the pairs just at a similarity: below, lookups say so
_SKETCHES_AT_ONCE = 1 << 14


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of a match: a shared drawer, at most `bits` differing fingerprint bits, and at most `mismatches`
    differing sketch slots. (Within a layout's guarantee there is always a shared drawer.) mismatches: None if
    sketches are not compared, or an array, int64 (COUNTED + 1,), by the number of features of the text with
    fewer."""

    bits: int
    mismatches: int | NDArray[np.int64] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bounds) and self._key == other._key

    def __hash__(self) -> int:
        return self.bits  # arrays have no hash, and few bounds are told apart

    @property
    def _key(self) -> tuple[int, int | bytes | None]:
        most = self.mismatches
        return self.bits, most.tobytes() if isinstance(most, np.ndarray) else most

    def verified(
        self,
        sketching: SketchParameters,
        a: NDArray[np.uint8],
        left: Numbers,
        b: NDArray[np.uint8],
        right: Numbers,
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Compare the sketches of `a` at left (m,) with those of `b` at right (m,). Returns the number of
        differing slots, and whether it is within bounds: two arrays (m,)."""
        mismatches = pair_mismatches(sketching, a, left, b, right)
        if self.mismatches is None:
            return mismatches, np.ones(len(left), dtype=np.bool_)
        most = self.mismatches
        if isinstance(most, np.ndarray):
            most = most[np.minimum(_features(sketching, a, left), _features(sketching, b, right))]
        return mismatches, mismatches <= most

    def include(self, sketching: SketchParameters, a: bytes, b: bytes, mismatches: int) -> bool:
        """True if a number of differing slots of two sketches is within bounds."""
        most = self.mismatches
        if isinstance(most, np.ndarray):
            return mismatches <= most.item(min(sketching.features_of(a), sketching.features_of(b)))
        return most is None or mismatches <= most


def _features(sketching: SketchParameters, sketches: NDArray[np.uint8], chosen: Numbers) -> NDArray[np.uint8]:
    """Numbers of features of sketches (n, bytes) at `chosen` (m,)."""
    if len(chosen) < len(sketches):
        return sketching.features(sketches[chosen])
    return sketching.features(sketches)[chosen]


def identities(fingerprints: FingerprintBatch, sketching: SketchParameters | None) -> NDArray[np.uint64]:
    """Keys that are equal for equal fingerprints and sketches: uint64 (n,), or (n, 2) if texts with the same
    fingerprint may have different sketches."""
    if sketching is None:
        return fingerprints.values
    values = fingerprints.values
    if values.ndim == 2:
        values = sketches.fingerprints(np.ascontiguousarray(values).view(np.uint8))
    return np.column_stack([values, sketches.fingerprints(fingerprints.sketches)])


@dataclass(frozen=True, slots=True)
class SimHashScheme:
    """Drawers are named by blocks of the fingerprint; near fingerprints differ in few bits.

    sketching: of the sketches that verify matches, or None; threshold: minimum similarity of verified
    matches; reach: fingerprints that share a drawer match up to this many bits, if it is more than k.
    """

    layout: Layout
    k: int
    sketching: SketchParameters | None = None
    threshold: float | None = None
    reach: int = 0
    # Parameters of sketches kept in the listings of a fingerprint, where all its documents have the same, as
    # it is a hash of its sketch. None here: sketches are kept in the documents' rows.
    listed_sketching: ClassVar[None] = None
    # An estimate this many standard errors below a wanted similarity still matches: 0.637 for 0.65 and 256
    # slots of 2 bits. Pairs are the more the less similar they are: with a whole error, 5 to 10 % of what is
    # found in laws and manuals would have less than 0.6.
    errors: ClassVar[float] = 0.35

    @property
    def tables(self) -> int:
        """Number of drawers of a fingerprint."""
        return len(self.layout.tables)

    def bounds(self, k: int | None, min_similarity: float | None) -> Bounds:
        """Bounds of a lookup, the profile's for None; a given k limits the reach, too. Raises UsageError for
        a k above the layout's guarantee, and for a similarity if there are no sketches."""
        if k is None:
            k = self._farthest
        else:
            require_within_guarantee(k, self.layout)
        min_similarity = self.threshold if min_similarity is None else min_similarity
        if min_similarity is None:
            return self._any_similarity(k)
        if self.sketching is None:
            raise UsageError(
                "the store keeps no sketches to estimate similarity: create one with verify=true or "
                "scheme=minhash",
                parameter="min_similarity",
            )
        return Bounds(k, _most_mismatches(self.sketching, required_similarity(min_similarity), self.errors))

    def missing(self, similarity: float | None = None) -> str | None:
        """A sentence on pairs that share no drawer, if the similarity is less than SIMILAR: there few do.
        None: that of the threshold."""
        least = self.threshold if similarity is None else similarity
        if least is None or least >= SIMILAR:
            return None
        return (
            f"of texts with a similarity below {SIMILAR:g}, drawers by SimHash may miss more than half, "
            "whatever threshold is set: the profile complete with bands=auto finds more"
        )

    def loose_bounds(self, similarity: float) -> Bounds:
        """Bounds for candidates that are then compared exactly: nearly all pairs of this similarity that the
        scheme can find are within them. Raises UsageError for a similarity outside 0 to 1."""
        _ = required_similarity(similarity)
        return self._any_similarity(self._farthest)

    def _any_similarity(self, bits: int) -> Bounds:
        numbered = self.sketching is not None and self.sketching.numbered
        return Bounds(bits, self.sketching.slots if self.sketching and numbered else None)

    @property
    def _farthest(self) -> int:
        return max(self.k, self.reach)

    def rule(self, min_similarity: float | None) -> str:
        """The bounds as text, e.g. `within 3 bits, estimated similarity >= 0.8`. min_similarity: None
        uses the profile's."""
        least = self.threshold if min_similarity is None else min_similarity
        words = self.within if least is None else f"{self.within}, estimated similarity >= {least:g}"
        return words + same_numbers(self.sketching)

    @property
    def within(self) -> str:
        """The part of the rule about bits."""
        return f"within {self._farthest} bits" + (" in a shared drawer" if self.reach > self.k else "")

    def prefixes(self, fingerprints: FingerprintBatch) -> NDArray[np.uint8]:
        """Key prefixes of the drawers of n fingerprints: uint8 (n, tables, 5)."""
        return rowkeys.prefixes(fingerprints.values, self.layout)

    def probes(self, fingerprints: FingerprintBatch) -> NDArray[np.uint8]:
        """Key prefixes of the drawers that lookups of n fingerprints read: uint8 (n, probes, 5)."""
        return rowkeys.probes(fingerprints.values, self.layout)

    def probes_of(self, text: TextFingerprint) -> list[bytes]:
        """Like probes for one text; faster than NumPy."""
        return rowkeys.probes_of(text.value, self.layout)

    def keys(self, fingerprints: FingerprintBatch) -> NDArray[np.uint8]:
        """Row keys in the drawers of n fingerprints: uint8 (n, tables, 13)."""
        return rowkeys.encode(fingerprints.values, self.layout)

    @property
    def drawer_runs(self) -> tuple[tuple[Run, ...], ...]:
        """Per table, the runs of fingerprint bits (MinHash: sketch slots) that name its drawers."""
        return self.layout.tables

    def shared_drawers(self, a: int, b: int) -> tuple[int, ...]:
        """Flags of the tables in which two fingerprints meet."""
        return _agreeing(self.layout.name, self.layout.bits, a ^ b)

    def meetings(self, a: FingerprintBatch, b: FingerprintBatch) -> list[tuple[int, ...]]:
        """Flags of the tables in which they meet, elementwise for two batches of n."""
        pairs = zip(map(to_int, a.values), map(to_int, b.values), strict=True)
        return [self.shared_drawers(*pair) for pair in pairs]

    def bits_apart(self, a: NDArray[np.uint64], b: NDArray[np.uint64]) -> Distances:
        """Differing fingerprint bits, elementwise."""
        bits: NDArray[np.uint8] = np.bitwise_count(a ^ b)
        return bits

    def bits_between(self, a: int, b: int) -> int:
        """Like bits_apart for two integers; faster than NumPy for a few."""
        return (a ^ b).bit_count()

    def distances(self, bits: Distances, mismatches: NDArray[np.int64]) -> Distances:
        """Distance of matches, given both measures."""
        return bits

    def pairs(
        self,
        fingerprints: FingerprintBatch,
        bounds: Bounds,
        progress: Progress = no_progress,
        crowds: list[NDArray[np.int64]] | None = None,
    ) -> Iterator[Pairs]:
        """All near pairs among n fingerprints, each once, unordered, in batches of bounded size.

        crowds: where to put the members of large drawers (MinHash: see `sharing_batches`, SimHash:
        CrowdedDrawers). Their pairs, which may not be near, are left out (MinHash: unless a smaller drawer
        comes first). SimHash: sketches are not compared then, as a fingerprint may have several.
        """
        k, reach = (0, bounds.bits) if self.reach > self.k else (bounds.bits, 0)
        values = fingerprints.values[:]  # they may be indexed lazily
        batches = pair_batches(values, k, self.layout, reach, progress)
        if crowds is None:
            return self._verified(batches, fingerprints.sketches, bounds)
        crowded = CrowdedDrawers(values, self.layout, self._name_bits, bounds.bits)
        crowds += crowded.drawers
        return crowded.without_mates(batches)

    def are_near(
        self, fingerprints: FingerprintBatch, bounds: Bounds, left: Numbers, right: Numbers
    ) -> NDArray[np.bool_]:
        """Which of m pairs of fingerprints that share a drawer are within bounds: bool (m,)."""
        near = distances(fingerprints.values[left], fingerprints.values[right]) <= bounds.bits
        if self.sketching is not None and bounds.mismatches is not None:
            sketches, there = fingerprints.sketches, np.flatnonzero(near)
            compared = sketches, left[there], sketches, right[there]
            near[there] = bounds.verified(self.sketching, *compared)[1]
        return near

    @property
    def _name_bits(self) -> int:
        """Maximum bits that name a drawer."""
        return SEGMENT_BITS if self.reach > self.k else WORD_BITS

    def segments(self, fingerprints: FingerprintBatch) -> NDArray[np.uint64]:
        """The drawers of n fingerprints as numbers: uint64 (n, tables)."""
        return segments(fingerprints.values, self.layout, self._name_bits)

    def mates(
        self, fingerprints: FingerprintBatch, drawers: NDArray[np.uint32], bounds: Bounds
    ) -> Iterator[Pairs]:
        """Near pairs among fingerprints that share a drawer, uint32 (n,): each pair once, in batches of at
        most n."""
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
    """Drawers are named by bands of the sketch; near texts have similar sketches.

    Has the methods of SimHashScheme.

    threshold: minimum similarity, or a RisingThreshold if sketches contain the number of features.
    """

    bands: Bands
    sketching: SketchParameters
    threshold: float | RisingThreshold
    layout: ClassVar[None] = None  # drawers depend on the sketches
    # See SimHashScheme: 0.625 for 0.65 and 256 slots of 8 bits. Their bands bring most pairs of 0.65 into one
    # drawer, which their estimates should not lose.
    errors: ClassVar[float] = 0.85

    @property
    def tables(self) -> int:
        return self.bands.number

    @property
    def listed_sketching(self) -> SketchParameters:
        return self.sketching

    def bounds(self, k: int | None, min_similarity: float | None) -> Bounds:
        """Raises UsageError for a k, which counts bits."""
        if k is not None:
            raise UsageError(
                "scheme minhash compares by similarity: give a minimum similarity instead", parameter="k"
            )
        wanted = self.threshold if min_similarity is None else min_similarity
        if isinstance(wanted, RisingThreshold):
            return Bounds(0, _most_mismatches_by_features(self.sketching, wanted))
        errors = 0 if isinstance(self.threshold, RisingThreshold) else self.errors
        return Bounds(0, _most_mismatches(self.sketching, required_similarity(wanted), errors))

    def missing(self, similarity: float | None = None) -> str | None:
        """A sentence on what share of pairs of a similarity share a drawer, if it is less than FEW_FOUND.
        None: that of the threshold, the greatest of a rising one."""
        if similarity is None:
            similarity = (
                self.threshold.most if isinstance(self.threshold, RisingThreshold) else self.threshold
            )
        found = self.bands.meeting(similarity)
        if found >= FEW_FOUND:
            return None
        return (
            f"of texts with a similarity of {similarity:g}, the bands {self.bands.name} find about "
            f"{found:.0%}, and more of those with a higher one (bands=auto takes bands for the threshold)"
        )

    def loose_bounds(self, similarity: float) -> Bounds:
        """Four standard errors of the estimate below the similarity."""
        least = max(0.0, required_similarity(similarity) - 4 * self.sketching.standard_error)
        return Bounds(0, self.sketching.most_mismatches(least))

    def rule(self, min_similarity: float | None) -> str:
        wanted = self.threshold if min_similarity is None else min_similarity
        if isinstance(wanted, RisingThreshold):
            words = f"estimated similarity >= {wanted.least:g} to {wanted.most:g} by the number of features"
        else:
            words = f"estimated similarity >= {wanted:g}"
        return words + same_numbers(self.sketching)

    def prefixes(self, fingerprints: FingerprintBatch) -> NDArray[np.uint8]:
        return self.keys(fingerprints)[..., : rowkeys.PREFIX_BYTES]

    def probes(self, fingerprints: FingerprintBatch) -> NDArray[np.uint8]:
        return self.prefixes(fingerprints)

    def probes_of(self, text: TextFingerprint) -> list[bytes]:
        sketch = np.frombuffer(text.sketch, dtype=np.uint8)[np.newaxis]
        batch = FingerprintBatch(np.array([text.value], dtype=np.uint64), sketch)
        return [prefix.tobytes() for prefix in self.probes(batch)[0]]

    def keys(self, fingerprints: FingerprintBatch) -> NDArray[np.uint8]:
        return rowkeys.encode_segments(self._segments(fingerprints), fingerprints.values)

    @property
    def drawer_runs(self) -> tuple[tuple[Run, ...], ...]:
        rows = self.bands.rows
        return tuple((Run(band * rows, rows),) for band in range(self.bands.number))

    def shared_drawers(self, a: int, b: int) -> None:
        """None: drawers depend on the sketches."""

    def meetings(self, a: FingerprintBatch, b: FingerprintBatch) -> list[tuple[int, ...]]:
        shared = self._segments(a) == self._segments(b)
        return [tuple((np.flatnonzero(flags) + 1).tolist()) for flags in shared]

    def bits_apart(self, a: NDArray[np.uint64], b: NDArray[np.uint64]) -> Distances:
        """0: fingerprints of similar texts are unrelated."""
        return np.zeros(np.broadcast_shapes(a.shape, b.shape), dtype=np.uint8)

    def bits_between(self, a: int, b: int) -> int:
        return 0

    def distances(self, bits: Distances, mismatches: NDArray[np.int64]) -> Distances:
        return mismatches

    def pairs(
        self,
        fingerprints: FingerprintBatch,
        bounds: Bounds,
        progress: Progress = no_progress,
        crowds: list[NDArray[np.int64]] | None = None,
    ) -> Iterator[Pairs]:
        # Each from the first band that they share. Sketches, which may be on the disk, are read in parts.
        sketches, bits, rows = fingerprints.sketches, self.sketching.bits, self.bands.rows
        n, segments = len(fingerprints), np.empty(len(fingerprints), dtype=np.uint32)
        with progress(COMPARED, lambda: n * self.bands.number) as advance:
            for band in range(self.bands.number):
                for start in range(0, n, _SKETCHES_AT_ONCE):
                    part = np.arange(start, min(start + _SKETCHES_AT_ONCE, n))
                    named = _core.segments(sketches[part], bits, rows, band, 1)
                    segments[part] = np.frombuffer(named, np.uint32)
                for left, right in sharing_batches(segments, crowds):
                    a, b = sketches[left], sketches[right]
                    new = np.flatnonzero(np.frombuffer(meet_first(a, b, bits, rows, band), np.bool_))
                    mismatches, few = bounds.verified(self.sketching, a, new, b, new)
                    near = new[few]
                    yield Pairs(left[near], right[near], mismatches[few])
                advance(n, (band + 1) * n)

    def are_near(
        self, fingerprints: FingerprintBatch, bounds: Bounds, left: Numbers, right: Numbers
    ) -> NDArray[np.bool_]:
        sketches = fingerprints.sketches
        return bounds.verified(self.sketching, sketches, left, sketches, right)[1]

    def segments(self, fingerprints: FingerprintBatch) -> NDArray[np.uint64]:
        return self._segments(fingerprints).astype(np.uint64)

    def mates(
        self, fingerprints: FingerprintBatch, drawers: NDArray[np.uint32], bounds: Bounds
    ) -> Iterator[Pairs]:
        for left, right in sharing_batches(drawers):
            sketches = fingerprints.sketches
            mismatches, few = bounds.verified(self.sketching, sketches, left, sketches, right)
            yield Pairs(left, right, mismatches).where(few)

    def _segments(self, fingerprints: FingerprintBatch) -> NDArray[np.uint32]:
        return banding.segments(self.bands, fingerprints.sketches, self.sketching.bits)


Scheme = SimHashScheme | MinHashScheme


def least_estimate(sketching: SketchParameters, similarity: float, errors: float) -> float:
    """The estimate from which texts match for a wanted similarity."""
    return max(0.0, similarity - errors * sketching.error_at(similarity))


@lru_cache
def _most_mismatches(sketching: SketchParameters, similarity: float, errors: float) -> int:
    return sketching.most_mismatches(least_estimate(sketching, similarity, errors))


@lru_cache
def _most_mismatches_by_features(
    sketching: SketchParameters, threshold: RisingThreshold
) -> NDArray[np.int64]:
    return np.array([sketching.most_mismatches(threshold.of(features)) for features in range(COUNTED + 1)])


def same_numbers(sketching: SketchParameters | None) -> str:
    """What a rule says of numbers."""
    return ", same numbers" if sketching is not None and sketching.numbered else ""


def required_similarity(value: float) -> float:
    """The value. Raises UsageError if it is no minimum similarity."""
    if not isinstance(value, Real) or not 0 <= value <= 1:
        raise UsageError(f"must be from 0 to 1, not {value!r}", parameter="min_similarity")
    return value


@lru_cache(1 << 16)
def _agreeing(name: str, bits: int, differing: int) -> tuple[int, ...]:
    """Flags of the tables in which two fingerprints that differ in these bits meet."""
    # By the layout's name: to hash its runs takes longer than all else here.
    flips, masks = layout(name, bits).flips, enumerate(rowkeys.segment_masks(name, bits), 1)
    return tuple(flag for flag, mask in masks if (differing & mask).bit_count() <= flips)
