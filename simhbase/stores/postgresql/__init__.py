"""A store in a PostgreSQL database, written and read by any number of processes.

URL: postgresql://[USER@]HOST[:PORT]/DATABASE?schema=NAME&connections=8&timeout=60, and libpq's options.

Every change of the tables is one transaction, which holds an advisory lock: what a writer reads before it
writes stays true until it has written.
"""

from __future__ import annotations

from contextlib import closing
from typing import NoReturn

from simhbase.errors import TablesMissing, UsageError
from simhbase.stores.base import Access
from simhbase.stores.postgresql.store import PostgresStore
from simhbase.stores.postgresql.url import parse

__all__ = ["PostgresStore", "copy_store", "create_store", "drop_store", "droppable", "open_store"]


def open_store(url: str, access: Access) -> PostgresStore:
    """Open an existing store. Raises TablesMissing, StoreUnreachable, StoreFailed, UsageError."""
    store = PostgresStore(parse(url), access)
    try:
        store.open()
    except BaseException:
        store.close()
        raise
    return store


def create_store(url: str, access: Access) -> PostgresStore:
    """Open a store for writing, creating what is missing. Raises the errors of `open_store`."""
    with closing(PostgresStore(parse(url), "write")) as store:
        store.create()
    return open_store(url, access)


def drop_store(url: str) -> None:
    """Delete the tables with all their data, and the schema if it is empty then. Raises the errors of
    `open_store`."""
    droppable(url)
    with closing(PostgresStore(parse(url), "write")) as store:
        store.drop()


def droppable(url: str) -> list[str]:
    """Names of the tables that `drop_store` would delete. Raises its errors."""
    with closing(PostgresStore(parse(url), "read")) as store:
        if there := store.existing_tables():
            return there
    raise TablesMissing(f"{url}: there are no tables to drop")


def copy_store(url: str, folder: str) -> NoReturn:
    """Raises UsageError: PostgreSQL has programs for this."""
    schema = parse(url).schema
    raise UsageError(f"{url} cannot be copied to a folder: copy its schema {schema} with pg_dump")
