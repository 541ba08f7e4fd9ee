"""XOR and popcount."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def distance(a: NDArray[np.uint64], b: NDArray[np.uint64] | np.uint64) -> NDArray[np.uint8]:
    """Number of differing bits, elementwise; broadcasts like any NumPy operator."""
    return popcount([a ^ b])


def popcount(words: Sequence[NDArray[np.unsignedinteger]]) -> NDArray[np.uint8]:
    """Number of set bits in values of one or more words, elementwise: uint8 of the words' shape."""
    total: NDArray[np.uint8] = np.bitwise_count(words[0])
    for word in words[1:]:
        total = total + np.bitwise_count(word)
    return total
