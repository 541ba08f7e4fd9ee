"""`simhbase calibrate`."""

from __future__ import annotations

from pathlib import Path

import click

from simhbase.cli.inputs import Inputs, input_options
from simhbase.cli.output import Output, json_option, message
from simhbase.cli.samples import read_sample
from simhbase.errors import BadInput
from simhbase.quality.calibration import Goal
from simhbase.quality.calibration import calibrate as measure
from simhbase.quality.labels import Labels, read_labels
from simhbase.quality.report import calibration_by_name
from simhbase.quality.sample import Sample

_SHARE = click.FloatRange(min=0, max=1, min_open=True)


@click.command(
    epilog="""\b
Examples:
  simhbase calibrate news.jsonl.gz
  simhbase calibrate --recall 0.9 --documents 50000000 --plots plots news.jsonl.gz
"""
)
@input_options
@click.option(
    "--documents",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many documents the store will hold. [default: as many as the corpus has]",
)
@click.option(
    "--jaccard",
    type=_SHARE,
    help=f"Pairs to be found: so similar or more. [default: {Goal.jaccard}; 0.6 of short texts]",
)
@click.option(
    "--recall", type=_SHARE, default=Goal.recall, show_default=True, help="Share of them to be found."
)
@click.option(
    "--precision",
    type=_SHARE,
    default=Goal.precision,
    show_default=True,
    help="Share of what is found to be right.",
)
@click.option(
    "--right",
    type=_SHARE,
    help=f"A pair found is right if so similar or more. [default: {Goal.right}; 0.5 of short texts]",
)
@click.option(
    "--max-candidates",
    type=click.IntRange(min=1),
    default=Goal.candidates,
    show_default=True,
    metavar="N",
    help="Rows that a lookup may read.",
)
@click.option(
    "--sample",
    "limit",
    type=click.IntRange(min=1),
    default=20_000,
    show_default=True,
    metavar="N",
    help="Texts to measure on at most.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**31),
    default=0,
    show_default=True,
    help="Another seed draws another sample.",
)
@click.option(
    "--labels",
    "labels_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The pairs to be found, as for evaluate --pairs, instead of all pairs that are similar enough.",
)
@click.option(
    "--plots", "folder", type=click.Path(file_okay=False, path_type=Path), help="Draw plots into this folder."
)
@json_option
def calibrate(
    inputs: Inputs,
    documents: int | None,
    jaccard: float | None,
    recall: float,
    precision: float,
    right: float | None,
    max_candidates: int,
    limit: int,
    seed: int,
    labels_file: Path | None,
    folder: Path | None,
    output: Output,
) -> None:
    """Measure schemes on a corpus, and recommend one.

    Finds all near duplicates in a sample by their exact Jaccard similarity (of character 3-shingles),
    which needs no labels, then measures how many of them each scheme finds, how much of what it finds
    is right, and what it costs. Verified is SimHash with matches judged by sketches (--verify). Ends
    with the line to type next. Shares are per cent, with their 95 % intervals.

    Where half of the texts have 140 characters and fewer, what is meant for short texts is compared,
    too, and similarities are those of pairs of characters (of triples in longer texts).
    """
    inputs.check_outputs()
    # What is impossible is refused before anything is read.
    least = {"jaccard": jaccard or Goal.jaccard, "right": right or Goal.right}
    goal = Goal(documents or 1, recall, precision, candidates=max_candidates, **least)
    labels = read_labels(labels_file) if labels_file else None
    if folder:
        from simhbase.quality.plots import draw
    with inputs.noting_rejects() as rejects:
        sample = read_sample(inputs, limit, seed, rejects)
        if labels:
            _require_whole(sample, labels)
        if sample.is_short and jaccard is right is None:
            goal = goal.of_short_texts()
        found = measure(sample, goal.among(documents or sample.read), inputs.processes, labels)
        if folder:
            draw(found, folder)
        output.summary(calibration_by_name(found))
        if not found.reached:
            message("nothing that was measured reaches the goal: what is recommended comes nearest to it")
        rejects.end()


def _require_whole(sample: Sample, labels: Labels) -> None:
    if not sample.is_whole:
        raise BadInput(
            f"{labels.source} is about all documents, and the sample has only some of {sample.read:,}: "
            f"take them all (--sample {sample.read})"
        )
