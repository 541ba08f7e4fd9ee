"""Compares two texts under a profile, without a store."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from simhbase.drawers.scheme import Scheme
from simhbase.errors import UsageError
from simhbase.fingerprint.batch import FingerprintBatch, to_int
from simhbase.fingerprint.pipeline import Fingerprinter
from simhbase.model.explanations import Comparison, Stretch
from simhbase.model.values import Fingerprint
from simhbase.profile.profile import Profile, given_parameters, make_profile
from simhbase.text.difference import difference, notes
from simhbase.text.feature_extractor import FeatureExtractor

_FIRST, _SECOND = np.array([0]), np.array([1])
_BOTH, _OTHERS = np.array([0, 1]), np.array([1, 0])

_Nearness = tuple[int | None, float | None, tuple[int, ...], bool]  # distance, similarity, drawers, match
_NOT_COMPARED: _Nearness = (None, None, (), False)


def compare(left: str, right: str, profile: Profile | Mapping[str, object] | None = None) -> Comparison:
    """Compare two texts, and show where they differ.

    profile: a Profile, or some of its parameters by name. Raises UsageError.
    """
    chosen = make_profile(given_parameters(profile))
    return compare_by(chosen, chosen.fingerprinter(), left, right)


def compare_by(profile: Profile, fingerprinter: Fingerprinter, left: str, right: str) -> Comparison:
    """Compare two texts with a fingerprinter of the profile. Raises UsageError for values that are not
    strings."""
    for text in (left, right):
        if not isinstance(text, str):
            raise UsageError(f"compare takes two strings, not {type(text).__name__}")
    scheme = profile.index_scheme
    found = fingerprinter.fingerprint_many([left, right])
    distance, similarity, drawers, match = (
        _nearness(scheme, found.fingerprints) if found.accepted.all() else _NOT_COMPARED
    )
    values = [Fingerprint(to_int(value)) for value in found.values]
    one, other = (None if reason else value for value, reason in zip(values, found.reasons, strict=True))
    extractor = FeatureExtractor(profile.shingles)
    exact = extractor.similarity([left, right], _FIRST, _SECOND)
    contained = None
    if extractor.measures_containment:
        of_left, of_right = extractor.containment([left, right], _BOTH, _OTHERS).tolist()
        contained = of_left, of_right
    differ = difference(left, right, variants=profile.variants)
    return Comparison(
        fingerprints=(one, other),
        reasons=(found.reasons[0], found.reasons[1]),
        distance=distance,
        similarity=similarity,
        jaccard=float(exact[0]),
        containment=contained,
        notes=notes(left, right, differ, profile.variants),
        drawers=drawers,
        drawer_count=scheme.tables,
        match=match,
        stretches=tuple(
            Stretch(each.same, left[slice(*each.left)], right[slice(*each.right)])
            for each in differ.stretches
        ),
        words=differ.words,
        more_words=differ.more_words,
        whole=differ.whole,
    )


def _nearness(scheme: Scheme, fingerprints: FingerprintBatch) -> _Nearness:
    bounds = scheme.bounds(None, None)
    bits = scheme.bits_between(*map(to_int, fingerprints.values))
    (drawers,) = scheme.meetings(fingerprints[:1], fingerprints[1:])
    match = bits <= bounds.bits and bool(drawers)
    if scheme.sketching is None:
        return bits, None, drawers, match
    sketches = fingerprints.sketches
    mismatches, few = bounds.verified(scheme.sketching, sketches, _FIRST, sketches, _SECOND)
    distance = int(scheme.distances(np.array([bits]), mismatches)[0])
    return distance, float(scheme.sketching.similarity(mismatches)[0]), drawers, match and bool(few[0])
