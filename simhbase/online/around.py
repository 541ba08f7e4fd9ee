"""Middleware for every request: an id, a log line, security headers, answers to errors."""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv6Address

import orjson
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from simhbase.online.failures import answer_to, release, request_id
from simhbase.online.settings import Settings
from simhbase.process.logs import CONTROL, logger

_NEW_ID_BITS = 96  # unique but not secret, so the random module suffices
_MOST_LOGGED = 2_000  # characters of a path: ids are shorter, and strangers fill no disk
_USABLE_ID = re.compile(r"[\w.:/+=-]{1,128}", re.ASCII)
# A name or address, or an address of IPv6 in brackets (without a zone), and a port: nothing else.
_HOST = re.compile(
    r"(?:(?P<name>[\w.-]+)|\[(?P<address>[0-9a-f:.]+)\])(?::\d{1,5})?", re.ASCII | re.IGNORECASE
)

# The page loads nothing from other hosts and must not be framed.
_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)

log = logger("simhbase.online.requests")

Observer = Callable[[str, str, int, float], None]  # method, route, status, seconds


class Around:
    """Wraps the whole service. observe: called for each answer."""

    def __init__(self, app: ASGIApp, settings: Settings, observe: Observer) -> None:
        self._app = app
        self._observe = observe
        # With tokens, pages of other sites cannot do anything here.
        self._hosts = None if settings.token_file else frozenset(each.lower() for each in settings.hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        identity = given if _USABLE_ID.fullmatch(given) else f"{random.getrandbits(_NEW_ID_BITS):024x}"
        token = request_id.set(identity)
        start, status = time.perf_counter(), 0

        async def note_and_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", identity.encode()), *_HEADERS]
            await send(message)

        path = scope["path"][:_MOST_LOGGED]
        try:
            _require_single(headers)
            self._require_known_host(headers.get("host", ""))
            self._require_own_page(headers.get("sec-fetch-site", ""), path)
            scope["app"] = self  # without it, Starlette's own answers are no exceptions but plain text
            # As it was sent, so that %2F in an id is distinct from a slash of the path.
            scope["path"] = scope["raw_path"].decode("latin-1")
            await self._app(scope, receive, note_and_send)
        except ClientDisconnect:
            pass
        except Exception as error:
            if status:
                raise  # uvicorn logs it, and closes the connection
            response = answer_to(error, scope.get("is_stranger", False))
            release(error)
            await response(scope, receive, note_and_send)
        finally:
            self._note(scope, path, status, time.perf_counter() - start)
            request_id.reset(token)

    def _note(self, scope: Scope, path: str, status: int, seconds: float) -> None:
        route, client = scope.get("endpoint_path", ""), scope.get("client")
        self._observe(scope["method"], route, status, seconds)
        fields = {
            "method": scope["method"],
            "path": path,
            "route": route,
            "status": status,
            "seconds": round(seconds, 6),
            "client": client[0] if client else None,
        }
        log.info("%s %s %s", scope["method"], path, status, extra=fields)

    def _require_known_host(self, host: str) -> None:
        """Refuses requests for other host names. A page of another site whose name resolves to this machine
        could make a local browser send them (DNS rebinding). Addresses are accepted."""
        if self._hosts is None:
            return
        found = _HOST.fullmatch(host)
        if found and (found["name"] or "").lower() in self._hosts:
            return
        with suppress(ValueError):
            if found and (IPv4Address(found["name"]) if found["name"] else IPv6Address(found["address"])):
                return
        raise HTTPException(421, "unknown host name: allow it with simhbase serve --allow-host NAME")

    def _require_own_page(self, site: str, path: str) -> None:
        """Refuses what browsers send for pages of other sites, which would have the store read, and learn by
        what loads whether a document is stored. The search page may be opened from anywhere."""
        if self._hosts is not None and site in ("cross-site", "same-site") and path != "/":
            raise HTTPException(403, "pages of other sites cannot ask this service")


def _require_single(headers: Headers) -> None:
    """Refuses what a proxy in front may read otherwise than this service does."""
    for name in ("authorization", "content-encoding", "content-type", "host", "sec-fetch-site"):
        if len(headers.getlist(name)) > 1:
            raise HTTPException(400, f"the header {name.title()} is given more than once")


_FIELDS = ("method", "path", "route", "status", "seconds", "client")


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
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
        line = orjson.dumps(values, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
        return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", line)
