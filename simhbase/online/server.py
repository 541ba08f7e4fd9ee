"""Runs the service in one or several processes on one port."""

from __future__ import annotations

import logging.config
import os
import resource
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from threading import Timer
from typing import Any

from starlette.types import ASGIApp
from uvicorn import Config, Server

from simhbase.errors import PermanentError, SimhbaseError, UsageError
from simhbase.index import open_index
from simhbase.online.app import create_app
from simhbase.online.connection import BoundedProtocol
from simhbase.online.metrics import FOLDER, ServiceMetrics
from simhbase.online.settings import Settings
from simhbase.online.supervisor import supervise
from simhbase.process.logs import logger
from simhbase.process.queue import Shares

BACKLOG = 2048
# Thread switch interval. With Python's default of 5 ms, the event loop would wait that long after each
# system call while a lookup computes.
SWITCH_SECONDS = 0.0005
MOST_FILES = 1 << 16  # open files, which connections are, too
SECONDS_MORE = 5  # beyond the time limit of requests, before a stop aborts running ones; as long again to end

log = logger(__name__)


def open_app(settings: Settings) -> ASGIApp:
    """Open the store for a process of the service. Raises the errors of `simhbase.open`."""
    sys.setswitchinterval(SWITCH_SECONDS)
    metrics = ServiceMetrics()
    index = open_index(settings.store, access=settings.access, metrics=metrics, scope=settings.scope)
    try:
        return create_app(index, settings, metrics)
    except BaseException:
        index.close()
        raise


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 chooses a free one. Raises PermanentError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        raise PermanentError(
            f"cannot listen on {host}, port {port}: {error.strerror}. If another program uses the port, "
            "choose another port"
        ) from error
    return listening


def serve(
    settings: Settings, listening: socket.socket, workers: int, log_level: str, say: Callable[[str], None]
) -> None:
    """Serve until SIGTERM or SIGINT, then finish accepted requests. say: called with a message once it
    listens.

    Raises the errors of `simhbase.open`, and UsageError for several processes that would write to an embedded
    store.
    """
    if workers == 1:
        app = open_app(settings)
        say(f"serving {settings.store} on {_address(listening)}")
        _run(app, settings, log_level, listening)
        return
    _require_shareable(settings)
    say(f"serving {settings.store} on {_address(listening)} by {workers} processes")
    logging.config.dictConfig(logging_config(log_level))
    folder = os.environ[FOLDER] = mkdtemp(prefix="simhbase-metrics-")
    try:
        work = partial(_work, settings, log_level, listening)
        supervise(work, workers, settings.limits.seconds + 3 * SECONDS_MORE, folder)
    finally:
        del os.environ[FOLDER]
        rmtree(folder, ignore_errors=True)


def _work(settings: Settings, log_level: str, listening: socket.socket) -> None:
    """The work of one of several processes. Ends it with 1 if it cannot serve, as the log says."""
    logging.config.dictConfig(logging_config(log_level))
    try:
        app = open_app(settings)
    except SimhbaseError as error:
        log.error("cannot serve: %s", error)
        for numbers in Path(os.environ[FOLDER]).glob(f"*_{os.getpid()}.db"):
            numbers.unlink()  # there are none, and many processes may end like this
        sys.exit(1)
    _run(app, settings, log_level, listening)


def _run(app: ASGIApp, settings: Settings, log_level: str, listening: socket.socket) -> None:
    limits = settings.limits
    # At most twice as many, which leaves half of the files to the store.
    places = Shares(min(limits.connections, _allow_files() // 4))
    config = Config(
        app,
        http=partial(BoundedProtocol, limits, places),  # type: ignore[arg-type]  # called like a class
        ws="none",
        loop="uvloop",
        lifespan="on",
        log_config=logging_config(log_level),
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
        timeout_graceful_shutdown=int(limits.seconds) + SECONDS_MORE,
    )
    with suppress(KeyboardInterrupt):  # re-raised by uvicorn after its shutdown
        EndingServer(config).run([listening])


class EndingServer(Server):
    """A server whose process ends soon after a stop, even if a store hangs or a computation goes on: Python
    itself would wait for all threads."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        seconds = (self.config.timeout_graceful_shutdown or 0) + SECONDS_MORE
        timer = Timer(seconds, _abandon, [seconds])
        timer.daemon = True
        timer.start()
        await super().shutdown(sockets)


def _abandon(seconds: float) -> None:
    log.error("calls of the store have not ended within %g s of the stop: they are abandoned", seconds)
    os._exit(1)


def _allow_files() -> int:
    """Lets the process open as many files as it may; returns how many. 1,024 are usual, which as many
    connections would leave none of for the store."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    most = MOST_FILES if hard == unlimited else min(hard, MOST_FILES)
    if soft != unlimited and soft < most:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            soft = most
    return most if soft == unlimited else soft


def _require_shareable(settings: Settings) -> None:
    """Raises what the processes would raise, and UsageError if the store cannot be opened by several."""
    metrics = ServiceMetrics()
    with open_index(settings.store, access="read", metrics=metrics, scope=settings.scope) as index:
        if settings.access == "write" and not index.store.multi_writer:
            raise UsageError(
                f"only one process can write to the embedded store {settings.store}: use one worker, whose "
                "threads share its reads, or serve it read-only",
                parameter="workers",
            )
        create_app(index, settings, metrics)


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def logging_config(level: str) -> dict[str, Any]:
    """The log as JSON lines on stderr."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"()": "simhbase.online.around.JsonLines"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "lines"}},
        "root": {"handlers": ["stderr"], "level": level.upper()},
        "loggers": {"simhbase": {"handlers": []}},  # removes the command line's handler
    }
