"""Which scheme, which features, which k, for this corpus: everything is measured on a sample of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import ceil, floor, inf
from pathlib import Path
from typing import Any, cast

import numpy as np

from simhbase.corpus.inputs import Inputs
from simhbase.corpus.rejects import Counts
from simhbase.corpus.watcher import NOBODY, Watcher
from simhbase.drawers.components import united
from simhbase.errors import BadInput, UsageError
from simhbase.profile import Profile, make_profile
from simhbase.quality.exact_join import SimilarPairs, similar_pairs
from simhbase.quality.labels import Labels, labelled_pairs, read_labels
from simhbase.quality.sample import Sample, read_sample
from simhbase.quality.schemes import (
    BY_LENGTH,
    BY_LENGTH_BANDS,
    BY_LENGTH_THRESHOLDS,
    MINHASH,
    MOST_BITS,
    SIMHASH_FEATURES,
    VERIFIED_FEATURES,
    Cost,
    Setting,
    fingerprint_texts,
    minhash_settings,
    simhash_settings,
)
from simhbase.quality.truth import BINS, Quality, Truth
from simhbase.text.jaccard import ShingleSets, shingle_sets

LEAST_TEXTS = 100
LEAST_GROUPS = 20  # pairs of one group are found all or none
SAMPLE = 20_000  # texts to measure on at most
WIDER = range(4, MOST_BITS + 1)
_OF_SHORT_TEXTS = 0.6  # pairs to be found there: of two sentences of 17 characters two differ
# A drawer that a lookup asks for takes 3 to 6 times the processor time of a row that it finds there (in
# RocksDB), and is a row that is written and kept.
CANDIDATES_PER_ROW = 10
_RIGHT_SHARE = 5 / 6  # of the similarity to be found: what is a little less alike is no error


@dataclass(frozen=True)
class Goal:
    """What a recommendation has to reach.

    recall: of the pairs whose Jaccard similarity is `jaccard` or more; precision: a pair found is
    right if its similarity is `right` or more; documents: how many the store will hold; candidates:
    how many rows a lookup may read then. Raises UsageError for shares outside (0, 1].
    """

    documents: int
    recall: float = 0.95
    precision: float = 0.95
    jaccard: float = 0.8
    right: float = 0.65
    candidates: int = 1000

    def __post_init__(self) -> None:
        for name in ("recall", "precision", "jaccard", "right"):
            value = getattr(self, name)
            if not 0 < value <= 1:
                raise UsageError(f"must be above 0, up to 1, not {value}", parameter=name)
        if self.right > self.jaccard:
            raise UsageError(
                f"must not be more than the {self.jaccard} of the pairs to be found, not {self.right}",
                parameter="right",
            )

    def among(self, documents: int) -> Goal:
        return replace(self, documents=documents)


@dataclass(frozen=True, kw_only=True)
class Figures(Quality):
    """One setting with a layout, measured; what is to be found and what is right are the goal's.

    candidates: rows a lookup reads at the goal's number of documents; largest: of the largest drawer then.
    """

    setting: Setting
    cost: Cost
    candidates: float
    largest: float

    def by_name(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "scheme": self.setting.scheme,
            "features": self.setting.features,
            "near": self.setting.decision,
            "layout": self.cost.layout,
            "rows": self.cost.rows,
            "candidates": round(self.candidates, 1),
            "largest_drawer": round(self.largest),
            **super().by_name(),
        }


@dataclass(frozen=True)
class Calibration:
    """Everything measured; `reached` says whether the recommendation reaches the goal. counts: what could not
    be read, by kind."""

    sample: Sample
    goal: Goal
    truth: Truth
    figures: Sequence[Figures]
    recommended: Figures
    reached: bool
    counts: Counts = field(default_factory=Counts)

    @property
    def surely_reached(self) -> bool:
        """Whether the lower ends of the intervals of recall and precision reach the goal, too."""
        return _surely_reaches(self.recommended, self.goal)

    @property
    def groups(self) -> int:
        """In how many groups of near-duplicates the pairs to be found are: so many independent cases are what
        recall is measured on."""
        return groups_to_find(self.truth, self.goal)

    @property
    def ranked(self) -> list[Figures]:
        """All settings, what comes nearest to the goal first."""
        return sorted(self.figures, key=lambda each: rank(each, self.goal))

    @property
    def profile(self) -> Profile:
        """What is recommended, as a profile to create a store with."""
        return make_profile(parameters_of(self.recommended))

    @property
    def wider(self) -> list[Figures]:
        """Those of SimHash with the features that find most, from the k on for which layouts are a
        question of price."""
        simhash = [each for each in self.figures if each.setting.scheme == "simhash"]
        most = max(simhash, key=lambda each: each.recall.value if each.recall else 0.0)
        return [
            each
            for each in simhash
            if each.setting.features == most.setting.features and each.setting.parameters["k"] in WIDER
        ]


def parameters_of(figures: Figures) -> dict[str, object]:
    """The parameters of a profile with a setting, and the cheapest drawers measured for it."""
    drawers = "bands" if figures.setting.scheme == "minhash" else "layout"
    return {**figures.setting.parameters, drawers: figures.cost.layout}


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
    """Measures schemes on a corpus, and recommends one.

    documents: how many the store will hold (as many as the corpus has). jaccard: pairs to be found are so
    similar or more (0.8, of short texts 0.6); recall: the share of them to be found; right: a pair found is
    right if so similar or more (five sixths of `jaccard`, and 0.65 at most); precision: the share of what is
    found to be right.
    max_candidates: rows that a lookup may read. sample: texts to measure on at most; another seed draws
    another one. labels: a file of the pairs to be found, as for `evaluate`, instead of all that are similar
    enough. plots: a folder to draw plots into, which takes the extra `plots`.

    Raises UsageError for what is impossible, before anything is read; BadInput where the corpus is too small,
    has no near-duplicates or too few to tell, and for labels of unknown ids; TooManyRejects.
    """
    inputs = Inputs.of(inputs)
    inputs.require_outputs()
    goal = Goal(
        documents or 1, recall, precision, *least_similarities(jaccard, right), candidates=max_candidates
    )
    pairs = read_labels(Path(labels)) if labels else None
    if plots:  # refuses where matplotlib is missing, before anything is read
        from simhbase.quality.plots import draw
    with inputs.noting_rejects() as rejects:
        drawn = read_sample(inputs, sample, seed, rejects)
    if pairs:
        _require_whole(drawn, pairs)
    if drawn.is_short:
        wanted, accepted = least_similarities(jaccard, right, _OF_SHORT_TEXTS)
        goal = replace(goal, jaccard=wanted, right=accepted)
    goal = goal.among(documents or drawn.read)
    found = recommend(drawn, goal, inputs.processes, pairs, inputs.watcher)
    if plots:
        draw(found, plots)
    return replace(found, counts=rejects.counts)


def least_similarities(
    jaccard: float | None, right: float | None, default: float = Goal.jaccard
) -> tuple[float, float]:
    """Of pairs to be found, and of found ones that are right: what was given, and for None what goes with
    the other one."""
    least = max(default, right or 0.0) if jaccard is None else jaccard
    return least, min(Goal.right, round(_RIGHT_SHARE * least, 3)) if right is None else right


def _require_whole(sample: Sample, labels: Labels) -> None:
    if not sample.is_whole:
        raise BadInput(
            f"{labels.source} is about all documents, and the sample has only some of {sample.read:,}: "
            f"take a sample of {sample.read}"
        )


def recommend(
    sample: Sample, goal: Goal, processes: int, labels: Labels | None = None, watcher: Watcher = NOBODY
) -> Calibration:
    """Measures every scheme on a sample and recommends the cheapest that surely reaches the goal, else the
    cheapest that does as measured, or what comes nearest. The price: rows a document, and rows read a lookup.

    labels: the pairs to find; without them all pairs that are similar enough. Raises BadInput where the
    sample is too small, has no near-duplicates or too few to tell, and for labels of unknown ids.
    """
    sets = shingle_sets(sample.texts, sample.shingles)
    truth = find_truth(sample, sets, goal, labelled_pairs(labels, sample, sets) if labels else None)
    figures = []
    with watcher.progress("settings measured", lambda: None) as advance:
        for setting in settings(truth, processes):
            figures.append(measured(setting, truth, goal))
            advance(1, len(figures))
        for between in refined(figures, truth, goal):
            figures.append(between)
            advance(1, len(figures))
    recommended = min(figures, key=lambda each: rank(each, goal))
    return Calibration(sample, goal, truth, figures, recommended, _reaches(recommended, goal))


def find_truth(sample: Sample, sets: ShingleSets, goal: Goal, labelled: SimilarPairs | None = None) -> Truth:
    """What ought to be found in a sample: the labelled pairs, or all that are similar enough.

    Raises BadInput where that tells nothing.
    """
    if len(sample.texts) < LEAST_TEXTS:
        raise BadInput(_too_few_texts(sample))
    similar = similar_pairs(sets, min(goal.right, BINS[0][0]))
    right = similar.of_at_least(goal.right)
    truth = (
        Truth(similar, right, sample)
        if labelled is None
        else Truth(labelled, right.and_also(labelled), sample)
    )
    if groups_to_find(truth, goal) < LEAST_GROUPS:
        raise BadInput(_too_few_groups(truth, goal))
    return truth


def groups_to_find(truth: Truth, goal: Goal) -> int:
    """How many groups the pairs to be found connect."""
    wanted = truth.pairs.of_at_least(goal.jaccard)
    group = united(np.arange(len(truth.sample.texts)), wanted.left, wanted.right)
    return len(np.unique(group[wanted.left]))


def _too_few_texts(sample: Sample) -> str:
    n = len(sample.texts)
    if n == 1 and sample.copies:
        return (
            f"all {sample.read:,} documents have the same text: nothing can be measured. Is the text field "
            "the right one?"
        )
    copies = f" ({sample.copies:,} others are copies of them)" if sample.copies else ""
    return (
        f"{n:,} different texts{copies} are too few to calibrate: at least {LEAST_TEXTS} are needed, "
        "and some thousands for narrow intervals"
    )


def _too_few_groups(truth: Truth, goal: Goal) -> str:
    pairs, groups = len(truth.pairs.of_at_least(goal.jaccard).left), groups_to_find(truth, goal)
    found = f"{pairs:,} pair{'s' * (pairs != 1)}" if pairs else "no pair"
    highest = f" (the most similar pair: {truth.pairs.jaccard.max():.2f})" if len(truth.pairs.left) else ""
    within = f", in {groups} group{'s' * (groups != 1)} of near-duplicates" if pairs else ""
    sample = "" if truth.sample.is_whole else "a larger sample or "
    return (
        f"{found} of Jaccard similarity {goal.jaccard} or more{highest} among {len(truth.sample.texts):,} "
        f"different texts{within}: at least {LEAST_GROUPS} groups are needed to recommend anything. Either "
        f"the corpus has hardly any, or what you look for is less alike: take {sample}a lower similarity"
    )


def settings(truth: Truth, processes: int) -> list[Setting]:
    """All schemes that are compared, on the texts of the truth's sample."""
    simhash = (*SIMHASH_FEATURES, *VERIFIED_FEATURES)
    profiles = [*map(make_profile, simhash), MINHASH]
    *of_simhash, of_minhash = fingerprint_texts(truth.sample.texts, profiles, processes)
    compared = [
        setting
        for fingerprinted, parameters in zip(of_simhash, simhash, strict=True)
        for setting in simhash_settings(fingerprinted, parameters, truth.pairs)
    ]
    compared += minhash_settings(of_minhash, truth.pairs)
    if truth.sample.is_short:
        (fingerprinted,) = fingerprint_texts(truth.sample.texts, [BY_LENGTH], processes)
        compared += minhash_settings(
            fingerprinted, truth.pairs, BY_LENGTH, BY_LENGTH_BANDS, BY_LENGTH_THRESHOLDS
        )
    return compared


