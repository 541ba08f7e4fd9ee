"""What is near among short texts, and that no length parts near texts."""

from itertools import combinations

import numpy as np
import pytest

import simhbase
from simhbase.drawers import banding
from simhbase.drawers.scheme import MinHashScheme
from simhbase.drawers.threshold import RisingThreshold
from simhbase.fingerprint.minhash import COUNTED, SketchParameters
from simhbase.profile.profile import make_profile
from simhbase.text.feature_extractor import FeatureExtractor
from simhbase.text.jaccard import ShingleSets
from tests.short import near_pairs, sentence_pairs

SHORT = make_profile({}, "short")


def found(pairs: list[tuple[str, str]]) -> set[tuple[int, int]]:
    """The pairs of positions that are near, of all the left texts with all the right ones behind them."""
    texts = [left for left, _ in pairs] + [right for _, right in pairs]
    fingerprints = SHORT.fingerprinter().fingerprint_many(texts).fingerprints
    batches = SHORT.index_scheme.pairs(fingerprints, SHORT.index_scheme.bounds(None, None))
    return {pair for batch in batches for pair in zip(batch.left.tolist(), batch.right.tolist(), strict=True)}


def features_in_common(left: str, right: str) -> float:
    sets = ShingleSets(FeatureExtractor(SHORT.feature_options), [left, right])
    return float(sets.similarity(np.array([0]), np.array([1]))[0])


def characters_in_common(left: str, right: str) -> float:
    return len(set(left) & set(right)) / len(set(left) | set(right))


def test_the_written_sentences_are_of_about_17_characters_and_differ_in_two():
    pairs = sentence_pairs()
    assert len({sentence for pair in pairs for sentence in pair}) == 2 * len(pairs) > 60
    for left, right in pairs:
        assert 16 <= len(left) == len(right) <= 18
        assert sum(a != b for a, b in zip(left, right, strict=True)) == 2


def test_written_sentences_of_different_pairs_have_little_in_common():
    pairs = sentence_pairs()
    assert all(
        characters_in_common(one, other) < 0.4
        for number, pair in enumerate(pairs)
        for others in pairs[:number]
        for one in pair
        for other in others
    )


def test_sentences_that_differ_in_two_characters_are_found_and_no_others():
    pairs = sentence_pairs()
    near = found(pairs)
    assert near <= {(number, number + len(pairs)) for number in range(len(pairs))}
    assert len(near) / len(pairs) >= 0.94  # 36 of 37 are


TITLE = "习近平举行仪式欢迎{}总统访华"
COUNTRIES = ["几内亚比绍", "土库曼斯坦", "印度尼西亚", "白俄罗斯", "吉尔吉斯斯坦", "马达加斯加", "塞内加尔"]


@pytest.mark.parametrize("preset", ["default", "short"])
def test_posts_that_have_one_repeated_emoticon_in_common_are_not_near(preset):
    posts = ["一路走好", "为雅安祈福", "停电了", "节日快乐呀", "悼念", "今年的生日蛋糕特别大"]
    with simhbase.open("memory:", create=preset) as index:
        claims = [index.claim(post, post + "[蜡烛]" * 3) for post in posts]
    assert all(claim.accepted for claim in claims)
    assert len({claim.fingerprint for claim in claims}) == len(posts)


def test_titles_of_one_template_are_rarely_near_for_what_estimates_stray():
    pairs = list(combinations([TITLE.format(country) for country in COUNTRIES], 2))
    other = [pair for pair in pairs if features_in_common(*pair) < 0.5]
    assert len(other) >= 10
    assert sum(map(bool, map(found, ([pair] for pair in other)))) <= 0.2 * len(other)


@pytest.mark.parametrize("longer", [0, 1])
@pytest.mark.parametrize("length", [*range(18, 40), *range(40, 200, 8), 127, 129])
def test_texts_that_differ_in_two_characters_are_found_at_every_length(length, longer):
    count = 50
    near = found(near_pairs(count, length, longer))
    assert near <= {(number, number + count) for number in range(count)}
    assert len(near) >= 0.85 * count


@pytest.mark.parametrize("length", [40, 100, 127, 129, 400])
def test_texts_of_one_subject_are_not_near_for_being_short(length):
    pairs = near_pairs(50, length, changed=length // 5)
    assert not found(pairs)


def test_the_threshold_rises_with_the_features_and_nowhere_at_once():
    rising = RisingThreshold(least=0.5, most=0.7, least_to=32)
    thresholds = [rising.of(features) for features in range(2 * COUNTED)]
    assert thresholds == sorted(thresholds)
    assert (thresholds[0], thresholds[32], thresholds[-1]) == (0.5, 0.5, 0.7)
    assert [round(10 * (thresholds[features] - 0.5), 9) for features in (64, 128)] == [1, 2]
    assert rising.of(COUNTED - 1) < rising.of(COUNTED) == 0.7
    sketching = SHORT.sketching
    most = SHORT.index_scheme.bounds(None, None).mismatches
    assert max(most[:-1] - most[1:]) <= 0.02 * sketching.slots
    assert most[0] == sketching.most_mismatches(0.54)
    assert most[-1] == sketching.most_mismatches(0.7)


def test_a_similarity_that_is_asked_for_counts_for_texts_of_all_lengths():
    scheme = SHORT.index_scheme
    assert scheme.bounds(None, 0.6).mismatches == SHORT.sketching.most_mismatches(0.6)
    assert scheme.loose_bounds(0.6).mismatches > scheme.bounds(None, 0.6).mismatches


def test_a_sketch_tells_how_many_features_its_text_has():
    sketching = SHORT.sketching
    assert sketching.bytes == sketching.signature_bytes + 1 == SketchParameters(256).bytes + 1
    texts = [
        "abc",
        "abcabcabc",
        "今天下午三点我们在图书馆门口见面吧",
        "".join(map(chr, range(0x4E00, 0x4F00))),
    ]
    fingerprints = SHORT.fingerprinter().fingerprint_many(texts).fingerprints
    assert sketching.features(fingerprints.sketches).tolist() == [6, 9, 48, COUNTED]
    damaged = fingerprints.sketches.copy()
    damaged[:, -1] = 255
    assert sketching.features(damaged).max() == COUNTED
    plain = MinHashScheme(SHORT.index_scheme.bands, SketchParameters(256), 0.5)
    assert (
        banding.segments(plain.bands, fingerprints.sketches[:, : sketching.signature_bytes], 8)
        == SHORT.index_scheme._segments(fingerprints)
    ).all()
