"""`simhbase tables`: creating, checking, describing, copying and dropping stores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simhbase.cli.consent import Consent, consent_options
from simhbase.cli.options import (
    Group,
    converted,
    count,
    option,
    profile_file_option,
    profile_options,
    seconds,
    store_option,
    together,
)
from simhbase.cli.output import Output, fail, json_option, message, print_script

if TYPE_CHECKING:
    from simhbase.admin.tables import CreatedTables, DescribedTables, Snapshot

NOT_COMPARED = 15  # exit code
_NOT_SHOWN = "tables and regions are not shown: this needs a Thrift 2 gateway; add thrift2=PORT to the URL"

_splitting = together(
    option("--regions N", "Initial regions of each table.", group="HBase", type=click.IntRange(1)),
    option(
        "--documents N",
        "Choose --regions for this many documents.",
        group="HBase",
        callback=converted(count),
    ),
)
_storing = together(
    option(
        "--compression NAME",
        "Compression, which the servers must support: gz, snappy, lz4, zstd.",
        group="HBase",
        callback=converted(str.upper),
    ),
    option(
        "--ttl TIME",
        "Documents expire this long after their last write, e.g. 30d. [default: never; for 'check': any]",
        group="Store",
        callback=converted(seconds),
    ),
)


_counting = option(
    "--counts",
    "Count refused claims of each document; 'list' shows them. Only for a new store.",
    group="Store",
)


_scoping = option(
    "--scoped",
    "With scopes, which keep tenants apart (docs/tenants.md). Only for a new store.",
    group="Store",
)


@click.group(
    cls=Group,
    epilog="""\b
URLs of stores:
  rocksdb:PATH     embedded, in a folder of this machine
  memory:          in memory, for tests
  postgresql://[USER@]HOST[:PORT]/DATABASE?OPTION=VALUE&...
                   PostgreSQL from version 14 on; a password by PGPASSWORD or in
                   ~/.pgpass; libpq's options, such as sslmode, and:
    schema=NAME    of the tables (simhbase)
    connections=8  maximum connections of a process
    timeout=60     seconds for a call including retries, and for a lock
  redis://[USER@]HOST[:PORT][/DATABASE]?OPTION=VALUE&...
                   Redis or Valkey from version 7 on, rediss:// with TLS; a password by
                   REDISCLI_AUTH; options:
    prefix=NAME    of the keys (simhbase)
    replicas=0     how many acknowledge each write
    connections=8  maximum connections of a process
    timeout=60     seconds for a call including retries, and for the lock
    ca=FILE        certificates to trust instead of the system's
    cert=FILE, key=FILE  of this client
  hbase://HOST:PORT[,HOST:PORT]/[NAMESPACE:]PREFIX?OPTION=VALUE&...
                   Thrift gateways of HBase (port 9090); options:
    thrift2=PORT   Thrift 2 gateways on the same hosts, or HOST:PORT; needed to create,
                   check and drop tables, and lookups make fewer calls with them
    connections=8  maximum connections of a process, half of them to Thrift 2
    timeout=60     seconds for a call including retries
    tls=1          use TLS
    ca=FILE        certificates to trust with tls=1 instead of the system's
""",
)
def tables() -> None:
    """Create, check, describe, copy and drop a store's tables."""


@tables.command(short_help="Create a store, with a profile.")
@store_option
@_splitting
@_storing
@_counting
@_scoping
@profile_options
@option("-v, --verbose", "Print the profile, too.")
@json_option
def create(url: str, profile: Mapping[str, object], verbose: bool, output: Output, **wanted: Any) -> None:
    """Create a store, or its missing tables, with a profile. Prints the tables in HBase and their regions.

    In HBase this needs a Thrift 2 gateway. Without one, first run the output of 'simhbase tables ddl' in the
    hbase shell; this command then stores the profile in the tables.
    """
    from simhbase.admin import tables as store_tables
    from simhbase.stores import backend

    made = store_tables.create(url, profile, **wanted)
    if made.created:
        message(f"created {', '.join(made.created)}")
    _warn(made.warnings)
    # A store without sketches is for fingerprints made elsewhere.
    if made.profile.sketching is not None and (misses := made.profile.misses):
        output.hint(misses)
    found: dict[str, Any] = {"store": url, **_kinds(made)}
    if made.regions:
        found["tables"] = [{"table": table, "regions": count} for table, count in made.regions.items()]
    elif not backend(url).creates_itself:
        output.hint(_NOT_SHOWN)
    if verbose or output.as_json:
        found["profile"] = made.profile.describe()
    output.summary(found | {"warnings": made.warnings})


def _kinds(tables: CreatedTables | DescribedTables) -> dict[str, bool]:
    """What only some stores have."""
    given = {"counts": tables.counts, "scoped": tables.scoped}
    return {name: True for name, is_so in given.items() if is_so}


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        for line in f"warning: {warning}".split("\n"):
            message(line)


