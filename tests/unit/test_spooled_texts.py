"""The exact similarities of texts that lie on disk."""

import tracemalloc
from contextlib import closing

import numpy as np
import pytest

from simhbase.deduplication.matching import BYTES_AT_ONCE, MatchCriteria, SpooledTexts
from simhbase.drawers.scheme import MinHashScheme
from simhbase.model.thresholds import SIMILAR
from simhbase.profile.profile import Profile
from tests.command_line import texts


@pytest.mark.slow
def test_long_texts_are_compared_a_few_at_a_time(tmp_path):
    contents = texts(60, words=5000)
    left, right = np.triu_indices(len(contents), 1)
    with closing(SpooledTexts(Profile(verify=False), 0.5, tmp_path)) as compared:
        compared.append(contents)
        compared.similarity(left[:1], right[:1])
        tracemalloc.start()
        found = compared.similarity(left[:300], right[:300])
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert len(found) == 300
    assert peak < 80 * BYTES_AT_ONCE < 20 * sum(map(len, contents))  # all at once take twice that


def test_texts_that_are_not_on_disk_are_compared_too(tmp_path):
    one, other, third = texts(3)
    with closing(SpooledTexts(Profile(verify=False), 0.5, tmp_path)) as compared:
        compared.append([one, other])
        found = compared.similarity(np.array([-1, -2, 0]), np.array([0, 0, 1]), [one, third])
    assert (found == 1).tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("profile", "asked", "least"),
    [
        (None, None, 0.65),
        ({"k": 3}, None, SIMILAR),
        (None, 0.3, 0.3),
        (None, 0, 0),
        ({"scheme": "minhash"}, None, SIMILAR),
        ({"scheme": "minhash", "threshold": "0.52-0.7"}, None, 0.52),
        ({"scheme": "minhash", "threshold": "0.54-0.7"}, None, 0.54),
        ({"scheme": "minhash", "threshold": "0.54-0.7"}, 0.3, 0.3),
        ({"verify": True}, None, 0.65),
        ({"verify": True, "threshold": 0.7}, 0, 0),
    ],
)
def test_what_is_asked_for_comes_before_the_profile_and_that_before_the_default(profile, asked, least):
    assert MatchCriteria.exact(profile, asked)[1] == least


@pytest.mark.parametrize(
    ("asked", "wanted"), [(None, "25x5"), (0.65, "25x5"), (0.9, "25x5"), (0.5, "23x3"), (0.3, "32x2")]
)
def test_bands_serve_the_similarity_that_is_asked_for(asked, wanted):
    """Those of the profile are for stores. Of pairs just at the similarity at least 95 % share a drawer."""
    for profile in (None, "complete", {"preset": "complete"}, {"scheme": "minhash", "threshold": 0.65}):
        criteria, least = MatchCriteria.exact(profile, asked)
        assert isinstance(criteria.chosen, MinHashScheme)
        assert criteria.chosen.bands.meeting(least) >= 0.95
        assert (criteria.chosen.bands.name, criteria.profile.bands) == (wanted, "20x5")


def test_bands_that_were_chosen_stay_and_the_lowest_similarities_get_all_slots():
    for bands in ("16x8", "20x5"):
        for profile in ({"scheme": "minhash", "bands": bands}, {"preset": "complete", "bands": bands}):
            chosen, _ = MatchCriteria.exact(profile, 0.3)
            assert chosen.chosen.bands.name == bands
    chosen, _ = MatchCriteria.exact(Profile(scheme="minhash"), None)
    assert chosen.chosen.bands.name == "20x5", "a profile has all parameters"
    lowest, _ = MatchCriteria.exact(None, 0.01)
    assert lowest.chosen.bands.name == "128x1"
