"""SimHash fingerprints of features (Charikar: Similarity Estimation Techniques from Rounding Algorithms,
STOC 2002, section 3), in batches.

A bit is 1 if the features whose digests have it weigh more than the others; a tie gives 0. Sums are exact
integers, so results do not depend on the order, batch size, number of processes or platform.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simhbase.acceleration import fingerprint_loops
from simhbase.text.features import FeatureBatch

# Bits are summed in bytes, eight to a uint64: a chunk of 255 features cannot overflow one.
_CHUNK = 255
_FEATURES_A_CHARACTER = 16  # features, whose work equals that of decoding a character of text
_UNWEIGHTED = np.empty(0, dtype=np.int64)
_BLOCK_CHUNKS = 64  # 64 x 255 features of 64 bits unpack to 1 MB, which stays in the cache


def simhash(batch: FeatureBatch) -> NDArray[np.uint64]:
    """Compute the fingerprints of a batch: uint64 (n,), or (n, 2) for digests of 128 bits.

    A text without features gets 0, which is no fingerprint.
    """
    size = batch.digests.shape[1]
    if loops := fingerprint_loops(len(batch.digests) // _FEATURES_A_CHARACTER):
        weights = _UNWEIGHTED if batch.weights is None else batch.weights
        summed: NDArray[np.uint64] = loops.simhashes(
            batch.digests.view(np.uint64), batch.counts, weights
        ).byteswap()
        return summed[:, 0] if size == 8 else summed
    present = np.flatnonzero(batch.counts)
    values = np.zeros((len(batch.counts), size // 8), dtype=np.uint64)
    if len(present):
        counts = batch.counts[present]
        ones, total = _sums(batch, counts)
        packed = np.packbits(2 * ones > total[:, np.newaxis], axis=1)
        values[present] = packed.view(">u8")
    return values[:, 0] if size == 8 else values


def _sums(batch: FeatureBatch, counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each text with features: the weight of each bit (n, bits), and the total weight (n,)."""
    chunks = -(-counts // _CHUNK)
    first_chunk = np.cumsum(chunks) - chunks
    within = np.arange(chunks.sum()) - np.repeat(first_chunk, chunks)
    starts = np.repeat(np.cumsum(counts) - counts, chunks) + within * _CHUNK
    bounds = np.append(starts, len(batch.digests))
    sums = [
        _chunk_sums(batch, bounds[block : block + _BLOCK_CHUNKS + 1])
        for block in range(0, len(starts), _BLOCK_CHUNKS)
    ]
    ones = np.add.reduceat(np.concatenate(sums), first_chunk, axis=0, dtype=np.int64)
    if batch.weights is None:
        return ones, counts
    return ones, np.add.reduceat(batch.weights, np.cumsum(counts) - counts)


def _chunk_sums(batch: FeatureBatch, bounds: NDArray[np.int64]) -> NDArray[np.uint8] | NDArray[np.int64]:
    """The weight of each bit, summed over the features between adjacent bounds."""
    features = slice(bounds[0], bounds[-1])
    bits = np.unpackbits(batch.digests[features], axis=1)
    if batch.weights is None:
        lanes = np.add.reduceat(bits.view(np.uint64), bounds[:-1] - bounds[0], axis=0)
        return lanes.view(np.uint8)
    weighted = bits * batch.weights[features, np.newaxis]
    sums: NDArray[np.int64] = np.add.reduceat(weighted, bounds[:-1] - bounds[0], axis=0)
    return sums
