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

    Bytes are always an estimate. Drawers are those of some stored fingerprints, spread evenly: what
    a lookup of a stored document reads. Large ones come up more often than among all drawers.

    Estimates of embedded stores take a row that was put again (a fingerprint that several documents have, a
    document that moved) for two until RocksDB compacts its files: --exact does not.

    'simhbase tables describe' shows the profile, and how HBase keeps the tables.
    """
    with open_index(url, access="read") as index:
        output.summary(asdict(index.stats(exact)))
