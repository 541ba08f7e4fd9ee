"""`simhbase spark`: commands that run on Spark, also from spark-submit."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from simhbase.cli.dedup import grouping_options
from simhbase.cli.find import matches_options
from simhbase.cli.inputs import Console, end, max_rejects_option
from simhbase.cli.options import (
    Function,
    Group,
    converted,
    ids_limit_option,
    matches_limit_option,
    min_similarity_option,
    option,
    pairs,
    profile_options,
    scope_option,
    store_option,
    together,
)
from simhbase.cli.output import Output, json_option
from simhbase.errors import UsageError
from simhbase.model.values import Query

if TYPE_CHECKING:
    from simhbase.corpus.record import Format
    from simhbase.deduplication.report import DedupReport
    from simhbase.loads.load import LoadReport
    from simhbase.spark.answer_files import AnswersReport

    Report = AnswersReport | DedupReport | LoadReport

_PYTHON, _SUBMITTED = "PYSPARK_PYTHON", "PYSPARK_GATEWAY_PORT"

_session_options = together(
    option(
        "--master URL",
        "Spark's master, e.g. 'local[4]' or spark://HOST:7077. [default: as spark-submit says, or all cores "
        "of this machine]",
        group="Spark",
    ),
    option(
        "--conf NAME=VALUE",
        "Set a property of Spark. Repeatable.",
        name="settings_of_spark",
        group="Spark",
        multiple=True,
        callback=converted(pairs),
    ),
    option(
        "--log-level LEVEL",
        "What Spark logs: OFF, ERROR, WARN or INFO.",
        group="Spark",
        default="OFF",
        type=click.Choice(["OFF", "ERROR", "WARN", "INFO"]),
    ),
)
_input_options = together(
    click.argument("inputs", nargs=-1, required=True, metavar="FILE | FOLDER | GLOB | URI..."),
    option(
        "--format FORMAT",
        "Input format: jsonl, parquet. [default: by the files' names]",
        group="Input",
        type=click.Choice(["jsonl", "parquet"]),
    ),
    option("--id-field FIELD", "Field with the id.", group="Input", default="id"),
    option(
        "--id-prefix TEXT",
        "Put this before every id; {file} is the file's name without endings. Only of JSON lines.",
        group="Input",
        default="",
    ),
    option(
        "--text-field FIELD",
        "Field or column with the text; content.body is nested.",
        group="Input",
        default="text",
    ),
    option("--html", "The text field holds HTML; extract the main text. Only of JSON lines.", group="Input"),
    option("--rejects FOLDER", "List rejected records here, as JSON lines.", group="Input"),
    max_rejects_option,
)
_outputs_options = together(
    option("--report FILE", "Write the report here, as JSON.", group="Outputs"),
    option("--overwrite", "Replace outputs that exist.", group="Outputs"),
)
_answers_option = option(
    "--answers FOLDER",
    "Write answers here, the lines of --json on one machine.",
    group="Outputs",
    required=True,
)


@dataclass(frozen=True)
class _Listed:
    """What was read, and the folder of its rejects."""

    watcher: Console
    rejects: str | None


def _use_this_python(master: str | None) -> None:
    """On this machine, processes of Spark use the Python that runs this command."""
    if _SUBMITTED not in os.environ and (master is None or master.startswith("local")):
        os.environ.setdefault(_PYTHON, sys.executable)


def _on_spark(run: Callable[..., Report]) -> Function:
    """A command: its function gets a session, a console and how to read the inputs, and returns a report."""

    @_session_options
    @json_option
    @wraps(run)
    def command(
        format: Format | None,  # noqa: A002  # the option's name
        id_field: str,
        id_prefix: str,
        text_field: str,
        html: bool,
        master: str | None,
        settings_of_spark: Mapping[str, str],
        log_level: str,
        output: Output,
        **arguments: Any,
    ) -> None:
        from simhbase.corpus.record import InputOptions
        from simhbase.spark.session import session_of

        options = InputOptions(
            format=format, id_field=id_field, id_prefix=id_prefix, text_field=text_field, html=html
        )
        console = Console()
        _use_this_python(master)
        with session_of(f"simhbase spark {run.__name__}", master, settings_of_spark, log_level) as session:
            report = run(session=session, options=options, watcher=console, **arguments)
        output.summary(report)
        end(report.counts, _Listed(console, arguments["rejects"]))

    return command


@click.group(cls=Group)
def spark() -> None:
    """Find near-duplicates on Spark.

    For corpora that are too large for one machine. Each command has the options, lists, report and exit codes
    of the command of the same name. Outputs are folders, which get their names at the end, all together.
    docs/spark.md shows how to run one by spark-submit.
    """


@spark.command(
    short_help="Find near-duplicates within one corpus.",
    epilog="""\b
