"""Finds near-duplicates in files on Spark: what `simhbase dedup` does, with its lists and its report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from threading import Event, Thread
from time import monotonic
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from simhbase.corpus.outputs.files import Duplicate, duplicate_line, reject_line
from simhbase.corpus.record import InputOptions, Reject
from simhbase.corpus.rejects import Counts, Rejects, is_unusable
from simhbase.corpus.watcher import NULL_WATCHER, Watcher
from simhbase.deduplication.dates import DateOrder, DateUnit
from simhbase.deduplication.report import LARGEST, DedupReport, GroupSize
from simhbase.errors import UsageError
from simhbase.jobs.source_report import GIVEN_SOURCES, SourceReport, warnings_of, weightiest
from simhbase.model import wire
from simhbase.profile.profile import Profile
from simhbase.spark.dedup import (
    APART,
    CONTAINMENT,
    DISTANCE,
    GROUP,
    PLACE,
    REPEATED,
    REPRESENTATIVE,
    SIMILARITY,
    TRUNCATED,
    Rule,
    changed_input,
    grouped_documents,
    read_documents,
    require_same_rows,
)
from simhbase.spark.failures import raised_clearly
from simhbase.spark.files import PLACE as HIDDEN
from simhbase.spark.files import ROW, Files, counted
from simhbase.spark.fingerprints import ID, PROBLEM, REASON
from simhbase.spark.folders import Outputs
from simhbase.spark.guard import guarded
from simhbase.spark.places import SOURCE_SHIFT, line_of, source_of
from simhbase.spark.session import PARTITIONS, for_files

_COUNT, _KEPT_AT, _AT = "__simhbase_count", "kept_at", "at"
_PLACE_ORDER = f"{PLACE}.order"
_REJECTS_AT_ONCE = 1000
_LOOKED_AT = 1.0  # seconds between two looks at Spark's progress


def dedup_files(
    session: SparkSession,
    inputs: Sequence[str],
    profile: Profile | Mapping[str, object] | None = None,
    *,
    options: InputOptions | None = None,
    min_similarity: float | None = None,
    min_containment: float | None = None,
    keep: str = "first",
    date_field: str = "date",
    date_order: DateOrder | None = None,
    date_unit: DateUnit | None = None,
    chains: bool = False,
    partitions: int | None = None,
    unique: str | None = None,
    duplicates: str | None = None,
    rejects: str | None = None,
    report: str | None = None,
    count_field: str | None = None,
    max_rejects: float | None = None,
    overwrite: bool = False,
    watcher: Watcher = NULL_WATCHER,
) -> DedupReport:
    """Find near-duplicates in files, as `simhbase.dedup` does, with the same lists: see there for the
    parameters that have the same names. Documents are in the order of the files and their lines. partitions:
    as of `dedup`.

    inputs: files, folders or globs of any file system that Spark reads, of JSON lines (also in .gz and .bz2)
    or Parquet. options: format, id_field, id_prefix, text_field, html, max_record_bytes.
    unique, duplicates, rejects: folders to write, with a file for each partition: JSON lines in input order
    (`unique` in any order, and Parquet for Parquet). report: file for the report, as JSON. max_rejects: as of
    `Inputs`; checked before texts are compared. overwrite: replace outputs that exist. Outputs get their
    names at the end, all together.

    Raises UsageError for invalid arguments and outputs that exist, before anything is read; TooManyRejects;
    OutputFailed; the errors of `dedup`.
    """
    start, session = monotonic(), for_files(session, partitions)
    options = options or InputOptions()
    named = {"unique": unique, "duplicates": duplicates, "rejects": rejects, "report": report}
    outputs = Outputs(session, {name: path for name, path in named.items() if path is not None}, overwrite)
    if count_field is not None and unique is None:
        raise UsageError("needs a folder of unique documents", parameter="count_field")
    rule = Rule.of(
        profile,
        min_similarity,
        min_containment,
        keep,
        date_field,
        date_order,
        date_unit,
        chains=chains,
        partitions=partitions,
    )
    with raised_clearly(), showing_tasks(session, watcher):
        outputs.require(inputs)
        files = Files.find(session, inputs, options.format)
        value_field = None if rule.preferred is None else rule.preferred.field
        options = replace(options, format=files.format, value_field=value_field, whole_rows=True)
        rows = files.rows(session, options, rule.preferred, count_field)
        documents, partitions = read_documents(rows, rule)
        session.conf.set(PARTITIONS, f"{partitions}")
        counts, tallies = counted_documents(documents, files, Rejects(None, max_rejects, watcher))
        watcher.note(f"read {counts.used + counts.rejected:,} documents, rejected {counts.rejected:,}")
        answers, distinct = grouped_documents(documents, rows, rule, partitions)
        made = _report(answers, files, counts, tallies)
        watcher.note(f"found {made.duplicates:,} duplicates in {made.group_count:,} groups")
        with outputs.written():
            _write_lists(outputs, files, documents, answers)
            if unique is not None:
                seen = Observation()
                rejected = documents.where(F.col(REASON).isNotNull())
                kept = rows.kept(answers, rejected, None if count_field is None else _COUNT, seen)
                write_unique(outputs, files, kept, count_field)
                require_same_rows(seen, documents)
            made = replace(made, seconds=round(monotonic() - start, 3))
            if report is not None:
                outputs.write("report", report_as_json(asdict(made)) + b"\n")
        for frame in (documents, answers, distinct):
            frame.unpersist()
    for warning in warnings_of(made.sources):
        watcher.note(warning)
    return made


def _write_lists(outputs: Outputs, files: Files, documents: DataFrame, answers: DataFrame) -> None:
    if "duplicates" in outputs.paths:
        _duplicates(answers, files).write.text(outputs.part("duplicates"))
    if "rejects" in outputs.paths:
        reject_lines(documents, files).write.text(outputs.part("rejects"))


def write_unique(outputs: Outputs, files: Files, kept: DataFrame, count_field: str | None = None) -> None:
    """Write the kept rows in the format of the input."""
    if files.format == "parquet":
        table = kept.drop(HIDDEN)
        named = table if count_field is None else table.withColumnRenamed(_COUNT, count_field)
        named.write.parquet(outputs.part("unique"))
    else:
        line = F.col(ROW) if count_field is None else counted(count_field, _COUNT)
        kept.select(line.cast("string")).write.text(outputs.part("unique"))


def report_as_json(report: Mapping[str, object]) -> bytes:
    """As the command prints it. report: its fields, by name."""
    return wire.encode_any_text({name: value for name, value in report.items() if name != "counts"})


@dataclass(frozen=True)
class _Outcome:
    """Some rejects, and records that were used."""

    rejects: list[Reject]
    parsed: int = 0
    used: Mapping[str, int] = field(default_factory=dict)


def counted_documents(
    documents: DataFrame, files: Files, rejects: Rejects
) -> tuple[Counts, Mapping[int, tuple[int, int]]]:
    """Counts of all documents, and the numbers of used and rejected ones of each file. Raises
    TooManyRejects."""
    known = PROBLEM in documents.columns
    source = F.shiftright(_PLACE_ORDER, SOURCE_SHIFT).alias("source")
    used, lost = F.count_if(F.col(REASON).isNull()), F.count_if(F.col(REASON).isNotNull())
    unparsed = F.count(PROBLEM) if known else F.lit(0)
    found = documents.groupBy(source).agg(used, lost, unparsed).orderBy("source").collect()
    tallies = {row[0]: (row[1], row[2]) for row in found}
    all_used = sum(each for each, _ in tallies.values())
    bad = (_reject(row, files) for row in _rejected(documents).toLocalIterator())
    while some := list(islice(bad, _REJECTS_AT_ONCE)):
        rejects.note(_Outcome(some))
    counts = replace(
        rejects.counts,
        parsed=all_used + sum(lost - unparsed for _, _, lost, unparsed in map(tuple, found)),
        used=all_used,
        tallies={files.names[number]: each for number, each in tallies.items() if is_unusable(*each)},
    )
    rejects.counts = counts
    rejects.require_share()
    return counts, tallies


def _rejected(documents: DataFrame) -> DataFrame:
    """Place, id and reason of rejected rows, in input order; of ids that repeat also where they came
    before."""
    bad = documents.where(F.col(REASON).isNotNull()).select(F.col(_PLACE_ORDER).alias(_AT), ID, REASON)
    repeated = bad.where(F.col(REASON) == REPEATED)
    accepted = documents.where(F.col(REASON).isNull())
    firsts = accepted.groupBy(ID).agg(F.min(_PLACE_ORDER).alias(_KEPT_AT))
    others = bad.where(F.col(REASON) != REPEATED).withColumn(_KEPT_AT, F.lit(None).cast("long"))
    return repeated.join(firsts, ID).select(*others.columns).unionByName(others).orderBy(_AT)


def _reject(row: Sequence[object], files: Files) -> Reject:
    at, document, reason, before = row
    assert isinstance(at, int)
    if isinstance(before, int):
        reason = f"{reason}, in line {line_of(before)} of {files.names[source_of(before)]}"
    given = None if document is None else str(document)
    return Reject(files.names[source_of(at)], line_of(at), given, str(reason))


def as_lines(rows: DataFrame, line: Callable[[Sequence[Any]], bytes]) -> DataFrame:
    """One column of text: the line of each row."""

    def lines(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            values = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            found = pa.array(list(map(line, values)), pa.binary())
            yield pa.RecordBatch.from_arrays([found.cast(pa.string())], ["line"])

    return rows.mapInArrow(guarded(lines), "line string")


def reject_lines(documents: DataFrame, files: Files) -> DataFrame:
    """The lines of the list of rejects, in input order."""
    return as_lines(_rejected(documents), lambda row: reject_line(_reject(row, files)))


def _duplicates(answers: DataFrame, files: Files) -> DataFrame:
    """The lines of the list of duplicates, in input order."""
    kept = answers.select(F.col(ID).alias(REPRESENTATIVE), F.col(_PLACE_ORDER).alias(_KEPT_AT))
    columns = [ID, REPRESENTATIVE, DISTANCE, SIMILARITY, CONTAINMENT, GROUP, _AT, _KEPT_AT]
    others = answers.where(F.col(ID) != F.col(REPRESENTATIVE)).withColumn(_AT, F.col(_PLACE_ORDER))
    names = list(files.names)

    def line(row: Sequence[Any]) -> bytes:
        *values, at, kept_at = row
        places = names[source_of(at)], line_of(at), names[source_of(kept_at)], line_of(kept_at)
        return duplicate_line(Duplicate._make([*values, *places]))

    return as_lines(others.join(kept, REPRESENTATIVE).select(*columns).orderBy(_AT), line)


def _report(
    answers: DataFrame, files: Files, counts: Counts, tallies: Mapping[int, tuple[int, int]]
) -> DedupReport:
    is_kept = F.col(ID) == F.col(REPRESENTATIVE)
    source = F.shiftright(_PLACE_ORDER, SOURCE_SHIFT)
    kept = (F.count_if(is_kept), *(F.count_if(F.col(flag) & is_kept) for flag in (APART, TRUNCATED)))
    of_sources = answers.groupBy(source).agg(F.count("*"), *kept).collect()
    documents, unique, apart, truncated = (sum(row[column] for row in of_sources) for column in range(1, 5))
    if documents != counts.used:  # a text was not there again
        raise changed_input()
    sizes = answers.groupBy(GROUP).agg(F.count("*").alias(_COUNT), F.min(_PLACE_ORDER).alias(_AT))
    led = Observation()
    several = sizes.where(F.col(_COUNT) > 1).observe(led, F.count("*").alias(_COUNT))
    largest = several.orderBy(F.desc(_COUNT), _AT).limit(LARGEST).collect()
    return DedupReport(
        documents=documents + counts.rejected,
        unique=unique,
        duplicates=documents - unique,
        not_contained=apart,
        truncated=truncated,
        duplicates_of_stored=0,
        group_count=led.get[_COUNT],
        rejected=counts.rejected,
        unreadable_sources=0,
        unusable_sources=counts.unusable_sources,
        seconds=0.0,
        sources=reports_of_sources(files, tallies, {row[0]: row[1] - row[2] for row in of_sources}),
        largest=tuple(GroupSize(row[GROUP], row[_COUNT]) for row in largest),
        counts=counts,
    )


def reports_of_sources(
    files: Files, tallies: Mapping[int, tuple[int, int]], removed_of: Mapping[int, int]
) -> tuple[SourceReport, ...]:
    """Reports of the files and folders given. tallies: used and rejected documents of each file; removed_of:
    its duplicates."""
    by_origin: dict[str, list[int]] = {}
    for number, origin in enumerate(files.origins):
        used, rejected = tallies.get(number, (0, 0))
        known = by_origin.setdefault(origin, [0, 0, 0])
        for place, more in enumerate((used, removed_of.get(number, 0), rejected)):
            known[place] += more
    reports = (
        SourceReport.of(origin, used, removed, rejected, 0)
        for origin, (used, removed, rejected) in by_origin.items()
    )
    return weightiest(reports, GIVEN_SOURCES)


@contextmanager
def showing_tasks(session: SparkSession, watcher: Watcher) -> Iterator[None]:
    """Report the number of finished tasks as progress."""
    tracker, ended = session.sparkContext.statusTracker(), Event()
    finished: dict[int, int] = {}

    def look() -> None:
        done = 0
        while not ended.wait(_LOOKED_AT):
            for stage in tracker.getActiveStageIds():
                if info := tracker.getStageInfo(stage):
                    finished[stage] = info.numCompletedTasks
            before, done = done, sum(finished.values())
            advance(done - before, done)

    with watcher.progress("tasks", lambda: None) as advance:
        looking = Thread(target=look, daemon=True)
        looking.start()
        try:
            yield
        finally:
            ended.set()
            looking.join()
