"""The service as an ASGI application: its routes, and what is around them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

import simhbase
from simhbase.index import Index
from simhbase.online import answers
from simhbase.online.direct import DirectRoute, DirectRoutes, Handler
from simhbase.online.failures import handle_failures, unexpected
from simhbase.online.limits import KnownHosts, WholeBody
from simhbase.online.metrics import ServiceMetrics
from simhbase.online.request_log import RequestLog
from simhbase.online.service import JSON, JSON_LINES, Service
from simhbase.online.settings import Settings
from simhbase.online.tokens import Role

PAGE = Path(__file__).parent / "page"
DOCUMENTS = "/v1/documents"
MUTED = "/v1/muted"
DOCUMENT = f"{DOCUMENTS}/{{id:path}}"

_Responses = dict[int | str, dict[str, Any]]


def _failures(texts: dict[int | str, str]) -> _Responses:
    return {status: {"model": answers.FailureAnswer, "description": text} for status, text in texts.items()}


_FAILURES = _failures(
    {
        400: "The request is malformed.",
        401: "The token is missing or unknown.",
        403: "The token, or this service, does not allow it.",
        408: "The request came in too slowly.",
        413: "The body, or the batch, is too large.",
        415: "The body has another type.",
        421: "The request asks for another host.",
        422: "The request is not as described here.",
        503: "Too much to do, or the store is away: try again after Retry-After seconds.",
    }
)
_UNKNOWN = _failures({404: "No document is stored under this id."})
_ADDED: _Responses = {
    200: {
        "links": {
            name: {"operationId": name, "parameters": {"id": "$request.body#/id"}}
            for name in ("get", "neighbours", "delete")
        }
    }
}
_NUMBERS: _Responses = {200: {"content": {"text/plain": {}}, "description": "Prometheus's text format."}}


def create_app(index: Index, settings: Settings, metrics: ServiceMetrics) -> ASGIApp:
    """The service over an index, which it closes when it stops; metrics: those that the index tells, too.
    Raises UsageError for tokens that cannot be read."""
    service = Service(index, settings, metrics)
    app = FastAPI(
        title="simhbase",
        version=simhbase.__version__,
        summary="Have we already seen this text, or one almost like it?",
        lifespan=service.lifespan,
        docs_url=None,  # they would be loaded from another host
        redoc_url=None,
        redirect_slashes=False,
        responses=_FAILURES,
        generate_unique_id_function=lambda route: route.name,
    )
    handle_failures(app)
    direct = _add_direct_routes(app, service)
    _add_routes(app, service)
    # Not at the root, where the page's files would answer to whatever else is asked for.
    app.mount("/page", StaticFiles(directory=PAGE), name="page")
    app.get("/", include_in_schema=False)(_page)
    inner: ASGIApp = WholeBody(DirectRoutes(EncodedIds(app), direct), settings.limits)
    if settings.token_file is None:
        inner = KnownHosts(inner, settings.hosts)
    return RequestLog(inner, metrics.answered, unexpected)


async def _page() -> FileResponse:
    return FileResponse(PAGE / "index.html")


def _add_routes(app: FastAPI, service: Service) -> None:
    """Those without a body."""
    reads, writes = service.requirements("read"), service.requirements("write")

    app.get(
        f"{DOCUMENT}/neighbours",
        dependencies=reads,
        response_model=answers.NeighboursAnswer,
        responses=_UNKNOWN,
    )(service.neighbours)
    app.get(DOCUMENT, dependencies=reads, response_model=answers.DocumentAnswer, responses=_UNKNOWN)(
        service.get
    )
    app.delete(DOCUMENT, dependencies=writes, response_model=answers.DeleteAnswer, responses=_UNKNOWN)(
        service.delete
    )
    app.get(MUTED, dependencies=reads, response_model=answers.MutedAnswer)(service.muted)
    app.delete(MUTED, dependencies=writes, response_model=answers.UnmuteAnswer)(service.unmute)
    app.get("/v1/status", dependencies=reads, response_model=answers.StatusAnswer)(service.status)
    app.get("/healthz", response_model=answers.Alive)(service.healthz)
    app.get("/readyz", response_model=answers.Alive)(service.readyz)
    app.get("/metrics", dependencies=reads, response_class=Response, responses=_NUMBERS)(service.numbers)


def _add_direct_routes(app: FastAPI, service: Service) -> list[DirectRoute]:
    """Those whose handlers read a body by themselves: the app describes them."""
    routes: list[DirectRoute] = []

    def post(
        path: str,
        handler: Handler,
        role: Role,
        asked: type[BaseModel],
        answer: type[BaseModel],
        others: dict[str, Any] | None = None,
        responses: _Responses | None = None,
    ) -> None:
        app.post(
            path,
            dependencies=service.requirements(role),
            response_model=answer,
            responses=responses,
            openapi_extra=_body(asked, others),
        )(handler)
        routes.append(DirectRoute(path, service.guarded(role, handler)))

    post("/v1/find", service.find, "read", answers.FindRequest, answers.FindAnswer)
    post("/v1/claim", service.claim, "write", answers.ClaimRequest, answers.ClaimAnswer)
    post(DOCUMENTS, service.add, "write", answers.DocumentsRequest, answers.AddAnswer, _LINES, _ADDED)
    post("/v1/compare", service.compare, "read", answers.CompareRequest, answers.CompareAnswer)
    post("/v1/explain", service.explain, "read", answers.ExplainRequest, answers.ExplainAnswer)
    post(MUTED, service.mute, "write", answers.MuteRequest, answers.MuteAnswer)
    return routes


_LINES: dict[str, Any] = {
    JSON_LINES: {
        "schema": {"type": "string"},
        "example": '{"id": "news/1", "text": "One text."}\n{"id": "news/2", "text": "Another one."}\n',
    }
}


def _body(model: type[BaseModel], others: dict[str, Any] | None = None) -> dict[str, Any]:
    """What the OpenAPI document says of a body, which the service reads by itself: FastAPI would take what
    is no UTF-8, or halves of surrogate pairs, for something that it is not. others: types of content."""
    schema = model.model_json_schema(ref_template="{model}")
    inner = schema.pop("$defs", {})
    content = {JSON: {"schema": _inlined(schema, inner)}, **(others or {})}
    return {"requestBody": {"required": True, "content": content}}


def _inlined(schema: Any, inner: dict[str, Any]) -> Any:
    """A JSON schema with what it refers to inside."""
    if isinstance(schema, list):
        return [_inlined(each, inner) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return inner[schema["$ref"]]
    return {name: _inlined(value, inner) for name, value in schema.items()}


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