@tables.command(short_help="Check the tables, and this machine's fingerprints.")
@store_option
@_storing
@json_option
def check(url: str, output: Output, **wanted: Any) -> None:
    """Check the tables' attributes, and that this machine computes the same fingerprints as the store's
    creator.

    In HBase, attributes are read through a Thrift 2 gateway; without one the exit code is 15. 'simhbase
    check' compares the rows of the tables with each other.
    """
    from simhbase.admin import tables as store_tables

    checked = store_tables.check(url, **wanted)
    _warn(checked.warnings)
    found: dict[str, Any] = {"store": url}
    if checked.attributes_compared is not None:
        found["attributes_compared"] = checked.attributes_compared
    same = None if checked.not_compared else True
    output.summary(found | {"fixed_texts": checked.fixed_texts, "same": same, "warnings": checked.warnings})
    if checked.not_compared:
        names = ", ".join(checked.not_compared)
        fail(
            f"the fingerprints are the same, but the tables' attributes were not compared: {names}. This "
            "needs a Thrift 2 gateway: add thrift2=PORT to the URL",
            NOT_COMPARED,
        )


@tables.command(short_help="Show the profile, and regions and attributes in HBase.")
@store_option
@profile_file_option
@consent_options(dry_run=False)
@json_option
def describe(url: str, profile_file: Path | None, consent: Consent, output: Output) -> None:
    """Show a store's profile, and the regions and attributes of its tables in HBase.

    In HBase these are read through a Thrift 2 gateway. Bytes are estimated from samples, before compression:
    status 'detailed' in the hbase shell has the sizes on disk. 'simhbase stats' counts documents and rows.
    """
    from simhbase.admin import tables as store_tables
    from simhbase.corpus.outputs.files import files_in_place
    from simhbase.profile.file import write_profile_file
    from simhbase.stores import backend

    consent.require_replacing(files_in_place([profile_file]))
    described = store_tables.describe(url)
    if profile_file:
        write_profile_file(profile_file, described.profile)
    if not described.tables and not backend(url).creates_itself:
        output.hint(_NOT_SHOWN)
    output.summary(
        {
            "store": url,
            "profile": described.profile.describe(),
            "software": described.software,
            **({} if described.ttl is None else {"ttl": described.ttl}),
            **_kinds(described),
            "tables": {
                name: asdict(live) | {"bytes_per_region": described.sizes[name].bytes // live.regions}
                for name, live in described.tables.items()
            },
        }
    )


@tables.command(short_help="Print a script that creates the tables in HBase.")
@store_option
@_splitting
@_storing
@_counting
@profile_options
@json_option
def ddl(url: str, profile: Mapping[str, object], output: Output, **wanted: Any) -> None:
    """Print a script for the hbase shell that creates the tables, if HBase has no Thrift 2 gateway.

    No server is contacted. The profile only matters with --documents.

    \b
      simhbase tables ddl --store hbase://HOST/NAMESPACE:PREFIX --regions 64 >tables.rb
      hbase shell tables.rb
      simhbase tables create --store hbase://HOST/NAMESPACE:PREFIX
    """
    from simhbase.admin import tables as store_tables

    printed = store_tables.ddl(url, profile, **wanted)
    _warn(printed.warnings)
    print_script(printed.script, output)
    message("run this in the hbase shell (hbase shell FILE), then 'simhbase tables create' for the profile")


@tables.command(short_help="Copy a store.")
@click.argument("name", metavar="PATH|NAME")
@store_option
@json_option
def snapshot(name: str, url: str, output: Output) -> None:
    """Copy a store; an embedded one to the new folder PATH.

    The copy is a store itself (--store rocksdb:PATH), and takes little space on the same file system until
    the store changes. Fails with exit code 13 while another process writes to the store.

    For a store in HBase, this prints a script for the hbase shell that takes snapshots of the tables, named
    NAME-documents and so on; writers can keep running.
    """
    from simhbase.admin import tables as store_tables

    _show(store_tables.snapshot(url, name), output)


@tables.command(short_help="Restore a store from a snapshot.")
@click.argument("name", metavar="PATH|NAME")
@store_option
@json_option
def restore(name: str, url: str, output: Output) -> None:
    """Restore a store from a snapshot, which stays.

    --store must not exist ('simhbase tables drop' deletes one). For a store in HBase, this prints a script
    for the hbase shell, which stops if a table exists.
    """
    from simhbase.admin import tables as store_tables

    _show(store_tables.restore(url, name), output)


def _show(made: Snapshot, output: Output) -> None:
    if made.script is None:
        output.summary({"store": made.store, "snapshot": made.name})
    else:
        print_script(made.script, output)
        message("run this in the hbase shell (hbase shell FILE)")


@tables.command(short_help="Delete a store with all its data.")
@store_option
@consent_options()
@json_option
def drop(url: str, consent: Consent, output: Output) -> None:
    """Delete a store with all its data, or the remains of an interrupted creation.

    'simhbase tables snapshot' makes a copy first (in PostgreSQL, pg_dump; in Redis, BGSAVE). In HBase, a
    namespace created by 'simhbase tables create' is deleted with its last table; in PostgreSQL, a schema that
    is empty then. Asks first; without a terminal, give --yes.
    """
    from simhbase.admin import tables as store_tables

    if consent.dry_run or not consent.yes:
        names, documents = store_tables.listed(url)
        content = "not complete, or damaged" if documents is None else f"about {documents:,} documents"
        place = "" if url in names else f" of {url}"
        if consent.dry_run:
            known = "unknown" if documents is None else documents
            output.summary({"store": url, "would_drop": list(names), "documents": known})
            return
        message("'simhbase tables snapshot' makes a copy (in PostgreSQL, pg_dump; in Redis, BGSAVE)")
        consent.ask(f"delete {', '.join(names)} ({content}){place}")
    store_tables.drop(url)
    output.summary({"store": url, "dropped": True})
