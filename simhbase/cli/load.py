"""`simhbase load`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import click

from simhbase.cli.inputs import UNIQUE_LINES, end, input_options_with_fingerprints, or_stdin, output_option
from simhbase.cli.options import (
    HidingCommand,
    ProfileOptions,
    converted,
    min_similarity_option,
    pairs,
    profile_options,
    seconds,
    store_option,
    tag_option,
)
from simhbase.cli.output import Output, json_option
from simhbase.corpus.inputs import Inputs
from simhbase.jobs.load import loading
from simhbase.jobs.load_job import Load


@click.command(
    cls=HidingCommand,
    epilog="""\b
Examples:
  simhbase load news.jsonl.gz
  simhbase load --text-field body --id-prefix 2024/ 'archive/*.csv'
  curl -s https://example.org/dump.gz | simhbase load --unique-only --duplicates duplicates.jsonl -
""",
)
@input_options_with_fingerprints
@store_option
@profile_options()
@click.option(
    "--unique-only",
    is_flag=True,
    help="Store a document only if nothing that is stored by then matches it.",
)
@min_similarity_option(
    "With --unique-only: least Jaccard similarity of a duplicate, estimated by sketches (scheme minhash, by "
    "default its threshold, or --verify)."
)
@click.option(
    "--skip-existing",
    is_flag=True,
    help="Leave documents whose id is stored as they are, and list them in no file.",
)
@click.option(
    "--ids-are-unique",
    is_flag=True,
    hidden=True,
    help="Do not look for ids that come twice (23 to 34 bytes of memory an id).",
)
@tag_option("Tag all documents so; may be repeated.", hidden=True)  # the text below names both
@click.option(
    "--tag-field",
    "tag_fields",
    multiple=True,
    metavar="NAME=FIELD",
    callback=converted(pairs("NAME=FIELD")),
    hidden=True,
    help="Tag each document with what this column or JSON field holds; may be repeated.",
)
@click.option(
    "--name",
    metavar="NAME",
    help="Name of the load, by which it is resumed after it was stopped. [default: after its inputs, options "
    "and this folder]",
)
@click.option(
    "--lock-wait",
    metavar="TIME",
    default="0",
    hidden=True,
    callback=converted(seconds),
    help="Wait so long while another process writes to an embedded store or runs this load, as 30m or 2h.",
)
@click.option(
    "--via",
    type=click.Choice(["hfiles"]),
    hidden=True,
    help="hfiles: write HBase's own files and have its tool load them, past gateways and write-ahead logs.",
)
@click.option(
    "--work-folder",
    metavar="FOLDER | URI",
    hidden=True,
    help="With --via: folder for its files, which HBase can read, or hdfs://...; up to 1 kB a "
    "document. [default: TMPDIR]",
)
@output_option("--unique", "With --unique-only: file for the documents that were stored. " + UNIQUE_LINES)
@output_option(
    "--duplicates", "With --unique-only: file for the others, each with the document it duplicates."
)
@output_option("--new", "File for the documents that this load added or changed. " + UNIQUE_LINES)
@output_option("--evidence", "With --unique-only: file for why each of the others was not stored.")
@json_option
def load(
    inputs: Inputs,
    url: str,
    chosen: ProfileOptions,
    unique_only: bool,
    min_similarity: float | None,
    skip_existing: bool,
    ids_are_unique: bool,
    tags: Mapping[str, str],
    tag_fields: Mapping[str, str],
    name: str | None,
    lock_wait: int,
    via: Literal["hfiles"] | None,
    work_folder: str | None,
    unique: Path | None,
    duplicates: Path | None,
    evidence: Path | None,
    new: Path | None,
    output: Output,
) -> None:
    """Fingerprint documents and store them.

    A document whose id is stored already is replaced. An embedded store that does not exist is
    created, with the profile that the options give; one that exists keeps its own, and options that
    differ from it are an error.

    With --tag source=wire all documents are tagged so, and with --tag-field tenant=customer each with what
    its field or column customer holds: find --tag tenant=a finds those alone. A document that is stored
    already gets these tags in place of its own.

    A load that was stopped or killed is resumed where it was when it is run again with the same inputs and
    options, and ends with the same rows and files. `simhbase loads` lists them. With --lock-wait 2h it waits
    so long while another process writes to the store. With many millions of ids, --ids-are-unique spares the
    search for repeated ones. With --via hfiles millions of documents go into HBase as files, written in
    --work-folder FOLDER: docs/hbase.md has more of it.
    """
    job = Load(
        inputs=or_stdin(inputs),
        store=url,
        profile=chosen.given,
        unique_only=unique_only,
        min_similarity=min_similarity,
        skip_existing=skip_existing,
        ids_are_unique=ids_are_unique,
        tags=tags,
        tag_fields=tag_fields,
        unique=unique,
        duplicates=duplicates,
        evidence=evidence,
        new=new,
        name=name,
        lock_wait=lock_wait,
        via=via,
        work_folder=work_folder,
    )
    with loading(job) as report:
        output.report(report)  # noted as finished when somebody has it
    end(report.counts)
