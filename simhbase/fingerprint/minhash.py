"""MinHash signatures of features (Broder: On the resemblance and containment of documents, 1997).

A text's shingles are the set of its features, each the upper 32 bits of its digest. Slot i of the
signature is

    fmix32(min over the shingles x of (a_i * x + b_i mod 2^32)),    a_i odd.

Each slot holds the least element under a permutation, so the probability that two texts agree in a slot
is their Jaccard similarity. Linear permutations are not min-wise independent on every set (Bohman,
Cooper, Frieze: Min-wise independent linear permutations, 2000), but shingles are well-mixed digests, for
which no bias can be measured; tests/unit/test_minhash.py checks that. The final mixing makes all bits of
a slot equally good: least elements are small, and the low bits of a product depend only on the low bits
of x.

Only the low `bits` of each slot are kept (Li, König: b-Bit Minwise Hashing, WWW 2010). Packed, they are
the text's sketch. Bands and the fingerprint are hashes of the sketch, so they can be computed again from
stored rows. All arithmetic is exact, on integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from simhbase.acceleration import fingerprint_loops
from simhbase.errors import UsageError
from simhbase.slices import Numbers
from simhbase.text.features import FeatureBatch
from simhbase.text.hashing import GOLDEN, fmix32, fmix64

SLOTS = 128
BITS = (1, 2, 4, 8, 16, 32)
COUNTED = 128  # features: sketches do not count further

_MOST_SLOTS = 4096
_NUMBERS = 4  # bytes
_LEAST_BITS = 64  # of a sketch: long enough that no text has all zeros, which mean "no sketch", by chance
_CACHED = 1 << 14  # shingles hashed at once: 64 KiB, which stay in the cache
_SLOTS_A_CHARACTER = 64  # slots of a shingle, whose work equals that of decoding a character of text
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
    def bytes(self) -> int:
        return self.signature_bytes + self.sized + _NUMBERS * self.numbered

    @property
    def signature_bytes(self) -> int:
        return self.slots * self.bits // 8

    def sketches(self, batch: FeatureBatch, numbers: NDArray[np.uint32] | None = None) -> NDArray[np.uint8]:
        """Compute the sketches of n texts: uint8 (n, bytes), all zero for a text without features. numbers:
        uint32 (n,), hashes of their numbers, if numbered."""
        parts = [pack(signatures(batch, self.slots, self.seed), self.bits)]
        if self.sized:
            parts.append(np.minimum(batch.distinct(COUNTED), COUNTED).astype(np.uint8)[:, np.newaxis])
        if numbers is not None:
            of_texts = np.where(batch.counts > 0, numbers, 0).astype(">u4")
            parts.append(of_texts.view(np.uint8).reshape(-1, _NUMBERS))
        return np.concatenate(parts, axis=1)

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


def signatures(batch: FeatureBatch, slots: int = SLOTS, seed: int = 0) -> NDArray[np.uint32]:
    """Compute the signatures of n texts: uint32 (n, slots). Repeated features do not matter.

    The first slots do not depend on the number of slots. A text without features gets zeros, which are no
    signature.
    """
    present = np.flatnonzero(batch.counts)
    found = np.zeros((len(batch.counts), slots), dtype=np.uint32)
    if len(present):
        counts = batch.counts[present]
        shingles = np.ascontiguousarray(batch.digests.view(">u4")[:, 0], dtype=np.uint32)
        factors, terms = _permutations(slots, seed)
        loops = fingerprint_loops(len(shingles) * slots // _SLOTS_A_CHARACTER)
        least = (loops.minima if loops else minima)(shingles, np.cumsum(counts) - counts, factors, terms)
        fmix32(least)
        found[present] = least
    return found


def minima(
    shingles: NDArray[np.uint32],
    starts: NDArray[np.int64],
    factors: NDArray[np.uint32],
    terms: NDArray[np.uint32],
) -> NDArray[np.uint32]:
    """Least element of n texts under each permutation: uint32 (n, slots).

    shingles: of all texts, text after text; starts: where each text's shingles begin (it has at least one);
    factors, terms: uint32 (slots,), the permutations.
    """
    least = np.empty((len(factors), len(starts)), dtype=np.uint32)
    for texts, start, end in _chunks(starts, len(shingles)):
        part = shingles[start:end]
        at_once = max(1, _CACHED // len(part))
        for slot in range(0, len(factors), at_once):
            slots = slice(slot, slot + at_once)
            hashed = factors[slots, np.newaxis] * part
            hashed += terms[slots, np.newaxis]
            least[slots, texts] = np.minimum.reduceat(hashed, starts[texts] - start, axis=1)
    return np.ascontiguousarray(least.T)


def _chunks(starts: NDArray[np.int64], end: int) -> Iterator[tuple[slice, int, int]]:
    """Chunks of texts with about _CACHED shingles, and where these start and end."""
    first = [0, *(np.flatnonzero(np.diff(starts // _CACHED)) + 1).tolist(), len(starts)]
    bounds = [*starts[first[:-1]].tolist(), end]
    for number in range(len(first) - 1):
        yield slice(first[number], first[number + 1]), bounds[number], bounds[number + 1]


@lru_cache
def _permutations(slots: int, seed: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Factors and terms: the upper halves (made odd) and lower halves of fmix64(GOLDEN * (2^32 seed + i)) for
    i = 1, 2, ... (the generator of Steele, Lea, Flood: Fast splittable pseudorandom number generators,
    OOPSLA 2014, with another finaliser)."""
    words = np.arange(1, slots + 1, dtype=np.uint64) + np.uint64(seed << 32)
    words *= np.uint64(GOLDEN)
    fmix64(words)
    factors = (words >> np.uint64(32)).astype(np.uint32) | np.uint32(1)
    return factors, words.astype(np.uint32)


def pack(signatures: NDArray[np.uint32], bits: int) -> NDArray[np.uint8]:
    """Concatenate the low bits of all slots: uint32 (n, slots) -> uint8 (n, slots * bits / 8).

    Slots of 16 and 32 bits are big-endian; smaller ones fill a byte from its upper bits.
    """
    if bits >= 8:
        return signatures.astype(f">u{bits // 8}").view(np.uint8)
    n, slots = signatures.shape
    low = (signatures & np.uint32((1 << bits) - 1)).astype(np.uint8)
    in_byte = low.reshape(n, slots * bits // 8, 8 // bits)
    packed: NDArray[np.uint8] = np.bitwise_or.reduce(in_byte << _shifts(bits), axis=2)
    return packed


def unpack(sketches: NDArray[np.uint8], bits: int) -> NDArray[np.unsignedinteger]:
    """Slots of sketches: uint8 (n, slots * bits / 8) -> unsigned (n, slots)."""
    if bits >= 8:
        return np.ascontiguousarray(sketches).view(f">u{bits // 8}")
    slots = sketches[:, :, np.newaxis] >> _shifts(bits) & np.uint8((1 << bits) - 1)
    return slots.reshape(len(sketches), sketches.shape[1] * 8 // bits)


def _shifts(bits: int) -> NDArray[np.uint8]:
    return np.arange(8 - bits, -1, -bits, dtype=np.uint8)


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
