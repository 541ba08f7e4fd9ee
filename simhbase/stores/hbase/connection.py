"""A connection to a gateway, based on happybase's, with time limits, TLS, Kerberos, and errors that name
the gateway."""

from __future__ import annotations

import re
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from thriftpy2.thrift import TApplicationException, TMessageType
from thriftpy2.transport import TCyBufferedTransport

from simhbase._core import ThriftAnswers
from simhbase.errors import SimhbaseError, StoreFailed
from simhbase.stores.hbase import diagnose
from simhbase.stores.hbase.answers import Failure, UnexpectedRow
from simhbase.stores.hbase.interface import (
    IllegalArgument,
    RetryingIOError,
    Thrift1,
    client,
    happybase,
    thrift2,
)
from simhbase.stores.hbase.kerberos import KdcUnreachable, Refused
from simhbase.stores.hbase.requests import Request
from simhbase.stores.hbase.url import Gateway
from simhbase.stores.hbase.wires import Security

OPENING_LIMIT = 10.0  # seconds until the first answer on a new connection
EXPLAINING_SHARE = 1 / 5  # of that time, for finding out why there is none
# A gateway closes connections that were idle for 60 s (hbase.thrift.server.socket.read.timeout).
IDLE_LIMIT = 45.0
BUFFER_BYTES = 1 << 16
# Of one answer, in bytes: the rows that are asked for at once fit into it (see records.py). Where a gateway
# sends many empty rows, these take 120 times their bytes.
MOST_BYTES = 32 << 20
# A call may take as long as the operation may, but a host that is gone answers no kernel's probes.
KEEPALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 3, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 15_000}


class AnswerTooLarge(StoreFailed):
    """An answer has more than MOST_BYTES. It may be of rows that are fewer by another way to ask for them."""


class CallFailed(Exception):
    """A call without a result; a retry may succeed. The message names the gateway."""

    is_gone = False  # True if no gateway answered


class ConnectionLost(CallFailed):
    """The connection cannot be used any more; the request may or may not have been executed."""

    is_gone = True


class AllInUse(ConnectionLost):
    """No connection became free in time."""

    is_gone = False


ACCESS_DENIED = "AccessDeniedException"
# Final errors of gateways while HBase's ZooKeeper or master does not answer.
OUTAGE = re.compile(
    r"Zookeeper \w+ could not be completed|KeeperErrorCode = ConnectionLoss|MasterNotRunningException"
    r"|PleaseHoldException|MasterRegistryFetchException"
)
# An exception with its package, and the same again. Each name is looked at once, from its beginning.
_REPEATED = re.compile(r"(?<![\w.])(?:[a-z]\w*\.)+([A-Z]\w*(?:Exception|Error): )(?:(?:[a-z]\w*\.)+\1)*")


class CallRefused(CallFailed):
    """The gateway answered with an error, HBase's or its own. text: all of it, with the stack trace; final: a
    retry fails again."""

    def __init__(self, gateway: Gateway, text: str, *, final: bool) -> None:
        super().__init__(f"{gateway}: {_gist(text) or 'an error without a message'}")
        self.text = text
        self.is_outage = OUTAGE.search(text) is not None
        # Denied: the gateway retried by itself, and reports this as a reason to retry.
        self.final = (final and not self.is_outage) or ACCESS_DENIED in text


