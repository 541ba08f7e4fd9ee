"""A store in a PostgreSQL database, written and read by any number of processes.

URL: postgresql://[USER@]HOST[:PORT]/DATABASE?schema=NAME&connections=8&timeout=60, and libpq's options.

Every change of the tables is one transaction, which holds an advisory lock: what a writer reads before it
writes stays true until it has written.
"""

from __future__ import annotations

from typing import NoReturn

from simhbase.errors import UsageError
from simhbase.stores.base import NoteDamage
from simhbase.stores.postgresql.store import PostgresStore
from simhbase.stores.postgresql.url import parse

__all__ = [
    "PostgresStore",
    "copy_store",
    "create_store",
    "drop_store",
    "droppable",
    "open_damaged",
    "open_store",
]

open_store, create_store = PostgresStore.opened, PostgresStore.created
drop_store, droppable = PostgresStore.dropped, PostgresStore.droppable


def open_damaged(url: str, note: NoteDamage) -> PostgresStore:
    """Open a store for reading: what the server cannot read is its error."""
    return open_store(url, "read")


def copy_store(url: str, folder: str) -> NoReturn:
    """Raises UsageError: PostgreSQL has programs for this."""
    schema = parse(url).schema
    raise UsageError(f"{url} cannot be copied to a folder: copy its schema {schema} with pg_dump")
