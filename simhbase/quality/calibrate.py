"""Calibrates: reads a sample of a corpus, measures schemes on it, and recommends a profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from simhbase.corpus.inputs import Inputs
from simhbase.errors import BadInput
from simhbase.profile.profile import Profile, make_profile
from simhbase.quality.calibration import (
    OF_SHORT_TEXTS,
    Calibration,
    Goal,
    least_similarities,
    recommend,
)
from simhbase.quality.changes import Finder, by_dedup, by_store, matched_changes
from simhbase.quality.labels import read_labels
from simhbase.quality.sample import read_sample

SAMPLE = 20_000  # texts
COMPARED = ("default", "complete", "short")  # presets beside the recommendation


def calibrate(
    inputs: Inputs | str | Path | Sequence[str | Path],
    *,
    documents: int | None = None,
    jaccard: float | None = None,
    recall: float = Goal.recall,
    precision: float = Goal.precision,
    right: float | None = None,
    max_candidates: int = Goal.candidates,
    sample: int = SAMPLE,
    seed: int = 0,
    labels: str | Path | None = None,
    plots: Path | None = None,
) -> Calibration:
    """Measure schemes on a corpus, and recommend a profile.

    documents: expected size of the store (default: size of the corpus). jaccard: similarity from which pairs
    should be found (default 0.65, for short texts 0.6); recall: target share of these found. right:
    similarity from which found pairs are right (default 0.6, for short texts 0.5; less if `jaccard` is
    lower); precision: target share of these. max_candidates: maximum rows read per lookup. sample: maximum
    number of texts to measure on; another seed draws another sample. labels: a file of pairs to be found, as
    for `evaluate`, instead of all that are similar enough. plots: folder for plots (needs the extra `plots`).

    Raises UsageError for invalid arguments, before anything is read; BadInput if the corpus is too small or
    has too few near-duplicates, and for labels of unknown ids; TooManyRejects.
    """
    inputs = Inputs.of(inputs)
    inputs.require_outputs()
    goal = Goal(
        documents or 1, recall, precision, *least_similarities(jaccard, right), candidates=max_candidates
    )
    pairs = read_labels(Path(labels)) if labels else None
    if plots:  # raises if matplotlib is missing, before anything is read
        from simhbase.quality.plots import draw
    with inputs.noting_rejects() as rejects:
        drawn = read_sample(inputs, sample, seed, rejects)
    if pairs and not drawn.is_whole:
        raise BadInput(
            f"{pairs.source} has pairs of all documents, but the sample has only some of {drawn.read:,}: "
            f"use a sample of {drawn.read}"
        )
    if drawn.is_short:
        wanted, accepted = least_similarities(jaccard, right, OF_SHORT_TEXTS)
        goal = replace(goal, jaccard=wanted, right=accepted)
    goal = replace(goal, documents=documents or drawn.read)
    found = recommend(drawn, goal, inputs.threads, pairs, inputs.watcher)
    if plots:
        draw(found, plots)
    changes = matched_changes(drawn.texts, finders(found.profile, inputs.threads), seed)
    return replace(found, counts=rejects.counts, changes=changes)


def finders(recommended: Profile, threads: int) -> dict[str, Finder]:
    """Ways to find near-duplicates, with which changed copies are looked for."""
    stores = {name: make_profile({}, name) for name in COMPARED} | {"recommended": recommended}
    return {
        **{name: by_store(profile, threads) for name, profile in stores.items()},
        "dedup": by_dedup(None, threads),
    }
