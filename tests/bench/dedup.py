"""All pairs within 3 bits among random fingerprints with planted neighbours."""

from __future__ import annotations

from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.join import pairs_within
from tests.bench.report import Table

K = 3
SIZES = (100_000, 1_000_000)
PLANTED = 100  # one planted pair for so many fingerprints


def planted(n: int, seed: int = 0) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]]:
    """n random fingerprints, and the positions of pairs 1 to 3 bits apart among them."""
    rng = np.random.default_rng(seed)
    fingerprints = rng.integers(0, 2**64, n, dtype=np.uint64)
    chosen = rng.permutation(n)[: 2 * (n // PLANTED)]
    left, right = chosen[::2], chosen[1::2]
    flips = np.zeros(len(left), dtype=np.uint64)
    for bits in range(1, K + 1):
        which = np.arange(len(left)) % K < bits
        flips[which] ^= np.uint64(1) << rng.integers((bits - 1) * 21, bits * 21, which.sum(), dtype=np.uint64)
    fingerprints[right] = fingerprints[left] ^ flips
    return fingerprints, np.minimum(left, right), np.maximum(left, right)


def measure(scale: float = 1.0) -> list[Table]:
    rows = []
    for size in SIZES:
        n = round(size * scale)
        fingerprints, left, right = planted(n)
        start = perf_counter()
        np.sort(fingerprints)
        sort = perf_counter() - start
        start = perf_counter()
        pairs = pairs_within(fingerprints, K)
        elapsed = perf_counter() - start
        found = set(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True))
        missed = len(set(zip(left.tolist(), right.tolist(), strict=True)) - found)
        rows.append([n, len(left), missed, elapsed, n / elapsed, elapsed / sort])
    return [
        Table(
            "All pairs within 3 bits, in memory",
            [
                "fingerprints",
                "planted pairs",
                "of them missed",
                "seconds",
                "fingerprints/s",
                "times one np.sort",
            ],
            rows,
        )
    ]
