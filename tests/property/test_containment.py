"""Containment is that of the definition (tests/reference.py), of all pairs of texts."""

from itertools import islice, pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simhbase.profile.profile import make_profile
from simhbase.text.boilerplate import Boilerplate
from simhbase.text.feature_extractor import FeatureExtractor
from simhbase.text.features import SHINGLES, FeatureOptions
from simhbase.text.variants import CharacterTable
from tests import reference

# Runs of both kinds, of just enough characters and one fewer, and what stands between them.
RUNS = ["abcdefghijklm", "abcdefghijkl", "一二三四五六", "一二三四五", "〇々二〇二四年"]
PARTS = [*RUNS, *"，A三か "]
TEXTS = st.lists(st.sampled_from(PARTS), max_size=8).map("".join) | st.text("ab一二", max_size=40)
PLAIN = FeatureOptions(kind=SHINGLES)


def measured(pairs: list[tuple[str, str]], options: FeatureOptions = PLAIN) -> list[float]:
    texts = [text for pair in pairs for text in pair]
    left = np.arange(0, len(texts), 2)
    return FeatureExtractor(options).containment(texts, left, left + 1).tolist()


@example("一二三四五六abcdefg", "一二三四五六abcdefgh")
@example("", "")
@given(TEXTS, TEXTS)
def test_both_directions_are_those_of_the_definition(one, other):
    pairs = [(one, other), (other, one)]
    assert measured(pairs) == [reference.containment(*pair, PLAIN) for pair in pairs]


@given(st.lists(TEXTS, min_size=1, max_size=6), st.data())
def test_pairs_of_a_batch_do_not_change_each_other(texts, data):
    numbers = st.lists(st.integers(0, len(texts) - 1), min_size=5, max_size=5)
    left, right = np.array(data.draw(numbers)), np.array(data.draw(numbers))
    together = FeatureExtractor(PLAIN).containment(texts, left, right).tolist()
    assert together == measured([(texts[one], texts[other]) for one, other in zip(left, right, strict=True)])


@given(TEXTS, TEXTS, TEXTS)
def test_a_part_is_contained_and_a_longer_text_contains_no_less(before, text, behind):
    other = before + "\n" + behind
    whole, part, less = measured([(text, before + text + behind), (text, text), (text, other)])
    assert (whole, part) == (1.0, 1.0)
    assert less >= max(measured([(text, before), (text, behind)]))


@pytest.mark.slow
@pytest.mark.parametrize("corpus", reference.CORPORA)
def test_real_texts_and_such_that_share_some(corpus):
    chance = Random(7)
    texts = [text[:3000] for _, text in islice(reference.documents(corpus, 97), 12)]
    for one, other in pairwise(texts):
        cut = chance.randrange(len(one))
        mixed = one[:cut] + other[: len(other) // 2] + one[cut:]
        changed = "".join(each if chance.random() < 0.95 else "x" for each in one)
        pairs = [(one, other), (one, mixed), (other, mixed), (mixed, one), (changed, one), (one, changed)]
        assert measured(pairs) == [reference.containment(*pair, PLAIN) for pair in pairs]


def test_variants_count_as_equal_and_boilerplate_does_not_count():
    lines = Boilerplate("mine", "line\t9\t責任編輯：張三\n".encode())
    table = CharacterTable("mine", "變\t变\n".encode())
    text, other = "天氣變化很大，今天下雨\n責任編輯：張三", "他說天氣变化很大，今天下雨"
    assert measured([(text, other)], FeatureOptions(SHINGLES, boilerplate=lines, variants=table)) == [1.0]
    without = FeatureOptions(SHINGLES, boilerplate=lines), FeatureOptions(SHINGLES, variants=table)
    for options in (PLAIN, *without):
        assert measured([(text, other)], options) == [reference.containment(text, other, options)]
        assert measured([(text, other)], options) < [1.0]


def test_the_shingles_of_every_preset_measure_the_same():
    text, other = "the quick brown fox jumps over it", "he saw the quick brown fox jumps over a dog"
    for name in ("default", "complete", "classic"):
        assert measured([(text, other)], make_profile({}, name).shingles) == measured([(text, other)])
