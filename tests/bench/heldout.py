"""What `calibrate` predicts on one half of a corpus, and what stores find on the other half."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from time import perf_counter

import mmh3
import numpy as np
from numpy.typing import NDArray

import simhbase
from simhbase import Document
from simhbase.drawers.components import merge_components
from simhbase.errors import BadInput
from simhbase.model.thresholds import RIGHT, SIMILAR
from simhbase.model.values import Query
from simhbase.profile.profile import make_profile
from simhbase.quality.calibration import (
    OF_SHORT_TEXTS,
    Calibration,
    Figures,
    Goal,
    find_truth,
    least_similarities,
    parameters_of,
    recommend,
)
from simhbase.quality.evaluation import pairs_in_store
from simhbase.quality.intervals import Estimate, estimate
from simhbase.quality.pairs import TextPairs
from simhbase.quality.sample import Sample
from simhbase.quality.truth import Truth
from simhbase.text.jaccard import shingle_sets
from tests.bench.quality import CORPORA, sampled, threads
from tests.bench.report import Cell, Table, shown
from tests.bench.short import read_items

SAMPLE = 20_000  # texts that are calibrated on, as by default
STORED = 10_000  # texts of the other half in a store
WITHIN = 0.03  # of what was predicted
LOWER = 0.5  # similarity to be found where a half has too few pairs of the default
SPLITS = 40  # of the groups of one half
SCHEMES = ("minhash", "verified", "simhash")

Documents = Iterable[tuple[str, str]]


@dataclass(frozen=True)
class Reached:
    """What a store has found: as predicted, and the lookups that a limit has cut."""

    recall: Estimate | None
    precision: Estimate | None
    truncated: int


def measure(scale: float = 1.0) -> list[Table]:
    """One table of all corpora."""
    rows: list[list[Cell]] = []
    choices: list[list[Cell]] = []
    for title, documents in corpora().items():
        start = perf_counter()
        try:
            calibration = calibrated_on_half(documents, scale)
            found = predicted_and_found(title, documents, scale, calibration)
        except BadInput:  # a half has too few pairs: what the message advises
            calibration = calibrated_on_half(documents, scale, LOWER)
            title = f"{title}, {LOWER} and more"
            found = predicted_and_found(title, documents, scale, calibration)
        rows += found
        choices.append(chosen_and_checked(title, calibration))
        print(f"held out, {title}: {perf_counter() - start:.0f} s", file=sys.stderr)
    return [
        Table(
            "Predicted by calibrate on one half, and found by a store on the other half",
            [
                *("corpus", "pairs, groups", "setting", "recall predicted", "recall found"),
                *("precision predicted", "precision found", f"within {WITHIN}", "not below the interval"),
                "lookups truncated",
            ],
            rows,
            [
                f"Halves by a hash of the ids; calibrated on at most {SAMPLE:,} different texts, for recall "
                "and precision of 0.95 (laws, of which a half has too few pairs of 0.65, from a lower "
                "similarity); then the best setting of each scheme, in a store of at most "
                f"{STORED:,} other ones, each of which is looked up. In per cent with 95 % intervals; not "
                "below the interval: of what is predicted, both shares. Pairs, groups: the "
                "pairs that recall is predicted by, and in how many connected groups they are, as an "
                "interval counts cases, not pairs."
            ],
        ),
        Table(
            "How much better a setting looks where it was chosen than elsewhere",
            [
                *("corpus", "groups", "recall where chosen", "recall elsewhere", "better by", "one split"),
                *("precision where chosen", "precision elsewhere", "better by", "one split"),
            ],
            choices,
            [
                f"The groups of each half that was calibrated on, split in two at random {SPLITS} times: the "
                "setting that is recommended by the one, measured on the other. Means in per cent; one "
                "split: the standard deviation of the difference, which is how far two halves of so many "
                "groups differ by chance; the mean tells what the choice of the best adds."
            ],
        ),
    ]


def calibrated_on_half(
    documents: Callable[[], Documents], scale: float, jaccard: float | None = None
) -> Calibration:
    return calibrated(half(documents(), 0), max(100, int(SAMPLE * scale)), jaccard)


def predicted_and_found(
    title: str, documents: Callable[[], Documents], scale: float, calibration: Calibration
) -> list[list[Cell]]:
    other = sampled(half(documents(), 1), max(100, int(STORED * scale)))
    truth = find_truth(other, shingle_sets(other.texts, other.shingles), calibration.goal)
    return [
        row(title, figures, calibration, stored(figures, other, truth, calibration.goal))
        for figures in best_of_schemes(calibration)
    ]


@dataclass(frozen=True)
class Seen:
    """m pairs of texts: hits, whether they were found (or are right); groups, int64, of near-duplicates that
    they are in; weights, how many each counts for."""

    hits: NDArray[np.bool_]
    groups: NDArray[np.int64]
    weights: NDArray[np.float64]

    def share(self, chosen: NDArray[np.bool_]) -> Estimate | None:
        """Of those in chosen groups."""
        there = chosen[self.groups]
        return estimate(self.hits[there], self.groups[there], self.weights[there])


def chosen_and_checked(title: str, calibration: Calibration) -> list[Cell]:
    """What the setting that half of the groups recommend is on these, and on the others."""
    sample, truth = calibration.sample, calibration.truth
    wanted = truth.pairs.between(calibration.goal.jaccard)
    counted = sample.is_whole | (sample.common_keys(wanted.left, wanted.right) > 0)
    left, right = wanted.left[counted], wanted.right[counted]
    group = merge_components(np.arange(len(sample.texts)), wanted.left, wanted.right)
    seen = []
    for each in calibration.figures:
        found = each.setting.found
        of_recall = Seen(found.has(left, right), group[left], 1 / sample.probability(left, right))
        is_right = truth.right.has(found.left, found.right)
        of_precision = Seen(is_right, group[found.left], 1 / sample.probability(found.left, found.right))
        seen.append((of_recall, of_precision))
    chance = np.random.default_rng(0)
    shares = []
    for _ in range(SPLITS):
        chosen = chance.random(len(sample.texts)) < 0.5
        on_half = [
            replace(each, recall=of_recall.share(chosen), precision=of_precision.share(chosen))
            for each, (of_recall, of_precision) in zip(calibration.figures, seen, strict=True)
        ]
        best = replace(calibration, figures=on_half).ranked[0]
        number = next(place for place, each in enumerate(on_half) if each is best)
        both = zip((best.recall, best.precision), seen[number], strict=True)
        shares.append([(one.value, other.value) for one, of in both if one and (other := of.share(~chosen))])
    table = 100 * np.array(
        [each for each in shares if len(each) == 2]
    )  # splits, recall and precision, halves
    cells: list[Cell] = [title, calibration.groups]
    for here, elsewhere in (table[:, number].T for number in range(2)):
        better = here - elsewhere
        cells += [
            f"{here.mean():.1f}",
            f"{elsewhere.mean():.1f}",
            f"{better.mean():+.1f}",
            f"{better.std():.1f}",
        ]
    return cells


def corpora() -> Mapping[str, Callable[[], Documents]]:
    """Each corpus by name: what reads its ids and texts."""
    return {corpus.title: corpus.documents for corpus in CORPORA.values()} | {"titles of the news": titles}


def titles() -> Documents:
    return ((item.id, item.title) for item in read_items(1.0) if item.title)


def half(documents: Documents, number: int) -> Iterator[tuple[str, str]]:
    """Those documents whose ids' hash is odd, or even."""
    return ((name, text) for name, text in documents if mmh3.hash(name, signed=False) % 2 == number)