def refined(figures: Sequence[Figures], truth: Truth, goal: Goal) -> list[Figures]:
    """Of settings that differ in their threshold alone, where none of the grid reaches the goal, but one
    finds enough and the next is right often enough: what comes nearest to the goal between the two."""
    by_threshold: dict[tuple[object, ...], list[Figures]] = {}
    for each in figures:
        if isinstance(each.setting.threshold, float):
            others = {**each.setting.fixed, "drawers": each.cost.layout}
            by_threshold.setdefault(tuple(others.items()), []).append(each)
    return [
        min(between, key=lambda each: rank(each, goal))
        for grid in by_threshold.values()
        if not any(_reaches(each, goal) for each in grid)
        for lower, upper in pairwise(grid)
        if _finds_enough(lower, goal) and _is_right_enough(upper, goal)
        if (between := [measured(step, truth, goal) for step in _steps(lower.setting, upper.setting)])
    ]


def _steps(lower: Setting, upper: Setting) -> Iterator[Setting]:
    """The settings with the hundredths between two thresholds."""
    first, last = cast(float, lower.threshold), cast(float, upper.threshold)
    for hundredths in range(floor(100 * first) + 1, ceil(100 * last)):
        yield replace(lower, threshold=hundredths / 100)


def _finds_enough(figures: Figures, goal: Goal) -> bool:
    return figures.recall is not None and figures.recall.value >= goal.recall


