"""Fingerprints that match, joined by drawers: all pairs of them, and the components that they connect.

Every fingerprint goes to each of its drawers, a shuffle brings what is in one drawer side by side, and NumPy
compares many drawers at a time. A pair that shares several drawers is found in the first of them.

The driver connects components. It needs to know which fingerprints match others, not how often: at most one
edge for each of them in every task is brought to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.types import (
    BinaryType,
    DoubleType,
    IntegerType,
    LongType,
    StructField,
    StructType,
)

from simhbase.drawers.components import united
from simhbase.drawers.join import Pairs, distinct
from simhbase.drawers.scheme import Bounds, Scheme, identities
from simhbase.errors import SimhbaseError, UsageError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.minhash import SketchParameters
from simhbase.jobs.comparison import Comparison
from simhbase.jobs.spark.fingerprints import FINGERPRINT, IDENTITY, Columns, at_borders, binary
from simhbase.profile import Profile

MOST_MEMBERS = 1 << 13  # of a drawer that are compared in one piece, each with each: 33 million comparisons
ROWS_AT_ONCE = 1 << 16  # of drawers that are compared together
DRAWER = ("table", "segment")
PIECE = (*DRAWER, "cell")
MOST_EDGES = 25_000_000  # 100 bytes of the driver's memory each; Spark brings it 1 GiB unless told otherwise
COMPONENT = "component"
_EDGES_A_ROW = 1 << 20
_MAPPING = StructType([StructField(IDENTITY, BinaryType()), StructField(COMPONENT, BinaryType())])


def pairs(
    fingerprints: DataFrame,
    profile: Profile | Mapping[str, object] | None = None,
    *,
    min_similarity: float | None = None,
) -> DataFrame:
    """All pairs of different fingerprints that match, each once: at most the profile's k bits apart, or with
    sketches that are similar enough.

    fingerprints: what `fingerprint` has made by the same profile. It is read three times: persist it, or
    write it down before. Documents of one fingerprint and sketch are one here, so that a page copied a
    hundred thousand times costs no more than any other: join by the fingerprint to have documents.
    min_similarity: as the sketches estimate it, by default the profile's threshold.

    Columns: left and right (binary), left not after right; distance, in bits or for minhash in slots that
    differ; where the profile keeps sketches, left_sketch, right_sketch and the similarity that they speak
    for. No drawer is cut: one of more than 8,192 is compared in pieces, by several tasks. Raises UsageError
    for bounds that cannot be kept.
    """
    comparison = Comparison.of(profile, None)
    bounds = comparison.chosen.bounds(None, min_similarity)
    columns = Columns.of(comparison.profile)
    missing = [name for name in columns.names if name not in fingerprints.columns]
    if missing:
        raise UsageError(
            f"no column {missing[0]!r}: make fingerprints by `fingerprint` with the same profile, or give "
            "a profile without sketches (verify = false)"
        )
    read = fingerprints.where(F.col(FINGERPRINT).isNotNull()).select(*columns.names)
    members = read.dropDuplicates(columns.names)
    scheme = comparison.scheme(members.count())
    return drawn(members, scheme, columns).mapInArrow(
        Paired(DrawerJoin(scheme, bounds, columns)), Paired.schema(columns)
    )


def drawn(members: DataFrame, scheme: Scheme, columns: Columns) -> DataFrame:
    """Different fingerprints in each of their drawers, one drawer's side by side.

    A drawer of too many is cut into parts, and each part meets every part in a cell of its own, itself in
    that on the diagonal.
    """
    there = members.mapInArrow(Filed(scheme, columns), Filed.schema(columns))
    sizes = there.groupBy(*DRAWER).count().where(F.col("count") > MOST_MEMBERS)
    parts = sizes.select(*DRAWER, F.ceil(F.col("count") * 2 / MOST_MEMBERS).cast("int").alias("parts"))
    parted = (
        there.join(F.broadcast(parts), list(DRAWER), "left")
        .withColumn("parts", F.coalesce("parts", F.lit(1)))
        .withColumn("part", F.pmod(F.xxhash64(*columns.names), "parts").cast("int"))
        .withColumn("other", F.explode(F.expr("sequence(0, parts - 1)")))
        .withColumn("cell", F.expr("cast(least(part, other) AS bigint) * parts + greatest(part, other)"))
        .withColumn("across", F.col("part") != F.col("other"))
    )
    chosen = parted.select(*PIECE, "part", "across", *columns.names)
    return chosen.repartition(*PIECE).sortWithinPartitions(*PIECE, *columns.names)


@dataclass(frozen=True)
class Filed:
    """Batches of fingerprints -> a row for each in each of its drawers."""

    scheme: Scheme
    columns: Columns

    @staticmethod
    def schema(columns: Columns) -> StructType:
        drawer = [StructField("table", IntegerType()), StructField("segment", LongType())]
        return StructType([*drawer, *columns.fields])

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            fingerprints = self.columns.read(batch)
            segments = self.scheme.segments(fingerprints).view(np.int64)
            for table in range(segments.shape[1]):
                drawers = [pa.array(np.full(len(batch), table, np.int32)), pa.array(segments[:, table])]
                arrays = [*drawers, *self.columns.arrays(fingerprints)]
                yield pa.RecordBatch.from_arrays(arrays, [*DRAWER, *self.columns.names])


@dataclass(frozen=True)
class DrawerJoin:
    scheme: Scheme
    bounds: Bounds
    columns: Columns

    def near(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[FingerprintBatch, Iterator[Pairs]]]:
        """Some whole drawers' fingerprints at a time, and the pairs among them of which these are the first
        drawers."""
        for rows in _whole(batches):
            fingerprints = self.columns.read(rows)
            yield fingerprints, self._near(rows, fingerprints)

    def _near(self, rows: pa.Table, fingerprints: FingerprintBatch) -> Iterator[Pairs]:
        table, part, across = (rows.column(name).to_numpy() for name in ("table", "part", "across"))
        segments = self.scheme.segments(fingerprints)
        for found in self.scheme.mates(fingerprints, _numbered(rows), self.bounds):
            left, right = found.left, found.right
            first = (segments[left] == segments[right]).argmax(axis=1)
            yield found.where((first == table[left]) & ((part[left] != part[right]) == across[left]))


def _whole(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Whole pieces of drawers, as many as make some rows."""
    held: list[pa.RecordBatch] = []
    for rows, begins in at_borders(batches, PIECE):
        if begins and sum(map(len, held)) >= ROWS_AT_ONCE:
            yield pa.Table.from_batches(held)
            held = []
        held.append(rows)
    if held:
        yield pa.Table.from_batches(held)


