"""`simhbase check`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from simhbase.cli.consent import Consent, consent_options
from simhbase.cli.options import command, converted, option, part, store_option
from simhbase.cli.output import Output, json_option, message
from simhbase.process.progress import show_progress

if TYPE_CHECKING:
    from simhbase.index.part import Part


@command()
@store_option
@option("--repair", "Repair problems, until a pass finds none.")
@option("--part I/N", "Check only part I of N of each table.", callback=converted(part))
@consent_options(dry_run=False)
@json_option
def check(url: str, repair: bool, part: Part | None, consent: Consent, output: Output) -> None:
    """Compare the rows of a store's tables with each other, and repair them.

    Exits with 1 if problems are left. Writers can keep running. In HBase, updates, deletes and crashes leave
    rows behind, which are harmless; --repair removes those older than a day. It asks before it removes more
    than half of the rows of a table, or all of fewer than ten; without a terminal it then needs --yes.

    'simhbase tables check' checks the tables themselves and this machine's fingerprints.
    """
    from simhbase.admin.check import UNSKETCHED
    from simhbase.admin.check import check as check_rows
    from simhbase.index.part import WHOLE

    report = check_rows(url, repair, part=part or WHOLE, agree=consent.agree, progress=show_progress)
    output.summary(report)
    if not report.clean:
        if report.repairable:
            advice = "--repair repairs them"
        else:
            advice = "load the texts again" if UNSKETCHED in report.problems else "their lines say what to do"
        message("Error: problems are left" if repair else f"Error: problems were found; {advice}")
        click.get_current_context().exit(1)
