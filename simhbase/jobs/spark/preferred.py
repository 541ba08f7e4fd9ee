"""Which documents are preferred, as columns to sort by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.types import (
    AtomicType,
    BinaryType,
    BooleanType,
    DoubleType,
    NumericType,
    StructField,
    StructType,
)

from simhbase.errors import BadInput, UsageError
from simhbase.jobs.representative import Preference, as_number
from simhbase.jobs.spark.fingerprints import type_of
from simhbase.logs import logger

NUMBER, WORDS = "number", "words"

log = logger(__name__)


def values_of(df: DataFrame, text: Column, preferred: Preference | None) -> list[Column]:
    """What documents are preferred by: a number, or words that may all be numbers. Raises UsageError for a
    column that is neither."""
    if preferred is None:
        return []
    if preferred.field is None:
        return [F.length(text).cast("double").alias(NUMBER)]
    kind = type_of(df, preferred.field, "keep")
    column = F.col(preferred.field)
    if isinstance(kind, NumericType):
        return [column.cast("double").alias(NUMBER)]
    if isinstance(kind, AtomicType) and not isinstance(kind, BooleanType | BinaryType):
        return [F.nullif(column.cast("string"), F.lit("")).alias(WORDS)]
    raise UsageError(
        f"`keep`: column {preferred.field!r} is {kind.simpleString()}: texts or numbers are compared"
    )


def with_numbers(documents: DataFrame) -> DataFrame:
    """The same with the numbers that words are, null for other words."""
    if WORDS not in documents.columns:
        return documents
    schema = StructType([*documents.schema.fields, StructField(NUMBER, DoubleType())])
    return documents.mapInArrow(_numbered, schema)


def most_preferred_first(accepted: DataFrame, preferred: Preference | None) -> list[Column]:
    """By what to sort documents, before their order in the input. Raises BadInput where none has a value."""
    if preferred is None:
        return []
    numbers, words = F.col(NUMBER), F.col(WORDS if WORDS in accepted.columns else NUMBER)
    counts = accepted.agg(F.count("*"), F.count(numbers), F.count(words)).head() or (0, 0, 0)
    documents, as_numbers, values = counts
    if documents and not values:
        raise BadInput(f"`keep`: no document has anything in a column {preferred.field!r}")
    if 0 < as_numbers < values:
        log.warning("`keep`: %r is compared as text: some are numbers, others are not", preferred.field)
    by = words if as_numbers < values else F.nanvl(numbers, F.lit(None).cast("double")) + F.lit(0.0)
    return [by.desc_nulls_last() if preferred.sign > 0 else by.asc_nulls_last()]


def _numbered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        numbers = pa.array(map(_number, batch.column(WORDS).to_pylist()), pa.float64())
        yield pa.RecordBatch.from_arrays([*batch.columns, numbers], [*batch.schema.names, NUMBER])


def _number(words: str | None) -> float | None:
    try:
        return None if words is None else as_number(words)
    except ValueError:
        return None