def _numbered(rows: pa.Table) -> NDArray[np.uint32]:
    """The number of the piece that each of n rows is in: uint32 (n,)."""
    keys = [rows.column(name).to_numpy() for name in PIECE]
    differs = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return np.append(0, np.cumsum(differs)).astype(np.uint32)


@dataclass(frozen=True)
class Paired:
    drawers: DrawerJoin

    @staticmethod
    def schema(columns: Columns) -> StructType:
        sketches = ["left_sketch", "right_sketch"] if columns.sketch_bytes else []
        fields = [StructField(name, BinaryType()) for name in ("left", "right", *sketches)]
        fields.append(StructField("distance", IntegerType()))
        return StructType([*fields, *([StructField("similarity", DoubleType())] if sketches else [])])

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        names = self.schema(self.drawers.columns).names
        for fingerprints, found in self.drawers.near(batches):
            for some in found:
                yield pa.RecordBatch.from_arrays(self._arrays(fingerprints, some), names)

    def _arrays(self, fingerprints: FingerprintBatch, found: Pairs) -> list[pa.Array]:
        sides = [fingerprints[found.left], fingerprints[found.right]]
        columns = [self.drawers.columns.arrays(side) for side in sides]
        arrays = [column for pair in zip(*columns, strict=True) for column in pair]
        arrays.append(pa.array(found.distance.astype(np.int32)))
        sketching = self.drawers.scheme.sketching
        if sketching is not None:
            mismatches = sketching.mismatches(sides[0].sketches, sides[1].sketches)
            arrays.append(pa.array(sketching.similarity(mismatches)))
        return arrays


@dataclass(frozen=True)
class Joined:
    """Drawers -> enough of their pairs to connect what all of them do: far fewer, where a drawer has many
    near each other.

    A row has edges of uint64 (m, 2, words) in bytes, between what `identities` calls the same; verified:
    of the sketches, where these decide.
    """

    drawers: DrawerJoin
    verified: SketchParameters | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for fingerprints, found in self.drawers.near(batches):
            named = identities(fingerprints, self.verified)
            values = distinct(named)
            root = np.arange(len(values.first))
            for some in found:
                root = united(root, values.inverse[some.left], values.inverse[some.right])
            hung = np.flatnonzero(root != np.arange(len(root)))
            edges = np.stack([named[values.first[hung]], named[values.first[root[hung]]]], axis=1)
            yield pa.RecordBatch.from_arrays([pa.array([edges.tobytes()], pa.binary())], ["edges"])


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
    named = edges.reshape(-1, 2) if words == 2 else edges.reshape(-1)
    values = distinct(named)
    left, right = values.inverse.reshape(-1, 2).T
    root = united(np.arange(len(values.first)), left, right)
    both = np.stack([named[values.first], named[values.first[root]]], axis=1)
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
