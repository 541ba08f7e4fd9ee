"""Looks up the documents of files on Spark: what `simhbase find` does in a store and `simhbase match` among
other files, with the same answers.

match: each task holds a part of the other files' documents in an index in memory, as the command holds all,
and looks up all queries, whose fingerprints are sent to each task. The documents that are near are shuffled,
and their texts, which are compared. Of the others only the ids are shuffled, to find those that repeat.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import compress, pairwise
from pathlib import Path
from tempfile import gettempdir
from time import monotonic
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the usual name
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from simhbase.corpus.inputs import Inputs
from simhbase.corpus.record import InputOptions
from simhbase.corpus.rejects import Counts, Rejects
from simhbase.corpus.watcher import NULL_WATCHER, Watcher
from simhbase.deduplication.match import MATCHES_LIMIT, MEMBERS, criteria_of
from simhbase.deduplication.matching import MatchCriteria, SpooledTexts
from simhbase.drawers.memory_index import Hits, Limits, MemoryIndex
from simhbase.errors import BadInput, SimhbaseError, UsageError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import open_index
from simhbase.index.reader import DRAWER_LIMIT, IDS_LIMIT
from simhbase.jobs.answers import Answer
from simhbase.jobs.lookups import lookups_of
from simhbase.model import wire
from simhbase.model.values import Fingerprint, Lookup, Match, Query
from simhbase.profile.profile import Profile
from simhbase.spark.dedup import DIGEST, KEY, PLACE, InputRows, changed_input, without_repeats
from simhbase.spark.dedup_files import counted_documents, reject_lines, report_as_json, showing_tasks
from simhbase.spark.drawers import verified_by
from simhbase.spark.failures import raised_clearly
from simhbase.spark.files import Files
from simhbase.spark.fingerprints import (
    FINGERPRINT,
    ID,
    IDENTITY,
    REASON,
    TEXT,
    Columns,
    binary,
    decoded,
    fingerprinted,
)
from simhbase.spark.folders import Outputs
from simhbase.spark.guard import guarded
from simhbase.spark.places import SOURCE_SHIFT
from simhbase.spark.session import for_files, shuffle_as_read
from simhbase.spark.unique import serialized, unpacked
from simhbase.stores import backend

MOST_QUERIES = 10_000_000  # distinct: with sketches 1.4 GB in each Python worker
_INDEXED_AT_ONCE = 1 << 18  # documents that a task looks up in
_SENT_AT_ONCE = 1 << 16  # rows
_LOOKED_UP_AT_ONCE = 2048  # texts
_LINE, _HAS_MATCHES, _IS_TRUNCATED = "line", "has_matches", "is_truncated"
_HITS, _AT, _NEAR_ID, _DISTANCE, _FOUND = "hits", "at", "near_id", "distance", "found"
_PLACE_ORDER = f"{PLACE}.order"

_ANSWERED = [
    StructField(_LINE, StringType()),
    StructField(_HAS_MATCHES, BooleanType()),
    StructField(_IS_TRUNCATED, BooleanType()),
]
# found: the fingerprint of the document
_HIT = StructType(
    [
        StructField(IDENTITY, BinaryType()),
        StructField(_AT, LongType()),
        StructField(_NEAR_ID, StringType()),
        StructField(_FOUND, BinaryType()),
        StructField(_DISTANCE, IntegerType()),
        StructField(KEY, BinaryType()),
    ]
)


@dataclass(frozen=True)
class AnswersReport:
    """Result of `find_files` and `match_files`. documents: queries; with_matches, truncated: how many of
    them; rejected: of all files that were read."""

    documents: int
    with_matches: int
    truncated: int
    rejected: int
    unusable_sources: tuple[str, ...]
    seconds: float
    counts: Counts


@dataclass(frozen=True)
class _Run:
    """Outputs and messages of a run."""

    session: SparkSession
    outputs: Outputs
    rejects: Rejects
    watcher: Watcher
    start: float

    @classmethod
    def of(
        cls,
        session: SparkSession,
        named: Mapping[str, str | None],
        max_rejects: float | None,
        *,
        overwrite: bool,
        watcher: Watcher,
    ) -> _Run:
        paths = {name: path for name, path in named.items() if path is not None}
        rejects = Rejects(None, max_rejects, watcher)
        return cls(session, Outputs(session, paths, overwrite), rejects, watcher, monotonic())

    def counted(self, documents: DataFrame, files: Files) -> Mapping[int, tuple[int, int]]:
        """Count documents and rejects; the numbers of used and rejected documents of each file."""
        counts, tallies = counted_documents(documents, files, self.rejects)
        self.watcher.note(f"read {counts.used + counts.rejected:,} documents, rejected {counts.rejected:,}")
        return tallies

    def written(self, answers: DataFrame, documents: DataFrame, files: Files) -> AnswersReport:
        """Write what is asked for. answers: persisted; documents, files: of the list of rejects."""
        totals = answers.agg(F.count("*"), F.count_if(_HAS_MATCHES), F.count_if(_IS_TRUNCATED)).head()
        queries, with_matches, truncated = totals or (0, 0, 0)
        counts = self.rejects.counts
        with self.outputs.written():
            if "answers" in self.outputs.paths:
                answers.orderBy(_PLACE_ORDER).select(_LINE).write.text(self.outputs.part("answers"))
            if "rejects" in self.outputs.paths:
                reject_lines(documents, files).write.text(self.outputs.part("rejects"))
            seconds = round(monotonic() - self.start, 3)
            report = AnswersReport(
                queries, with_matches, truncated, counts.rejected, counts.unusable_sources, seconds, counts
            )
            if "report" in self.outputs.paths:
                self.outputs.write("report", report_as_json(asdict(report)) + b"\n")
        return report


def find_files(
    session: SparkSession,
    inputs: Sequence[str],
    store: str,
    query: Query = Query(),  # it is frozen
    *,
    scope: str | None = None,
    exclude_self: bool = False,
    drawer_limit: int | None = DRAWER_LIMIT,
    ids_limit: int = IDS_LIMIT,
    options: InputOptions | None = None,
    answers: str | None = None,
    rejects: str | None = None,
    report: str | None = None,
    max_rejects: float | None = None,
    overwrite: bool = False,
    watcher: Watcher = NULL_WATCHER,
) -> AnswersReport:
    """Look up the documents of files in a store, which executors read. See `Index.find_texts` for query,
    `simhbase.open` for store, scope, drawer_limit and ids_limit, and `dedup_files` for others.

    exclude_self: leave out the document with the query's id. answers: folder for the answers: the lines of
    `simhbase find --json`, in input order.

    Raises UsageError for invalid arguments and outputs that exist, before anything is read; TablesMissing;
    TooManyRejects; OutputFailed.
    """
    session, named = for_files(session), {"answers": answers, "rejects": rejects, "report": report}
    run = _Run.of(session, named, max_rejects, overwrite=overwrite, watcher=watcher)
    with raised_clearly(), showing_tasks(session, watcher), ExitStack() as stack:
        run.outputs.require(inputs)
        how = {"drawer_limit": drawer_limit, "ids_limit": ids_limit, "scope": scope}
        with open_index(store, access="read", **how) as index:  # type: ignore[arg-type]  # of several types
            profile = index.profile
            scheme = profile.index_scheme
            _ = scheme.bounds(query.k, query.min_similarity)  # raises if it has none such
            if query.min_similarity and (missing := scheme.missing(query.min_similarity)):
                watcher.note(missing)
        files, rows = _read(session, inputs, options)
        documents = _kept(fingerprinted(rows.read([]), profile), stack)
        run.counted(documents, files)
        work = _StoreLookups(backend(store).absolute_url, how, query, Columns.of(profile), exclude_self)
        found = _kept(_answered(documents, work), stack)
        return run.written(found, documents, files)


def match_files(
    session: SparkSession,
    inputs: Sequence[str],
    against: Sequence[str],
    profile: Profile | Mapping[str, object] | None = None,
    *,
    min_similarity: float | None = None,
    ids_limit: int = IDS_LIMIT,
    matches_limit: int = MATCHES_LIMIT,
    options: InputOptions | None = None,
    answers: str | None = None,
    rejects: str | None = None,
    report: str | None = None,
    max_rejects: float | None = None,
    overwrite: bool = False,
    watcher: Watcher = NULL_WATCHER,
) -> AnswersReport:
    """Look up the documents of files among those of other files, `against`, as `simhbase.match`. See there
    for profile, min_similarity, ids_limit and matches_limit, and `find_files` for others.

    Fingerprints of all queries are sent to each task, so there may be no more than 10 million distinct ones.

    Raises UsageError for invalid arguments and outputs that exist, before anything is read; BadInput if
    nothing in `against` can be read, or files changed when their texts were read again; TooManyRejects;
    OutputFailed; SimhbaseError for too many queries.
    """
    session, named = for_files(session), {"answers": answers, "rejects": rejects, "report": report}
    run = _Run.of(session, named, max_rejects, overwrite=overwrite, watcher=watcher)
    if not against:
        raise UsageError("no files to search", parameter="against")
    criteria, least = criteria_of(profile, min_similarity)
    asking, searching = Inputs(inputs), Inputs(against)
    if is_itself := asking.are_those_of(searching):
        inputs = asking.named_as(searching).paths
    work = _Matching(criteria, least, ids_limit + is_itself, matches_limit + is_itself, is_itself)
    with raised_clearly(), showing_tasks(session, watcher), ExitStack() as stack:
        run.outputs.require([*inputs, *against])
        searched_files, searched_rows = _read(session, against, options)
        asked_files, asked_rows = _read(session, inputs, options)
        searched, asked = (
            fingerprinted(rows.read([]), criteria.profile, verified_by(criteria))
            for rows in (searched_rows, asked_rows)
        )
        searched, asked = _kept(without_repeats(searched), stack), _kept(asked, stack)
        first_asked = len(searched_files.names)
        both = searched.unionByName(_after(asked, first_asked), allowMissingColumns=True)
        together = _joined(searched_files, asked_files)
        tallies = run.counted(both, together)
        of_searched = [tally for number, tally in tallies.items() if number < first_asked]
        if of_searched and not any(used for used, _ in of_searched):
            raise BadInput("nothing could be read", parameter="against")
        near = _kept(work.hits(searched, asked, stack), stack)
        found = _kept(_answered(work.compared(near, asked, searched_rows, asked_rows), work), stack)
        return run.written(found, both, together)


def _read(
    session: SparkSession, inputs: Sequence[str], options: InputOptions | None
) -> tuple[Files, InputRows]:
    files = Files.find(session, inputs, (options or InputOptions()).format)
    how = replace(options or InputOptions(), format=files.format, whole_rows=True)
    rows = files.rows(session, how, None, None)
    shuffle_as_read(rows.df)
    return files, rows


def _kept(frame: DataFrame, stack: ExitStack) -> DataFrame:
    """The frame, persisted until the stack is closed."""
    stack.callback(frame.persist().unpersist)
    return frame


def _after(documents: DataFrame, sources: int) -> DataFrame:
    """Documents with the numbers of their files after those of others."""
    order = (F.col(_PLACE_ORDER) + F.lit(sources << SOURCE_SHIFT)).alias("order")
    return documents.withColumn(PLACE, F.struct(order, f"{PLACE}.{ID}", DIGEST))


def _joined(files: Files, others: Files) -> Files:
    return Files(
        [*files.given, *others.given],
        [*files.names, *others.names],
        [*files.origins, *others.origins],
        [*files.uris, *others.uris],
        files.format,
    )


_Lookup = Callable[[pa.RecordBatch], Iterator[Lookup]]  # of the rows that are no rejects


@dataclass(frozen=True)
class _Answers:
    """Adds lines of answers to rows. most: maximum number of matches without the document itself."""

    exclude_self: bool
    most: int | None = None

    def lines(self, rows: pa.RecordBatch, lookups: _Lookup) -> pa.RecordBatch:
        reasons = rows.column(REASON).to_pylist()
        accepted = pa.array([reason is None for reason in reasons])
        found = lookups(rows.filter(accepted))
        answers = [
            Answer(document, next(found) if reason is None else Lookup(None, reason=reason))
            for document, reason in zip(rows.column(ID).to_pylist(), reasons, strict=True)
        ]
        if self.exclude_self:
            answers = [each.without_self(self.most) for each in answers]
        added = [
            pa.array([wire.encode_any_text(each.values).decode() for each in answers], pa.string()),
            pa.array([bool(each.lookup.matches) for each in answers]),
            pa.array([each.lookup.truncated for each in answers]),
        ]
        return pa.RecordBatch.from_arrays([rows.column(PLACE), *added], [PLACE, *_NAMES])


_NAMES = [field.name for field in _ANSWERED]


def _answered(documents: DataFrame, work: _StoreLookups | _Matching) -> DataFrame:
    """The line of each document, with its place."""
    schema = StructType([documents.schema[PLACE], *_ANSWERED])
    return documents.mapInArrow(guarded(work.answered), schema)


# --- find ---


@dataclass(frozen=True)
class _StoreLookups:
    """Work of tasks, which read a store by its URL. how: it is opened."""

    url: str
    how: Mapping[str, Any]
    query: Query
    columns: Columns
    exclude_self: bool

    def answered(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        answers = _Answers(self.exclude_self)
        with open_index(self.url, access="read", **self.how) as index:
            _ = index.fingerprinter  # raises if this machine's fingerprints differ

            def lookups(rows: pa.RecordBatch) -> Iterator[Lookup]:
                return iter(lookups_of(index, self.columns.read(rows), self.query))

            for batch in batches:
                for start in range(0, len(batch), _LOOKED_UP_AT_ONCE):
                    yield answers.lines(batch.slice(start, _LOOKED_UP_AT_ONCE), lookups)


# --- match ---

# Distinct queries: their identities, and their fingerprints.
_Queries = tuple[list[bytes], FingerprintBatch]


@dataclass(frozen=True)
class _Matching:
    """As `deduplication.match.Corpus`. least: minimum similarity of texts, None if they are not compared."""

    criteria: MatchCriteria
    least: float | None
    ids_limit: int
    matches_limit: int
    exclude_self: bool

    @property
    def columns(self) -> Columns:
        return Columns.of(self.criteria.profile)

    def hits(self, searched: DataFrame, asked: DataFrame, stack: ExitStack) -> DataFrame:
        """A row for each document near a query: the query's identity, and the document."""
        queries = asked.sparkSession.sparkContext.broadcast(self._queries(asked))
        stack.callback(queries.destroy)
        wanted = searched.where(F.col(REASON).isNull()).select(
            ID, F.col(_PLACE_ORDER).alias(_AT), F.col(DIGEST).alias(KEY), *self.columns.names
        )
        return wanted.mapInArrow(guarded(partial(self.near, queries=queries)), _HIT)

    def _queries(self, asked: DataFrame) -> _Queries:
        accepted = asked.where(F.col(REASON).isNull()).select(IDENTITY, *self.columns.names)
        distinct = accepted.dropDuplicates([IDENTITY])
        if (count := distinct.count()) > MOST_QUERIES:
            raise SimhbaseError(
                f"{count:,} distinct queries are more than {MOST_QUERIES:,}: give fewer at a time, or find "
                "near-duplicates of all by dedup"
            )
        packed = distinct.mapInArrow(guarded(serialized), "rows binary").collect()
        batches = [batch for row in packed for batch in unpacked(row)]
        if not batches:
            return [], self.criteria.nothing
        table = pa.Table.from_batches(batches)
        return table.column(IDENTITY).to_pylist(), self.columns.read(table)

    def near(
        self, batches: Iterable[pa.RecordBatch], queries: Broadcast[_Queries]
    ) -> Iterator[pa.RecordBatch]:
        """Rows of documents -> rows of those near a query. Of equal fingerprints they have one more than is
        listed, and without these still one more than the matches of a query."""
        identities, fingerprints = queries.value
        names = pa.array(identities, pa.binary())
        for table in _some(batches):
            rows = table.sort_by(_AT)  # the first documents of a fingerprint are listed
            index = MemoryIndex(self.columns.read(rows), self.criteria.scheme(len(rows) // MEMBERS))
            limits = Limits(None, self.ids_limit + 1, 2 * (self.matches_limit + 1))
            for hits in index.near(fingerprints, self.criteria.bounds, limits):
                yield from _hit_rows(rows, names, hits)

    def compared(
        self, near: DataFrame, asked: DataFrame, searched_rows: InputRows, asked_rows: InputRows
    ) -> DataFrame:
        """Queries with all that is near, and the texts if they are compared."""
        hit = [_AT, _NEAR_ID, _FOUND, _DISTANCE]
        partitions = asked.sparkSession.sparkContext.defaultParallelism
        if self.least is not None:
            near = near.join(searched_rows.texts(near, partitions), KEY, "left")
            hit.append(TEXT)
        of_query = near.groupBy(IDENTITY).agg(F.collect_list(F.struct(*hit)).alias(_HITS))
        queries = asked.join(of_query, IDENTITY, "left")
        if self.least is not None:
            queries = queries.withColumn(KEY, F.when(F.col(_HITS).isNotNull(), F.col(DIGEST)))
            queries = queries.join(asked_rows.texts(queries, partitions), KEY, "left")
        others = [TEXT] if self.least is not None else []
        return queries.select(PLACE, ID, REASON, FINGERPRINT, _HITS, *others)

    def answered(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        answers = _Answers(self.exclude_self, self.matches_limit - 1)
        for batch in batches:
            for start in range(0, len(batch), _LOOKED_UP_AT_ONCE):
                yield answers.lines(batch.slice(start, _LOOKED_UP_AT_ONCE), self._lookups)

    def _lookups(self, rows: pa.RecordBatch) -> Iterator[Lookup]:
        cut = [self._listed(each or []) for each in rows.column(_HITS).to_pylist()]
        hits = [each for listed, _ in cut for each in listed]
        similarity = self._similarities(rows, [len(listed) for listed, _ in cut], hits)
        ends = np.cumsum([0, *(len(listed) for listed, _ in cut)]).tolist()
        values = map(_fingerprint, rows.column(FINGERPRINT).to_pylist())
        for value, (start, end), (_, truncated) in zip(values, pairwise(ends), cut, strict=True):
            matches = [
                (Match(hit[_DISTANCE], hit[_NEAR_ID], _fingerprint(hit[_FOUND]), each), hit[_AT])
                for hit, each in zip(hits[start:end], similarity[start:end], strict=True)
                if each is None or each >= (self.least or 0.0)
            ]
            yield Lookup(value, tuple(match for match, _ in sorted(matches)), truncated)

    def _listed(self, hits: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], bool]:
        """The nearest documents, and of each fingerprint the first; and whether there are more."""
        counts: Counter[bytes] = Counter()
        listed = []
        for hit in sorted(hits, key=lambda hit: hit[_AT]):
            counts[hit[_FOUND]] += 1
            if counts[hit[_FOUND]] <= self.ids_limit:
                listed.append(hit)
        listed.sort(key=lambda hit: hit[_DISTANCE])
        more = len(listed) > self.matches_limit or any(count > self.ids_limit for count in counts.values())
        return listed[: self.matches_limit], more

    def _similarities(
        self, rows: pa.RecordBatch, counts: Sequence[int], hits: Sequence[Mapping[str, Any]]
    ) -> list[float | None]:
        if self.least is None:
            return [None] * len(hits)
        asked = decoded(rows.column(TEXT), TEXT)[0]
        read_again = [*compress(rows.column(TEXT).is_valid().to_pylist(), counts)]
        if not all(read_again) or any(hit[TEXT] is None for hit in hits):
            raise changed_input()
        with closing(SpooledTexts(self.criteria.profile, self.least, Path(gettempdir()))) as texts:
            texts.append(decoded(pa.array([hit[TEXT] for hit in hits], pa.string()), TEXT)[0])
            query = ~np.repeat(np.arange(len(rows)), counts)
            found: list[float | None] = texts.similarity(query, np.arange(len(hits)), asked).tolist()
        return found


def _some(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches joined to tables of at least `_INDEXED_AT_ONCE` rows, but the last."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(map(len, held)) >= _INDEXED_AT_ONCE:
            yield pa.Table.from_batches(held)
            held = []
    if sum(map(len, held)):
        yield pa.Table.from_batches(held)


def _hit_rows(rows: pa.Table, identities: pa.Array, hits: Hits) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(hits.query), _SENT_AT_ONCE):
        some = slice(start, start + _SENT_AT_ONCE)
        documents = rows.take(pa.array(hits.document[some]))
        columns = [
            identities.take(pa.array(hits.query[some])),
            documents.column(_AT),
            documents.column(ID),
            binary(hits.fingerprint[some].astype(">u8")),
            pa.array(hits.distance[some].astype(np.int32)),
            documents.column(KEY),
        ]
        yield from pa.Table.from_arrays(columns, _HIT.names).to_batches()


def _fingerprint(value: bytes) -> Fingerprint:
    return Fingerprint(int.from_bytes(value))
