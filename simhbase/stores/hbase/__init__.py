"""A store in HBase, accessed through Thrift gateways by any number of reading and writing processes.

URL: hbase://HOST:PORT[,HOST:PORT]/[NAMESPACE:]PREFIX?thrift2=PORT&connections=8&timeout=60, and what
docs/kerberos.md adds for secured gateways.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager

from simhbase.errors import TablesMissing, UsageError
from simhbase.stores.base import MET, Access, NoteDamage
from simhbase.stores.hbase import schema as ddl
from simhbase.stores.hbase.administration import Thrift2Administrator
from simhbase.stores.hbase.schema import DEFAULT_OPTIONS, LiveTable, Options, TableSpec
from simhbase.stores.hbase.store import HBaseStore
from simhbase.stores.hbase.url import Address, parse

__all__ = [
    "HBaseStore",
    "check_tables",
    "clone_script",
    "create_store",
    "create_tables",
    "describe_tables",
    "drop_store",
    "droppable",
    "has_administration",
    "has_counts",
    "open_damaged",
    "open_store",
    "script",
    "snapshot_script",
    "specification",
    "table_warnings",
]


ALL = Options(counts=True)  # tables that a store may have


def open_store(url: str, access: Access) -> HBaseStore:
    """Open an existing store. Raises TablesMissing, StoreUnreachable, StoreFailed."""
    store = HBaseStore(parse(url), access)
    try:
        store.require()
    except BaseException:
        store.close()
        raise
    return store


def open_damaged(url: str, note: NoteDamage) -> HBaseStore:
    """Open a store for reading: what the servers cannot read is their error."""
    return open_store(url, "read")


def create_store(url: str, access: Access, *, counts: bool = False) -> HBaseStore:
    """Open a store for writing; with a Thrift 2 gateway in the URL, create missing tables. counts: also MET.

    Raises SchemaDiffers if a table has other attributes, and the errors of `open_store`.
    """
    if has_administration(url):
        create_tables(url, Options(counts=counts))
        return open_store(url, access)
    try:
        return open_store(url, access)
    except TablesMissing as missing:
        raise TablesMissing(
            f"{missing} and a Thrift 2 gateway, thrift2=PORT in the URL, or in the hbase shell with what "
            "'simhbase tables ddl' prints"
        ) from missing


def drop_store(url: str) -> None:
    """Delete the tables with all their data. Raises TablesMissing, StoreUnreachable, StoreFailed."""
    address = parse(url)
    with _administrator(address, "drop") as administrator:
        ddl.drop(_specification(address, ALL), administrator)


def droppable(url: str) -> list[str]:
    """Names of the tables that `drop_store` would delete. Raises its errors."""
    address = parse(url)
    with _administrator(address, "drop") as administrator:
        there = ddl.existing(_specification(address, ALL), administrator)
    return [table.full_name for table in there]


def has_administration(url: str) -> bool:
    """True if a URL has a Thrift 2 gateway, which can create, check and drop tables."""
    return bool(parse(url).gateways2)


def create_tables(url: str, options: Options = DEFAULT_OPTIONS) -> list[str]:
    """Create missing tables through Thrift 2; returns their names. May be repeated.

    Raises SchemaDiffers, StoreUnreachable, StoreFailed.
    """
    address = parse(url)
    with _administrator(address, "create") as administrator:
        return ddl.create(_specification(address, options), administrator)


def check_tables(url: str, options: Options = DEFAULT_OPTIONS) -> None:
    """Compare the attributes of the tables with the specification, through Thrift 2.

    Raises TablesMissing, SchemaDiffers, StoreUnreachable, StoreFailed.
    """
    address = parse(url)
    with _administrator(address, "check") as administrator:
        ddl.check(_specification(address, options), administrator)


def has_counts(url: str) -> bool:
    """True if there is the table for counts, through Thrift 2. Raises StoreUnreachable, StoreFailed."""
    address = parse(url)
    with _administrator(address, "check") as administrator:
        return administrator.families(ddl.table_spec(MET, address.namespace, address.prefix)) is not None


def table_warnings(url: str, options: Options | None = None) -> list[str]:
    """Warnings about valid tables: writes that may be lost and, given `options`, another number of regions.

    Raises StoreUnreachable, StoreFailed.
    """
    address = parse(url)
    with _administrator(address, "check") as administrator:
        tables = _specification(address, options or DEFAULT_OPTIONS)
        found = [ddl.lossy(tables, administrator)]
        if options is not None:
            found.append(ddl.other_regions(tables, administrator))
    return [warning for warning in found if warning]


def describe_tables(url: str) -> dict[str, LiveTable]:
    """The live tables. Raises TablesMissing, StoreUnreachable, StoreFailed."""
    address = parse(url)
    with _administrator(address, "describe") as administrator:
        found = ddl.describe(_specification(address, ALL), administrator)
    return dict(zip((*ddl.TABLES, MET), found, strict=False))


def specification(url: str, options: Options = DEFAULT_OPTIONS) -> list[TableSpec]:
    """Specification of the tables of a URL."""
    return _specification(parse(url), options)


def script(url: str, options: Options = DEFAULT_OPTIONS) -> str:
    """A script for the hbase shell that creates the tables of a URL."""
    address = parse(url)
    namespace = "" if address.namespace == ddl.DEFAULT_NAMESPACE else f"{address.namespace}:"
    return (
        f"# The tables of {namespace}{address.prefix}. Run this file as `hbase shell FILE`; after that\n"
        "# `simhbase tables create` stores the profile in them.\n\n"
        f"{ddl.render_script(_specification(address, options))}"
    )


def compaction_script(url: str) -> str:
    """A script for the hbase shell that compacts the tables of a URL in full."""
    return ddl.render_compactions(specification(url, ALL))


def snapshot_script(url: str, name: str) -> str:
    """A script for the hbase shell that takes snapshots of the tables of a URL. Raises UsageError."""
    return ddl.render_snapshots(specification(url, ALL), _snapshot_name(name))


def clone_script(url: str, name: str) -> str:
    """A script for the hbase shell that creates the tables of a URL from snapshots. Raises UsageError."""
    return ddl.render_clones(specification(url, ALL), _snapshot_name(name))


def _snapshot_name(name: str) -> str:
    if not re.fullmatch(r"\w[\w.-]*", name, re.ASCII):
        raise UsageError(
            f"{name!r} names no snapshot in HBase: give letters, digits, and _, - or . behind the first"
        )
    return name


def _specification(address: Address, options: Options) -> list[TableSpec]:
    return ddl.schema(address.namespace, address.prefix, options)


@contextmanager
def _administrator(address: Address, doing: str) -> Iterator[Thrift2Administrator]:
    if not address.gateways2:
        raise UsageError(
            f"{address.url}: to {doing} tables, name a Thrift 2 gateway with thrift2=PORT in the URL, or "
            "use the hbase shell ('simhbase tables ddl' prints what creates them)"
        )
    with closing(Thrift2Administrator(address)) as administrator:
        yield administrator
