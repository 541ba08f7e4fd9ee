"""rjieba and the compiled loops, which run, against jieba, which is the reference, on real documents."""

from collections import Counter

import numpy as np
import pytest

from simhbase.profile import Profile, make_profile
from simhbase.text.features import _bag, tokens
from tests import reference
from tests.roads import ROADS, road

COMPARED = [("xwlb_chinadata", 1000), ("laws", 70), ("versioned_docs_en", 130)]
PROFILES = [
    Profile(verify=False),
    make_profile({}, "classic"),
    Profile(verify=False, features="words:2"),
    Profile(scheme="minhash"),
]


def assert_same_tokens(corpus: str, every: int) -> int:
    compared = 0
    for document, text in reference.documents(corpus, every):
        expected = reference.tokens(text)
        assert tokens(text) == expected, document
        bag = Counter(_bag(text))
        del bag["\n"]
        assert bag == Counter(expected), document
        compared += 1
    return compared


@pytest.mark.parametrize(("corpus", "every"), COMPARED)
def test_rjieba_gives_the_tokens_of_jieba(corpus, every):
    assert assert_same_tokens(corpus, every) >= 49


@pytest.mark.full
@pytest.mark.parametrize("corpus", reference.CORPORA)
def test_rjieba_gives_the_tokens_of_jieba_on_whole_corpora(corpus):
    assert assert_same_tokens(corpus, 1) > 3_000


def assert_same_fingerprints(corpus: str, every: int, profile: Profile) -> int:
    ids, texts = zip(*reference.documents(corpus, every), strict=True)
    found = []
    for name in ROADS:
        with road(name):
            found.append(profile.fingerprinter().fingerprint_many(texts))
    plain, compiled = found
    assert [ids[text] for text in np.flatnonzero(plain.values != compiled.values)] == []
    assert np.array_equal(plain.fingerprints.sketches, compiled.fingerprints.sketches)
    assert plain.reasons == compiled.reasons
    return len(texts)


@pytest.mark.parametrize(("corpus", "every"), COMPARED)
@pytest.mark.parametrize(
    "profile", PROFILES, ids=lambda each: f"{each.features} {each.feature_options.weights}"
)
def test_compiled_loops_give_the_same_fingerprints(corpus, every, profile):
    assert assert_same_fingerprints(corpus, every, profile) >= 49


@pytest.mark.full
@pytest.mark.parametrize("corpus", reference.CORPORA)
@pytest.mark.parametrize(
    "profile", PROFILES, ids=lambda each: f"{each.features} {each.feature_options.weights}"
)
def test_compiled_loops_give_the_same_fingerprints_on_whole_corpora(corpus, profile):
    assert assert_same_fingerprints(corpus, 1, profile) > 3_000
