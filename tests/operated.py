"""What stands around a service: nginx as its proxy, as docs/service.md shows it, and Prometheus. Each has a
folder and ports of its own."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.examples import blocks, page
from tests.programs import program
from tests.service import Answer, Service

STARTING = 60.0  # seconds
# The rest of a configuration that has the block of docs/service.md.
NGINX = """\
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
user {user};
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{block}
}}
"""


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(command: list[str], log: Path, answers: Callable[[], bool]) -> Iterator[None]:
    """A process that has begun to answer, and is ended."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + STARTING
        while not answers():
            assert process.poll() is None, log.read_text("utf-8")
            assert time.monotonic() < deadline, log.read_text("utf-8")
            time.sleep(0.02)
        yield
    finally:
        process.terminate()
        process.wait(STARTING)


@dataclass(frozen=True)
class Proxy:
    """nginx in front of a service, with TLS."""

    port: int
    certificate: Path

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    def send(
        self, method: str, path: str, value: object = None, client: str = "127.0.0.2", **headers: str
    ) -> Answer:
        """A request from a client's address. Underscores in names of headers become hyphens."""
        trusted = ssl.create_default_context(cafile=self.certificate)
        to = http.client.HTTPSConnection(
            "localhost", self.port, timeout=60, context=trusted, source_address=(client, 0)
        )
        with closing(to) as connection:
            body = None if value is None else json.dumps(value)
            given = {name.replace("_", "-"): text for name, text in headers.items()}
            connection.request(method, path, body, {"Content-Type": "application/json", **given})
            answer = connection.getresponse()
            names = {name.lower(): text for name, text in answer.getheaders()}
            return Answer(answer.status, names, answer.read())


@contextmanager
def behind_nginx(service: Service, folder: Path) -> Iterator[Proxy]:
    """nginx in front of a service, configured as docs/service.md shows it."""
    (block,) = (block for language, block in blocks(page("docs/service.md")) if language == "nginx")
    port, certificate, key = free_port(), folder / "simhbase.pem", folder / "simhbase.key"
    make = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    name = ("-addext", "subjectAltName=DNS:localhost")
    subprocess.run(
        [*make.split(), *name, "-keyout", key, "-out", certificate], check=True, capture_output=True
    )
    block = rewritten(
        block,
        {
            "listen 443": f"listen 127.0.0.1:{port}",
            "server_name simhbase.example.org": "server_name localhost",
            "/etc/ssl/simhbase.pem": str(certificate),
            "/etc/ssl/simhbase.key": str(key),
            "http://127.0.0.1:8765": service.url,
        },
    )
    configuration = folder / "nginx.conf"
    user = "root" if os.geteuid() == 0 else "nobody"  # only root changes its user
    configuration.write_text(NGINX.format(folder=folder, user=user, block=block))
    log = folder / "nginx.log"
    command = [program("nginx"), "-c", str(configuration), "-e", str(log), "-p", str(folder)]
    with running(command, log, lambda: _connects(port)):
        yield Proxy(port, certificate)


@dataclass(frozen=True)
class Prometheus:
    """A Prometheus that scrapes a service."""

    port: int

    def ask(self, path: str, **query: str) -> Any:
        """What its API answers."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request("GET", f"/api/v1/{path}?{urlencode(query)}")
            answer = json.loads(connection.getresponse().read())
        assert answer["status"] == "success", answer
        return answer["data"]

    def query(self, expression: str) -> list[Any]:
        """The series of an expression, now."""
        found: list[Any] = self.ask("query", query=expression)["result"]
        return found

    def wait_for(self, expression: str) -> list[Any]:
        """The series of an expression as soon as there are any."""
        deadline = time.monotonic() + STARTING
        while not (found := self.query(expression)):
            assert time.monotonic() < deadline, f"no series of {expression}"
            time.sleep(0.1)
        return found


@contextmanager
def watched(configuration: Path, folder: Path) -> Iterator[Prometheus]:
    """A Prometheus with a configuration."""
    port = free_port()
    command = [
        program("prometheus"),
        f"--config.file={configuration}",
        f"--web.listen-address=127.0.0.1:{port}",
        f"--storage.tsdb.path={folder / 'series'}",
    ]
    with running(command, folder / "prometheus.log", lambda: _ready(port)):
        yield Prometheus(port)


def _ready(port: int) -> bool:
    try:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
            connection.request("GET", "/-/ready")
            return connection.getresponse().status == 200
    except OSError:
        return False


def _connects(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 10).close()
    except OSError:
        return False
    return True


def rewritten(text: str, changes: Mapping[str, str]) -> str:
    """A text with parts replaced, each of which it must have."""
    for shown, here in changes.items():
        assert shown in text, shown
        text = text.replace(shown, here)
    return text


def metrics_in(expression: str) -> set[str]:
    """The metrics that an expression of Prometheus names."""
    return set(re.findall(r"\bsimhbase_\w+", expression))
