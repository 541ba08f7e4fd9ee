"""Texts that are changed in known ways, and looked for."""

import random
import re

import numpy as np
import pytest

import simhbase
from simhbase.profile.profile import make_profile
from simhbase.quality.changes import (
    PARAGRAPH,
    SHARES,
    Changes,
    WordsInText,
    by_dedup,
    by_store,
    matched_changes,
)
from simhbase.quality.pairs import TextPairs
from simhbase.text.features import tokens
from tests.command_line import texts
from tests.reference import DATA

ENGLISH = texts(40, words=200)
CHINESE = "北京市人民政府2021年3月12日召开会议,研究部署全市工作。会议指出,市人民政府要落实责任。"


def changed(contents, seed=0):
    return dict(Changes([WordsInText(text) for text in contents], random.Random(seed)).all())


def test_as_many_words_are_others_as_the_name_says():
    pairs = changed(ENGLISH)
    for share in SHARES:
        for before, after in pairs[f"{100 * share:.0f} % of the words changed"]:
            words = list(zip(tokens(before), tokens(after), strict=True))
            assert sum(one != other for one, other in words) == share * 200
    (before, after), _ = changed([*ENGLISH[:1], "two words"])["1 % of the words changed"]
    assert len(after.split()) == len(before.split())
    _, (before, after) = changed([*ENGLISH[:1], "two words"])["1 % of the words changed"]
    assert sum(one != other for one, other in zip(before.split(), after.split(), strict=True)) == 1


def test_a_name_is_another_one_everywhere_and_so_is_the_date():
    first = "Ms Kowalski met the council. The council asked Ms Kowalski, and Ms Kowalski told it."
    others = ["The council met the press. The council told the press of Ms Right and of Ms Wrong."] * 3
    before, after = changed([first, *others])["a date and a name changed"][0]
    dates = [re.match(r"20\d\d-\d\d-\d\d ", text)[0] for text in (before, after)]
    assert dates[0][:4] != dates[1][:4]
    name = re.fullmatch(before[11:].replace("kowalski", r"(\w+)", 1).replace("kowalski", r"\1"), after[11:])
    assert name[1] != "kowalski"


def test_a_paragraph_is_added_at_the_end_also_of_short_texts():
    for contents in (ENGLISH, [text[:40] for text in ENGLISH]):
        for before, after in changed(contents)[f"a paragraph of {PARAGRAPH} words added"]:
            assert after.startswith(f"{before} ")
            assert len(tokens(after)) == len(tokens(before)) + PARAGRAPH


def test_words_of_chinese_are_those_of_the_dictionary():
    text = WordsInText(CHINESE)
    assert text.words[0][0] == "北京市人民政府"
    assert text.with_others({0: "上海市", 2: "月"}) == CHINESE.replace("北京市人民政府", "上海市").replace(
        "年", "月"
    )
    assert text.cut(2) == "北京市人民政府2021"


def test_changes_are_those_of_the_seed():
    assert changed(ENGLISH) == changed(ENGLISH)
    assert changed(ENGLISH) != changed(ENGLISH, seed=1)


def test_similarity_and_matches_fall_the_more_is_changed():
    def all_pairs(given):
        left, right = np.triu_indices(len(given), 1)
        return TextPairs.of(len(given), [(left, right, np.ones(len(left)))])

    def no_pairs(given):
        return TextPairs.of(len(given), [])

    ways = {"all": all_pairs, "none": no_pairs, "complete": by_store(make_profile({}, "complete"), 1)}
    rows = matched_changes(ENGLISH, ways)
    assert [row.change for row in rows[:2]] == ["1 % of the words changed", "2 % of the words changed"]
    assert len(rows) == len(SHARES) + 2
    similar = [row.similarity for row in rows[: len(SHARES)]]
    assert similar == sorted(similar, reverse=True)
    assert similar[0] > 0.9 > 0.7 > similar[-1]
    assert all(row.low <= row.similarity <= row.high for row in rows)
    assert {(row.matched["all"].value, row.matched["none"].value) for row in rows} == {(1, 0)}
    assert rows[0].matched["complete"].value == 1 > rows[len(SHARES) - 1].matched["complete"].value
    assert rows[0].as_dict().keys() == {"change", "similarity", *ways}


def test_nothing_is_told_where_no_text_has_words():
    assert matched_changes(["!?", "...", ""], {}) == []
    assert matched_changes([ENGLISH[0], "!?"], {}) == []


@pytest.mark.parametrize("preset", ["default", "complete", "short"])
def test_a_store_finds_what_is_told(preset):
    contents = texts(60, words=60)
    finder = by_store(make_profile({}, preset), 1)
    for pairs in changed(contents).values():
        before, after = zip(*pairs, strict=True)
        with simhbase.open("memory:", create=preset) as index:
            index.add((str(number), text) for number, text in enumerate(before))
            found = [str(n) in {match.id for match in index.find(text)} for n, text in enumerate(after)]
        left = np.arange(len(pairs))
        assert finder([*before, *after]).has(left, left + len(pairs)).tolist() == found


@pytest.mark.parametrize("least", [None, 0.5, 0.8])
def test_dedup_removes_what_is_told(least):
    contents = texts(60, words=60)
    finder = by_dedup(least, 1)
    for pairs in changed(contents).values():
        before, after = zip(*pairs, strict=True)
        kept = simhbase.dedup(texts=[*before, *after], min_similarity=least or 0.65)
        left = np.arange(len(pairs))
        found = finder([*before, *after]).has(left, left + len(pairs))
        assert (kept.labels[len(pairs) :] == kept.labels[: len(pairs)]).tolist() == found.tolist()


@pytest.mark.skipif(not DATA.is_dir(), reason="needs shared/data")
def test_texts_of_the_benchmark_have_the_length_that_it_names():
    changes = pytest.importorskip("tests.bench.changes")
    for file in changes.LANGUAGES.values():
        several = changes.texts_of(file, 300)
        lengths = [len(WordsInText(next(several)).words) for _ in range(20)]
        assert set(lengths) <= {299, 300, 301}
        assert lengths.count(300) >= 18
