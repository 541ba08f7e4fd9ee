"""The client of a service: the methods of Index over HTTP, with retries."""

from __future__ import annotations

import os
import random
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from itertools import count, islice
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, SSLError
from urllib3.exceptions import TimeoutError as RequestTimeout

from simhbase.errors import (
    AccessDenied,
    BadInput,
    Overloaded,
    PermanentError,
    ReadOnly,
    RetryableError,
    ShortTexts,
    StoreBusy,
    StoreUnreachable,
    TimedOut,
    UsageError,
)
from simhbase.model import wire
from simhbase.model.explanations import Comparison, Explanation
from simhbase.model.frames import (
    ClaimList,
    Documents,
    Fields,
    GivenRow,
    LookupList,
    Texts,
    chunks,
    decided,
    document_rows,
    text_rows,
)
from simhbase.model.moment import at, milliseconds, milliseconds_to_come, now
from simhbase.model.stored import Muted, StoredDocument, StoredPage
from simhbase.model.urls import cause_without, redacted, refuse_secret, without
from simhbase.model.values import (
    AddReport,
    Claim,
    ClaimMode,
    Document,
    Fingerprint,
    Lookup,
    Moment,
    Query,
    Rejected,
)
from simhbase.online import answers
from simhbase.online.in_time import ResponseInTime
from simhbase.process.logs import printable

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0  # seconds
CONNECT_SECONDS = 5.0
MOST_SAID = 2_000  # characters of what a service says that are repeated
MOST_WARNINGS = 10  # of an answer that are passed on
SENT_BYTES = 1 << 14  # of a body that have to be taken within CONNECT_SECONDS
PART_BYTES = 1 << 20  # that are read at once
MOST_BYTES, OTHER_BYTES = 1 << 28, 1 << 24  # of an answer that lists documents, and of another one
MOST_EMPTY = 100_000  # pages without documents, one after the other: of five billion stored ones
CONNECTIONS = 32  # idle connections to keep
REQUEST = 500, 1_000_000  # documents and characters of a request: half and a quarter of what services accept
UNKNOWN_ID = "no document is stored under this id"
_LISTS = (  # of documents
    answers.Lookups,
    answers.Neighbours,
    answers.Claims,
    answers.Stored,
    answers.GroupList,
    answers.MutedList,
    StoredPage,
)
_CLAIM_MORE = 5.0  # seconds for the answer, beyond a claim's timeout

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


