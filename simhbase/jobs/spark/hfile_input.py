"""Documents of a DataFrame as HFiles, which `simhbase load-hfiles` then brings into HBase.

Tasks look up what is stored of their documents, as a load does, and make the rows of all tables. A shuffle
brings the rows of one part of a table side by side, sorted: a part is a region as its borders are now, or a
piece of a region where there are fewer of these than tasks. So a row of the index that several documents have
is written once, and each file is for one region.

What a task writes has a name of its own. The driver gives the files of tasks that ended well the names by
which they are loaded: those of other attempts are never read.
"""

from __future__ import annotations

import random
import secrets
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import cast

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from simhbase.errors import OutputFailed, UsageError
from simhbase.index import Index, open_index
from simhbase.index.rows import document_id, id_problem
from simhbase.index.writer import DocumentBatch, HintingWriter
from simhbase.jobs.hfile_input import COUNTED, MANIFEST, HFileInput, TableFiles, uri_of
from simhbase.jobs.hfiles import SAMPLED, TABLES, holds_documents, rows_of
from simhbase.jobs.spark.dedup import PLACE, order_of, without_repeats
from simhbase.jobs.spark.fingerprints import (
    FINGERPRINT,
    ID,
    IDENTITY,
    REASON,
    SKETCH,
    TEXT,
    Columns,
    decoded,
    fingerprinted,
    id_of,
    text_of,
    type_of,
)
from simhbase.profile import Profile
from simhbase.stores.hbase import HBaseStore
from simhbase.stores.hbase.hfile import Family, HFileWriter
from simhbase.stores.hbase.hfiles import HFile, families, samples_of
from simhbase.stores.hbase.schema import INDEX
from simhbase.stores.hbase.workfolder import LOCAL
from simhbase.stores.strings import Strings

PART, KEY, VALUE = "part", "key", "value"
ROWS = f"{PART} long, {KEY} binary, {VALUE} binary"
NAME, FILE, COUNT, SAMPLES, SAMPLED_ROWS = "name", "file", "rows", "samples", "sampled_rows"
WRITTEN = f"{NAME} string, {FILE} string, {COUNT} long, {SAMPLES} array<string>, {SAMPLED_ROWS} array<binary>"
_ATTEMPTS = "_attempts"  # a folder for what tasks write
_TRIED_FOR_EACH = 32  # numbers, of which one should come to a partition
_CUT_BYTES = 2  # where a region is cut to pieces
_ROWS_AT_ONCE = 1 << 16


def hfile_input(
    df: DataFrame,
    store: str,
    folder: str | Path,
    *,
    id_column: str = "id",
    text_column: str = "text",
    fingerprint_column: str | None = None,
    order_column: str | None = None,
    partitions: int | None = None,
) -> HFileInput:
    """Writes the rows of documents to a folder as HFiles, from which `simhbase load-hfiles FOLDER` brings
    them into the store; what they are.

    store: the URL of one in HBase, with a Thrift 2 gateway; all executors reach its gateways. folder: an
    empty one, or one that is made: of a file system that all executors and HBase's tools share, by its URI
    (what pyarrow.fs opens: hdfs://, s3://, file://), or a path where these are one machine.
    fingerprint_column: of fingerprints that `fingerprint` has made by the store's profile (binary, or as
    hexadecimal digits; where the store keeps sketches, a column `sketch` beside it), in place of texts.
    order_column: of one id, the document with the least value counts, and of equal ones that with the least
    fingerprint; the others are rejected, as are null and empty ids and texts that are null, no UTF-8 or have
    too few features. partitions: files that are written at once, by default two for each core; regions may
    ask for more.

    What is stored already is passed over, by one read for each document; where a document of the store has a
    later version than the rows have, by a clock that is ahead, it is written to the store at once. `df` is
    read once, unless an executor is lost: it must be the same each time. The rows have to be loaded within
    two hours, before vacuum may take them for old.

    Raises UsageError for what does not go together, a store that is not in HBase and a folder that is not
    empty; what opening the store raises; OutputFailed where the driver cannot write to the folder.
    """
    if not store.startswith("hbase:"):
        raise UsageError(f"{store} is no store in HBase: only that takes HFiles")
    place = _Folder(uri_of(str(folder)))
    with open_index(store) as index:
        found = _documents(df, index.profile, id_column, text_column, fingerprint_column, order_column)
        order = [name for name in found.columns if name not in (ID, REASON)]
        documents = without_repeats(found.withColumn(PLACE, F.struct(*order)))
        place.make()
        documents.persist()
        try:
            return _written(documents, index, place, partitions, by_texts=fingerprint_column is None)
        finally:
            documents.unpersist()


