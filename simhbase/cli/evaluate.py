"""`simhbase evaluate`."""

from __future__ import annotations

from pathlib import Path

import click

from simhbase.cli.inputs import end, input_options
from simhbase.cli.options import (
    HidingCommand,
    ProfileOptions,
    min_similarity_option,
    profile_options,
    store_option,
)
from simhbase.cli.output import Output, json_option, message
from simhbase.corpus.inputs import Inputs
from simhbase.quality.evaluation import RIGHT
from simhbase.quality.evaluation import evaluate as measure


@click.command(
    cls=HidingCommand,
    epilog="""\b
Examples:
  simhbase evaluate --pairs pairs.tsv --store rocksdb:news.db
  simhbase evaluate --pairs pairs.tsv -k 6 --layout 9x3 news.jsonl.gz
""",
)
@input_options
@store_option
@profile_options("k")
@min_similarity_option(
    "Count only what has a Jaccard similarity of at least S, as its sketches estimate it "
    "(scheme minhash, or --verify)."
)
@click.option(
    "--pairs",
    "file",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File of pairs, tab-separated: id_a id_b, or jaccard id_a id_b, or with a first line that names the "
    "columns id_a, id_b and jaccard.",
)
@click.option(
    "--right",
    type=click.FloatRange(min=0, max=1, min_open=True),
    default=RIGHT,
    show_default=True,
    help="Least Jaccard similarity of a found pair that counts as right.",
)
@json_option
def evaluate(
    inputs: Inputs,
    url: str,
    chosen: ProfileOptions,
    min_similarity: float | None,
    file: Path,
    right: float,
    output: Output,
) -> None:
    """Measure recall and precision against given pairs.

    With files: takes the documents in them, under the profile that the options say. A found pair is
    right if its exact Jaccard similarity is at least --right: of the triples of their characters, or of the
    pairs where half of the texts have 140 characters and fewer.

    Without files: looks the documents of the pairs up in a store, which has no texts. A found pair is right
    if it is one of those given (of at least --right, where the file tells similarities); others that are
    found do not count.

    Shares are per cent, with their 95 % intervals.
    """
    found = measure(
        file,
        inputs if inputs.paths else None,
        store=None if inputs.paths else url,
        profile=chosen.given,
        min_similarity=min_similarity,
        right=right,
    )
    output.summary(found.by_name())
    if found.copies:
        message(f"{found.copies:,} documents are copies of others: pairs of equal texts are left out")
    end(found.counts)
