"""The schemes that are compared: what each finds among texts, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import islice
from math import comb

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.join import Pairs, pair_batches
from simhbase.drawers.layout import MAX_TABLES, SEGMENT_BITS, Layout, layout
from simhbase.drawers.rowkeys import segments_of
from simhbase.drawers.scheme import Distances, Scheme, SimHashScheme
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.minhash import SketchParameters
from simhbase.fingerprint.pipeline import Fingerprinted
from simhbase.parallel import map_in_order
from simhbase.profile import Profile, make_profile
from simhbase.quality.exact_join import SimilarPairs
from simhbase.quality.truth import DrawerSizes, FoundPairs, drawers

Parameters = Mapping[str, object]

MOST_BITS = 7
SIMHASH_FEATURES: tuple[Parameters, ...] = (
    {},
    {"min_length": 1},
    {"weights": "tfidf", "top": 64},
    {"features": "chars:3"},
    {"features": "words:2"},
)
VERIFIED_FEATURES = SIMHASH_FEATURES[:2]
VERIFIED_THRESHOLDS = (0.65, 0.7, 0.75)
_VERIFIED = Profile(verify=True)
VERIFIED_FROM = 3  # bits: what is nearer is right nearly always
MINHASH_BANDS = ("16x8", "20x6", "25x5", "32x4")
SKETCH = SketchParameters()
MINHASH = Profile(scheme="minhash", slots=SKETCH.slots, sketch_bits=SKETCH.bits)
MINHASH_THRESHOLDS = (0.5, 0.65, 0.7, 0.75, 0.8)
BY_LENGTH = make_profile({}, "short")
BY_LENGTH_BANDS = ("25x5", "32x4", "42x3")
BY_LENGTH_THRESHOLDS = (0.5, 0.6, 0.7, BY_LENGTH.threshold)
_TEXTS = 256  # sent to a worker at once


@dataclass(frozen=True)
class Cost:
    """A layout of drawers: its name, the rows a document takes in the index, and how full it gets."""

    layout: str
    rows: int
    drawers: DrawerSizes


@dataclass(frozen=True)
class Setting:
    """One scheme with all its parameters but the layout: `layouts` names those that serve, fewest rows
    first, and `cost` measures one (and remembers it); where a similarity decides that can be any number,
    `threshold` is it, and `at` makes the same setting with another one, no lower than any of its grid.

    scheme: as in a profile, and verified for simhash with matches verified by their sketches;
    features and decision say in words what is compared and what counts as near; parameters are those
    of a profile that differ from its defaults.
    """

    scheme: str
    features: str
    decision: str
    parameters: Parameters
    found: FoundPairs
    layouts: Sequence[str]
    cost: Callable[[str], Cost]
    threshold: float | None = None
    at: Callable[[float], Setting] | None = None


@dataclass(frozen=True)
class CorpusFingerprints:
    """What was made of those of n texts that have a fingerprint: texts int64 (m,), and their
    fingerprints."""

    n: int
    texts: NDArray[np.int64]
    fingerprints: FingerprintBatch

    def found(self, pairs: Iterable[Pairs], score: Callable[[Distances], NDArray[np.float64]]) -> FoundPairs:
        """Pairs of fingerprints as pairs of texts; score makes one of a distance."""
        return FoundPairs.gathered(
            self.n,
            ((self.texts[chunk.left], self.texts[chunk.right], score(chunk.distance)) for chunk in pairs),
        )

    def similarity(self, found: FoundPairs, sketching: SketchParameters) -> NDArray[np.float64]:
        """What the sketches tell of pairs of texts that were found: float64 (m,)."""
        left, right = self._position[found.left], self._position[found.right]
        return sketching.similarity(
            sketching.mismatches_among(self.fingerprints.sketches, left, self.fingerprints.sketches, right)
        )

    def positions(self, near: SimilarPairs) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pairs of texts as pairs of fingerprints; those of a text without are left out."""
        left, right = self._position[near.left], self._position[near.right]
        there = (left >= 0) & (right >= 0)
        return left[there], right[there]

    @cached_property
    def _position(self) -> NDArray[np.int64]:
        """Of each text the position of its print, -1 of those without."""
        position = np.full(self.n, -1)
        position[self.texts] = np.arange(len(self.texts))
        return position


@dataclass(frozen=True)
class _ByProfiles:
    """Texts -> their fingerprints under several profiles. Cheap to send to another process."""

    profiles: Sequence[Profile]

    def __call__(self, texts: Sequence[str]) -> list[Fingerprinted]:
        return [work(texts) for work in self._pipelines]

    @cached_property
    def _pipelines(self) -> list[Callable[[Sequence[str]], Fingerprinted]]:
        return [profile.fingerprinter().fingerprint_many for profile in self.profiles]


def fingerprint_texts(
    texts: Sequence[str], profiles: Sequence[Profile], processes: int
) -> list[CorpusFingerprints]:
    """What n texts, of which there is one at least, become under each profile."""
    chunks = [texts[start : start + _TEXTS] for start in range(0, len(texts), _TEXTS)]
    with closing(map_in_order(_ByProfiles(profiles), chunks, processes)) as results:
        by_lot = list(results)
    return [_joined(len(texts), [of_chunk[number] for of_chunk in by_lot]) for number in range(len(profiles))]


def _joined(n: int, parts: Sequence[Fingerprinted]) -> CorpusFingerprints:
    accepted = np.concatenate([part.accepted for part in parts])
    return CorpusFingerprints(
        n, np.flatnonzero(accepted), FingerprintBatch.joined(part.fingerprints for part in parts)[accepted]
    )


