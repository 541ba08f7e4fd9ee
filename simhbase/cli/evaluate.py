"""`simhbase evaluate`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from simhbase.cli.inputs import Inputs, input_options
from simhbase.cli.options import ProfileOptions, min_similarity_option, profile_options, store_option
from simhbase.cli.output import Output, json_option, message
from simhbase.cli.samples import read_sample
from simhbase.errors import UsageError
from simhbase.index import open_index
from simhbase.quality.calibration import Goal
from simhbase.quality.evaluation import Evaluation, evaluate_corpus, evaluate_store
from simhbase.quality.labels import Labels, read_labels


@click.command(
    epilog="""\b
Examples:
  simhbase evaluate --pairs pairs.tsv --store rocksdb:news.db
  simhbase evaluate --pairs pairs.tsv -k 6 --layout 9x3 news.jsonl.gz
"""
)
@input_options
@store_option
@profile_options
@min_similarity_option(
    "Count only what has a Jaccard similarity of at least S, as its sketches estimate it "
    "(scheme minhash, or --verify)."
)
@click.option(
    "--pairs",
    "file",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Lines of two ids with a tab between them; or of their Jaccard similarity and the ids; or with a "
    "first line that names the columns id_a, id_b and jaccard.",
)
@click.option(
    "--right",
    type=click.FloatRange(min=0, max=1, min_open=True),
    default=Goal.right,
    show_default=True,
    help="Similarity from which on a pair found is right.",
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

    With files: of the documents in them, under the profile that the options say; what is found is
    right if its exact Jaccard similarity (of character 3-shingles) is high enough. Without: of a store,
    in which the documents of the pairs are looked up; there only what is found of the given pairs can
    be judged. Shares are per cent, with their 95 % intervals.
    """
    inputs.check_outputs()
    labels = read_labels(file)
    if not inputs.paths:
        output.summary(_of_store(url, chosen, min_similarity, labels, right).by_name())
        return
    profile = chosen.profile()
    _ = profile.filing.bounds(None, min_similarity)  # refuses it before anything is read
    with inputs.noting_rejects() as rejects:
        sample = read_sample(inputs, sys.maxsize, 0, rejects)
        found = evaluate_corpus(sample, labels, profile, min_similarity, right, inputs.processes)
        output.summary(found.by_name())
        if sample.copies:
            message(f"{sample.copies:,} documents are copies of others: pairs of equal texts are left out")
        rejects.end()


def _of_store(
    url: str, chosen: ProfileOptions, min_similarity: float | None, labels: Labels, right: float
) -> Evaluation:
    given = dict(chosen.given)
    k = given.pop("k", None)
    if given:
        raise UsageError(f"a store has its profile: leave out {', '.join(given)}, or name files to compare")
    with open_index(url, access="read") as index:
        return evaluate_store(index, labels, k, min_similarity, right)
