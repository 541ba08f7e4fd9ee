"""`simhbase compact`."""

from __future__ import annotations

from simhbase.cli.options import command, store_option
from simhbase.cli.output import Output, json_option
from simhbase.progress import show_progress


@command()
@store_option
@json_option
def compact(url: str, output: Output) -> None:
    """Merge the files of an embedded store, so that lookups read fewer.

    Large loads do this when they finish. Run it after many small loads or deletes, also to free the space of
    deleted and expired documents. It needs as much free space as the store takes. Readers can keep running,
    and the command can be stopped and run again. In PostgreSQL it vacuums the tables, in Redis it does
    nothing.
    """
    from simhbase.admin.vacuum import compact as merge

    output.summary(merge(url, progress=show_progress))
