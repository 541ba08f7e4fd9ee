"""What answers in the place of a gateway: servers that speak something else, told by their answers."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

from simhbase.stores.hbase.requests import request

PATIENCE = 2.0  # seconds for each question
_METHOD = "getThriftServerType"
_ANSWER_BYTES = 64


def _framed(message: bytes) -> bytes:
    return struct.pack(">i", len(message)) + message


_BINARY = request(_METHOD).message
_COMPACT = b"\x82\x21\x00" + bytes([len(_METHOD)]) + _METHOD.encode() + b"\x00"
_THRIFT = (
    # What is sent, where in the answer and with what the server's own protocol shows, what that is.
    (_framed(_BINARY), 4, b"\x80\x01", "framed messages: start it without -f, -hsha and -nonblocking"),
    (_COMPACT, 0, b"\x82", "the compact protocol: start it without -c"),
    (_framed(_COMPACT), 4, b"\x82", "framed messages and the compact protocol: start it without -f and -c"),
)


def explain(connect: Callable[[], socket.socket]) -> str | None:
    """What kind of server it is that does not answer as a gateway does, and what to do; None where
    nothing tells. `connect` opens another connection to it, without TLS."""
    answer = _ask(connect, _BINARY)
    if answer.startswith(b"\x80\x01"):
        return "speaks without TLS: leave out tls=1"
    if answer.startswith((b"\x15\x03", b"\x16\x03")):
        return "speaks TLS: add tls=1"
    if answer[:1] in (b"\x01", b"\x02", b"\x03", b"\x04", b"\x05") and answer[1:2] == b"\x00":
        return "asks for SASL (Kerberos), which simhbase does not speak: use a gateway without it"
    for message, start, sign, what in _THRIFT:
        if _ask(connect, message).startswith(sign, start):
            return f"speaks Thrift with {what}"
    if answer:
        return f"is no Thrift server: it answers {answer[:24]!r}"
    return None


def _ask(connect: Callable[[], socket.socket], message: bytes) -> bytes:
    """The first bytes of the answer, none where it hangs up or stays silent."""
    try:
        with connect() as connection:
            connection.settimeout(PATIENCE)
            connection.sendall(message)
            return connection.recv(_ANSWER_BYTES)
    except OSError:
        return b""
