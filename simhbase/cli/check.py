"""`simhbase check`."""

from __future__ import annotations

import click

from simhbase.check import Checker, CheckReport
from simhbase.cli.options import store_option
from simhbase.cli.output import Output, json_option, message
from simhbase.cli.progress import progress
from simhbase.cli.tables import sizes
from simhbase.index import Index, open_index
from simhbase.writer import Writer

MOST_PASSES = 5  # a repair that needs more is not getting anywhere


@click.command()
@store_option
@click.option("--repair", is_flag=True, help="Mend what is found, until a pass finds nothing.")
@json_option
def check(url: str, repair: bool, output: Output) -> None:
    """Compare a store's tables with each other, and repair them.

    Exits 0 where nothing is wrong, or nothing any more, and 1 otherwise. Lookups are right either
    way: they pass over what a crash has left.
    """
    with open_index(url, access="write" if repair else "read") as index:
        first = _one_pass(index, index.writer if repair else None)
        passes, last = 1, first
        while repair and last.problems and passes < MOST_PASSES:
            passes, last = passes + 1, _one_pass(index, index.writer)
    output.summary(
        {
            "documents": last.documents,
            "listings": last.listings,
            "index_rows": last.index_rows,
            "problems": dict(first.problems),
            "examples": first.examples,
            "passes": passes,
            "clean": not last.problems,
        }
    )
    if last.problems:
        message("Error: problems are left" if repair else "Error: problems were found: --repair mends them")
        click.get_current_context().exit(1)


def _one_pass(index: Index, writer: Writer | None) -> CheckReport:
    def rows() -> int:
        return sum(size.rows for _, size in sizes(index.store))

    with progress("rows", rows) as advance:
        done = 0

        def note(count: int) -> None:
            nonlocal done
            done += count
            advance(count, done)

        return Checker(index.store, index.profile.filing, writer, note).check()
