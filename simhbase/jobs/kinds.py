"""Detects kinds of texts for which a profile works badly, for hints at the end of a load."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, Self

from simhbase.drawers.threshold import RisingThreshold
from simhbase.profile.profile import SHORT, Profile

FRAME = 30  # characters at the start or end of a text that others may share
LEAST = 100  # texts: no hints for fewer
FRAMED, UNSPACED, ESCAPED = 0.2, 0.5, 0.05  # shares of all texts
# Kana, which no spaces part and jieba does not segment: a run is one word. Not {4}, which is
# found half as fast.
_UNSPACED = re.compile("[\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9d]" * 4)
_ENTITY = re.compile(r"&(?:[a-zA-Z]{2,8}|#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6});")
_SEARCHED = 300  # characters of a text


class Kinds(NamedTuple):
    """Numbers of texts: all, short ones, those that start or end like many others, those in a script without
    spaces, and those with HTML entities."""

    texts: int = 0
    short: int = 0
    framed: int = 0
    unspaced: int = 0
    escaped: int = 0

    @classmethod
    def of(cls, texts: Sequence[str]) -> Self:
        """Count the texts of a chunk."""
        many = max(3, len(texts) // 5)
        begins, ends = Counter(text[:FRAME] for text in texts), Counter(text[-FRAME:] for text in texts)
        return cls(
            len(texts),
            sum(map(SHORT.__ge__, map(len, texts))),
            sum(
                len(text) > SHORT and (begins[text[:FRAME]] >= many or ends[text[-FRAME:]] >= many)
                for text in texts
            ),
            sum(not text.isascii() and _UNSPACED.search(text, 0, _SEARCHED) is not None for text in texts),
            sum("&" in text and _ENTITY.search(text) is not None for text in texts),
        )

    def hints(self, profile: Profile) -> list[str]:
        """Hints to use another profile."""
        if self.texts < LEAST:
            return []
        hints = []
        if 2 * self.short > self.texts and not isinstance(profile.index_scheme.threshold, RisingThreshold):
            hints.append(
                f"{self.short:,} of {self.texts:,} texts have at most {SHORT} characters, and this profile "
                "misses most near-duplicates of these: create a store with the profile short"
            )
        if self.framed > FRAMED * self.texts and profile.boilerplate is None:
            hints.append(
                f"{self.framed:,} of {self.texts:,} texts start or end alike, so different texts may match: "
                "learn their boilerplate (simhbase idf --boilerplate) and create a store with it"
            )
        if self.unspaced > UNSPACED * self.texts and profile.features.startswith("words"):
            hints.append(
                f"{self.unspaced:,} of {self.texts:,} texts are in a script that is not split into words: "
                "create a store with the profile complete, which compares characters"
            )
        if self.escaped > ESCAPED * self.texts:
            hints.append(
                f"{self.escaped:,} of {self.texts:,} texts have HTML entities such as &nbsp;, which count as "
                "words: read them as HTML"
            )
        return hints


NOTHING = Kinds()
