"""A PgBouncer before the PostgreSQL of tests."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.operated import free_port, running
from tests.postgresql import PostgreSQL
from tests.programs import program

CONFIGURATION = """\
[databases]
postgres = host=127.0.0.1 port={server} user=simhbase
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
{settings}
"""


@dataclass(frozen=True)
class Pooler:
    """postgresql: the server behind it."""

    postgresql: PostgreSQL
    port: int

    def store(self, name: str, **options: object) -> str:
        """The URL of a store, by way of the pooler."""
        direct = self.postgresql.store(name, **options)
        return direct.replace(f":{self.postgresql.port}/", f":{self.port}/")


@contextmanager
def pooling(postgresql: PostgreSQL, **settings: object) -> Iterator[Pooler]:
    """A PgBouncer with these settings, such as pool_mode="transaction"."""
    port = free_port()
    lines = "\n".join(f"{name} = {value}" for name, value in settings.items())
    text = CONFIGURATION.format(server=postgresql.port, port=port, settings=lines)
    with TemporaryDirectory(prefix="simhbase-") as place:
        configuration = Path(place) / "pgbouncer.ini"
        configuration.write_text(text)
        user = ["-u", "nobody"] if os.getuid() == 0 else []  # it refuses to run as root
        command = [program("pgbouncer"), *user, str(configuration)]
        with running(command, Path(place) / "log", lambda: _listens(port)):
            yield Pooler(postgresql, port)


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
        return True
    return False
