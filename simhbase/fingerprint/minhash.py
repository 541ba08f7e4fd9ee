"""Sketches: MinHash signatures of which each slot keeps a few bits. core/src/minhash.rs has their rules.

Bands and the fingerprint are hashes of the sketch, so they can be computed again from stored rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from simhbase.errors import UsageError
from simhbase.slices import Numbers
from simhbase.text.hashing import GOLDEN, fmix64

SLOTS = 128
BITS = (1, 2, 4, 8, 16, 32)
COUNTED = 128  # features: sketches do not count further

_MOST_SLOTS = 4096
_NUMBERS = 4  # bytes
_LEAST_BITS = 64  # of a sketch: long enough that no text has all zeros, which mean "no sketch", by chance
_COMPARED = 1 << 14  # sketches compared at once


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
    def parameters(self) -> tuple[int, int, int, bool, bool]:
        """Slots, bits, seed, sized and numbered, as the core takes them."""
        return self.slots, self.bits, self.seed, self.sized, self.numbered

    @property
    def bytes(self) -> int:
        return self.signature_bytes + self.sized + _NUMBERS * self.numbered

    @property
    def signature_bytes(self) -> int:
        return self.slots * self.bits // 8

    def slots_of(self, sketches: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Packed slots of sketches: uint8 (n, bytes) -> uint8 (n, signature_bytes)."""
        return sketches[:, : self.signature_bytes]

    def features(self, sketches: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Number of features, from sketches that are sized: uint8 (n, bytes) -> uint8 (n,)."""
        counts = sketches[:, self.signature_bytes]
        return np.minimum(counts, np.uint8(COUNTED))  # a damaged byte may be larger

    def mismatches(self, a: NDArray[np.uint8], b: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Number of differing slots of each pair of sketches: uint8 (n, bytes) twice -> int64 (n,)."""
        every = np.arange(len(a))
        return self.pair_mismatches(a, every, b, every)

    def pair_mismatches(
        self,
        a: NDArray[np.uint8],
        left: Numbers,
        b: NDArray[np.uint8],
        right: Numbers,
    ) -> NDArray[np.int64]:
        """Number of differing slots of m pairs of sketches, `slots` + 1 if their numbers differ. left, right:
        (m,), positions in a and b. Returns int64 (m,)."""
        counts = np.empty(len(left), dtype=np.int64)
        for start in range(0, len(left), _COMPARED):
            part = slice(start, start + _COMPARED)
            of_a, of_b = a[left[part]], b[right[part]]
            differ = unpack(self.slots_of(of_a), self.bits) != unpack(self.slots_of(of_b), self.bits)
            counts[part] = np.count_nonzero(differ, axis=1)
            if self.numbered:
                numbers = slice(self.bytes - _NUMBERS, None)
                counts[part][(of_a[:, numbers] != of_b[:, numbers]).any(axis=1)] = self.slots + 1
        return counts

    @property
    def standard_error(self) -> float:
        """Upper bound of the standard error of an estimated similarity: that of the share p of equal slots,
        sqrt(p (1 - p) / slots), scaled by the correction for chance agreement (see `similarity`)."""
        return 0.5 / sqrt(self.slots) / (1 - 2.0**-self.bits)

    def similarity(self, mismatches: NDArray[np.int64]) -> NDArray[np.float64]:
        """Estimate the Jaccard similarity from the number of mismatching slots: float64, 0 to 1.

        Different slots still agree in b bits with a probability of 2^-b, which is corrected for:
        (share of equal slots - 2^-b) / (1 - 2^-b). For 8 bits or more the standard error is about
        sqrt(J (1 - J) / slots): 0.035 for J = 0.8 and 128 slots.
        """
        chance = 2.0**-self.bits
        return np.maximum(0.0, ((1 - mismatches / self.slots) - chance) / (1 - chance))

    def most_mismatches(self, similarity: float) -> int:
        """Largest number of mismatching slots with at least this estimated similarity."""
        counts = np.arange(self.slots + 1)
        return int(np.flatnonzero(self.similarity(counts) >= similarity)[-1])


def unpack(sketches: NDArray[np.uint8], bits: int) -> NDArray[np.unsignedinteger]:
    """Slots of sketches: uint8 (n, slots * bits / 8) -> unsigned (n, slots). Slots of 16 and 32 bits are
    big-endian; smaller ones fill a byte from its upper bits."""
    if bits >= 8:
        return np.ascontiguousarray(sketches).view(f">u{bits // 8}")
    shifts = np.arange(8 - bits, -1, -bits, dtype=np.uint8)
    slots = sketches[:, :, np.newaxis] >> shifts & np.uint8((1 << bits) - 1)
    return slots.reshape(len(sketches), sketches.shape[1] * 8 // bits)


def fingerprints(sketches: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """A 64-bit hash of each sketch: uint8 (n, bytes) -> uint64 (n,)."""
    padded = np.zeros((len(sketches), -(-sketches.shape[1] // 8) * 8), dtype=np.uint8)
    padded[:, : sketches.shape[1]] = sketches
    return hash_words(padded.view(">u8").astype(np.uint64))


def hash_words(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash words along the last axis, (..., m) -> (...): state = fmix64(state XOR word)."""
    state = np.full(words.shape[:-1], GOLDEN, dtype=np.uint64)
    for position in range(words.shape[-1]):
        state ^= words[..., position]
        fmix64(state)
    return state
