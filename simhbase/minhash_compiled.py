"""The inner loop of MinHash, compiled by Numba (the extra `fast`). Importing it takes a third of a
second, compiling another two where no earlier process of this user has: it is for large batches."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def minima(
    shingles: NDArray[np.uint32],
    starts: NDArray[np.int64],
    factors: NDArray[np.uint32],
    terms: NDArray[np.uint32],
) -> NDArray[np.uint32]:
    """The same as `simhbase.minhash.minima`."""
    least = np.empty((len(starts), len(factors)), np.uint32)
    for text in range(len(starts)):
        end = starts[text + 1] if text + 1 < len(starts) else len(shingles)
        of_text = shingles[starts[text] : end]  # a slice from 0 on: else LLVM does not vectorise the loop
        for slot in range(len(factors)):
            factor, term = factors[slot], terms[slot]
            smallest = np.uint32(0xFFFFFFFF)
            for position in range(len(of_text)):
                smallest = min(smallest, np.uint32(np.uint32(factor * of_text[position]) + term))
            least[text, slot] = smallest
    return least
