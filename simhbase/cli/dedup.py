"""`simhbase dedup`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from simhbase.cli.inputs import end, input_options, or_stdin, output_option
from simhbase.cli.options import (
    FiniteRange,
    command,
    min_similarity_option,
    option,
    profile_options,
    together,
)
from simhbase.cli.output import Output, json_option
from simhbase.model.thresholds import SIMILAR

if TYPE_CHECKING:
    from simhbase.corpus.inputs import Inputs


# Shared with the command for Spark.
grouping_options = together(
    min_similarity_option(
        "Minimum Jaccard similarity of texts; 0: compare none. [default: the profile's threshold, or "
        f"{SIMILAR}]"
    ),
    option(
        "--min-containment C",
        "Remove only texts of which the kept one has at least this share, e.g. 0.8.",
        group="Matches",
        type=FiniteRange(0, 1, min_open=True),
    ),
    option(
        "--chains/--no-chains",
        "Group chains of matches, instead of one document and its matches.",
        group="Groups",
        default=False,
    ),
    option(
        "--keep WHICH",
        "Document to keep: first, longest, newest, oldest, FIELD (greatest value) or -FIELD (least).",
        group="Groups",
        default="first",
    ),
    option("--date-field FIELD", "Date field for --keep newest and oldest.", group="Groups", default="date"),
    option(
        "--date-order dmy|mdy|ymd",
        "Order of dates such as 01/02/2024 or 01/02/24. [default: what one such as 31/01/2024 shows]",
        group="Groups",
        type=click.Choice(["dmy", "mdy", "ymd"]),
    ),
    option(
        "--date-unit s|ms|us|ns",
        "What numbers count since 1970, if dates differ in scale or form.",
        group="Groups",
        type=click.Choice(["s", "ms", "us", "ns"]),
    ),
)


@command(
    epilog="""\b
Examples:
  simhbase dedup --unique unique.jsonl --duplicates duplicates.jsonl corpus.jsonl.gz
  simhbase dedup --keep longest --min-containment 0.8 --unique unique.jsonl corpus.jsonl.gz
  simhbase dedup --keep newest --date-field day --duplicates duplicates.jsonl corpus.jsonl.gz
  simhbase dedup --against rocksdb:simhbase.db --unique new.jsonl today/
  simhbase dedup --set bits=128 --set k=6 --json 'parts/*.jsonl.zst'
"""
)
@profile_options
@grouping_options
@option("--against URL", "Also remove duplicates of the documents in this store.", group="Groups")
@option("--scope NAME", "Within this scope of --against.", group="Groups")
@input_options(fingerprints=True, by_source="the files and folders given", tables=True)
@output_option("--unique", "Write kept documents here (.jsonl, .csv, .tsv, .parquet).")
@option(
    "--keep-rejected",
    "With --unique: append texts that are too short for a fingerprint.",
    group="Output files",
)
@option(
    "--count-field FIELD",
    "With --unique: write the size of a group into this new field of the kept document.",
    group="Output files",
)
@output_option("--duplicates", "Write duplicates here, with their representative and group.")
@output_option("--evidence", "Write why each duplicate was removed.")
@json_option
def dedup(inputs: Inputs, output: Output, **arguments: Any) -> None:
    """Find near-duplicates within one corpus, without a store.

    MinHash finds candidates (SimHash with --set k=N), whose texts are then compared exactly. A group is a
    document that is kept and all its matches. It is named by the id of its first document.

    Fingerprints are held in memory; texts and ids are kept on disk until the end, beside the output files or
    in the temporary folder.
    """
    from simhbase.deduplication.dedup import dedup as dedup_documents

    report = dedup_documents(or_stdin(inputs), **arguments)
    output.summary(report)
    if report.duplicates and not any(arguments[file] for file in ("unique", "duplicates", "evidence")):
        output.hint(
            "use --duplicates FILE to write the duplicates, --unique FILE to write the other documents"
        )
    end(report.counts, inputs)
