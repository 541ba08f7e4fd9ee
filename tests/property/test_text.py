"""Of every text: the fast normal form is the plain one, and taking it twice changes nothing."""

import sys
from unicodedata import combining, decomposition

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simhbase.text.html import extract_html
from simhbase.text.normalise import normalise
from tests.reference import normalise as plain

EVERY_CHARACTER = [chr(code) for code in range(sys.maxunicode + 1)]
COMPATIBILITY = [character for character in EVERY_CHARACTER if decomposition(character)]
MARKS = [character for character in EVERY_CHARACTER if combining(character)]
JAMO = [chr(code) for code in range(0x1100, 0x1200)]
FULL_WIDTH = [chr(code) for code in (*range(0xFF01, 0xFFEF), 0x3000, 0xA0, 0x2026, 0x2103)]

# Characters that change their neighbours or are changed by them, among some that do not.
awkward = st.text(
    st.sampled_from(COMPATIBILITY)
    | st.sampled_from(MARKS)
    | st.sampled_from(JAMO)
    | st.sampled_from(FULL_WIDTH)
    | st.sampled_from("aAzZ09ΣσςİIıßẞ 。，中文\n\t\x1c\x85\u2028가각")
    | st.sampled_from("かがカーゝ゛ \u3099\x00\x9f\ue000\U000f0000١७๒")
)
anything = st.text(st.characters(exclude_categories=()))


@given(anything | awkward)
def test_normalise_equals_the_plain_composition(text: str) -> None:
    assert normalise(text) == plain(text)


@given(anything | awkward)
def test_normalise_is_idempotent(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once


@pytest.mark.parametrize(
    "mark", ["\u0301", "\u0308", "\u0323", "\u0345", "\u3099", "\u309a", "\u1161", "\u11a8"]
)
def test_full_width_forms_combine_as_their_plain_forms(mark: str) -> None:
    for character in FULL_WIDTH:
        for text in (
            character + mark,
            "a" + mark + character,
            mark + character,
            f"中{character}{mark}\u0323文",
        ):
            assert normalise(text) == plain(text)


@pytest.mark.full
def test_every_character_alone_and_beside_others() -> None:
    for character in EVERY_CHARACTER:
        for text in (character, f"A{character}\u0301", f"中{character}，\u3000{character}"):
            once = normalise(text)
            assert once == plain(text)
            assert normalise(once) == once


@given(st.binary() | anything)
def test_any_page_gives_some_text(html: bytes | str) -> None:
    assert isinstance(extract_html(html).text, str)
