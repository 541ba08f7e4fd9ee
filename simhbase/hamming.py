"""XOR and popcount."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def distance(a: NDArray[np.uint64], b: NDArray[np.uint64] | np.uint64) -> NDArray[np.uint8]:
    """Number of differing bits, elementwise; broadcasts like any NumPy operator."""
    count: NDArray[np.uint8] = np.bitwise_count(a ^ b)
    return count
