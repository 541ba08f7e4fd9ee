"""A service's client: the calls of Index over HTTP, repeated while the service is away.

It needs the standard library alone: it speaks to one host, keeps a few connections, and sends JSON, so that
workers that only ask install nothing else.
"""

from __future__ import annotations

import http.client
import os
import random
import ssl
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

import orjson

from simhbase.errors import (
    AccessDenied,
    BadInput,
    Conflict,
    Overloaded,
    PermanentError,
    ReadOnly,
    RetryableError,
    StoreBusy,
    StoreUnreachable,
    TimedOut,
    Undecided,
    UsageError,
)
from simhbase.model import AddReport, Claim, Document, Lookup, Match, Rejected, StoredDocument

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0  # seconds
CONNECT_SECONDS = 5.0
IDLE_SECONDS = 4.0  # after which the service may close a connection that is not used
IDLE_CONNECTIONS = 32
UNKNOWN_ID = "no document is stored under this id"
_JSON = "application/json"
_READ = 1 << 16  # bytes
_CLAIM_MORE = 5.0  # seconds that an answer takes after a claim's own time

_ERRORS: Mapping[str, type[RetryableError | PermanentError | BadInput]] = {
    "overloaded": Overloaded,
    "timed_out": TimedOut,
    "store_busy": StoreBusy,
    "store_unreachable": StoreUnreachable,
    "read_only": ReadOnly,
    "unauthorized": AccessDenied,
    "forbidden": AccessDenied,
    "unknown_host": AccessDenied,
    "not_found": PermanentError,
    "store_failed": PermanentError,
    "internal": PermanentError,
}


@dataclass(frozen=True)
class _Answer:
    """What came back; wait: as Retry-After says, in seconds."""

    status: int
    body: bytes
    wait: float | None

    @property
    def value(self) -> Any:
        return orjson.loads(self.body)


