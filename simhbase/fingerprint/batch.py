"""Batches of fingerprints and sketches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from simhbase.fingerprint.pipeline import TextFingerprint

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

    @property
    def single(self) -> TextFingerprint:
        """The only text of this batch, of at most 64 bits."""
        return TextFingerprint(self.values.item(), self.sketches.tobytes())

    def sketch_bytes(self) -> list[bytes]:
        """Each sketch as stored in tables."""
        size = self.sketches.shape[1]
        joined = self.sketches.tobytes()
        return [joined[start * size : (start + 1) * size] for start in range(len(self))]


@dataclass(frozen=True, slots=True)
class Fingerprinted:
    """Fingerprints of n texts. reasons: n entries, None, or why the text has no fingerprint (its values are
    zeros)."""

    fingerprints: FingerprintBatch
    reasons: list[str | None]

    @classmethod
    def of(
        cls,
        found: bytearray,
        sketched: bytearray,
        distinct: bytearray,
        bits: int,
        sketch_bytes: int,
        min_features: int,
    ) -> tuple[Self, dict[int, int]]:
        """From the core's arrays (`_core.Pipeline.fingerprint`). The second value is the number of features
        of each text without a fingerprint, by its position: the rule of `Fingerprinter.fingerprint_one`."""
        counts = np.frombuffer(distinct, np.uint32)
        values = np.frombuffer(found, np.uint64).reshape((len(counts), 2) if bits == 128 else len(counts))
        sketches = np.frombuffer(sketched, np.uint8).reshape(len(counts), sketch_bytes)
        lost = counts < min_features
        if sketch_bytes:
            lost |= ~sketches.any(axis=1)
        without = np.flatnonzero(lost).tolist()
        values[without] = sketches[without] = 0
        batch = cls(FingerprintBatch(values, sketches), [None] * len(counts))
        return batch, dict(zip(without, counts[without].tolist(), strict=True))

    @classmethod
    def joined(cls, batches: Sequence[Self]) -> Self:
        """Concatenate one or more batches."""
        return cls(
            FingerprintBatch.joined(batch.fingerprints for batch in batches),
            [reason for batch in batches for reason in batch.reasons],
        )

    @property
    def values(self) -> NDArray[np.uint64]:
        """The fingerprints: uint64 (n,) for 64 bits, (n, 2) for 128."""
        return self.fingerprints.values

    @property
    def accepted(self) -> NDArray[np.bool_]:
        """True for texts that have a fingerprint: bool (n,)."""
        return np.array([reason is None for reason in self.reasons], dtype=np.bool_)


def to_int(value: NDArray[np.uint64] | np.uint64) -> int:
    """Convert a fingerprint (a uint64, or two words) to a Python integer."""
    number = 0
    for word in np.atleast_1d(value).tolist():
        number = number << 64 | word
    return number
