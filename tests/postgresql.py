"""A running PostgreSQL for tests, started and stopped by scripts/services."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

from simhbase.errors import TablesMissing
from simhbase.stores import drop_store

SCRIPT = Path(__file__).parents[1] / "scripts" / "services"
# What tests kill are clients and the server's processes, not the machine.
HASTY = ("fsync=off", "full_page_writes=off")


@dataclass(frozen=True)
class Server:
    folder: Path

    def run(self, command: str, *arguments: str) -> str:
        """What a command of scripts/services prints; its errors where it fails."""
        words = [sys.executable, str(SCRIPT), command, "--folder", str(self.folder), *arguments]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, f"{' '.join(words)}:\n{done.stdout}{done.stderr}"
        return done.stdout.strip()

    def start(self) -> None:
        self.run("up", *(word for setting in HASTY for word in ("-c", setting)))

    def stop(self, mode: str = "fast") -> None:
        self.run("down", "--mode", mode)

    def is_up(self) -> bool:
        command = [sys.executable, str(SCRIPT), "status", "--folder", str(self.folder)]
        return subprocess.run(command, capture_output=True).returncode == 0

    @cached_property
    def url(self) -> str:
        """The database's URL, as for psycopg and psql."""
        return self.run("status")

    def store(self, schema: str, **options: object) -> str:
        """A store's URL."""
        return f"{self.url}?schema={schema}" + "".join(f"&{name}={value}" for name, value in options.items())

    def empty_store(self, schema: str) -> str:
        """The URL of a store that does not exist."""
        url = self.store(schema)
        with suppress(TablesMissing):
            drop_store(url)
        return url

    def sql(self, statement: str, *parameters: object) -> list[tuple[object, ...]]:
        """The rows of a statement, as the owner of the database."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement, parameters)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []


@contextmanager
def started(folder: str | None) -> Iterator[Server]:
    """A PostgreSQL, in a new folder where none is given; it goes on running if it was up before."""
    with nullcontext(folder) if folder else TemporaryDirectory(prefix="simhbase-") as place:
        server = Server(Path(place))
        was_up = server.is_up()
        server.start()
        try:
            yield server
        finally:
            if not was_up:
                server.stop()
