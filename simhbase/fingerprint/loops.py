"""The inner loops of SimHash and MinHash, compiled by Numba (the extra `fast`): see `acceleration.py`."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

_BITS = 64
_LANE = 255  # the largest sum of a lane of eight bits
_AT_ONCE = 4  # slots to a shingle that is read: their chains of minima run side by side


def prepare() -> None:
    one = np.ones(1, np.int64)
    simhashes(np.ones((1, 1), np.uint64), one, one)
    minima(np.ones(1, np.uint32), np.zeros(1, np.int64), np.ones(1, np.uint32), np.ones(1, np.uint32))


def _spread() -> NDArray[np.uint64]:
    """The bits of each byte as lanes of eight bits: uint64 (256,)."""
    bytes_ = np.arange(256, dtype=np.uint8)[:, np.newaxis]
    lanes: NDArray[np.uint64] = np.unpackbits(bytes_, axis=1, bitorder="little").view("<u8")[:, 0]
    return lanes.astype(np.uint64)


_SPREAD = _spread()


@njit(cache=True, nogil=True)
def simhashes(
    digests: NDArray[np.uint64], counts: NDArray[np.int64], weights: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """As `simhash.simhash`, but little-endian: uint64 (n, words). weights: int64 (m,), or (0,) if all are
    1."""
    words = digests.shape[1]
    values = np.zeros((len(counts), words), np.uint64)
    lanes, sums = np.zeros(8, np.uint64), np.zeros(_BITS, np.int64)
    start = 0
    for text in range(len(counts)):
        end = start + counts[text]
        for word in range(words):
            sums[:] = 0
            total = 0
            in_lanes = 0
            for feature in range(start, end):
                digest = digests[feature, word]
                weight = weights[feature] if len(weights) else 1
                total += weight
                if weight > _LANE:
                    for bit in range(_BITS):
                        sums[bit] += weight & -np.int64((digest >> np.uint64(bit)) & np.uint64(1))
                    continue
                if in_lanes + weight > _LANE:
                    _empty(lanes, sums)
                    in_lanes = 0
                in_lanes += weight
                for byte in range(8):
                    lanes[byte] += _SPREAD[(digest >> np.uint64(8 * byte)) & np.uint64(255)] * np.uint64(
                        weight
                    )
            _empty(lanes, sums)
            value = np.uint64(0)
            for bit in range(_BITS):
                value |= np.uint64(2 * sums[bit] > total) << np.uint64(bit)
            values[text, word] = value
        start = end
    return values


@njit
def _empty(lanes: NDArray[np.uint64], sums: NDArray[np.int64]) -> None:
    for byte in range(8):
        for lane in range(8):
            sums[8 * byte + lane] += np.int64((lanes[byte] >> np.uint64(8 * lane)) & np.uint64(255))
        lanes[byte] = 0


@njit(cache=True, nogil=True)
def minima(
    shingles: NDArray[np.uint32],
    starts: NDArray[np.int64],
    factors: NDArray[np.uint32],
    terms: NDArray[np.uint32],
) -> NDArray[np.uint32]:
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
