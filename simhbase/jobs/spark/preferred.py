"""Which documents are preferred, as columns to sort by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

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
from simhbase.jobs.representative import Preference, as_moment, as_number
from simhbase.jobs.spark.fingerprints import type_of
from simhbase.logs import logger

NUMBER, MOMENT, WORDS = "number", "moment", "words"

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
        f"column {preferred.field!r} is {kind.simpleString()}: only texts and numbers can be compared",
        parameter="keep",
    )


def with_numbers(documents: DataFrame) -> DataFrame:
    """The same with the numbers and the dates that words are, null for other words."""
    if WORDS not in documents.columns:
        return documents
    added = [StructField(name, DoubleType()) for name in (NUMBER, MOMENT)]
    schema = StructType([*documents.schema.fields, *added])
    return documents.mapInArrow(_numbered, schema)


def most_preferred_first(accepted: DataFrame, preferred: Preference | None) -> list[Column]:
    """By what to sort documents, before their order in the input. Raises BadInput where none has a value."""
    if preferred is None:
        return []
    has_words = WORDS in accepted.columns
    numbers, moments, words = map(F.col, (NUMBER, MOMENT, WORDS) if has_words else (NUMBER,) * 3)
    counted = accepted.agg(F.count("*"), F.count(numbers), F.count(moments), F.count(words)).head()
    documents, as_numbers, as_moments, values = counted or (0, 0, 0, 0)
    if documents and not values:
        raise BadInput(f"no document has anything in a column {preferred.field!r}", parameter="keep")
    if max(as_numbers, as_moments) < values:
        by = words
        if kind := "numbers" if as_numbers else "dates of ISO 8601" if as_moments else None:
            log.warning("%r is compared as text: some are %s, others are not", preferred.field, kind)
    else:
        found = numbers if as_numbers == values else moments
        by = F.nanvl(found, F.lit(None).cast("double")) + F.lit(0.0)
    return [by.desc_nulls_last() if preferred.sign > 0 else by.asc_nulls_last()]


def _numbered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        words = batch.column(WORDS).to_pylist()
        added = [
            pa.array((_measured(measured, each) for each in words), pa.float64())
            for measured in (as_number, as_moment)
        ]
        yield pa.RecordBatch.from_arrays([*batch.columns, *added], [*batch.schema.names, NUMBER, MOMENT])


def _measured(measured: Callable[[str | None], float], words: str | None) -> float | None:
    try:
        return None if words is None else measured(words)
    except ValueError:
        return None
