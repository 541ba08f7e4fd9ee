"""`simhbase tables`: a store's life from its creation to its end."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from simhbase.admin import tables as store_tables
from simhbase.cli.options import (
    ALL_PARAMETERS,
    STORE_VARIABLE,
    ProfileOptions,
    profile_file_option,
    profile_options,
    store_option,
)
from simhbase.cli.output import Output, json_option, message
from simhbase.cli.table_options import administered_store, creation_options, expectation_options
from simhbase.profile_file import write_profile_file


@click.group(
    epilog="""\b
URLs of stores:
  rocksdb:PATH     embedded, in a folder of this machine
  memory:          for tests, gone with the process
  hbase://HOST:PORT[,HOST:PORT]/[NAMESPACE:]PREFIX?OPTION=VALUE&...
                   through Thrift gateways of HBase (port 9090), with the options
    thrift2=PORT   Thrift 2 gateways on the same hosts, or HOST:PORT: they create,
                   check and drop tables, and lookups read fewer rows with them
    connections=8  how many a process opens at most, half of them to Thrift 2
    timeout=60     seconds that a call may take with all its retries
    tls=1          speak TLS with the gateways
    ca=FILE        certificates to trust with tls=1 instead of the system's
"""
)
def tables() -> None:
    """Create, check, describe, copy and drop a store's tables."""


@tables.command(short_help="Create what is missing of a store, with a profile.")
@administered_store
@creation_options
@profile_options(*ALL_PARAMETERS)
@json_option
def create(url: str, wanted: Mapping[str, Any], chosen: ProfileOptions, output: Output) -> None:
    """Create what is missing of a store, with a profile; may be repeated.

    HBase creates tables through a Thrift 2 gateway. Without one, run what `simhbase tables ddl` prints
    in the hbase shell first: this command then stores the profile in those tables.
    """
    made = store_tables.create(url, chosen.given, **wanted)
    if made.created:
        message(f"created {', '.join(made.created)}")
    _warn(made.warnings)
    if misses := made.profile.misses:
        output.hint(misses)
    created = {"store": url, "profile": made.profile.describe(), "warnings": made.warnings}
    output.summary(created | _use(url))


def _use(url: str) -> dict[str, str]:
    """How workers get a URL that is more than what was typed as --store."""
    return {"to_use_it": f"export {STORE_VARIABLE}={shlex.quote(url)}"} if "thrift2=" in url else {}


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        for line in f"warning: {warning}".split("\n"):
            message(line)


@tables.command(short_help="Check the tables, and this machine's fingerprints.")
@administered_store
@expectation_options
@json_option
def check(url: str, wanted: Mapping[str, Any], output: Output) -> None:
    """Check that the tables are what they should be, and that this machine makes the same
    fingerprints as the store's creator.

    The attributes of tables in HBase are compared through a Thrift 2 gateway, and a durability with which
    acknowledged writes may be lost is warned of.

    'simhbase check' compares the rows of the tables with each other.
    """
    checked = store_tables.check(url, **wanted)
    if checked.not_compared:
        message(
            f"not compared: {', '.join(checked.not_compared)}. A Thrift 2 gateway knows them: "
            "--thrift2 PORT, or thrift2=PORT in the URL"
        )
    _warn(checked.warnings)
    found: dict[str, Any] = {"store": url}
    if checked.attributes_compared is not None:
        found["attributes_compared"] = checked.attributes_compared
    output.summary(found | {"fixed_texts": checked.fixed_texts, "same": True, "warnings": checked.warnings})


