"""How good a store is, or a profile for a corpus, by pairs that somebody says are duplicates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from simhbase.errors import BadInput
from simhbase.index import Index
from simhbase.profile import Profile
from simhbase.quality.estimates import Estimate
from simhbase.quality.found import Found, Truth
from simhbase.quality.jaccard import jaccard, shingle_sets
from simhbase.quality.join import SimilarPairs
from simhbase.quality.labels import Labels, labelled_pairs
from simhbase.quality.report import bin_name, share
from simhbase.quality.sample import Sample
from simhbase.quality.schemes import fingerprint_texts, near_under

BINS = ((0.0, 0.5), (0.5, 0.6), (0.6, 0.7), (0.7, 0.75), (0.75, 0.8), (0.8, 0.9), (0.9, 1.0))
_AT_ONCE = 1000  # lookups in one read


@dataclass(frozen=True)
class Evaluation:
    """Figures against given pairs.

    pairs: how many were given, found: how many of any kind were found; by_bin: recall of the given
    pairs by their Jaccard similarity, empty where that is not known; recall: of all of them; precision:
    the share of what was found that is right; truncated: lookups that a limit has cut.
    """

    pairs: int
    found: int
    by_bin: Mapping[str, Estimate]
    recall: Estimate | None
    precision: Estimate | None
    truncated: int = 0

    def by_name(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "pairs": self.pairs,
            "found": self.found,
            "recall": {name: share(of_bin) for name, of_bin in self.by_bin.items()}
            | {"all": share(self.recall)},
            "precision": share(self.precision),
            "truncated": self.truncated,
        }


def evaluate_store(
    index: Index, labels: Labels, k: int | None, min_similarity: float | None, right: float
) -> Evaluation:
    """Looks every document that the labels name up in a store. Raises BadInput for ids not stored.

    What is found beside the given pairs is not judged: nobody knows whether it is right.
    """
    sample = Sample.of_all(labels.ids)
    pairs = _given_pairs(labels, sample)
    found, truncated = _looked_up(index, sample, k, min_similarity)
    judged = found.where(
        Found(found.n, pairs.left, pairs.right, pairs.jaccard).places(found.left, found.right) >= 0
    )
    truth = Truth(pairs, pairs if labels.jaccard is None else pairs.of_at_least(right), sample)
    return _evaluation(truth, found, judged, labels.jaccard is not None, truncated)


def evaluate_corpus(
    sample: Sample,
    labels: Labels,
    profile: Profile,
    min_similarity: float | None,
    right: float,
    processes: int,
) -> Evaluation:
    """Compares the texts of a corpus with each other. What is found is right if its exact Jaccard
    similarity says so. Raises BadInput for ids that the corpus does not have."""
    labels.places(sample)
    sets = shingle_sets(sample.texts)
    (printed,) = fingerprint_texts(sample.texts, [profile], processes)
    found = near_under(profile, printed, min_similarity)
    exact = SimilarPairs(found.left, found.right, jaccard(sets, found.left, found.right))
    truth = Truth(labelled_pairs(labels, sample, sets), exact.of_at_least(right), sample)
    return _evaluation(truth, found, found, has_similarity=True)


def _evaluation(
    truth: Truth, found: Found, judged: Found, has_similarity: bool, truncated: int = 0
) -> Evaluation:
    measured = {bin_name(*bounds): truth.recall(found, *bounds) for bounds in BINS if has_similarity}
    return Evaluation(
        len(truth.pairs.left),
        len(found.left),
        {name: of_bin for name, of_bin in measured.items() if of_bin is not None},
        truth.recall(found, 0.0, 1.0),
        truth.precision(judged),
        truncated,
    )


def _given_pairs(labels: Labels, sample: Sample) -> SimilarPairs:
    left, right = labels.places(sample)
    pairs, first = np.unique(np.stack([left, right], axis=1), axis=0, return_index=True)
    similarity = np.ones(len(left)) if labels.jaccard is None else labels.jaccard
    return SimilarPairs(pairs[:, 0], pairs[:, 1], similarity[first])


def _looked_up(
    index: Index, sample: Sample, k: int | None, min_similarity: float | None
) -> tuple[Found, int]:
    """The pairs of these documents that a store finds, and how many lookups were truncated."""
    ids = list(sample.places)
    stored = index.fingerprints(ids)
    missing = [name for name, fingerprint in zip(ids, stored, strict=True) if fingerprint is None]
    if missing:
        shown = ", ".join(map(repr, missing[:5]))
        raise BadInput(
            f"the pairs name {len(missing):,} ids of {len(ids):,} that are not stored in {index.store.url}: "
            f"{shown}{', ...' if len(missing) > 5 else ''}. Is it the right store, and --id-prefix the same?"
        )
    fingerprints = np.array(stored, dtype=np.uint64)
    pairs: dict[tuple[int, int], float] = {}
    truncated = 0
    for start in range(0, len(ids), _AT_ONCE):
        lookups = index.find_fingerprints(fingerprints[start : start + _AT_ONCE], k, min_similarity)
        for place, lookup in enumerate(lookups, start):
            truncated += lookup.truncated
            others = ((sample.places.get(match.id), match.distance) for match in lookup.matches)
            pairs |= {
                (min(place, other), max(place, other)): float(distance)
                for other, distance in others
                if other is not None and other != place
            }
    keys = np.array(list(pairs), dtype=np.int64).reshape(-1, 2)
    return Found.gathered(len(ids), [(keys[:, 0], keys[:, 1], np.array(list(pairs.values())))]), truncated
