"""A batch with large clusters is decided as any other, in time linear in its documents."""

from __future__ import annotations

import random
from time import process_time
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simhbase
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index.claims import selection
from simhbase.index.claims.selection import Selection, duplicates_of, stored_near
from simhbase.index.reader import Asked, Near, Reader
from simhbase.model.values import Match
from simhbase.profile.profile import Profile, make_profile
from tests.near import versions

A_THIRD = settings(max_examples=settings().max_examples // 3)  # for each of the profiles
ANNOTATED = 100  # documents that an annotated one lists
PROFILES = {name: make_profile({}, name) for name in ("default", "complete", "short")} | {
    "unverified": Profile(verify=False),
    "wide": Profile(layout="3x2p1", k=2, reach=8),
}


def notices(size: int) -> list[str]:
    """They differ in a word."""
    notice, chance = next(versions(1, words=120)).split(), random.Random(size)
    texts = []
    for number in range(size):
        words = notice.copy()
        words[chance.randrange(len(words))] = f"word{number}"
        texts.append(" ".join(words))
    return texts


TEXTS = [*versions(30, words=40), *versions(10, words=25, seed=1)]
NOTICES = notices(40)


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
@A_THIRD
def test_the_answers_are_those_from_all_pairs(name: str, texts: list[str]) -> None:
    profile = PROFILES[name]
    assert decided(profile, texts, -1) == decided(profile, texts, 1000)


@pytest.mark.parametrize("name", PROFILES)
@given(
    stored=st.lists(st.sampled_from([*TEXTS, *NOTICES]), min_size=1, max_size=60),
    texts=st.lists(st.sampled_from([*TEXTS, *NOTICES]), min_size=2, max_size=12),
    replaced=st.integers(0, 12),
    drawer_limit=st.sampled_from([3, selection.DRAWER_LIMIT]),
    nearest=st.sampled_from([1, 2, 8]),
)
@A_THIRD
def test_answers_are_those_from_all_that_is_near(
    name: str, stored: list[str], texts: list[str], replaced: int, drawer_limit: int, nearest: int
) -> None:
    """However few are followed at first. Some of the texts have ids that are stored."""
    with simhbase.open("memory:", create=PROFILES[name]) as index:
        index.add([(f"s{number * 7 % 61}", text) for number, text in enumerate(stored)])
        found = index.fingerprinter.fingerprint_many(texts).fingerprints
        ids = [f"{'s' if number < replaced else 'd'}{number}" for number in range(len(texts))]
        bounds = index.profile.index_scheme.bounds(None, None)

        def answers(at_once: int) -> list[str]:
            with mock.patch.multiple(
                selection, NEAREST=nearest, FOLLOWED_AT_ONCE=at_once, DRAWER_LIMIT=drawer_limit
            ):
                return list(map(repr, duplicates_of(index.reader, ids, found, bounds)))

        def all_near(numbers: list[int], limit: int | None) -> Near:
            return stored_near(index.reader, found[numbers], bounds, frozenset(ids), limit)

        every = all_near(list(range(len(ids))), drawer_limit)
        chosen = Selection(
            index.reader, ids, found, bounds, every, lambda numbers: all_near(numbers, None).matches
        )
        expected = list(map(repr, chosen.run()))
        assert answers(16) == answers(128) == expected
        with mock.patch.multiple(selection, NEAREST=nearest, DRAWER_LIMIT=drawer_limit):
            first = list(map(repr, duplicates_of(index.reader, ids, found, bounds, in_parts=True)))
        assert 0 < len(first) <= len(expected)
        assert first == expected[: len(first)]
        if drawer_limit > len(stored) and not replaced:
            # Nothing else is stored in between, so the first is decided as by a lookup.
            assert expected[0] == repr(min(index.find(texts[0]).matches, default=None))


@pytest.mark.parametrize("name", PROFILES)
@given(
    stored=st.lists(st.sampled_from(TEXTS), max_size=20),
    texts=st.lists(st.sampled_from(TEXTS), min_size=1, max_size=30),
    pairs=st.sampled_from([-1, 1000]),
)
@A_THIRD
def test_annotated_texts_list_what_lookups_find(
    name: str, stored: list[str], texts: list[str], pairs: int
) -> None:
    """Of the documents stored before, one of which is replaced, and of earlier ones."""
    with (
        mock.patch.object(selection, "PAIRS_OF_DOCUMENT", pairs),
        simhbase.open("memory:", create=PROFILES[name]) as index,
    ):
        index.add([(f"s{number}", text) for number, text in enumerate(stored)])
        ids = ["s0", *(f"d{number}" for number in range(1, len(texts)))]
        claims = index.claim_many(zip(ids, texts, strict=True), mode="annotate")
        for number, (claim, lookup) in enumerate(zip(claims, index.find_many(texts), strict=True)):
            expected = [match for match in lookup if match.id not in ids[number:]]
            assert list(map(repr, claim.also_at)) == list(map(repr, expected))
            assert not claim.truncated


def test_where_none_of_the_nearest_matches_all_are_followed_for_a_few_texts_at_once() -> None:
    """256 texts near 30,000 by their fingerprints, and far by their sketches, took gigabytes."""
    near, asked = Reader.near, list[tuple[int | None, int]]()

    def noted(self: Reader, fingerprints: FingerprintBatch, query: Asked) -> Near:
        asked.append((self.near_limit, len(fingerprints)))
        return near(self, fingerprints, query)

    chance = np.random.default_rng(0)
    with simhbase.open("memory:", create="default") as index, mock.patch.object(Reader, "near", noted):
        found = index.fingerprinter.fingerprint_many([TEXTS[0]] * 300).fingerprints
        bits = np.left_shift(np.uint64(1), np.arange(60, dtype=np.uint64))
        values = found.values ^ np.concatenate([bits, *(bits ^ np.roll(bits, n) for n in range(1, 5))])
        sketches = chance.integers(0, 256, found.sketches.shape, np.uint8)
        index.add_batch([f"s{n}" for n in range(300)], FingerprintBatch(values, sketches))
        index.add([simhbase.Document("far", " ".join([*TEXTS[0].split(), "and more"]))])
        index.claim_many([(f"d{n}", TEXTS[0]) for n in range(30)], mode="annotate")
    assert {size for limit, size in asked if limit is None} <= set(range(1, selection.IN_FULL + 1))
    assert any(limit is None for limit, _ in asked)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["default", "complete", "classic"])
