"""Matching of documents without a store: criteria, and exact similarity of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Self, cast

import mmh3
import numpy as np
from numpy.typing import NDArray

from simhbase.deduplication.evidence import Rule
from simhbase.drawers.bands import CORPUS_RECALL, Bands, bands_for
from simhbase.drawers.groups import ExactSimilarity
from simhbase.drawers.join import default_layout
from simhbase.drawers.scheme import (
    Bounds,
    MinHashScheme,
    Scheme,
    SimHashScheme,
    required_similarity,
    same_numbers,
)
from simhbase.drawers.threshold import RisingThreshold
from simhbase.errors import UsageError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.model.thresholds import SIMILAR
from simhbase.process.slices import Numbers, bounded_slices
from simhbase.process.spool import Spool, SpooledRows
from simhbase.profile.profile import (
    CORPUS_SLOTS,
    TABLE_BITS,
    Profile,
    given_parameters,
    make_profile,
    with_corpus_defaults,
    without_sketches,
)
from simhbase.text.difference import repeats_itself
from simhbase.text.feature_extractor import FeatureExtractor

BYTES_AT_ONCE = 1 << 19  # of texts compared at once; their shingles take dozens of times as much

# Of pairs of texts, given by their positions (m,) among the texts: float64 (m,).
Measure = Callable[
    [FeatureExtractor, Sequence[str], NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]
]


@dataclass(frozen=True)
class MatchCriteria:
    """Which documents match. any_layout: choose the layout by the number of documents."""

    profile: Profile
    chosen: Scheme
    bounds: Bounds
    any_layout: bool

    @classmethod
    def of(cls, profile: Profile | Mapping[str, object] | None, min_similarity: float | None) -> Self:
        """Criteria by a profile, or some of its parameters by name. Raises UsageError for bounds that the
        profile cannot guarantee."""
        if min_similarity is not None:
            _ = required_similarity(min_similarity)
        given = dict(given_parameters(profile))
        any_layout = given.get("scheme", "simhash") == "simhash" and "layout" not in given
        k, bits = given.get("k"), given.get("bits", TABLE_BITS)
        if any_layout and isinstance(k, int) and isinstance(bits, int):  # what else they are is told below
            given["layout"] = default_layout(k, 0, bits).name
        chosen = make_profile(given)
        scheme = chosen.index_scheme
        if isinstance(scheme, MinHashScheme) and min_similarity and given.get("bands") is None:
            slots = min(scheme.sketching.slots, CORPUS_SLOTS)
            scheme = replace(scheme, bands=_bands_for_corpus(min_similarity, slots))
        # With a reach, results depend on the layout, so it must not change.
        any_layout &= isinstance(scheme, SimHashScheme) and scheme.reach <= scheme.k
        bounds = scheme.bounds(None, None) if min_similarity is None else scheme.loose_bounds(min_similarity)
        return cls(chosen, scheme, bounds, any_layout)

    @classmethod
    def exact(
        cls,
        profile: Profile | Mapping[str, object] | None,
        min_similarity: float | None,
        *,
        of_texts: bool = True,
    ) -> tuple[Self, float]:
        """Criteria for texts that are compared exactly (see `with_corpus_defaults`), and their minimum
        similarity: `min_similarity`, or by default the profile's threshold or SIMILAR; 0 if only fingerprints
        decide. of_texts: False for inputs with fingerprints. Raises UsageError."""
        if not of_texts:
            criteria = cls.of(without_sketches(given_parameters(profile)), None)
            if min_similarity or criteria.profile.sketching is not None:
                raise UsageError(
                    "similarity cannot be computed from fingerprints: give the texts",
                    parameter="fingerprint_field",
                )
            return criteria, 0.0
        profile = with_corpus_defaults(given_parameters(profile))
        by_fingerprints = cls.of(profile, None)
        least = min_similarity
        if least is None:
            threshold = by_fingerprints.chosen.threshold
            if isinstance(threshold, RisingThreshold):  # sketches decide: they have the number of features
                return by_fingerprints, threshold.least
            least = threshold or SIMILAR
        return cls.of(profile, least) if least else by_fingerprints, least

    def scheme(self, n: int) -> Scheme:
        if not self.any_layout:
            return self.chosen
        assert isinstance(self.chosen, SimHashScheme)
        k, bits = self.chosen.k, self.chosen.layout.bits
        return replace(self.chosen, layout=default_layout(k, n, bits))

    def require_containment(self, share: float, least: float, *, chains: bool) -> None:
        """Raise UsageError if a minimum containment is out of range, or cannot be known. least: minimum
        similarity of texts; chains: groups are connected components."""
        reason = None
        if not isinstance(share, Real) or not 0 < share <= 1:
            reason = f"must be above 0, up to 1, not {share!r}"
        elif not least:
            reason = "needs texts that are compared, and a minimum similarity of 0 compares none"
        elif not FeatureExtractor(self.profile.shingles).measures_containment:
            reason = "needs longer texts than the profile short is for: a changed word breaks all their runs"
        elif chains:
            reason = "needs one document that the others are compared with, which chains do not have"
        if reason:
            raise UsageError(reason, parameter="min_containment")

    def rule(self, least: float, min_containment: float | None = None, *, chains: bool) -> Rule:
        """The criteria as text. least: minimum exact similarity, 0 if texts are not compared;
        min_containment: of a removed text in the kept one; chains: groups are connected components."""
        if not least:
            return Rule(self.chosen.rule(None), chains=chains)
        # Sketches with a constant bound only select what is compared, so they are not part of the rule.
        by_features = isinstance(self.bounds.mismatches, np.ndarray)
        found = [self.chosen.rule(None)] if by_features else []
        if isinstance(self.chosen, SimHashScheme):
            found = [self.chosen.within]
        exact = f"Jaccard >= {least:g}{'' if by_features else same_numbers(self.chosen.sketching)}"
        contained = [] if min_containment is None else [f"containment >= {min_containment:g}"]
        return Rule(", ".join([*found, exact, *contained]), chains=chains, compares_texts=True)

    @property
    def nothing(self) -> FingerprintBatch:
        values = np.zeros((0, 2) if self.profile.bits == 128 else 0, dtype=np.uint64)
        sketching = self.profile.sketching
        return FingerprintBatch(values, np.zeros((0, sketching.bytes if sketching else 0), dtype=np.uint8))


def _bands_for_corpus(least: float, slots: int) -> Bands:
    """The bands that serve a minimum similarity, as there are no stored ones: at least those for SIMILAR."""
    try:
        return bands_for(min(least, SIMILAR), slots, CORPUS_RECALL)
    except UsageError:  # even bands of one slot miss some
        return Bands(slots, 1)


class SpooledTexts:
    """Texts on disk, their exact similarity and their containment. least: minimum similarity of matches, 0 if
    they do not depend on it; min_containment: of a removed text in the kept one, None if it does not count.

    digests: of the texts, uint64 (n, 2), read from disk when they are indexed.
    """

    def __init__(
        self, profile: Profile, least: float, folder: Path, min_containment: float | None = None
    ) -> None:
        self.least, self.min_containment = least, min_containment
        self._texts = Spool(folder)
        self._digests = SpooledRows(folder, np.empty((0, 2), dtype=np.uint64))
        self.digests = cast(NDArray[np.uint64], self._digests)
        self.variants = profile.variants
        self._extractor = FeatureExtractor(profile.shingles)

    def close(self) -> None:
        self._texts.close()
        self._digests.close()

    def append(self, texts: Iterable[str]) -> None:
        encoded = [text.encode(errors="surrogatepass") for text in texts]
        self._texts.append(encoded)
        digests = b"".join(map(mmh3.mmh3_x64_128_digest, encoded))
        self._digests.append(np.frombuffer(digests, dtype=np.uint64).reshape(-1, 2))

    def exact(self) -> ExactSimilarity:
        """The exact similarity that matches of these texts need."""
        contains = None if self.min_containment is None else self._contains
        return ExactSimilarity(self.least, self.digests, self.similarity, contains)

    def read(self, numbers: Sequence[int]) -> list[str]:
        return [text.decode(errors="surrogatepass") for text in self._texts.read(numbers)]

    def repeats(self, number: int) -> bool:
        """True if a text repeats itself so much that similarity means little."""
        (text,) = self.read([number])
        return repeats_itself(text, self.variants)

    def similarity(
        self,
        left: Numbers,
        right: Numbers,
        more: Sequence[str] = (),
        measure: Measure = FeatureExtractor.similarity,
    ) -> NDArray[np.float64]:
        """Exact Jaccard similarity of m pairs of texts, or another measure: positions (m,) -> float64 (m,).
        more: further texts, not on disk, at the positions -1, -2 and so on."""
        found, both = np.empty(len(left)), np.concatenate([left, right])
        sizes, are_more = np.empty(len(both), dtype=np.int64), both < 0
        sizes[~are_more] = self._texts.sizes(both[~are_more])
        sizes[are_more] = [len(more[number]) for number in (~both[are_more]).tolist()]
        for chunk in bounded_slices(sizes.reshape(2, -1).sum(axis=0), BYTES_AT_ONCE):
            wanted, places = np.unique([left[chunk], right[chunk]], return_inverse=True)
            others, here = np.split(wanted, [np.searchsorted(wanted, 0)])
            texts = [more[number] for number in (~others).tolist()] + self.read(here.tolist())
            found[chunk] = measure(self._extractor, texts, *places.reshape(2, -1))
        return found

    def containment(self, left: Numbers, right: Numbers) -> NDArray[np.float64] | None:
        """Share of the characters of each left text that the right one has, of m pairs: positions (m,) ->
        float64 (m,). None if the profile measures none."""
        if not self._extractor.measures_containment:
            return None
        found = np.ones(len(left))
        different = (self.digests[left] != self.digests[right]).any(axis=1)
        found[different] = self.similarity(
            left[different], right[different], measure=FeatureExtractor.containment
        )
        return found

    def _contains(self, kept: Numbers, removed: Numbers) -> NDArray[np.bool_]:
        """Whether the kept text of each of m pairs has enough of the removed one: bool (m,)."""
        assert self.min_containment is not None
        enough: NDArray[np.bool_] = (
            self.similarity(removed, kept, measure=FeatureExtractor.containment) >= self.min_containment
        )
        return enough
