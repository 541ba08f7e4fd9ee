"""Growing shingles are those of the definition (tests/reference.py), of every text."""

from itertools import islice
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhbase._core import Pipeline
from simhbase.text.features import FeatureOptions, growing_shingles, novelty
from simhbase.text.jaccard import shingle_sets
from simhbase.text.normalise import form, normalise
from tests import reference

LONGEST = 34  # characters

# Texts in which runs of all lengths occur again: few characters, and stretches that are repeated.
stretches = st.text("ab", max_size=60) | st.text(max_size=60)
repetitive = st.lists(st.tuples(stretches, st.integers(1, 60)), max_size=6).map(
    lambda parts: "".join(stretch * times for stretch, times in parts)
)


def places(text: str) -> list[tuple[int, int]]:
    return [(start, len(shingle)) for start, shingle in growing_shingles(text)]


def sketcher(kind: str) -> Pipeline:
    """Makes sketches of 128 slots of 32 bits."""
    return FeatureOptions(kind=kind).pipeline(sketching=(128, 32, 0, False, False, True))


def bare(text: str) -> str:
    return normalise(text).replace(" ", "")


@given(st.text() | repetitive)
def test_starts_and_lengths_are_those_of_the_definition(text):
    assert places(text) == reference.growing_shingles(bare(text))


@given(repetitive, repetitive)
def test_a_text_that_is_appended_adds_shingles_and_changes_none(text, more):
    whole = bare(text + more)
    before = dict(reference.growing_shingles(whole[: len(whole) // 2]))
    complete = {start: length for start, length in before.items() if start + LONGEST <= len(whole) // 2}
    after = dict(places(text + more))
    assert {start: after[start] for start in complete} == complete


@given(st.permutations([chr(code) for code in range(0x4E00, 0x4E40)]).map("".join))
def test_they_are_the_triples_where_none_occurs_twice(text):
    assert [shingle for _, shingle in growing_shingles(text)] == [
        text[start : start + 3] for start in range(62)
    ]
    growing, triples = (sketcher(kind).fingerprint([text]) for kind in ("chars:growing", "chars:3"))
    assert growing == triples


@given(st.text(max_size=300) | repetitive, st.text(max_size=300))
def test_no_text_of_a_batch_changes_those_of_another(one, other):
    pipeline = sketcher("chars:growing")
    together = pipeline.fingerprint([one, other, one])
    alone = [pipeline.fingerprint([text]) for text in (one, other, one)]
    assert list(together) == [b"".join(parts) for parts in zip(*alone, strict=True)]
    sizes = shingle_sets([one, other, one]).sizes.tolist()
    assert sizes == [len(growing_shingles(text)) for text in (one, other, one)]


@given(st.text(max_size=300) | repetitive)
def test_novelty_is_their_number_a_place(text):
    places = len(bare(text)) - 2
    assert novelty(text) == (1 if places < 1 else len(growing_shingles(text)) / places)


@pytest.mark.parametrize("corpus", reference.CORPORA)
def test_real_texts_once_twice_and_three_times(corpus):
    """Documentation repeats runs of 34 characters often, news hardly ever."""
    for _, text in islice(reference.documents(corpus, 97), 25):
        text = text[:4000]
        for each in (text, text * 2, text[:1500] * 3):
            assert places(each) == reference.growing_shingles(bare(each))


@pytest.mark.full
@pytest.mark.parametrize("alphabet", ["ab", "acgt", "abcdefghijklmnopqrstuvwxyz", "real"])
def test_texts_of_16_million_characters(alphabet):
    """What is found at a place depends only on what stands before it and the next 34 characters. So the first
    two million are compared; the definition takes gigabytes for all."""
    chance = Random(7)
    if alphabet == "real":
        text = "".join(text for _, text in reference.documents("versioned_docs_en"))[: 1 << 24]
    else:
        text = "".join(chance.choices(alphabet, k=1 << 24))
    starts, lengths = (
        np.frombuffer(each, kind)
        for each, kind in zip(form().growing_shingles(text), (np.uint32, np.uint8), strict=True)
    )
    assert len(np.unique(starts)) == len(starts)
    beginning = bare(text[: 1 << 21])
    found = starts + LONGEST <= len(beginning)
    order = np.argsort(starts[found])
    found_there = zip(starts[found][order].tolist(), lengths[found][order].tolist(), strict=True)
    expected = [each for each in reference.growing_shingles(beginning) if each[0] + LONGEST <= len(beginning)]
    assert list(found_there) == expected
