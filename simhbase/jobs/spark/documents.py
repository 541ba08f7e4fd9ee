"""Which rows of a DataFrame are documents: of one id the first."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.types import AtomicType

from simhbase.errors import UsageError
from simhbase.jobs.spark.fingerprints import ID, REASON, type_of

PLACE, ORDER = "place", "order"
REPEATED = "the same id came before"


def order_of(df: DataFrame, name: str | None) -> list[Column]:
    """The column of the input's order. Raises UsageError for one that has none."""
    if name is None:
        return []
    kind = type_of(df, name, "order_column")
    if not isinstance(kind, AtomicType):
        raise UsageError(f"{name!r} is {kind.simpleString()}, which has no order", parameter="order_column")
    return [F.col(name).alias(ORDER)]


def without_repeats(found: DataFrame) -> DataFrame:
    """The same with a reason to reject all documents of one id but the first, by their places, that has a
    fingerprint."""
    number = F.row_number().over(Window.partitionBy(ID, REASON).orderBy(PLACE))
    repeated = F.col(REASON).isNull() & (number > 1)
    return found.withColumn(REASON, F.when(repeated, F.lit(REPEATED)).otherwise(F.col(REASON)))
