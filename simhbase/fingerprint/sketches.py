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


def fingerprints(sketches: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """A 64-bit hash of each sketch: uint8 (n, bytes) -> uint64 (n,)."""
    padded = np.zeros((len(sketches), -(-sketches.shape[1] // 8) * 8), dtype=np.uint8)
    padded[:, : sketches.shape[1]] = sketches
    state = np.full(len(sketches), GOLDEN, dtype=np.uint64)
    for word in padded.view(">u8").astype(np.uint64).T:
        state ^= word
        fmix64(state)
    return state
