"""The exact similarities of texts that lie on disk."""

import tracemalloc
from contextlib import closing

import numpy as np
import pytest

from simhbase.corpus.record import Record
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.jobs.matching import BYTES_AT_ONCE, DEFAULT_SIMILARITY, MatchCriteria, SpooledTexts
from simhbase.jobs.pipeline import Batch
from simhbase.profile import Profile
from tests.command_line import texts


def batch_of(contents: list[str]) -> Batch:
    records = [Record("a", number, str(number), text=text) for number, text in enumerate(contents)]
    return Batch(records, FingerprintBatch.bare(np.zeros(len(records), dtype=np.uint64)), len(records))


def test_long_texts_are_compared_a_few_at_a_time(tmp_path):
    contents = texts(60, words=5000)
    left, right = np.triu_indices(len(contents), 1)
    with closing(SpooledTexts(Profile(verify=False), 0.5, tmp_path)) as compared:
        compared.append(batch_of(contents))
        compared.similarity(left[:1], right[:1])
        tracemalloc.start()
        found = compared.similarity(left[:300], right[:300])
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert len(found) == 300
    assert peak < 80 * BYTES_AT_ONCE < 20 * sum(map(len, contents))  # all at once take twice that


def test_texts_that_were_not_put_aside_are_compared_too(tmp_path):
    one, other, third = texts(3)
    with closing(SpooledTexts(Profile(verify=False), 0.5, tmp_path)) as compared:
        compared.append(batch_of([one, other]))
        found = compared.similarity(np.array([2, 3, 0]), np.array([0, 0, 1]), [one, third])
    assert (found == 1).tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("profile", "asked", "least"),
    [
        (None, None, 0.7),
        ({"k": 3}, None, DEFAULT_SIMILARITY),
        (None, 0.3, 0.3),
        (None, 0, 0),
        ({"scheme": "minhash"}, None, 0.8),
        ({"scheme": "minhash", "threshold": "0.52-0.7"}, None, 0.52),
        ({"scheme": "minhash", "threshold": "0.54-0.7"}, None, 0.54),
        ({"scheme": "minhash", "threshold": "0.54-0.7"}, 0.3, 0.3),
        ({"verify": True}, None, 0.7),
        ({"verify": True, "threshold": 0.7}, 0, 0),
    ],
)
def test_what_is_asked_for_comes_before_the_profile_and_that_before_the_default(profile, asked, least):
    assert MatchCriteria.exact(profile, asked)[1] == least
