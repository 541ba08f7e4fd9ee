"""Bands of a MinHash sketch, which name its drawers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from simhbase.drawers.layout import MAX_TABLES
from simhbase.errors import UsageError
from simhbase.fingerprint.minhash import SLOTS

RECALL = 0.99
CORPUS_RECALL = 0.95  # of pairs just at the threshold, where texts are compared and drawers are not stored


@dataclass(frozen=True, slots=True)
class Bands:
    """`number` bands of `rows` slots each, from the first slot on; further slots are unused.

    Two texts share a drawer if all slots of a band are equal.
    """

    number: int
    rows: int

    @property
    def name(self) -> str:
        return f"{self.number}x{self.rows}"

    @property
    def slots(self) -> int:
        return self.number * self.rows

    def meeting(self, similarity: float) -> float:
        """Probability that two texts of this similarity share a drawer: 1 - (1 - s^rows)^number."""
        return 1.0 - (1.0 - similarity**self.rows) ** self.number


@lru_cache
def bands(name: str) -> Bands:
    """The bands with a name: BxR for B bands of R slots. Raises UsageError for an invalid name."""
    found = re.fullmatch(r"([1-9]\d{0,3})x([1-9]\d{0,3})", name)
    if not found:
        raise UsageError(
            f"must be auto, or BxR for B bands of R slots (20x6, 16x8), not {name!r}", parameter="bands"
        )
    made = Bands(int(found[1]), int(found[2]))
    if made.number > MAX_TABLES:
        raise UsageError(f"at most {MAX_TABLES} fit, not {made.number}", parameter="bands")
    return made


def bands_for(threshold: float, slots: int = SLOTS, recall: float = RECALL) -> Bands:
    """Choose bands so that pairs at the threshold share a drawer with probability `recall`.

    Prefers more rows, as longer bands bring fewer candidates below the threshold, then fewer bands, as each
    is a row of the index. Raises UsageError if no bands reach the recall.
    """
    if not 0 < threshold <= 1:
        raise UsageError(
            f"must be a Jaccard similarity above 0, up to 1, not {threshold}", parameter="threshold"
        )
    for rows in range(slots, 0, -1):
        for number in range(1, min(slots // rows, MAX_TABLES) + 1):
            found = Bands(number, rows)
            if found.meeting(threshold) >= recall:
                return found
    raise UsageError(
        f"none of {slots} slots find pairs of similarity {threshold}: use more slots", parameter="bands"
    )