def calibrated(documents: Documents, limit: int, jaccard: float | None) -> Calibration:
    """As the command does it by default."""
    sample = sampled(documents, limit)
    defaults = OF_SHORT_TEXTS if sample.is_short else (SIMILAR, RIGHT)
    least, right = least_similarities(jaccard, None, defaults)
    return recommend(sample, Goal(sample.read, jaccard=least, right=right), threads())


def best_of_schemes(calibration: Calibration) -> Iterator[Figures]:
    for scheme in SCHEMES:
        yield next(figures for figures in calibration.ranked if figures.setting.scheme == scheme)


def stored(figures: Figures, sample: Sample, truth: Truth, goal: Goal) -> Reached:
    """What a store with a setting's profile finds of its documents."""
    with simhbase.open("memory:", create=make_profile(parameters_of(figures))) as index:
        index.add([Document(str(place), text) for place, text in enumerate(sample.texts)])
        everyone = [str(place) for place in range(len(sample.texts))]
        ids = [name for name, found in zip(everyone, index.fingerprints(everyone), strict=True) if found]
        pairs, truncated = pairs_in_store(index, Sample.of_all(ids), Query())
    places = np.array(ids, dtype=np.int64)
    found = TextPairs(len(sample.texts), places[pairs.left], places[pairs.right], pairs.score)
    return Reached(truth.recall(found, goal.jaccard, 1.0), truth.precision(found), truncated)


def row(title: str, figures: Figures, calibration: Calibration, reached: Reached) -> list[Cell]:
    pairs = ((figures.recall, reached.recall), (figures.precision, reached.precision))
    known = [(one, other) for one, other in pairs if one and other]
    near = len(known) == len(pairs) and all(abs(one.value - other.value) <= WITHIN for one, other in known)
    no_less = len(known) == len(pairs) and all(one.low <= other.value for one, other in known)
    setting = figures.setting
    recommended = " (recommended)" if figures is calibration.recommended else ""
    return [
        title,
        f"{figures.recall.pairs if figures.recall else 0:,} in {calibration.groups:,}",
        f"{setting.scheme}, {setting.features}, {setting.decision}, {figures.cost.layout}{recommended}",
        shown(figures.recall),
        shown(reached.recall),
        shown(figures.precision),
        shown(reached.precision),
        "yes" if near else "no",
        "yes" if no_less else "no",
        reached.truncated,
    ]
