"""Kerberos, by GSSAPI: SASL as Thrift frames it (RFC 4752), and tokens for HTTP (SPNEGO, RFC 4559)."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from simhbase.errors import UsageError
from simhbase.stores.hbase.url import QOPS, Gateway, Kerberos

START, OK, BAD, ERROR, COMPLETE = range(1, 6)  # of Thrift's messages during a SASL negotiation
LAYERS = {"auth": 1, "auth-int": 2, "auth-conf": 4}
LARGEST_TOKEN = 1 << 24  # bytes: a larger length is an answer of something that does not speak SASL
LARGEST_ANSWER = 0xFFFFFF  # bytes that the other end may put into a frame: the largest that can be said

# Codes of Kerberos 5 (krb5.h), and what to do about them.
_BASE = -1765328384
_UNKNOWN_SERVICE, _NO_SERVICE, _EXPIRED, _NOT_YET_VALID, _SKEW = (_BASE + n for n in (7, 29, 32, 33, 37))
_NO_REALM, _KDC_UNREACHABLE = _BASE + 154, _BASE + 156
_RETRYABLE = (_NO_SERVICE, _KDC_UNREACHABLE)
_NO_TICKET = "Get a ticket with kinit, or name a keytab in KRB5_CLIENT_KTNAME"
_CLOCKS = "Set the clocks of this machine, the KDC and the gateway with NTP"
_ADVICE = {
    _EXPIRED: _NO_TICKET,
    _NOT_YET_VALID: _CLOCKS,
    _SKEW: _CLOCKS,
    _NO_REALM: "Name the realm's KDC in krb5.conf (KRB5_CONFIG)",
    _UNKNOWN_SERVICE: "Name the gateway's principal in the URL, kerberos=SERVICE/HOST",
}

T = TypeVar("T")


class Refused(Exception):
    """We do not accept the other end, or it does not accept us, and a retry would change nothing."""


class KdcUnreachable(Exception):
    """No answer from the Kerberos servers (KDC)."""


def require_library() -> None:
    """Raises UsageError if gssapi is not installed."""
    _gssapi()


class Context:
    """A client's security context with a gateway. All methods raise Refused and KdcUnreachable."""

    def __init__(self, kerberos: Kerberos, gateway: Gateway, deadline: float) -> None:
        gssapi = _gssapi()
        self.peer = f"{kerberos.service}/{kerberos.host or gateway.host}"
        self._deadline = deadline
        flag = gssapi.RequirementFlag
        name = gssapi.Name(self.peer.replace("/", "@", 1), gssapi.NameType.hostbased_service)
        self._context = self._do(
            lambda: gssapi.SecurityContext(
                name=name,
                mech=gssapi.MechType.kerberos,
                flags=flag.mutual_authentication
                | flag.integrity
                | flag.confidentiality
                | flag.out_of_sequence_detection,
                usage="initiate",
            )
        )

    @property
    def is_complete(self) -> bool:
        """True if both ends have proved who they are."""
        return bool(self._context.complete)

    def step(self, token: bytes | None = None) -> bytes:
        """The next token for the other end, given its last one."""
        answer: bytes | None = _within(self._deadline, lambda: self._do(lambda: self._context.step(token)))
        return answer or b""

    def wrap(self, data: bytes, *, encrypted: bool) -> bytes:
        wrapped: bytes = self._do(lambda: self._context.wrap(data, encrypted).message)
        return wrapped

    def unwrap(self, data: bytes) -> bytes:
        unwrapped: bytes = self._do(lambda: self._context.unwrap(data).message)
        return unwrapped

    def wrapped_limit(self, size: int, *, encrypted: bool) -> int:
        """How many bytes become at most `size` when they are wrapped."""
        limit: int = self._do(lambda: self._context.get_wrap_size_limit(size, encrypted))
        return limit

    def _do(self, call: Callable[[], T]) -> T:
        gssapi = _gssapi()
        try:
            return call()
        except gssapi.exceptions.GSSError as error:
            code = error.min_code - (1 << 32) if error.min_code >= 1 << 31 else error.min_code
            said = error.get_all_statuses(error.min_code, False) or [str(error)]
            text = f"no Kerberos session with {self.peer}: {'; '.join(said)}"
            if code in _RETRYABLE:
                raise KdcUnreachable(text) from error
            missing = isinstance(
                error, (gssapi.exceptions.MissingCredentialsError, gssapi.exceptions.ExpiredCredentialsError)
            )
            advice = _ADVICE.get(code) or (_NO_TICKET if missing else None)
            raise Refused(f"{text}. {advice}" if advice else text) from error


