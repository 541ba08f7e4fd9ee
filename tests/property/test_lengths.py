"""Bounds that depend on how many features texts have: whoever asks, and however many at once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simhbase
from simhbase import Document, Profile
from simhbase.drawers.memory_index import Limits, MemoryIndex
from simhbase.fingerprint.sketches import mismatches_of
from simhbase.text.feature_extractor import FeatureExtractor
from simhbase.text.jaccard import ShingleSets
from tests.selection import load_unique

PROFILE = Profile(scheme="minhash", threshold="0.52-0.7")
FINGERPRINTER = PROFILE.fingerprinter()
LETTERS = "".join(map(chr, range(0x4E00, 0x4E00 + 160)))


@st.composite
def versions(draw) -> list[str]:
    """Beginnings of one text, of any length, with a few characters changed."""
    texts = []
    for _ in range(draw(st.integers(2, 6))):
        letters = list(LETTERS[: draw(st.integers(3, len(LETTERS)))])
        for place in draw(st.lists(st.integers(0, len(letters) - 1), max_size=4)):
            letters[place] = draw(st.sampled_from("xyz"))
        texts.append("".join(letters))
    return list(dict.fromkeys(texts))


@pytest.fixture(params=["memory", "rocksdb"], scope="module")
def new_store(request, tmp_path_factory):
    if request.param == "memory":
        return lambda: "memory:"
    return lambda: f"rocksdb:{tmp_path_factory.mktemp('lengths')}/store"


def near_pairs(texts: list[str]) -> set[tuple[int, int]]:
    """The definition: sketches share a band, and are as similar as texts of the shorter's features are."""
    fingerprints = FINGERPRINTER.fingerprint_many(texts).fingerprints
    scheme, sketching = PROFILE.index_scheme, PROFILE.sketching
    met = scheme.prefixes(fingerprints)
    near = set()
    for left in range(len(texts)):
        for right in range(len(texts)):
            mismatches = mismatches_of(
                sketching, fingerprints.sketches[[left]], fingerprints.sketches[[right]]
            )
            fewer = min(features(texts[left]), features(texts[right]))
            similar = sketching.similarity(mismatches)[0] >= PROFILE.index_scheme.threshold.of(fewer)
            if similar and (met[left] == met[right]).all(axis=1).any():
                near.add((left, right))
    return near


def features(text: str) -> int:
    return ShingleSets(FeatureExtractor(PROFILE.feature_options), [text]).sizes.item()


@settings(max_examples=25, deadline=None)
@given(texts=versions())
def test_a_pair_is_near_whichever_of_the_two_is_looked_up_and_wherever(new_store, texts):
    expected = near_pairs(texts)
    assert expected == {(right, left) for left, right in expected}
    fingerprints = FINGERPRINTER.fingerprint_many(texts).fingerprints
    bounds = PROFILE.index_scheme.bounds(None, None)
    pairs = {
        pair
        for batch in PROFILE.index_scheme.pairs(fingerprints, bounds)
        for pair in zip(batch.left.tolist(), batch.right.tolist(), strict=True)
    }
    assert pairs == {(left, right) for left, right in expected if left < right}
    hits = MemoryIndex(fingerprints, PROFILE.index_scheme).near(
        fingerprints, bounds, Limits(None, len(texts), len(texts))
    )
    assert {pair for chunk in hits for pair in zip(chunk.query, chunk.document, strict=True)} == expected
    with simhbase.open(new_store(), create=PROFILE) as index:
        index.add([Document(str(number), text) for number, text in enumerate(texts)])
        for lookups in (
            index.find_many(texts),
            [index.find(text) for text in texts],
            index.find_fingerprints(fingerprints.values),
        ):
            found = {(number, int(match.id)) for number, each in enumerate(lookups) for match in each.matches}
            assert found == expected


@settings(max_examples=25, deadline=None)
@given(texts=versions(), size=st.integers(2, 6))
def test_a_unique_load_keeps_the_same_in_batches_as_one_after_the_other(texts, size):
    kept = []
    for at_once in (1, size):
        with simhbase.open("memory:", create=PROFILE) as index:
            fingerprints = FINGERPRINTER.fingerprint_many(texts).fingerprints
            duplicates = []
            for start in range(0, len(texts), at_once):
                part = slice(start, start + at_once)
                ids = [str(number) for number in range(len(texts))[part]]
                duplicates += load_unique(index, ids, fingerprints[part]).duplicate_of
            kept.append(np.flatnonzero([near is None for near in duplicates]).tolist())
    assert kept[0] == kept[1]
