"""One connection to a gateway, and what can go wrong with it."""

from __future__ import annotations

import re
import select
import socket
import ssl
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from thriftpy2.thrift import TApplicationException, TMessageType
from thriftpy2.transport import TCyBufferedTransport

from simhbase.errors import StoreFailed
from simhbase.stores.hbase import strangers
from simhbase.stores.hbase.address import Gateway
from simhbase.stores.hbase.requests import Request, binary_protocol, request

OPENING_LIMIT = 10.0  # seconds until a new connection has its first answer
# A gateway closes connections that were idle for 60 s (hbase.thrift.server.socket.read.timeout).
IDLE_LIMIT = 45.0
READ_BYTES = 1 << 16
# A call may take as long as the operation may, but a host that is gone answers no kernel's probes.
KEEPALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 3, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 15_000}
_SERVER_TYPE = request("getThriftServerType")


class Trouble(Exception):
    """What another attempt may be spared. The message names the gateway."""


class Broken(Trouble):
    """The connection is of no use any more; what was asked may have been done or not."""


class Refused(Trouble):
    """The gateway answered with an error, HBase's or its own: `text` is all of it, with the stack
    trace, `final` says that the same call is refused again."""

    def __init__(self, gateway: Gateway, text: str, *, final: bool) -> None:
        super().__init__(f"{gateway}: {_gist(text) or 'an error without a message'}")
        self.text = text
        self.final = final


class Connection:
    """Sends requests and receives their answers, in order. For one thread at a time."""

    def __init__(self, gateway: Gateway, connected: socket.socket) -> None:
        self.gateway = gateway
        self._socket = connected
        self._incoming = _Incoming(connected)
        self._protocol = binary_protocol(TCyBufferedTransport(self._incoming, READ_BYTES))
        self._used = time.monotonic()

    def send(self, requests: Sequence[Request], deadline: float) -> None:
        """Sends requests all at once. Raises Broken."""
        try:
            self._socket.settimeout(_left(deadline))
            self._socket.sendall(b"".join([request.message for request in requests]))
        except OSError as error:
            raise _broken(self.gateway, error) from error

    def receive(self, requests: Sequence[Request], deadline: float) -> list[Any]:
        """The answers to the oldest requests without one, Refused in the place of those that were
        refused. Raises Broken."""
        self._incoming.deadline = deadline
        try:
            answers = [self._receive(request) for request in requests]
        except Exception as error:  # thriftpy2 has no common base for what it raises on reading rubbish
            raise _broken(self.gateway, error) from error
        self._used = time.monotonic()
        return answers

    def _receive(self, request: Request) -> Any:
        _, kind, _ = self._protocol.read_message_begin()
        if kind == TMessageType.EXCEPTION:
            failure = TApplicationException()
            failure.read(self._protocol)
            return Refused(self.gateway, _text(failure.message), final=True)
        answer = request.answer()
        answer.read(self._protocol)
        fields = answer.__dict__
        for name in ("io", "ia"):
            error = fields.get(name)
            if error is not None:
                can_retry = getattr(error, "canRetry", False)
                return Refused(self.gateway, _text(error.message), final=not can_retry)
        return fields.get("success")

    def is_silent(self, until: float) -> bool:
        """Waits for the beginning of an answer; true where there is none by then."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return not poll.poll(_left(until) * 1000)

    def is_usable(self) -> bool:
        """False where the gateway has closed it, which makes it readable, or soon will."""
        if time.monotonic() - self._used > IDLE_LIMIT:
            return False
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        """Gives this process's end back; a process that it was inherited from keeps its own."""
        self._socket.close()


class _Incoming:
    """What thriftpy2 reads from."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self.deadline = 0.0

    def read(self, size: int) -> bytes:
        self._socket.settimeout(_left(self.deadline))
        received = self._socket.recv(size)
        if not received:
            raise ConnectionError("the connection was closed")
        return received


def connect(gateway: Gateway, tls: ssl.SSLContext | None, deadline: float, version: int) -> Connection:
    """A connection to a gateway of Thrift `version` that has answered.

    Raises Broken, and StoreFailed where the other end is something else.
    """
    deadline = min(deadline, time.monotonic() + OPENING_LIMIT)
    try:
        connected = _open_socket(gateway, _left(deadline))
    except OSError as error:
        raise _broken(gateway, error) from error
    try:
        if tls is not None:
            connected = tls.wrap_socket(connected, server_hostname=gateway.host)
        connection = Connection(gateway, connected)
        connection.send([_SERVER_TYPE], deadline)
        (answer,) = connection.receive([_SERVER_TYPE], deadline)
    except ssl.SSLCertVerificationError as error:
        connected.close()
        raise StoreFailed(
            f"gateway {gateway} has a certificate that is not trusted ({error.verify_message}): name the "
            "file of its authority with ca=FILE"
        ) from error
    except (OSError, Broken) as error:
        connected.close()
        silent = isinstance(error, TimeoutError) or isinstance(error.__cause__, TimeoutError)
        reason = None if silent else strangers.explain(partial(_open_socket, gateway))
        if reason is not None:
            raise StoreFailed(f"{gateway} {reason}") from error
        raise error if isinstance(error, Broken) else _broken(gateway, error) from error
    except BaseException:
        connected.close()
        raise
    # Gateways before HBase 2.2 do not know the question, which is an answer, too.
    if answer in (1, 2) and answer != version:
        connection.close()
        raise StoreFailed(
            f"{gateway} is a Thrift {answer} gateway, and a Thrift {version} gateway is wanted: a URL is "
            "hbase://HOST:PORT of Thrift 1, with thrift2=PORT of Thrift 2"
        )
    return connection


def _open_socket(gateway: Gateway, seconds: float) -> socket.socket:
    connected = socket.create_connection((gateway.host, gateway.port), seconds)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):  # not every system has them all
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return connected


def _broken(gateway: Gateway, error: Exception) -> Broken:
    if isinstance(error, TimeoutError):
        return Broken(f"{gateway}: no answer in time")
    if isinstance(error, OSError):
        return Broken(f"{gateway}: {error.strerror or error}")
    return Broken(f"{gateway}: an answer that cannot be read ({error})")


def _gist(text: str) -> str:
    """The first line of a Java stack trace, with exceptions named without their packages, and once."""
    line = text.partition("\n")[0].strip()
    return re.sub(r"(?:[a-z]\w*\.)+([A-Z]\w*(?:Exception|Error): )(?:(?:[a-z]\w*\.)+\1)*", r"\1", line)


def _left(deadline: float) -> float:
    """Seconds until a deadline; a moment at least, because 0 would mean not to wait at all."""
    return max(deadline - time.monotonic(), 0.001)


def _text(message: bytes | str | None) -> str:
    return message.decode(errors="replace") if isinstance(message, bytes) else message or ""
