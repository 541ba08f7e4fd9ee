"""Errors as answers: one shape, a status and a code for each, and never a stack trace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from simhbase.errors import BadInput, Overloaded, ReadOnly, RetryableError, SimhbaseError, StoreBusy, TimedOut
from simhbase.logs import logger
from simhbase.online.answers import Detail, Failure, FailureAnswer
from simhbase.online.request_log import request_id

UNKNOWN_ID = "no document is stored under this id"
MOST_DETAILS = 20
_RETRY_SOON, _RETRY_LATER = 1, 5  # seconds

# The first that an error is one of decides. Nothing but 503 says that the fault is here: a store that is
# away, too much to do, or tables that somebody has to mend.
STATUSES: Sequence[tuple[type[SimhbaseError], HTTPStatus, str, int | None]] = (
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
    422: "invalid",
}

log = logger(__name__)


def failure(
    status: int,
    code: str,
    message: str,
    headers: Mapping[str, str] | None = None,
    details: Iterable[Detail] = (),
) -> Response:
    """An answer that says what went wrong."""
    said = Failure(code=code, message=message, request_id=request_id.get(), details=list(details))
    content = FailureAnswer(error=said).model_dump_json()
    return Response(content, status, dict(headers or {}), media_type="application/json")


def refused(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """The same, with the code that belongs to the status."""
    return failure(status, CODES.get(status, "refused"), message, headers)


def handle_failures(app: FastAPI) -> None:
    """Lets an app answer its errors so."""
    app.add_exception_handler(RequestValidationError, _answer_to)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(SimhbaseError, _answer_to)
    app.add_exception_handler(Exception, _unexpected)


def answer_to(error: Exception) -> Response:
    """The answer to what a handler has raised. Raises what nobody has thought of."""
    match error:
        case RequestValidationError():
            return _of_validation(error.errors())
        case HTTPException():
            return _of_refusal(error)
        case SimhbaseError():
            return of_library(error)
    raise error


def unexpected(error: Exception) -> Response:
    """The answer to what nobody has thought of; the log says where it was."""
    log.error("unexpected %s: %s", type(error).__name__, error, exc_info=error)
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    return failure(status, "internal", "an error of the service: its log has more under this request id")


async def _unexpected(request: Request, error: Exception) -> Response:
    return unexpected(error)


def _of_validation(errors: Sequence[Mapping[str, Any]]) -> Response:
    """The answer to what pydantic has refused."""
    malformed = any(each["type"] == "json_invalid" for each in errors)
    details = [Detail(where=_place(each["loc"]), problem=_problem(each["msg"])) for each in errors]
    status = 400 if malformed else 422
    message = "the body is no JSON in UTF-8" if malformed else "the request is not as the API describes it"
    first = f": {details[0].where}: {details[0].problem}" if details else ""
    return failure(status, CODES[status], message + first, details=details[:MOST_DETAILS])


def _place(location: Sequence[object]) -> str:
    return _printable(".".join(map(str, location)))


def _problem(text: str) -> str:
    return _printable(text.removeprefix("Value error, "))


def _printable(text: str) -> str:
    """Without halves of surrogate pairs, which no answer can hold."""
    return text.encode(errors="backslashreplace").decode()


async def _answer_to(request: Request, error: Exception) -> Response:
    return answer_to(error)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = _of_refusal(error)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        answer.headers["Allow"] = ", ".join(sorted(_methods(request)))
    return answer


def _of_refusal(error: HTTPException) -> Response:
    return refused(error.status_code, _printable(str(error.detail)), error.headers)


def _methods(request: Request) -> set[str]:
    """Those of all routes of the path that was asked for; Starlette names those of the first one alone."""
    routes = [route for route in request.app.routes if isinstance(route, APIRoute)]
    asked = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    same = [route for route in asked if route.path == asked[0].path]
    return {method for route in same for method in route.methods or ()}


def of_library(error: SimhbaseError) -> Response:
    """The answer to an error of simhbase."""
    status, code, wait = next(
        (status, code, wait) for kind, status, code, wait in STATUSES if isinstance(error, kind)
    )
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        log.warning("%s: %s", code, error)
    headers = {} if wait is None else {"Retry-After": str(wait)}
    return failure(status, code, _printable(str(error)), headers)
