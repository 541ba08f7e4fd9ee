"""Where two texts differ."""

import random

from simhbase.text import difference as module
from simhbase.text.difference import REPEATS_ITSELF, Span, WordCount, difference, notes


def marked(left: str, right: str) -> list[tuple[str, str]]:
    """What differs, in both texts."""
    return [
        (left[slice(*each.left)], right[slice(*each.right)])
        for each in difference(left, right).stretches
        if not each.same
    ]


def test_differing_words_are_marked_in_both_texts():
    left = "The council has decided to build a new bridge."
    right = "The council decided to build an old bridge, too!"
    assert marked(left, right) == [("has", ""), ("a new", "an old"), ("", "too")]


def test_chinese_words_are_those_of_jieba():
    left, right = "北京市气象台发布大风蓝色预警信号。", "北京市气象台发布大风黄色预警信号"
    assert marked(left, right) == [("蓝色", "黄色")]
    assert difference(left, right).words == (WordCount("蓝色", 1, 0), WordCount("黄色", 0, 1))


def test_mixed_texts_are_marked_where_they_differ():
    assert marked("苹果发布iPhone 15手机", "苹果发布iPhone 16手机") == [("15", "16")]


def test_case_width_punctuation_and_white_space_are_no_difference():
    found = difference("Ｔｈｅ　ＮＥＷ bridge!", "the new\n\nbridge")
    assert found.same
    assert found.stretches == (Span((0, 15), (0, 15), same=True),)
    assert found.words == ()


def test_a_place_is_that_in_the_text_as_it_was_given():
    assert marked("ﬁ ﬂ e\u0301 old", "fi fl é new") == [("old", "new")]


def test_a_text_and_none_differ_as_a_whole():
    assert difference("", "").stretches == ()
    assert difference("", "").same
    assert marked("", "a new bridge") == [("", "a new bridge")]
    assert marked("a new bridge", "") == [("a new bridge", "")]


def test_texts_without_words_have_the_same_ones():
    assert difference("!!!", "").same
    assert difference("!!!", "").stretches == (Span((0, 3), (0, 0), same=True),)


def test_a_text_that_moved_is_different_and_has_no_differing_words():
    found = difference("one two three four five", "four five one two three")
    assert not found.same
    assert found.words == ()


def test_words_are_listed_by_how_often_they_differ_up_to_a_number():
    found = difference("a " * 5 + "b c", "d d")
    assert found.words == (
        WordCount("a", 5, 0),
        WordCount("d", 0, 2),
        WordCount("b", 1, 0),
        WordCount("c", 1, 0),
    )
    some = difference("a " * 5 + "b c", "d d", most_words=1)
    assert (some.words, some.more_words) == (found.words[:1], 3)


def test_long_texts_are_cut_at_words_that_both_have_once(monkeypatch):
    monkeypatch.setattr(module, "CELLS", 100)
    words = [f"w{number}" for number in range(500)]
    changed = ["x" if number % 50 == 25 else word for number, word in enumerate(words)]
    left, right = " ".join(words), " ".join(changed)
    assert marked(left, right) == [(f"w{number}", "x") for number in range(25, 500, 50)]
    assert not difference(left, right).whole


def test_a_stretch_too_long_for_that_differs_as_a_whole_and_says_so(monkeypatch):
    monkeypatch.setattr(module, "CELLS", 100)
    left, right = "same " + "a b " * 20 + "end", "same " + "b a a " * 20 + "end"
    found = difference(left, right)
    assert found.whole
    assert [each.same for each in found.stretches] == [True, False, True]


def test_a_hundred_thousand_characters_are_compared_word_by_word():
    chance = random.Random(1)
    left = "".join(chr(chance.randrange(0x4E00, 0x5000)) for _ in range(100_000))
    right = left[:30_000] + left[40_000:]
    (missing,) = (each for each in difference(left, right).stretches if not each.same)
    assert missing.right[0] == missing.right[1]
    assert abs(missing.left[1] - missing.left[0] - 10_000) < 10


# --- what explains the similarity ---


def explained(left: str, right: str) -> tuple[str, ...]:
    return notes(left, right, difference(left, right))


def lines(seed: int, count: int = 40) -> list[str]:
    chance = random.Random(seed)
    return [" ".join(f"w{chance.randrange(5000)}" for _ in range(8)) for _ in range(count)]


def test_the_same_lines_in_another_order_are_said_to_be_so():
    some = lines(1)
    assert explained("\n".join(some), "\n".join(sorted(some))) == ("same lines, other order",)
    sentences = [f"{line.capitalize()}." for line in some]
    assert explained(" ".join(sentences), " ".join(sorted(sentences))) == ("same lines, other order",)


def test_lines_in_their_order_and_other_lines_are_not():
    some = lines(1)
    changed = [*some[:20], "one line more", *some[21:]]
    assert explained("\n".join(some), "\n".join(changed)) == ()
    assert explained("\n".join(some), "\n".join(lines(2))) == ()
    mostly_others = sorted(some[:20]) + lines(2, 20)
    assert explained("\n".join(some), "\n".join(mostly_others)) == ()


def test_a_name_that_is_replaced_throughout_is_named():
    some = lines(1)
    left, right = ("\n".join(f"{name} {line}" for line in some) for name in ("Alpha", "Beta"))
    assert explained(left, right) == ("differs by alpha -> beta",)
    assert explained(right, left) == ("differs by beta -> alpha",)


def test_a_name_that_explains_less_than_half_or_stays_somewhere_is_not():
    some, others = lines(1), lines(2)
    left = "\n".join(f"alpha {line}" for line in some)
    assert explained(left, "\n".join(f"beta {line}" for line in others)) == ()
    assert explained(left, left.replace("alpha", "beta", 20)) == ()
    assert explained("an alpha here", "a beta here") == ()


def test_a_text_that_repeats_a_few_patterns_is_named():
    chance = random.Random(5)
    messages = [f"message {number} was sent and received" for number in range(3)]
    left, right = ("\n".join(chance.choices(messages, k=300)) for _ in range(2))
    assert REPEATS_ITSELF in explained(left, right)
    assert REPEATS_ITSELF not in explained("\n".join(lines(1)), "\n".join(lines(2)))
    assert explained("ab" * 20, "ba" * 20) == ()
