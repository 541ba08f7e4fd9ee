"""HTTP/1.1 connections with limits on request size and time, which send each answer in one packet."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import IPv6Address, IPv6Network
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from simhbase.online.failures import malformed
from simhbase.online.settings import Limits
from simhbase.process.queue import Shares

LEFT_TO_ANSWER = 2.0  # seconds to send 408 for a slow request before its connection is closed
EACH_HEADER = 128  # bytes that each takes beside its name and value, and is counted with
LONGEST_PATH = 1 << 12  # bytes: more than any id takes. Decoding one of 64 KiB holds the event loop for 10 ms
PIPELINED = 16  # requests that wait for the answer to another one of their connection
SLOWEST = 1024  # bytes of an answer that a client has to read in a second
# A body may have MOST_CHUNKS chunks, and one more for every CHUNK_BYTES. All chunks that arrive together are
# parsed in one turn, a microsecond each, so chunks of one byte would hold the event loop for seconds.
MOST_CHUNKS, CHUNK_BYTES = 1 << 10, 1 << 9
READ_AT_ONCE = 1 << 16  # bytes behind which a connection waits for its next turn
_TOO_LARGE = "The headers are too large."


class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 with limits on the time, header size and chunks of requests, and on the number of connections
    and of pipelined requests. Connections that send or read too slowly are closed."""

    def __init__(self, limits: Limits, places: Shares, *arguments: Any, **options: Any) -> None:
        """places: connections of each address, of all that the process has."""
        super().__init__(*arguments, **options)
        self._limits = limits
        self._places = places

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        self._joined = JoinedWrites(transport, self.loop, self._limits.receive_seconds)
        super().connection_made(self._joined)  # type: ignore[arg-type]  # has all of it
        # Of the current request what is no body, counted on arrival, since the headers or a part of the body,
        # and again when parsed.
        self._unread_bytes = self._header_bytes = 0
        self._body_bytes = self._chunks = 0
        self._in_headers = True
        self._answering: RequestResponseCycle | None = None  # which is not the last one that was read
        self._timer: asyncio.TimerHandle | None = None
        self._address = client_of(self.client[0]) if self.client else ""
        self._has_place = self._places.take(self._address, 1)
        if self._has_place:
            self._start_timer()
        else:
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        if self._has_place:
            self._places.give_back(self._address, 1)
        self._joined.lost()
        self.cycle = self._answering  # type: ignore[assignment]  # which has to be told; None as in uvicorn
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close the connection when the running request is answered. Those that wait for it are not begun:
        each may take its time limit."""
        if self._answering is None or self._answering.response_complete:
            self.transport.close()
        else:
            self._answering.keep_alive = False

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def send_400_response(self, msg: str) -> None:
        """Answers in the form of all errors. msg: why, unless a callback of the parser has said it."""
        error = sys.exception()
        refused = error.__context__ if error else None
        body = malformed(str(refused) if isinstance(refused, _Refused) else msg).body
        head = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
        self.transport.write(
            f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body
        )
        self.transport.close()

    def data_received(self, data: bytes) -> None:
        self._unread_bytes += len(data)
        if self._timer is None:
            self._start_timer()
        super().data_received(data)
        if self._unread_bytes > self._limits.header_bytes and not self.transport.is_closing():
            self.send_400_response(_TOO_LARGE)
        if len(data) >= READ_AT_ONCE and not self.transport.is_closing():
            # uvloop would read 8 MB of this connection in a turn, and then as much of the next one.
            self.transport.pause_reading()
            self.loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        if not (self.flow.read_paused or self.transport.is_closing()):
            self.transport.resume_reading()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + EACH_HEADER)
        if name.lower() == b"upgrade":
            # The parser would end here, and what follows be read as a request of its own.
            raise _Refused("No other protocol is spoken here.")
        if self._in_headers:  # and not behind a body: a proxy does not look at what is there
            super().on_header(name, value)

    def _count(self, size: int) -> None:
        # All of them may be in one packet with the end of the headers, which `data_received` sees too late.
        self._header_bytes += size
        if self._header_bytes > self._limits.header_bytes:
            raise _Refused(_TOO_LARGE)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) == PIPELINED:
            raise _Refused("Too many requests wait for an answer.")
        if len(self.url.partition(b"?")[0]) > LONGEST_PATH:
            raise _Refused("The path is too long.")
        _require_one_meaning(self.parser.get_http_version(), self.url, self.headers)
        self._in_headers = False
        self._unread_bytes = 0
        super().on_headers_complete()

    def on_chunk_header(self) -> None:
        self._chunks += 1
        if self._chunks > MOST_CHUNKS + self._body_bytes // CHUNK_BYTES:
            raise _Refused("The body has too many small chunks.")

    def on_body(self, body: bytes) -> None:
        self._unread_bytes = 0
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_headers = True
        self._unread_bytes = self._header_bytes = 0
        self._body_bytes = self._chunks = 0
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
            self._start_timer()  # an answer is being sent; pipelined requests wait
        else:
            self.transport.close()


class _Refused(ValueError):
    """Raised by a callback of the parser, which turns it into an error that is answered with 400."""


def _require_one_meaning(version: str, target: bytes, headers: Sequence[tuple[bytes, bytes]]) -> None:
    """Refuses what the parser lets through, and a proxy in front may read otherwise: where the body ends, and
    which host is meant. Raises _Refused."""
    is_latest = version == "1.1"
    if not (is_latest or version == "1.0"):
        raise _Refused("Only HTTP/1.1 is spoken here.")
    if not target.startswith(b"/"):  # such as http://another.host/healthz
        raise _Refused("The target is not a path.")
    if is_latest and not any(name == b"host" for name, _ in headers):
        raise _Refused("There is no Host.")
    for name, value in headers:
        if name == b"transfer-encoding" and not (is_latest and value.lower() == b"chunked"):
            raise _Refused("The only transfer coding is chunked.")


def client_of(address: str) -> str:
    """An address as connections are counted: of public IPv6 its network, as a client has 2^64 addresses."""
    with suppress(ValueError):  # of IPv4, or of a socket file
        parsed = IPv6Address(address)
        if parsed.is_global and parsed.ipv4_mapped is None:
            return str(IPv6Network((parsed, 64), strict=False))
    return address


class JoinedWrites:
    """A transport that joins all writes of one turn of the event loop, and closes the connection if the
    client reads too slowly for `seconds`.

    uvicorn writes the head and the body of an answer separately: an additional system call, which wakes the
    client early.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._transport = transport
        self._loop = loop
        self._seconds = seconds
        self._parts: list[bytes] = []
        self._written = 0
        self._watching: asyncio.TimerHandle | None = None

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        if parts and not self._transport.is_closing():  # the client may have disconnected
            data = b"".join(parts)
            self._transport.write(data)
            self._written += len(data)
            if self._watching is None:
                self._watch()

    def _watch(self) -> None:
        left = self._transport.get_write_buffer_size()
        if left:
            due = self._written - left + min(left, SLOWEST * self._seconds)
            self._watching = self._loop.call_later(self._seconds, self._look, due)

    def _look(self, due: float) -> None:
        """Aborts if less was read in all than is due; `close` would wait for the reader forever."""
        self._watching = None
        left = self._transport.get_write_buffer_size()
        if left and self._written - left < due:
            self._transport.abort()
        else:
            self._watch()

    def lost(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
