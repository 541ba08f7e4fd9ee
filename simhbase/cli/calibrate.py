"""`simhbase calibrate`."""

from __future__ import annotations

from math import floor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simhbase.cli.inputs import end, input_options, or_stdin
from simhbase.cli.options import FiniteRange, command, option, profile_file_option
from simhbase.cli.output import Output, json_option, message
from simhbase.model.thresholds import RIGHT, RIGHT_SHORT, SIMILAR, SIMILAR_SHORT

if TYPE_CHECKING:
    from simhbase.corpus.inputs import Inputs
    from simhbase.quality.calibration import Calibration

_SHARE = FiniteRange(min=0, max=1, min_open=True)


@command(
    epilog="""\b
Examples:
  simhbase calibrate news.jsonl.gz
  simhbase calibrate --recall 0.9 --documents 50000000 --plots plots news.jsonl.gz
"""
)
@option(
    "--documents N",
    "Documents the store will hold. [default: those of the corpus]",
    group="Goal",
    type=click.IntRange(min=1),
)
@option(
    "--jaccard S",
    f"Minimum Jaccard similarity of pairs to find. [default: {SIMILAR}; short texts {SIMILAR_SHORT}]",
    group="Goal",
    type=_SHARE,
)
@option("--recall S", "Target recall.", group="Goal", type=_SHARE, default=0.95)
@option("--precision S", "Target precision.", group="Goal", type=_SHARE, default=0.95)
@option(
    "--right S",
    f"Minimum Jaccard similarity of a correct pair. [default: {RIGHT}; short texts {RIGHT_SHORT}; less for a "
    "lower --jaccard]",
    group="Goal",
    type=_SHARE,
)
@option(
    "--max-candidates N",
    "Maximum rows to read per lookup, on average.",
    group="Goal",
    type=click.IntRange(min=1),
    default=1000,
)
@option(
    "--labels FILE",
    "Pairs to find (as for evaluate --pairs), instead of all similar pairs.",
    group="Goal",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@option(
    "--sample N",
    "Maximum number of texts to measure, drawn at random.",
    group="Measurement",
    type=click.IntRange(min=1),
    default=20_000,
)
@option(
    "--seed N", "Seed of the random sample.", group="Measurement", type=click.IntRange(0, 2**31), default=0
)
@input_options()
@option(
    "--plots FOLDER",
    "Write plots of recall, precision and cost here (pip install 'simhbase[plots]').",
    group="Output files",
    type=click.Path(file_okay=False, path_type=Path),
)
@profile_file_option
@option("--all", "Show every setting that was measured.", name="everything")
@json_option
def calibrate(
    inputs: Inputs, profile_file: Path | None, everything: bool, output: Output, **arguments: Any
) -> None:
    """Measure schemes on a corpus, and recommend one.

    Finds all near-duplicates in a sample by their exact Jaccard similarity, then
    measures recall, precision and cost of each scheme. In the output, "verified" is SimHash with sketches.
    Ends with the command to create the store: of the settings that certainly reach the goal the cheapest, by
    rows per document and rows read per lookup.

    "changes" shows what thresholds mean for these texts: some are changed, and looked for among all. A row
    has the similarity that the change leaves (median; --min-similarity and threshold are compared with it),
    and the share of the copies that stores find, by profile, and that dedup finds.

    If most texts are short (140 characters), settings for short texts are compared, too, and similarity is
    that of character pairs. Shares are percentages with 95 % intervals; a goal is certainly reached if the
    lower end of the interval reaches it.
    """
    from simhbase.profile.file import files_beside, write_profile_file
    from simhbase.quality.calibrate import calibrate as measure
    from simhbase.quality.report import calibration_dict

    inputs = or_stdin(inputs)
    if profile_file:
        inputs.check_outputs(profile_file, *files_beside(profile_file))
    inputs.require_outputs(profile_file, *_existing_plots(arguments["plots"]))
    found = measure(inputs, **arguments)
    output.summary(calibration_dict(found, everything=everything or output.as_json))
    if not everything:
        output.hint(f"{len(found.figures)} settings were measured: --all shows them")
    if found.changes:
        output.hint(
            "changes: the similarity that each leaves (median), and the share of copies found; a threshold "
            "above the similarity leaves out most"
        )
    if profile_file:
        write_profile_file(profile_file, found.profile)
    if plots := arguments["plots"]:
        message(f"plots are in {plots}")
    if not found.reached:
        message("no setting reaches the goal: the recommended one comes closest")
    elif not found.surely_reached:
        message(_doubt(found))
    if arguments["documents"] is None:
        message(
            f"recommended for a store of {found.goal.documents:,} documents, as in the corpus: use "
            "--documents N for a larger one"
        )
    end(found.counts, inputs)


def _existing_plots(folder: Path | None) -> list[Path]:
    if folder is None:
        return []
    from simhbase.quality.plots import files_in  # raises if matplotlib is missing

    return [file for file in files_in(folder) if file.exists()]


def _doubt(found: Calibration) -> str:
    """How far below the goal a store might be, given the intervals."""
    best, goal = found.recommended, found.goal
    measured = (("a recall", best.recall, goal.recall), ("a precision", best.precision, goal.precision))
    lowest = ", ".join(
        f"{name} of {floor(100 * share.low)} %"
        for name, share, least in measured
        if share and share.low < least
    )
    larger = "a larger corpus" if found.sample.is_whole else "a larger --sample"
    return (
        "the measured values reach the goal, but it is not certain: the sample has only "
        f"{found.groups:,} groups of near-duplicates, and 95 % intervals start at {lowest}. Use {larger} for "
        "narrower intervals"
    )
