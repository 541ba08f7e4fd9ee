"""The exact join finds what comparing every pair finds."""

import csv
import gzip
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhbase.errors import BadInput, UsageError
from simhbase.quality import exact_join
from simhbase.quality.exact_join import similar_pairs
from simhbase.text.jaccard import shingle_sets
from simhbase.text.normalise import normalise
from tests import reference

# Few characters and common stems make sets that overlap to every degree.
TEXTS = st.lists(
    st.builds(
        "".join,
        st.lists(st.sampled_from(["新闻联播今天播出", "abcdefgh", "x", "会议", " ", "Ａ"]), max_size=9),
    ),
    max_size=12,
)
THRESHOLDS = st.sampled_from([0.1, 0.3, 0.5, 0.7, 0.9, 1.0])


@given(TEXTS, THRESHOLDS)
def test_all_pairs_that_reach_the_threshold_are_found_with_their_similarity(texts, threshold):
    found = similar_pairs(shingle_sets(texts), threshold)
    expected = {
        (left, right): reference.similarity(texts[left], texts[right])
        for left, right in combinations(range(len(texts)), 2)
        if reference.similarity(texts[left], texts[right]) >= threshold
    }
    assert (
        dict(
            zip(
                zip(found.left.tolist(), found.right.tolist(), strict=True),
                found.score.tolist(),
                strict=True,
            )
        )
        == expected
    )


@given(TEXTS)
def test_the_similarity_of_any_pair_is_exact(texts):
    pairs = np.array(list(combinations(range(len(texts)), 2)), dtype=np.int64).reshape(-1, 2)
    found = shingle_sets(texts).similarity(pairs[:, 0], pairs[:, 1])
    assert found.tolist() == [reference.similarity(texts[left], texts[right]) for left, right in pairs]


@pytest.mark.parametrize("threshold", [0.0, -0.5, 1.01])
def test_a_threshold_that_is_no_share_is_refused(threshold):
    with pytest.raises(UsageError, match="above 0, up to 1"):
        similar_pairs(shingle_sets(["a text", "another"]), threshold)


def test_a_crowd_whose_pairs_would_take_hours_is_refused(monkeypatch):
    texts = [f"{'some words of all of these texts ' * 3} {number}" for number in range(100)]
    assert len(similar_pairs(shingle_sets(texts), 0.5).left) == 100 * 99 / 2
    monkeypatch.setattr(exact_join, "MOST_MEETINGS", 1_000)
    with pytest.raises(BadInput, match=r"of 100 texts so many are near each other .*: measure fewer"):
        similar_pairs(shingle_sets(texts), 0.5)


@pytest.mark.slow
def test_real_pairs_of_three_months_are_those_of_the_truth():
    compare_with_truth(lambda name: "2023" <= name.partition("/")[2] < "202304")


@pytest.mark.full
def test_real_pairs_of_both_archives_are_those_of_the_truth():
    compare_with_truth(lambda name: True)


def compare_with_truth(chosen) -> None:
    """All pairs of 0.5 and more among the chosen texts of 100 characters and more."""
    texts = {
        f"{corpus}/{name}": text
        for corpus in ("chinadata", "duckburn")
        for name, text in reference.documents(f"xwlb_{corpus}")
        if chosen(f"{corpus}/{name}") and len(normalise(text).replace(" ", "")) >= 100
    }
    names = list(texts)
    found = similar_pairs(shingle_sets(list(texts.values()), "chars:3"), 0.5)
    with gzip.open(reference.DATA / "pairs_xwlb_exact.tsv.gz", "rt", encoding="utf-8") as lines:
        truth = {
            frozenset(row[4:6]): float(row[0])
            for row in csv.reader(lines, delimiter="\t")
            if chosen(row[4]) and chosen(row[5])
        }
    pairs = {
        frozenset((names[left], names[right])): share
        for left, right, share in zip(
            found.left.tolist(), found.right.tolist(), found.score.tolist(), strict=True
        )
    }
    assert pairs.keys() == truth.keys()
    # The truth was made with all characters, also those that the normal form leaves out.
    differences = [abs(pairs[pair] - share) for pair, share in truth.items()]
    assert max(differences) <= 0.006
    assert sum(each > 0.00006 for each in differences) <= 5
