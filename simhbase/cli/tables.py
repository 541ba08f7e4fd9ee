"""`simhbase tables`: a store's life from its creation to its end."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import click

from simhbase.cli.options import ProfileOptions, profile_options_with_bits, store_option
from simhbase.cli.output import Output, json_option
from simhbase.index import open_index
from simhbase.profile import probes, read_profile
from simhbase.stores import drop_store, open_store
from simhbase.stores.base import RECORD_TABLES, Size, Store


@click.group()
def tables() -> None:
    """Create, check, describe and drop a store's tables."""


@tables.command()
@store_option
@profile_options_with_bits
@json_option
def create(url: str, chosen: ProfileOptions, output: Output) -> None:
    """Create what is missing of a store, with a profile; may be repeated."""
    with chosen.open_or_create(url) as index:
        output.summary({"store": url, "profile": index.profile.describe()})


@tables.command()
@store_option
@json_option
def check(url: str, output: Output) -> None:
    """Check that this machine makes the same fingerprints as the store's creator."""
    with open_index(url, access="read") as index:
        _ = index.fingerprinter
        output.summary({"store": url, "fixed_texts": len(probes()), "same": True})


@tables.command()
@store_option
@json_option
def describe(url: str, output: Output) -> None:
    """Show a store's profile and the sizes of its tables (estimates)."""
    with closing(open_store(url, "read")) as store:
        stored = read_profile(store)
        output.summary(
            {
                "store": url,
                "profile": stored.profile.describe(),
                "software": dict(stored.software),
                "tables": {name: {"rows": size.rows, "bytes": size.bytes} for name, size in sizes(store)},
            }
        )


@tables.command()
@store_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def drop(url: str, yes: bool, output: Output) -> None:
    """Delete a store with all its data."""
    if not yes:
        with closing(open_store(url, "read")) as store:
            documents = store.records("documents").approximate_size().rows
        click.confirm(f"Delete {url} with about {documents:,} documents?", abort=True, err=True)
    drop_store(url)
    output.summary({"store": url, "dropped": True})


def sizes(store: Store) -> list[tuple[str, Size]]:
    """Every table's name and size."""
    others: list[tuple[str, Any]] = [(name, store.records(name)) for name in RECORD_TABLES]
    return [(name, table.approximate_size()) for name, table in [("index", store.drawers), *others]]