class Answer(NamedTuple):
    """What a service has sent."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Client:
    """Client of a service (`simhbase serve`). Use it as a context manager, or close it.

    url: http:// or https:// address; token: from the service's token file; timeout: seconds for a call
    including retries, after which the last error is raised. Calls are repeated if the service or its store is
    unavailable or busy, or a connection breaks. Thread-safe; a forked child opens its own connections.

    Raises UsageError for an invalid url. Calls raise StoreUnreachable if the service cannot be reached,
    AccessDenied if the token does not permit the call, BadInput if the service rejects the request,
    PermanentError for an untrusted certificate, and errors of the service: Overloaded, TimedOut, StoreBusy,
    ReadOnly, PermanentError.
    """

    def __init__(
        self, url: str, *, token: str | None = None, timeout: float = 60.0, tls: ssl.SSLContext | None = None
    ) -> None:
        refuse_secret(url, "token=")
        path = _path(url)
        if token is not None:
            _check_token(token)
        if timeout <= 0:
            raise UsageError(f"must be a number of seconds above 0, not {timeout!r}", parameter="timeout")
        self.url = url.rstrip("/")
        self._path = path.rstrip("/")
        self._timeout = timeout
        self._is_warned = False
        self._tls = tls
        self._token = token or ""
        self._headers = {"User-Agent": "simhbase"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._begin()

    def _begin(self) -> None:
        # Not a PoolManager: it normalises dots in paths, which contain ids.
        secure = {"ssl_context": self._tls} if self._tls else {}
        self._process = os.getpid()
        self._pool = urllib3.connection_from_url(self.url, maxsize=CONNECTIONS, **secure)
        is_secure = isinstance(self._pool, urllib3.HTTPSConnectionPool)
        self._pool.ConnectionCls = _HttpsConnection if is_secure else _HttpConnection

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; may be called twice."""
        self._pool.close()

    def find(
        self,
        text: str,
        *,
        k: int | None = None,
        min_similarity: float | None = None,
        since: Moment | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> Lookup:
        """Find the documents near a text, nearest first. k, min_similarity, since, tags: as in Query."""
        return self.find_many([text], k=k, min_similarity=min_similarity, since=since, tags=tags)[0]

    def find_many(
        self,
        texts: Texts,
        *,
        k: int | None = None,
        min_similarity: float | None = None,
        since: Moment | None = None,
        tags: Mapping[str, str] | None = None,
        id_field: str = "id",
        text_field: str = "text",
    ) -> LookupList:
        """Find the documents near each of n texts, with a request for each 500, or a million characters.
        texts, id_field, text_field: as for `Index.find_many`; the others as for `find`."""
        query = Query(k, min_similarity, since, {} if tags is None else tags)
        lookups, ids = list[Lookup](), list[Any]()
        bounds = {"tags": dict(query.tags), **_bounds(query)}
        for chunk in chunks(text_rows(texts, Fields(id_field, text_field)), *REQUEST):
            given = {"texts": [row.text for row in chunk], **bounds}
            found = self._call("POST", "/v1/find", answers.Lookups, given)
            self._pass_on(found.warnings)
            for row, lookup in zip(chunk, self._each(found.lookups, len(chunk)), strict=True):
                lookups.append(lookup if row.problem is None else Lookup(None, reason=row.problem))
                ids.append(row.given_id)
        return LookupList(lookups, ids)

    def claim(
        self,
        id: str,  # noqa: A002  # as everywhere else
        text: str,
        timeout: float = 30.0,
        tags: Mapping[str, str] | None = None,
    ) -> Claim:
        """Store a text unless one near it is stored, like `Index.claim`. Raises Undecided, Conflict."""
        return decided(*self.claim_many([Document(id, text, {} if tags is None else tags)], timeout))

    def claim_many(
        self,
        documents: Documents,
        timeout: float = 30.0,
        *,
        mode: ClaimMode = "refuse",
        id_field: str = "id",
        text_field: str = "text",
    ) -> ClaimList:
        """Claim n documents, with a request for each 500, or a million characters; return the answers in
        order. The arguments are those of `Index.claim_many`."""
        seconds = max(self._timeout, timeout + _CLAIM_MORE)
        claims = ClaimList()
        for chunk in chunks(document_rows(documents, Fields(id_field, text_field)), *REQUEST):
            usable = _usable(chunk)
            given = {"documents": usable, "timeout": timeout, "mode": mode}
            answer = self._call("POST", "/v1/claim", answers.Claims, given, seconds)
            self._pass_on(answer.warnings)
            found = iter(self._each(answer.claims, len(usable)))
            claims += [
                next(found) if row.problem is None else Claim(row.id or "", "rejected", reason=row.problem)
                for row in chunk
            ]
            claims.ids += (row.given_id for row in chunk)
        return claims

    def add(self, documents: Documents, *, id_field: str = "id", text_field: str = "text") -> AddReport:
        """Store documents, replacing those with the same id, with a request for each 500, or a million
        characters. documents, id_field, text_field: as for `Index.add`. After a retry, new documents may be
        reported as unchanged."""
        report = AddReport()
        for chunk in chunks(document_rows(documents, Fields(id_field, text_field)), *REQUEST):
            rejected = tuple(Rejected(row.id or "", row.problem) for row in chunk if row.problem is not None)
            stored = self._call("POST", "/v1/documents", answers.Stored, {"documents": _usable(chunk)})
            self._pass_on(stored.warnings)
            report += AddReport(rejected=rejected) + stored
        return report

    def delete(self, ids: Iterable[str]) -> int:
        """Remove documents, one request each; return how many were stored. After a retry, a removed document
        may not be counted."""
        if isinstance(ids, str):
            raise UsageError(f"one string was given for ids: put it into a list, [{ids[:40]!r}]")
        return sum(self._of_document("DELETE", each, "", answers.Deleted) is not None for each in ids)

    def get(self, id: str) -> Fingerprint | None:  # noqa: A002  # as everywhere else
        """The fingerprint of a stored document, None for an unknown id."""
        found = self.document(id)
        return None if found is None else found.fingerprint

    def document(self, id: str) -> StoredDocument | None:  # noqa: A002  # as everywhere else
        """A stored document with its tags, None for an unknown id."""
        return self._of_document("GET", id, "", StoredDocument)

    def stored(
        self, since: Moment | None = None, tags: Mapping[str, str] | None = None
    ) -> Iterator[StoredDocument]:
        """Iterate over the stored documents, like `Index.stored`, with a request for each thousand. Raises
        PermanentError if the pages of the service come to no end."""
        given = _address(Query(since=since, tags=tags or {}))
        return self._stored_from(given)

    def _stored_from(self, given: list[tuple[str, str]]) -> Iterator[StoredDocument]:
        after, noted, empty = list[tuple[str, str]](), None, 0
        for number in count(1):
            page = self._call("GET", f"/v1/documents?{urlencode([*given, *after])}", StoredPage)
            yield from page.documents
            if page.after is None:
                return
            empty = 0 if page.documents else empty + 1
            if page.after == noted or empty > MOST_EMPTY:
                raise PermanentError(f"{self._no_service}: its pages of documents come to no end")
            if number.bit_count() == 1:  # so that any cycle is met
                noted = page.after
            after = [("after", page.after)]

    def neighbours(
        self,
        id: str,  # noqa: A002  # as everywhere else
        query: Query = Query(),
    ) -> Lookup:
        """Find the other documents near a stored one; an unknown id gets a Lookup with a reason."""
        found = self._of_document("GET", id, f"/neighbours?{urlencode(_address(query))}", answers.Neighbours)
        if found is None:
            return Lookup(None, reason=UNKNOWN_ID)
        return Lookup(found.fingerprint, found.matches, found.truncated, found.reason)

    def groups(
        self,
        min_size: int = 2,
        *,
        since: Moment | None = None,
        tags: Mapping[str, str] | None = None,
        chains: bool = False,
        limit: int = 100,
    ) -> answers.GroupList:
        """Group the near-duplicates among the stored documents, like `Administrator.groups`, for a store that
        is not too large. limit: groups of the answer, at most 1,000; the largest come first."""
        given = _address(Query(since=since, tags=tags or {}))
        given += [("min_size", str(min_size)), ("limit", str(limit)), ("chains", str(chains).lower())]
        return self._call("GET", f"/v1/groups?{urlencode(given)}", answers.GroupList)

    def compare(self, left: str, right: str) -> Comparison:
        """Compare two texts under the store's profile."""
        return self._call("POST", "/v1/compare", Comparison, {"left": left, "right": right})

    def features(self, text: str) -> list[tuple[str, float]]:
        """The distinct words of a text and their weights under the store's profile, the heaviest first."""
        return list(self._call("POST", "/v1/features", answers.Features, {"text": text}).features)

    def explain(
        self,
        text: str,
        id: str | None = None,  # noqa: A002  # as everywhere else
        k: int | None = None,
        min_similarity: float | None = None,
    ) -> Explanation:
        """Explain what `find` does for a text. id: a document to include in the candidates, found or not."""
        given = {"text": text, "id": id, **_bounds(Query(k, min_similarity))}
        return self._call("POST", "/v1/explain", Explanation, given)

    def mute(
        self,
        ids: Iterable[str] = (),
        fingerprints: Iterable[int] = (),
        until: Moment | None = None,
        note: str = "",
    ) -> int:
        """Hide documents from lookups, like `Index.mute`. After a retry, new entries may not be counted."""
        given = {
            "ids": list(ids),
            "fingerprints": list(map(Fingerprint, fingerprints)),
            "until": None if until is None else at(milliseconds_to_come(until, now())),
            "note": note,
        }
        return self._call("POST", "/v1/muted", answers.Added, given).added

    def unmute(self, ids: Iterable[str] = (), fingerprints: Iterable[int] = ()) -> int:
        """Remove ids and fingerprints from the mute list, one request each; return how many were on it. After
        a retry, a removed entry may not be counted."""
        named = [
            *(f"id={_quoted(document)}" for document in ids),
            *(f"fingerprint={Fingerprint(value)}" for value in fingerprints),
        ]
        return sum(self._call("DELETE", f"/v1/muted?{each}", answers.Unmuted).removed for each in named)

    def muted(self) -> list[Muted]:
        """Return the mute list, oldest entries first."""
        return list(self._call("GET", "/v1/muted", answers.MutedList).muted)

    def status(self) -> answers.Status:
        """Return the store's profile and size."""
        return self._call("GET", "/v1/status", answers.Status)

    def _pass_on(self, said: Sequence[str]) -> None:
        """Warn of what answers warn of, once, and of the first ones: each takes time, and Python keeps it."""
        if said and not self._is_warned:
            self._is_warned = True
            distinct = dict.fromkeys(said)
            for each in islice(distinct, MOST_WARNINGS):
                ShortTexts.warn(self._said(each))
            if len(distinct) > MOST_WARNINGS:
                ShortTexts.warn(f"and {len(distinct) - MOST_WARNINGS:,} more warnings")

    def _of_document(self, method: str, document: str, more: str, kind: type[T]) -> T | None:
        """The answer about a stored document, None for an unknown id."""
        try:
            return self._call(method, f"/v1/documents/{_quoted(document)}{more}", kind)
        except _NotFound:
            return None

    def _call(
        self, method: str, path: str, kind: type[T], given: object = None, timeout: float | None = None
    ) -> T:
        """Sends a request, with retries; returns the decoded answer."""
        try:
            body = None if given is None else wire.encode(given)
        except (TypeError, ValueError) as error:
            raise UsageError(f"this cannot be sent: {error}") from error
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        most = MOST_BYTES if kind in _LISTS else OTHER_BYTES
        pause = FIRST_PAUSE
        while True:
            wait = 0.0
            try:
                answer = self._send(method, path, body, deadline, most)
            except HTTPError as error:
                # Not every TLS error: a restarting proxy aborts handshakes, too.
                if isinstance(error, SSLError) and isinstance(error.args[0], ssl.SSLCertVerificationError):
                    raise PermanentError(
                        f"{self.url} has an untrusted certificate: {self._said(str(error))}. Pass tls= an "
                        "SSLContext that trusts its issuer"
                    ) from error
                reason = self._said(str(error.__cause__ or error))
                problem: Exception = StoreUnreachable(
                    f"{self.url} does not answer: {reason}. Is the service running?"
                )
                problem.__cause__ = cause_without(error, [self._token])
            else:
                if answer.status == HTTPStatus.OK:  # that of all answers: another one may be of a part
                    return self._value(answer, kind)
                problem = self._problem(answer)
                if not isinstance(problem, RetryableError) and answer.status != 503:
                    raise problem
                after = answer.headers.get("Retry-After", "")  # dates are ignored: simhbase sends none
                wait = float(after) if after.isdecimal() else 0.0
            # Jitter, so that clients refused together do not come back together.
            seconds = max(wait, pause) * random.uniform(0.5, 1.5)
            if time.monotonic() + seconds >= deadline:
                raise problem
            time.sleep(seconds)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _send(self, method: str, path: str, body: bytes | None, deadline: float, most: int) -> Answer:
        """One answer, of at most `most` bytes. Raises HTTPError if there is none in time, PermanentError for
        one that no service gives."""
        if self._process != os.getpid():
            self._begin()
        left = max(0.001, deadline - time.monotonic())
        headers = self._headers
        if body is not None:
            headers = headers | {"Content-Type": "application/json", "Content-Length": str(len(body))}
        found = self._pool.urlopen(
            method,
            self._path + path,
            body and _parts(body, deadline),
            headers,
            retries=False,
            redirect=False,
            timeout=urllib3.Timeout(connect=min(CONNECT_SECONDS, left), total=left),
            preload_content=False,
        )
        try:
            answer = Answer(found.status, found.headers, self._body(found, most))
        except BaseException:
            found.close()
            raise
        found.release_conn()
        return answer

    def _body(self, found: urllib3.BaseHTTPResponse, most: int) -> bytes:
        """A body, as it comes: whoever answers does not decide how large it is."""
        coding = found.headers.get("Content-Encoding", "identity")
        if coding != "identity":  # none is asked for, and a few bytes of it may mean gigabytes
            shown = self._said(coding, 50)
            raise PermanentError(f"{self.url} answers in {shown}, which was not asked for")
        length = found.headers.get("Content-Length", "0")
        if not (length.isascii() and length.isdecimal()):  # it would be read as if none were given
            raise PermanentError(f"{self._no_service}: its Content-Length is {self._said(length, 50)}")
        parts, size = [], 0
        while part := found.read1(PART_BYTES):
            size += len(part)
            if size > most:
                raise PermanentError(
                    f"{self.url} answers with more than {most:,} bytes: ask for less at once"
                )
            parts.append(part)
        return b"".join(parts)

    def _said(self, text: str, most: int = MOST_SAID) -> str:
        """What a server has said, for messages: it may be long, repeat the token, and hold what terminals
        take for commands."""
        shown = without(text, [self._token])
        return printable(shown if len(shown) <= most else f"{shown[:most]}...")

    @property
    def _no_service(self) -> str:
        return f"{self.url} does not answer like a simhbase service"

    def _value(self, answer: Answer, kind: type[T]) -> T:
        try:
            return wire.decode(answer.body, kind)
        except BadInput as error:
            cause = cause_without(error, [self._token])
            raise PermanentError(f"{self._no_service}: {self._said(str(error))}") from cause

    def _each(self, several: Sequence[T], number: int) -> Sequence[T]:
        """The answers to that many texts or documents. Raises PermanentError for more or fewer."""
        if len(several) != number:
            raise PermanentError(f"{self._no_service}: it has {len(several):,} answers to {number:,}")
        return several

    def _problem(self, answer: Answer) -> RetryableError | PermanentError | BadInput:
        try:
            error = wire.decode(answer.body, answers.Failed).error
        except BadInput:  # a proxy's
            said = f"{self.url}: status {answer.status}"
            away = answer.status in (429, 502, 503, 504)
            return StoreUnreachable(said) if away else PermanentError(said)
        said = f"{self.url}: {self._said(error.message)} (request {self._said(error.request_id)})"
        return _NotFound(said) if error.code == "not_found" else _ERRORS.get(error.code, BadInput)(said)


class _NotFound(PermanentError):
    pass


class _HttpConnection(HTTPConnection):
    response_class = ResponseInTime


class _HttpsConnection(HTTPSConnection):
    response_class = ResponseInTime


def _parts(body: bytes, deadline: float) -> Iterator[bytes]:
    """A body in parts, each of which urllib3 sends within the time for a connection: a whole one would need
    longer on a slow network. Raises HTTPError at the deadline."""
    for start in range(0, len(body), SENT_BYTES):
        if time.monotonic() >= deadline:
            raise RequestTimeout("the request was not sent in time")
        yield body[start : start + SENT_BYTES]


def _usable(rows: Iterable[GivenRow]) -> list[Document]:
    return [Document(row.id or "", row.text, row.tags) for row in rows if row.problem is None]


def _path(url: str) -> str:
    """The path of an address. Raises UsageError if it is none."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        if is_address and not (parts.username or parts.query or parts.fragment):  # these may be secret
            return parts.path
    except ValueError:  # brackets or a port that are none
        pass
    raise UsageError(f"{redacted(url)!r} is not the address of a service: use http://HOST:PORT or https://")


def _check_token(token: str) -> None:
    """Raises UsageError for an invalid token, without showing it."""
    if any(map(str.isspace, token)):
        wrong = "spaces or line breaks: give only the token, without its role"
    elif not (token.isascii() and token.isprintable()):
        wrong = "others"
    else:
        return
    known = "tokens consist of ASCII letters, digits and signs"
    raise UsageError(f"this token cannot be sent: {known}, but this one has {wrong}")


def _quoted(document: str) -> str:
    try:
        return quote(document, safe="")
    except UnicodeEncodeError as error:
        raise UsageError(f"the id {document!r} is not valid Unicode") from error


def _address(query: Query) -> list[tuple[str, str]]:
    """A query as parameters of an address."""
    bounds = [(name, str(value)) for name, value in _bounds(query).items()]
    return [*bounds, *(("tag", f"{name}={value}") for name, value in query.tags.items())]


def _bounds(query: Query) -> dict[str, int | float | str]:
    """The given bounds as request parameters."""
    given = {
        "k": query.k,
        "min_similarity": query.min_similarity,
        "since": None if query.since is None else at(milliseconds(query.since, now())).isoformat(),
    }
    return {name: value for name, value in given.items() if value is not None}
