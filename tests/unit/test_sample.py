import random

import numpy as np

from simhbase.quality.sample import Sample, Sampler, document_keys
from simhbase.text.jaccard import shingle_sets


def corpus(documents: int, words: int = 60, changed: int = 2) -> list[str]:
    """Pairs of near-duplicates: every second text is the one before with a few other words."""
    chance = random.Random(1)

    def word() -> str:
        return "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=5))

    texts = []
    for _ in range(documents // 2):
        text = [word() for _ in range(words)]
        texts.append(" ".join(text))
        for place in chance.sample(range(words), changed):
            text[place] = word()
        texts.append(" ".join(text))
    return texts


def drawn(texts: list[str], limit: int, seed: int = 0, at_once: int = 100) -> Sample:
    sampler = Sampler(limit)
    for start in range(0, len(texts), at_once):
        some = texts[start : start + at_once]
        ids = [f"d{number}" for number in range(start, start + len(some))]
        sampler.add(ids, some, document_keys(some, seed))
    return sampler.sample()


def pairs_kept(sample: Sample) -> int:
    numbers = {int(name[1:]) for name in sample.places}
    return sum(number + 1 in numbers for number in numbers if number % 2 == 0)


def test_a_corpus_that_fits_is_taken_whole():
    texts = corpus(100)
    sample = drawn(texts, 100)
    assert sample.texts == texts
    assert sample.is_whole
    assert sample.probability(np.array([0]), np.array([1])).tolist() == [1.0]


def test_a_sample_is_no_larger_than_its_limit_and_not_much_smaller():
    sample = drawn(corpus(4000), 500)
    assert 480 <= len(sample.texts) <= 500
    assert sample.read == 4000
    assert not sample.is_whole


def test_near_duplicates_are_drawn_together():
    sample = drawn(corpus(4000), 400)
    # A tenth of the documents drawn at random would keep a hundredth of the 2,000 pairs.
    assert pairs_kept(sample) > 5 * 20


def test_pairs_weighted_by_how_probably_they_were_drawn_are_as_many_as_the_corpus_has():
    texts = corpus(4000)
    totals = []
    for seed in range(10):
        sample = drawn(texts, 800, seed)
        number = {int(name[1:]): place for name, place in sample.places.items()}
        both = [(number[one], number[one + 1]) for one in number if one % 2 == 0 and one + 1 in number]
        left, right = np.array(both).T
        totals.append(float((1 / sample.probability(left, right)).sum()))
    assert abs(np.mean(totals) / 2000 - 1) < 0.05


def test_the_same_seed_draws_the_same_sample_however_it_is_read():
    texts = corpus(1000)
    assert drawn(texts, 300, 5, at_once=100).texts == drawn(texts, 300, 5, at_once=7).texts
    assert drawn(texts, 300, 5).texts != drawn(texts, 300, 6).texts


def test_equal_texts_are_in_a_sample_once_under_all_their_ids():
    sample = drawn(["the same text here", "another text there", "the same text here"], 10)
    assert sample.texts == ["the same text here", "another text there"]
    assert sample.places == {"d0": 0, "d1": 1, "d2": 0}
    assert sample.copies == 1


def test_texts_share_keys_as_often_as_their_similarity_says():
    texts = corpus(2000, changed=3)
    left, right = np.arange(0, 2000, 2), np.arange(1, 2000, 2)
    keys = document_keys(texts, 0)
    expected = (shingle_sets(texts).similarity(left, right) ** 3).mean()
    assert abs((keys[left] == keys[right]).mean() - expected) < 0.02
