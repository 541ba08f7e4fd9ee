"""Joins fingerprints by drawers: pairs that match, and connected components.

Every fingerprint is sent to each of its drawers, a shuffle collects the members of a drawer, and NumPy
compares many drawers at a time. A pair that shares several drawers is found in the first of them.

The driver computes components. It only needs enough edges to connect them: at most one per fingerprint and
task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the usual name
from pyspark.sql.types import (
    BinaryType,
    DoubleType,
    IntegerType,
    LongType,
    StructField,
    StructType,
)

from simhbase.deduplication.matching import MatchCriteria
from simhbase.drawers.components import merge_components
from simhbase.drawers.join import Distinct, Pairs, distinct
from simhbase.drawers.scheme import Bounds, Scheme, identities
from simhbase.errors import SimhbaseError, UsageError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.minhash import SketchParameters
from simhbase.fingerprint.sketches import mismatches_of
from simhbase.profile.profile import Profile
from simhbase.spark.fingerprints import FINGERPRINT, IDENTITY, Columns, at_borders, binary, fixed
from simhbase.spark.guard import guarded

MOST_MEMBERS = 1 << 13  # of a drawer compared in one piece, each with each: 33 million comparisons
ROWS_AT_ONCE = 1 << 16  # rows of drawers compared together
DRAWER = ("table", "segment")
PIECE = (*DRAWER, "cell")
MOST_EDGES = 25_000_000  # each takes 100 bytes of the driver's memory; Spark collects 1 GiB by default
COMPONENT = "component"
LEFT, RIGHT = "left", "right"
_EDGES_A_ROW = 1 << 20
_MAPPING = StructType([StructField(IDENTITY, BinaryType()), StructField(COMPONENT, BinaryType())])


def pairs(
    fingerprints: DataFrame,
    profile: Profile | Mapping[str, object] | None = None,
    *,
    min_similarity: float | None = None,
) -> DataFrame:
    """Find all pairs of distinct fingerprints that match, each once: within the profile's k bits, or with
    similar sketches.

    fingerprints: result of `fingerprint` with the same profile. It is read three times, so persist or write
    it first. Documents with the same fingerprint and sketch count once, so a page copied a hundred thousand
    times costs no more than any other; join by fingerprint to get documents. min_similarity: estimated from
    sketches; default: the profile's threshold.

    Columns: left, right (binary; left <= right); distance, in bits, or for minhash in differing slots; if the
    profile has sketches, also left_sketch, right_sketch and the estimated similarity. Drawers are not
    truncated: one with more than 8,192 members is compared in pieces, by several tasks. Raises UsageError for
    bounds that the profile cannot guarantee.
    """
    criteria = MatchCriteria.of(profile, None)
    bounds = criteria.chosen.bounds(None, min_similarity)
    columns = Columns.of(criteria.profile)
    missing = [name for name in columns.names if name not in fingerprints.columns]
    if missing:
        raise UsageError(
            f"no column {missing[0]!r}: compute fingerprints by `fingerprint` with the same profile, or use "
            "a profile without sketches (verify = false)"
        )
    read = fingerprints.where(F.col(FINGERPRINT).isNotNull()).select(*columns.names)
    members = read.dropDuplicates(columns.names)
    scheme = criteria.scheme(members.count())
    names = ("left", "right", *(["left_sketch", "right_sketch"] if columns.sketch_bytes else []))
    fields = [*(StructField(name, BinaryType()) for name in names), StructField("distance", IntegerType())]
    if columns.sketch_bytes:
        fields.append(StructField("similarity", DoubleType()))
    schema = StructType(fields)

    def paired(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for some, found in _near(batches, scheme, bounds, columns):
            for near in found:
                yield pa.RecordBatch.from_arrays(_pair_arrays(some, near, scheme, columns), schema.names)

    return drawn(members, scheme, columns).mapInArrow(guarded(paired), schema)


def _pair_arrays(
    fingerprints: FingerprintBatch, found: Pairs, scheme: Scheme, columns: Columns
) -> list[pa.Array]:
    sides = [fingerprints[found.left], fingerprints[found.right]]
    arrays = [column for pair in zip(*map(columns.arrays, sides), strict=True) for column in pair]
    arrays.append(pa.array(found.distance.astype(np.int32)))
    if scheme.sketching is not None:
        mismatches = mismatches_of(scheme.sketching, sides[0].sketches, sides[1].sketches)
        arrays.append(pa.array(scheme.sketching.similarity(mismatches)))
    return arrays


def drawn(members: DataFrame, scheme: Scheme, columns: Columns) -> DataFrame:
    """Distinct fingerprints in each of their drawers, sorted by drawer.

    A large drawer is split into parts, and each pair of parts is compared in one cell, a part with itself in
    a cell on the diagonal.
    """

    def filed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A row for each drawer of each fingerprint."""
        for batch in batches:
            fingerprints = columns.read(batch)
            segments = scheme.segments(fingerprints).view(np.int64)
            for table in range(segments.shape[1]):
                drawers = [pa.array(np.full(len(batch), table, np.int32)), pa.array(segments[:, table])]
                arrays = [*drawers, *columns.arrays(fingerprints)]
                yield pa.RecordBatch.from_arrays(arrays, [*DRAWER, *columns.names])

    drawer = [StructField("table", IntegerType()), StructField("segment", LongType())]
    there = members.mapInArrow(guarded(filed), StructType([*drawer, *columns.fields]))
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


