"""Joins fingerprints by drawers: pairs that match, and connected components.

Hashes of the drawers of all fingerprints are counted first. Then fingerprints are sent to those of their
drawers that others share: to find components, once to each task, with all of their drawers there. A shuffle
collects the members of a drawer, and NumPy compares many drawers at a time. A pair that shares several
drawers is listed for the first of them.

The driver computes components. It only needs enough edges to connect them: at most one per fingerprint and
task. So in a drawer of many members, most are compared with a few that they are near.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count as numbers
from typing import Self

import mmh3
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  # the usual name
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DoubleType,
    IntegerType,
    LongType,
    StructField,
    StructType,
)

from simhbase.deduplication.matching import MatchCriteria
from simhbase.drawers.components import connections, merge_components
from simhbase.drawers.join import Distinct, Pairs, distinct
from simhbase.drawers.scheme import Bounds, Scheme, identities
from simhbase.errors import SimhbaseError, UsageError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.minhash import SketchParameters
from simhbase.fingerprint.sketches import mismatches_of
from simhbase.process.slices import Numbers
from simhbase.profile.profile import Profile
from simhbase.spark.fingerprints import FINGERPRINT, IDENTITY, Columns, at_borders, binary, fixed
from simhbase.spark.guard import Work, guarded
from simhbase.spark.hash_bits import HashBits

MOST_MEMBERS = 1 << 13  # of a drawer compared in one piece, each with each: 33 million comparisons
ROWS_AT_ONCE = 1 << 16  # rows of drawers compared together
CROWDED = 512  # members of a drawer from which on not all near pairs of it are looked for
DRAWER, LABEL = "drawer", "label"  # its hash; of a partition
PIECE = ("table", DRAWER, "cell")
MOST_EDGES = 25_000_000  # each takes 100 bytes of the driver's memory; Spark collects 1 GiB by default
COMPONENT, TOGETHER = "component", "together"  # together: others are in its component
LEFT, RIGHT = "left", "right"
PARTITION_BYTES = 64 << 20
_DRAWER_BYTES = 16  # of a row, beside a fingerprint
_EDGES_A_ROW = 1 << 20
_HASH_BYTES = 5  # of a drawer: of a billion, one in a thousand shares its hash with another
_UPPER = np.uint64((1 << 64) - (1 << (64 - 8 * _HASH_BYTES)))
_GROUPS_A_PARTITION = 8  # of hashes of drawers, so that partitions get about as many
_FILED = [
    StructField("table", IntegerType()),
    StructField(DRAWER, LongType()),
    StructField("parts", IntegerType()),
]
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
    count = members.count()
    scheme = criteria.scheme(count)
    names = ("left", "right", *(["left_sketch", "right_sketch"] if columns.sketch_bytes else []))
    fields = [*(StructField(name, BinaryType()) for name in names), StructField("distance", IntegerType())]
    if columns.sketch_bytes:
        fields.append(StructField("similarity", DoubleType()))
    schema = StructType(fields)

    def paired(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in _whole(batches, PIECE):
            some = columns.read(rows)
            for near in _first_mates(rows, some, scheme, bounds):
                yield pa.RecordBatch.from_arrays(_pair_arrays(some, near, scheme, columns), schema.names)

    drawers = _Drawers.of(members, count, scheme, columns, None)
    return drawers.pieces().mapInArrow(guarded(paired), schema)


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


@dataclass(frozen=True)
class _Shared:
    """The drawers of two or more fingerprints. names: hashes of their names; rows: their members together;
    large: uint64 (m,), ascending, hashes of those of more than MOST_MEMBERS; parts: int64 (m,), in how many
    parts these are compared."""

    names: HashBits
    rows: int
    large: NDArray[np.uint64]
    parts: NDArray[np.int64]

    @classmethod
    def of(cls, counted: DataFrame) -> Self:
        """counted: a row of hashes and sizes of shared drawers from each task, as of `_counted`."""
        found = counted.persist()
        try:
            count = found.agg(F.coalesce(F.sum(F.length("hashes") / 8), F.lit(0.0))).head() or (0,)
            names = HashBits.of_size(int(count[0]))
            rows, large, sizes = 0, [np.empty(0, np.uint64)], [np.empty(0, np.int64)]
            for row in found.toLocalIterator():
                hashes, counts = np.frombuffer(row.hashes, np.uint64), np.frombuffer(row.sizes, np.int64)
                names.add(hashes)
                rows += int(counts.sum())
                large.append(hashes[counts > MOST_MEMBERS])
                sizes.append(counts[counts > MOST_MEMBERS])
        finally:
            found.unpersist()
        all_large, all_sizes = np.concatenate(large), np.concatenate(sizes)
        order = np.argsort(all_large)
        return cls(names, rows, all_large[order], -(-2 * all_sizes[order] // MOST_MEMBERS))

    def parts_of(self, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
        """In how many parts drawers are compared: int32 (n,)."""
        parts = np.ones(len(hashes), np.int32)
        if len(self.large):
            place = np.minimum(np.searchsorted(self.large, hashes), len(self.large) - 1)
            is_large = self.large[place] == hashes
            parts[is_large] = self.parts[place[is_large]]
        return parts


def _hashes(table: int, segments: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hashes of drawers of a table, of _HASH_BYTES bytes in the upper ones of 8: uint64 (n,)."""
    named = (segments << np.uint64(6)) ^ (segments >> np.uint64(58)) ^ np.uint64(table)
    # Multipliers of SplitMix64.
    named = (named ^ (named >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    named = (named ^ (named >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return named & _UPPER


def _packed(hashes: NDArray[np.uint64]) -> bytes:
    return hashes.astype(">u8").view(np.uint8).reshape(-1, 8)[:, :_HASH_BYTES].tobytes()


def _unpacked(packed: bytes) -> NDArray[np.uint64]:
    upper = np.frombuffer(packed, np.uint8).reshape(-1, _HASH_BYTES)
    return np.pad(upper, ((0, 0), (0, 8 - _HASH_BYTES))).view(">u8")[:, 0].astype(np.uint64)


def _counted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows with hashes of drawers -> one row with the hashes that occur twice, and how often they occur."""
    held = [_unpacked(each) for rows in batches for each in rows.column("hashes").to_pylist()]
    if held:
        hashes, counts = np.unique(np.concatenate(held), return_counts=True)
        several = counts > 1
        packed = [hashes[several].tobytes(), counts[several].astype(np.int64).tobytes()]
        arrays = [pa.array([each], pa.binary()) for each in packed]
        yield pa.RecordBatch.from_arrays(arrays, ["hashes", "sizes"])


def partitions_of(frame: DataFrame, size: int) -> int:
    """Number of partitions for a shuffle of so many bytes: a task for each core, and more if one would get
    more than PARTITION_BYTES. (The session's number is for all of its jobs, large and small.)"""
    return max(frame.sparkSession.sparkContext.defaultParallelism, -(-size // PARTITION_BYTES))


def _labels(partitions: int) -> NDArray[np.int32]:
    """For each partition a number that Spark's hash sends there."""
    found: dict[int, int] = {}
    for label in numbers():
        found.setdefault(mmh3.hash(label.to_bytes(4, "little"), 42) % partitions, label)
        if len(found) == partitions:
            return np.array([found[each] for each in range(partitions)], np.int32)
    raise AssertionError


@dataclass(frozen=True)
class _Drawers:
    """The drawers of some fingerprints, as far as they are shared."""

    members: DataFrame
    scheme: Scheme
    columns: Columns
    shared: Broadcast[_Shared]
    partitions: int

    @classmethod
    def of(cls, members: DataFrame, count: int, scheme: Scheme, columns: Columns, given: int | None) -> Self:
        """Count the members of all drawers: hashes of their names are shuffled, without fingerprints. count:
        of members; given: number of partitions, None to choose it."""
        partitions = given or partitions_of(members, count * scheme.tables * _HASH_BYTES)
        groups = partitions * _GROUPS_A_PARTITION

        def named(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in filter(len, batches):
                segments = scheme.segments(columns.read(batch))
                by_table = [_hashes(table, segments[:, table]) for table in range(segments.shape[1])]
                hashes = np.concatenate(by_table)
                group = (hashes >> np.uint64(32)) % np.uint64(groups)
                order = np.argsort(group, kind="stable")
                ends = np.searchsorted(group[order], np.arange(1, groups))
                packed = [_packed(each) for each in np.split(hashes[order], ends)]
                arrays = [pa.array(np.arange(groups, dtype=np.int32)), pa.array(packed, pa.binary())]
                yield pa.RecordBatch.from_arrays(arrays, ["group", "hashes"])

        there = members.mapInArrow(guarded(named), "group int, hashes binary")
        counted = there.repartition(partitions, "group").mapInArrow(
            guarded(_counted), "hashes binary, sizes binary"
        )
        shared = _Shared.of(counted)
        size = shared.rows * (8 * columns.words + columns.sketch_bytes + _DRAWER_BYTES)
        held = members.sparkSession.sparkContext.broadcast(shared)
        return cls(members, scheme, columns, held, given or partitions_of(members, size))

    def whole(self) -> DataFrame:
        """The fingerprints in each drawer that others share (and some more, by chance), sorted by drawer.
        Each is sent once to each partition, with its drawers there."""
        fields = [StructField(LABEL, IntegerType()), StructField(DRAWER, ArrayType(LongType()))]
        sent = self.members.mapInArrow(guarded(self._sent()), StructType([*fields, *self.columns.fields]))
        rows = sent.repartition(self.partitions, LABEL).select(
            F.explode(DRAWER).alias(DRAWER), *self.columns.names
        )
        return rows.sortWithinPartitions(DRAWER)

    def _sent(self) -> Work:
        """Rows with all shared drawers that a fingerprint has in a partition."""
        scheme, columns, shared, labels = self.scheme, self.columns, self.shared, _labels(self.partitions)

        def sent(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in filter(len, batches):
                fingerprints = columns.read(batch)
                segments = scheme.segments(fingerprints)
                hashes = np.stack([_hashes(each, segments[:, each]) for each in range(segments.shape[1])])
                table, row = np.nonzero(shared.value.names.contain(hashes))
                drawers = hashes[table, row]
                target = row * len(labels) + (drawers >> np.uint64(32)).astype(np.int64) % len(labels)
                order = np.argsort(target, kind="stable")
                targets, begins = np.unique(target[order], return_index=True)
                listed = pa.ListArray.from_arrays(
                    pa.array(np.append(begins, len(order)), pa.int32()),
                    pa.array(drawers[order].view(np.int64)),
                )
                rows, partition = np.divmod(targets, len(labels))
                arrays = [pa.array(labels[partition]), listed, *columns.arrays(fingerprints[rows])]
                yield pa.RecordBatch.from_arrays(arrays, [LABEL, DRAWER, *columns.names])

        return sent

    def pieces(self) -> DataFrame:
        """The same in pieces. A large drawer is split into parts, and each pair of parts is compared in one
        cell, a part with itself in a cell on the diagonal."""
        names = self.columns.names
        parted = (
            self._filed()
            .withColumn("part", F.pmod(F.xxhash64(*names), "parts").cast("int"))
            .withColumn("other", F.explode(F.expr("sequence(0, parts - 1)")))
            .withColumn("cell", F.expr("cast(least(part, other) AS bigint) * parts + greatest(part, other)"))
            .withColumn("across", F.col("part") != F.col("other"))
        )
        chosen = parted.select(*PIECE, "part", "across", *names)
        return chosen.repartition(self.partitions, *PIECE).sortWithinPartitions(*PIECE, *names)

    def _filed(self) -> DataFrame:
        """A row for each shared drawer of each fingerprint."""
        scheme, columns, shared = self.scheme, self.columns, self.shared

        def filed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in filter(len, batches):
                fingerprints = columns.read(batch)
                segments = scheme.segments(fingerprints)
                for table in range(segments.shape[1]):
                    hashes = _hashes(table, segments[:, table])
                    there = np.flatnonzero(shared.value.names.contain(hashes))
                    arrays = [
                        pa.array(np.full(len(there), table, np.int32)),
                        pa.array(hashes[there].view(np.int64)),
                        pa.array(shared.value.parts_of(hashes[there])),
                        *columns.arrays(fingerprints[there]),
                    ]
                    yield pa.RecordBatch.from_arrays(arrays, ["table", DRAWER, "parts", *columns.names])

        return self.members.mapInArrow(guarded(filed), StructType([*_FILED, *self.columns.fields]))


def _first_mates(
    rows: pa.Table, fingerprints: FingerprintBatch, scheme: Scheme, bounds: Bounds
) -> Iterator[Pairs]:
    table, part, across = (rows.column(name).to_numpy() for name in ("table", "part", "across"))
    segments = scheme.segments(fingerprints)
    for found in scheme.mates(fingerprints, _numbered(rows, PIECE), bounds):
        left, right = found.left, found.right
        agree = segments[left] == segments[right]
        is_first = agree.any(axis=1) & (agree.argmax(axis=1) == table[left])  # hashes of drawers may collide
        yield found.where(is_first & ((part[left] != part[right]) == across[left]))


def _whole(batches: Iterable[pa.RecordBatch], names: Sequence[str]) -> Iterator[pa.Table]:
    """Whole drawers, or pieces of them, which are equal in some columns, about ROWS_AT_ONCE rows at a
    time."""
    held: list[pa.RecordBatch] = []
    for rows, begins in at_borders(batches, names):
        if begins and sum(map(len, held)) >= ROWS_AT_ONCE:
            yield pa.Table.from_batches(held)
            held = []
        held.append(rows)
    if held:
        yield pa.Table.from_batches(held)


def _numbered(rows: pa.Table, names: Sequence[str]) -> NDArray[np.uint32]:
    """Number of the drawer or piece of each row: uint32 (n,)."""
    keys = [rows.column(name).to_numpy() for name in names]
    differs = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return np.append(0, np.cumsum(differs)).astype(np.uint32)


def with_components(
    documents: DataFrame,
    criteria: MatchCriteria,
    columns: Columns,
    partitions: int,
    *,
    chosen: int | None = None,
    joined: DataFrame | None = None,
) -> DataFrame:
    """Add the connected component of each document, and whether it has others.

    documents: repartitioned by identity; partitions: their number; chosen: the number of partitions for
    drawers, None to derive it from their size; joined: further pairs of identities that belong together, in
    columns LEFT and RIGHT. Raises SimhbaseError for more than MOST_EDGES edges.
    """
    members = documents.dropDuplicates([IDENTITY]).select(*columns.names).persist()
    edges = _edges(members, members.count(), criteria, columns, chosen)
    members.unpersist()
    if joined is not None:
        words = edges.shape[-1]
        of_joined = joined.mapInArrow(guarded(partial(_spanning_of_pairs, words=words)), "edges binary")
        edges = np.concatenate([edges, _collected(of_joined, words)])
    mapping = _mapping(documents.sparkSession, edges).repartition(partitions, IDENTITY)
    is_shared = F.count("*").over(Window.partitionBy(IDENTITY)) > 1
    found = documents.join(mapping, IDENTITY, "left")
    marked = found.withColumn(TOGETHER, F.col(COMPONENT).isNotNull() | is_shared)
    return marked.withColumn(COMPONENT, F.coalesce(COMPONENT, IDENTITY))


def verified_by(criteria: MatchCriteria) -> SketchParameters | None:
    """Parameters of sketches if they decide what matches, else None."""
    return None if criteria.bounds.mismatches is None else criteria.chosen.sketching


def _edges(
    members: DataFrame, count: int, criteria: MatchCriteria, columns: Columns, chosen: int | None
) -> NDArray[np.uint64]:
    """Edges between identities that connect all matches, but far fewer than there are: uint64
    (m, 2, words)."""
    verified, bounds, scheme = verified_by(criteria), criteria.bounds, criteria.scheme(count)

    def spanning(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows with the bytes of edges."""
        for rows in _whole(batches, [DRAWER]):
            fingerprints = columns.read(rows)
            named = identities(fingerprints, verified)
            values = distinct(named)
            root = np.arange(len(values.first))
            for left, right in _connected(fingerprints, _numbered(rows, [DRAWER]), scheme, bounds):
                root = merge_components(root, values.inverse[left], values.inverse[right])
            yield _edges_of(root, named, values)

    drawers = _Drawers.of(members, count, scheme, columns, chosen)
    found = drawers.whole().mapInArrow(guarded(spanning), "edges binary")
    try:
        return _collected(found, 2 if verified else columns.words)
    finally:
        drawers.shared.destroy()


def _connected(
    fingerprints: FingerprintBatch, drawers: NDArray[np.uint32], scheme: Scheme, bounds: Bounds
) -> Iterator[tuple[Numbers, Numbers]]:
    """Near pairs that connect all near fingerprints of each drawer. drawers: uint32 (n,), ascending."""
    sizes = np.bincount(drawers)
    ends = np.cumsum(sizes)
    for drawer in np.flatnonzero(sizes > CROWDED):
        members = np.arange(ends[drawer] - sizes[drawer], ends[drawer])
        yield from connections(members, partial(scheme.are_near, fingerprints, bounds))
    others = np.flatnonzero(sizes[drawers] <= CROWDED)
    for pairs in scheme.mates(fingerprints[others], drawers[others], bounds):
        yield others[pairs.left], others[pairs.right]


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