class Client:
    """Asks a service (`simhbase serve`). Use it as a context manager, or close it.

    url: of the service, http:// or https://; token: one of its file; timeout: seconds for a call with all
    that is repeated, after which the last problem is raised. Every call may be repeated, and is where the
    service is busy, its store is away, or a connection breaks. For many threads; a child of a fork opens
    connections of its own.

    Raises UsageError for a url that is none. Its calls raise StoreUnreachable where the service cannot be
    reached, AccessDenied for a token that does not allow them, BadInput for what the service refuses, and
    Overloaded, TimedOut, StoreBusy, ReadOnly and PermanentError as the service meets them.
    """

    def __init__(
        self, url: str, *, token: str | None = None, timeout: float = 60.0, tls: ssl.SSLContext | None = None
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{url!r} is no address of a service: http://HOST:PORT, or https://, is needed")
        if token is not None:
            _check_token(token)
        if timeout <= 0:
            raise UsageError(f"timeout = {timeout!r}: seconds are needed, more than 0")
        self.url = url.rstrip("/")
        self._parts = parts
        self._path = parts.path.rstrip("/")
        self._timeout = timeout
        self._tls = tls or (ssl.create_default_context() if parts.scheme == "https" else None)
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._idle = _Idle()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes what connections there are; may be called twice."""
        self._idle.close()

    def find(
        self,
        text: str,
        k: int | None = None,
        min_similarity: float | None = None,
        since: datetime | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> Lookup:
        """See Index.find; since: a datetime."""
        return self.find_many([text], k, min_similarity, since, tags)[0]

    def find_many(
        self,
        texts: Sequence[str],
        k: int | None = None,
        min_similarity: float | None = None,
        since: datetime | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> list[Lookup]:
        """See Index.find_many; since: a datetime."""
        asked = {"texts": list(texts), "tags": dict(tags or {}), **_bounds(k, min_similarity, since)}
        return [_lookup(each) for each in self._call("POST", "/v1/find", asked)["lookups"]]

    def claim(
        self,
        id: str,  # noqa: A002  # as everywhere else
        text: str,
        timeout: float = 30.0,
        tags: Mapping[str, str] | None = None,
    ) -> Claim:
        """See Index.claim. Raises Undecided, Conflict."""
        (claim,) = self.claim_many([Document(id, text, {} if tags is None else tags)], timeout)
        if claim.outcome == "undecided":
            raise Undecided(f"the claim of {id!r}: {claim.reason}")
        if claim.outcome == "conflict":
            raise Conflict(f"the claim of {id!r}: {claim.reason}")
        return claim

    def claim_many(self, documents: Iterable[Document], timeout: float = 30.0) -> list[Claim]:
        """See Index.claim_many."""
        asked = {"documents": _given(documents), "timeout": timeout}
        answer = self._call("POST", "/v1/claim", asked, max(self._timeout, timeout + _CLAIM_MORE))
        return [
            Claim(
                each["id"],
                each["outcome"],
                _number(each["fingerprint"]),
                None if each["match"] is None else _match(each["match"]),
                each["reason"],
            )
            for each in answer["claims"]
        ]

    def add(self, documents: Iterable[Document]) -> AddReport:
        """See Index.add. Where a connection broke and the call was repeated, documents that are new may be
        reported as unchanged."""
        answer = self._call("POST", "/v1/documents", {"documents": _given(documents)})
        rejected = tuple(Rejected(each["id"], each["reason"]) for each in answer["rejected"])
        return AddReport(answer["added"], answer["moved"], answer["unchanged"], rejected)

    def delete(self, ids: Iterable[str]) -> int:
        """See Index.delete; a request an id. Where a connection broke, one that is deleted may not be
        counted."""
        if isinstance(ids, str):
            raise UsageError(f"one string was given for ids: put it into a list, [{ids[:40]!r}]")
        return sum(self._call("DELETE", _path(each)) is not None for each in ids)

    def get(self, id: str) -> int | None:  # noqa: A002  # as everywhere else
        """The fingerprint of a stored document, None for an id that is not stored."""
        answer = self._call("GET", _path(id))
        return None if answer is None else _number(answer["fingerprint"])

    def document(self, id: str) -> StoredDocument | None:  # noqa: A002  # as everywhere else
        """What is stored under an id, with its tags; None for one that is not stored."""
        answer = self._call("GET", _path(id))
        if answer is None:
            return None
        return StoredDocument(answer["id"], int(answer["fingerprint"], 16), answer["tags"])

    def neighbours(
        self,
        id: str,  # noqa: A002  # as everywhere else
        k: int | None = None,
        min_similarity: float | None = None,
        since: datetime | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> Lookup:
        """The others near a stored document; for an id that is not stored a Lookup that says so."""
        tagged = [("tag", f"{name}={value}") for name, value in (tags or {}).items()]
        asked = [*_bounds(k, min_similarity, since).items(), *tagged]
        answer = self._call("GET", f"{_path(id)}/neighbours{'?' if asked else ''}{urlencode(asked)}")
        return Lookup(None, reason=UNKNOWN_ID) if answer is None else _lookup(answer)

    def compare(self, left: str, right: str) -> dict[str, Any]:
        """How near two texts are and where they differ, as POST /v1/compare answers."""
        answer: dict[str, Any] = self._call("POST", "/v1/compare", {"left": left, "right": right})
        return answer

    def explain(
        self,
        text: str,
        id: str | None = None,  # noqa: A002  # as everywhere else
        k: int | None = None,
        min_similarity: float | None = None,
    ) -> dict[str, Any]:
        """What a lookup reads and finds, as POST /v1/explain answers."""
        asked = {"text": text, "id": id, **_bounds(k, min_similarity, None)}
        answer: dict[str, Any] = self._call("POST", "/v1/explain", asked)
        return answer

    def mute(
        self,
        ids: Iterable[str] = (),
        fingerprints: Iterable[int] = (),
        until: datetime | None = None,
        note: str = "",
    ) -> int:
        """See Index.mute. Where a connection broke, what is new may not be counted."""
        asked = {
            "ids": list(ids),
            "fingerprints": [f"{value:016x}" for value in fingerprints],
            "until": None if until is None else until.astimezone().isoformat(),
            "note": note,
        }
        added: int = self._call("POST", "/v1/muted", asked)["added"]
        return added

    def unmute(self, ids: Iterable[str] = (), fingerprints: Iterable[int] = ()) -> int:
        """See Index.unmute; a request an id or a fingerprint. Where a connection broke, one that is taken off
        the list may not be counted."""
        named = [
            *(f"id={_quoted(document)}" for document in ids),
            *(f"fingerprint={value:016x}" for value in fingerprints),
        ]
        return sum(self._call("DELETE", f"/v1/muted?{each}")["removed"] for each in named)

    def muted(self) -> list[dict[str, Any]]:
        """What is muted, as GET /v1/muted answers."""
        entries: list[dict[str, Any]] = self._call("GET", "/v1/muted")["muted"]
        return entries

    def status(self) -> dict[str, Any]:
        """What the store is, and how large, as GET /v1/status answers."""
        answer: dict[str, Any] = self._call("GET", "/v1/status")
        return answer

    def _call(self, method: str, path: str, asked: object = None, timeout: float | None = None) -> Any:
        """The value of an answer; None for an id that is not stored. Repeats what may be repeated."""
        body = None if asked is None else _encoded(asked)
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        pause = FIRST_PAUSE
        while True:
            wait: float | None = None
            try:
                answer = self._send(method, path, body, deadline)
                if answer.status < 300:
                    return answer.value
                problem: Exception = self._problem(answer)
                if answer.status == 404 and path.startswith("/v1/documents/"):
                    return None
                if not isinstance(problem, RetryableError) and answer.status != 503:
                    raise problem
                wait = answer.wait
            except (OSError, http.client.HTTPException) as error:
                problem = StoreUnreachable(
                    f"{self.url} does not answer: {error or type(error).__name__}. Is the service running?"
                )
                problem.__cause__ = error
            # Jitter, so that those who were turned away together do not come back together.
            seconds = (pause if wait is None else max(wait, pause)) * random.uniform(0.5, 1.5)
            if time.monotonic() + seconds >= deadline:
                raise problem
            time.sleep(seconds)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _send(self, method: str, path: str, body: bytes | None, deadline: float) -> _Answer:
        """One answer. Raises OSError and HTTPException where none came."""
        connection = self._idle.take() or self._connection()
        try:
            answer = _exchange(connection, method, self._path + path, body, self._headers, deadline)
        except BaseException:
            connection.close()
            raise
        self._idle.keep(connection)
        return answer

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._tls is None:
            return http.client.HTTPConnection(host, port)
        return http.client.HTTPSConnection(host, port, context=self._tls)

    def _problem(self, answer: _Answer) -> RetryableError | PermanentError | BadInput:
        try:
            error = answer.value["error"]
            code, message = error["code"], f"{error['message']} (request {error['request_id']})"
        except (ValueError, KeyError, TypeError):  # a proxy's
            code, message = "", f"status {answer.status}"
        by_status = StoreUnreachable if answer.status in (429, 502, 503, 504) else PermanentError
        fallback = BadInput if code and answer.status < 500 else by_status
        return _ERRORS.get(code, fallback)(f"{self.url}: {message}")


def _exchange(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: bytes | None,
    headers: Mapping[str, str],
    deadline: float,
) -> _Answer:
    """Sends a request and reads the answer, all until the deadline."""
    if connection.sock is None:
        connection.timeout = min(CONNECT_SECONDS, _left(deadline))
        connection.connect()
    sock = connection.sock  # of which the connection lets go where the service says that it will close
    assert sock is not None
    sock.settimeout(_left(deadline))
    kind = {} if body is None else {"Content-Type": _JSON}
    with suppress(BrokenPipeError, ConnectionResetError):  # what is too large may be answered before its end
        connection.request(method, path, body, {**headers, **kind})
    response = connection.getresponse()
    parts = []
    while part := response.read1(_READ):
        parts.append(part)
        sock.settimeout(_left(deadline))
    response.close()  # the connection is free for the next one, if it stays open
    if response.will_close:
        connection.close()
    return _Answer(response.status, b"".join(parts), _seconds(response.getheader("Retry-After")))


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("no answer in time")
    return left


def _seconds(given: str | None) -> float | None:
    """Of Retry-After; a date, which simhbase never sends, says nothing here."""
    return float(given) if given and given.isdecimal() else None


class _Idle:
    """Connections that wait for the next call, the last used first; those of this process."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._connections: deque[tuple[float, http.client.HTTPConnection]] = deque()

    def take(self) -> http.client.HTTPConnection | None:
        """One that the service has most likely not closed yet."""
        if self._process != os.getpid():
            self._begin()
        while True:
            with self._lock:
                if not self._connections:
                    return None
                since, connection = self._connections.pop()
            if time.monotonic() - since < IDLE_SECONDS:
                return connection
            connection.close()

    def keep(self, connection: http.client.HTTPConnection) -> None:
        """Keeps one for the next call."""
        if connection.sock is None:
            return
        with self._lock:
            self._connections.append((time.monotonic(), connection))
            surplus = self._connections.popleft() if len(self._connections) > IDLE_CONNECTIONS else None
        if surplus is not None:
            surplus[1].close()

    def close(self) -> None:
        """Closes them."""
        while connection := self.take():
            connection.close()


def _check_token(token: str) -> None:
    """Raises UsageError, which does not show it."""
    if any(map(str.isspace, token)):
        wrong = "spaces or lines: of the service's token file give the token alone"
    elif not (token.isascii() and token.isprintable()):
        wrong = "others"
    else:
        return
    known = "tokens have letters, digits and signs of ASCII"
    raise UsageError(f"this token cannot be sent: {known}, and this one has {wrong}")


def _path(document: str) -> str:
    return f"/v1/documents/{_quoted(document)}"


def _quoted(document: str) -> str:
    try:
        return quote(document, safe="")
    except UnicodeEncodeError as error:
        raise UsageError(f"the id {document!r} is no valid Unicode text") from error


def _encoded(asked: object) -> bytes:
    try:
        return orjson.dumps(asked)
    except TypeError as error:
        raise UsageError(f"this cannot be sent: {error}") from error


def _bounds(
    k: int | None, min_similarity: float | None, since: datetime | None
) -> dict[str, int | float | str]:
    """Those that were given."""
    given = {
        "k": k,
        "min_similarity": min_similarity,
        "since": None if since is None else since.astimezone().isoformat(),
    }
    return {name: value for name, value in given.items() if value is not None}


def _given(documents: Iterable[Document]) -> list[dict[str, Any]]:
    return [{"id": each.id, "text": each.text, "tags": dict(each.tags)} for each in documents]


def _number(digits: str | None) -> int | None:
    return None if digits is None else int(digits, 16)


def _match(found: Mapping[str, Any]) -> Match:
    return Match(found["distance"], found["id"], int(found["fingerprint"], 16), found["similarity"])


def _lookup(found: Mapping[str, Any]) -> Lookup:
    return Lookup(
        _number(found["fingerprint"]),
        tuple(map(_match, found["matches"])),
        found["truncated"],
        found["reason"],
    )