def _near(
    batches: Iterable[pa.RecordBatch], scheme: Scheme, bounds: Bounds, columns: Columns
) -> Iterator[tuple[FingerprintBatch, Iterator[Pairs]]]:
    """Fingerprints of some whole drawers at a time, and the pairs among them whose first common drawer is one
    of these."""
    for rows in _whole(batches):
        fingerprints = columns.read(rows)
        yield fingerprints, _first_mates(rows, fingerprints, scheme, bounds)


def _first_mates(
    rows: pa.Table, fingerprints: FingerprintBatch, scheme: Scheme, bounds: Bounds
) -> Iterator[Pairs]:
    table, part, across = (rows.column(name).to_numpy() for name in ("table", "part", "across"))
    segments = scheme.segments(fingerprints)
    for found in scheme.mates(fingerprints, _numbered(rows), bounds):
        left, right = found.left, found.right
        first = (segments[left] == segments[right]).argmax(axis=1)
        yield found.where((first == table[left]) & ((part[left] != part[right]) == across[left]))


def _whole(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Whole pieces of drawers, about ROWS_AT_ONCE rows at a time."""
    held: list[pa.RecordBatch] = []
    for rows, begins in at_borders(batches, PIECE):
        if begins and sum(map(len, held)) >= ROWS_AT_ONCE:
            yield pa.Table.from_batches(held)
            held = []
        held.append(rows)
    if held:
        yield pa.Table.from_batches(held)


def _numbered(rows: pa.Table) -> NDArray[np.uint32]:
    """Number of the piece of each row: uint32 (n,)."""
    keys = [rows.column(name).to_numpy() for name in PIECE]
    differs = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return np.append(0, np.cumsum(differs)).astype(np.uint32)


def with_components(
    documents: DataFrame, criteria: MatchCriteria, columns: Columns, joined: DataFrame | None = None
) -> DataFrame:
    """Add the connected component of each document. joined: further pairs of identities that belong together,
    in columns LEFT and RIGHT. Raises SimhbaseError for more than MOST_EDGES edges."""
    members = documents.dropDuplicates([IDENTITY]).select(*columns.names).persist()
    scheme = criteria.scheme(members.count())
    edges = _edges(members, scheme, criteria, columns)
    members.unpersist()
    if joined is not None:
        words = edges.shape[-1]
        of_joined = joined.mapInArrow(guarded(partial(_spanning_of_pairs, words=words)), "edges binary")
        edges = np.concatenate([edges, _collected(of_joined, words)])
    mapping = _mapping(documents.sparkSession, edges)
    component = F.coalesce(COMPONENT, IDENTITY)
    return documents.join(mapping, IDENTITY, "left").withColumn(COMPONENT, component)


def verified_by(criteria: MatchCriteria) -> SketchParameters | None:
    """Parameters of sketches if they decide what matches, else None."""
    return None if criteria.bounds.mismatches is None else criteria.chosen.sketching


def _edges(
    members: DataFrame, scheme: Scheme, criteria: MatchCriteria, columns: Columns
) -> NDArray[np.uint64]:
    """Edges between identities that connect all matches, but far fewer than there are: uint64
    (m, 2, words)."""
    verified = verified_by(criteria)
    words = 2 if verified else columns.words

    def spanning(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows with the bytes of edges."""
        for fingerprints, found in _near(batches, scheme, criteria.bounds, columns):
            named = identities(fingerprints, verified)
            values = distinct(named)
            root = np.arange(len(values.first))
            for some in found:
                root = merge_components(root, values.inverse[some.left], values.inverse[some.right])
            yield _edges_of(root, named, values)

    return _collected(drawn(members, scheme, columns).mapInArrow(guarded(spanning), "edges binary"), words)


def _spanning_of_pairs(batches: Iterable[pa.RecordBatch], words: int) -> Iterator[pa.RecordBatch]:
    """Pairs of identities -> rows with the bytes of edges that connect them, without most of the pairs."""
    for batch in filter(len, batches):
        sides = [fixed(batch.column(name), 8 * words).view(np.uint64) for name in (LEFT, RIGHT)]
        named = np.concatenate(sides) if words == 2 else np.concatenate(sides)[:, 0]
        values = distinct(named)
        left, right = values.inverse.reshape(2, -1)
        yield _edges_of(merge_components(np.arange(len(values.first)), left, right), named, values)


def _edges_of(root: NDArray[np.int64], named: NDArray[np.uint64], values: Distinct) -> pa.RecordBatch:
    """A row with the bytes of the edges of a forest: from each distinct identity to its root."""
    hung = np.flatnonzero(root != np.arange(len(root)))
    edges = np.stack([named[values.first[hung]], named[values.first[root[hung]]]], axis=1)
    return pa.RecordBatch.from_arrays([pa.array([edges.tobytes()], pa.binary())], ["edges"])


def _collected(rows: DataFrame, words: int) -> NDArray[np.uint64]:
    """Edges of all rows: uint64 (m, 2, words). Raises SimhbaseError for more than MOST_EDGES."""
    edges = rows.persist()
    try:
        size = edges.agg(F.sum(F.length("edges"))).head()  # before collecting them
        if size and (size[0] or 0) > MOST_EDGES * 2 * 8 * words:
            raise SimhbaseError(
                f"more than {MOST_EDGES:,} fingerprints have a match, too many for the driver: use a smaller "
                "k, or dedup parts of the corpus first"
            )
        found = [np.frombuffer(row.edges, np.uint64) for row in edges.collect()]
    finally:
        edges.unpersist()
    return np.concatenate([np.empty(0, np.uint64), *found]).reshape(-1, 2, words)


def _mapping(session: SparkSession, edges: NDArray[np.uint64]) -> DataFrame:
    """Component of each identity that has edges."""
    words = edges.shape[-1]
    named = edges.reshape(-1, 2) if words == 2 else edges.reshape(-1)
    values = distinct(named)
    left, right = values.inverse.reshape(-1, 2).T
    root = merge_components(np.arange(len(values.first)), left, right)
    both = np.stack([named[values.first], named[values.first[root]]], axis=1)
    rows = [(both[start : start + _EDGES_A_ROW].tobytes(),) for start in range(0, len(both), _EDGES_A_ROW)]
    packed = session.createDataFrame(rows, "edges binary")

    def unpacked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for edges in batch.column("edges").to_pylist():
                both = np.frombuffer(edges, np.uint64).reshape(-1, 2, words)
                yield pa.RecordBatch.from_arrays([binary(both[:, 0]), binary(both[:, 1])], _MAPPING.names)

    return packed.mapInArrow(guarded(unpacked), _MAPPING)
