"""`simhbase check`."""

from __future__ import annotations

import click

from simhbase.admin.check import check as check_rows
from simhbase.cli.options import store_option
from simhbase.cli.output import Output, json_option, message
from simhbase.cli.parts import part_option
from simhbase.cli.progress import progress
from simhbase.index.part import WHOLE, Part


@click.command()
@store_option
@click.option("--repair", is_flag=True, help="Mend what is found, until a pass finds nothing.")
@part_option("Check the I-th of N equal parts of each table, as a sample or to go on later.")
@json_option
def check(url: str, repair: bool, part: Part | None, output: Output) -> None:
    """Compare the rows of a store's tables with each other, and repair them.

    Exits 0 if there are no problems, or all were repaired, and 1 otherwise. Safe beside writers. In HBase,
    documents that moved or were deleted leave rows behind until `simhbase vacuum` removes them, and so do
    crashes: such rows are harmless garbage, and --repair removes those older than a day.

    'simhbase tables check' says whether the tables themselves and this machine's fingerprints are right.
    """
    report = check_rows(url, repair, part=part or WHOLE, progress=progress)
    output.report(report)
    if not report.clean:
        message("Error: problems are left" if repair else "Error: problems were found: --repair mends them")
        click.get_current_context().exit(1)
