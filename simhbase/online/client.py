"""A service's client: the calls of Index over HTTP, repeated while the service is away."""

from __future__ import annotations

import os
import random
import ssl
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import urllib3
from urllib3.exceptions import HTTPError, SSLError

from simhbase import wire
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
from simhbase.model import (
    AddReport,
    Claim,
    Comparison,
    Document,
    Explanation,
    Fingerprint,
    Lookup,
    Muted,
    Query,
    StoredDocument,
)
from simhbase.online.answers import (
    Added,
    Claims,
    Deleted,
    Failed,
    Lookups,
    MuteList,
    Neighbours,
    Removed,
    Status,
)

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0  # seconds
CONNECT_SECONDS = 5.0
CONNECTIONS = 32  # kept for the next calls
UNKNOWN_ID = "no document is stored under this id"
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
    "store_failed": PermanentError,
    "internal": PermanentError,
}

T = TypeVar("T")


class Client:
    """Asks a service (`simhbase serve`). Use it as a context manager, or close it.

    url: of the service, http:// or https://; token: one of its file; timeout: seconds for a call with all
    that is repeated, after which the last problem is raised. Every call may be repeated, and is where the
    service is busy, its store is away, or a connection breaks. For many threads; a child of a fork opens
    connections of its own.

    Raises UsageError for a url that is none. Its calls raise StoreUnreachable where the service cannot be
    reached, AccessDenied for a token that does not allow them, BadInput for what the service refuses,
    PermanentError for a certificate that cannot be trusted, and Overloaded, TimedOut, StoreBusy, ReadOnly and
    PermanentError as the service meets them.
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
            raise UsageError(f"must be a number of seconds above 0, not {timeout!r}", parameter="timeout")
        self.url = url.rstrip("/")
        self._path = parts.path.rstrip("/")
        self._timeout = timeout
        self._tls = tls
        self._headers = {"User-Agent": "simhbase"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._begin()

    def _begin(self) -> None:
        # Not a PoolManager: it takes dots out of paths, which are ids.
        secure = {"ssl_context": self._tls} if self._tls else {}
        self._process = os.getpid()
        self._pool = urllib3.connection_from_url(self.url, maxsize=CONNECTIONS, **secure)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes what connections there are; may be called twice."""
        self._pool.close()

    def find(
        self,
        text: str,
        k: int | None = None,
        min_similarity: float | None = None,
        since: datetime | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> Lookup:
        """Find the documents near a text, the nearest first. k, min_similarity, since, tags: as in Query;
        since is a datetime."""
        return self.find_many([text], Query(k, min_similarity, since, tags or {}))[0]

    def find_many(self, texts: Sequence[str], query: Query = Query()) -> list[Lookup]:
        """Find the documents near each of n texts, with one request. Raises UsageError for a timedelta as
        `since`."""
        given = {"texts": list(texts), "tags": dict(query.tags), **_bounds(query)}
        return list(self._call("POST", "/v1/find", Lookups, given).lookups)

    def claim(
        self,
        id: str,  # noqa: A002  # as everywhere else
        text: str,
        timeout: float = 30.0,
        tags: Mapping[str, str] | None = None,
    ) -> Claim:
        """Store a text unless one near it is stored, as `Index.claim` does. Raises Undecided, Conflict."""
        (claim,) = self.claim_many([Document(id, text, {} if tags is None else tags)], timeout)
        if claim.outcome == "undecided":
            raise Undecided(f"the claim of {id!r}: {claim.reason}")
        if claim.outcome == "conflict":
            raise Conflict(f"the claim of {id!r}: {claim.reason}")
        return claim

    def claim_many(self, documents: Iterable[Document], timeout: float = 30.0) -> list[Claim]:
        """Claim n documents; return an answer to each, in order."""
        given = {"documents": list(documents), "timeout": timeout}
        seconds = max(self._timeout, timeout + _CLAIM_MORE)
        return list(self._call("POST", "/v1/claim", Claims, given, seconds).claims)

    def add(self, documents: Iterable[Document]) -> AddReport:
        """Store documents, replacing those with the same id. Where a connection broke and the call was
        repeated, documents that are new may be reported as unchanged."""
        return self._call("POST", "/v1/documents", AddReport, {"documents": list(documents)})

    def delete(self, ids: Iterable[str]) -> int:
        """Remove documents, each by a request; return how many were stored. Where a connection broke, one
        that is deleted may not be counted."""
        if isinstance(ids, str):
            raise UsageError(f"one string was given for ids: put it into a list, [{ids[:40]!r}]")
        return sum(self._of_document("DELETE", each, "", Deleted) is not None for each in ids)

    def get(self, id: str) -> Fingerprint | None:  # noqa: A002  # as everywhere else
        """The fingerprint of a stored document, None for an id that is not stored."""
        found = self.document(id)
        return None if found is None else found.fingerprint

    def document(self, id: str) -> StoredDocument | None:  # noqa: A002  # as everywhere else
        """What is stored under an id, with its tags; None for one that is not stored."""
        return self._of_document("GET", id, "", StoredDocument)

    def neighbours(
        self,
        id: str,  # noqa: A002  # as everywhere else
        query: Query = Query(),
    ) -> Lookup:
        """The others near a stored document; for an id that is not stored a Lookup that says so."""
        tagged = [("tag", f"{name}={value}") for name, value in query.tags.items()]
        more = urlencode([*_bounds(query).items(), *tagged])
        found = self._of_document("GET", id, f"/neighbours?{more}", Neighbours)
        if found is None:
            return Lookup(None, reason=UNKNOWN_ID)
        return Lookup(found.fingerprint, found.matches, found.truncated, found.reason)

    def compare(self, left: str, right: str) -> Comparison:
        """Compare two texts by the store's profile, and say where they differ."""
        return self._call("POST", "/v1/compare", Comparison, {"left": left, "right": right})

    def explain(
        self,
        text: str,
        id: str | None = None,  # noqa: A002  # as everywhere else
        k: int | None = None,
        min_similarity: float | None = None,
    ) -> Explanation:
        """Say what `find` does for a text, and why that matches or not. id: a document to have among the
        candidates, found or not."""
        given = {"text": text, "id": id, **_bounds(Query(k, min_similarity))}
        return self._call("POST", "/v1/explain", Explanation, given)

    def mute(
        self,
        ids: Iterable[str] = (),
        fingerprints: Iterable[int] = (),
        until: datetime | None = None,
        note: str = "",
    ) -> int:
        """Make documents no matches, as `Index.mute` does. Where a connection broke, what is new may not be
        counted."""
        given = {
            "ids": list(ids),
            "fingerprints": list(map(Fingerprint, fingerprints)),
            "until": None if until is None else until.astimezone(),
            "note": note,
        }
        return self._call("POST", "/v1/muted", Added, given).added

    def unmute(self, ids: Iterable[str] = (), fingerprints: Iterable[int] = ()) -> int:
        """Take ids and fingerprints off the mute list, each by a request; return how many were there. Where a
        connection broke, one that is taken off may not be counted."""
        named = [
            *(f"id={_quoted(document)}" for document in ids),
            *(f"fingerprint={Fingerprint(value)}" for value in fingerprints),
        ]
        return sum(self._call("DELETE", f"/v1/muted?{each}", Removed).removed for each in named)

    def muted(self) -> list[Muted]:
        """Return the mute list, the oldest entries first."""
        return list(self._call("GET", "/v1/muted", MuteList).muted)

    def status(self) -> Status:
        """What the store is, and how large."""
        return self._call("GET", "/v1/status", Status)

    def _of_document(self, method: str, document: str, more: str, kind: type[T]) -> T | None:
        """The answer about a stored document, None for an id that is not stored."""
        try:
            return self._call(method, f"/v1/documents/{_quoted(document)}{more}", kind)
        except _NotFound:
            return None

    def _call(
        self, method: str, path: str, kind: type[T], given: object = None, timeout: float | None = None
    ) -> T:
        """The value of an answer. Repeats what may be repeated."""
        body = None if given is None else _encoded(given)
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        pause = FIRST_PAUSE
        while True:
            wait = 0.0
            try:
                answer = self._send(method, path, body, deadline)
            except HTTPError as error:
                if _is_of_certificate(error):
                    raise PermanentError(
                        f"{self.url} has a certificate that is not to be trusted: {error}. The parameter tls "
                        "takes a context that knows who signed it"
                    ) from error
                problem: Exception = StoreUnreachable(
                    f"{self.url} does not answer: {error}. Is the service running?"
                )
                problem.__cause__ = error
            else:
                if answer.status < 300:
                    return self._value(answer, kind)
                problem = self._problem(answer)
                if not isinstance(problem, RetryableError) and answer.status != 503:
                    raise problem
                wait = _seconds(answer.headers.get("Retry-After"))
            # Jitter, so that those who were turned away together do not come back together.
            seconds = max(wait, pause) * random.uniform(0.5, 1.5)
            if time.monotonic() + seconds >= deadline:
                raise problem
            time.sleep(seconds)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _send(self, method: str, path: str, body: bytes | None, deadline: float) -> urllib3.BaseHTTPResponse:
        """One answer. Raises HTTPError where none came in time."""
        if self._process != os.getpid():
            self._begin()
        left = max(0.001, deadline - time.monotonic())
        headers = self._headers if body is None else self._headers | {"Content-Type": "application/json"}
        return self._pool.urlopen(
            method,
            self._path + path,
            body,
            headers,
            retries=False,
            redirect=False,
            timeout=urllib3.Timeout(connect=min(CONNECT_SECONDS, left), total=left),
        )

    def _value(self, answer: urllib3.BaseHTTPResponse, kind: type[T]) -> T:
        try:
            return wire.decode(answer.data, kind)
        except BadInput as error:
            raise PermanentError(f"{self.url} answers as no service of simhbase does: {error}") from error

    def _problem(self, answer: urllib3.BaseHTTPResponse) -> RetryableError | PermanentError | BadInput:
        try:
            error = wire.decode(answer.data, Failed).error
        except BadInput:  # a proxy's
            said = f"{self.url}: status {answer.status}"
            away = answer.status in (429, 502, 503, 504)
            return StoreUnreachable(said) if away else PermanentError(said)
        said = f"{self.url}: {error.message} (request {error.request_id})"
        return _NotFound(said) if error.code == "not_found" else _ERRORS.get(error.code, BadInput)(said)


class _NotFound(PermanentError):
    pass


def _is_of_certificate(error: HTTPError) -> bool:
    # Not any error of TLS: a proxy that is restarted breaks handshakes off, too.
    return isinstance(error, SSLError) and isinstance(error.args[0], ssl.SSLCertVerificationError)


def _seconds(given: str | None) -> float:
    """Of Retry-After; a date, which simhbase never sends, says nothing here."""
    return float(given) if given and given.isdecimal() else 0.0


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


def _quoted(document: str) -> str:
    try:
        return quote(document, safe="")
    except UnicodeEncodeError as error:
        raise UsageError(f"the id {document!r} is no valid Unicode text") from error


def _encoded(given: object) -> bytes:
    try:
        return wire.encode(given)
    except (TypeError, ValueError) as error:
        raise UsageError(f"this cannot be sent: {error}") from error


def _bounds(query: Query) -> dict[str, int | float | str]:
    """Those that were given, as the service reads them."""
    if not isinstance(query.since, datetime | None):
        raise UsageError(f"since = {query.since!r}: a service needs a datetime")
    given = {
        "k": query.k,
        "min_similarity": query.min_similarity,
        "since": None if query.since is None else query.since.astimezone().isoformat(),
    }
    return {name: value for name, value in given.items() if value is not None}
