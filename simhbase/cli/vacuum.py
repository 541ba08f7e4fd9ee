"""`simhbase vacuum`."""

from __future__ import annotations

import click

from simhbase.cli.options import converted, seconds, store_option
from simhbase.cli.output import Output, json_option, message
from simhbase.cli.progress import progress
from simhbase.index.vacuum import vacuum as remove


@click.command()
@store_option
@click.option(
    "--older-than",
    metavar="TIME",
    default="1d",
    show_default=True,
    callback=converted(seconds),
    help="Remove only rows that have been obsolete for at least this long: seconds, or 12h, 1d.",
)
@json_option
def vacuum(url: str, older_than: int, output: Output) -> None:
    """Remove what moved and deleted documents have left behind in HBase.

    For a nightly run, beside any number of writers and readers. It may be stopped and run again. Embedded
    stores remove such rows at once, and have nothing to do.
    """
    report = remove(url, older_than, progress=progress)
    if report.removes_at_once:
        message(f"{url} removes what is obsolete at once: there is nothing to do")
    output.report(report)
