"""Tokens and weights: what counts as a feature, and how much."""

import unicodedata

import numpy as np
import pytest
import regex

from simhbase.errors import BadInput, UsageError
from simhbase.text.feature_extractor import FeatureExtractor
from simhbase.text.features import FeatureOptions, tokens
from simhbase.text.idf import SCALE, IdfTable, jieba_table
from simhbase.text.jaccard import shingle_sets
from simhbase.text.normalise import normalise
from tests import reference

FIRST, SECOND = np.array([0]), np.array([1])


def words(text: str, **options: object) -> list[tuple[str, float]]:
    return FeatureExtractor(FeatureOptions(**options)).words(text)


def test_han_goes_to_jieba_and_every_other_run_of_letters_marks_and_digits_is_one_token():
    assert tokens("我爱北京天安门,Hello_world 3.14 naïve ½") == [
        *["我", "爱", "北京", "天安门"],
        *["hello", "world", "3", "14", "naïve", "1", "2"],
    ]


def test_combining_marks_stay_with_their_letters():
    assert tokens("हिन्दी में") == ["हिन्दी", "में"]


def test_rare_han_characters_are_tokens_of_their_own_as_in_jieba():
    assert tokens("中国鿎鿏㐀㐁人民") == ["中国", "鿎", "鿏", "㐀", "㐁", "人民"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ไทย1 ก", ["ไท", "ทย", "1", "ก"]),
        ("ລາວabc", ["ລາ", "າວ", "abc"]),
        ("ខ្\u200bម", ["ខ្", "ម"]),
        ("ក\u200cខ", ["ក\u200c", "\u200cខ"]),
        ("လူ၏", ["လူ"]),
    ],
)
def test_thai_lao_khmer_and_burmese_runs_are_pairs_of_characters(text, found):
    assert tokens(text) == found == reference.tokens(text)


def test_full_width_and_half_width_texts_have_the_same_tokens():
    assert tokens("ＡＢＣ１２３ ﾊﾝｶｸ") == tokens("abc123 ハンカク")


def test_words_of_one_character_do_not_count_by_default():
    assert dict(words("我 爱 北京 a bc")) == {"北京": 1, "bc": 1}


def test_minimum_length_is_an_option():
    assert ("我", 1) in words("我 爱 北京", min_length=1)


def test_stop_words_do_not_count():
    assert words("北京 上海", stop_words=frozenset(["北京"])) == [("上海", 1)]


def test_counts_weigh_occurrences():
    assert words("上海 北京 北京") == [("北京", 2), ("上海", 1)]


def test_ties_are_broken_by_the_bytes_of_the_token_when_only_the_top_are_kept():
    assert [token for token, _ in words("zeta alpha 北京 éa mid", top=4)] == ["alpha", "mid", "zeta", "éa"]


