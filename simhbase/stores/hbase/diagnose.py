"""Finds out why a server does not answer like a Thrift gateway, by trying other protocols."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Callable
from functools import partial

from simhbase.stores.hbase.wires import Security

QUESTION_LIMIT = 2.0  # seconds
_ANSWER_BYTES = 64
_METHOD = b"getThriftServerType"


def _with_length(message: bytes) -> bytes:
    return struct.pack(">i", len(message)) + message


_BINARY = b"\x80\x01\x00\x01" + _with_length(_METHOD) + bytes(4) + b"\x00"
_COMPACT = b"\x82\x21\x00" + bytes([len(_METHOD)]) + _METHOD + b"\x00"
_SASL_START = b"\x01" + _with_length(b"no such mechanism")
_SASL_BAD = (b"\x03\x00\x00", b"\x04\x00\x00")  # a status, and the length of what it says

_TLS_ALERT = b"\x15\x03"
_HTTP = b"HTTP/"

# Request; position and value of a byte in the answer that shows that the server understood; its meaning.
_QUESTIONS: tuple[tuple[bytes, int, bytes, str], ...] = (
    (
        _with_length(_BINARY),
        4,
        b"\x80\x01",
        "speaks Thrift in frames: start it without -f, -hsha, -nonblocking",
    ),
    (_COMPACT, 0, b"\x82", "speaks Thrift's compact protocol: start it without -c"),
    (
        _with_length(_COMPACT),
        4,
        b"\x82",
        "speaks Thrift's compact protocol in frames: start it without -c and -f",
    ),
)


def explain(
    connect: Callable[[float], socket.socket], deadline: float, security: Security, *, silent: bool
) -> str | None:
    """What kind of server this is, and what to do; None if unknown by the deadline, or if it now answers as
    expected (the connection was only lost). connect: opens a connection without TLS, within a number of
    seconds; security: what the server did not understand; silent: if it has not even closed the connection,
    as gateways do where one end expects SASL, and the other does not."""
    ask = partial(_ask, connect, deadline)
    if silent:
        half = time.monotonic() + (deadline - time.monotonic()) / 2
        if _ask(connect, half, _SASL_START).startswith(_SASL_BAD):
            return _with_sasl(security)
        return _plain(security) if ask(_BINARY).startswith(b"\x80\x01") else None
    answer = ask(_BINARY)
    if answer.startswith(b"\x80\x01"):
        return _plain(security)
    if answer.startswith(_SASL_BAD):
        return _with_sasl(security)
    if answer.startswith(_HTTP):
        return None if security.http else "speaks HTTP: add http=1 if it is a Thrift gateway"
    if answer and not answer.startswith(_TLS_ALERT):
        return f"is no Thrift server: it says {answer[:24]!r}"
    if ask(_SASL_START).startswith(_SASL_BAD):
        return _with_sasl(security)
    for question, start, sign, meaning in _QUESTIONS:
        if ask(question).startswith(sign, start):
            return meaning
    return "speaks TLS: add tls=1" if not security.tls and _speaks_tls(connect, deadline) else None


def _with_sasl(security: Security) -> str | None:
    """What to change for a gateway that asks for SASL."""
    if security.http:
        return "asks for SASL (Kerberos), not HTTP: leave out http=1, and name its service in kerberos="
    if security.kerberos is None:
        return "asks for SASL (Kerberos): add kerberos=SERVICE, the first part of its principal (often hbase)"
    return "speaks without TLS: leave out tls=1" if security.tls else None


def _plain(security: Security) -> str | None:
    """What to change for a gateway that speaks Thrift as it is."""
    if security.tls is not None:
        return "speaks without TLS: leave out tls=1"
    if security.http:
        return "speaks Thrift without HTTP: leave out http=1"
    if security.kerberos is not None:
        return "speaks without SASL (Kerberos): leave out kerberos= if it may serve everybody"
    return None


def _speaks_tls(connect: Callable[[float], socket.socket], deadline: float) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent, so its identity does not matter
    try:
        with connect(_seconds(deadline)) as connection, context.wrap_socket(connection):
            return True
    except OSError:
        return False


def _ask(connect: Callable[[float], socket.socket], deadline: float, question: bytes) -> bytes:
    """The first bytes of the answer; none if it closes the connection or times out."""
    try:
        with connect(_seconds(deadline)) as connection:
            connection.settimeout(_seconds(deadline))
            connection.sendall(question)
            return connection.recv(_ANSWER_BYTES)
    except OSError:
        return b""


def _seconds(deadline: float) -> float:
    """Time limit of a request. Raises TimeoutError after the deadline."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return min(left, QUESTION_LIMIT)
