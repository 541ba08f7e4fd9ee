"""`simhbase compact`."""

from __future__ import annotations

import click

from simhbase.admin.vacuum import compact as merge
from simhbase.cli.options import store_option
from simhbase.cli.output import Output, json_option
from simhbase.cli.progress import progress


@click.command()
@store_option
@json_option
def compact(url: str, output: Output) -> None:
    """Merge the files of an embedded store, so that lookups read few.

    A large load does so at its end. Run it after many small ones, after many deletes, and once for a store
    that an earlier version has written. Deleted and expired documents take no room any more. Readers may go
    on meanwhile. It needs as much free room as the store takes, and may be stopped and run again.
    """
    output.report(merge(url, progress=progress))
