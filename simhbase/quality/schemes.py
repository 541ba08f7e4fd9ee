"""The schemes that a calibration compares: the pairs each finds, and its cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from math import comb

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.join import Pairs, pair_batches
from simhbase.drawers.layout import MAX_TABLES, SEGMENT_BITS, Layout, layout
from simhbase.drawers.rowkeys import segment_masks, segments_of
from simhbase.drawers.scheme import Distances, MinHashScheme, Scheme, SimHashScheme, least_estimate
from simhbase.fingerprint.batch import FingerprintBatch, Fingerprinted
from simhbase.fingerprint.minhash import SketchParameters
from simhbase.fingerprint.sketches import pair_mismatches
from simhbase.process.parallel import map_in_threads
from simhbase.profile.profile import REACH, Profile, make_profile
from simhbase.quality.pairs import TextPairs
from simhbase.quality.truth import DrawerSizes, drawers
from simhbase.text.features import FeatureOptions

Parameters = Mapping[str, object]

MOST_BITS = REACH
SIMHASH_FEATURES: tuple[Parameters, ...] = (
    {"verify": False},
    {"verify": False, "min_length": 1},
    {"verify": False, "weights": "tfidf", "top": 64},
    {"verify": False, "features": "chars:3"},
    {"verify": False, "features": "words:2"},
)
VERIFIED_FEATURES: tuple[Parameters, ...] = ({}, {"min_length": 1})
VERIFIED_THRESHOLDS = (0.6, 0.65, 0.7, 0.75)
VERIFIED_FROM = 3  # bits: nearer pairs are nearly always right
MINHASH_BANDS = ("16x8", "20x6", "20x5", "25x5", "32x4")
SKETCH = SketchParameters()
MINHASH = Profile(scheme="minhash", slots=SKETCH.slots, sketch_bits=SKETCH.bits)
MINHASH_THRESHOLDS = (0.5, 0.6, 0.65, 0.7, 0.75, 0.8)
BY_LENGTH = make_profile({}, "short")
BY_LENGTH_BANDS = ("25x5", "32x4", "42x3")
BY_LENGTH_THRESHOLDS = (0.5, 0.6, 0.7, "0.54-0.7")
_TEXTS = 256  # per work item


@dataclass(frozen=True)
class Cost:
    """Cost of a layout. rows: index rows per document."""

    layout: str
    rows: int
    drawers: DrawerSizes


@dataclass(frozen=True)
class Setting:
    """A scheme with all parameters except the layout.

    features: readable name; fixed: parameters of a profile that differ from the defaults; near: pairs found
    without the threshold, with their estimated similarity as the score; layouts: names of possible layouts,
    fewest rows first; cost: measures a layout (cached); threshold: minimum similarity, if there is one;
    least: from a threshold to the estimate from which pairs match.
    """

    features: str
    fixed: Parameters
    near: TextPairs
    layouts: Sequence[str]
    cost: Callable[[str], Cost]
    threshold: float | str | None = None
    least: Callable[[float], float] = float

    @property
    def scheme(self) -> str:
        """As in a profile, or "verified" for simhash with verification by sketches."""
        return str(self.fixed.get("scheme", "simhash" if self.fixed.get("verify") is False else "verified"))

    @property
    def parameters(self) -> Parameters:
        return self.fixed if self.threshold is None else {**self.fixed, "threshold": self.threshold}

    @property
    def decision(self) -> str:
        """What counts as a match, as text."""
        said = {"k": "k = {}", "reach": "reach {}", "threshold": "similarity >= {}"}
        given = self.parameters
        return ", ".join(text.format(given[name]) for name, text in said.items() if name in given)

    @cached_property
    def found(self) -> TextPairs:
        if not isinstance(self.threshold, float):
            return self.near
        return self.near.where(self.near.score >= self.least(self.threshold))


@dataclass(frozen=True)
class CorpusFingerprints:
    """Fingerprints of those of n texts that have one. texts: int64 (m,), their numbers."""

    n: int
    texts: NDArray[np.int64]
    fingerprints: FingerprintBatch

    def found(self, pairs: Iterable[Pairs], sketching: SketchParameters | None = None) -> TextPairs:
        """Convert pairs of fingerprints to pairs of texts, with their distances as scores. sketching: these
        are mismatches of sketches, to be converted to similarities."""

        def score(distance: Distances) -> NDArray[np.float64]:
            if sketching is None:
                return distance.astype(np.float64)
            return sketching.similarity(distance.astype(np.int64))

        return TextPairs.of(
            self.n,
            ((self.texts[chunk.left], self.texts[chunk.right], score(chunk.distance)) for chunk in pairs),
        )

    def positions(self, near: TextPairs) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Convert pairs of texts to pairs of fingerprints; drops texts without one."""
        left, right = self._position[near.left], self._position[near.right]
        there = (left >= 0) & (right >= 0)
        return left[there], right[there]

    @cached_property
    def _position(self) -> NDArray[np.int64]:
        """Position of each text's fingerprint, -1 if it has none: int64 (n,)."""
        position = np.full(self.n, -1)
        position[self.texts] = np.arange(len(self.texts))
        return position


def fingerprint_texts(
    texts: Sequence[str], profiles: Sequence[Profile], threads: int
) -> list[CorpusFingerprints]:
    """Fingerprint texts (at least one) under each profile."""
    chunks = [texts[start : start + _TEXTS] for start in range(0, len(texts), _TEXTS)]
    fingerprinters = [profile.fingerprinter() for profile in profiles]

    def work(chunk: Sequence[str]) -> list[Fingerprinted]:
        return [each.fingerprint_many(chunk) for each in fingerprinters]

    with closing(map_in_threads(work, chunks, threads)) as results:
        by_profile = zip(*results, strict=True)
        return [_joined(len(texts), parts) for parts in by_profile]


