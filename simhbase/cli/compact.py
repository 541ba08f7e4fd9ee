"""`simhbase compact`."""

from __future__ import annotations

from simhbase.cli.options import command, store_option
from simhbase.cli.output import Output, json_option, message, print_script
from simhbase.process.progress import show_progress


@command()
@store_option
@json_option
def compact(url: str, output: Output) -> None:
    """Merge the files of an embedded store, so that lookups read fewer.

    Large loads do this when they finish. Run it after many small loads or deletes, also to free the space of
    deleted and expired documents. It needs as much free space as the store takes. Readers can keep running,
    and the command can be stopped and run again. In PostgreSQL it vacuums the tables, in Redis it does
    nothing. HBase compacts its tables itself: for a full compaction this prints a script for its shell.
    """
    from simhbase.stores import backend

    if script := backend(url).compaction_script():
        print_script(script, output)
        message("run this in the hbase shell (hbase shell FILE) at a quiet hour: it writes all files again")
        return

    from simhbase.admin.vacuum import compact as merge

    output.summary(merge(url, progress=show_progress))
