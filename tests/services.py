"""Running servers for tests, started and stopped by scripts/services."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, TypeVar
from urllib.parse import urlsplit

from simhbase.errors import TablesMissing
from simhbase.stores import drop_store
from tests.relay import Relay

SCRIPT = Path(__file__).parents[1] / "scripts" / "services"


@dataclass(frozen=True)
class Server:
    """A server whose files are in a folder. service: as scripts/services calls it; space: the option of a
    URL that keeps stores apart; settings: of the server."""

    folder: Path
    service: ClassVar[str]
    space: ClassVar[str]
    settings: ClassVar[Sequence[str]] = ()

    def run(self, command: str, *arguments: str) -> str:
        """What a command of scripts/services prints; its errors where it fails."""
        done = self._run(command, *arguments)
        assert done.returncode == 0, f"{done.args}:\n{done.stdout}{done.stderr}"
        return done.stdout.strip()

    def _run(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, str(SCRIPT), command, self.service, "--folder", str(self.folder), *arguments]
        return subprocess.run(words, capture_output=True, text=True)

    def start(self, *settings: str) -> None:
        self.run("up", *(word for setting in (*self.settings, *settings) for word in ("-c", setting)))

    def stop(self, mode: str = "fast") -> None:
        self.run("down", "--mode", mode)

    def is_up(self) -> bool:
        return self._run("status").returncode == 0

    @cached_property
    def url(self) -> str:
        return self.run("status")

    def store(self, name: str, **options: object) -> str:
        """A store's URL."""
        words = (f"{key}={value}" for key, value in ((self.space, name), *options.items()))
        return f"{self.url}?{'&'.join(words)}"

    def through(self, relay: Relay, name: str, **options: object) -> str:
        """The URL of a store, by way of a relay."""
        return self.store(name, **options).replace(f":{self.port}", f":{relay.port}")

    @property
    def port(self) -> int:
        port = urlsplit(self.url).port
        assert port
        return port

    def empty_store(self, name: str) -> str:
        """The URL of a store that does not exist."""
        url = self.store(name)
        with suppress(TablesMissing):
            drop_store(url)
        return url


S = TypeVar("S", bound=Server)


@contextmanager
def started(kind: type[S], folder: str | None = None, *settings: str) -> Iterator[S]:
    """A server, in a new folder where none is given; it goes on running if it was up before."""
    with nullcontext(folder) if folder else TemporaryDirectory(prefix="simhbase-") as place:
        server = kind(Path(place))
        was_up = server.is_up()
        server.start(*settings)
        try:
            yield server
        finally:
            if not was_up:
                server.stop()
