"""Loads the documents of files that have no near-duplicate into a store on Spark: what `simhbase load
--unique-only` does, with its lists and its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from time import monotonic
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the usual name

from simhbase.corpus.outputs.files import Duplicate, duplicate_line
from simhbase.corpus.record import InputOptions
from simhbase.corpus.rejects import Counts, Rejects
from simhbase.corpus.watcher import NULL_WATCHER, Watcher
from simhbase.deduplication.report import LARGEST, GroupSize
from simhbase.jobs.source_report import warnings_of
from simhbase.loads.load import LoadReport
from simhbase.model.urls import redacted
from simhbase.profile.profile import Profile
from simhbase.spark.dedup import DISTANCE, PLACE, SIMILARITY, require_same_rows
from simhbase.spark.dedup_files import (
    as_lines,
    counted_documents,
    reject_lines,
    report_as_json,
    reports_of_sources,
    showing_tasks,
    write_unique,
)
from simhbase.spark.failures import raised_clearly
from simhbase.spark.files import Files
from simhbase.spark.fingerprints import ID
from simhbase.spark.folders import Outputs
from simhbase.spark.places import SOURCE_SHIFT, line_of, source_of
from simhbase.spark.session import for_files, shuffle_as_read
from simhbase.spark.unique import DUPLICATE_OF, SparkLoadReport, load_rows, stored_rows

_AT = "at"
_PLACE_ORDER = f"{PLACE}.order"


def load_files(
    session: SparkSession,
    inputs: Sequence[str],
    store: str,
    profile: Profile | Mapping[str, object] | None = None,
    *,
    name: str,
    work: str,
    options: InputOptions | None = None,
    min_similarity: float | None = None,
    again: bool = False,
    unique: str | None = None,
    duplicates: str | None = None,
    rejects: str | None = None,
    report: str | None = None,
    max_rejects: float | None = None,
    overwrite: bool = False,
    watcher: Watcher = NULL_WATCHER,
) -> LoadReport:
    """Load what is unique in files into a store, as `simhbase.load` with `unique_only`, with the same lists.
    See `unique_load` for store, profile, name, work, min_similarity and again, and `dedup_files` for others.
    max_rejects is checked before anything is stored.

    Raises UsageError for invalid arguments and outputs that exist, before anything is read; TooManyRejects;
    OutputFailed; the errors of `unique_load`.
    """
    start, session = monotonic(), for_files(session)
    named = {"unique": unique, "duplicates": duplicates, "rejects": rejects, "report": report}
    outputs = Outputs(session, {key: path for key, path in named.items() if path is not None}, overwrite)
    rejected = Rejects(None, max_rejects, watcher)
    with raised_clearly(), showing_tasks(session, watcher):
        outputs.require(inputs)
        files = Files.find(session, inputs, (options or InputOptions()).format)
        read = replace(options or InputOptions(), format=files.format, whole_rows=True)
        rows = files.rows(session, read, None, None)
        shuffle_as_read(rows.df)
        counted: list[tuple[Counts, Mapping[int, tuple[int, int]]]] = []

        def check(decisions: DataFrame) -> None:
            counted.append(counted_documents(decisions, files, rejected))
            watcher.note(f"decided in {redacted(work)}: {counted[0][0].used:,} documents")

        done, decisions = load_rows(
            rows,
            store,
            profile,
            name=name,
            work=work,
            read_as=[read.id_field, read.id_prefix, read.text_field, read.html, read.format],
            min_similarity=min_similarity,
            again=again,
            check=check,
        )
        counts, tallies = counted[0]
        made = _report(decisions, done, files, counts, tallies)
        with outputs.written():
            if "duplicates" in outputs.paths:
                _duplicates(decisions, files).write.text(outputs.part("duplicates"))
            if "rejects" in outputs.paths:
                reject_lines(decisions, files).write.text(outputs.part("rejects"))
            if "unique" in outputs.paths:
                seen = Observation()
                write_unique(outputs, files, stored_rows(rows, decisions, seen))
                require_same_rows(seen, decisions)
            made = replace(made, seconds=round(monotonic() - start, 3))
            if report is not None:
                outputs.write("report", report_as_json(asdict(made)) + b"\n")
    for warning in warnings_of(made.sources):
        watcher.note(warning)
    return made


def _duplicates(decisions: DataFrame, files: Files) -> DataFrame:
    """The lines of the list of duplicates, in input order."""
    found = decisions.where(F.col(DUPLICATE_OF).isNotNull()).withColumn(_AT, F.col(_PLACE_ORDER))
    names = list(files.names)

    def line(row: Sequence[Any]) -> bytes:
        *values, at = row
        found = Duplicate(*values)._replace(source=names[source_of(at)], line=line_of(at))
        return duplicate_line(found)

    return as_lines(found.orderBy(_AT).select(ID, DUPLICATE_OF, DISTANCE, SIMILARITY, _AT), line)


def _report(
    decisions: DataFrame,
    done: SparkLoadReport,
    files: Files,
    counts: Counts,
    tallies: Mapping[int, tuple[int, int]],
) -> LoadReport:
    removed = decisions.where(F.col(DUPLICATE_OF).isNotNull())
    removed_of = dict(map(tuple, removed.groupBy(F.shiftright(_PLACE_ORDER, SOURCE_SHIFT)).count().collect()))
    sizes = removed.groupBy(DUPLICATE_OF).agg(F.count("*").alias("size"), F.min(_PLACE_ORDER).alias(_AT))
    largest = sizes.orderBy(F.desc("size"), _AT).limit(LARGEST).collect()
    values = asdict(done)
    del values["decided_before"]
    return LoadReport(
        **values,
        unreadable_sources=0,
        unusable_sources=counts.unusable_sources,
        seconds=0.0,
        sources=reports_of_sources(files, tallies, removed_of),
        largest=tuple(GroupSize(row[DUPLICATE_OF], row["size"] + 1) for row in largest),
        counts=counts,
    )
