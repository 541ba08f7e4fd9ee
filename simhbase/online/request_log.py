"""What every request gets: an id, a line in the log, and headers that keep browsers in bounds."""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime

import orjson
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from simhbase.logs import logger

REQUEST_ID = "X-Request-ID"
_NEW_ID_BITS = 96  # to be told apart, not to be secret: random's own numbers, which ask no system
_USABLE_ID = re.compile(r"[\w.:/+=-]{1,128}", re.ASCII)

# The page needs nothing from elsewhere, and nobody has to show it inside another one.
_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
)

request_id: ContextVar[str] = ContextVar("request_id", default="")
log = logger("simhbase.online.requests")

Observer = Callable[[str, str, int, float], None]  # method, route, status, seconds


class RequestLog:
    """Around the whole service. observe: is told of each answer. unexpected: answers what it has not
    thought of."""

    def __init__(self, app: ASGIApp, observe: Observer, unexpected: Callable[[Exception], ASGIApp]) -> None:
        self._app = app
        self._observe = observe
        self._unexpected = unexpected

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(REQUEST_ID, "")
        identity = given if _USABLE_ID.fullmatch(given) else f"{random.getrandbits(_NEW_ID_BITS):024x}"
        token = request_id.set(identity)
        start, status = time.perf_counter(), 0

        async def note_and_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", identity.encode()), *_HEADERS]
            await send(message)

        try:
            try:
                await self._app(scope, receive, note_and_send)
            except Exception as error:
                if not status:  # otherwise it is answered, and Starlette has raised it again
                    await self._unexpected(error)(scope, receive, note_and_send)
        finally:
            seconds = time.perf_counter() - start
            route = getattr(scope.get("route"), "path", "")
            self._observe(scope["method"], route, status, seconds)
            client = scope.get("client")
            log.info(
                "%s %s %s",
                scope["method"],
                scope["path"],
                status,
                extra={
                    "method": scope["method"],
                    "path": scope["path"],
                    "route": route,
                    "status": status,
                    "seconds": round(seconds, 6),
                    "client": client[0] if client else None,
                },
            )
            request_id.reset(token)


_FIELDS = ("method", "path", "route", "status", "seconds", "client")


class JsonLines(logging.Formatter):
    """A record of the log as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        values: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if identity := request_id.get():
            values["request_id"] = identity
        values |= {name: getattr(record, name) for name in _FIELDS if hasattr(record, name)}
        if record.exc_info:
            values["trace"] = self.formatException(record.exc_info)
        return orjson.dumps(values, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
