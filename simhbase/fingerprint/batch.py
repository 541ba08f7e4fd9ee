"""Batches of fingerprints and sketches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Chosen = slice | NDArray[np.bool_] | NDArray[np.int32 | np.int64] | list[int] | list[bool]


@dataclass(frozen=True, slots=True)
class FingerprintBatch:
    """Fingerprints and sketches of n texts.

    values: uint64 (n,), or (n, 2) for 128 bits with the most significant word first; sketches: uint8
    (n, bytes), (n, 0) if the profile has none.
    """

    values: NDArray[np.uint64]
    sketches: NDArray[np.uint8]

    @classmethod
    def bare(cls, values: NDArray[np.uint64]) -> Self:
        """Fingerprints without sketches."""
        return cls(values, np.empty((len(values), 0), dtype=np.uint8))

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> Self:
        """Concatenate one or more batches."""
        parts = list(parts)
        return cls(
            np.concatenate([part.values for part in parts]), np.concatenate([part.sketches for part in parts])
        )

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, chosen: Chosen) -> Self:
        return type(self)(self.values[chosen], self.sketches[chosen])

    def sketch_bytes(self) -> list[bytes]:
        """Each sketch as stored in tables."""
        size = self.sketches.shape[1]
        joined = self.sketches.tobytes()
        return [joined[start * size : (start + 1) * size] for start in range(len(self))]
