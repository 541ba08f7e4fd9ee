"""Fingerprints texts of a DataFrame, and stores fingerprints in columns of Spark and Arrow.

Spark has no unsigned integers: fingerprints are binary, big-endian as in row keys, so they sort as numbers,
and `hex(fingerprint)` gives the digits that `simhbase find` prints.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the usual name
from pyspark.sql.types import BinaryType, DataType, IntegralType, StringType, StructField, StructType

from simhbase.drawers.scheme import identities
from simhbase.errors import UsageError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.minhash import SketchParameters
from simhbase.fingerprint.pipeline import Fingerprinter
from simhbase.index.rows import id_problem
from simhbase.profile.profile import Profile, given_parameters, make_profile
from simhbase.spark.guard import guarded

FINGERPRINT, SKETCH = "fingerprint", "sketch"
_WORD = np.dtype(">u8")
ID, TEXT, IDENTITY, REASON, PROBLEM = "id", "text", "identity", "reason", "problem"


@dataclass(frozen=True)
class Columns:
    """Columns of fingerprints. words: length of a fingerprint in words of 64 bits; sketch_bytes: 0 if there
    are no sketches, and then there is no column for them."""

    words: int
    sketch_bytes: int

    @classmethod
    def of(cls, profile: Profile) -> Self:
        sketching = profile.sketching
        return cls(profile.bits // 64, sketching.bytes if sketching else 0)

    @property
    def names(self) -> list[str]:
        return [FINGERPRINT, SKETCH] if self.sketch_bytes else [FINGERPRINT]

    @property
    def fields(self) -> list[StructField]:
        return [StructField(name, BinaryType()) for name in self.names]

    def read(self, rows: pa.Table) -> FingerprintBatch:
        """Decode the fingerprints of n rows, which all have one."""
        values = fixed(rows.column(FINGERPRINT), 8 * self.words).view(_WORD).astype(np.uint64)
        if not self.sketch_bytes:
            return FingerprintBatch.bare(values if self.words > 1 else values[:, 0])
        sketches = fixed(rows.column(SKETCH), self.sketch_bytes)
        return FingerprintBatch(values if self.words > 1 else values[:, 0], sketches)

    def arrays(self, fingerprints: FingerprintBatch) -> list[pa.Array]:
        values = binary(fingerprints.values.astype(_WORD))
        return [values, binary(fingerprints.sketches)] if self.sketch_bytes else [values]


def fixed(column: pa.Array, size: int) -> NDArray[np.uint8]:
    """A column of n values of `size` bytes as an array: uint8 (n, size)."""
    return np.frombuffer(b"".join(column.to_pylist()), dtype=np.uint8).reshape(len(column), size)


def binary(values: NDArray[Any]) -> pa.Array:
    """A column with the bytes of the n items of an array (n, ...)."""
    size = values.itemsize * prod(values.shape[1:])
    buffer = pa.py_buffer(np.ascontiguousarray(values))
    kind = pa.binary(size)
    return pa.FixedSizeBinaryArray.from_buffers(kind, len(values), [None, buffer]).cast(pa.binary())


def at_borders(
    batches: Iterable[pa.RecordBatch], names: Sequence[str]
) -> Iterator[tuple[pa.RecordBatch, bool]]:
    """Split sorted rows before groups of equal values in some columns. Yields pieces, and True if a group
    begins with the piece, so that the pieces before are whole groups."""
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


def fingerprint(
    df: DataFrame,
    profile: Profile | Mapping[str, object] | None = None,
    id_column: str = "id",
    text_column: str = "text",
) -> DataFrame:
    """Fingerprint each text: a lazy DataFrame with a row for each of `df`.

    profile: a Profile, or some of its parameters by name. Columns of the result: id (text; integers become
    decimals), fingerprint (binary, big-endian, 8 bytes, or 16 for 128 bits; `hex(fingerprint)` gives the
    digits that `simhbase find` prints), sketch (binary) if the profile has sketches, and reason: why there is
    no fingerprint, null if there is one.

    Arrow batches of `spark.sql.execution.arrow.maxRecordsPerBatch` rows (10,000) are in memory: lower this
    for long texts. Raises UsageError for columns of other types.
    """
    made = make_profile(given_parameters(profile))
    read = df.select(id_of(df, id_column).alias(ID), text_of(df, text_column).alias(TEXT))
    return fingerprinted(read, made).drop(IDENTITY)


def fingerprinted(read: DataFrame, profile: Profile, verified: SketchParameters | None = None) -> DataFrame:
    """Replace the text column of `read` by fingerprints, and reasons if there is none.

    Adds the column identity, equal for documents that the join treats as one. verified: parameters of the
    sketches if they decide.
    """
    others = [field for field in read.schema.fields if field.name != TEXT]
    columns = [*Columns.of(profile).fields, StructField(IDENTITY, BinaryType())]
    schema = StructType([*others, *columns, StructField(REASON, StringType())])
    names = [field.name for field in others]

    def with_fingerprints(batch: pa.RecordBatch) -> pa.RecordBatch:
        texts, reasons = _readable(batch)
        found = _fingerprinter(profile).fingerprint_many(texts)
        reasons = [before or after for before, after in zip(reasons, found.reasons, strict=True)]
        arrays = [*Columns.of(profile).arrays(found.fingerprints)]
        arrays.append(binary(identities(found.fingerprints, verified)))
        reason = pa.array(reasons, pa.string())
        known = [pc.if_else(pc.is_null(reason), each, pa.scalar(None, pa.binary())) for each in arrays]
        return pa.RecordBatch.from_arrays([*map(batch.column, names), *known, reason], schema.names)

    return read.mapInArrow(guarded(lambda batches: map(with_fingerprints, batches)), schema)


@lru_cache(maxsize=1)
def _fingerprinter(profile: Profile) -> Fingerprinter:
    # Reused by the tasks of a process, because of its cache of digests.
    return profile.fingerprinter()


def _readable(batch: pa.RecordBatch) -> tuple[list[str], list[str | None]]:
    """Texts of n documents, and reasons why they cannot be used: first those of the column of problems."""
    ids, id_problems = decoded(batch.column(ID), "id")
    texts, text_problems = decoded(batch.column(TEXT), "text")
    known = PROBLEM in batch.schema.names
    before = batch.column(PROBLEM).to_pylist() if known else [None] * len(batch)
    problems = zip(before, id_problems, map(id_problem, ids), text_problems, strict=True)
    return texts, [next(filter(None, some), None) for some in problems]


def decoded(column: pa.Array, what: str) -> tuple[list[str], list[str | None]]:
    """Decode n texts. Returns them, and reasons for those that are null or not UTF-8, which are empty. (Spark
    does not validate strings.)"""
    texts: list[str] = []
    problems: list[str | None] = []
    for value in column.cast(pa.binary()).to_pylist():
        problem = f"the {what} is null" if value is None else None
        try:
            texts.append((value or b"").decode())
        except UnicodeDecodeError as error:
            texts.append("")
            problem = f"the {what} is not UTF-8 at byte {error.start + 1}"
        problems.append(problem)
    return texts, problems


def id_of(df: DataFrame, name: str) -> Column:
    """The id column as text. Raises UsageError for other types."""
    kind = type_of(df, name, "id_column")
    if not isinstance(kind, StringType | IntegralType):
        raise UsageError(
            f"{name!r} is {kind.simpleString()}: ids are texts or integers", parameter="id_column"
        )
    return F.col(name).cast("string")


def text_of(df: DataFrame, name: str) -> Column:
    """The text column. Raises UsageError for other types."""
    kind = type_of(df, name, "text_column")
    if not isinstance(kind, StringType | BinaryType):
        raise UsageError(f"{name!r} is {kind.simpleString()}, not a text", parameter="text_column")
    return F.col(name).cast("string")


def type_of(df: DataFrame, name: str, parameter: str) -> DataType:
    """Type of a column; dots select fields of structs. Raises UsageError if it does not exist."""
    from pyspark.errors import AnalysisException

    try:
        return df.select(F.col(name)).schema.fields[0].dataType
    except AnalysisException as error:
        there = ", ".join(map(repr, df.columns))[:200]
        raise UsageError(f"no column {name!r} among {there}", parameter=parameter) from error
