"""A store in HBase, through its Thrift gateways: any number of processes write and read.

URL: hbase://HOST:PORT[,HOST:PORT]/[NAMESPACE:]PREFIX?thrift2=PORT&lanes=5&timeout=60&tls=1&ca=FILE
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from simhbase.errors import UsageError
from simhbase.stores import ddl
from simhbase.stores.base import Access
from simhbase.stores.ddl import DEFAULT_OPTIONS, Options, TableSpec
from simhbase.stores.hbase.address import Address, parse
from simhbase.stores.hbase.administration import Thrift2Administrator
from simhbase.stores.hbase.pool import thrift2_pool
from simhbase.stores.hbase.store import HBaseStore

__all__ = [
    "HBaseStore",
    "check_tables",
    "create_store",
    "create_tables",
    "drop_store",
    "open_store",
    "specification",
]


def open_store(url: str, access: Access) -> HBaseStore:
    """Opens a store that exists. Raises TablesMissing, StoreUnreachable, StoreFailed."""
    store = HBaseStore(parse(url), access)
    try:
        store.require_tables()
    except BaseException:
        store.close()
        raise
    return store


def create_store(url: str) -> HBaseStore:
    """Opens a store for writing; with a Thrift 2 gateway in the URL, creates what is missing of it.

    Raises SchemaDiffers where a table exists with other attributes, and what `open_store` raises.
    """
    if parse(url).administration:
        create_tables(url)
    return open_store(url, "write")


def drop_store(url: str) -> None:
    """Deletes the tables with all their data. Raises TablesMissing, StoreUnreachable, StoreFailed."""
    address = parse(url)
    with _administrator(address, "drop") as administrator:
        ddl.drop(_specification(address, DEFAULT_OPTIONS), administrator)


def create_tables(url: str, options: Options = DEFAULT_OPTIONS) -> list[str]:
    """Creates the tables that are missing, through Thrift 2, and returns their names; may be repeated.

    Raises SchemaDiffers, StoreUnreachable, StoreFailed.
    """
    address = parse(url)
    with _administrator(address, "create") as administrator:
        return ddl.create(_specification(address, options), administrator)


def check_tables(url: str, options: Options = DEFAULT_OPTIONS) -> None:
    """Compares the live tables with what they should be, attribute by attribute, through Thrift 2.

    Raises TablesMissing, SchemaDiffers, StoreUnreachable, StoreFailed.
    """
    address = parse(url)
    with _administrator(address, "check") as administrator:
        ddl.check(_specification(address, options), administrator)


def specification(url: str, options: Options = DEFAULT_OPTIONS) -> list[TableSpec]:
    """What the tables of a URL should be; see ddl.render_script."""
    return _specification(parse(url), options)


def _specification(address: Address, options: Options) -> list[TableSpec]:
    return ddl.schema(address.namespace, address.prefix, options)


@contextmanager
def _administrator(address: Address, doing: str) -> Iterator[Thrift2Administrator]:
    if not address.administration:
        raise UsageError(
            f"{address.url}: to {doing} tables, name a Thrift 2 gateway with thrift2=PORT in the URL, or "
            "do it in the hbase shell: 'simhbase tables ddl' prints the commands"
        )
    with closing(thrift2_pool(address)) as pool:
        yield Thrift2Administrator(pool, address.timeout)
