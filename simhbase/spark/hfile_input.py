"""Writes the documents of a DataFrame to HFiles, which `simhbase load-hfiles` loads into HBase.

Tasks look up which of their documents are stored, as a load does, and plan the rows of all tables. A shuffle
collects and sorts the rows of each part of a table: a region with its current borders, or a piece of one if
there are fewer regions than tasks. So an index row that several documents share is written once, and each
file is for one region.

Each attempt of a task writes files with unique names. The driver renames those of successful tasks; the
others are never read.
"""

from __future__ import annotations

import random
import secrets
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import cast

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the usual name
from pyspark.sql.types import BinaryType, DecimalType, LongType, StringType, StructField, StructType

from simhbase.corpus.prepared import DECIDING, base_of, fingerprint_of
from simhbase.corpus.record import Base
from simhbase.errors import BadInput, OutputFailed, UsageError
from simhbase.index import Index, open_index
from simhbase.index.rows import document_id, id_problem
from simhbase.index.writer import DocumentBatch, Writer
from simhbase.loads.hfile_input import COUNTED, MANIFEST, HFileInput, TableFiles, uri_of
from simhbase.loads.hfiles import SAMPLED, TABLES, holds_documents, rows_of
from simhbase.model.urls import redacted, without_passwords
from simhbase.profile.profile import TABLE_BITS, Profile
from simhbase.spark.dedup import PLACE, order_of, without_repeats
from simhbase.spark.fingerprints import (
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
from simhbase.spark.folders import require_own
from simhbase.spark.guard import guarded
from simhbase.stores import backend
from simhbase.stores.hbase import HBaseStore
from simhbase.stores.hbase.hfile import Family, HFileWriter
from simhbase.stores.hbase.hfiles import HFile, families, samples_of
from simhbase.stores.hbase.schema import INDEX
from simhbase.stores.hbase.workfolder import LOCAL
from simhbase.stores.strings import Strings, pairs

PART, KEY, VALUE = "part", "key", "value"
ROWS = f"{PART} long, {KEY} binary, {VALUE} binary"
NAME, FILE, COUNT, SAMPLES, SAMPLED_ROWS = "name", "file", "rows", "samples", "sampled_rows"
WRITTEN = f"{NAME} string, {FILE} string, {COUNT} long, {SAMPLES} array<string>, {SAMPLED_ROWS} array<binary>"
_ATTEMPTS = "_attempts"  # folder for files of running tasks
_TRIED_FOR_EACH = 32  # numbers tried per partition
_CUT_BYTES = 2  # length of keys at which regions are split
_ROWS_AT_ONCE = 1 << 16


def hfile_input(
    df: DataFrame,
    store: str,
    folder: str | Path,
    *,
    id_column: str = "id",
    text_column: str = "text",
    fingerprint_column: str | None = None,
    fingerprint_base: Base | None = None,
    order_column: str | None = None,
    partitions: int | None = None,
) -> HFileInput:
    """Write documents to a folder as HFiles, which `simhbase load-hfiles FOLDER` loads into the store.
    Returns the manifest.

    store: URL of a store in HBase with Thrift 2 gateways, which all executors can reach. folder: a new or
    empty folder in a file system that all executors and HBase's tools share, as a URI that pyarrow.fs opens
    (hdfs://, s3://, file://), or a path if all run on one machine. fingerprint_column: use fingerprints
    instead of texts, made with the store's profile: binary as by `fingerprint`, integers (bigint, as two's
    complement, or decimals), or texts of digits; with a column `sketch` if the store keeps sketches.
    fingerprint_base: of the digits, 16 or 10; None: what one of the first 1,000 texts shows.
    order_column: if ids repeat, the document with the least value counts, then that with the least
    fingerprint; the others are rejected, and null and empty ids, and texts that are null, not UTF-8 or have
    too few features. partitions: number of files written in parallel, by default two per core; more if there
    are more regions.

    Each document is looked up, and skipped if it is stored unchanged. If it is stored with a later version
    (written by a clock that is ahead), it is written to the store at once. `df` is read once, or again if an
    executor is lost, so it must not change. Load the files within two hours, because vacuum may remove older
    rows.

    Raises UsageError for invalid arguments, a store that is not in HBase and a folder that is not empty; the
    errors of opening the store; OutputFailed if the driver cannot write to the folder.
    """
    if not backend(store).takes_hfiles:
        raise UsageError(f"{redacted(store)} is not in HBase: HFiles can only be loaded into HBase")
    place = _Folder(uri_of(str(folder)))
    with open_index(store) as index:
        if fingerprint_column is None:
            found = _fingerprinted(df, index.profile, id_column, text_column, order_column)
        else:
            given = df, index.profile, id_column, fingerprint_column, order_column
            found = with_given_fingerprints(*given, fingerprint_base)
        order = [name for name in found.columns if name not in (ID, REASON)]
        documents = without_repeats(found.withColumn(PLACE, F.struct(*order)))
        place.make()
        documents.persist()
        try:
            return _written(documents, index, place, partitions, by_texts=fingerprint_column is None)
        finally:
            documents.unpersist()


def _fingerprinted(
    df: DataFrame, profile: Profile, id_column: str, text_column: str, order: str | None
) -> DataFrame:
    """Ids, fingerprints, and reasons if there is none; the order column if it is given."""
    read = [id_of(df, id_column).alias(ID), *order_of(df, order), text_of(df, text_column).alias(TEXT)]
    return fingerprinted(df.select(*read), profile).drop(IDENTITY)


@dataclass(frozen=True)
class _Given:
    """A column of fingerprints: bytes, or texts of digits."""

    column: Column
    base: Base | None


def _fingerprint_of(df: DataFrame, name: str, base: Base | None) -> _Given:
    """The fingerprint column. Raises UsageError for other types, and for digits of an unknown base."""
    kind = type_of(df, name, "fingerprint_column")
    column = F.col(name)
    match kind:
        case BinaryType():
            return _Given(column, None)
        case LongType():
            return _Given(F.unhex(F.lpad(F.hex(column), 16, "0")), None)
        case DecimalType() if kind.scale == 0:
            return _Given(column.cast("string"), 10)
        case StringType():
            return _Given(column, base or _shown_base(df, name))
    raise UsageError(
        f"{name!r} is {kind.simpleString()}: fingerprints must be binary, bigint, decimals without a "
        "fraction or texts of digits",
        parameter="fingerprint_column",
    )


def _shown_base(df: DataFrame, name: str) -> Base:
    first = df.select(name).where(F.col(name).isNotNull()).limit(DECIDING).collect()
    return base_of((row[0] for row in first), TABLE_BITS, f"{name!r} has")


def with_given_fingerprints(
    df: DataFrame, profile: Profile, id_column: str, name: str, order: str | None, base: Base | None
) -> DataFrame:
    """Ids and given fingerprints, with reasons why they cannot be stored; as `_fingerprinted`."""
    columns, given = Columns.of(profile), _fingerprint_of(df, name, base)
    values = [given.column.alias(FINGERPRINT)]
    if columns.sketch_bytes:
        type_of(df, SKETCH, "fingerprint_column")
        values.append(F.col(SKETCH))
    chosen = df.select(id_of(df, id_column).alias(ID), *order_of(df, order), *values)
    fields = [
        StructField(FINGERPRINT, BinaryType()) if field.name == FINGERPRINT else field
        for field in chosen.schema.fields
    ]
    schema = StructType([*fields, StructField(REASON, StringType())])
    return chosen.mapInArrow(guarded(partial(_checked, columns=columns, base=given.base)), schema)


def _checked(
    batches: Iterable[pa.RecordBatch], columns: Columns, base: Base | None
) -> Iterator[pa.RecordBatch]:
    """Ids and fingerprints -> the same with reasons why they cannot be stored. base: of texts."""
    sizes = {FINGERPRINT: 8 * columns.words, SKETCH: columns.sketch_bytes}
    for batch in batches:
        ids, problems = decoded(batch.column(ID), "id")
        problems = [before or id_problem(each) for before, each in zip(problems, ids, strict=True)]
        if base is not None:
            batch, wrong = _converted(batch, base)
            problems = [before or each for before, each in zip(problems, wrong, strict=True)]
        for name in columns.names:
            values = batch.column(name).to_pylist()
            problems = [
                before or _size_problem(name, value, sizes[name])
                for before, value in zip(problems, values, strict=True)
            ]
        names = [*batch.schema.names, REASON]
        yield pa.RecordBatch.from_arrays([*batch.columns, pa.array(problems, pa.string())], names)


def _converted(batch: pa.RecordBatch, base: Base) -> tuple[pa.RecordBatch, list[str | None]]:
    """The batch with bytes in place of digits, and what is wrong with them."""
    texts, problems = decoded(batch.column(FINGERPRINT), FINGERPRINT)
    values: list[bytes | None] = []
    for number, text in enumerate(texts):
        try:
            values.append(fingerprint_of(text, TABLE_BITS, base).to_bytes(TABLE_BITS // 8))
        except BadInput as error:
            values.append(None)
            problems[number] = problems[number] or str(error)
    place = batch.schema.get_field_index(FINGERPRINT)
    return batch.set_column(place, FINGERPRINT, pa.array(values, pa.binary())), problems


def _size_problem(name: str, value: bytes | None, size: int) -> str | None:
    if value is None:
        return f"the {name} is null"
    return None if len(value) == size else f"the {name} has {len(value)} bytes, not {size}"


def _written(
    documents: DataFrame, index: Index, place: _Folder, partitions: int | None, *, by_texts: bool
) -> HFileInput:
    """Write the rows of all documents, one file per part."""
    rejected = documents.where(F.col(REASON).isNotNull()).count()  # computes fingerprints, before `begun`
    session = documents.sparkSession
    index.require_no_scopes("HFiles")
    store = cast(HBaseStore, index.store)
    begun, version = store.now(), Writer(store, index.profile.index_scheme, store.now).version()
    times = {table: store.server_time() if table == INDEX else version for table in TABLES}
    at_once = partitions or 2 * session.sparkContext.defaultParallelism
    parts = _Parts(_borders(store, at_once, index.profile.index_scheme.tables))
    numbers = _numbers(session, parts.count)
    planner = _RowPlanner(store.url, version, holds_documents(store), parts, numbers, by_texts)
    by_table = families(store)
    writer = _FileWriter(
        place.uri, parts, dict(zip(numbers, range(parts.count), strict=True)), by_table, times
    )
    accepted = documents.where(F.col(REASON).isNull()).select(ID, *Columns.of(index.profile).names)
    rows = accepted.mapInArrow(guarded(planner), ROWS).repartition(parts.count, PART)
    written = rows.sortWithinPartitions(PART, KEY).mapInArrow(guarded(writer), WRITTEN).collect()
    counts = {name: sum(row[COUNT] for row in written if row[NAME] == name) for name in (*COUNTED, *TABLES)}
    samples = [each for row in written for each in row[SAMPLES]]
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
        tables=tables,
    )
    place.finish(found, by_table)
    return found


def _borders(store: HBaseStore, at_once: int, index_rows: int) -> Mapping[str, list[bytes]]:
    """First keys of the parts of each table. Keys start with hash bits, so equal ranges have about equally
    many rows. index_rows: rows per document in the index; other tables have one."""
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
    """Parts that rows are sent to: those of each table, by sorted first keys (the first is empty), and a last
    part for the counts of documents."""

    borders: Mapping[str, Sequence[bytes]]

    @cached_property
    def tables(self) -> list[str]:
        return [table for table, starts in self.borders.items() for _ in starts]

    @property
    def count(self) -> int:
        return len(self.tables) + 1

    def of(self, table: str, keys: Iterable[bytes]) -> list[int]:
        """Part of each key of a table."""
        first, starts = self.tables.index(table), self.borders[table]
        return [first + bisect_right(starts, key) - 1 for key in keys]


def _numbers(session: SparkSession, count: int) -> list[int]:
    """For each partition a number that Spark's hash sends to it, so that each part gets its own task. If none
    is found, two parts share a task."""
    tried = session.range(count * _TRIED_FOR_EACH)
    found = tried.groupBy(F.pmod(F.hash("id"), F.lit(count))).agg(F.min("id")).collect()
    chosen = dict(map(tuple, found))
    return [chosen.get(part, count * _TRIED_FOR_EACH + part) for part in range(count)]


@dataclass(frozen=True)
class _RowPlanner:
    """Batches of documents -> rows of tables, with the number of their part. numbers: of each part, for
    Spark's shuffle; by_texts: True if this job computes the fingerprints."""

    store: str
    version: int
    has_documents: bool
    parts: _Parts
    numbers: Sequence[int]
    by_texts: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with open_index(self.store) as index:
            if self.by_texts:
                _ = index.fingerprinter  # raises if this machine's fingerprints differ
            columns = Columns.of(index.profile)
            writer = Writer(index.store, index.profile.index_scheme, index.store.now)
            for read in batches:
                batch = DocumentBatch(read.column(ID).to_pylist(), columns.read(read))
                yield from self._planned(batch, writer)

    def _planned(self, batch: DocumentBatch, writer: Writer) -> Iterator[pa.RecordBatch]:
        changes, report = writer.plan(batch, self.version, has_documents=self.has_documents)
        for table, columns in rows_of(changes).items():
            some = pairs(*columns)
            yield self._batch(self.parts.of(table, (key for key, _ in some)), some)
        counts = [
            (name.encode(), getattr(report, name).to_bytes(8)) for name in ("added", "updated", "unchanged")
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
class _FileWriter:
    """Batches of rows, sorted by part and key -> a row for each file, and for each count of documents.

    parts_by_number: inverse of `_RowPlanner.numbers`; families: column family of each table; times:
    timestamps of cells.
    """

    uri: str
    parts: _Parts
    parts_by_number: Mapping[int, int]
    families: Mapping[str, Family]
    times: Mapping[str, int]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        columns = ((batch.column(name).to_pylist() for name in (PART, KEY, VALUE)) for batch in batches)
        every = chain.from_iterable(zip(*some, strict=True) for some in columns)
        for number, rows in groupby(every, key=itemgetter(0)):
            part = self.parts_by_number[number]
            if part == self.parts.count - 1:
                for name, some in groupby(rows, key=itemgetter(1)):
                    count = sum(int.from_bytes(value) for _, _, value in some)
                    yield _result(name.decode(), None, count, [], [])
            else:
                firsts = (next(same) for _, same in groupby(rows, key=itemgetter(1)))
                yield self._file(self.parts.tables[part], ((key, value) for _, key, value in firsts))

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
        return _result(table, name, writer.rows, ids, samples_of(Strings.of(samples)))


def _result(
    name: str, file: str | None, count: int, samples: Sequence[str], sampled_rows: Sequence[bytes]
) -> pa.RecordBatch:
    """A row for the driver: a file, or a count of documents."""
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
    """The output folder, by its URI."""

    uri: str

    @property
    def _place(self) -> tuple[fs.FileSystem, str]:
        if self.uri.startswith(LOCAL):
            return fs.LocalFileSystem(), self.uri.removeprefix(LOCAL)
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(self.uri)
        return found

    def make(self) -> None:
        """Create the folder, and remove files of an interrupted run. Raises UsageError if it has other files,
        OutputFailed if it cannot be written."""
        require_own(self.uri)
        with self._writing():
            files, path = self._place
            there = {
                each.base_name for each in files.get_file_info(fs.FileSelector(path, allow_not_found=True))
            }
            left = {_ATTEMPTS, *TABLES} if _ATTEMPTS in there else set()
            if there - left:
                raise UsageError(f"{redacted(self.uri)} is not empty: use a new folder, or empty this one")
            for name in there:
                files.delete_dir(f"{path}/{name}")
            files.create_dir(f"{path}/{_ATTEMPTS}")

    def attempt(self, name: str) -> pa.NativeFile:
        files, path = self._place
        return files.open_output_stream(f"{path}/{_ATTEMPTS}/{name}")

    def finish(self, found: HFileInput, families: Mapping[str, Family]) -> None:
        with self._writing():
            files, path = self._place
            for table, made in found.tables.items():
                into = f"{path}/{table}/{families[table].name.decode()}"
                files.create_dir(into)
                for file in made.files:
                    files.move(f"{path}/{_ATTEMPTS}/{file.name}", f"{into}/{file.name}")
            with files.open_output_stream(f"{path}/{MANIFEST}") as manifest:
                manifest.write(found.encode())
            files.delete_dir(f"{path}/{_ATTEMPTS}")  # last: it marks the folder as one of an unfinished run

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            failed = without_passwords(f"cannot write HFiles to {self.uri}: {error}")
            raise OutputFailed(
                f"{failed}. Use a folder that the driver and all executors can write"
            ) from error
