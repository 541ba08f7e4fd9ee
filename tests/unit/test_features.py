"""Tokens and weights: what counts as a feature, and how much."""

import unicodedata
from collections import Counter

import numpy as np
import pytest
import regex

from simhbase.errors import UsageError
from simhbase.text.features import Extractor, FeatureOptions, saturated, tokens
from simhbase.text.idf import SCALE, IdfTable, jieba_table
from simhbase.text.normalise import normalise
from tests.roads import ROADS, road


def words(text: str, **options: object) -> list[tuple[str, int]]:
    return Extractor(FeatureOptions(**options), 64).weights(text)


def test_han_goes_to_jieba_and_every_other_run_of_letters_marks_and_digits_is_one_token():
    assert tokens("我爱北京天安门,Hello_world 3.14 naïve ½") == [
        *["我", "爱", "北京", "天安门"],
        *["hello", "world", "3", "14", "naïve", "1", "2"],
    ]


def test_combining_marks_stay_with_their_letters():
    assert tokens("हिन्दी में") == ["हिन्दी", "में"]


def test_rare_han_characters_are_tokens_of_their_own_as_in_jieba():
    assert tokens("中国鿎鿏㐀㐁人民") == ["中国", "鿎", "鿏", "㐀", "㐁", "人民"]


def test_full_width_and_half_width_texts_have_the_same_tokens():
    assert tokens("ＡＢＣ１２３ ﾊﾝｶｸ") == tokens("abc123 ハンカク")


def test_words_of_one_character_do_not_count_by_default():
    assert dict(words("我 爱 北京 a bc")) == {"北京": 65536, "bc": 65536}


def test_minimum_length_is_an_option():
    assert ("我", 65536) in words("我 爱 北京", min_length=1)


def test_stop_words_do_not_count():
    assert words("北京 上海", stop_words=frozenset(["北京"])) == [("上海", 65536)]


def test_counts_weigh_occurrences():
    assert words("上海 北京 北京") == [("北京", 2 * 65536), ("上海", 65536)]


def test_ties_are_broken_by_the_bytes_of_the_token_when_only_the_top_are_kept():
    assert [token for token, _ in words("zeta alpha 北京 éa mid", top=4)] == ["alpha", "mid", "zeta", "éa"]


