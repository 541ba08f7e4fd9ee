"""What `calibrate` predicts on one half of a corpus, and what stores find on the other half."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter

import mmh3
import numpy as np

import simhbase
from simhbase import Document
from simhbase.errors import BadInput
from simhbase.profile import make_profile
from simhbase.quality.calibration import (
    Calibration,
    Figures,
    Goal,
    find_truth,
    least_similarities,
    parameters_of,
    recommend,
)
from simhbase.quality.evaluation import looked_up
from simhbase.quality.intervals import Estimate
from simhbase.quality.sample import Sample
from simhbase.quality.truth import Found, Truth
from simhbase.text.jaccard import shingle_sets
from tests.bench.quality import CORPORA, processes, sampled
from tests.bench.report import Cell, Table, shown
from tests.bench.short import read_items

SAMPLE = 20_000  # texts that are calibrated on, as by default
STORED = 10_000  # texts of the other half in a store
WITHIN = 0.03  # of what was predicted
LOWER = 0.6  # similarity to be found where a half has too few pairs of the default
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
    for title, documents in corpora().items():
        start = perf_counter()
        try:
            rows += predicted_and_found(title, documents, scale)
        except BadInput:  # a half has too few pairs: what the message advises
            rows += predicted_and_found(f"{title}, {LOWER} and more", documents, scale, LOWER)
        print(f"held out, {title}: {perf_counter() - start:.0f} s", file=sys.stderr)
    return [
        Table(
            "Predicted by calibrate on one half, and found by a store on the other half",
            [
                *("corpus", "setting", "recall predicted", "recall found", "precision predicted"),
                *("precision found", f"within {WITHIN}", "lookups truncated"),
            ],
            rows,
            [
                f"Halves by a hash of the ids; calibrated on at most {SAMPLE:,} different texts, for recall "
                "and precision of 0.95 (laws, of which a half has too few pairs of 0.8, from a lower "
                "similarity); then the best setting of each scheme, in a store of at most "
                f"{STORED:,} other ones, each of which is looked up. In per cent with 95 % intervals."
            ],
        )
    ]


def predicted_and_found(
    title: str, documents: Callable[[], Documents], scale: float, jaccard: float | None = None
) -> list[list[Cell]]:
    calibration = calibrated(half(documents(), 0), max(100, int(SAMPLE * scale)), jaccard)
    other = sampled(half(documents(), 1), max(100, int(STORED * scale)))
    truth = find_truth(other, shingle_sets(other.texts, other.shingles), calibration.goal)
    return [
        row(title, figures, calibration, stored(figures, other, truth, calibration.goal))
        for figures in best_of_schemes(calibration)
    ]


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
    least, right = least_similarities(jaccard, None, 0.6 if sample.is_short else Goal.jaccard)
    return recommend(sample, Goal(sample.read, jaccard=least, right=right), processes())


def best_of_schemes(calibration: Calibration) -> Iterator[Figures]:
    for scheme in SCHEMES:
        yield next(figures for figures in calibration.ranked if figures.setting.scheme == scheme)


def stored(figures: Figures, sample: Sample, truth: Truth, goal: Goal) -> Reached:
    """What a store with a setting's profile finds of its documents."""
    with simhbase.open("memory:", create=make_profile(parameters_of(figures))) as index:
        index.add([Document(str(place), text) for place, text in enumerate(sample.texts)])
        everyone = [str(place) for place in range(len(sample.texts))]
        ids = [name for name, found in zip(everyone, index.fingerprints(everyone), strict=True) if found]
        pairs, truncated = looked_up(index, Sample.of_all(ids), None, None)
    places = np.array(ids, dtype=np.int64)
    found = Found(len(sample.texts), places[pairs.left], places[pairs.right], pairs.score)
    return Reached(truth.recall(found, goal.jaccard, 1.0), truth.precision(found), truncated)


def row(title: str, figures: Figures, calibration: Calibration, reached: Reached) -> list[Cell]:
    pairs = ((figures.recall, reached.recall), (figures.precision, reached.precision))
    near = all(one and other and abs(one.value - other.value) <= WITHIN for one, other in pairs)
    setting = figures.setting
    recommended = " (recommended)" if figures is calibration.recommended else ""
    return [
        title,
        f"{setting.scheme}, {setting.features}, {setting.decision}, {figures.cost.layout}{recommended}",
        shown(figures.recall),
        shown(reached.recall),
        shown(figures.precision),
        shown(reached.precision),
        "yes" if near else "no",
        reached.truncated,
    ]
