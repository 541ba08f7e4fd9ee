import shlex
from dataclasses import replace

import pytest

from simhbase import BadInput, UsageError
from simhbase.profile.file import chosen_parameters
from simhbase.profile.profile import make_profile
from simhbase.quality.calibration import (
    Figures,
    Goal,
    find_truth,
    least_similarities,
    measured,
    rank,
    refined,
)
from simhbase.quality.intervals import Estimate
from simhbase.quality.report import options_of
from simhbase.quality.sample import Sample
from simhbase.quality.schemes import MINHASH, SIMHASH_FEATURES, fingerprint_texts, minhash_settings
from simhbase.text.jaccard import shingle_sets
from tests.command_line import texts
from tests.near import versions


@pytest.mark.parametrize(
    ("jaccard", "right", "both"),
    [
        (None, None, (0.65, 0.6)),
        (0.9, None, (0.9, 0.6)),
        (0.6, None, (0.6, 0.554)),
        (0.3, None, (0.3, 0.277)),
        (None, 0.85, (0.85, 0.85)),
        (None, 0.5, (0.65, 0.5)),
        (0.7, 0.7, (0.7, 0.7)),
    ],
)
def test_what_is_right_is_by_default_less_alike_than_what_is_to_be_found(jaccard, right, both):
    assert least_similarities(jaccard, right) == both
    assert Goal(1, jaccard=both[0], right=both[1])


@pytest.mark.parametrize("wrong", [{"jaccard": 0.8, "right": 0.9}, {"recall": 0}, {"precision": 1.1}])
def test_a_goal_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(UsageError):
        Goal(1, **wrong)


def sample_of(contents: list[str]) -> Sample:
    """A corpus, as a sample of all its documents."""
    places = dict.fromkeys(contents)
    numbers = {text: number for number, text in enumerate(places)}
    ids = {str(number): numbers[text] for number, text in enumerate(contents)}
    return replace(
        Sample.of_all(list(map(str, range(len(places))))), texts=list(places), places=ids, read=len(ids)
    )


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (texts(20), "20 different texts are too few"),
        (["always the same text"] * 200, "all 200 documents have the same text"),
        (texts(200), r"no pair of Jaccard similarity 0\.65 or more"),
        ([*texts(200), *(text[:-9] for text in texts(3))], r"3 pairs of Jaccard similarity 0\.65 or more"),
        ([f"{texts(1)[0]} number {number}" for number in range(200)], "in 1 group of near-duplicates"),
    ],
)
def test_a_corpus_that_tells_nothing_gets_no_recommendation(contents, message):
    sample = sample_of(contents)
    with pytest.raises(BadInput, match=message):
        find_truth(sample, shingle_sets(sample.texts, sample.shingles), Goal(len(contents)))


@pytest.mark.parametrize("parameters", [*SIMHASH_FEATURES, {"min_length": 1, "threshold": 0.7, "reach": 7}])
def test_printed_options_are_those_of_the_profile_that_was_measured(parameters):
    given = {**parameters, "k": 2, "layout": "4x2"}
    settings = shlex.split(options_of(given))[1::2]
    assert make_profile(chosen_parameters(None, settings)) == make_profile(given)


def figures_between(least: float, most: float, goal: Goal) -> tuple[list[Figures], list[Figures]]:
    """Those of MinHash at two thresholds, and of what was tried between the two."""
    sample = sample_of(list(versions(100)))
    truth = find_truth(sample, shingle_sets(sample.texts, sample.shingles), goal)
    (fingerprinted,) = fingerprint_texts(sample.texts, [MINHASH], 1)
    grid = [
        measured(setting, truth, goal)
        for setting in minhash_settings(fingerprinted, truth.pairs, names=("32x4",), thresholds=(least, most))
    ]
    return grid, refined(grid, truth, goal)


def test_a_threshold_between_two_of_the_grid_is_found_where_neither_reaches_the_goal():
    goal = Goal(400, recall=0.95, precision=0.98, jaccard=0.8, right=0.7)
    (lower, upper), (between,) = figures_between(0.5, 0.9, goal)
    assert lower.recall.value >= goal.recall > upper.recall.value
    assert lower.precision.value < goal.precision <= upper.precision.value
    assert between.recall.value >= goal.recall
    assert between.precision.value >= goal.precision
    assert 0.5 < between.setting.parameters["threshold"] < 0.9
    assert between.setting.decision == f"similarity >= {between.setting.threshold}"
    assert round(between.setting.threshold, 2) == between.setting.threshold


def test_nothing_is_refined_where_the_grid_reaches_the_goal_or_no_threshold_could():
    assert not figures_between(0.5, 0.7, Goal(400, precision=0.9))[1]
    assert not figures_between(0.85, 0.9, Goal(400))[1]


def test_what_reaches_the_goal_surely_goes_first_then_what_costs_least():
    goal = Goal(400, recall=0.9, precision=0.9)
    (some, _), _ = figures_between(0.5, 0.7, goal)

    def figures(rows: int, candidates: float, low: float) -> Figures:
        share = Estimate(0.95, low, 1.0, 400)
        cost = replace(some.cost, rows=rows)
        return replace(some, cost=cost, candidates=candidates, recall=share, precision=share)

    doubtful, full, sure, dear = (
        figures(4, 10, 0.89),
        figures(10, 500, 0.91),
        figures(20, 10, 0.91),
        figures(25, 9, 0.91),
    )
    ranked = sorted([dear, full, doubtful, sure], key=lambda each: rank(each, goal))
    assert ranked == [sure, dear, full, doubtful]
