"""What is kept of texts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Chosen = slice | NDArray[np.bool_] | NDArray[np.int64] | list[int] | list[bool]


@dataclass(frozen=True, slots=True)
class FingerprintBatch:
    """Of n texts their fingerprints, and their sketches where the profile keeps some.

    values: uint64 (n,), or (n, 2) for 128 bits, the most significant word first; sketches: uint8
    (n, bytes), of no bytes where there are none.
    """

    values: NDArray[np.uint64]
    sketches: NDArray[np.uint8]

    @classmethod
    def bare(cls, values: NDArray[np.uint64]) -> Self:
        return cls(values, np.empty((len(values), 0), dtype=np.uint8))

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> Self:
        """One behind the other, of at least one part."""
        parts = list(parts)
        return cls(
            np.concatenate([part.values for part in parts]), np.concatenate([part.sketches for part in parts])
        )

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, chosen: Chosen) -> Self:
        return type(self)(self.values[chosen], self.sketches[chosen])

    def sketch_bytes(self) -> list[bytes]:
        """Each sketch, as the tables hold it."""
        size = self.sketches.shape[1]
        joined = self.sketches.tobytes()
        return [joined[start * size : (start + 1) * size] for start in range(len(self))]