class Sasl:
    """What a connection says in frames of SASL, protected as the gateway demands (qop).

    Methods raise Refused, KdcUnreachable and OSError. `send` sends all bytes, `receive` returns exactly as
    many as it is asked for.
    """

    def __init__(self, kerberos: Kerberos, gateway: Gateway, deadline: float) -> None:
        self._least = kerberos.qop
        self._context = Context(kerberos, gateway, deadline)
        self._limit = 0
        self.qop = ""

    def negotiate(self, send: Callable[[bytes], object], receive: Callable[[int], bytes]) -> None:
        """Authenticate both ends."""
        send(_message(START, b"GSSAPI") + _message(OK, self._context.step()))
        while not self._context.is_complete:
            send(_message(OK, self._context.step(_payload(receive))))
        offer = self._context.unwrap(_payload(receive))
        offered = [qop for qop in QOPS if offer and LAYERS[qop] & offer[0]]
        accepted = [qop for qop in offered if QOPS.index(qop) >= QOPS.index(self._least)]
        if not accepted:
            raise Refused(
                f"the gateway offers {', '.join(offered) or 'no protection'} (hbase.thrift.security.qop), "
                f"and qop={self._least} asks for more"
            )
        self.qop = accepted[-1]
        if self.qop != "auth":
            size = int.from_bytes(offer[1:4])
            self._limit = self._context.wrapped_limit(size, encrypted=self.qop == "auth-conf")
        # No name of a user follows: we act as who we are.
        answer = struct.pack(">I", LAYERS[self.qop] << 24 | (0 if self.qop == "auth" else LARGEST_ANSWER))
        send(_message(OK, self._context.wrap(answer, encrypted=False)))
        _payload(receive)

    def wrap(self, message: bytes) -> bytes:
        """The frames of a message."""
        if self.qop == "auth":
            return _with_length(message)
        encrypted = self.qop == "auth-conf"
        parts = (message[start : start + self._limit] for start in range(0, len(message), self._limit))
        return b"".join(_with_length(self._context.wrap(part, encrypted=encrypted)) for part in parts)

    def read(self, receive: Callable[[int], bytes]) -> bytes:
        """The content of the next frame."""
        (length,) = struct.unpack(">I", receive(4))
        data = receive(length)
        return data if self.qop == "auth" else self._context.unwrap(data)


def _with_length(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def _message(status: int, payload: bytes) -> bytes:
    return struct.pack(">B", status) + _with_length(payload)


def _payload(receive: Callable[[int], bytes]) -> bytes:
    status, length = struct.unpack(">BI", receive(5))
    if not OK <= status <= COMPLETE or length > LARGEST_TOKEN:
        raise ConnectionError("an answer that is not SASL")
    payload = receive(length)
    if status in (BAD, ERROR):
        raise Refused(
            f"the gateway refuses the Kerberos ticket ({payload.decode(errors='replace')}): does kerberos= "
            "name its principal, and are the clocks right? Its log says more"
        )
    return payload


def _within(deadline: float, call: Callable[[], T]) -> T:
    """The result of a call that may ask a KDC: where that hangs, the library waits for half a minute."""
    outcomes: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

    def run() -> None:
        try:
            outcomes.put((call(), None))
        except BaseException as error:
            outcomes.put((None, error))

    Thread(target=run, daemon=True).start()
    try:
        result, error = outcomes.get(timeout=max(deadline - time.monotonic(), 0.001))
    except Empty:
        raise KdcUnreachable("no answer from the Kerberos servers (KDC) in time") from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value]  # of the call


def _gssapi() -> Any:
    try:
        import gssapi
    except ImportError as error:
        raise UsageError(
            "kerberos= needs gssapi, which is not installed: pip install 'simhbase[kerberos]' (on Debian and "
            "Ubuntu, apt-get install libkrb5-dev gcc python3-dev before)"
        ) from error
    return gssapi