def test_saturated_counts_are_counts_in_short_texts_and_bounded_in_long_ones():
    short = "上海 北京 北京"
    assert words(short, weights="saturated") == words(short)
    others = " ".join(f"word{number}" for number in range(1000))
    weighted = dict(words("heating " * 280 + others, weights="saturated"))
    assert (weighted["heating"], weighted["word7"]) == (6 * SCALE, 1 * SCALE)
    half = dict(words("heating " * 140 + others[: len(others) // 2], weights="saturated"))
    assert 6 * SCALE < half["heating"] < 140 * SCALE


def test_saturated_weights_grow_with_the_count_and_fall_with_the_length():
    counts = np.arange(1, 2000)
    for length in (10, 100, 500, 1000, 1024, 5000):
        weights = saturated(counts, np.full(len(counts), length))
        assert (np.diff(weights) >= 0).all()
        assert (weights <= 2 * counts).all()
    assert (np.diff(saturated(np.full(5000, 30), np.arange(1, 5001))) <= 0).all()
    assert saturated(np.array([10**9]), np.array([10**9])).tolist() == [12]


@pytest.mark.parametrize("name", ROADS)
@pytest.mark.parametrize("bits", [64, 128])
def test_saturated_words_of_a_batch_have_their_weights(bits, name):
    texts = ["", "北京 上海 上海 " * 300, "hello hello world", "x", "heating " * 900 + "rules"]
    extractor = Extractor(FeatureOptions(weights="saturated"), bits)
    with road(name):
        batch = extractor.extract(texts)
    weights = np.ones(len(batch.digests), np.int64) if batch.weights is None else batch.weights
    ends = np.cumsum(batch.counts).tolist()
    for text, start, end in zip(texts, [0, *ends], ends, strict=False):
        repeated = Counter()
        for digest, weight in zip(batch.digests[start:end], weights[start:end].tolist(), strict=True):
            repeated[bytes(digest)] += weight
        halves = [2 * weight // SCALE for _, weight in extractor.weights(text)]
        assert sorted(repeated.values()) == sorted(halves)


def test_no_word_of_a_short_text_outweighs_the_others():
    post = "[蜡烛][蜡烛][蜡烛] 一路走好"
    assert words(post, weights="capped") == [("一路", SCALE), ("蜡烛", SCALE)]
    assert dict(words(post, weights="count"))["蜡烛"] == 3 * SCALE
    others = " ".join(f"word{number}" for number in range(39))
    assert words("heating " * 12 + others, weights="capped")[0] == ("heating", 11 * SCALE)


def test_tfidf_takes_jiebas_table_and_its_median_for_unknown_words():
    table = jieba_table()
    weights = dict(words("北京 北京 zzzz", weights="tfidf", idf=table))
    assert weights == {"北京": 2 * table.weights["北京"], "zzzz": table.median}
    assert table.median == round(11.9547675029 * 65536)


def test_a_users_idf_file_replaces_jiebas():
    table = IdfTable("mine", "北京 1.5\n上海 0\nnew york 2\n".encode())
    assert words("北京 上海 other", weights="tfidf", idf=table) == [
        ("other", round(1.5 * 65536)),
        ("北京", round(1.5 * 65536)),
    ], "a weight of 0 is no feature; the median of 0, 1.5 and 2 is 1.5"


def test_levels_are_five_integers_scaled_to_the_heaviest():
    table = IdfTable("mine", b"aa 10\nbb 8\ncc 4.1\ndd 0.1\n")
    assert dict(words("aa bb cc dd", weights="levels", idf=table)) == {"aa": 5, "bb": 4, "cc": 3, "dd": 1}


def test_options_that_do_not_go_together_are_refused():
    for options in (
        {"kind": "sentences"},
        {"kind": "chars:0"},
        {"weights": "bm25"},
        {"kind": "chars:3", "top": 5},
        {"weights": "tfidf"},
        {"top": 0},
        {"min_length": 0},
    ):
        with pytest.raises(UsageError):
            FeatureOptions(**options)


@pytest.mark.parametrize("bits", [64, 128])
@pytest.mark.parametrize(
    "kind", ["words", "words:2", "chars:1", "chars:3", "chars:4", "chars:7", "chars:1-3"]
)
def test_features_of_a_text_do_not_depend_on_its_neighbours_in_the_batch(kind, bits):
    texts = [
        "",
        "a",
        "ab cd ef ab cd",
        "北京大学的学生",
        "x",
        "",
        "one two three four five six seven eight nine ten",
        "".join(map(chr, range(0x4E00, 0x4E00 + 200))),
    ]
    extract = Extractor(FeatureOptions(kind=kind), bits).extract
    together = extract(texts)
    ends = np.cumsum(together.counts)
    for text, end, count in zip(texts, ends, together.counts, strict=True):
        alone = extract([text])
        assert alone.counts.tolist() == [count]
        assert np.array_equal(alone.digests, together.digests[end - count : end]), text


@pytest.mark.parametrize("size", range(1, 10))
def test_there_is_one_feature_for_each_distinct_ngram(size):
    text = "the cat and the cat 和那只猫和那只猫"
    bare = text.replace(" ", "")
    expected = Counter(bare[i : i + size] for i in range(len(bare) - size + 1))
    batch = Extractor(FeatureOptions(kind=f"chars:{size}"), 64).extract([text])
    found = Counter(batch.digests.view(">u8").ravel().tolist())
    assert sorted(found.values()) == sorted(expected.values())


def digests(text: str, kind: str) -> set[int]:
    batch = Extractor(FeatureOptions(kind=kind), 64).extract([text])
    return set(batch.digests.view(">u8").ravel().tolist())


def of_length(length: int) -> str:
    return "".join(map(chr, range(0x4E00, 0x4E00 + length)))


def test_pairs_and_triples_go_together_at_every_length_and_single_characters_with_them_in_short_texts():
    shares = []
    for length in range(3, 100):
        text = of_length(length)
        found, singles = digests(text, "chars:1-3"), digests(text, "chars:1")
        assert found - singles == digests(text, "chars:2") | digests(text, "chars:3")
        shares.append(len(found & singles) / length)
    assert set(shares[:14]) == {1}
    assert shares[32 - 3] == pytest.approx(0.5, abs=0.2)
    assert set(shares[64 - 3 :]) == {0}


@pytest.mark.parametrize("length", [20, 40, 77, 100])
def test_a_text_a_quarter_longer_is_not_parted_from_the_shorter_by_its_length(length):
    shorter, longer = of_length(length), of_length(length + length // 4)

    def similarity(kind: str) -> float:
        one, other = digests(shorter, kind), digests(longer, kind)
        return len(one & other) / len(one | other)

    assert similarity("chars:1-3") > min(similarity("chars:2"), similarity("chars:3")) - 0.05


def test_features_are_counted_up_to_what_is_enough():
    texts = ["", "ab", "abab", "ab" * 500 + "cdefgh", "abcdefghij"]
    batch = Extractor(FeatureOptions(kind="chars:2"), 128).extract(texts)
    assert batch.distinct(9) == [0, 1, 2, 2 + 6, 9]
    assert batch.distinct(2)[:3] == [0, 1, 2]


def test_word_ngrams_know_the_order_of_the_words():
    def ngrams(text):
        return set(
            Extractor(FeatureOptions(kind="words:2"), 64).extract([text]).digests.view(">u8").ravel().tolist()
        )

    assert len(ngrams("one two three one two")) == 3
    assert not ngrams("one two three") & ngrams("three two one")
    assert len(ngrams("北京 weather 上海 weather 北京")) == 4, "words of all scripts in the text's order"


def test_the_word_expression_matches_unicodes_letters_marks_and_decimal_digits():
    every = "".join(map(chr, range(0x20, 0x3000)))
    inside = {c for token in tokens(every) for c in token}
    expected = {
        c for c in normalise(every) if unicodedata.category(c)[0] in "LM" or unicodedata.category(c) == "Nd"
    }
    # The regex package may know a newer Unicode than Python: unassigned here may be a letter there.
    assert {
        c for c in inside ^ expected if regex.match(r"\p{Assigned}", c) and unicodedata.category(c) != "Cn"
    } == set()