def _documents(
    df: DataFrame, profile: Profile, id_column: str, text_column: str, given: str | None, order: str | None
) -> DataFrame:
    """Ids, fingerprints, and why there is none; the order where one is named."""
    read = [id_of(df, id_column).alias(ID), *order_of(df, order)]
    if given is None:
        return fingerprinted(df.select(*read, text_of(df, text_column).alias(TEXT)), profile).drop(IDENTITY)
    columns = Columns.of(profile)
    values = [_fingerprint_of(df, given).alias(FINGERPRINT)]
    if columns.sketch_bytes:
        type_of(df, SKETCH, "fingerprint_column")
        values.append(F.col(SKETCH))
    chosen = df.select(*read, *values)
    schema = StructType([*chosen.schema.fields, StructField(REASON, StringType())])
    return chosen.mapInArrow(_Checking(columns), schema)


def _fingerprint_of(df: DataFrame, name: str) -> Column:
    """The column of fingerprints, as bytes. Raises UsageError for one of another type."""
    kind = type_of(df, name, "fingerprint_column")
    if not isinstance(kind, StringType | BinaryType):
        raise UsageError(
            f"{name!r} is {kind.simpleString()}: fingerprints are binary, or hexadecimal digits",
            parameter="fingerprint_column",
        )
    return F.unhex(F.col(name)) if isinstance(kind, StringType) else F.col(name)


@dataclass(frozen=True)
class _Checking:
    """Batches of ids and fingerprints -> the same with why they cannot be stored."""

    columns: Columns

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sizes = {FINGERPRINT: 8 * self.columns.words, SKETCH: self.columns.sketch_bytes}
        for batch in batches:
            ids, problems = decoded(batch.column(ID), "id")
            problems = [before or id_problem(each) for before, each in zip(problems, ids, strict=True)]
            for name in self.columns.names:
                values = batch.column(name).to_pylist()
                problems = [
                    before or _size_problem(name, value, sizes[name])
                    for before, value in zip(problems, values, strict=True)
                ]
            names = [*batch.schema.names, REASON]
            yield pa.RecordBatch.from_arrays([*batch.columns, pa.array(problems, pa.string())], names)


def _size_problem(name: str, value: bytes | None, size: int) -> str | None:
    if value is None:
        return f"the {name} is null"
    return None if len(value) == size else f"the {name} has {len(value)} bytes, not {size}"


def _written(
    documents: DataFrame, index: Index, place: _Folder, partitions: int | None, *, by_texts: bool
) -> HFileInput:
    """All rows of documents, in files of their parts."""
    rejected = documents.where(F.col(REASON).isNotNull()).count()  # makes fingerprints, before time counts
    session = documents.sparkSession
    store = cast(HBaseStore, index.store)
    begun, version = store.now(), HintingWriter(store, index.profile.index_scheme, store.now).version()
    times = {table: store.server_time() if table == INDEX else version for table in TABLES}
    at_once = partitions or 2 * session.sparkContext.defaultParallelism
    parts = _Parts(_borders(store, at_once, index.profile.index_scheme.tables))
    numbers = _numbers(session, parts.count)
    planning = _Planning(store.url, version, holds_documents(store), parts, numbers, by_texts)
    by_table = families(store)
    writing = _Writing(place.uri, parts, dict(zip(numbers, range(parts.count), strict=True)), by_table, times)
    accepted = documents.where(F.col(REASON).isNull()).select(ID, *Columns.of(index.profile).names)
    rows = accepted.mapInArrow(planning, ROWS).repartition(parts.count, PART)
    written = rows.sortWithinPartitions(PART, KEY).mapInArrow(writing, WRITTEN).collect()
    counts = {name: sum(row[COUNT] for row in written if row[NAME] == name) for name in (*COUNTED, *TABLES)}
    samples = [each for row in written for each in row[SAMPLES]]
    found = HFileInput(
        store=store.url,
        tables_digest=index.tables_digest,
        version=version,
        begun=begun,
        added=counts["added"],
        updated=counts["updated"],
        unchanged=counts["unchanged"],
        rejected=rejected,
        samples=tuple(random.sample(samples, min(len(samples), SAMPLED))),
        tables={},
    )
    made = [
        (row[NAME], HFile(row[FILE], row[COUNT], tuple(map(bytes, row[SAMPLED_ROWS]))))
        for row in written
        if row[FILE]
    ]
    tables = {
        table: TableFiles(times[table], tuple(file for name, file in made if name == table))
        for table in TABLES
        if counts[table]
    }
    return place.finish(replace(found, tables=tables), by_table)


