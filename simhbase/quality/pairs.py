"""Pairs of texts, as arrays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simhbase.errors import BadInput

MOST_PAIRS = 20_000_000

Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TextPairs:
    """Pairs of n texts. left, right: int64 (m,) with left < right, sorted by both; score: float64 (m,),
    similarity, or distance in bits."""

    n: int
    left: Positions
    right: Positions
    score: NDArray[np.float64]

    @classmethod
    def of(cls, n: int, parts: Iterable[tuple[Positions, Positions, NDArray[np.float64]]]) -> TextPairs:
        """Collect chunks of pairs in any order, without repeats: the first of equal pairs stays. Raises
        BadInput for more than MOST_PAIRS."""
        held = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
        total = 0
        for part in parts:
            held.append(part)
            total += len(part[0])
            if total > MOST_PAIRS:
                raise BadInput(
                    f"more than {MOST_PAIRS:,} pairs of {n:,} texts are near each other: they are made from "
                    "one template, or too short to differ. Leave such texts out, or use a smaller sample"
                )
        left, right, score = map(np.concatenate, zip(*held, strict=True))
        order = np.unique(left * n + right, return_index=True)[1]
        return cls(n, left[order], right[order], score[order])

    def where(self, chosen: NDArray[np.bool_]) -> TextPairs:
        return TextPairs(self.n, self.left[chosen], self.right[chosen], self.score[chosen])

    def between(self, low: float, high: float = 1.0) -> TextPairs:
        """Those with a similarity from `low` to below `high`, or to 1.0."""
        return self.where((self.score >= low) & ((self.score < high) | (high == 1.0)))

    def union(self, others: TextPairs) -> TextPairs:
        return TextPairs.of(self.n, ((each.left, each.right, each.score) for each in (self, others)))

    def has(self, left: Positions, right: Positions) -> NDArray[np.bool_]:
        """Which of the given pairs are among these."""
        keys, wanted = self.left * self.n + self.right, left * self.n + right
        if not len(keys):
            return np.zeros(len(wanted), dtype=np.bool_)
        there: NDArray[np.bool_] = keys[np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)] == wanted
        return there
