"""Recommends a profile for a corpus, by measuring many on a sample of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import ceil, floor, inf
from typing import Any, cast

import numpy as np

from simhbase.corpus.rejects import Counts
from simhbase.corpus.watcher import NULL_WATCHER, Watcher
from simhbase.drawers.components import merge_components
from simhbase.errors import BadInput, UsageError
from simhbase.model.thresholds import RIGHT, RIGHT_SHORT, SIMILAR, SIMILAR_SHORT
from simhbase.profile.profile import Profile, make_profile
from simhbase.quality.changes import MatchedChange
from simhbase.quality.exact_join import similar_pairs
from simhbase.quality.labels import Labels, labelled_pairs
from simhbase.quality.pairs import TextPairs
from simhbase.quality.sample import Sample
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
LEAST_GROUPS = 20  # groups of near-duplicates: pairs of one group are found all or none
WIDER = range(4, MOST_BITS + 1)
# Reading a drawer takes as much processor time as 3 to 6 candidate rows (in RocksDB), and each drawer is a
# row that is written and stored.
CANDIDATES_PER_ROW = 10
OF_SHORT_TEXTS = (SIMILAR_SHORT, RIGHT_SHORT)


@dataclass(frozen=True)
class Goal:
    """Goal of a recommendation.

    recall: target share of the pairs with a Jaccard similarity of `jaccard` or more that are found;
    precision: target share of found pairs with a similarity of `right` or more; documents: expected size of
    the store; candidates: maximum rows read per lookup at that size. Raises UsageError for shares outside
    (0, 1].
    """

    documents: int
    recall: float = 0.95
    precision: float = 0.95
    jaccard: float = SIMILAR
    right: float = RIGHT
    candidates: int = 1000

    def __post_init__(self) -> None:
        for name in ("recall", "precision", "jaccard", "right"):
            value = getattr(self, name)
            if not 0 < value <= 1:
                raise UsageError(f"must be above 0, up to 1, not {value}", parameter=name)
        if self.right > self.jaccard:
            raise UsageError(
                f"must be at most {self.jaccard}, the similarity of pairs to be found, not {self.right}",
                parameter="right",
            )


@dataclass(frozen=True, kw_only=True)
class Figures(Quality):
    """Measurements of one setting with a layout.

    candidates: rows read per lookup at the goal's number of documents; largest: rows of the largest drawer.
    """

    setting: Setting
    cost: Cost
    candidates: float
    largest: float

    def as_dict(self) -> dict[str, Any]:
        return {
            "scheme": self.setting.scheme,
            "features": self.setting.features,
            "near": self.setting.decision,
            "layout": self.cost.layout,
            "rows": self.cost.rows,
            "candidates": round(self.candidates, 1),
            "largest_drawer": round(self.largest),
            **super().as_dict(),
        }


@dataclass(frozen=True)
class Calibration:
    """Result of a calibration. figures: all measurements; reached: True if the recommendation reaches the
    goal; counts: rejected records and unreadable sources, by kind; changes: how often texts of the sample
    match copies with known changes, in stores and by `dedup`."""

    sample: Sample
    goal: Goal
    truth: Truth
    figures: Sequence[Figures]
    recommended: Figures
    reached: bool
    counts: Counts = field(default_factory=Counts)
    changes: Sequence[MatchedChange] = ()

    @property
    def surely_reached(self) -> bool:
        """True if the lower ends of the confidence intervals of recall and precision reach the goal."""
        return _surely_reaches(self.recommended, self.goal)

    @property
    def groups(self) -> int:
        """Number of groups of near-duplicates to be found: the independent cases that recall is measured
        on."""
        return groups_to_find(self.truth, self.goal)

    @property
    def ranked(self) -> list[Figures]:
        """All settings, best first."""
        return sorted(self.figures, key=lambda each: rank(each, self.goal))

    @property
    def profile(self) -> Profile:
        """The recommended profile."""
        return make_profile(parameters_of(self.recommended))

    @property
    def wider(self) -> list[Figures]:
        """Settings of SimHash with the features of the highest recall, and a k for which the layouts' costs
        differ much."""
        simhash = [each for each in self.figures if each.setting.scheme == "simhash"]
        most = max(simhash, key=lambda each: each.recall.value if each.recall else 0.0)
        return [
            each
            for each in simhash
            if each.setting.features == most.setting.features and each.setting.parameters["k"] in WIDER
        ]


def parameters_of(figures: Figures) -> dict[str, object]:
    """Parameters of a profile with this setting, and its cheapest drawers."""
    drawers = "bands" if figures.setting.scheme == "minhash" else "layout"
    return {**figures.setting.parameters, drawers: figures.cost.layout}


def least_similarities(
    jaccard: float | None, right: float | None, defaults: tuple[float, float] = (Goal.jaccard, Goal.right)
) -> tuple[float, float]:
    """`jaccard` and `right` of a goal. A default fits the other value if that is given."""
    similar, accepted = defaults
    least = max(similar, right or 0.0) if jaccard is None else jaccard
    return least, min(accepted, round(accepted / similar * least, 3)) if right is None else right


def recommend(
    sample: Sample, goal: Goal, threads: int, labels: Labels | None = None, watcher: Watcher = NULL_WATCHER
) -> Calibration:
    """Measure every scheme on a sample. Recommends the cheapest (by rows stored per document and rows read
    per lookup) that surely reaches the goal, else the cheapest that reaches it as measured, else the nearest.

    labels: pairs to find, instead of all that are similar enough. Raises BadInput if the sample is too small
    or has too few near-duplicates, and for labels of unknown ids.
    """
    sets = shingle_sets(sample.texts, sample.shingles)
    truth = find_truth(sample, sets, goal, labelled_pairs(labels, sample, sets) if labels else None)
    figures = []
    with watcher.progress("settings measured", lambda: None) as advance:
        for setting in settings(truth, threads):
            figures.append(measured(setting, truth, goal))
            advance(1, len(figures))
        for between in refined(figures, truth, goal):
            figures.append(between)
            advance(1, len(figures))
    recommended = min(figures, key=lambda each: rank(each, goal))
    return Calibration(sample, goal, truth, figures, recommended, _reaches(recommended, goal))


def find_truth(sample: Sample, sets: ShingleSets, goal: Goal, labelled: TextPairs | None = None) -> Truth:
    """The pairs that should be found in a sample: the labelled ones, or all that are similar enough. Raises
    BadInput if they are too few."""
    if len(sample.texts) < LEAST_TEXTS:
        raise BadInput(_too_few_texts(sample))
    similar = similar_pairs(sets, min(goal.right, BINS[0][0]))
    right = similar.between(goal.right)
    truth = (
        Truth(similar, right, sample) if labelled is None else Truth(labelled, right.union(labelled), sample)
    )
    if groups_to_find(truth, goal) < LEAST_GROUPS:
        raise BadInput(_too_few_groups(truth, goal))
    return truth


def groups_to_find(truth: Truth, goal: Goal) -> int:
    """Number of connected components of the pairs to be found."""
    wanted = truth.pairs.between(goal.jaccard)
    group = merge_components(np.arange(len(truth.sample.texts)), wanted.left, wanted.right)
    return len(np.unique(group[wanted.left]))


def _too_few_texts(sample: Sample) -> str:
    n = len(sample.texts)
    if n == 1 and sample.copies:
        return (
            f"all {sample.read:,} documents have the same text, so nothing can be measured. Check the text "
            "field"
        )
    copies = f" ({sample.copies:,} others are copies of them)" if sample.copies else ""
    return (
        f"{n:,} different texts{copies} are too few to calibrate: at least {LEAST_TEXTS} are needed, "
        "and several thousand for narrow intervals"
    )


def _too_few_groups(truth: Truth, goal: Goal) -> str:
    pairs, groups = len(truth.pairs.between(goal.jaccard).left), groups_to_find(truth, goal)
    found = f"{pairs:,} pair{'s' * (pairs != 1)}" if pairs else "no pair"
    highest = f" (the most similar pair: {truth.pairs.score.max():.2f})" if len(truth.pairs.left) else ""
    within = f", in {groups} group{'s' * (groups != 1)} of near-duplicates" if pairs else ""
    sample = "" if truth.sample.is_whole else "a larger sample or "
    return (
        f"{found} of Jaccard similarity {goal.jaccard} or more{highest} among {len(truth.sample.texts):,} "
        f"different texts{within}: a recommendation needs at least {LEAST_GROUPS} groups. Use "
        f"{sample}a lower similarity"
    )


def settings(truth: Truth, threads: int) -> list[Setting]:
    """All settings to compare, on the texts of a sample."""
    simhash = (*SIMHASH_FEATURES, *VERIFIED_FEATURES)
    profiles = [*map(make_profile, simhash), MINHASH]
    *of_simhash, of_minhash = fingerprint_texts(truth.sample.texts, profiles, threads)
    compared = [
        setting
        for fingerprinted, parameters in zip(of_simhash, simhash, strict=True)
        for setting in simhash_settings(fingerprinted, parameters, truth.pairs)
    ]
    compared += minhash_settings(of_minhash, truth.pairs)
    if truth.sample.is_short:
        (fingerprinted,) = fingerprint_texts(truth.sample.texts, [BY_LENGTH], threads)
        compared += minhash_settings(
            fingerprinted, truth.pairs, BY_LENGTH, BY_LENGTH_BANDS, BY_LENGTH_THRESHOLDS
        )
    return compared


def refined(figures: Sequence[Figures], truth: Truth, goal: Goal) -> list[Figures]:
    """Try thresholds between two measured ones, if no measured threshold reaches the goal, but one reaches
    its recall and the next its precision. Returns the best between the two, for each such pair of
    settings."""
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
        if lower.recall is not None and lower.recall.value >= goal.recall
        if upper.precision is None or upper.precision.value >= goal.precision
        if (between := [measured(step, truth, goal) for step in _steps(lower.setting, upper.setting)])
    ]


def _steps(lower: Setting, upper: Setting) -> Iterator[Setting]:
    """Settings with the thresholds between two others, in steps of 0.01."""
    first, last = cast(float, lower.threshold), cast(float, upper.threshold)
    for hundredths in range(floor(100 * first) + 1, ceil(100 * last)):
        yield replace(lower, threshold=hundredths / 100)


def measured(setting: Setting, truth: Truth, goal: Goal) -> Figures:
    """Measure a setting with its cheapest layout whose lookups read few enough candidates; if there is none,
    with the layout that reads fewest."""
    n = setting.near.n
    chosen: list[tuple[float, float, Cost]] = []
    for cost in map(setting.cost, setting.layouts):
        if chosen and cost.rows >= min(price for price, *_ in chosen):
            break  # the remaining layouts have more rows
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
    """Cost of a document and a lookup, in rows."""
    return rows + candidates / CANDIDATES_PER_ROW


def candidates_at(cost: Cost, n: int, documents: int) -> float:
    """Rows read per lookup in a store of `documents`, extrapolated from n: unrelated rows grow with the
    number of documents, near-duplicates of a text do not."""
    return cost.drawers.unrelated * documents / n + cost.drawers.related


def _reaches(figures: Figures, goal: Goal) -> bool:
    return _nearness(figures, goal) >= 1


def _nearness(figures: Figures, goal: Goal) -> float:
    """1 if the goal is reached, else the share of it that is."""
    recall = figures.recall.value if figures.recall else 0.0
    precision = figures.precision.value if figures.precision else 0.0
    read = goal.candidates / max(figures.candidates, 1.0)
    return min(1.0, recall / goal.recall, precision / goal.precision, read)


def _surely_reaches(figures: Figures, goal: Goal) -> bool:
    shares = ((figures.recall, goal.recall), (figures.precision, goal.precision))
    return _reaches(figures, goal) and all(
        share is not None and share.low >= least for share, least in shares
    )


def rank(figures: Figures, goal: Goal) -> tuple[bool, float, float, float]:
    """Sort key of settings, best first: surely reaching the goal, nearest to it, cheapest, most accurate."""
    shares = (share.value for share in (figures.recall, figures.precision) if share)
    price = _price(figures.cost.rows, figures.candidates)
    return not _surely_reaches(figures, goal), -_nearness(figures, goal), price, -sum(shares)
