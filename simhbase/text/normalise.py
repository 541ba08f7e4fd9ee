"""Text to the one form that features are taken from.

What a reader does not see, and what changes only how something is drawn, says nothing about a text. So the
characters that Unicode wants ignored by default (UAX #44, Default_Ignorable_Code_Point: zero-width
spaces, soft hyphens, marks of direction, variation selectors, tags) go, as in its own NFKC_Casefold; so
do annotation marks, the skin tones of emoji (UTS #51) and the box around a key. Two stay where writing
needs them:

- The joiners U+200C and U+200D between letters of JOINED: without them Persian runs words and endings
  together, and Sinhala, Bengali or Malayalam make other conjuncts. UAX #31, section 2.3, says where they
  count, and The Unicode Standard, section 23.2, why. Elsewhere they join emoji, or hide.
- U+200B between letters of UNSPACED is where a word ends in scripts that put no space there (section 23.2,
  too): it becomes a space.

White space between two Han characters or beside kana says nothing either: lines are broken there, and names
are spread. Nor do control characters and those for private use, which fonts have icons for. Digits of all
scripts are the same.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from unicodedata import is_normalized, normalize

import numpy as np
import regex
from numpy.typing import NDArray

from simhbase.errors import UsageError
from simhbase.text.variants import GONE, CharacterTable, replaced

# Any part of a text may be replaced by its own NFKC beforehand without changing the NFKC of the
# whole: both decompose to the same sequence (UAX #15). So the few characters that make nearly every
# Chinese text "not normalised" go first, and most texts never meet the far slower normalize.
_COMMON = tuple((character, normalize("NFKC", character)) for character in "，：；？！（）％\u3000\xa0…℃")
_NEITHER_ASCII_NOR_HAN = re.compile("[^\x00-\x7f\u4e00-\u9fff、。《》“”·—]+")

LATEST, SEEN, EVERY = "nfkc-lower-v3", "nfkc-lower-seen", "nfkc-lower-space"
NORMALISATIONS = (LATEST, SEEN, EVERY)  # the others: of stores that were made with them, which keep them
JOINED = (
    *("Arabic", "Syriac", "Mandaic", "Mongolian", "Nko", "Phags_Pa", "Adlam", "Hanifi_Rohingya"),
    *("Devanagari", "Bengali", "Gurmukhi", "Gujarati", "Oriya", "Tamil", "Telugu", "Kannada", "Malayalam"),
    *("Sinhala", "Khmer", "Myanmar", "Tibetan", "Balinese", "Javanese", "Brahmi", "Grantha"),
)
UNSPACED = ("Thai", "Lao", "Khmer", "Myanmar")
_ZERO_WIDTH_SPACE, _JOINERS = "\u200b", "\u200c\u200d"
# Listed, as regex knows the Unicode of its own version, and a stored fingerprint must not depend on that.
_UNSEEN = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u20e3\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U0001f3fb-\U0001f3ff\U000e0000-\U000e0fff"
)
_CONTROL = "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"  # but for white space
_PRIVATE = "\ue000-\uf8ff\U000f0000-\U0010ffff"
_ZEROS = (  # of each script, its other digits follow
    "\u0660\u06f0\u07c0\u0966\u09e6\u0a66\u0ae6\u0b66\u0be6\u0c66\u0ce6\u0d66\u0de6\u0e50\u0ed0\u0f20\u1040"
    "\u1090\u17e0\u1810\u1946\u19d0\u1a80\u1a90\u1b50\u1bb0\u1c40\u1c50\ua620\ua8d0\ua900\ua9d0\ua9f0\uaa50"
    "\uabf0\U000104a0\U00010d30\U00010d40\U00011066\U000110f0\U00011136\U000111d0\U000112f0\U00011450"
    "\U000114d0\U00011650\U000116c0\U000116d0\U000116da\U00011730\U000118e0\U00011950\U00011bf0\U00011c50"
    "\U00011d50\U00011da0\U00011de0\U00011f50\U00016130\U00016a60\U00016ac0\U00016b50\U00016d70"
    "\U0001e140\U0001e2f0\U0001e4f0\U0001e5f1\U0001e950"
)
_UNSEEN_RUN = re.compile(f"[{_UNSEEN}]+")
_RANGE = re.compile("(.)(?:-(.))?", re.DOTALL)  # in such a list
HAN = "々〇\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"
KANA = "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\U0001aff0-\U0001b16f"
VOICED = "\u3099\u309a"  # marks that compose with kana
# White space that says nothing.
_SPACE = {
    SEEN: re.compile(f" (?<=[{HAN}] )(?=[{HAN}])"),
    LATEST: re.compile(f" (?:(?<=[{HAN}] )(?=[{HAN}])|(?<=[{KANA}] )(?![{VOICED}])|(?=[{KANA}]))"),
}
SPACES = {
    SEEN: re.compile(rf"(?<=[{HAN}])\s+(?=[{HAN}])"),
    LATEST: re.compile(rf"(?<=[{HAN}])\s+(?=[{HAN}])|(?<=[{KANA}])\s+(?![\s{VOICED}])|\s+(?=[{KANA}])"),
}


def _letters_of(scripts: tuple[str, ...]) -> regex.Pattern[str]:
    """One letter or mark of some scripts, marks that several of them share included."""
    any_of = "".join(rf"\p{{scx={script}}}" for script in scripts)
    return regex.compile(rf"[[\p{{L}}\p{{M}}]&&[{any_of}]]", regex.V1)


_LETTER_JOINED, _LETTER_UNSPACED = _letters_of(JOINED), _letters_of(UNSPACED)
_LETTER_EITHER = _letters_of(JOINED + UNSPACED).pattern
# Characters that a reader takes for one, and those whose form depends on what is not seen between them.
_NOT_SEEN = rf"(?:[{_UNSEEN}{_CONTROL}{_PRIVATE}]++\p{{M}}*+)*+"
CLUSTER = regex.compile(
    rf"\X{_NOT_SEEN}(?:(?<={_LETTER_EITHER}[{_UNSEEN}]+)(?={_LETTER_EITHER})\X{_NOT_SEEN})*", regex.V1
)

# No token holds one of these, and what stands before and behind one never changes its neighbour:
# NFKC composes none of them with anything before it, and the lower case of a final sigma is the same
# before one as at the end (which is not so before a colon, a full stop or an apostrophe). White space
# between Han is none, nor where it may come to stand there.
_NO_NEIGHBOUR = rf"\s{_CONTROL}{_UNSEEN}\u2e80-\uabff\ud7b0-\U0010ffff"
_SEPARATOR = re.compile(rf"[,;!?，；！？、。]|(?<=[^{_NO_NEIGHBOUR}])\s+(?=[^{_NO_NEIGHBOUR}])")
PIECE = 1 << 16  # characters


@dataclass(frozen=True)
class NormalForm:
    """What of a text counts.

    name: LATEST; SEEN, in which control characters, those for private use, white space beside kana and the
    script of digits count; or EVERY, in which every character does; fold: characters that stand for one.
    Raises UsageError for another name.
    """

    name: str = LATEST
    fold: CharacterTable | None = None

    def __post_init__(self) -> None:
        if self.name not in NORMALISATIONS:
            raise UsageError(
                f"must be one of {', '.join(NORMALISATIONS)}, not {self.name!r}", parameter="normalisation"
            )


CURRENT = NormalForm()


def normalise(text: str, form: NormalForm = CURRENT) -> str:
    """NFKC, lower case, what is seen of it, every run of white space one space, none at the ends, between Han
    or beside kana. Idempotent, unless marks of different scripts stand on one letter with a joiner between
    them."""
    spaced = " ".join(fold(text, form).split())
    if form.name == EVERY or spaced.isascii():
        return spaced
    return _SPACE[form.name].sub("", spaced)


def fold(text: str, form: NormalForm = CURRENT) -> str:
    if form.name == LATEST and _holds(text, _is_changed()):
        text = replaced(text, plain_points())
    composed = _nfkc(text)
    lower = composed.lower()
    if lower != composed:
        lower = _nfkc(lower)  # a capital and its accent may compose in lower case only: ẗ, ǰ
    if form.name != EVERY and not lower.isascii() and _holds(lower, unseen_points()):
        lower = _nfkc(_UNSEEN_RUN.sub(_what_is_seen, lower))
    if form.fold is None:
        return lower
    folded = form.fold.convert(lower)
    return folded if len(folded) == len(lower) else _nfkc(folded)


def _holds(text: str, table: NDArray[np.bool_]) -> bool:
    """Whether a text holds any character of a table, which takes a quarter of what a search does."""
    if text.isascii():
        return bool(table[np.frombuffer(text.encode(), dtype=np.uint8)].any())
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    return bool(table[points].any())


@cache
def unseen_points() -> NDArray[np.bool_]:
    """By code point whether it is not seen."""
    return _listed(_UNSEEN)


@cache
def plain_points() -> NDArray[np.uint32]:
    """What characters become before anything else: digits those of ASCII, and GONE the control characters and
    those for private use."""
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


def _what_is_seen(unseen: re.Match[str]) -> str:
    """What stands for a run of characters that are not seen."""
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
    text = _NEITHER_ASCII_NOR_HAN.sub(lambda run: normalize("NFKC", run[0]), text)
    if is_normalized("NFKC", text):
        return text
    return normalize("NFKC", text)


def pieces(text: str) -> Iterator[str]:
    """A long text in parts of about PIECE characters that have the tokens of the whole.

    Put together without white space, their normal forms are that of the whole without it. A part is
    longer where no separator comes up for longer.
    """
    start = 0
    while len(text) - start > PIECE and (found := _SEPARATOR.search(text, start + PIECE)):
        yield text[start : found.start()]
        start = found.start()
    yield text[start:]
