"""Errors as HTTP answers: one format, with a status and a code, never a stack trace."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.responses import Response

from simhbase.errors import (
    BadInput,
    Overloaded,
    ReadOnly,
    RetryableError,
    SimhbaseError,
    StoreBusy,
    StoreUnreachable,
    TimedOut,
)
from simhbase.model import wire
from simhbase.online.answers import ErrorBody, Failed
from simhbase.process.logs import logger

_MOST_SAID = 2_000  # characters
_UNTOLD = "the reason is in the service's log, under this request id"
_RETRY_SOON, _RETRY_LATER = 1, 5  # seconds


class NotStored(SimhbaseError):
    """The id in the request is not stored."""

    def __init__(self) -> None:
        super().__init__("no document is stored under this id")


class TooLarge(BadInput):
    """A request exceeds a limit."""


# The first matching class decides. Only 503 means a problem of the service: an unavailable store, overload,
# or tables that need an operator.
STATUSES: Sequence[tuple[type[SimhbaseError], HTTPStatus, str, int | None]] = (
    (NotStored, HTTPStatus.NOT_FOUND, "not_found", None),
    (TooLarge, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", None),
    (wire.Malformed, HTTPStatus.BAD_REQUEST, "malformed", None),
    (BadInput, HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", None),
    (ReadOnly, HTTPStatus.FORBIDDEN, "read_only", None),
    (Overloaded, HTTPStatus.SERVICE_UNAVAILABLE, "overloaded", _RETRY_SOON),
    (TimedOut, HTTPStatus.SERVICE_UNAVAILABLE, "timed_out", _RETRY_SOON),
    (StoreBusy, HTTPStatus.SERVICE_UNAVAILABLE, "store_busy", _RETRY_LATER),
    (RetryableError, HTTPStatus.SERVICE_UNAVAILABLE, "store_unreachable", _RETRY_LATER),
    (SimhbaseError, HTTPStatus.SERVICE_UNAVAILABLE, "store_failed", _RETRY_LATER),
)
CODES: Mapping[int, str] = {
    400: "malformed",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "too_slow",
    413: "too_large",
    415: "unsupported_media_type",
    421: "unknown_host",
}

request_id: ContextVar[str] = ContextVar("request_id", default="")
log = logger(__name__)


def answer_to(error: Exception, is_stranger: bool) -> Response:
    """The answer to a request that failed. is_stranger: it came without a token where there are some, and
    is not told of the store."""
    match error:
        case SimhbaseError():
            return _of_library(error, is_stranger)
        case HTTPException():  # ours and Starlette's
            code = CODES.get(error.status_code, "refused")
            return _failure(error.status_code, code, error.detail, error.headers)
    log.error("unexpected %s: %s", type(error).__name__, error, exc_info=error)
    return _failure(500, "internal", "internal error: see the service's log for this request id")


def release(error: BaseException) -> None:
    """Drops the traces of an error, and of those behind it. Their frames have what was given, such as a body,
    and futures that have the error: all would be kept until Python looks for cycles."""
    left, seen = [error], set[int]()
    while left:
        each = left.pop()
        each.__traceback__ = None
        seen.add(id(each))
        behind = each.__cause__, each.__context__
        left += [other for other in behind if other is not None and id(other) not in seen]


def malformed(message: str) -> Response:
    """The answer to what is no request."""
    return _failure(400, CODES[400], message)


def _of_library(error: SimhbaseError, is_stranger: bool) -> Response:
    status, code, wait = next(
        (status, code, wait) for kind, status, code, wait in STATUSES if isinstance(error, kind)
    )
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        # The store itself warns of an outage, and not for each request.
        level = logging.INFO if isinstance(error, StoreUnreachable) else logging.WARNING
        log.log(level, "%s: %s", code, error)
    headers = {} if wait is None else {"Retry-After": str(wait)}
    details = [error.problem] if isinstance(error, wire.Unfitting) else []
    message = _UNTOLD if is_stranger else str(error)
    return _failure(status, code, message, headers, details)


def _failure(
    status: int,
    code: str,
    message: str,
    headers: Mapping[str, str] | None = None,
    details: Iterable[wire.Problem] = (),
) -> Response:
    if len(message) > _MOST_SAID:  # what is wrong may be as long as the body
        message = f"{message[:_MOST_SAID]}..."
    printable = message.encode(errors="backslashreplace").decode()  # JSON in UTF-8 has no lone surrogates
    said = Failed(ErrorBody(code, printable, request_id.get(), list(details)))
    return Response(wire.encode(said), status, headers, media_type="application/json")
