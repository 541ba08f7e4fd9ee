"""What a request may be before anybody reads it: its size, how fast it comes in, whom it asks."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from ipaddress import ip_address
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from simhbase.online.failures import refused
from simhbase.online.joined_writes import JoinedWrites
from simhbase.online.settings import Limits

LEFT_TO_ANSWER = 2.0  # seconds in which a slow request is told so before its connection closes


class WholeBody:
    """Reads a request's body before anything else sees it, so that no handler waits for a slow one."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = self._limits.body_bytes
        length = Headers(scope=scope).get("content-length", "0")
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.receive_seconds):
                more = int(length) <= most
                while more and len(body) <= most:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return
                    body += message.get("body", b"")
                    more = message.get("more_body", False)
        except TimeoutError:
            problem = f"the request did not come in within {self._limits.receive_seconds:g} s"
            await refused(408, problem, {"Connection": "close"})(scope, receive, send)
            return
        if int(length) > most or len(body) > most:
            problem = f"the body is larger than {most:,} bytes: send fewer documents at once"
            await refused(413, problem)(scope, receive, send)
            return
        await self._app(scope, _replay(bytes(body), receive), send)


def _replay(body: bytes, receive: Receive) -> Receive:
    """What gives a body at once, and then what else there is."""
    given = False

    async def replayed() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed


class KnownHosts:
    """Refuses requests that ask for another host: what pages of other sites have a browser on this machine
    send, whose names lead here. Addresses are no names that anybody could have chosen."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app = app
        self._hosts = frozenset(each.lower() for each in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] == "http" and not self._knows(Headers(scope=scope).get("host", "")):
            problem = "this service has no such name: simhbase serve --allow-host NAME gives it one"
            await refused(421, problem)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _knows(self, host: str) -> bool:
        name = host.rpartition("]")[0].removeprefix("[") or host.partition(":")[0]
        return name.lower() in self._hosts or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 whose requests come in within a time, with headers of a size: a connection that dawdles is
    closed."""

    def __init__(self, limits: Limits, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._limits = limits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        """Starts the clock for the first request."""
        super().connection_made(JoinedWrites(transport, self.loop))  # type: ignore[arg-type]  # has all of it
        self._header_bytes = 0
        self._in_headers = True
        self._timer: asyncio.TimerHandle | None = None
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the clock."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Counts bytes of headers."""
        if self._in_headers:
            self._header_bytes += len(data)
            if self._timer is None:
                self._start_timer()
        super().data_received(data)
        if self._in_headers and self._header_bytes > self._limits.header_bytes:
            self.send_400_response("The headers are too large.")

    def on_headers_complete(self) -> None:
        """Begins with the body."""
        self._in_headers = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Stops the clock until the next request."""
        self._in_headers = True
        self._header_bytes = 0
        self._stop_timer()
        super().on_message_complete()

    def _start_timer(self) -> None:
        seconds = self._limits.receive_seconds + LEFT_TO_ANSWER
        self._timer = self.loop.call_later(seconds, self._too_slow)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._start_timer()  # an answer is on its way; what came behind its request waits
        else:
            self.transport.close()
