"""How messages of Thrift travel over a connection: plain, in frames of SASL, or as requests of HTTP."""

from __future__ import annotations

import io
import re
import ssl
from base64 import b64decode, b64encode
from binascii import Error as NoBase64
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPResponse
from typing import Any, cast

from simhbase.errors import StoreFailed
from simhbase.stores.hbase.kerberos import Context, Refused, Sasl, require_library
from simhbase.stores.hbase.url import SPNEGO_SERVICE, Address, Gateway, Kerberos

_NEGOTIATE = "Negotiate "
_SHOWN_CHARACTERS = 200
# The status 500 where a user may not act for another one, or the gateway lets nobody do so.
_DENIED = re.compile(rb"AuthorizationException|proxyuser is not configured")


@dataclass(frozen=True, slots=True)
class Security:
    """How to reach the gateways of a URL; see Address."""

    tls: ssl.SSLContext | None = None
    http: bool = False
    kerberos: Kerberos | None = None
    user: str | None = None

    @staticmethod
    def of(address: Address) -> Security:
        """Raises StoreFailed if a file of certificates cannot be read, UsageError without gssapi."""
        if address.kerberos is not None:
            require_library()
        return Security(_tls(address), address.http, address.kerberos, address.user)

    def wire(self, gateway: Gateway, receive: Callable[[int], bytes]) -> Wire:
        """For a new connection."""
        if self.http:
            return HttpWire(receive, gateway, self.kerberos, self.user)
        return Wire(receive) if self.kerberos is None else SaslWire(receive, gateway, self.kerberos)


def _tls(address: Address) -> ssl.SSLContext | None:
    if not address.tls:
        return None
    try:
        context = ssl.create_default_context(cafile=address.certificates)
    except OSError as error:
        raise StoreFailed(
            f"ca={address.certificates} holds no certificates that can be read: {error}"
        ) from error
    if address.certificate is not None:
        try:
            context.load_cert_chain(address.certificate, password="")  # or it would ask for one
        except OSError as error:
            raise StoreFailed(
                f"cert={address.certificate} does not hold a certificate and its key, unencrypted: {error}"
            ) from error
    return context


class Wire:
    """Sends messages as they are.

    receive: returns up to a number of bytes, at least one. Methods raise OSError, Refused, KdcUnreachable.
    """

    def __init__(self, receive: Callable[[int], bytes]) -> None:
        self.receive = receive

    def begin(self, send: Callable[[bytes], object], deadline: float) -> None:
        """Exchange what precedes the first message."""

    def wrap(self, message: bytes, deadline: float) -> bytes:
        """What to send for a message."""
        return message

    def read(self, size: int) -> bytes:
        """Up to `size` bytes of the answers, at least one."""
        return self.receive(size)


class SaslWire(Wire):
    """Authenticates the connection when it begins."""

    def __init__(self, receive: Callable[[int], bytes], gateway: Gateway, kerberos: Kerberos) -> None:
        super().__init__(receive)
        self._gateway = gateway
        self._kerberos = kerberos
        self._unread = memoryview(b"")

    def begin(self, send: Callable[[bytes], object], deadline: float) -> None:
        self._sasl = Sasl(self._kerberos, self._gateway, deadline)
        self._sasl.negotiate(send, self._receive_all)

    def wrap(self, message: bytes, deadline: float) -> bytes:
        return self._sasl.wrap(message)

    def read(self, size: int) -> bytes:
        while not self._unread:
            self._unread = memoryview(self._sasl.read(self._receive_all))
        data, self._unread = self._unread[:size], self._unread[size:]
        return bytes(data)

    def _receive_all(self, size: int) -> bytes:
        parts = []
        while size:
            parts.append(self.receive(size))
            size -= len(parts[-1])
        return b"".join(parts)


class HttpWire(Wire):
    """Sends each message as a request, with a Kerberos token of its own if the gateway asks for that."""

    def __init__(
        self,
        receive: Callable[[int], bytes],
        gateway: Gateway,
        kerberos: Kerberos | None,
        user: str | None,
    ) -> None:
        super().__init__(receive)
        self._gateway = gateway
        self._kerberos = kerberos
        self._headers = {"Host": str(gateway), "Content-Type": "application/x-thrift"}
        if user is not None:
            self._headers["doAs"] = user
        self._contexts: deque[Context] = deque()  # of requests without an answer
        self._received = _Received(self)
        self._unread = memoryview(b"")

    def wrap(self, message: bytes, deadline: float) -> bytes:
        headers = self._headers | {"Content-Length": str(len(message))}
        if self._kerberos is not None:
            context = Context(self._kerberos, self._gateway, deadline)
            headers["Authorization"] = _NEGOTIATE + b64encode(context.step()).decode()
            self._contexts.append(context)
        lines = ["POST / HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "\r\n"]
        return "\r\n".join(lines).encode() + message

    def read(self, size: int) -> bytes:
        while not self._unread:
            self._unread = memoryview(self._body())
        data, self._unread = self._unread[:size], self._unread[size:]
        return bytes(data)

    def _body(self) -> bytes:
        """The content of the next answer."""
        with HTTPResponse(cast(Any, self._received), method="POST") as answer:
            answer.begin()
            body = answer.read()
        if answer.status == HTTPStatus.OK:
            if self._kerberos is not None:
                self._identify(answer.getheader("WWW-Authenticate", ""))
            return body
        said = f"HTTP {answer.status} {answer.reason}{_gist(body)}"
        if answer.status == HTTPStatus.UNAUTHORIZED and self._kerberos is None:
            raise Refused(f"{said}. Add kerberos={SPNEGO_SERVICE} if it asks for Kerberos")
        if answer.status < HTTPStatus.INTERNAL_SERVER_ERROR or _DENIED.search(body):
            raise Refused(said)
        raise ConnectionError(said)

    def _identify(self, header: str) -> None:
        """Raises Refused unless the gateway has proved who it is."""
        context = self._contexts.popleft()
        try:
            context.step(b64decode(header.removeprefix(_NEGOTIATE)))
        except NoBase64 as error:
            raise Refused(f"a token of the gateway cannot be read ({error})") from error
        if not context.is_complete:
            raise Refused(f"the gateway does not prove that it is {context.peer}")


class _Received(io.RawIOBase):
    """What HTTPResponse reads answers from, one after the other."""

    def __init__(self, wire: HttpWire) -> None:
        self._wire = wire
        self._buffer = _Unclosed(self)

    def makefile(self, mode: str) -> io.BufferedReader:
        return self._buffer

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._wire.receive(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _Unclosed(io.BufferedReader):
    """An answer closes its file when it has been read; the next one follows in it."""

    def close(self) -> None: ...


def _gist(body: bytes) -> str:
    """The first line of an answer, or the title of a page."""
    text = body.decode(errors="replace").strip()
    title, end, _ = text.partition("<title>")[2].partition("</title>")
    line = title if end else text.partition("\n")[0]
    return f": {line[:_SHOWN_CHARACTERS]}" if line else ""