Examples:
  simhbase spark dedup --master 'local[4]' --unique unique --duplicates duplicates corpus/
  simhbase spark dedup --keep newest --date-field day --rejects rejects --report report.json corpus/""",
)
@profile_options
@grouping_options
@option(
    "--partitions N",
    "Tasks of each shuffle. [default: as many as cores, or more so that none has over 64 MB]",
    group="Spark",
    type=click.IntRange(min=1),
)
@_input_options
@option("--unique FOLDER", "Write kept documents here, in the format of the input.", group="Outputs")
@option(
    "--count-field FIELD",
    "With --unique: write the size of a group into this new field of the kept document.",
    group="Outputs",
)
@option("--duplicates FOLDER", "Write duplicates here, with their representative and group.", group="Outputs")
@_outputs_options
@_on_spark
def dedup(**arguments: Any) -> DedupReport:
    """Find near-duplicates within one corpus, without a store.

    The groups, and the order of documents, are those of 'simhbase dedup': by the files and their lines. A
    file is read in pieces, except one in gzip.
    """
    from simhbase.spark.dedup_files import dedup_files

    return dedup_files(**arguments)


@spark.command(
    short_help="Load documents without a stored near-duplicate.",
    epilog="""\b
Example:
  simhbase spark load --unique-only --store postgresql://host/news --name 2026-11-22 --work hdfs:///nights \\
      --unique hdfs:///new --duplicates hdfs:///old --report report.json hdfs:///crawl/2026-11-22""",
)
@store_option
@profile_options
@option("--unique-only", "Store only documents without a stored match.", group="Documents", required=True)
@min_similarity_option("Minimum Jaccard similarity of a duplicate.", "Documents")
@_input_options
@option("--name NAME", "Name of the load, one for each night.", group="Run", required=True)
@option(
    "--work FOLDER",
    "Keep decisions here, so that a stopped load ends as it would have.",
    group="Run",
    required=True,
)
@option("--again", "Drop the decisions of an earlier run of this name, and decide again.", group="Run")
@option("--unique FOLDER", "Write stored documents here, in the format of the input.", group="Outputs")
@option("--duplicates FOLDER", "Write duplicates here, with the document they match.", group="Outputs")
@_outputs_options
@_on_spark
def load(url: str, unique_only: bool, **arguments: Any) -> LoadReport:
    """Load the documents of a night that have no near-duplicate, stored or earlier tonight.

    The store and the lists are those of 'simhbase load --unique-only', with the night as one batch. To
    resume a load that was stopped or killed, run the same command again.
    """
    from simhbase.spark.load_files import load_files

    if not unique_only:
        raise UsageError("Spark loads only documents without a stored match", parameter="unique_only")
    return load_files(store=url, **arguments)


@spark.command(
    short_help="Find stored near-duplicates of documents.",
    epilog="""\b
Example:
  simhbase spark find --store postgresql://host/news --answers hdfs:///near --rejects hdfs:///bad \\
      hdfs:///crawl/2026-11-22""",
)
@store_option
@scope_option
@matches_options
@_input_options
@_answers_option
@_outputs_options
@_on_spark
def find(
    url: str,
    k: int | None,
    min_similarity: float | None,
    since: datetime | None,
    tags: Mapping[str, str],
    **arguments: Any,
) -> AnswersReport:
    """Find stored near-duplicates of the documents of files.

    Executors read the store. The answers are those of 'simhbase find --json', in input order.
    """
    from simhbase.spark.answer_files import find_files

    return find_files(store=url, query=Query(k, min_similarity, since, tags), **arguments)


@spark.command(
    short_help="Find near-duplicates of documents in other files.",
    epilog="""\b
Example:
  simhbase spark match --against hdfs:///archive --min-similarity 0.75 --answers hdfs:///near hdfs:///today""",
)
@option(
    "--against FILE",
    "Search the documents of this file, folder or glob. Repeatable.",
    group="Queries",
    multiple=True,
    required=True,
)
@profile_options
@min_similarity_option("Minimum Jaccard similarity of the texts.")
@ids_limit_option
@matches_limit_option
@_input_options
@_answers_option
@_outputs_options
@_on_spark
def match(**arguments: Any) -> AnswersReport:
    """Find near-duplicates of documents among those of other files, without a store.

    If the files are the same, each document is looked up among the others. The answers are those of 'simhbase
    match --json', in input order.
    """
    from simhbase.spark.answer_files import match_files

    return match_files(**arguments)
