"""`simhbase stats`."""

from __future__ import annotations

from dataclasses import asdict

import click

from simhbase.cli.options import store_option
from simhbase.cli.output import Output, json_option
from simhbase.index import open_index


@click.command()
@store_option
@click.option("--exact", is_flag=True, help="Count every row instead of taking the store's estimates.")
@json_option
def stats(url: str, exact: bool, output: Output) -> None:
    """Count documents, index rows and bytes of a store.

    Bytes are estimates. The sizes of drawers are those of a sample: the drawers of some stored fingerprints,
    as a lookup of a stored document reads them. A large drawer is more often among them than a small one.

    In an embedded store the numbers of rows are estimates, too: a row that was written twice (a fingerprint
    that several documents have, a document that moved) counts twice until RocksDB compacts its files.
    --exact counts every row.

    'simhbase tables describe' shows the profile, and how HBase keeps the tables.
    """
    with open_index(url, access="read") as index:
        output.summary(asdict(index.stats(exact)))
