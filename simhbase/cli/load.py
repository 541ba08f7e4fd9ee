"""`simhbase load`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from simhbase.cli.inputs import end, input_options, or_stdin, output_option
from simhbase.cli.options import (
    command,
    converted,
    min_similarity_option,
    option,
    pairs,
    profile_options,
    scope_option,
    seconds,
    store_option,
    tag_option,
)
from simhbase.cli.output import Output, json_option
from simhbase.process.interrupt import ignore_interrupts

if TYPE_CHECKING:
    from simhbase.corpus.inputs import Inputs


@command(
    epilog="""\b
Examples:
  simhbase load news.jsonl.gz
  simhbase load --text-field body --id-prefix 2024/ 'archive/*.csv'
  curl -s https://example.org/dump.gz | simhbase load --unique-only --duplicates duplicates.jsonl -
"""
)
@store_option
@scope_option
@profile_options
@option("--unique-only", "Store only documents without a stored match.", group="Documents")
@min_similarity_option("With --unique-only: minimum Jaccard similarity of a duplicate.", "Documents")
@option("--skip-existing", "Skip documents whose id is stored.", group="Documents")
@tag_option("Tag all documents. Repeatable.", "Documents")
@option(
    "--tag-field NAME=FIELD",
    "Tag each document with the value of a field. Repeatable.",
    name="tag_fields",
    group="Documents",
    multiple=True,
    callback=converted(pairs),
)
@input_options(fingerprints=True, by_source="the files and folders given", tables=True)
@option(
    "--name NAME",
    "Name under which the load is recorded and resumed. [default: from inputs, options and folder]",
    group="Run",
)
@option(
    "--lock-wait TIME",
    "How long to wait for another writer, e.g. 30m.",
    group="Run",
    default="0",
    callback=converted(seconds),
)
@option(
    "--via hfiles",
    "Write HFiles and load them, bypassing gateways and write-ahead logs.",
    group="Run",
    type=click.Choice(["hfiles"]),
)
@option(
    "--work-folder FOLDER|URI",
    "With --via: folder for files, about 1 kB per document. [default: TMPDIR]",
    group="Run",
)
@output_option("--unique", "With --unique-only: write stored documents here (.jsonl, .csv, .tsv, .parquet).")
@output_option("--duplicates", "With --unique-only: write duplicates here, with the document they match.")
@output_option("--evidence", "With --unique-only: write why each duplicate was not stored.")
@output_option("--new", "Write documents that were added or changed (.jsonl, .csv, .tsv, .parquet).")
@json_option
def load(inputs: Inputs, url: str, output: Output, **arguments: Any) -> None:
    """Fingerprint documents and store them.

    A document whose id is stored is replaced. An embedded store is created if it does not exist, with the
    given profile; an existing one keeps its own.

    To resume a load that was stopped or killed, run the same command again. 'simhbase loads' lists loads.
    """
    from simhbase.loads.job import Load
    from simhbase.loads.load import loading

    with loading(Load(inputs=or_stdin(inputs), store=url, **arguments)) as report:
        # A finished load that says it was stopped would be run again, and start over.
        ignore_interrupts()
        output.summary(report)  # before the load is noted as finished
    end(report.counts, inputs)