def _joined(n: int, parts: Sequence[Fingerprinted]) -> CorpusFingerprints:
    accepted = np.concatenate([part.accepted for part in parts])
    return CorpusFingerprints(
        n, np.flatnonzero(accepted), FingerprintBatch.joined(part.fingerprints for part in parts)[accepted]
    )


def simhash_settings(
    fingerprinted: CorpusFingerprints,
    parameters: Parameters,
    near: TextPairs,
    bits: Sequence[int] = (),
) -> Iterator[Setting]:
    """Settings of SimHash at every k in `bits` (default: all), with a reach of MOST_BITS if matches are
    verified. near: the true near-duplicates, for DrawerSizes."""
    profile = make_profile(parameters)
    bits = bits or range(VERIFIED_FROM if profile.sketching else 0, MOST_BITS + 1)
    found = fingerprinted.found(pair_batches(fingerprinted.fingerprints.values, max(bits)))
    cost = cache(lambda name: _cost(fingerprinted, SimHashScheme(layout(name), 0), name, near))
    features = feature_name(profile.feature_options)
    for k in bits:
        fixed = {**parameters, "k": k}
        layouts = layouts_reaching(k)
        if profile.sketching is None:
            names = [each.name for each in layouts]
            yield Setting(features, fixed, found.where(found.score <= k), names, cost)
            continue
        left, right = fingerprinted.positions(found)
        values, sketches = fingerprinted.fingerprints.values, fingerprinted.fingerprints.sketches
        mismatches = pair_mismatches(profile.sketching, sketches, left, sketches, right)
        similar = replace(found, score=profile.sketching.similarity(mismatches))
        differing = values[left] ^ values[right]
        for each in layouts:  # with a reach, the layout decides which pairs share a drawer
            masks = np.array(segment_masks(each.name, each.bits), dtype=np.uint64)
            meeting = similar.where(np.any([differing & mask == 0 for mask in masks], axis=0))
            for threshold in VERIFIED_THRESHOLDS:
                given = {**fixed, "reach": MOST_BITS}
                least = partial(least_estimate, profile.sketching, errors=SimHashScheme.errors)
                yield Setting(features, given, meeting, [each.name], cost, threshold, least)


def minhash_settings(
    fingerprinted: CorpusFingerprints,
    near: TextPairs,
    profile: Profile = MINHASH,
    names: Iterable[str] = MINHASH_BANDS,
    thresholds: Sequence[float | str] = MINHASH_THRESHOLDS,
) -> Iterator[Setting]:
    """Settings of MinHash with a profile's features, several bands and thresholds. (Rising thresholds need a
    profile with one.)"""
    given, defaults = profile.parameters(), MINHASH.parameters()
    fixed = {
        "scheme": "minhash",
        **{name: given[name] for name in ("features", "slots") if given[name] != defaults[name]},
    }
    sketching = profile.sketching
    assert sketching is not None
    least = min(threshold for threshold in thresholds if not isinstance(threshold, str))
    for name in names:
        scheme = make_profile({**given, "bands": name}).index_scheme
        found = fingerprinted.found(
            scheme.pairs(fingerprinted.fingerprints, scheme.bounds(None, least)), sketching
        )
        cost = {name: _cost(fingerprinted, scheme, name, near)}.__getitem__
        for threshold in thresholds:
            if isinstance(threshold, str):
                rising = make_profile({**given, "bands": name, "threshold": threshold})
                found_rising = pairs_found_by(rising, fingerprinted, None)
                yield Setting(profile.features, fixed, found_rising, [name], cost, threshold)
            else:
                estimate = partial(least_estimate, sketching, errors=MinHashScheme.errors)
                yield Setting(profile.features, fixed, found, [name], cost, threshold, estimate)


def pairs_found_by(
    profile: Profile, fingerprinted: CorpusFingerprints, min_similarity: float | None
) -> TextPairs:
    """All pairs that a store with this profile would find. Raises UsageError for a similarity if the profile
    has no sketches."""
    scheme = profile.index_scheme
    bounds = scheme.bounds(None, min_similarity)
    return fingerprinted.found(scheme.pairs(fingerprinted.fingerprints, bounds))


def _cost(fingerprinted: CorpusFingerprints, scheme: Scheme, name: str, near: TextPairs) -> Cost:
    segments = segments_of(scheme.prefixes(fingerprinted.fingerprints)).astype(np.uint64)
    return Cost(name, scheme.tables, drawers(segments.T, *fingerprinted.positions(near)))


def layouts_reaching(k: int) -> list[Layout]:
    """Layouts that guarantee exactly k bits, fewest rows first, up to the first whose drawers use all bits of
    a segment."""
    reach = max(k, 1)
    found = []
    for chosen in range(1, SEGMENT_BITS):
        if comb(reach + chosen, chosen) > MAX_TABLES:
            break
        choice = layout(f"{reach + chosen}x{chosen}")
        found.append(choice)
        if min(sum(run.width for run in table) for table in choice.tables) >= SEGMENT_BITS:
            break
    return found


def feature_name(options: FeatureOptions) -> str:
    """Readable name of features, such as: words, saturated; words, tfidf, top 64; chars:3."""
    if options.kind != "words":
        return options.kind
    short = ", also of 1 character" if options.min_length == 1 else ""
    top = f", top {options.top}" if options.top else ""
    return f"words{short}, {options.weights}{top}"
