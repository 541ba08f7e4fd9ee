"""The service's routes: each reads a request, asks the index in a thread, and answers."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

from fastapi import FastAPI, Query, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

import simhbase
from simhbase.index import Index
from simhbase.model import Document, Lookup
from simhbase.online import answers
from simhbase.online.calls import Calls
from simhbase.online.failures import UNKNOWN_ID, handle_failures, invalid, unexpected
from simhbase.online.limits import KnownHosts, WholeBody
from simhbase.online.metrics import CONTENT_TYPE, Metrics
from simhbase.online.request_log import RequestLog
from simhbase.online.settings import Settings
from simhbase.online.shared import SharedLookups
from simhbase.online.tokens import Role, Tokens

PAGE = Path(__file__).parent / "page"
DOCUMENTS = "/v1/documents"
JSON, JSON_LINES = "application/json", "application/x-ndjson"
COUNTS_KEPT = 10.0  # seconds
READY_SECONDS = 5.0

_bearer = HTTPBearer(auto_error=False, description="A token of the service's --token-file.")
_Given = Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]

_FAILURES: dict[int | str, dict[str, Any]] = {
    status: {"model": answers.FailureAnswer, "description": text}
    for status, text in {
        400: "The request is malformed.",
        401: "The token is missing or unknown.",
        403: "The token, or this service, does not allow it.",
        408: "The request came in too slowly.",
        413: "The body, or the batch, is too large.",
        422: "The request is not as described here.",
        503: "Too much to do, or the store is away: try again after Retry-After seconds.",
    }.items()
}
_UNKNOWN: dict[int | str, dict[str, Any]] = {
    404: {"model": answers.FailureAnswer, "description": "No document is stored under this id."}
}


def create_app(index: Index, settings: Settings) -> ASGIApp:
    """The service over an index, which it closes when it stops. Raises UsageError for tokens that cannot be
    read."""
    service = Service(index, settings)
    app = FastAPI(
        title="simhbase",
        version=simhbase.__version__,
        summary="Have we already seen this text, or one almost like it?",
        lifespan=service.lifespan,
        docs_url=None,  # they would be loaded from another host
        redoc_url=None,
        redirect_slashes=False,
        responses=_FAILURES,
    )
    handle_failures(app)
    service.add_routes(app)
    if PAGE.is_dir():
        app.mount("/", StaticFiles(directory=PAGE, html=True), name="page")
    inner: ASGIApp = WholeBody(EncodedIds(app), settings.limits)
    if settings.token_file is None:
        inner = KnownHosts(inner, settings.hosts)
    return RequestLog(inner, service.metrics.answered, unexpected)


class EncodedIds:
    """Leaves ids in paths as they were sent, so that a slash in an id, sent as %2F, is told from those of the
    path, and bytes that are no UTF-8 are seen."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] == "http" and scope["raw_path"].startswith(f"{DOCUMENTS}/".encode()):
            scope["path"] = scope["raw_path"].decode("latin-1")
        await self._app(scope, receive, send)


def decoded_id(encoded: str) -> str:
    """The id in a path. Raises HTTPException where it is no UTF-8."""
    try:
        return unquote_to_bytes(encoded).decode()
    except UnicodeDecodeError as error:
        raise HTTPException(400, "the id in the path is no percent-encoded UTF-8") from error


@dataclass
class _Counted:
    """How large the store was."""

    at: datetime
    monotonic: float
    counts: answers.Counts


@dataclass
class Service:
    """What the routes share."""

    index: Index
    settings: Settings
    calls: Calls = field(init=False)
    checks: Calls = field(init=False)
    shared: SharedLookups = field(init=False)
    metrics: Metrics = field(init=False, default_factory=Metrics)
    tokens: Tokens | None = field(init=False)
    profile: str = field(init=False)
    counted: _Counted | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        limits = self.settings.limits
        self.calls = Calls(limits.threads, limits.waiting, limits.seconds)
        # Of their own, so that the store is asked however many requests wait; few, as they may hang.
        self.checks = Calls(1, 16, READY_SECONDS)
        self.tokens = None if self.settings.token_file is None else Tokens(self.settings.token_file)
        self.shared = SharedLookups(self.index)
        self.profile = self.index.profile.digest

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        """From the first request to the last."""
        yield
        self.shared.close()
        self.calls.close()
        self.checks.close()
        self.index.close()

    def requires(self, role: Role) -> Callable[[_Given], Awaitable[None]]:
        """A dependency that lets in whom a token allows so much. Raises HTTPException."""

        async def check(given: _Given) -> None:
            if self.tokens is None:
                return
            if given is None:
                raise HTTPException(
                    401, "a token is needed: Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"}
                )
            found = self.tokens.role(given.credentials.encode("latin-1", "replace"))
            if found is None:
                raise HTTPException(
                    401, "this token is unknown here", {"WWW-Authenticate": 'Bearer error="invalid_token"'}
                )
            if role == "write" and found != "write":
                raise HTTPException(403, "this token allows reading alone: writing needs another")

        return check

    def require_batch(self, batch: Sequence[object]) -> None:
        """Raises HTTPException for more than a request may hold."""
        most = self.settings.limits.documents
        if len(batch) > most:
            raise HTTPException(413, f"{len(batch):,} at once are too many: at most {most:,} are allowed")

    async def find(self, request: answers.FindRequest) -> list[Lookup]:
        """The lookups of a request."""
        texts = request.all()
        self.require_batch(texts)
        lookups = await self.shared.afind_many(texts, *request.arguments(), self.settings.limits.seconds)
        self.metrics.looked_up(lookups)
        return lookups

    async def counts(self) -> _Counted:
        """How large the store is, or was a moment ago."""
        if self.counted is None or time.monotonic() - self.counted.monotonic > COUNTS_KEPT:
            found = await self.calls.run(self.index.stats)
            counts = answers.Counts(
                documents=found.documents,
                fingerprints=found.fingerprints,
                index_rows=found.index_rows,
                bytes=found.bytes,
            )
            self.counted = _Counted(datetime.now(UTC), time.monotonic(), counts)
        return self.counted

    def add_routes(self, app: FastAPI) -> None:
        """Adds what the service answers to an app."""
        reads = [Security(self.requires("read"))]
        writes = [Security(self.requires("write"))]

        @app.post("/v1/find", dependencies=reads, response_model=answers.FindAnswer, tags=["lookups"])
        async def find(request: answers.FindRequest) -> Response:
            """Finds the stored near-duplicates of texts."""
            lookups = await self.find(request)
            found = answers.found_lookups(self.index, lookups)
            return answer(answers.FindAnswer.model_construct(profile=self.profile, lookups=found))

        @app.post(
            DOCUMENTS,
            dependencies=writes,
            response_model=answers.AddAnswer,
            tags=["documents"],
            openapi_extra=_ADD_BODY,
        )
        async def add(request: Request) -> Response:
            """Stores documents, replacing those with the same id; durable when it answers. JSON, or a
            document a line (application/x-ndjson)."""
            documents = await given_documents(request)
            if isinstance(documents, Response):
                return documents
            self.require_batch(documents)
            report = await self.calls.run(self.index.add, documents)
            return answer(answers.added(self.profile, report))

        @app.get(
            DOCUMENTS + "/{id:path}/neighbours",
            dependencies=reads,
            response_model=answers.NeighboursAnswer,
            responses=_UNKNOWN,
            tags=["documents"],
        )
        async def neighbours(id: str, bounds: Annotated[answers.Bounds, Query()]) -> Response:  # noqa: A002
            """Finds the documents near a stored one. A slash in its id is sent as %2F."""
            document = decoded_id(id)
            seconds = self.settings.limits.seconds
            lookups = await self.shared.afind_ids([document], *bounds.arguments(), seconds)
            (found,) = lookups
            if found.fingerprint is None:
                raise HTTPException(404, UNKNOWN_ID)
            self.metrics.looked_up(lookups)
            others = [match for match in found.matches if match.id != document]
            return answer(
                answers.NeighboursAnswer.model_construct(
                    profile=self.profile,
                    id=document,
                    fingerprint=answers.digits(found.fingerprint),
                    matches=answers.found_matches(self.index, found.fingerprint, others),
                    truncated=found.truncated,
                    reason=found.reason,
                )
            )

        @app.get(
            DOCUMENTS + "/{id:path}",
            dependencies=reads,
            response_model=answers.DocumentAnswer,
            responses=_UNKNOWN,
            tags=["documents"],
        )
        async def get(id: str) -> Response:  # noqa: A002  # the word that everything else here has for it
            """What is stored under an id."""
            document = decoded_id(id)
            (fingerprint,) = await self.calls.run(self.index.fingerprints, [document])
            if fingerprint is None:
                raise HTTPException(404, UNKNOWN_ID)
            digits = f"{fingerprint:016x}"
            return answer(answers.DocumentAnswer(profile=self.profile, id=document, fingerprint=digits))

        @app.delete(
            DOCUMENTS + "/{id:path}",
            dependencies=writes,
            response_model=answers.DeleteAnswer,
            responses=_UNKNOWN,
            tags=["documents"],
        )
        async def delete(id: str) -> Response:  # noqa: A002
            """Removes a document."""
            document = decoded_id(id)
            if not await self.calls.run(self.index.delete, [document]):
                raise HTTPException(404, UNKNOWN_ID)
            return answer(answers.DeleteAnswer(profile=self.profile, id=document))

        @app.post("/v1/compare", dependencies=reads, response_model=answers.CompareAnswer, tags=["lookups"])
        async def compare(request: answers.CompareRequest) -> Response:
            """Compares two texts as the store would, and says where they differ. Reads nothing of it."""
            found = await self.calls.run(self.index.compare, request.left, request.right)
            return answer(answers.compared(self.profile, request, found))

        @app.post("/v1/explain", dependencies=reads, response_model=answers.ExplainAnswer, tags=["lookups"])
        async def explain(request: answers.ExplainRequest) -> Response:
            """Says what a lookup of a text reads, what it finds there, and why that matches or does not."""
            found = await self.calls.run(
                self.index.explain, request.text, request.id, request.k, request.min_similarity
            )
            return answer(answers.explained(self.profile, found))

        @app.get("/v1/status", dependencies=reads, response_model=answers.StatusAnswer, tags=["service"])
        async def status() -> Response:
            """What the store is, and how large."""
            counted = await self.counts()
            return answer(
                answers.StatusAnswer(
                    profile=self.profile,
                    version=simhbase.__version__,
                    parameters=self.index.profile.describe(),
                    access=self.index.access,
                    counts=counted.counts,
                    counted_at=counted.at,
                    operations=dict(self.index.counters()),
                )
            )

        @app.get("/healthz", response_model=answers.Alive, tags=["service"])
        async def healthz() -> Response:
            """Whether the process answers."""
            return answer(answers.Alive())

        @app.get("/readyz", response_model=answers.Alive, tags=["service"])
        async def readyz() -> Response:
            """Whether the store answers, and is the one that was opened."""
            await self.checks.run(self.index.require_own_tables)
            return answer(answers.Alive())

        @app.get(
            "/metrics",
            dependencies=reads,
            tags=["service"],
            response_class=Response,
            responses={200: {"content": {"text/plain": {}}, "description": "Prometheus's text format."}},
        )
        async def metrics() -> Response:
            """Numbers for Prometheus."""
            page = self.metrics.page(self.index.counters, self.calls.pending)
            return Response(page, headers={"Content-Type": CONTENT_TYPE})


def answer(values: BaseModel) -> Response:
    """An answer that was found."""
    return Response(values.model_dump_json(), media_type=JSON)


async def given_documents(request: Request) -> list[Document] | Response:
    """The documents of a body, or why it has none. Raises HTTPException."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await request.body()
    if kind == JSON:
        try:
            return answers.DocumentsRequest.model_validate_json(body).all()
        except ValidationError as error:
            return invalid(error.errors(include_url=False, include_input=False))
    if kind == JSON_LINES:
        return _given_lines(body)
    raise HTTPException(415, f"documents come as {JSON}, or one a line as {JSON_LINES}")


def _given_lines(body: bytes) -> list[Document] | Response:
    documents = []
    for number, line in enumerate(body.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            given = answers.GivenDocument.model_validate_json(line)
        except ValidationError as error:
            problems = error.errors(include_url=False, include_input=False)
            return invalid([{**each, "loc": (f"line {number}", *each["loc"])} for each in problems])
        documents.append(Document(given.id, given.text))
    return documents


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """A model's JSON schema with what it refers to inside."""
    schema = model.model_json_schema()
    inner = schema.pop("$defs", {})
    if inner:
        schema["properties"]["documents"]["items"] = inner["GivenDocument"]
    return schema


_LINES = '{"id": "news/1", "text": "..."}\n{"id": "news/2", "text": "..."}\n'
_ADD_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {"schema": _schema(answers.DocumentsRequest)},
            JSON_LINES: {"schema": {"type": "string"}, "example": _LINES},
        },
    }
}