def test_a_text_of_a_large_cluster_lists_some_and_says_so(name: str) -> None:
    texts = [*notices(150), *notices(1) * 150]
    with simhbase.open("memory:", create=name) as index:
        for half in range(2):  # within a batch, then also of those stored before
            documents = [(f"{half}/{number}", text) for number, text in enumerate(texts)]
            claims = index.claim_many(documents, mode="annotate")
            assert [len(claim.also_at) for claim in claims[-99:]] == [ANNOTATED] * 99
            assert all(claim.truncated for claim in claims[-99:])
            assert not half or all(claim.also_at for claim in claims)
            assert claims[1].also_at


@pytest.mark.slow
@pytest.mark.parametrize("name", ["default", "complete"])
def test_annotating_a_cluster_takes_time_linear_in_its_size(name: str) -> None:
    """4,000 took a minute, as each listed all others: sixteen times as long as 1,000."""

    def seconds(size: int) -> float:
        with simhbase.open("memory:", create=name) as index:
            documents = [(f"d{number}", text) for number, text in enumerate(notices(size))]
            index.find(documents[0][1])
            begin = process_time()
            index.claim_many(documents, mode="annotate")
            return process_time() - begin

    # Beside other programs it took 9.2 times as long, by the square it would be 16.
    assert min(seconds(2000) for _ in range(2)) < 12 * min(seconds(500) for _ in range(2))


@pytest.mark.slow
def test_a_cluster_of_near_texts_takes_time_linear_in_its_size() -> None:
    """4,000 notices that differ in a word took 40 s, 1,000 of them 2.8 s."""

    def seconds(size: int) -> float:
        profile = make_profile({}, "complete")
        with simhbase.open("memory:", create=profile) as index:
            found = index.fingerprinter.fingerprint_many(notices(size)).fingerprints
            bounds, ids = profile.index_scheme.bounds(None, None), [f"d{n}" for n in range(size)]
            begin = process_time()
            duplicates_of(index.reader, ids, found, bounds)
            return process_time() - begin

    assert min(seconds(2000) for _ in range(2)) < 9 * min(seconds(500) for _ in range(2))
