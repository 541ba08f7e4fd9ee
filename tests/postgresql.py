"""A running PostgreSQL for tests."""

import psycopg

from tests.services import Server


class PostgreSQL(Server):
    service = "postgresql"
    space = "schema"
    # What tests kill are clients and the server's processes, not the machine.
    settings = ("fsync=off", "full_page_writes=off")

    def sql(self, statement: str, *parameters: object) -> list[tuple[object, ...]]:
        """The rows of a statement, as the owner of the database."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement, parameters)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []
