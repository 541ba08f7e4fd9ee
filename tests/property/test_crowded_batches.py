"""A batch with large clusters is decided as any other, in time linear in its documents."""

from __future__ import annotations

import random
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simhbase
from simhbase.index import selection
from simhbase.index.selection import duplicates_of
from simhbase.model import Match
from simhbase.profile import Profile, make_profile
from tests.near import versions

PROFILES = {name: make_profile({}, name) for name in ("default", "complete", "short")} | {
    "unverified": Profile(verify=False),
    "wide": Profile(layout="3x2p1", k=2, reach=8),
}
TEXTS = [*versions(30, words=40), *versions(10, words=25, seed=1)]


def decided(profile: Profile, texts: list[str], pairs: int) -> list[Match | None]:
    """With what is kept, or with all pairs."""
    before, selection.PAIRS_OF_DOCUMENT = selection.PAIRS_OF_DOCUMENT, pairs
    try:
        with simhbase.open("memory:", create=profile) as index:
            bounds = profile.index_scheme.bounds(None, None)
            index.add([simhbase.Document("stored", TEXTS[0])])
            found = index.fingerprinter.fingerprint_many(texts).fingerprints
            return duplicates_of(index.reader, [f"d{n}" for n in range(len(found))], found, bounds)
    finally:
        selection.PAIRS_OF_DOCUMENT = before


@pytest.mark.parametrize("name", PROFILES)
@given(texts=st.lists(st.sampled_from(TEXTS), min_size=2, max_size=60))
@settings(max_examples=30)
def test_the_answers_are_those_from_all_pairs(name: str, texts: list[str]) -> None:
    profile = PROFILES[name]
    assert decided(profile, texts, -1) == decided(profile, texts, 1000)


def test_a_cluster_of_near_texts_takes_time_linear_in_its_size() -> None:
    """4,000 notices that differ in a word took 40 s, 1,000 of them 2.8 s."""
    notice = next(versions(1, words=120)).split()

    def seconds(size: int) -> float:
        chance = random.Random(size)
        texts = []
        for number in range(size):
            words = notice.copy()
            words[chance.randrange(len(words))] = f"word{number}"
            texts.append(" ".join(words))
        profile = make_profile({}, "complete")
        with simhbase.open("memory:", create=profile) as index:
            found = index.fingerprinter.fingerprint_many(texts).fingerprints
            bounds, ids = profile.index_scheme.bounds(None, None), [f"d{n}" for n in range(size)]
            begin = process_time()
            duplicates_of(index.reader, ids, found, bounds)
            return process_time() - begin

    assert seconds(4000) < 9 * min(seconds(1000) for _ in range(2))