def _borders(store: HBaseStore, at_once: int, index_rows: int) -> Mapping[str, list[bytes]]:
    """The first keys of the parts of each table. Keys begin with bits of hashes, so that pieces of equal
    ranges have about as many rows; the index has `index_rows` of a document, the others one."""
    rows = {table: index_rows if table == INDEX else 1 for table in TABLES}
    pieces = {table: max(1, at_once * rows[table] // sum(rows.values())) for table in TABLES}
    every = 1 << 8 * _CUT_BYTES
    return {
        table: sorted(
            {b""}.union(
                store.region_starts(table),
                (
                    (number * every // pieces[table]).to_bytes(_CUT_BYTES)
                    for number in range(1, pieces[table])
                ),
            )
        )
        for table in TABLES
    }


@dataclass(frozen=True)
class _Parts:
    """Where rows go: those of each table by its borders, sorted, the first of which is empty; and what has
    become of documents, in a part behind those of the tables."""

    borders: Mapping[str, Sequence[bytes]]

    @cached_property
    def tables(self) -> list[str]:
        return [table for table, starts in self.borders.items() for _ in starts]

    @property
    def count(self) -> int:
        return len(self.tables) + 1

    def of(self, table: str, keys: Iterable[bytes]) -> list[int]:
        """The part of each key of a table."""
        first, starts = self.tables.index(table), self.borders[table]
        return [first + bisect_right(starts, key) - 1 for key in keys]


def _numbers(session: SparkSession, count: int) -> list[int]:
    """A number for each of so many partitions that Spark's hash brings there: as many tasks as there are
    parts have one each. Where none was found, two parts share a task."""
    tried = session.range(count * _TRIED_FOR_EACH)
    found = tried.groupBy(F.pmod(F.hash("id"), F.lit(count))).agg(F.min("id")).collect()
    chosen = dict(map(tuple, found))
    return [chosen.get(part, count * _TRIED_FOR_EACH + part) for part in range(count)]


@dataclass(frozen=True)
class _Planning:
    """Batches of documents -> a row for each row of a table, with the number of its part.

    numbers: of each part, by which Spark brings its rows together; by_texts: whether texts are fingerprinted
    in this job, as the store's creator did.
    """

    store: str
    version: int
    has_documents: bool
    parts: _Parts
    numbers: Sequence[int]
    by_texts: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with open_index(self.store) as index:
            if self.by_texts:
                _ = index.fingerprinter  # raises where this machine's is another
            columns = Columns.of(index.profile)
            writer = HintingWriter(index.store, index.profile.index_scheme, index.store.now)
            for read in batches:
                batch = DocumentBatch(read.column(ID).to_pylist(), columns.read(read))
                yield from self._planned(batch, writer)

    def _planned(self, batch: DocumentBatch, writer: HintingWriter) -> Iterator[pa.RecordBatch]:
        plan = writer.plan(batch, self.version, has_documents=self.has_documents)
        for step in plan.steps:
            if step.version != self.version:
                writer.put(step)
                continue
            for table, (keys, values) in rows_of(step, writer.scheme).items():
                some = list(zip(keys.to_list(), values.to_list(), strict=True))
                yield self._batch(self.parts.of(table, (key for key, _ in some)), some)
        counts = [
            (name.encode(), getattr(plan.report, name).to_bytes(8))
            for name in ("added", "updated", "unchanged")
        ]
        yield self._batch([self.parts.count - 1] * len(counts), counts)

    def _batch(self, parts: Sequence[int], rows: Sequence[tuple[bytes, bytes]]) -> pa.RecordBatch:
        arrays = [
            pa.array([self.numbers[part] for part in parts], pa.int64()),
            pa.array([key for key, _ in rows], pa.binary()),
            pa.array([value for _, value in rows], pa.binary()),
        ]
        return pa.RecordBatch.from_arrays(arrays, [PART, KEY, VALUE])


@dataclass(frozen=True)
class _Writing:
    """Batches of rows, those of a part side by side and sorted -> a row for each file, and for each count of
    what became of documents.

    parts_by_number: as `_Planning.numbers` says; families: how each table keeps its rows; times: of cells.
    """

    uri: str
    parts: _Parts
    parts_by_number: Mapping[int, int]
    families: Mapping[str, Family]
    times: Mapping[str, int]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, rows in groupby(_rows(batches), key=itemgetter(0)):
            part = self.parts_by_number[number]
            if part == self.parts.count - 1:
                yield from (_told(name, None, count, [], []) for name, count in _sums(rows))
            else:
                yield self._file(self.parts.tables[part], _distinct(rows))

    def _file(self, table: str, rows: Iterator[tuple[bytes, bytes]]) -> pa.RecordBatch:
        name, samples, ids = f"{table}-{secrets.token_hex(8)}", list[bytes](), list[str]()
        with _Folder(self.uri).attempt(name) as file:
            writer = HFileWriter(file, self.families[table], self.times[table])
            while some := list(islice(rows, _ROWS_AT_ONCE)):
                keys, values = (Strings.of(column) for column in zip(*some, strict=True))
                writer.put(keys, values)
                samples += samples_of(keys)
                if table == "documents":
                    ids += (document_id(key) for key, _ in random.sample(some, min(len(some), SAMPLED)))
            writer.close()
        ids = random.sample(ids, min(len(ids), SAMPLED))
        return _told(table, name, writer.rows, ids, samples_of(Strings.of(samples)))


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes, bytes]]:
    for batch in batches:
        yield from zip(*(batch.column(name).to_pylist() for name in (PART, KEY, VALUE)), strict=True)


def _distinct(rows: Iterable[tuple[int, bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """Of sorted rows with one key the first."""
    last = None
    for _, key, value in rows:
        if key != last:
            yield key, value
            last = key


def _sums(rows: Iterable[tuple[int, bytes, bytes]]) -> Iterator[tuple[str, int]]:
    """Of sorted rows that count something by name."""
    for name, some in groupby(rows, key=itemgetter(1)):
        yield name.decode(), sum(int.from_bytes(value) for _, _, value in some)


def _told(
    name: str, file: str | None, count: int, samples: Sequence[str], sampled_rows: Sequence[bytes]
) -> pa.RecordBatch:
    """What a task tells the driver: of a file, or of what became of so many documents."""
    columns = {
        NAME: pa.array([name], pa.string()),
        FILE: pa.array([file], pa.string()),
        COUNT: pa.array([count], pa.int64()),
        SAMPLES: pa.array([list(samples)], pa.list_(pa.string())),
        SAMPLED_ROWS: pa.array([list(sampled_rows)], pa.list_(pa.binary())),
    }
    return pa.RecordBatch.from_pydict(columns)


@dataclass(frozen=True)
class _Folder:
    """Where rows are written, by its URI."""

    uri: str

    @property
    def _place(self) -> tuple[fs.FileSystem, str]:
        if self.uri.startswith(LOCAL):
            return fs.LocalFileSystem(), self.uri.removeprefix(LOCAL)
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(self.uri)
        return found

    def make(self) -> None:
        """Makes it empty of what a run that was stopped has left. Raises UsageError where something else is
        in it, OutputFailed where it cannot be written."""
        with self._writing():
            files, path = self._place
            there = {each.base_name for each in files.get_file_info(_inside(path))}
            left = {_ATTEMPTS, *TABLES} if _ATTEMPTS in there else set()
            if there - left:
                raise UsageError(
                    f"{self.uri} is not empty: name a new folder for the rows, or empty that one"
                )
            for name in there:
                files.delete_dir(f"{path}/{name}")
            files.create_dir(f"{path}/{_ATTEMPTS}")

    def attempt(self, name: str) -> pa.NativeFile:
        files, path = self._place
        return files.open_output_stream(f"{path}/{_ATTEMPTS}/{name}")

    def finish(self, found: HFileInput, families: Mapping[str, Family]) -> HFileInput:
        """Gives the files of tables the names by which they are found, and says what they are."""
        with self._writing():
            files, path = self._place
            for table, made in found.tables.items():
                into = f"{path}/{table}/{families[table].name.decode()}"
                files.create_dir(into)
                for file in made.files:
                    files.move(f"{path}/{_ATTEMPTS}/{file.name}", f"{into}/{file.name}")
            with files.open_output_stream(f"{path}/{MANIFEST}") as manifest:
                manifest.write(found.encode())
            files.delete_dir(f"{path}/{_ATTEMPTS}")  # last: what is beside it is the work of a run
        return found

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputFailed(
                f"cannot write the rows for HBase to {self.uri}: {error}. Name a folder of a file system "
                "that the driver and all executors write to"
            ) from error


def _inside(path: str) -> fs.FileSelector:
    """What is in a folder, if there is one."""
    return fs.FileSelector(path, allow_not_found=True)
