"""Features -> SimHash fingerprints (Charikar: Similarity Estimation Techniques from Rounding
Algorithms, STOC 2002, section 3), many texts at a time and in exact integers.

A bit is 1 where the weights of the features that have it outweigh those that have not; a tie is 0.
So the result depends on no order, batch size, process count or platform.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simhbase.errors import NoFingerprint
from simhbase.features import Extractor, FeatureBatch, FeatureOptions

# Sums of bits run in bytes, eight lanes to a uint64: a chunk of 255 features cannot overflow one.
_CHUNK = 255
_BLOCK_CHUNKS = 64  # 64 x 255 features of 64 bits unpack to 1 MB, which stays in the cache
_TEXTS = 256


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """Fingerprints of n texts.

    values: uint64 (n,) for 64 bits, (n, 2) for 128 with the most significant word first; 0 where
    `reasons` (n entries) says why a text has none.
    """

    values: NDArray[np.uint64]
    reasons: list[str | None]

    @property
    def accepted(self) -> NDArray[np.bool_]:
        """Which texts have a fingerprint: bool (n,)."""
        return np.array([reason is None for reason in self.reasons], dtype=np.bool_)


class Fingerprinter:
    """Text -> fingerprint. Not shared between processes: each has its own cache of digests."""

    def __init__(self, options: FeatureOptions, bits: int = 64, min_features: int = 2) -> None:
        self.extractor = Extractor(options, bits)
        self.bits = bits
        self.min_features = min_features

    def fingerprint(self, text: str) -> int:
        """The fingerprint of one text. Raises NoFingerprint."""
        result = self.fingerprint_many([text])
        if result.reasons[0] is not None:
            raise NoFingerprint(result.reasons[0])
        return to_int(result.values[0])

    def fingerprint_many(self, texts: Sequence[str]) -> Fingerprints:
        """The fingerprints of n texts."""
        parts = [self._batch(texts[start : start + _TEXTS]) for start in range(0, len(texts), _TEXTS)]
        if not parts:
            return Fingerprints(np.zeros((0, 2) if self.bits == 128 else 0, dtype=np.uint64), [])
        return Fingerprints(
            np.concatenate([part.values for part in parts]),
            [reason for part in parts for reason in part.reasons],
        )

    def _batch(self, texts: Sequence[str]) -> Fingerprints:
        batch = self.extractor.extract(texts)
        reasons = [
            None if found >= self.min_features else self._reason(text, found)
            for text, found in zip(texts, _distinct(batch, self.min_features), strict=True)
        ]
        values = simhash(batch)
        values[[reason is not None for reason in reasons]] = 0
        return Fingerprints(values, reasons)

    def _reason(self, text: str, found: int) -> str:
        if not text.strip():
            return "the text is empty"
        features = self.extractor.options.kind
        noun = "feature" if found == 1 else "features"
        return f"the text has {found} distinct {noun} ({features}), at least {self.min_features} are needed"


def to_int(value: NDArray[np.uint64] | np.uint64) -> int:
    """One fingerprint, a uint64 or its two words, as a Python integer."""
    number = 0
    for word in np.atleast_1d(value).tolist():
        number = number << 64 | word
    return number


def simhash(batch: FeatureBatch) -> NDArray[np.uint64]:
    """The fingerprints of a batch: uint64 (n,), or (n, 2) for digests of 128 bits.

    A text without features gets 0: the caller must not take that for a fingerprint.
    """
    size = batch.digests.shape[1]
    present = np.flatnonzero(batch.counts)
    values = np.zeros((len(batch.counts), size // 8), dtype=np.uint64)
    if len(present):
        counts = batch.counts[present]
        ones, total = _sums(batch, counts)
        packed = np.packbits(2 * ones > total[:, np.newaxis], axis=1)
        values[present] = packed.view(">u8")
    return values[:, 0] if size == 8 else values


def _sums(batch: FeatureBatch, counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Per text with features: the weight that has each bit (n, bits), and the whole weight (n,)."""
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
    """The weight that has each bit, summed over the features between adjacent bounds."""
    features = slice(bounds[0], bounds[-1])
    bits = np.unpackbits(batch.digests[features], axis=1)
    if batch.weights is None:
        lanes = np.add.reduceat(bits.view(np.uint64), bounds[:-1] - bounds[0], axis=0)
        return lanes.view(np.uint8)
    weighted = bits * batch.weights[features, np.newaxis]
    sums: NDArray[np.int64] = np.add.reduceat(weighted, bounds[:-1] - bounds[0], axis=0)
    return sums


def _distinct(batch: FeatureBatch, enough: int) -> list[int]:
    """How many distinct features each text has, counted up to `enough` at least."""
    words = batch.digests.view(np.uint64)[:, 0]
    ends = np.cumsum(batch.counts).tolist()
    found = []
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        # Nearly every text shows enough of them at once; only the others are counted whole.
        distinct = len(set(words[start : min(end, start + 4 * enough)].tolist()))
        found.append(distinct if distinct >= enough else len(set(words[start:end].tolist())))
    return found
