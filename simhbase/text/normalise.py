"""Normal form of texts, from which features are computed.

Characters that readers do not see, or that only change how others are drawn, are removed: those that Unicode
ignores by default (UAX #44, Default_Ignorable_Code_Point: zero-width spaces, soft hyphens, direction marks,
variation selectors, tags), as in its NFKC_Casefold; annotation marks, skin tones of emoji (UTS #51) and the
key box. Two are kept where orthography needs them:

- The joiners U+200C and U+200D between letters of JOINED. Without them, Persian words and endings run
  together, and Sinhala, Bengali or Malayalam form other conjuncts (where they count: UAX #31, section 2.3;
  why: The Unicode Standard, section 23.2). Elsewhere they join emoji, or are hidden.
- U+200B between letters of UNSPACED. It ends a word in scripts that write no spaces (section 23.2), and
  becomes a space.

White space between two Han characters or beside kana is removed: it comes from line breaks and spread names.
So are control characters, and private use characters, which fonts use for icons. Digits of all scripts become
ASCII digits.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from unicodedata import combining, is_normalized, normalize

import numpy as np
import regex
from numpy.typing import NDArray

from simhbase.text.variants import GONE, CharacterTable, replaced

# Replacing a part of a text by its NFKC does not change the NFKC of the whole: both decompose to the same
# sequence (UAX #15). So the few characters that make nearly every Chinese text "not normalised" are replaced
# first, and most texts avoid the much slower normalize.
_COMMON = tuple((character, normalize("NFKC", character)) for character in "，：；？！（）％\u3000\xa0…℃")
_NEITHER_ASCII_NOR_HAN = re.compile("[^\x00-\x7f\u4e00-\u9fff、。《》“”·—]+")
# `normalize` sorts the marks of a letter by insertion, in quadratic time. (Halfwidth voiced marks are letters
# with the forms of marks.)
_MANY_MARKS = regex.compile(r"[\p{M}\uff9e\uff9f]{64,}")

NORMALISATION = "nfkc-lower-v3"  # name of this normal form in profiles
JOINED = (
    *("Arabic", "Syriac", "Mandaic", "Mongolian", "Nko", "Phags_Pa", "Adlam", "Hanifi_Rohingya"),
    *("Devanagari", "Bengali", "Gurmukhi", "Gujarati", "Oriya", "Tamil", "Telugu", "Kannada", "Malayalam"),
    *("Sinhala", "Khmer", "Myanmar", "Tibetan", "Balinese", "Javanese", "Brahmi", "Grantha"),
)
UNSPACED = ("Thai", "Lao", "Khmer", "Myanmar")
_ZERO_WIDTH_SPACE, _JOINERS = "\u200b", "\u200c\u200d"
# Listed here, because regex uses its own version of Unicode, and stored fingerprints must not depend on it.
_UNSEEN = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u20e3\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U0001f3fb-\U0001f3ff\U000e0000-\U000e0fff"
)
_CONTROL = "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"  # without white space
_PRIVATE = "\ue000-\uf8ff\U000f0000-\U0010ffff"
_ZEROS = (  # zero of each script; its other digits follow
    "\u0660\u06f0\u07c0\u0966\u09e6\u0a66\u0ae6\u0b66\u0be6\u0c66\u0ce6\u0d66\u0de6\u0e50\u0ed0\u0f20\u1040"
    "\u1090\u17e0\u1810\u1946\u19d0\u1a80\u1a90\u1b50\u1bb0\u1c40\u1c50\ua620\ua8d0\ua900\ua9d0\ua9f0\uaa50"
    "\uabf0\U000104a0\U00010d30\U00010d40\U00011066\U000110f0\U00011136\U000111d0\U000112f0\U00011450"
    "\U000114d0\U00011650\U000116c0\U000116d0\U000116da\U00011730\U000118e0\U00011950\U00011bf0\U00011c50"
    "\U00011d50\U00011da0\U00011de0\U00011f50\U00016130\U00016a60\U00016ac0\U00016b50\U00016d70"
    "\U0001ccf0\U0001e140\U0001e2f0\U0001e4f0\U0001e5f1\U0001e950"
)
_UNSEEN_RUN = re.compile(f"[{_UNSEEN}]+")
_RANGE = re.compile("(.)(?:-(.))?", re.DOTALL)  # an item of the lists above
HAN = "々〇\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
KANA = "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\U0001aff0-\U0001b16f"
VOICED = "\u3099\u309a"  # marks that compose with kana
# White space that is removed: of normalised and of folded texts.
_SPACE = re.compile(f" (?:(?<=[{HAN}] )(?=[{HAN}])|(?<=[{KANA}] )(?![{VOICED}])|(?=[{KANA}]))")
SPACES = re.compile(rf"(?<=[{HAN}])\s+(?=[{HAN}])|(?<=[{KANA}])\s+(?![\s{VOICED}])|\s+(?=[{KANA}])")


def _letters_of(scripts: tuple[str, ...]) -> regex.Pattern[str]:
    """A pattern for one letter or mark of some scripts, including marks that several scripts share."""
    any_of = "".join(rf"\p{{scx={script}}}" for script in scripts)
    return regex.compile(rf"[[\p{{L}}\p{{M}}]&&[{any_of}]]", regex.V1)


_LETTER_JOINED, _LETTER_UNSPACED = _letters_of(JOINED), _letters_of(UNSPACED)
_LETTER_EITHER = _letters_of(JOINED + UNSPACED).pattern
# Grapheme clusters, extended by those whose form depends on invisible characters between them. Regional
# indicators compose with nothing, and \X would count back to the first of a run at each.
_REGIONAL = "[\U0001f1e6-\U0001f1ff]"
_NOT_SEEN = rf"(?:[{_UNSEEN}{_CONTROL}{_PRIVATE}]++\p{{M}}*+)*+"
CLUSTER = regex.compile(
    rf"(?:{_REGIONAL}|\X){_NOT_SEEN}"
    rf"(?:(?<={_LETTER_EITHER}[{_UNSEEN}]+)(?={_LETTER_EITHER})\X{_NOT_SEEN})*",
    regex.V1,
)

# Characters that are in no token, and across which neighbours never interact: NFKC composes none of them with
# the character before, and a final sigma before them is lowercased as at the end (unlike before a colon, a
# full stop or an apostrophe). White space next to Han, or what may become Han, is excluded.
_NO_NEIGHBOUR = rf"\s{_CONTROL}{_UNSEEN}\u2e80-\uabff\ud7b0-\U0010ffff"
_SEPARATOR = re.compile(rf"[,;!?，；！？、。]|(?<=[^{_NO_NEIGHBOUR}])\s+(?=[^{_NO_NEIGHBOUR}])")
PIECE = 1 << 16  # characters


def normalise(text: str, variants: CharacterTable | None = None) -> str:
    """Normalise a text: NFKC, lower case, without invisible characters; runs of white space become one space,
    and are removed at the ends, between Han and beside kana. Idempotent, unless a letter has marks of
    different scripts with a joiner between them. variants: replaced by this table."""
    spaced = " ".join(fold(text, variants).split())
    return spaced if spaced.isascii() else _SPACE.sub("", spaced)


def fold(text: str, variants: CharacterTable | None = None) -> str:
    """Normalise a text, but keep its white space."""
    if _holds(text, _is_changed()):
        text = replaced(text, plain_points())
    composed = _nfkc(text)
    lower = composed.lower()
    if lower != composed:
        lower = _nfkc(lower)  # a capital and its accent may compose in lower case only: ẗ, ǰ
    if not lower.isascii() and _holds(lower, unseen_points()):
        lower = _nfkc(_UNSEEN_RUN.sub(_visible, lower))
    if variants is None:
        return lower
    folded = variants.convert(lower)
    return folded if len(folded) == len(lower) else _nfkc(folded)


def _holds(text: str, table: NDArray[np.bool_]) -> bool:
    """True if a text has a character of a table (bool by code point). Four times as fast as a regex
    search."""
    if text.isascii():
        return bool(table[np.frombuffer(text.encode(), dtype=np.uint8)].any())
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    return bool(table[points].any())


@cache
def unseen_points() -> NDArray[np.bool_]:
    """By code point, True if it is invisible."""
    return _listed(_UNSEEN)


@cache
def plain_points() -> NDArray[np.uint32]:
    """By code point, its replacement before anything else: ASCII digits for digits, and GONE for control and
    private use characters."""
    table = np.arange(sys.maxunicode + 1, dtype="<u4")
    table[_listed(_CONTROL + _PRIVATE)] = GONE
    for zero in map(ord, _ZEROS):
        table[zero : zero + 10] = range(ord("0"), ord("0") + 10)
    return table


@cache
def _is_changed() -> NDArray[np.bool_]:
    return np.not_equal(plain_points(), np.arange(sys.maxunicode + 1))


def _listed(ranges: str) -> NDArray[np.bool_]:
    table = np.zeros(sys.maxunicode + 1, dtype=np.bool_)
    for first, last in _RANGE.findall(ranges):
        table[ord(first) : ord(last or first) + 1] = True
    return table


def _visible(unseen: re.Match[str]) -> str:
    """Replacement of a run of invisible characters: a joiner, a space, or nothing."""
    text, (start, end) = unseen.string, unseen.span()
    before, behind = text[start - 1 : start], text[end : end + 1]
    if _LETTER_JOINED.match(before) and _LETTER_JOINED.match(behind):
        joiners = [character for character in unseen[0] if character in _JOINERS]
        if joiners:
            return joiners[0]
    is_border = _ZERO_WIDTH_SPACE in unseen[0]
    if is_border and _LETTER_UNSPACED.match(before) and _LETTER_UNSPACED.match(behind):
        return " "
    return ""


def _nfkc(text: str) -> str:
    for character, replacement in _COMMON:
        text = text.replace(character, replacement)
    if is_normalized("NFKC", text):
        return text
    text = _NEITHER_ASCII_NOR_HAN.sub(_nfkc_of_run, text)
    if is_normalized("NFKC", text):
        return text
    return normalize("NFKC", text)


def _nfkc_of_run(run: re.Match[str]) -> str:
    return normalize("NFKC", _MANY_MARKS.sub(_ordered, run[0]))


def _ordered(marks: regex.Match[str]) -> str:
    """Many marks in canonical order (Unicode, section 3.11): each stretch without a starter is sorted."""
    decomposed = "".join(normalize("NFKD", mark) for mark in marks[0])
    stretches = groupby(decomposed, key=lambda mark: combining(mark) > 0)
    return "".join("".join(sorted(stretch, key=combining)) for _, stretch in stretches)


def pieces(text: str) -> Iterator[str]:
    """Split a long text into pieces of about PIECE characters, longer if there is no separator.

    The pieces have the same tokens as the text, and the same normal form if white space is ignored.
    """
    start = 0
    while len(text) - start > PIECE and (found := _SEPARATOR.search(text, start + PIECE)):
        yield text[start : found.start()]
        start = found.start()
    yield text[start:]
