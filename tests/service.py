"""A running `simhbase serve`, and requests to it as any program may send them."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.command_line import COMMAND, environment

STARTED = re.compile(r"serving .* on (http://\S+)")
STARTING, STOPPING = 60.0, 60.0  # seconds


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """Of an error."""
        code: str = self.json["error"]["code"]
        return code


class Service:
    """A service that runs. Requests go out one by one, each by a connection of its own."""

    def __init__(self, process: subprocess.Popen[bytes], url: str, log: Path) -> None:
        self.process = process
        self.url = url
        self.address = urlsplit(url)
        self._log = log

    def send(
        self,
        method: str,
        path: str,
        body: bytes | Iterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 60,
    ) -> Answer:
        with closing(self.connect(timeout)) as connection:
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            lower = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, lower, answer.read())

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", path, headers=headers)

    def post(self, path: str, value: object, **headers: str) -> Answer:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        return self.send("POST", path, body, {"Content-Type": "application/json", **headers})

    def connect(self, timeout: float = 60) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.address.hostname or "", self.address.port, timeout=timeout)

    def await_ready(self) -> None:
        """Return when the store answers again."""
        deadline = time.monotonic() + 120
        while (answer := self.get("/readyz")).status != 200:
            assert time.monotonic() < deadline, answer.body
            time.sleep(0.1)

    def logged(self) -> list[dict[str, Any]]:
        """The lines of the log so far."""
        lines = self._log.read_text("utf-8").split("\n")  # an id may hold other ends of lines
        return [json.loads(line) for line in lines if line.startswith("{")]

    def log_text(self) -> str:
        return self._log.read_text("utf-8")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """The exit code."""
        self.process.send_signal(number)
        return self.process.wait(STOPPING)


@contextmanager
def serving(store: str, folder: Path, *options: object, **variables: str) -> Iterator[Service]:
    """A service over a store, which stops in the end; its exit code has to be 0 unless it was killed."""
    log = folder / f"service-{time.monotonic_ns()}.log"
    port = () if "--port" in options else ("--port", "0")
    command = [*COMMAND, "serve", "--store", store, *port, *map(str, options)]
    with log.open("wb") as stderr:
        process = subprocess.Popen(command, cwd=folder, env=environment(**variables), stderr=stderr)
    try:
        service = Service(process, _started(process, log), log)
        _await_answer(service)
        yield service
        if process.poll() is None:
            code = service.stop()
            assert code == 0, log.read_text("utf-8")
    finally:
        process.kill()
        process.wait()


def _started(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + STARTING
    while time.monotonic() < deadline:
        said = log.read_text("utf-8")
        if found := STARTED.search(said):
            return found[1]
        assert process.poll() is None, said
        time.sleep(0.02)
    raise AssertionError(log.read_text("utf-8"))


def _await_answer(service: Service) -> None:
    deadline = time.monotonic() + STARTING
    while time.monotonic() < deadline:
        try:
            if service.get("/healthz").status == 200:
                return
        except OSError:
            time.sleep(0.02)
    raise AssertionError("the service does not answer")
