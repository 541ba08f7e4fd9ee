"""`simhbase calibrate`."""

from __future__ import annotations

from math import floor
from pathlib import Path

import click

from simhbase.cli.inputs import end, input_options, or_stdin
from simhbase.cli.options import HidingCommand, profile_file_option
from simhbase.cli.output import Output, json_option, message
from simhbase.corpus.inputs import Inputs
from simhbase.profile_file import files_beside, write_profile_file
from simhbase.quality.calibration import SAMPLE, Calibration, Goal
from simhbase.quality.calibration import calibrate as measure
from simhbase.quality.report import calibration_by_name

_SHARE = click.FloatRange(min=0, max=1, min_open=True)


@click.command(
    cls=HidingCommand,
    epilog="""\b
Examples:
  simhbase calibrate news.jsonl.gz
  simhbase calibrate --recall 0.9 --documents 50000000 --plots plots news.jsonl.gz
""",
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
    help=f"Least Jaccard similarity of the pairs to be found. [default: {Goal.jaccard}; 0.6 of short texts]",
)
@click.option(
    "--recall",
    type=_SHARE,
    default=Goal.recall,
    show_default=True,
    help="Share of these pairs that has to be found.",
)
@click.option(
    "--precision",
    type=_SHARE,
    default=Goal.precision,
    show_default=True,
    help="Share that has to be right of what is found.",
)
@click.option(
    "--right",
    type=_SHARE,
    help="Least Jaccard similarity of a found pair that counts as right. "
    f"[default: five sixths of --jaccard, at most {Goal.right}]",
)
@click.option(
    "--max-candidates",
    type=click.IntRange(min=1),
    default=Goal.candidates,
    show_default=True,
    metavar="N",
    help="Rows that a lookup may read on average.",
)
@click.option(
    "--sample",
    "limit",
    type=click.IntRange(min=1),
    default=SAMPLE,
    show_default=True,
    metavar="N",
    help="Texts to measure on at most, drawn at random.",
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
    "--plots",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Draw plots of recall, precision and cost into this folder (extra: plots).",
)
@profile_file_option
@click.option("--all", "everything", is_flag=True, help="Show every setting that was measured.")
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
    profile_file: Path | None,
    everything: bool,
    output: Output,
) -> None:
    """Measure schemes on a corpus, and recommend one.

    Finds all near-duplicates in a sample by their exact Jaccard similarity (of the triples of their
    characters), which needs no labels, then measures how many of them each scheme finds, how much of what it
    finds is right, and what it costs. In the output, verified is SimHash with matches verified by sketches.
    Ends with the line to type next. Shares are per cent, with their 95 % intervals.

    Where half of the texts have 140 characters and fewer, what is meant for short texts is compared,
    too, and the similarity is that of the pairs of their characters. It is the same for all schemes, whatever
    they compare. Where no threshold of the grid reaches the goal, hundredths between two of them are tried.

    The shares as measured decide, not the ends of their intervals: a recall of 100 % (66-100) on pairs of few
    groups promises no more than 66 %, which is then said.
    """
    inputs = or_stdin(inputs)
    if profile_file:
        inputs.require_outputs(profile_file, *files_beside(profile_file))
    found = measure(
        inputs,
        documents=documents,
        jaccard=jaccard,
        recall=recall,
        precision=precision,
        right=right,
        max_candidates=max_candidates,
        sample=limit,
        seed=seed,
        labels=labels_file,
        plots=folder,
    )
    output.summary(calibration_by_name(found, everything=everything or output.is_for_programs))
    if not everything:
        output.hint(f"{len(found.figures)} settings were measured: --all shows them")
    if profile_file:
        write_profile_file(profile_file, found.profile)
    if folder:
        message(f"plots are in {folder}")
    if not found.reached:
        message("nothing that was measured reaches the goal: what is recommended comes nearest to it")
    elif not found.surely_reached:
        message(_doubt(found))
    if documents is None:
        message(
            f"recommended for a store of {found.goal.documents:,} documents, as many as were read: "
            "--documents N for a larger one"
        )
    end(found.counts)


def _doubt(found: Calibration) -> str:
    """How far below the goal a store may be that was measured to reach it."""
    best, goal = found.recommended, found.goal
    measured = (("a recall", best.recall, goal.recall), ("a precision", best.precision, goal.precision))
    lowest = ", ".join(
        f"{name} of {floor(100 * share.low)} %"
        for name, share, least in measured
        if share and share.low < least
    )
    larger = "a larger corpus" if found.sample.is_whole else "a larger --sample"
    return (
        "the goal is reached as measured, but not for sure: what is to be found is in "
        f"{found.groups:,} groups of near-duplicates, and 95 % intervals begin at {lowest}: {larger} tells "
        "more"
    )
