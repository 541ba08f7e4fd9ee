"""Sketches: MinHash signatures of which each slot keeps a few bits. core/src/minhash.rs has their rules, and
sketches.py compares them in batches."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import TYPE_CHECKING

from simhbase._core import mismatches_between
from simhbase.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SLOTS = 256
BITS = (1, 2, 4, 8, 16, 32)
COUNTED = 128  # features: sketches do not count further
NUMBERS = 4  # bytes
Sketch = bytes  # the class below has a property of this name

_MOST_SLOTS = 4096
_LEAST_BITS = 64  # of a sketch: long enough that no text has all zeros, which mean "no sketch", by chance


@dataclass(frozen=True, slots=True)
class SketchParameters:
    """Format of sketches: `slots` values of `bits` bits each. sized: one further byte is the number of
    distinct features, at most COUNTED; numbered: four further bytes are a hash of the text's numbers, and
    texts with different numbers count as slots + 1 mismatches.

    Raises UsageError for bits other than 1, 2, 4, 8, 16 and 32, for slots that do not fill bytes, and for
    sketches of fewer than 64 bits.
    """

    slots: int = SLOTS
    bits: int = 8
    seed: int = 0
    sized: bool = False
    numbered: bool = False

    def __post_init__(self) -> None:
        if self.bits not in BITS:
            raise UsageError(
                f"must be one of {', '.join(map(str, BITS))}, not {self.bits}", parameter="sketch_bits"
            )
        if not 0 < self.slots <= _MOST_SLOTS:
            raise UsageError(f"must be 1 to {_MOST_SLOTS}, not {self.slots}", parameter="slots")
        if self.slots * self.bits % 8:
            raise UsageError(
                f"{self.slots} slots of {self.bits} bits do not fill whole bytes", parameter="slots"
            )
        if self.slots * self.bits < _LEAST_BITS:
            raise UsageError(
                f"{self.slots} slots of {self.bits} bits are too few: a sketch needs at least {_LEAST_BITS} "
                "bits",
                parameter="slots",
            )

    @property
    def bytes(self) -> int:
        return self.slots * self.bits // 8 + self.sized + NUMBERS * self.numbered

    @property
    def signature_bytes(self) -> int:
        return self.slots * self.bits // 8

    def features(self, sketches: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Number of features, from sketches that are sized: uint8 (n, bytes) -> uint8 (n,)."""
        return sketches[:, self.signature_bytes].clip(max=COUNTED)  # a damaged byte may be larger

    def mismatches_between(self, a: Sketch, b: Sketch) -> int:
        """Number of differing slots of two sketches, `slots` + 1 if their numbers differ: like
        pair_mismatches for many."""
        return mismatches_between(a, b, self.slots, self.bits, self.sized)

    def features_of(self, sketch: Sketch) -> int:
        """Number of features, from a sketch that is sized."""
        return min(sketch[self.signature_bytes], COUNTED)

    @property
    def standard_error(self) -> float:
        """Upper bound of the standard error of an estimated similarity: that of the share p of equal slots,
        sqrt(p (1 - p) / slots), scaled by the correction for chance agreement (see `similarity`)."""
        return 0.5 / sqrt(self.slots) / (1 - 2.0**-self.bits)

    def error_at(self, similarity: float) -> float:
        """Standard error of the estimates of this similarity: 0 for 0 and 1 where slots hold many bits."""
        chance = 2.0**-self.bits
        equal = chance + similarity * (1 - chance)  # slots, expected share
        return sqrt(equal * (1 - equal) / self.slots) / (1 - chance)

    def similarity(self, mismatches: NDArray[np.int64]) -> NDArray[np.float64]:
        """Estimate the Jaccard similarity from the number of mismatching slots: float64, 0 to 1.

        Different slots still agree in b bits with a probability of 2^-b, which is corrected for:
        (share of equal slots - 2^-b) / (1 - 2^-b). For 8 bits or more the standard error is about
        sqrt(J (1 - J) / slots): 0.025 for J = 0.8 and 256 slots.
        """
        chance = 2.0**-self.bits
        estimates: NDArray[np.float64] = ((1 - mismatches / self.slots) - chance) / (1 - chance)
        return estimates.clip(min=0.0)

    def similarity_of(self, mismatches: int) -> float:
        """Like similarity for one number."""
        chance = 2.0**-self.bits
        return max(0.0, ((1 - mismatches / self.slots) - chance) / (1 - chance))

    @lru_cache  # noqa: B019  # few parameters are used, and they are small
    def most_mismatches(self, similarity: float) -> int:
        """Largest number of mismatching slots with at least this estimated similarity."""
        counts = range(self.slots + 1)
        return bisect_right(counts, -similarity, key=lambda count: -self.similarity_of(count)) - 1