class GatewaySocket:
    """The socket behind the client's transport.

    deadline: when to give up (time.monotonic). Messages are buffered until `send`, or until an answer is
    read. After `doubt` seconds of silence, `ask_about` is called, which may raise ConnectionLost. texts:
    maps to texts are allowed in answers.
    """

    def __init__(self, gateway: Gateway, security: Security, *, texts: bool = False) -> None:
        self.deadline = 0.0
        self.doubt: float | None = None
        self.ask_about: Callable[[], object] = lambda: None
        self.used = time.monotonic()
        self.answered = 0  # bytes of the current answer, counted as they arrive
        self._gateway = gateway
        self._tls = security.tls
        self._wire = security.wire(gateway, self._receive)
        self._answers = ThriftAnswers(texts)
        self._socket: socket.socket | None = None
        self._message: list[bytes] = []
        self._unsent: list[bytes] = []
        self._sent = 0.0

    def is_open(self) -> bool:
        """True while it is open."""
        return self._socket is not None

    def open(self) -> None:
        """Connect. Raises OSError."""
        self._socket = open_socket(self._gateway, _left(self.deadline))

    def secure(self) -> None:
        """Start TLS and SASL if configured. Raises OSError, Refused, KdcUnreachable."""
        if self._tls is not None:
            self._socket = self._tls.wrap_socket(self._connected, server_hostname=self._gateway.host)
        self._wire.begin(self._send, self.deadline)

    def close(self) -> None:
        """Close this process's end; a parent process keeps its own."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def write(self, data: bytes) -> None:
        """Takes a part of a message."""
        self._message.append(data)

    def flush(self) -> None:
        """Ends a message. It is not sent yet: many are sent at once. Raises Refused, KdcUnreachable."""
        self.answered = 0
        message = b"".join(self._message)
        self._message.clear()
        self._unsent.append(self._wire.wrap(message, self.deadline))

    def send(self) -> None:
        """Sends all messages. Raises OSError."""
        if self._unsent:
            data = b"".join(self._unsent)
            self._unsent.clear()
            self._send(data)

    def read(self, size: int) -> bytes:
        """Up to `size` bytes of the answers, at least one. Raises OSError, Refused, KdcUnreachable, and
        ValueError for those that would hold their reader, which looks at no deadline meanwhile."""
        self.send()
        data = self._wire.read(size)
        self._answers.follow(data)
        return data

    def _send(self, data: bytes) -> None:
        connected = self._connected
        connected.settimeout(_left(self.deadline))
        connected.sendall(data)
        self._sent = time.monotonic()

    def _receive(self, size: int) -> bytes:
        if time.monotonic() > self.deadline:  # of a gateway that never stops sending no read times out
            raise TimeoutError
        received = self._receive_patiently(size)
        if not received:
            raise ConnectionError("the connection was closed")
        self.used = time.monotonic()
        self.answered += len(received)
        if self.answered > MOST_BYTES:
            raise AnswerTooLarge(
                f"{self._gateway}: an answer has more than {MOST_BYTES >> 20} MiB, which no answer to "
                "simhbase needs: is it a gateway of HBase, and are all rows of the tables simhbase's?"
            )
        return received

    def _receive_patiently(self, size: int) -> bytes:
        connected = self._connected
        if self.doubt is not None and self._sent + self.doubt < self.deadline:
            connected.settimeout(_left(self._sent + self.doubt))
            try:
                return connected.recv(size)
            except TimeoutError:
                self.ask_about()
                self._sent = time.monotonic()  # it is alive: until the next doubt
        connected.settimeout(_left(self.deadline))
        return connected.recv(size)

    def is_quiet(self) -> bool:
        """False where something has arrived, or the other side has closed it."""
        if self._socket is None:
            return False
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return not poll.poll(0)

    @property
    def _connected(self) -> socket.socket:
        if self._socket is None:
            raise ConnectionError("the connection is closed")
        return self._socket


class Connection(happybase.Connection):  # type: ignore[misc]  # it has no types
    """happybase's connection to one gateway. For one thread at a time."""

    client: Any

    def __init__(self, gateway: Gateway, service: Any, security: Security) -> None:
        self.gateway = gateway
        self._service = service
        self._security = security
        super().__init__(gateway.host, gateway.port, autoconnect=False)

    def _refresh_thrift_client(self) -> None:
        """Called by happybase when it is made: it has a socket and a transport of its own otherwise."""
        self.socket = GatewaySocket(self.gateway, self._security, texts=self._service is not Thrift1)
        self.transport: Any = TCyBufferedTransport(self.socket, BUFFER_BYTES)
        self.client = client(self._service, self.transport)

    def write(self, request: Request) -> None:
        """Takes a request, to be sent with others. Raises ConnectionLost, and StoreFailed without a ticket
        if each request needs one."""
        with self.failures():
            if request.message:
                self.transport.write(request.message)
                self.transport.flush()
            else:
                self.client._send(request.method, **request.arguments)

    def send(self) -> None:
        """Sends the requests that were taken. Raises ConnectionLost."""
        with self.failures():
            self.socket.send()

    def receive(self, request: Request) -> Any:
        """The answer to the oldest request without one. Raises CallRefused, ConnectionLost."""
        self.socket.answered = 0
        with self.failures():
            if request.reader is None:
                return self.client._recv(request.method)
            _, kind, _ = self.client._iprot.read_message_begin()
            if kind == TMessageType.EXCEPTION:
                failure = TApplicationException()
                failure.read(self.client._iprot)
                raise failure
            answer = request.reader(self.transport.read)
            if isinstance(answer, Failure):
                raise CallRefused(self.gateway, _text(answer.message), final=not answer.can_retry)
            return answer

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Turns what may be raised in a call into CallRefused and ConnectionLost."""
        try:
            yield
        except (RetryingIOError, thrift2.TIOError) as error:
            raise CallRefused(self.gateway, _text(error.message), final=not error.canRetry) from error
        except (IllegalArgument, TApplicationException) as error:
            raise CallRefused(self.gateway, _text(error.message), final=True) from error
        except Refused as error:
            raise StoreFailed(f"{self.gateway}: {error}") from error
        except (CallFailed, SimhbaseError, UnexpectedRow):
            raise
        except Exception as error:  # thriftpy2 has no common base for what it raises on reading rubbish
            raise _lost(self.gateway, error) from error

    def is_usable(self) -> bool:
        """False where the gateway has closed it, which makes it readable, or soon will."""
        return time.monotonic() - self.socket.used <= IDLE_LIMIT and self.socket.is_quiet()

    def limit(
        self, deadline: float, doubt: float | None = None, ask_about: Callable[[], object] = lambda: None
    ) -> None:
        """Sets what limits the calls that follow; see GatewaySocket."""
        self.socket.deadline = deadline
        self.socket.doubt = doubt
        self.socket.ask_about = ask_about


def connect(gateway: Gateway, service: Any, version: int, security: Security, deadline: float) -> Connection:
    """A connection to a gateway of Thrift `version` that has answered.

    Raises ConnectionLost, and StoreFailed where the other end is something else, or refuses us.
    """
    connection = Connection(gateway, service, security)
    now = time.monotonic()
    connection.limit(deadline - (deadline - now) * EXPLAINING_SHARE)
    try:
        with connection.failures():
            connection.open()
    except ConnectionLost:
        connection.close()
        raise
    try:
        with connection.failures():
            connection.socket.secure()
            answer = _server_type(connection)
    except ConnectionLost as error:
        connection.close()
        cause = error.__cause__
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise StoreFailed(
                f"gateway {gateway} has a certificate that is not trusted ({cause.verify_message}): name the "
                "file of its authority with ca=FILE"
            ) from error
        if isinstance(cause, KdcUnreachable):
            raise
        silent = isinstance(cause, TimeoutError)
        reason = diagnose.explain(partial(open_socket, gateway), deadline, security, silent=silent)
        if reason is not None:
            raise StoreFailed(f"{gateway} {reason}") from error
        if security.tls is not None and not silent:
            raise ConnectionLost(f"{error}. Does it ask for a client certificate (cert=FILE)?") from error
        raise
    except BaseException:
        connection.close()
        raise
    if answer not in (None, version):
        connection.close()
        raise StoreFailed(
            f"{gateway} is a Thrift {answer} gateway, and a Thrift {version} gateway is wanted: a URL is "
            "hbase://HOST:PORT of Thrift 1, with thrift2=PORT of Thrift 2"
        )
    return connection


def _server_type(connection: Connection) -> int | None:
    """The Thrift version of a gateway; None before HBase 2.2."""
    asking = client(thrift2.Reading, connection.transport)
    try:
        with connection.failures():
            answer: int = asking.getThriftServerType()
            return answer
    except CallRefused:
        return None


def open_socket(gateway: Gateway, seconds: float) -> socket.socket:
    """A connected socket. Raises OSError."""
    connected = socket.create_connection((gateway.host, gateway.port), seconds)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):  # not every system has them all
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return connected


def _lost(gateway: Gateway, error: Exception) -> ConnectionLost:
    if isinstance(error, TimeoutError):
        return ConnectionLost(f"{gateway}: no answer in time")
    if isinstance(error, KdcUnreachable):
        return ConnectionLost(f"{gateway}: {error}")
    if isinstance(error, OSError):
        return ConnectionLost(f"{gateway}: {error.strerror or error}")
    return ConnectionLost(f"{gateway}: an answer that cannot be read ({error})")


def _gist(text: str) -> str:
    """The first line of a Java stack trace, without package names and repeated exceptions."""
    line = text.partition("\n")[0].strip()
    return _REPEATED.sub(r"\1", line)


def _left(deadline: float) -> float:
    """Seconds until a deadline, slightly more than 0, which would mean not to wait."""
    return max(deadline - time.monotonic(), 0.001)


def _text(message: bytes | str | None) -> str:
    return message.decode(errors="replace") if isinstance(message, bytes) else message or ""
