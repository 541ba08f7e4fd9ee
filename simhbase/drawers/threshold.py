"""Thresholds of similarity that depend on the length of texts."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

from simhbase.fingerprint.minhash import COUNTED


@dataclass(frozen=True, slots=True)
class RisingThreshold:
    """A minimum similarity that depends on the number of features of the text with fewer: `least` for up to
    `least_to` features, `most` from COUNTED on, growing in between with the logarithm of the number.

    docs/quality.md compares it with fixed thresholds.
    """

    least: float
    most: float
    least_to: int

    def of(self, features: int) -> float:
        """The threshold for this number of features."""
        doublings = log2(max(features, self.least_to) / self.least_to) / log2(COUNTED / self.least_to)
        return self.least + (self.most - self.least) * min(doublings, 1.0)