@tables.command(short_help="Show the profile, and regions and attributes in HBase.")
@administered_store
@profile_file_option
@json_option
def describe(url: str, profile_file: Path | None, output: Output) -> None:
    """Show a store's profile, and through a Thrift 2 gateway the regions and attributes of its tables
    in HBase.

    'simhbase stats' counts documents, rows and bytes.
    """
    described = store_tables.describe(url)
    if profile_file:
        write_profile_file(profile_file, described.profile)
    output.summary(
        {
            "store": url,
            "profile": described.profile.describe(),
            "software": described.software,
            **({} if described.ttl is None else {"ttl": described.ttl}),
            "tables": {name: asdict(live) for name, live in described.tables.items()},
        }
    )


@tables.command(short_help="Print what creates the tables in the hbase shell.")
@store_option
@creation_options
@profile_options(*ALL_PARAMETERS)
@json_option
def ddl(url: str, wanted: Mapping[str, Any], chosen: ProfileOptions, output: Output) -> None:
    """Print what creates the tables in the hbase shell, where HBase has no Thrift 2 gateway.

    No server is asked: of --store, the names of the tables count, and of a profile how much room --documents
    need.

    \b
      simhbase tables ddl --store hbase://HOST/NAMESPACE:PREFIX --regions 64 >tables.rb
      hbase shell tables.rb
      simhbase tables create --store hbase://HOST/NAMESPACE:PREFIX
    """
    printed = store_tables.ddl(url, chosen.given, **wanted)
    _warn(printed.warnings)
    output.script(printed.script)
    message("run this in the hbase shell (hbase shell FILE), then 'simhbase tables create' for the profile")


@tables.command(short_help="Keep a copy of a store as it is.")
@click.argument("name", metavar="PATH|NAME")
@store_option
@json_option
def snapshot(name: str, url: str, output: Output) -> None:
    """Keep a copy of a store as it is: of an embedded one in the folder PATH, which must not exist.

    It is a store itself (--store rocksdb:PATH), and takes hardly any room on the same file system until the
    store changes. It is made as a writer would: while another process writes to the store, this ends with 13.

    Of a store in HBase, this prints what takes snapshots of the tables in the hbase shell, in an order in
    which writers may go on; their names are NAME-documents and the like.
    """
    _show(store_tables.snapshot(url, name), output)


@tables.command(short_help="Make a store of a copy that 'snapshot' kept.")
@click.argument("name", metavar="PATH|NAME")
@store_option
@json_option
def restore(name: str, url: str, output: Output) -> None:
    """Make a store of a copy that 'simhbase tables snapshot' kept; the copy stays.

    There must be no store yet at --store ('simhbase tables drop' deletes one). Of a store in HBase, this
    prints what makes its tables of the snapshots NAME-documents and the like in the hbase shell, which stops
    where a table exists.
    """
    _show(store_tables.restore(url, name), output)


def _show(made: store_tables.Snapshot, output: Output) -> None:
    if made.script is None:
        output.summary({"store": made.store, "snapshot": made.name})
    else:
        output.script(made.script)
        message("run this in the hbase shell (hbase shell FILE)")


@tables.command(short_help="Let this version claim in a store of an older one.")
@store_option
@json_option
def upgrade(url: str, output: Output) -> None:
    """Make the rows of a store the ones of this version's format, so that claims can be made in it.

    In HBase, stop all processes of older versions that claim or load with --unique-only first. Older versions
    open the store no more; nothing but the profile is changed.
    """
    output.summary(asdict(store_tables.upgrade(url)))


@tables.command(short_help="Delete a store with all its data.")
@administered_store
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def drop(url: str, yes: bool, output: Output) -> None:
    """Delete a store with all its data, or what an interrupted creation left of one.

    'simhbase tables snapshot' keeps a copy first.
    In HBase a namespace that 'simhbase tables create' made is deleted with its last table.
    """
    if not yes:
        names, documents = store_tables.listed(url)
        content = "not complete" if documents is None else f"about {documents:,} documents"
        message("simhbase tables snapshot keeps a copy")
        click.confirm(f"Delete {', '.join(names)} ({content})?", abort=True, err=True)
    store_tables.drop(url)
    output.summary({"store": url, "dropped": True})
