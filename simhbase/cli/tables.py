"""`simhbase tables`: a store's life from its creation to its end."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import click

from simhbase.cli.options import ProfileOptions, profile_options, store_option
from simhbase.cli.output import Output, json_option, message
from simhbase.cli.table_options import (
    TableOptions,
    administered_store,
    creation_options,
    expectation_options,
    is_in_hbase,
)
from simhbase.errors import StoreFailed, TablesMissing, UsageError
from simhbase.index import open_index
from simhbase.profile import probes, read_profile
from simhbase.stores import drop_store, droppable, hbase, open_store
from simhbase.stores.base import RECORD_TABLES, Size, Store

_NOT_IN_HBASE = "only tables in HBase have that, and {} is no HBase store"


@click.group()
def tables() -> None:
    """Create, check, describe and drop a store's tables."""


@tables.command()
@administered_store
@creation_options
@profile_options
@json_option
def create(url: str, made: TableOptions, chosen: ProfileOptions, output: Output) -> None:
    """Create what is missing of a store, with a profile; may be repeated.

    HBase creates tables through a Thrift 2 gateway. Without one, run what `simhbase tables ddl` prints
    in the hbase shell first: this command then stores the profile in those tables.
    """
    if is_in_hbase(url):
        _create_in_hbase(url, made, chosen)
    else:
        made.refuse(_NOT_IN_HBASE.format(url))
    with chosen.open_or_create(url) as index:
        output.summary({"store": url, "profile": index.profile.describe()})


def _create_in_hbase(url: str, made: TableOptions, chosen: ProfileOptions) -> None:
    if not hbase.has_administration(url):
        made.refuse(
            f"it takes a Thrift 2 gateway to create such tables, and {url} names none. Add --thrift2 PORT, "
            "or give the same options to 'simhbase tables ddl' and run what it prints in the hbase shell"
        )
        return
    try:
        hbase.check_tables(url, made.options())
    except TablesMissing:
        chosen.profile()  # what is wrong with it is said before there are tables
        message(f"created {', '.join(hbase.create_tables(url, made.options()))}")


@tables.command()
@administered_store
@expectation_options
@json_option
def check(url: str, made: TableOptions, output: Output) -> None:
    """Check that the tables are what they should be, and that this machine makes the same
    fingerprints as the store's creator.

    The attributes of tables in HBase are compared through a Thrift 2 gateway.
    """
    found: dict[str, Any] = {"store": url}
    if is_in_hbase(url):
        found["attributes_compared"] = _compare_attributes(url, made)
    else:
        made.refuse(_NOT_IN_HBASE.format(url))
    with open_index(url, access="read") as index:
        _ = index.fingerprinter
        output.summary(found | {"fixed_texts": len(probes()), "same": True})


def _compare_attributes(url: str, made: TableOptions) -> int:
    """How many were compared: none where no Thrift 2 gateway is named."""
    specification = hbase.specification(url, made.options())
    if made.given or hbase.has_administration(url):
        hbase.check_tables(url, made.options())
        return sum(len(table.attributes) for table in specification)
    names = dict.fromkeys(name for table in specification for name in table.attributes)
    message(
        f"not compared: {', '.join(names)}. A Thrift 2 gateway knows them: --thrift2 PORT, or thrift2=PORT "
        "in the URL"
    )
    return 0


@tables.command()
@administered_store
@json_option
def describe(url: str, output: Output) -> None:
    """Show a store's profile and the sizes of its tables (estimates), and through a Thrift 2 gateway
    their regions and attributes in HBase."""
    with closing(open_store(url, "read")) as store:
        stored = read_profile(store)
        described: dict[str, dict[str, Any]] = {
            name: {"rows": size.rows, "bytes": size.bytes} for name, size in sizes(store)
        }
    if is_in_hbase(url) and hbase.has_administration(url):
        for name, live in hbase.describe_tables(url).items():
            described[name] |= {"name": live.name, "regions": live.regions, "attributes": live.attributes}
    output.summary(
        {
            "store": url,
            "profile": stored.profile.describe(),
            "software": dict(stored.software),
            "tables": described,
        }
    )


@tables.command()
@store_option
@creation_options
@json_option
def ddl(url: str, made: TableOptions, output: Output) -> None:
    """Print what creates the tables in the hbase shell, where HBase has no Thrift 2 gateway.

    No server is asked: of --store, the names of the tables count.

    \b
      simhbase tables ddl --store hbase://HOST/NAMESPACE:PREFIX --regions 64 >tables.rb
      hbase shell tables.rb
      simhbase tables create --store hbase://HOST/NAMESPACE:PREFIX
    """
    if not is_in_hbase(url):
        raise UsageError(f"tables ddl is for stores in HBase, as --store hbase://HOST/PREFIX; this is {url}")
    output.script(hbase.script(url, made.options()))
    message("run this in the hbase shell (hbase shell FILE), then 'simhbase tables create' for the profile")


@tables.command()
@administered_store
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def drop(url: str, yes: bool, output: Output) -> None:
    """Delete a store with all its data, or what an interrupted creation left of one."""
    names = droppable(url)
    if not yes:
        click.confirm(f"Delete {', '.join(names)} ({_content(url)})?", abort=True, err=True)
    drop_store(url)
    output.summary({"store": url, "dropped": True})


def _content(url: str) -> str:
    try:
        with closing(open_store(url, "read")) as store:
            documents = store.records("documents").approximate_size().rows
    except (TablesMissing, StoreFailed):
        return "not complete"
    return f"about {documents:,} documents"


def sizes(store: Store) -> list[tuple[str, Size]]:
    """Every table's name and size."""
    others: list[tuple[str, Any]] = [(name, store.records(name)) for name in RECORD_TABLES]
    return [(name, table.approximate_size()) for name, table in [("index", store.drawers), *others]]
