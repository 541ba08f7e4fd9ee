"""Loads the documents of a DataFrame that have no near-duplicate into a store, as `simhbase.load` does with
`unique_only` if all documents are one batch.

1. Tasks compute fingerprints, and look up which ids are stored.
2. Tasks look up the stored matches of each text in the store.
3. Spark joins today's documents with each other by drawers, and with today's ids whose old text they match.
   This gives connected components.
4. One task decides each component, in input order, by the command's own code.
5. The decisions are written to the work folder. Then they are carried out, by steps that may be repeated.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from math import inf
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql import DataFrame, Observation, Row
from pyspark.sql import functions as F  # noqa: N812  # the usual name
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DoubleType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from simhbase.deduplication.matching import MatchCriteria
from simhbase.drawers.scheme import Bounds
from simhbase.errors import UsageError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index, open_index
from simhbase.index.claims.selection import Selection, nearest_stored
from simhbase.index.load_log import LoadLog, last_run, require_name
from simhbase.index.reader import DRAWER_LIMIT, Near, Reader
from simhbase.index.writer import SETTLED, DocumentBatch, known
from simhbase.loads.load import drop_if_empty, open_for_load
from simhbase.loads.unique import outdated
from simhbase.model.urls import redacted
from simhbase.model.values import Fingerprint, Match
from simhbase.process.logs import logger
from simhbase.profile.profile import TABLE_BITS, Profile
from simhbase.spark.dedup import (
    DISTANCE,
    DOCUMENTS_AT_ONCE,
    PLACE,
    REPRESENTATIVE,
    SIMILARITY,
    InputRows,
    order_of,
    without_repeats,
)
from simhbase.spark.drawers import COMPONENT, LEFT, RIGHT, partitions_of, verified_by, with_components
from simhbase.spark.fingerprints import (
    ID,
    IDENTITY,
    PROBLEM,
    REASON,
    Columns,
    at_borders,
    fingerprinted,
    id_of,
    text_of,
)
from simhbase.spark.folders import require_own
from simhbase.spark.guard import guarded
from simhbase.stores import backend

DUPLICATE_OF = "duplicate_of"
OUTGROWN = (
    "%s stored documents got other texts after duplicates of their old texts were left out: run the load "
    "again under another name to store those that have no near-duplicate now"
)
_OLD, _MATCHES, _IN_FULL, _TRUNCATED = "old", "matches", "in_full", "truncated"
_OUTDATED, _OUTGROWN = "outdated", "outgrown"
_LOOKED_UP_AT_ONCE = 2048  # texts
_ROW_BYTES = 256  # of a document with its matches, beside its fingerprint
_HASH = np.dtype(np.int64)

log = logger(__name__)

_MATCH = {DISTANCE: IntegerType(), ID: StringType(), SIMILARITY: DoubleType()}
_FOUND = ArrayType(StructType([StructField(*each) for each in _MATCH.items()]))
_ARROW_FOUND = pa.list_(pa.struct([(DISTANCE, pa.int32()), (ID, pa.string()), (SIMILARITY, pa.float64())]))
_OLD_TEXT = [StructField(_OLD, BinaryType())]
_LOOKED_UP = [
    StructField(_MATCHES, _FOUND),
    StructField(_IN_FULL, _FOUND),
    StructField(_TRUNCATED, BooleanType()),
]
_DECIDED = [
    StructField(DUPLICATE_OF, StringType()),
    StructField(DISTANCE, IntegerType()),
    StructField(SIMILARITY, DoubleType()),
    StructField(_OUTDATED, BooleanType()),
    StructField(_OUTGROWN, BooleanType()),
]


@dataclass(frozen=True)
class SparkLoadReport:
    """Counts as in `simhbase.LoadReport`. added, updated, unchanged, outdated: by this run; decided_before:
    True if an earlier run of this name made the decisions; new_store: True if this run created the store."""

    documents: int
    loaded: int
    added: int
    updated: int
    unchanged: int
    duplicates: int
    outdated: int
    rejected: int
    decided_before: bool
    new_store: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class UniqueLoad:
    """Result of `unique_load`.

    duplicates: a row for each document that is not stored: id, duplicate_of, distance, similarity (null
    without sketches). rejects: id and reason. unique: the rows of the stored documents, with all columns of
    the DataFrame, which is read again for them.
    """

    report: SparkLoadReport
    duplicates: DataFrame
    rejects: DataFrame
    unique: DataFrame


def unique_load(
    df: DataFrame,
    store: str,
    profile: Profile | Mapping[str, object] | None = None,
    *,
    name: str,
    work: str | Path,
    id_column: str = "id",
    text_column: str = "text",
    order_column: str | None = None,
    min_similarity: float | None = None,
    again: bool = False,
) -> UniqueLoad:
    """Store the documents that have no match in the store, or earlier in the DataFrame, as `simhbase.load`
    with `unique_only` does; the whole DataFrame is one batch. (The result of `load` depends on its batches
    if stored documents get new texts.) See there for store, profile and min_similarity; id_column,
    text_column and order_column are as for `dedup`.

    name: of the load, in the store's log. work: folder for the decisions, for example hdfs://..., which the
    driver and all executors can reach. Decisions are written before anything is stored, and a later run of
    the same name takes them: so a run that was killed may be repeated, and ends with the same documents and
    lists. again: decide anew, although an earlier run of this name has stored documents: some that were
    duplicates may then be kept.

    The executors must be able to read the store: an embedded one is written by the driver, and read only on
    the same machine. A server is written by the executors. Other processes should not write meanwhile.

    Raises UsageError for invalid arguments, for a name that was used with another DataFrame or options, and
    if the decisions of an earlier run are missing; StoreBusy if another process runs the load, or writes to
    an embedded store; ProfileMismatch; TablesMissing.
    """
    rows = InputRows(df, id_of(df, id_column), text_of(df, text_column), order_of(df, order_column))
    read_as = [id_column, text_column, order_column]
    report, decisions = load_rows(
        rows,
        store,
        profile,
        name=name,
        work=work,
        read_as=read_as,
        min_similarity=min_similarity,
        again=again,
    )
    duplicates = decisions.where(F.col(DUPLICATE_OF).isNotNull())
    return UniqueLoad(
        report,
        duplicates.select(ID, DUPLICATE_OF, DISTANCE, SIMILARITY),
        decisions.where(F.col(REASON).isNotNull()).select(ID, REASON),
        stored_rows(rows, decisions),
    )


def load_rows(
    rows: InputRows,
    store: str,
    profile: Profile | Mapping[str, object] | None,
    *,
    name: str,
    work: str | Path,
    read_as: Sequence[object],
    min_similarity: float | None,
    again: bool,
    check: Callable[[DataFrame], None] = lambda decisions: None,
) -> tuple[SparkLoadReport, DataFrame]:
    """As `unique_load`. Returns the decisions: a row for each document, with PLACE, ID, REASON if it is
    rejected, DUPLICATE_OF, DISTANCE and SIMILARITY if it is not stored.

    read_as: how rows are read; check: is called with the decisions before anything is stored, and may raise.
    """
    require_name(name)
    folder = f"{str(work).rstrip('/')}/{quote(name, safe='')}"
    for place in (str(work), folder):
        require_own(place)
    with ExitStack() as undone, ExitStack() as stack:
        index, is_new = open_for_load(store, profile, unique_only=True, min_similarity=min_similarity)
        stack.enter_context(closing(index))
        if is_new:
            undone.callback(drop_if_empty, store)
        kept = _Decisions(rows.df, folder)
        options = [str(work), *read_as, min_similarity]
        task = hashlib.blake2b(json.dumps(options).encode(), digest_size=8).hexdigest()
        index.require_no_scopes("loads on Spark")
        before = last_run(index.store, name)
        was_decided = before is not None and before.counts is not None
        wanted = {"tables": index.tables_digest, "options": options}
        decided_before = not again and kept.are_for(wanted, rows, name)
        if was_decided and not decided_before:
            _require_again(name, work, again=again)
        run = stack.enter_context(LoadLog.begin(index.store, name, task))
        if before is not None:
            run.change(counts=before.counts)
        job = _Job(rows, index, min_similarity)
        if not decided_before:
            kept.write(job, wanted)
        check(kept.frame)
        report = _carried_out(job, kept.frame, run, decided_before=decided_before)
        undone.pop_all()
    return replace(report, new_store=is_new), kept.frame


def stored_rows(rows: InputRows, decisions: DataFrame, seen: Observation | None = None) -> DataFrame:
    """The rows of the documents that are stored. seen: of all rows that are read for it."""
    accepted, rejects = decisions.where(F.col(REASON).isNull()), decisions.where(F.col(REASON).isNotNull())
    return rows.kept(accepted.withColumn(REPRESENTATIVE, F.coalesce(DUPLICATE_OF, ID)), rejects, None, seen)


def _require_again(name: str, work: str | Path, *, again: bool) -> None:
    """Refuse to decide anew what may be stored already, or say so."""
    if not again:
        raise UsageError(
            f"the load {name!r} was decided before, but its decisions are not in {redacted(str(work))}: name "
            "the folder of "
            f"that run, or choose another name. To decide again, which may keep some of its duplicates, "
            "give again (again)"
        )
    log.warning("the load %r is decided again: some of its duplicates may be kept now", name)


# --- deciding ---


@dataclass(frozen=True)
class _Job:
    """What is loaded, and by which bounds."""

    rows: InputRows
    index: Index
    min_similarity: float | None

    @cached_property
    def criteria(self) -> MatchCriteria:
        profile = self.index.profile
        bounds = profile.index_scheme.bounds(None, self.min_similarity)
        return MatchCriteria(profile, profile.index_scheme, bounds, any_layout=False)

    def decisions(self, stack: ExitStack) -> DataFrame:
        """A row for each document: PLACE, ID, fingerprint, the old one if the id is stored, REASON if it is
        rejected, and what is decided. Frames are persisted until the stack is closed."""
        found = fingerprinted(self.rows.read([]), self.index.profile, verified_by(self.criteria))
        store = _Lookups(backend(self.index.store.url).absolute_url, self.criteria.bounds)
        documents = _mapped(without_repeats(found), store.with_old_texts, _OLD_TEXT).persist()
        stack.callback(documents.unpersist)
        accepted = documents.where(F.col(REASON).isNull())
        returning = _hashes(accepted.where(F.col(_OLD).isNotNull()))
        today = documents.sparkSession.sparkContext.broadcast(returning)
        stack.callback(today.destroy)
        columns = Columns.of(self.index.profile)
        size = documents.count() * (8 * columns.words + columns.sketch_bytes + _ROW_BYTES)
        partitions = partitions_of(documents, size)
        looked_up = _mapped(accepted, partial(store.with_matches, returning=today), _LOOKED_UP)
        looked_up = looked_up.repartition(partitions, IDENTITY).persist()
        stack.callback(looked_up.unpersist)
        joined = _near_old_texts(looked_up)
        together = with_components(looked_up, self.criteria, columns, partitions, joined=joined)
        ordered = together.repartition(partitions, COMPONENT).sortWithinPartitions(COMPONENT, PLACE)
        known_problems = [PROBLEM] if PROBLEM in documents.columns else []
        chosen = [PLACE, ID, *known_problems, *columns.names, _OLD]
        schema = StructType([*documents.select(chosen).schema.fields, *_DECIDED])
        decided = ordered.mapInArrow(guarded(partial(store.decided, chosen=chosen)), schema)
        rejected = documents.where(F.col(REASON).isNotNull()).select(*chosen, REASON)
        return decided.unionByName(rejected, allowMissingColumns=True)


def _mapped(
    df: DataFrame,
    work: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    added: Sequence[StructField],
) -> DataFrame:
    return df.mapInArrow(guarded(work), StructType([*df.schema.fields, *added]))


def _near_old_texts(looked_up: DataFrame) -> DataFrame:
    """Pairs of identities: a text, and the new text of an id whose old text it matches."""
    returning = looked_up.where(F.col(_OLD).isNotNull()).select(ID, F.col(IDENTITY).alias(RIGHT))
    matches = F.explode(F.concat(_MATCHES, _IN_FULL)).alias("match")
    found = looked_up.select(F.col(IDENTITY).alias(LEFT), matches).select(LEFT, F.col(f"match.{ID}"))
    return found.join(returning, ID).select(LEFT, RIGHT)


# --- what executors look up ---


@dataclass(frozen=True)
class _Lookups:
    """Work of tasks, which read a store by its URL. bounds: of duplicates."""

    url: str
    bounds: Bounds

    def with_old_texts(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Adds the stored fingerprint of each id, null if it is not stored."""
        with open_index(self.url, access="read") as index:
            _ = index.fingerprinter  # raises if this machine's fingerprints differ
            for batch in batches:
                accepted = np.flatnonzero(batch.column(REASON).is_null())
                ids = batch.column(ID).take(pa.array(accepted)).to_pylist()
                old: list[bytes | None] = [None] * len(batch)
                for number, each in zip(accepted.tolist(), known(index.store, ids), strict=True):
                    if each and each.stored:
                        old[number] = _bytes(each.entry.fingerprint)
                yield _with(batch, {_OLD: pa.array(old, pa.binary())})

    def with_matches(
        self, batches: Iterable[pa.RecordBatch], returning: Broadcast[NDArray[np.int64]]
    ) -> Iterator[pa.RecordBatch]:
        """Adds stored matches: all that are among the ids of today, and the nearest other. returning: hashes
        of the stored ids among those of today."""
        today = _Hashed(returning.value)
        with open_index(self.url, access="read") as index:
            columns = Columns.of(index.profile)
            for batch in batches:
                for start in range(0, len(batch), _LOOKED_UP_AT_ONCE):
                    rows = batch.slice(start, _LOOKED_UP_AT_ONCE)
                    yield _with(rows, self._matches(rows, columns.read(rows), index.reader, today))

    def _matches(
        self, rows: pa.RecordBatch, fingerprints: FingerprintBatch, reader: Reader, today: Container[str]
    ) -> dict[str, pa.Array]:
        ids = rows.column(ID).to_pylist()
        near = nearest_stored(reader, fingerprints, self.bounds, today, DRAWER_LIMIT)
        found = list(map(_others, ids, near.matches))
        in_full: list[list[Match]] = [[] for _ in ids]
        # Without another document these may all be replaced before it is decided.
        cut = [
            number
            for number, matches in enumerate(found)
            if near.truncated[number] and all(match.id in today for match in matches)
        ]
        if cut:
            full = nearest_stored(reader, fingerprints[cut], self.bounds, today, None).matches
            for number, matches in zip(cut, full, strict=True):
                in_full[number] = _others(ids[number], matches)
        return {_MATCHES: _packed(found), _IN_FULL: _packed(in_full), _TRUNCATED: pa.array(near.truncated)}

    def decided(self, batches: Iterable[pa.RecordBatch], chosen: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Rows sorted by component and place -> some of their columns, and what is decided."""
        with open_index(self.url, access="read") as index:
            for rows in _whole_components(batches):
                table = rows.select(chosen)
                for name, values in self._decisions(rows, index).items():
                    table = table.append_column(name, values)
                yield from table.to_batches()

    def _decisions(self, rows: pa.Table, index: Index) -> dict[str, pa.Array]:
        documents = DocumentBatch(rows.column(ID).to_pylist(), Columns.of(index.profile).read(rows))
        nothing = [False] * len(rows)
        truncated = rows.column(_TRUNCATED).to_pylist()
        stored = Near(_unpacked(rows.column(_MATCHES)), truncated, nothing, [], [inf] * len(rows))
        in_full = _unpacked(rows.column(_IN_FULL))
        found = Selection(
            index.reader,
            documents.ids,
            documents.fingerprints,
            self.bounds,
            stored,
            lambda numbers: [in_full[number] for number in numbers],
        ).run()
        # All documents that match one of these are in its component.
        gone = set(outdated(index, documents, found, lambda document: False))
        is_outgrown = _outgrown(documents, found, rows.column(_OLD).to_pylist())
        return {
            DUPLICATE_OF: pa.array([near and near.id for near in found], pa.string()),
            DISTANCE: pa.array([near and near.distance for near in found], pa.int32()),
            SIMILARITY: pa.array([near and near.similarity for near in found], pa.float64()),
            _OUTDATED: pa.array([document in gone for document in documents.ids]),
            _OUTGROWN: pa.array(is_outgrown),
        }


def _others(document: str, matches: Sequence[Match]) -> list[Match]:
    """Matches of a document without itself."""
    return [match for match in matches if match.id != document]


def _outgrown(
    documents: DocumentBatch, found: Sequence[Match | None], old: Sequence[bytes | None]
) -> list[bool]:
    """True for documents that get another text after duplicates of their old one were left out."""
    number_of = {document: number for number, document in enumerate(documents.ids)}
    is_outgrown = [False] * len(documents.ids)
    for number, near in enumerate(found):
        other = None if near is None else number_of.get(near.id)
        if other is not None and other > number and found[other] is None:
            is_outgrown[other] = old[other] != _bytes(documents.values[other])
    return is_outgrown


def _whole_components(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Whole components, some at a time."""
    held: list[pa.RecordBatch] = []
    for rows, begins in at_borders(batches, [COMPONENT]):
        if begins and sum(map(len, held)) >= DOCUMENTS_AT_ONCE:
            yield pa.Table.from_batches(held)
            held = []
        held.append(rows)
    if held:
        yield pa.Table.from_batches(held)


def _with(batch: pa.RecordBatch, added: Mapping[str, pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*batch.columns, *added.values()], [*batch.schema.names, *added])


def _bytes(fingerprint: int) -> bytes:
    """As in the column of fingerprints."""
    return fingerprint.to_bytes(TABLE_BITS // 8)


def _packed(found: Sequence[Sequence[Match]]) -> pa.Array:
    rows = [
        [{DISTANCE: int(each.distance), ID: each.id, SIMILARITY: each.similarity} for each in some]
        for some in found
    ]
    return pa.array(rows, _ARROW_FOUND)


def _unpacked(column: pa.ChunkedArray) -> list[list[Match]]:
    """Matches without fingerprints, which decisions do not need."""
    return [
        [Match(each[DISTANCE], each[ID], Fingerprint(0), each[SIMILARITY]) for each in some]
        for some in column.to_pylist()
    ]


# --- sets of ids, as hashes: 8 bytes each ---


def _hash(document: str) -> bytes:
    return hashlib.blake2b(document.encode(), digest_size=_HASH.itemsize).digest()


def _hashes(documents: DataFrame) -> NDArray[np.int64]:
    """Hashes of the ids of a frame, sorted."""

    def hashed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            joined = b"".join(map(_hash, batch.column(ID).to_pylist()))
            yield pa.RecordBatch.from_arrays([pa.array([joined], pa.binary())], ["hashes"])

    rows = documents.select(ID).mapInArrow(guarded(hashed), "hashes binary").collect()
    return np.sort(np.frombuffer(b"".join(bytes(row.hashes) for row in rows), _HASH))


@dataclass(frozen=True)
class _Hashed:
    """A set of ids by sorted hashes. It may contain others, by chance, which only costs reads."""

    hashes: NDArray[np.int64]

    def __contains__(self, document: object) -> bool:
        wanted = np.frombuffer(_hash(str(document)), _HASH)[0]
        place = np.searchsorted(self.hashes, wanted)
        return bool(place < len(self.hashes) and self.hashes[place] == wanted)


# --- keeping decisions, and carrying them out ---


@dataclass(frozen=True)
class _Decisions:
    """Decisions in a folder, and a note of what they are for, which is written last."""

    df: DataFrame
    folder: str

    @property
    def frame(self) -> DataFrame:
        return self.df.sparkSession.read.parquet(f"{self.folder}/decisions")

    def are_for(self, wanted: Mapping[str, Any], rows: InputRows, name: str) -> bool:
        """True if there are decisions. Raises UsageError if they are for something else."""
        noted = self._noted()
        if noted is None:
            return False
        found = {**wanted, "input": _digest(rows.df.select(rows.place.alias(PLACE)))}
        if differs := [each for each in noted if noted[each] != json.loads(json.dumps(found[each]))]:
            what = {"tables": "another store", "options": "other options", "input": "other documents"}
            raise UsageError(
                f"the load {name!r} was decided for {what[differs[0]]}, in {redacted(self.folder)}: "
                "choose another name for another load. To decide again, give again (again)"
            )
        return True

    def write(self, job: _Job, wanted: Mapping[str, Any]) -> None:
        self._note([])
        with ExitStack() as stack:
            job.decisions(stack).write.mode("overwrite").parquet(f"{self.folder}/decisions")
        self._note([json.dumps({**wanted, "input": _digest(self.frame)})])

    def _noted(self) -> dict[str, Any] | None:
        from pyspark.errors import AnalysisException

        try:
            found = self.df.sparkSession.read.text(f"{self.folder}/decided-for").head()
        except AnalysisException:  # no such folder
            return None
        return None if found is None else dict(json.loads(found[0]))

    def _note(self, lines: list[str]) -> None:
        rows = self.df.sparkSession.createDataFrame([(line,) for line in lines], "value string")
        rows.coalesce(1).write.mode("overwrite").text(f"{self.folder}/decided-for")


def _digest(rows: DataFrame) -> list[str]:
    """Number of rows, and a hash of their ids, texts and order."""
    hashes = F.sum(F.xxhash64(PLACE).cast("decimal(38, 0)"))
    return [str(value) for value in rows.agg(F.count("*"), hashes).head() or ()]


def _carried_out(job: _Job, decisions: DataFrame, run: LoadLog, *, decided_before: bool) -> SparkLoadReport:
    """Store what is kept, then remove what is outdated."""
    accepted = F.col(REASON).isNull()
    counted = decisions.agg(F.count("*"), F.count(REASON), F.count(DUPLICATE_OF), F.count_if(_OUTGROWN))
    documents, rejected, duplicates, outgrown = counted.head() or (0, 0, 0, 0)
    run.change(counts={"duplicates": duplicates, "rejected": rejected})  # from here on it is decided
    names = [ID, *Columns.of(job.index.profile).names]
    kept = decisions.where(accepted & F.col(DUPLICATE_OF).isNull()).select(names)
    stored = [sum(each) for each in zip((0, 0, 0), *_written(job.index, kept, _add), strict=True)]
    old = decisions.where(_OUTDATED).select(ID, _OLD)
    removed = [sum(each) for each in _written(job.index, old, _remove)]
    job.index.require_own_tables()
    job.index.store.sync()
    if sum(stored[:2]) >= SETTLED:
        job.index.store.compact()
    if outgrown:
        log.warning(OUTGROWN, outgrown)
    least = job.min_similarity
    if least and (missing := job.index.profile.index_scheme.missing(least)):
        log.warning("%s", missing)
    report = SparkLoadReport(
        documents=documents,
        loaded=sum(stored),
        added=stored[0],
        updated=stored[1],
        unchanged=stored[2],
        duplicates=duplicates,
        outdated=sum(removed),
        rejected=rejected,
        decided_before=decided_before,
    )
    run.change(counts=asdict(report), report=asdict(report))
    return report


_Write = Callable[[Index, pa.RecordBatch], Sequence[int]]  # writes rows, and returns counts


def _written(index: Index, rows: DataFrame, write: _Write) -> Iterator[Sequence[int]]:
    """Write rows: in the executors, or here if a store has one writing process. Yields counts."""
    if index.store.multi_writer:
        work = partial(_written_by_task, url=index.store.url, write=write)
        yield from (row.counts for row in rows.mapInArrow(guarded(work), "counts array<long>").collect())
    else:
        packed = rows.mapInArrow(guarded(serialized), "rows binary")
        for row in packed.toLocalIterator(prefetchPartitions=True):
            yield from (write(index, batch) for batch in unpacked(row))


def _written_by_task(batches: Iterable[pa.RecordBatch], url: str, write: _Write) -> Iterator[pa.RecordBatch]:
    with open_index(url) as index:
        for batch in batches:
            counts = pa.array([write(index, batch)], pa.list_(pa.int64()))
            yield pa.RecordBatch.from_arrays([counts], ["counts"])


def serialized(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches, each as a row of bytes, which the driver collects much faster than rows."""
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()], pa.binary())], ["rows"])


def unpacked(row: Row) -> Iterator[pa.RecordBatch]:
    """The batches of such a row."""
    yield from pa.ipc.open_stream(bytes(row.rows))


def _add(index: Index, rows: pa.RecordBatch) -> Sequence[int]:
    """Store documents: counts of those added, updated and unchanged."""
    report = index.add_batch(rows.column(ID).to_pylist(), Columns.of(index.profile).read(rows))
    return report.added, report.updated, report.unchanged


def _remove(index: Index, rows: pa.RecordBatch) -> Sequence[int]:
    """Remove documents that still have their old text: their number."""
    ids, old = rows.column(ID).to_pylist(), rows.column(_OLD).to_pylist()
    gone = [
        document
        for document, before, each in zip(ids, old, known(index.store, ids), strict=True)
        if each and each.stored and _bytes(each.entry.fingerprint) == before
    ]
    return [index.delete(gone)]
