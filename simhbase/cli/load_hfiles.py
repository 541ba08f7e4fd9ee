"""`simhbase load-hfiles`."""

from __future__ import annotations

import click

from simhbase.cli.inputs import Console
from simhbase.cli.options import store_option
from simhbase.cli.output import Output, json_option


@click.command("load-hfiles")
@click.argument("folder")
@store_option
@click.option(
    "--work-folder",
    metavar="FOLDER",
    help="Where to keep the log of HBase's tool while it runs. [default: FOLDER]",
)
@json_option
def load_hfiles(folder: str, url: str, work_folder: str | None, output: Output) -> None:
    """Load HFiles that Spark has written into HBase.

    FOLDER, or its URI such as hdfs://..., holds what simhbase.jobs.spark.hfile_input wrote for this store
    (docs/spark.md). It stays as it is: a load that was stopped is run again.
    """
    from simhbase.jobs.hfile_input import load_hfiles  # the client of HBase takes time to load

    output.report(load_hfiles(folder, url, work_folder=work_folder, watcher=Console()))