def simhash_settings(
    fingerprinted: CorpusFingerprints,
    parameters: Parameters,
    near: SimilarPairs,
    bits: Sequence[int] = range(MOST_BITS + 1),
) -> Iterator[Setting]:
    """SimHash with these parameters at every k of `bits`; near: the near-duplicates, see DrawerSizes."""
    found = fingerprinted.found(pair_batches(fingerprinted.fingerprints.values, max(bits)), _bits)
    cost = cache(lambda name: _cost(fingerprinted, SimHashScheme(layout(name), 0), name, near))
    for k in bits:
        yield Setting(
            "simhash",
            features_in_words(parameters),
            f"k = {k}",
            {**parameters, "k": k, "verify": False},
            found.where(found.score <= k),
            [choice.name for choice in layouts_reaching(k)],
            cost,
        )


def verified_settings(fingerprinted: CorpusFingerprints, simhash: Sequence[Setting]) -> Iterator[Setting]:
    """The same settings, one for each k from 0 on, with what they find verified by the sketches."""
    widest = simhash[-1].found
    similarity = fingerprinted.similarity(widest, SketchParameters(_VERIFIED.slots, _VERIFIED.sketch_bits))
    for k, each in islice(enumerate(simhash), VERIFIED_FROM, None):
        at = partial(_verified, each, widest, widest.score <= k, similarity)
        for threshold in VERIFIED_THRESHOLDS:
            yield at(threshold)


def _verified(
    plain: Setting,
    widest: FoundPairs,
    within: NDArray[np.bool_],
    similarity: NDArray[np.float64],
    threshold: float,
) -> Setting:
    """A setting with what it finds, those of `widest` that are `within`, verified from a similarity on."""
    return replace(
        plain,
        scheme="verified",
        decision=f"{plain.decision}, similarity >= {threshold}",
        parameters={
            "weights": "saturated",
            **plain.parameters,
            "verify": True,
            "threshold": threshold,
            "reach": plain.parameters["k"],
        },
        found=widest.where(within & (similarity >= threshold)),
        threshold=threshold,
        at=partial(_verified, plain, widest, within, similarity),
    )


def minhash_settings(
    fingerprinted: CorpusFingerprints,
    near: SimilarPairs,
    profile: Profile = MINHASH,
    names: Iterable[str] = MINHASH_BANDS,
    thresholds: Sequence[float | str] = MINHASH_THRESHOLDS,
) -> Iterator[Setting]:
    """MinHash with a profile's features, several bands, and the thresholds that decide about what shares
    one: one that rises only if the profile's does."""
    of_sketches = {
        name: getattr(profile, name)
        for name in ("features", "slots")
        if getattr(profile, name) != getattr(MINHASH, name)
    }
    sketching = profile.sketching
    assert sketching is not None
    least = min(threshold for threshold in thresholds if not isinstance(threshold, str))
    for name in names:
        banded = replace(profile, bands=name)
        found = fingerprinted.found(
            banded.index_scheme.pairs(fingerprinted.fingerprints, banded.index_scheme.bounds(None, least)),
            partial(_similarity, sketching),
        )
        cost = _cost(fingerprinted, banded.index_scheme, name, near)
        common = Setting(
            "minhash",
            profile.features,
            "",
            {"scheme": "minhash", **of_sketches},
            found,
            [name],
            {name: cost}.__getitem__,
        )
        for threshold in thresholds:
            if isinstance(threshold, str):
                rising = replace(banded, threshold=threshold)
                yield _decided(common, near_under(rising, fingerprinted, None), threshold)
            else:
                yield _from_similarity(common, threshold)


def _decided(setting: Setting, found: FoundPairs, threshold: float | str) -> Setting:
    """What a setting is with a threshold, by which it finds these pairs."""
    return replace(
        setting,
        decision=f"similarity >= {threshold}",
        parameters={**setting.parameters, "threshold": threshold},
        found=found,
    )


def _from_similarity(common: Setting, threshold: float) -> Setting:
    """The setting that takes of what `common` finds all that is so similar."""
    decided = _decided(common, common.found.where(common.found.score >= threshold), threshold)
    return replace(decided, threshold=threshold, at=partial(_from_similarity, common))


def near_under(
    profile: Profile, fingerprinted: CorpusFingerprints, min_similarity: float | None
) -> FoundPairs:
    """All pairs that a store with this profile would find. Raises UsageError for a similarity where
    nothing tells it."""
    scheme = profile.index_scheme
    return fingerprinted.found(
        scheme.pairs(fingerprinted.fingerprints, scheme.bounds(None, min_similarity)), _bits
    )


def _bits(distances: Distances) -> NDArray[np.float64]:
    return distances.astype(np.float64)


def _similarity(sketching: SketchParameters, mismatches: Distances) -> NDArray[np.float64]:
    return sketching.similarity(mismatches.astype(np.int64))


def _cost(fingerprinted: CorpusFingerprints, scheme: Scheme, name: str, near: SimilarPairs) -> Cost:
    segments = segments_of(scheme.prefixes(fingerprinted.fingerprints)).astype(np.uint64)
    return Cost(name, scheme.tables, drawers(segments.T, *fingerprinted.positions(near)))


def layouts_reaching(k: int) -> list[Layout]:
    """The layouts that find every pair within k bits and no more, fewest rows first, up to the first
    whose drawers are named by all the bits a segment has."""
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


def features_in_words(parameters: Parameters) -> str:
    """What a profile's parameters say about features: words, saturated; words, tfidf, top 64; chars:3."""
    kind = str(parameters.get("features", "words"))
    if kind != "words":
        return kind
    short = ", also of 1 character" if parameters.get("min_length") == 1 else ""
    top = f", top {parameters['top']}" if "top" in parameters else ""
    return f"words{short}, {parameters.get('weights', 'saturated')}{top}"
