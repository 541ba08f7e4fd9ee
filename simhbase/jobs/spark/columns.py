"""Fingerprints as columns, in Spark and in Arrow.

Spark has no unsigned integers: a fingerprint is binary, big-endian as in row keys, so that its order is
that of the number, and `hex(fingerprint)` shows the digits that `simhbase find` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.types import BinaryType, StructField

from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.profile import Profile

FINGERPRINT, SKETCH = "fingerprint", "sketch"
_WORD = np.dtype(">u8")


@dataclass(frozen=True)
class Columns:
    """How fingerprints are kept: in so many words of 64 bits, beside sketches of so many bytes, which are in
    no column where they have none."""

    words: int
    sketch_bytes: int

    @classmethod
    def of(cls, profile: Profile) -> Self:
        sketching = profile.sketching
        return cls(profile.fingerprint_bits // 64, sketching.bytes if sketching else 0)

    @property
    def names(self) -> list[str]:
        return [FINGERPRINT, SKETCH] if self.sketch_bytes else [FINGERPRINT]

    @property
    def fields(self) -> list[StructField]:
        return [StructField(name, BinaryType()) for name in self.names]

    def read(self, rows: pa.Table) -> FingerprintBatch:
        """The fingerprints of n rows that have one."""
        values = fixed(rows.column(FINGERPRINT), 8 * self.words).view(_WORD).astype(np.uint64)
        if not self.sketch_bytes:
            return FingerprintBatch.bare(values if self.words > 1 else values[:, 0])
        sketches = fixed(rows.column(SKETCH), self.sketch_bytes)
        return FingerprintBatch(values if self.words > 1 else values[:, 0], sketches)

    def arrays(self, fingerprints: FingerprintBatch) -> list[pa.Array]:
        values = binary(fingerprints.values.astype(_WORD))
        return [values, binary(fingerprints.sketches)] if self.sketch_bytes else [values]


def fixed(column: pa.Array, size: int) -> NDArray[np.uint8]:
    """A column of n values of so many bytes each: uint8 (n, size)."""
    return np.frombuffer(b"".join(column.to_pylist()), dtype=np.uint8).reshape(len(column), size)


def binary(values: NDArray[Any]) -> pa.Array:
    """A column of the bytes of n items of an array (n, ...)."""
    size = values.itemsize * prod(values.shape[1:])
    buffer = pa.py_buffer(np.ascontiguousarray(values))
    kind = pa.binary(size)
    return pa.FixedSizeBinaryArray.from_buffers(kind, len(values), [None, buffer]).cast(pa.binary())


def at_borders(
    batches: Iterable[pa.RecordBatch], names: Sequence[str]
) -> Iterator[tuple[pa.RecordBatch, bool]]:
    """Rows of groups that lie side by side, of equal values in some columns: in pieces, each with whether
    a group begins with it. What is between two such is whole groups."""
    last = None
    for batch in batches:
        keys = [batch.column(name) for name in names]
        rows = list(zip(*(key.to_pylist() for key in keys), strict=True))
        if not rows:
            continue
        border = next((row for row in range(len(rows) - 1, 0, -1) if rows[row] != rows[row - 1]), 0)
        begins = last is not None and rows[0] != last
        if border:
            yield batch.slice(0, border), begins
            begins = True
        yield batch.slice(border), begins
        last = rows[-1]
