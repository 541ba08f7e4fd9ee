"""`simhbase vacuum`."""

from __future__ import annotations

import click

from simhbase.admin.vacuum import vacuum as remove
from simhbase.cli.options import converted, seconds, store_option
from simhbase.cli.output import Output, json_option, message
from simhbase.cli.parts import part_option
from simhbase.cli.progress import progress
from simhbase.index.part import Part


@click.command()
@store_option
@click.option(
    "--older-than",
    metavar="TIME",
    default="1d",
    show_default=True,
    callback=converted(seconds),
    help="In HBase, remove only rows that have been obsolete for at least this long: seconds, or 12h, 1d.",
)
@part_option(
    "In HBase, also look through the I-th of N equal parts of all fingerprints for those that no document "
    "has, which crashes leave, and writers of one document at the same moment.",
    "--sweep",
)
@json_option
def vacuum(url: str, older_than: int, sweep: Part | None, output: Output) -> None:
    """Remove what moved and deleted documents have left behind, and what has expired.

    For a nightly run; in HBase beside any number of writers and readers. It may be stopped and run again.
    Embedded stores remove obsolete rows at once: there is something to do where documents have a time to live
    (simhbase tables create --ttl), which are not found any more when it is over, and take room until then.
    --older-than has no meaning there.
    """
    report = remove(url, older_than, sweep=sweep, progress=progress)
    if report.removes_at_once and not report.looked_at:
        message(f"{url} removes what is obsolete at once: there is nothing to do")
    output.report(report)
