"""Reads files of a corpus to a DataFrame, each row with its place: its file and line.

Spark finds and splits the files, and the command's own parser reads their lines in the executors, so that
records are rejected for the same reasons as on one machine.
"""

from __future__ import annotations

import os
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from glob import has_magic
from io import BytesIO
from itertools import takewhile
from pathlib import Path
from typing import Self
from urllib.parse import unquote

import orjson
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from simhbase.corpus.folders import printable, resolved
from simhbase.corpus.formats.parquet import bounds_of, footer_of, load_pyarrow, require_all_rows
from simhbase.corpus.names import format_of
from simhbase.corpus.outputs.files import require_new_field, unique_line
from simhbase.corpus.parser import Parser
from simhbase.corpus.reading import extracted
from simhbase.corpus.record import Format, InputOptions, Raw, Record, Reject, too_long
from simhbase.corpus.remote import public_name
from simhbase.deduplication.representative import Preference
from simhbase.errors import BadInput, UsageError
from simhbase.model.urls import redacted
from simhbase.process.isolation import IsolatedReader, LimitExceeded
from simhbase.process.machine import usable_threads
from simhbase.spark.dedup import ORDER, WORDS, InputRows
from simhbase.spark.file import FileOfSpark
from simhbase.spark.fingerprints import PROBLEM, id_of, text_of
from simhbase.spark.guard import guarded
from simhbase.spark.places import LINE_BITS, MOST_FILES, MOST_ON_LINE, PART_BITS, place_of

FORMATS: tuple[Format, ...] = ("jsonl", "parquet")
_OPTIONS: Mapping[Format, Sequence[str]] = {
    "jsonl": ("id_field", "text_field", "id_prefix", "html", "max_record_bytes"),
    "parquet": ("id_field", "text_field"),
}
_SET_BY_JOBS = ("format", "value_field", "whole_rows")
PLACE, VALUE, ROW = "__simhbase_order", "value", "row"
_LINES = f"id binary, text binary, {VALUE} string, {ROW} binary, {PROBLEM} string, {PLACE} long"
_PATH, _BEGIN = "path", "begin"
_PACKED = (".gz", ".bz2", ".zst", ".deflate", ".lz4", ".snappy")  # by these endings Spark unpacks files
_MOST_INTEGER = (1 << 31) - 1
_FOOTERS_AT_ONCE = 16  # a server may take long for each
_TOO_MANY = f"more than {MOST_ON_LINE} JSON objects on one line: write one a line (jq -c . does it)"


