"""Bytes or HTML to text, and text to the one form that features are taken from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from unicodedata import is_normalized, normalize

# Any part of a text may be replaced by its own NFKC beforehand without changing the NFKC of the
# whole: both decompose to the same sequence (UAX #15). So the few characters that make nearly every
# Chinese text "not normalised" go first, and most texts never meet the far slower normalize.
_COMMON = tuple((character, normalize("NFKC", character)) for character in "，：；？！（）％\u3000\xa0…℃")
_NEITHER_ASCII_NOR_HAN = re.compile("[^\x00-\x7f\u4e00-\u9fff、。《》“”·—]+")

# No token holds one of these, and what stands before and behind one never changes its neighbour:
# NFKC composes none of them with anything before it, and the lower case of a final sigma is the same
# before one as at the end (which is not so before a colon, a full stop or an apostrophe).
_SEPARATOR = re.compile("[\\s,;!?，；！？、。]")
PIECE = 1 << 16  # characters


def normalise(text: str) -> str:
    """NFKC, lower case, every run of white space one space, none at the ends. Idempotent."""
    return " ".join(fold(text).split())


def fold(text: str) -> str:
    """NFKC and lower case, with the white space that it has."""
    composed = _nfkc(text)
    lower = composed.lower()
    if lower != composed:
        lower = _nfkc(lower)  # a capital and its accent may compose in lower case only: ẗ, ǰ
    return lower


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