def test_saturated_counts_are_counts_in_short_texts_and_bounded_in_long_ones():
    short = "上海 北京 北京"
    assert words(short, weights="saturated") == words(short)
    others = " ".join(f"word{number}" for number in range(1000))
    weighted = dict(words("heating " * 280 + others, weights="saturated"))
    assert (weighted["heating"], weighted["word7"]) == (6, 1)
    half = dict(words("heating " * 140 + others[: len(others) // 2], weights="saturated"))
    assert 6 < half["heating"] < 140


def test_saturated_weights_grow_with_the_count_and_fall_with_the_length():
    def weight(count: int, length: int) -> float:
        others = " ".join(f"word{number}" for number in range(length - count))
        return dict(words("heating " * count + others, weights="saturated"))["heating"]

    counts = (1, 2, 3, 5, 8, 13, 50, 200)
    for length in (200, 500, 1000, 1024, 3000):
        weights = [weight(count, length) for count in counts]
        assert weights == sorted(weights)
        assert all(each <= count for each, count in zip(weights, counts, strict=True))
    by_length = [weight(30, length) for length in (30, 100, 300, 600, 900, 1100, 2000)]
    assert by_length == sorted(by_length, reverse=True)
    assert weight(40_000, 40_000) == 6


def test_no_word_of_a_short_text_outweighs_the_others():
    post = "[蜡烛][蜡烛][蜡烛] 一路走好"
    assert words(post, weights="capped") == [("一路", 1), ("蜡烛", 1)]
    assert dict(words(post, weights="count"))["蜡烛"] == 3
    others = " ".join(f"word{number}" for number in range(39))
    assert words("heating " * 12 + others, weights="capped")[0] == ("heating", 11)


def test_tfidf_takes_jiebas_table_and_its_median_for_unknown_words():
    table = jieba_table()
    weights = dict(words("北京 北京 zzzz", weights="tfidf", idf=table))
    assert weights == {"北京": 2 * table.weights["北京"] / SCALE, "zzzz": table.median / SCALE}
    assert table.median == round(11.9547675029 * SCALE)


def test_a_malformed_line_of_an_idf_file_is_shown_in_part():
    with pytest.raises(BadInput, match=r"own, line 2: expected a token and its IDF .* found 'a") as raised:
        _ = IdfTable("own", b"a 1\n" + b"a" * 1_000_000).weights
    assert len(str(raised.value)) < 200


def test_a_word_of_an_idf_file_has_one_idf():
    assert IdfTable("own", b"a 1\na 1.0\n").weights == {"a": SCALE}
    with pytest.raises(BadInput, match=r"own, line 3: 'a' has another IDF on a line before"):
        _ = IdfTable("own", b"a 1\nb 1\na 2\n").weights


def test_a_users_idf_file_replaces_jiebas():
    table = IdfTable("mine", "北京 1.5\n上海 0\nnew york 2\n".encode())
    assert words("北京 上海 other", weights="tfidf", idf=table) == [
        ("other", 1.5),
        ("北京", 1.5),
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


@pytest.mark.parametrize(
    "kind", ["words", "words:2", "chars:1", "chars:3", "chars:4", "chars:7", "chars:1-3"]
)
def test_features_of_a_text_do_not_depend_on_its_neighbours_in_the_batch(kind):
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
    pipeline = FeatureOptions(kind=kind).pipeline()
    alone = [pipeline.fingerprint([text]) for text in texts]
    assert pipeline.fingerprint(texts) == [b"".join(parts) for parts in zip(*alone, strict=True)]


@pytest.mark.parametrize("size", range(1, 10))
def test_there_is_one_feature_for_each_distinct_ngram(size):
    text = "the cat and the cat 和那只猫和那只猫"
    bare = text.replace(" ", "")
    expected = {bare[i : i + size] for i in range(len(bare) - size + 1)}
    assert count(text, f"chars:{size}") == len(expected)


def count(text: str, kind: str) -> int:
    """Number of distinct features."""
    return shingle_sets([text], kind).sizes.item()


def of_length(length: int) -> str:
    return "".join(map(chr, range(0x4E00, 0x4E00 + length)))


def test_pairs_and_triples_go_together_at_every_length_and_single_characters_with_them_in_short_texts():
    shares = []
    for length in range(3, 100):
        text = of_length(length)
        singles = count(text, "chars:1-3") - count(text, "chars:2") - count(text, "chars:3")
        shares.append(singles / length)
    assert set(shares[:14]) == {1}
    assert shares[32 - 3] == pytest.approx(0.5, abs=0.2)
    assert set(shares[64 - 3 :]) == {0}


@pytest.mark.parametrize("length", [20, 40, 77, 100])
def test_a_text_a_quarter_longer_is_not_parted_from_the_shorter_by_its_length(length):
    shorter, longer = of_length(length), of_length(length + length // 4)

    def similarity(kind: str) -> float:
        return shingle_sets([shorter, longer], kind).similarity(FIRST, SECOND).item()

    assert similarity("chars:1-3") > min(similarity("chars:2"), similarity("chars:3")) - 0.05


def test_word_ngrams_know_the_order_of_the_words():
    texts = ["one two three one two", "one two three", "three two one", "北京 weather 上海 weather 北京"]
    sets = shingle_sets(texts, "words:2")
    assert sets.sizes.tolist() == [3, 2, 2, 4], "words of all scripts in the text's order"
    assert sets.similarity(FIRST + 1, SECOND + 1) == 0


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
