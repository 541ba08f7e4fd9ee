"""A store in a PostgreSQL database, written and read by any number of processes.

URL: postgresql://[USER@]HOST[:PORT]/DATABASE?schema=NAME&connections=8&timeout=60, and libpq's options.

Every change of the tables is one transaction, which holds an advisory lock: what a writer reads before it
writes stays true until it has written.
"""

from __future__ import annotations

from typing import NoReturn

from simhbase.errors import UsageError
from simhbase.stores.atomic import ServerBackend
from simhbase.stores.postgresql.store import PostgresStore
from simhbase.stores.postgresql.url import parse

__all__ = ["PostgresBackend", "PostgresStore"]


class PostgresBackend(ServerBackend):
    kind = PostgresStore

    def copy(self, folder: str) -> NoReturn:
        schema = parse(self.url).schema
        raise UsageError(f"{self.url} cannot be copied to a folder: copy its schema {schema} with pg_dump")
