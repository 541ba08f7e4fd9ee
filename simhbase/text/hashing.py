"""The finaliser of MurmurHash3 (Appleby, 2011), in place: a bijection in which each bit of the input flips
each bit of the output with a probability of one half."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / golden ratio; a start value, as the finalisers map 0 to 0


def fmix64(state: NDArray[np.uint64]) -> None:
    state ^= state >> np.uint64(33)
    state *= np.uint64(0xFF51AFD7ED558CCD)
    state ^= state >> np.uint64(33)
    state *= np.uint64(0xC4CEB9FE1A85EC53)
    state ^= state >> np.uint64(33)
