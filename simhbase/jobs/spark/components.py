"""Connected components of what matches, which the driver finds.

It needs to know which fingerprints match others, and not how often: at most one edge for each of them in
every task is brought to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.types import BinaryType, StructField, StructType

from simhbase.drawers.components import united
from simhbase.drawers.join import distinct
from simhbase.drawers.scheme import Scheme
from simhbase.errors import SimhbaseError
from simhbase.fingerprint.minhash import SketchParameters
from simhbase.jobs.comparison import Comparison
from simhbase.jobs.spark.columns import Columns, binary
from simhbase.jobs.spark.drawers import DrawerJoin, Joined, drawn
from simhbase.jobs.spark.fingerprints import IDENTITY

MOST_EDGES = 25_000_000  # 100 bytes of the driver's memory each; Spark brings it 1 GiB unless told otherwise
COMPONENT = "component"
_EDGES_A_ROW = 1 << 20
_MAPPING = StructType([StructField(IDENTITY, BinaryType()), StructField(COMPONENT, BinaryType())])


def with_components(documents: DataFrame, comparison: Comparison, columns: Columns) -> DataFrame:
    """Documents with the component each is in: those that matches connect, however many lie between them.

    Raises SimhbaseError for more than MOST_EDGES edges.
    """
    members = documents.dropDuplicates([IDENTITY]).select(*columns.names).persist()
    scheme = comparison.scheme(members.count())
    edges = _edges(members, scheme, comparison, columns)
    members.unpersist()
    mapping = _mapping(documents.sparkSession, edges)
    component = F.coalesce(COMPONENT, IDENTITY)
    return documents.join(mapping, IDENTITY, "left").withColumn(COMPONENT, component)


def verified_by(comparison: Comparison) -> SketchParameters | None:
    """What sketches are, where they decide what matches."""
    return None if comparison.bounds.mismatches is None else comparison.chosen.sketching


def _edges(
    members: DataFrame, scheme: Scheme, comparison: Comparison, columns: Columns
) -> NDArray[np.uint64]:
    """Enough edges between identities to connect what matches do: uint64 (m, 2, words)."""
    verified = verified_by(comparison)
    words = 2 if verified else columns.words
    joined = Joined(DrawerJoin(scheme, comparison.bounds, columns), verified)
    edges = drawn(members, scheme, columns).mapInArrow(joined, "edges binary").persist()
    try:
        size = edges.agg(F.sum(F.length("edges"))).head()  # all tasks at once, and nothing comes here
        if size and (size[0] or 0) > MOST_EDGES * 2 * 8 * words:
            raise SimhbaseError(
                f"more than {MOST_EDGES:,} fingerprints have a match, too many to be joined to groups by the "
                "driver: take a smaller k, or dedup parts of the corpus before"
            )
        found = [np.frombuffer(row.edges, np.uint64) for row in edges.collect()]
    finally:
        edges.unpersist()
    return np.concatenate([np.empty(0, np.uint64), *found]).reshape(-1, 2, words)


def _mapping(session: SparkSession, edges: NDArray[np.uint64]) -> DataFrame:
    """The component of each identity that has edges."""
    words = edges.shape[-1]
    values = distinct(edges.reshape(-1, 2) if words == 2 else edges.reshape(-1))
    left, right = values.inverse.reshape(-1, 2).T
    root = united(np.arange(len(values.values)), left, right)
    both = np.stack([values.values, values.values[root]], axis=1)
    rows = [(both[start : start + _EDGES_A_ROW].tobytes(),) for start in range(0, len(both), _EDGES_A_ROW)]
    packed = session.createDataFrame(rows, "edges binary")
    return packed.mapInArrow(_Unpacked(words), _MAPPING)


@dataclass(frozen=True)
class _Unpacked:
    """Rows of edges -> a row for each."""

    words: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for edges in batch.column("edges").to_pylist():
                both = np.frombuffer(edges, np.uint64).reshape(-1, 2, self.words)
                yield pa.RecordBatch.from_arrays([binary(both[:, 0]), binary(both[:, 1])], _MAPPING.names)
