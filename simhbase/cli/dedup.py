"""`simhbase dedup`."""

from __future__ import annotations

from pathlib import Path

import click

from simhbase.cli.inputs import UNIQUE_LINES, end, input_options_with_fingerprints, or_stdin, output_option
from simhbase.cli.options import ProfileOptions, converted, min_similarity_option, profile_options_with_bits
from simhbase.cli.output import Output, json_option
from simhbase.corpus.inputs import Inputs
from simhbase.jobs.dedup import dedup as dedup_documents
from simhbase.jobs.representative import Preference, preference


@click.command(
    epilog="""\b
Examples:
  simhbase dedup --unique unique.jsonl --duplicates duplicates.jsonl corpus.jsonl.gz
  simhbase dedup --representative -date --no-chains --duplicates duplicates.jsonl corpus.jsonl.gz
  simhbase dedup --bits 128 -k 6 --json 'parts/*.jsonl.zst'
"""
)
@input_options_with_fingerprints
@profile_options_with_bits("k")
@min_similarity_option("Least Jaccard similarity of a match, counted exactly in what the fingerprints find.")
@click.option(
    "--representative",
    "preferred",
    default="first",
    show_default=True,
    metavar="first|longest|FIELD|-FIELD",
    callback=converted(preference),
    help="Representative of a group: the first in input order, the longest text, or the greatest (-FIELD: "
    "least) value of a field, as numbers where all are, else as texts.",
)
@click.option(
    "--chains/--no-chains",
    default=True,
    show_default=True,
    help="A group is a connected component of matches; or a representative and what matches it.",
)
@output_option("--unique", "File for the representatives, and the documents without a match. " + UNIQUE_LINES)
@output_option("--duplicates", "File for the others, each with its representative and its group.")
@json_option
def dedup(
    inputs: Inputs,
    chosen: ProfileOptions,
    min_similarity: float | None,
    preferred: Preference | None,
    chains: bool,
    unique: Path | None,
    duplicates: Path | None,
    output: Output,
) -> None:
    """Find the near-duplicates within one corpus, without a store.

    A group is a connected component: documents that a chain of matches joins, so that two of them may differ
    in more than k bits. Its representative is the first in input order, or that of --representative; ties
    go to the first in input order, and documents without the field come last. With --no-chains groups are
    formed greedily: the most preferred document and all its matches, then the most preferred of the rest,
    and so on. All pairs within any k
    are found: a layout is chosen for it unless --layout names one.

    Fingerprints, and the values of --representative, are kept in memory. Until the end this takes room on
    disk for the input without compression: beside the files of --unique and --duplicates, and for the
    texts of --min-similarity in the folder for temporary files. --bits 128 takes longer fingerprints.

    A group is named by the id of its first document, whichever is its representative. So it keeps its name
    when documents are added behind the others; where these join two groups, the earlier name stays. Only
    with --no-chains and another --representative than first, an added document may take others out of
    their group.
    """
    report = dedup_documents(
        or_stdin(inputs),
        chosen.given,
        min_similarity=min_similarity,
        representative=preferred,
        chains=chains,
        unique=unique,
        duplicates=duplicates,
    )
    output.report(report)
    if report.duplicates and not (unique or duplicates):
        output.hint("to see them: --duplicates FILE lists the duplicates, --unique FILE the other documents")
    end(report.counts)
