"""The inner loop of MinHash, compiled by Numba (the extra `fast`). Importing it takes a third of a
second, compiling another two where no earlier process of this user has: it is for large batches."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

_AT_ONCE = 4  # slots to a shingle that is read: their chains of minima run side by side


@njit(cache=True, nogil=True)
def minima(
    shingles: NDArray[np.uint32],
    starts: NDArray[np.int64],
    factors: NDArray[np.uint32],
    terms: NDArray[np.uint32],
) -> NDArray[np.uint32]:
    """The same as `simhbase.fingerprint.minhash.minima`."""
    slots = len(factors)
    padded = -(-slots // _AT_ONCE) * _AT_ONCE
    a, b = np.zeros(padded, np.uint32), np.zeros(padded, np.uint32)
    a[:slots], b[:slots] = factors, terms
    least = np.empty((len(starts), padded), np.uint32)
    for text in range(len(starts)):
        end = starts[text + 1] if text + 1 < len(starts) else len(shingles)
        of_text = shingles[starts[text] : end]  # a slice from 0 on: else LLVM does not vectorise the loop
        for slot in range(0, padded, _AT_ONCE):
            a0, a1, a2, a3 = a[slot], a[slot + 1], a[slot + 2], a[slot + 3]
            b0, b1, b2, b3 = b[slot], b[slot + 1], b[slot + 2], b[slot + 3]
            least0 = least1 = least2 = least3 = np.uint32(0xFFFFFFFF)
            for position in range(len(of_text)):
                shingle = of_text[position]
                least0 = min(least0, np.uint32(np.uint32(a0 * shingle) + b0))
                least1 = min(least1, np.uint32(np.uint32(a1 * shingle) + b1))
                least2 = min(least2, np.uint32(np.uint32(a2 * shingle) + b2))
                least3 = min(least3, np.uint32(np.uint32(a3 * shingle) + b3))
            least[text, slot], least[text, slot + 1] = least0, least1
            least[text, slot + 2], least[text, slot + 3] = least2, least3
    return np.ascontiguousarray(least[:, :slots])
