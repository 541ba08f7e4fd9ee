"""The service's processes: one, or several beside each other on one port."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from shutil import rmtree
from tempfile import mkdtemp
from threading import Thread
from typing import Any

from starlette.types import ASGIApp
from uvicorn import Config, Server
from uvicorn.supervisors import Multiprocess

from simhbase import acceleration
from simhbase.errors import PermanentError, UsageError
from simhbase.index import open_index
from simhbase.online.app import create_app
from simhbase.online.connection import BoundedProtocol
from simhbase.online.metrics import FOLDER, ServiceMetrics
from simhbase.online.settings import Settings
from simhbase.stores.base import multi_writer

BACKLOG = 2048
# Between threads; Python's own 5 ms are what the event loop would wait after each call of the system while a
# lookup computes.
SWITCH_SECONDS = 0.0005
# A worker answers its supervisor once it has imported everything, which takes long where many start at once
# on few cores; one that ends is replaced at once.
WORKER_SECONDS = 600
SECONDS_MORE = 5  # than a request may take, until a stop cuts off what is still under way


@dataclass(frozen=True)
class ServiceWorker:
    """What a process of the service runs."""

    settings: Settings

    def __call__(self) -> ASGIApp:
        """Opens the store. Raises what `simhbase.open` does."""
        sys.setswitchinterval(SWITCH_SECONDS)
        settings = self.settings
        metrics = ServiceMetrics()
        index = open_index(settings.store, access=settings.access, metrics=metrics)
        # In a thread, as a user's first process compiles for long: requests go without them until then.
        Thread(target=acceleration.prepare, daemon=True).start()
        try:
            return create_app(index, settings, metrics)
        except BaseException:
            index.close()
            raise


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections; port 0 is any that is free. Raises PermanentError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        raise PermanentError(
            f"cannot listen on {host}, port {port}: {error.strerror}. Another program may use the port: "
            "choose another one"
        ) from error
    return listening


def serve(
    settings: Settings, listening: socket.socket, workers: int, log_level: str, say: Callable[[str], None]
) -> None:
    """Serves until SIGTERM or SIGINT, and then finishes what it has accepted. say: is told where.

    Raises what `simhbase.open` does, and UsageError for several processes that would write to an embedded
    store.
    """
    config = Config(
        ServiceWorker(settings),
        factory=True,
        workers=workers,
        http=partial(BoundedProtocol, settings.limits),  # type: ignore[arg-type]  # is called like a class
        ws="none",
        loop="uvloop",
        lifespan="on",
        log_config=logging_config(log_level),
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_worker_healthcheck=WORKER_SECONDS,
        timeout_graceful_shutdown=int(settings.limits.seconds) + SECONDS_MORE,
    )
    if workers == 1:
        app = ServiceWorker(settings)()
        say(f"serving {settings.store} on {_address(listening)}")
        config.app, config.factory = app, False
        with suppress(KeyboardInterrupt):  # which uvicorn passes on when it has stopped
            Server(config).run([listening])
        return
    _require_shareable(settings)
    say(f"serving {settings.store} on {_address(listening)} by {workers} processes")
    folder = os.environ[FOLDER] = mkdtemp(prefix="simhbase-metrics-")
    try:
        Multiprocess(config, [listening]).run()
    finally:
        del os.environ[FOLDER]
        rmtree(folder, ignore_errors=True)


def _require_shareable(settings: Settings) -> None:
    """Raises UsageError where several processes cannot have a store open."""
    with open_index(settings.store, access="read") as index:
        if settings.access == "write" and not multi_writer(index.store):
            raise UsageError(
                f"only one process can write to the embedded store {settings.store}: use one worker, whose "
                "threads share its reads, or serve it read-only",
                parameter="workers",
            )


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
        "loggers": {"simhbase": {"handlers": []}},  # without that of the command line
    }
