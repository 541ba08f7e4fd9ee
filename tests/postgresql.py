"""A running PostgreSQL for tests."""

import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

import psycopg

from tests.services import Server


class PostgreSQL(Server):
    service = "postgresql"
    space = "schema"
    # What tests kill are clients and the server's processes, not the machine.
    settings: ClassVar[Sequence[str]] = ("fsync=off", "full_page_writes=off")

    @contextmanager
    def largest_file(self, most: int) -> Iterator[None]:
        """Restarted for the block, the server cannot make files larger than this many bytes."""
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        self.stop()
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))  # which it inherits
        try:
            self.start()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        yield
        self.stop()
        self.start()

    def sql(self, statement: str, *parameters: object) -> list[tuple[object, ...]]:
        """The rows of a statement, as the owner of the database."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement, parameters)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []
