"""What the service answers: each route reads a request, asks the index in a thread, says what is found."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar
from urllib.parse import unquote_to_bytes

from fastapi import Query, Request, Security, params
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

import simhbase
from simhbase.index import Index
from simhbase.model import Document
from simhbase.online import answers
from simhbase.online.calls import Calls
from simhbase.online.direct import Handler
from simhbase.online.failures import UNKNOWN_ID
from simhbase.online.metrics import CONTENT_TYPE, ServiceMetrics
from simhbase.online.settings import Settings
from simhbase.online.shared import SharedLookups
from simhbase.online.tokens import Role, Tokens

JSON, JSON_LINES = "application/json", "application/x-ndjson"
COUNTS_KEPT = 10.0  # seconds
READY_SECONDS, READY_WAITING = 5.0, 16
SHARE_OF_CLAIM = 0.9  # of a request's seconds that a claim may wait for others

Model = TypeVar("Model", bound=BaseModel)

_bearer = HTTPBearer(auto_error=False, description="A token of the service's file of tokens.")
_Given = Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]


@dataclass(frozen=True)
class _Counted:
    """How large the store was."""

    at: datetime
    monotonic: float
    counts: answers.Counts


class Service:
    """One index and its routes. metrics: those that the index tells, too. Raises UsageError for tokens that
    cannot be read."""

    def __init__(self, index: Index, settings: Settings, metrics: ServiceMetrics) -> None:
        limits = settings.limits
        self._index = index
        self._metrics = metrics
        self._limits = limits
        self._profile = index.profile.digest
        self._tokens = None if settings.token_file is None else Tokens(settings.token_file)
        self._lookups = SharedLookups(index, queue=limits.waiting)
        self._calls = Calls(limits.threads, limits.waiting, limits.seconds)
        # Of their own, as they wait for each other, and others need not.
        self._claims = Calls(limits.threads, limits.waiting, limits.seconds)
        # So, too, that the store is asked however many requests wait; few, as they may hang.
        self._checks = Calls(1, READY_WAITING, READY_SECONDS)
        self._counted: _Counted | None = None
        self._claims_since: dict[object, float] = {}

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[None]:
        """From the first request to the last; then closes the index."""
        yield
        self._lookups.close()
        self._claims.close()
        self._calls.close()
        self._checks.close()
        self._index.close()

    def requirements(self, role: Role) -> list[params.Depends]:
        """What a route depends on that asks for so much: a token that allows it, where there are tokens."""
        return [] if self._tokens is None else [Security(_requirement(self._tokens, role))]

    def guarded(self, role: Role, handler: Handler) -> Handler:
        """A handler that first asks for a token that allows so much, where there are tokens."""
        if self._tokens is None:
            return handler
        check = _requirement(self._tokens, role)

        async def checked(request: Request) -> Response:
            await check(await _bearer(request))
            return await handler(request)

        return checked

    async def find(self, request: Request) -> Response:
        """Finds the stored near-duplicates of texts."""
        given = await _body(request, answers.FindRequest)
        texts = given.all()
        self._require_batch(texts)
        lookups = await self._lookups.afind_many(
            texts, *given.arguments(), given.tags, timeout=self._limits.seconds
        )
        found = answers.found_lookups(self._index, lookups)
        return _answer(answers.FindAnswer.model_construct(profile=self._profile, lookups=found))

    async def claim(self, request: Request) -> Response:
        """Stores texts unless one near them is stored: of all who claim near texts at once, at most one is
        accepted."""
        given = await _body(request, answers.ClaimRequest)
        documents = given.all()
        self._require_batch(documents)
        timeout = min(given.timeout, SHARE_OF_CLAIM * self._limits.seconds)
        with self._claiming():
            claims = await self._claims.run(self._index.claim_many, documents, timeout)
        return _answer(answers.claimed(self._index, self._profile, claims))

    async def add(self, request: Request) -> Response:
        """Stores documents, replacing those with the same id; durable when it answers. JSON, or a document a
        line (application/x-ndjson)."""
        documents = await _documents(request)
        self._require_batch(documents)
        report = await self._calls.run(self._index.add, documents)
        return _answer(answers.added(self._profile, report))

    async def get(self, id: str) -> Response:  # noqa: A002  # the word that everything else here has for it
        """What is stored under an id."""
        document = _decoded(id)
        (found,) = await self._calls.run(self._index.documents, [document])
        if found is None:
            raise HTTPException(404, UNKNOWN_ID)
        digits = f"{found.fingerprint:016x}"
        return _answer(
            answers.DocumentAnswer(
                profile=self._profile, id=document, fingerprint=digits, tags=dict(found.tags)
            )
        )

    async def delete(self, id: str) -> Response:  # noqa: A002  # as above
        """Removes a document."""
        document = _decoded(id)
        if not await self._calls.run(self._index.delete, [document]):
            raise HTTPException(404, UNKNOWN_ID)
        return _answer(answers.DeleteAnswer(profile=self._profile, id=document))

    async def neighbours(self, id: str, bounds: Annotated[answers.NeighboursBounds, Query()]) -> Response:  # noqa: A002  # as above
        """Finds the documents near a stored one. A slash in its id is sent as %2F."""
        document = _decoded(id)
        (found,) = await self._lookups.afind_ids(
            [document], *bounds.arguments(), bounds.tags, timeout=self._limits.seconds
        )
        if found.fingerprint is None:
            raise HTTPException(404, UNKNOWN_ID)
        return _answer(answers.neighbours(self._index, self._profile, document, found))

    async def muted(self) -> Response:
        """The mute list: documents and fingerprints that are no matches for a time."""
        return _answer(answers.muted(self._profile, await self._calls.run(self._index.muted)))

    async def mute(self, request: Request) -> Response:
        """Puts documents and fingerprints on the mute list, or replaces their entries there."""
        given = await _body(request, answers.MuteRequest)
        self._require_batch([*given.ids, *given.fingerprints])
        values = [int(digits, 16) for digits in given.fingerprints]
        added = await self._calls.run(self._index.mute, given.ids, values, given.until, given.note)
        return _answer(answers.MuteAnswer(profile=self._profile, added=added))

    async def unmute(self, named: Annotated[answers.UnmuteRequest, Query()]) -> Response:
        """Takes ids and fingerprints off the mute list; what is not on it does no harm."""
        values = [int(digits, 16) for digits in named.fingerprint]
        removed = await self._calls.run(self._index.unmute, named.id, values)
        return _answer(answers.UnmuteAnswer(profile=self._profile, removed=removed))

    async def compare(self, request: Request) -> Response:
        """Compares two texts as the store would, and says where they differ. Reads nothing of it."""
        given = await _body(request, answers.CompareRequest)
        found = await self._calls.run(self._index.compare, given.left, given.right)
        return _answer(answers.compared(self._profile, given, found))

    async def explain(self, request: Request) -> Response:
        """Says what a lookup of a text reads, what it finds there, and why that matches or does not."""
        given = await _body(request, answers.ExplainRequest)
        asked = given.text, given.id, given.k, given.min_similarity
        return _answer(answers.explained(self._profile, await self._calls.run(self._index.explain, *asked)))

    async def status(self) -> Response:
        """What the store is, and how large."""
        counted = await self._counts()
        return _answer(
            answers.StatusAnswer(
                profile=self._profile,
                version=simhbase.__version__,
                parameters=self._index.profile.describe(),
                access=self._index.access,
                counts=counted.counts,
                counted_at=counted.at,
                operations=dict(self._index.counters()),
            )
        )

    async def healthz(self) -> Response:
        """Whether the process answers."""
        return _answer(answers.Alive())

    async def readyz(self) -> Response:
        """Whether the store answers, is the one that was opened, and can be written to."""
        await self._checks.run(self._index.require_ready)
        return _answer(answers.Alive())

    async def numbers(self) -> Response:
        """Numbers for Prometheus."""
        counters = self._index.counters()
        gauges = {
            **self._index.gauges(),
            "calls_pending": self._calls.pending + self._claims.pending,
            "lookups_waiting": self._lookups.waiting,
            "oldest_claim_seconds": self._oldest_claim(),
        }
        page = self._metrics.page(counters, gauges)
        return Response(page, headers={"Content-Type": CONTENT_TYPE})

    @contextmanager
    def _claiming(self) -> Iterator[None]:
        """Around a claim that is under way."""
        claim = object()
        self._claims_since[claim] = time.monotonic()
        try:
            yield
        finally:
            del self._claims_since[claim]

    def _oldest_claim(self) -> float:
        return time.monotonic() - min(self._claims_since.values()) if self._claims_since else 0.0

    def _require_batch(self, batch: Sequence[object]) -> None:
        """Raises HTTPException for more than a request may hold."""
        most = self._limits.documents
        if len(batch) > most:
            raise HTTPException(413, f"{len(batch):,} at once are too many: at most {most:,} are allowed")

    async def _counts(self) -> _Counted:
        """How large the store is, or was a moment ago."""
        counted = self._counted
        if counted is None or time.monotonic() - counted.monotonic > COUNTS_KEPT:
            stats = await self._calls.run(self._index.stats)
            counted = _Counted(datetime.now(UTC), time.monotonic(), answers.counts(stats))
            self._counted = counted
        return counted


def _requirement(tokens: Tokens, role: Role) -> Callable[[_Given], Awaitable[None]]:
    """Lets in whom a token allows so much. Raises HTTPException."""

    async def check(given: _Given) -> None:
        if given is None:
            raise HTTPException(
                401, "a token is needed: Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"}
            )
        found = tokens.role(given.credentials.encode("latin-1"))  # as it was decoded
        if found is None:
            raise HTTPException(
                401, "this token is unknown here", {"WWW-Authenticate": 'Bearer error="invalid_token"'}
            )
        if role == "write" and found != "write":
            raise HTTPException(403, "this token allows reading alone: writing needs another")

    return check


def _answer(values: BaseModel) -> Response:
    return Response(values.model_dump_json(), media_type=JSON)


async def _body(request: Request, model: type[Model]) -> Model:
    """The body of a request, which is JSON. Raises HTTPException for another type, and
    RequestValidationError."""
    if _media_type(request) != JSON:
        raise HTTPException(415, f"the body of this request is {JSON}")
    return _parsed(model, await request.body(), "body")


async def _documents(request: Request) -> list[Document]:
    """The documents of a body; raises as `_body`."""
    kind, body = _media_type(request), await request.body()
    if kind == JSON:
        return _parsed(answers.DocumentsRequest, body, "body").all()
    if kind != JSON_LINES:
        raise HTTPException(415, f"documents come as {JSON}, or one a line as {JSON_LINES}")
    lines = enumerate(body.split(b"\n"), 1)
    given = [_parsed(answers.GivenDocument, line, f"line {number}") for number, line in lines if line.strip()]
    return [each.document() for each in given]


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _parsed(model: type[Model], content: bytes, place: str) -> Model:
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        problems: list[Any] = error.errors(include_url=False, include_context=False, include_input=False)
        raise RequestValidationError([{**each, "loc": (place, *each["loc"])} for each in problems]) from error


def _decoded(encoded: str) -> str:
    """The id in a path. Raises HTTPException where it is no UTF-8."""
    try:
        return unquote_to_bytes(encoded).decode()
    except UnicodeDecodeError as error:
        raise HTTPException(400, "the id in the path is no percent-encoded UTF-8") from error
