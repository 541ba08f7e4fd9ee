"""A set of hashes that the driver collects and all tasks hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from simhbase.spark.fingerprints import fixed
from simhbase.spark.guard import guarded

_BITS_A_HASH, _MOST_BITS = 128, 30  # at most 128 MB
_HASH_BYTES = 8  # of a digest


@dataclass(frozen=True)
class HashBits:
    """A set of hashes (uint64), as bits by their upper parts: it may seem to contain others."""

    bits: NDArray[np.uint8]

    @classmethod
    def of_size(cls, count: int) -> Self:
        """An empty set with room for `count` hashes."""
        width = min(max((count * _BITS_A_HASH).bit_length(), 3), _MOST_BITS)
        return cls(np.zeros(1 << (width - 3), np.uint8))

    @classmethod
    def of_digests(cls, digests: DataFrame) -> Self:
        """digests: one column, of at least 8 bytes or null."""

        def hashes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                some = hashes_of(batch.column(0).drop_null()).tobytes()
                yield pa.RecordBatch.from_arrays([pa.array([some], pa.binary())], ["hashes"])

        rows = digests.mapInArrow(guarded(hashes), "hashes binary").collect()
        every = np.concatenate([np.empty(0, np.uint64), *(np.frombuffer(row[0], np.uint64) for row in rows)])
        found = cls.of_size(len(every))
        found.add(every)
        return found

    def add(self, hashes: NDArray[np.uint64]) -> None:
        places = self._places(hashes)
        np.bitwise_or.at(self.bits, places >> np.uint64(3), _bit_of(places))

    def contain(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        places = self._places(hashes)
        found: NDArray[np.bool_] = (self.bits[places >> np.uint64(3)] & _bit_of(places)) != 0
        return found

    def _places(self, hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return hashes >> np.uint64(65 - self.bits.size.bit_length() - 3)


def hashes_of(digests: pa.Array) -> NDArray[np.uint64]:
    """The first bytes of digests, none of which is null."""
    first = pc.binary_slice(digests, 0, _HASH_BYTES)
    return fixed(first, _HASH_BYTES).view(">u8")[:, 0].astype(np.uint64)


def _bit_of(places: NDArray[np.uint64]) -> NDArray[np.uint8]:
    return np.uint8(1) << (places & np.uint64(7)).astype(np.uint8)
