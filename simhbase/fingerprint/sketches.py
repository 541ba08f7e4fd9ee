"""Batches of sketches: their slots, their differences and their hashes.

Bands and the fingerprint are hashes of the sketch, so they can be computed again from stored rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simhbase._core import mismatches
from simhbase.fingerprint.minhash import SketchParameters
from simhbase.process.slices import Numbers
from simhbase.text.hashing import GOLDEN, fmix64

_COMPARED = 1 << 14  # sketches compared at once


def mismatches_of(
    sketching: SketchParameters, a: NDArray[np.uint8], b: NDArray[np.uint8]
) -> NDArray[np.int64]:
    """Number of differing slots of each pair of sketches: uint8 (n, bytes) twice -> int64 (n,)."""
    every = np.arange(len(a))
    return pair_mismatches(sketching, a, every, b, every)


def pair_mismatches(
    sketching: SketchParameters,
    a: NDArray[np.uint8],
    left: Numbers,
    b: NDArray[np.uint8],
    right: Numbers,
) -> NDArray[np.int64]:
    """Number of differing slots of m pairs of sketches, `slots` + 1 if their numbers differ. left, right:
    (m,), positions in a and b. Returns int64 (m,)."""
    counts = np.empty(len(left), dtype=np.int64)
    slots, bits, ignored = sketching.slots, sketching.bits, int(sketching.sized)
    for start in range(0, len(left), _COMPARED):
        part = slice(start, start + _COMPARED)
        found = mismatches(a[left[part]], b[right[part]], slots, bits, ignored)
        counts[part] = np.frombuffer(found, np.int64)
    return counts


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
