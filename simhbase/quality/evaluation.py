"""Measures recall and precision of a store or a profile against labelled pairs of duplicates."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from simhbase.corpus.inputs import Inputs
from simhbase.corpus.rejects import Counts
from simhbase.errors import BadInput, UsageError
from simhbase.index import Index, open_index
from simhbase.model.thresholds import RIGHT
from simhbase.model.values import Query
from simhbase.profile.profile import Profile, given_parameters, make_profile
from simhbase.quality.labels import Labels, labelled_pairs, read_labels
from simhbase.quality.pairs import TextPairs
from simhbase.quality.report import TRUTHS
from simhbase.quality.sample import Sample, read_sample
from simhbase.quality.schemes import fingerprint_texts, pairs_found_by
from simhbase.quality.truth import Quality, Truth
from simhbase.text.jaccard import shingle_sets

BINS = ((0.0, 0.5), (0.5, 0.6), (0.6, 0.65), (0.65, 0.7), (0.7, 0.75), (0.75, 0.8), (0.8, 0.9), (0.9, 1.0))
_AT_ONCE = 1000  # lookups in one read


@dataclass(frozen=True, kw_only=True)
class Evaluation(Quality):
    """Recall and precision against labelled pairs. by_bin is empty if their similarity is not known.

    truncated: truncated lookups. For files: copies: documents with the same text as another, whose pairs are
    left out; truth: the kind of similarity; counts: rejected records and unreadable sources, by kind.
    """

    truncated: int = 0
    copies: int = 0
    truth: str | None = None
    counts: Counts = field(default_factory=Counts)

    def as_dict(self) -> dict[str, Any]:
        return {
            "pairs": self.pairs,
            "found": self.found,
            **super().as_dict(),
            "truncated": self.truncated,
            **({"truth": self.truth} if self.truth else {}),
        }


def evaluate(
    pairs: str | Path,
    inputs: Inputs | str | Path | Sequence[str | Path] | None = None,
    *,
    store: str | None = None,
    scope: str | None = None,
    profile: Profile | Mapping[str, object] | None = None,
    min_similarity: float | None = None,
    right: float = RIGHT,
) -> Evaluation:
    """Measure recall and precision against labelled pairs, in files or in a store.

    pairs: a file with two ids on each line, separated by a tab; or a Jaccard similarity and two ids; or with
    a header that names the columns id_a, id_b and jaccard. inputs: documents to compare with each other under
    a profile, or some of its parameters by name. A found pair is right if its exact Jaccard similarity is
    `right` or more (of growing shingles; of pairs of characters if half of the texts have at most 140
    characters).
    store: URL of a store in which to look up the documents of the pairs instead; scope: within it. Then
    precision counts only labelled pairs, and only k of the profile can be given. min_similarity: minimum
    similarity of matches, estimated by sketches.

    Raises UsageError for invalid arguments, before anything is read; BadInput for unknown ids;
    TooManyRejects; for a store, the errors of `simhbase.open`.
    """
    if (inputs is None) == (store is None):
        raise UsageError("give either inputs (documents to compare) or a store")
    if scope is not None and store is None:
        raise UsageError("is one of a store, and files are compared", parameter="scope")
    if store is not None:
        given = dict(given_parameters(profile))
        query = Query(given.pop("k", None), min_similarity)  # type: ignore[arg-type]  # lookups check it
        labels = read_labels(Path(pairs))
        if given:
            raise UsageError(f"the store has its own profile: leave out {', '.join(given)}, or give files")
        if right != RIGHT and labels.jaccard is None:
            raise UsageError("has no effect on pairs without a similarity: leave it out", parameter="right")
        with open_index(store, access="read", scope=scope) as index:
            return evaluate_store(index, labels, query, right)
    assert inputs is not None
    inputs = Inputs.of(inputs)
    inputs.require_outputs()
    labels = read_labels(Path(pairs))
    made = make_profile(given_parameters(profile))
    _ = made.index_scheme.bounds(None, min_similarity)  # validates before anything is read
    with inputs.noting_rejects() as rejects:
        sample = read_sample(inputs, sys.maxsize, 0, rejects)
    found = evaluate_corpus(sample, labels, made, min_similarity, right, inputs.threads)
    return replace(found, copies=sample.copies, counts=rejects.counts)


def evaluate_store(index: Index, labels: Labels, query: Query, right: float) -> Evaluation:
    """Look up all labelled documents in a store. Raises BadInput for ids that are not stored.

    Precision ignores found pairs that are not labelled, because it is not known if they are right.
    """
    sample = Sample.of_all(labels.ids)
    similarity = np.ones(len(labels.left)) if labels.jaccard is None else labels.jaccard
    pairs = TextPairs.of(len(sample.texts), [(*labels.places(sample), similarity)])
    found, truncated = pairs_in_store(index, sample, query)
    verified = found.where(pairs.has(found.left, found.right))
    truth = Truth(pairs, pairs if labels.jaccard is None else pairs.between(right), sample)
    bins = BINS if labels.jaccard is not None else ()
    return Evaluation(**vars(truth.quality(found, bins=bins, judged=verified)), truncated=truncated)


def evaluate_corpus(
    sample: Sample,
    labels: Labels,
    profile: Profile,
    min_similarity: float | None,
    right: float,
    threads: int,
) -> Evaluation:
    """Compare the texts of a corpus with each other. Found pairs are right by their exact Jaccard similarity.
    Raises BadInput for labelled ids that the corpus lacks."""
    labels.places(sample)
    sets = shingle_sets(sample.texts, sample.shingles)
    (fingerprinted,) = fingerprint_texts(sample.texts, [profile], threads)
    found = pairs_found_by(profile, fingerprinted, min_similarity)
    exact = replace(found, score=sets.similarity(found.left, found.right))
    truth = Truth(labelled_pairs(labels, sample, sets), exact.between(right), sample)
    return Evaluation(**vars(truth.quality(found, bins=BINS)), truth=TRUTHS[sample.shingles])


def pairs_in_store(index: Index, sample: Sample, query: Query) -> tuple[TextPairs, int]:
    """Pairs of these documents that a store finds, and the number of truncated lookups."""
    ids = list(sample.places)
    stored = index.fingerprints(ids)
    missing = [name for name, fingerprint in zip(ids, stored, strict=True) if fingerprint is None]
    if missing:
        shown = ", ".join(map(repr, missing[:5]))
        raise BadInput(
            f"the pairs name {len(missing):,} ids of {len(ids):,} that are not stored in {index.store.url}: "
            f"{shown}{', ...' if len(missing) > 5 else ''}. Check the store and the id prefix"
        )
    pairs: dict[tuple[int, int], float] = {}
    truncated = 0
    for start in range(0, len(ids), _AT_ONCE):
        lookups = index.find_ids(ids[start : start + _AT_ONCE], query)
        for place, lookup in enumerate(lookups, start):
            truncated += lookup.truncated
            others = ((sample.places.get(match.id), match.distance) for match in lookup.matches)
            pairs |= {
                (min(place, other), max(place, other)): float(distance)
                for other, distance in others
                if other is not None and other != place
            }
    keys = np.array(list(pairs), dtype=np.int64).reshape(-1, 2)
    return TextPairs.of(len(ids), [(keys[:, 0], keys[:, 1], np.array(list(pairs.values())))]), truncated
