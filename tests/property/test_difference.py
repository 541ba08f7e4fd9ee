"""What holds of the difference of any two texts."""

from itertools import pairwise
from unittest.mock import patch

from hypothesis import example, given
from hypothesis import strategies as st

from simhbase.text import difference as module
from simhbase.text.difference import Difference, difference
from simhbase.text.features import tokens
from simhbase.text.normalise import normalise

PIECES = [
    "新桥",
    "北京",
    "a",
    "B",
    "ﬁ",
    "½",
    "①",
    "é",
    "e\u0301",
    "ΟΔΟΣ",
    "한",
    " ",
    "\n",
    "，",
    "x",
    "。",
    "２",
    "ｶ\uff9e",
    "\u200b",
    "\u200c",
    "م",
    "ไ",
    "か",
    "カナ",
    "\x00",
    "\ue000",
    "٣",
    "\u0301",
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=40).map("".join) | st.text(max_size=30)


def joined(found: Difference, left: str, right: str) -> tuple[str, str]:
    return (
        "".join(left[slice(*each.left)] for each in found.stretches),
        "".join(right[slice(*each.right)] for each in found.stretches),
    )


def assert_sound(left: str, right: str) -> None:
    found = difference(left, right)
    assert joined(found, left, right) == (left, right)
    for each in found.stretches:
        assert each.left != each.right or each.left[0] < each.left[1] or each.right[0] < each.right[1]
    kinds = [each.same for each in found.stretches]
    assert all(before != behind for before, behind in pairwise(kinds))


@example("a½", "½新桥")
@given(TEXTS, TEXTS)
def test_segments_rebuild_both_texts_and_alternate(left, right):
    assert_sound(left, right)


@given(TEXTS, TEXTS)
def test_they_do_so_where_texts_are_too_long_to_be_compared_at_once(left, right):
    with patch.object(module, "CELLS", 4):
        assert_sound(left, right)


@given(TEXTS)
def test_a_text_and_its_normal_form_have_the_same_words(text):
    assert difference(text, normalise(text)).words == ()


@given(st.lists(st.sampled_from("abcdef"), max_size=30), st.lists(st.sampled_from("abcdef"), max_size=30))
def test_what_is_the_same_is_a_longest_common_subsequence(left, right):
    found = difference(" ".join(left), " ".join(right))
    same = [
        word for each in found.stretches if each.same for word in " ".join(left)[slice(*each.left)].split()
    ]
    assert len(same) == longest(left, right)


def longest(left: list[str], right: list[str]) -> int:
    row = [0] * (len(right) + 1)
    for word in left:
        above = row[:]
        for column, other in enumerate(right, 1):
            row[column] = above[column - 1] + 1 if word == other else max(above[column], row[column - 1])
    return row[-1]


@given(
    st.sampled_from(["今天上午，北京市气象台发布大风蓝色预警信号。", "A ﬁne ½ day", "Ｆｕｌｌ　ｗｉｄｔｈ"])
)
def test_words_are_the_tokens_of_the_features(text):
    assert {each.word for each in difference(text, "").words} == set(tokens(text))
