"""What answers in the place of a gateway: servers that speak something else are asked in their way."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable

from simhbase.stores.hbase.requests import request

PATIENCE = 2.0  # seconds for each question
_ANSWER_BYTES = 64
_METHOD = b"getThriftServerType"


def _with_length(message: bytes) -> bytes:
    return struct.pack(">i", len(message)) + message


_BINARY = request(_METHOD.decode()).message
_COMPACT = b"\x82\x21\x00" + bytes([len(_METHOD)]) + _METHOD + b"\x00"
_SASL_START = b"\x01" + _with_length(b"no such mechanism")
_SASL_BAD = (b"\x03\x00\x00", b"\x04\x00\x00")  # a status, and the length of what it says

_TLS_ALERT = b"\x15\x03"
_SASL = "asks for SASL (Kerberos), which simhbase does not speak: use a gateway that does not"

# A question, where in its answer a sign is that the server understood, the sign, and what that means.
_QUESTIONS: tuple[tuple[bytes, int, bytes | tuple[bytes, ...], str], ...] = (
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
    (_SASL_START, 0, _SASL_BAD, _SASL),
)


def explain(connect: Callable[[float], socket.socket]) -> str | None:
    """What a server is that does not answer as a gateway does, and what to do; None where nothing
    tells. `connect` opens a connection to it, without TLS, within so many seconds."""
    answer = _ask(connect, _BINARY)
    if answer.startswith(b"\x80\x01"):
        return "speaks without TLS: leave out tls=1"
    if answer.startswith(_SASL_BAD):
        return _SASL
    if answer and not answer.startswith(_TLS_ALERT):
        return f"is no Thrift server: it says {answer[:24]!r}"
    for question, start, sign, meaning in _QUESTIONS:
        if _ask(connect, question).startswith(sign, start):
            return meaning
    return "speaks TLS: add tls=1" if _speaks_tls(connect) else None


def _speaks_tls(connect: Callable[[float], socket.socket]) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent: who it is does not matter
    try:
        with connect(PATIENCE) as connection, context.wrap_socket(connection):
            return True
    except OSError:
        return False


def _ask(connect: Callable[[float], socket.socket], question: bytes) -> bytes:
    """The first bytes of the answer; none where it hangs up or stays silent."""
    try:
        with connect(PATIENCE) as connection:
            connection.settimeout(PATIENCE)
            connection.sendall(question)
            return connection.recv(_ANSWER_BYTES)
    except OSError:
        return b""