@dataclass(frozen=True)
class Files:
    """The files of a corpus in input order: by the paths given, and in a folder by name, its own before those
    of its subfolders.

    given: the paths; names: of the files, as messages show them; origins: for each file the folder that was
    given, or its own name; uris: as Spark names them; format: of all.
    """

    given: Sequence[str]
    names: Sequence[str]
    origins: Sequence[str]
    uris: Sequence[str]
    format: Format

    @classmethod
    def find(cls, session: SparkSession, given: Sequence[str], file_format: Format | None) -> Self:
        """List the files. Raises UsageError if there are none, for files given twice, and for formats that
        Spark does not read here."""
        from pyspark.errors import AnalysisException

        names, origins, uris = list[str](), list[str](), list[str]()
        for path in given:
            try:
                # Spark only lists files here, whatever they hold.
                found = _reader(session).text(path).inputFiles()
            except AnalysisException as error:
                raise UsageError(
                    f"cannot read {redacted(path)}: Spark finds no such file or folder"
                ) from error
            if not found:
                raise UsageError(
                    f"no input: no files in {redacted(path)} (Spark passes over names that begin with _ or .)"
                )
            require_within(
                path, [_plain(uri).removeprefix("file:") for uri in found if uri.startswith("file:")]
            )
            for uri in sorted(map(_plain, found), key=_order):
                uris.append(uri)
                names.append(_name(uri, path))
                origin = public_name(path) if "://" in path else path
                origins.append(origin if names[-1].startswith(f"{origin.rstrip('/')}/") else names[-1])
        if not uris:
            raise UsageError(f"no input: no files in {', '.join(map(redacted, given))}")
        if len(set(uris)) < len(uris):
            twice = next(name for uri, name in zip(uris, names, strict=True) if uris.count(uri) > 1)
            raise UsageError(f"{twice} is given twice: give each file once")
        if len(set(names)) < len(names):  # places of documents are found by them
            alike = Counter(names).most_common(1)[0][0]
            raise UsageError(f"two files are shown as {alike}, without what may be secret: rename one")
        if len(uris) > MOST_FILES:
            raise UsageError(f"{len(uris):,} files are more than {MOST_FILES:,}: join some of them first")
        return cls(given, names, origins, uris, file_format or _format_of(names))

    def rows(
        self,
        session: SparkSession,
        options: InputOptions,
        preferred: Preference | None,
        count_field: str | None,
    ) -> InputRows:
        """The rows of all files, in input order. options: the fields; preferred: whether a value is chosen by
        (options.value_field); count_field: no record may have it."""
        for option in fields(InputOptions):
            is_given = getattr(options, option.name) != option.default
            if is_given and option.name not in (*_SET_BY_JOBS, *_OPTIONS[self.format]):
                raise UsageError(f"has no effect on {self.format} on Spark", parameter=option.name)
        if self.format == "parquet":
            self._require_all_rows(session)
            # Spark takes the columns of one file for those of all, and drops others without a word.
            reader = _reader(session).option("mergeSchema", "true")
            df = self._table(reader.parquet(*self.given))
            order = [F.col(PLACE).alias(ORDER)]
            document, text = id_of(df, options.id_field), text_of(df, options.text_field)
            return InputRows(df, document, text, order, is_placed=True)
        df = self._lines(_reader(session).text(list(self.given)), options, count_field)
        values: list[Column] | None = None
        if preferred is not None and preferred.field is not None:
            values = [F.nullif(F.col(VALUE), F.lit("")).alias(WORDS)]
        text = F.col("text").cast("string")
        order = [F.col(PLACE).alias(ORDER)]
        return InputRows(df, F.col("id").cast("string"), text, order, F.col(PROBLEM), values, is_placed=True)

    def _table(self, df: DataFrame) -> DataFrame:
        numbers = [(uri, number) for number, uri in enumerate(self.uris)]
        known = df.sparkSession.createDataFrame(numbers, f"{_PATH} string, source long")
        decoded = F.url_decode(F.regexp_replace("_metadata.file_path", r"\+", "%2B"))
        path = F.regexp_replace(decoded, "^file:/+", "file:/")
        line = F.col("_metadata.row_index") + 1
        placed = df.select("*", path.alias("__path"), line.alias("__line"))
        joined = placed.join(F.broadcast(known), F.col("__path") == F.col(_PATH))
        place = F.shiftleft(F.shiftleft("source", LINE_BITS) + F.col("__line"), PART_BITS)
        return joined.withColumn(PLACE, place).select(*(F.col(f"`{name}`") for name in df.columns), PLACE)

    def _lines(self, df: DataFrame, options: InputOptions, count_field: str | None) -> DataFrame:
        path, begin = (
            F.col("_metadata.file_path").alias(_PATH),
            F.col("_metadata.file_block_start").alias(_BEGIN),
        )
        sizes = df.select(path, begin).groupBy(_PATH, _BEGIN).count().collect()
        before: dict[str, int] = {}
        begins: dict[tuple[str, int], int] = {}
        for block, start, count in sorted(map(tuple, sizes)):
            begins[block, start] = before.get(block, 0)
            before[block] = begins[block, start] + count
        self._require_whole(df.sparkSession, set(map(_plain, before)))
        sources = dict(zip(self.uris, enumerate(self.names), strict=True))
        work = _LineParser(options, {each: sources[_plain(each)] for each in before}, begins, count_field)
        # Java reads a line whole; of one that is too long no more is handed over than tells this.
        most = min(options.max_record_bytes, _MOST_INTEGER - 1) + 1
        line = F.substring(F.col("value").cast("binary"), 1, most).alias("line")
        lines = df.select(line, path, begin)
        return lines.mapInArrow(guarded(work), _LINES)

    def _require_whole(self, session: SparkSession, read: Set[str]) -> None:
        """Raises BadInput for a packed file without a byte. read: files with lines."""
        context = session.sparkContext
        for uri, name in zip(self.uris, self.names, strict=True):
            if uri in read or not uri.endswith(_PACKED):
                continue
            with FileOfSpark.open(context, uri) as file:
                if file.size == 0:
                    raise BadInput(f"{name} is empty, which no packed file is: it was cut short")

    def _require_all_rows(self, session: SparkSession) -> None:
        """Raises BadInput for a file of Parquet whose footer leaves out rows: Spark takes it at its word."""

        def footer(uri: str, name: str) -> tuple[bytes, int]:
            with FileOfSpark.open(session.sparkContext, uri) as file, _named(name):
                return footer_of(file), file.size

        tables = IsolatedReader(load_pyarrow)
        with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as threads, closing(tables):
            footers = threads.map(footer, self.uris, self.names)
            for name, (found, size) in zip(self.names, footers, strict=True):
                with _named(name):
                    if found:
                        bounds = bounds_of(len(found))
                        deque(tables.answers(require_all_rows, BytesIO(found), size, bounds=bounds), 0)


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Errors about a file begin with its name."""
    try:
        yield
    except (BadInput, LimitExceeded) as error:
        raise BadInput(f"{name}: {error}") from error


@dataclass(frozen=True)
class _LineParser:
    """Batches of lines -> a row for each record. sources: number and name of each file; begins: number of
    lines before each block of a file; count_field: which no record may have."""

    options: InputOptions
    sources: Mapping[str, tuple[int, str]]
    begins: Mapping[tuple[str, int], int]
    count_field: str | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parser = Parser(self.options)
        # A worker process beside this one, and as many tasks on the machine as it has cores.
        with closing(extracted(self._chunks(batches), self.options, 1, usable_threads())) as chunks:
            for items in chunks:
                yield self._batch(parser.parse(items))

    def _chunks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[list[Raw | Reject]]:
        block, number = ("", -1), 0
        for batch in batches:
            raw: list[Raw | Reject] = []
            for line, path, begin in zip(*(each.to_pylist() for each in batch.columns), strict=True):
                if (path, begin) != block:
                    block = path, begin
                    number = self.begins[block]
                number += 1
                if line and not line.isspace():
                    raw.append(self._raw(line, self.sources[path][1], number))
            yield raw

    def _raw(self, line: bytes, source: str, number: int) -> Raw | Reject:
        if len(line) > self.options.max_record_bytes:
            return Reject(source, number, None, too_long(len(line), self.options))
        return Raw(source, number, None, line.removesuffix(b"\r"), None, "json")

    def _batch(self, items: Sequence[Record | Reject]) -> pa.RecordBatch:
        numbers = {name: number for number, name in self.sources.values()}
        columns: list[list[object]] = [[], [], [], [], [], []]
        last, part = None, 0
        for item in items:
            part = part + 1 if (item.source, item.line) == last else 0
            last = item.source, item.line
            place = place_of(numbers[item.source], item.line or 0, part)
            given = Reject(item.source, item.line, item.id, _TOO_MANY) if part >= MOST_ON_LINE else item
            for column, value in zip(columns, [*self._cells(given), place], strict=True):
                column.append(value)
        kinds = [pa.binary(), pa.binary(), pa.string(), pa.binary(), pa.string(), pa.int64()]
        arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, ["id", "text", VALUE, ROW, PROBLEM, PLACE])

    def _cells(self, item: Record | Reject) -> list[object]:
        if isinstance(item, Reject):
            return [_bytes(item.id), None, None, None, item.reason]
        row = unique_line(item)
        if self.count_field is not None:
            require_new_field(item, row, self.count_field, "count_field")
        value = None if item.value is None else str(item.value)
        return [_bytes(item.id), _bytes(item.text), value, row, None]


def require_within(given: str, files: Iterable[str]) -> None:
    """Raise UsageError for a link that leads out of a folder or glob, which Spark would follow. files: paths
    on this machine."""
    path = _plain(given).removeprefix("file:")
    root = Path(*takewhile(lambda part: not has_magic(part), Path(path).parts))
    if not root.is_dir():
        return
    real_root = resolved(root)
    for file in files:
        if not resolved(Path(file)).is_relative_to(real_root):
            raise UsageError(
                f"{printable(file)} leads out of {printable(given)} by a link: name what it leads to"
            )


def counted(field_name: str, count: str) -> Column:
    """The rows of JSON lines with one more field, from a column of counts; as `counted_line`."""
    before = F.expr(f"substring({ROW}, 1, length({ROW}) - 1)")
    field = F.lit(f",{orjson.dumps(field_name).decode()}:").cast("binary")
    number = F.col(count).cast("string").cast("binary")
    return F.concat(before, field, number, F.lit("}").cast("binary"))


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode(errors="surrogatepass")


def _reader(session: SparkSession):  # type: ignore[no-untyped-def]  # of PySpark
    found = session.read.option("recursiveFileLookup", "true").option("lineSep", "\n")
    # Whatever the cluster does: what cannot be read would be left out without a word.
    return found.option("ignoreCorruptFiles", "false").option("ignoreMissingFiles", "false")


def _plain(uri: str) -> str:
    """One form of the URIs that Spark gives in several: decoded, local ones with one slash."""
    return re.sub("^file:/+", "file:/", unquote(uri))


def _name(uri: str, given: str) -> str:
    """A file as messages and lists show it: a local one by its path, relative if it was given so."""
    if not uri.startswith("file:"):
        return public_name(uri)
    path = Path(uri.removeprefix("file:"))
    if "://" in given or given.startswith(("file:", "/")):
        return str(path)
    return os.path.relpath(path)


def _order(uri: str) -> list[tuple[bool, str]]:
    *folders, name = uri.split("/")
    return [*((True, each) for each in folders), (False, name)]


def _format_of(names: Iterable[str]) -> Format:
    """The format of all files. Raises UsageError."""
    found: dict[Format, str] = {}
    for name in names:
        found.setdefault(format_of(name) or "jsonl", name)
    (first, example), *others = found.items()
    if others:
        other, second = others[0]
        raise UsageError(
            f"{example} is {first}, and {second} is {other}: read files of one format, or say which all are",
            parameter="format",
        )
    if first not in FORMATS:
        raise UsageError(
            f"{example} is {first}: on Spark {' and '.join(FORMATS)} are read; convert it first",
            parameter="format",
        )
    return first
