"""`simhbase load-hfiles`."""

from __future__ import annotations

import click

from simhbase.cli.inputs import Console
from simhbase.cli.options import command, option, store_option
from simhbase.cli.output import Output, json_option


@command("load-hfiles")
@click.argument("folder")
@store_option
@option("--work-folder FOLDER", "Folder for the log of HBase's tool. [default: FOLDER]")
@json_option
def load_hfiles(folder: str, url: str, work_folder: str | None, output: Output) -> None:
    """Load HFiles written by Spark into HBase.

    FOLDER (or its URI, e.g. hdfs://...) was written by simhbase.spark.hfile_input for this store
    (docs/spark.md). It is not changed. To resume a load that was stopped, run the same command again.
    """
    from simhbase.loads.hfile_input import load_hfiles  # the client of HBase takes time to load

    output.summary(load_hfiles(folder, url, work_folder=work_folder, watcher=Console()))