def _is_right_enough(figures: Figures, goal: Goal) -> bool:
    return figures.precision is None or figures.precision.value >= goal.precision


def measured(setting: Setting, truth: Truth, goal: Goal) -> Figures:
    """A setting's figures, with the cheapest of its layouts whose lookups read no more than allowed; where
    none does, with the one that reads least."""
    n = setting.near.n
    chosen: list[tuple[float, float, Cost]] = []
    for cost in map(setting.cost, setting.layouts):
        if chosen and cost.rows >= min(price for price, *_ in chosen):
            break  # the others have more rows still
        read = candidates_at(cost, n, goal.documents)
        chosen.append((_price(cost.rows, read) if read <= goal.candidates else inf, read, cost))
    _, candidates, cost = min(chosen, key=lambda each: each[:2])
    return Figures(
        **vars(truth.quality(setting.found, goal.jaccard)),
        setting=setting,
        cost=cost,
        candidates=candidates,
        largest=cost.drawers.largest * goal.documents / n,
    )


def _price(rows: int, candidates: float) -> float:
    """What a document and a lookup cost, in rows."""
    return rows + candidates / CANDIDATES_PER_ROW


def candidates_at(cost: Cost, n: int, documents: int) -> float:
    """The rows a lookup reads among so many documents, from those of n: unrelated ones grow with the
    documents, the near-duplicates of a text do not."""
    return cost.drawers.unrelated * documents / n + cost.drawers.related


def _reaches(figures: Figures, goal: Goal) -> bool:
    return _nearness(figures, goal) >= 1


def _nearness(figures: Figures, goal: Goal) -> float:
    """1 where the goal is reached, else the share of it that is."""
    recall = figures.recall.value if figures.recall else 0.0
    precision = figures.precision.value if figures.precision else 0.0
    read = goal.candidates / max(figures.candidates, 1.0)
    return min(1.0, recall / goal.recall, precision / goal.precision, read)


def _surely_reaches(figures: Figures, goal: Goal) -> bool:
    """Whether the lower ends of the intervals of recall and precision reach the goal, too."""
    shares = ((figures.recall, goal.recall), (figures.precision, goal.precision))
    return _reaches(figures, goal) and all(
        share is not None and share.low >= least for share, least in shares
    )


def rank(figures: Figures, goal: Goal) -> tuple[bool, float, float, float]:
    """What goes first among settings: the least."""
    shares = (share.value for share in (figures.recall, figures.precision) if share)
    price = _price(figures.cost.rows, figures.candidates)
    return not _surely_reaches(figures, goal), -_nearness(figures, goal), price, -sum(shares)
