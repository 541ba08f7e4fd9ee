"""The service as an ASGI application: checks the token, reads the body, calls the service, encodes the
answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from simhbase.errors import BadInput, Overloaded, TimedOut, UsageError
from simhbase.index import Index
from simhbase.index.scoped import StoreOfScopes
from simhbase.model import wire
from simhbase.online import answers, asked, openapi
from simhbase.online.around import Around
from simhbase.online.bodies import Bodies, read_body, require_few_strings, takes_long
from simhbase.online.calls import Begins, source
from simhbase.online.connection import client_of
from simhbase.online.endpoints import ENDPOINTS, JSON, JSON_LINES, Endpoint
from simhbase.online.failures import TooLarge
from simhbase.online.metrics import CONTENT_TYPE, ServiceMetrics
from simhbase.online.service import Service
from simhbase.online.settings import Limits, Settings
from simhbase.online.tokens import Tokens

T = TypeVar("T")
Decode = Callable[[], tuple[asked.AnyRequest, ...]]

_CHARSET = re.compile(r";\s*charset\s*=\s*\"?([^\";\s]*)")
LONG_ADDRESS = 1 << 10  # bytes of parameters that others are served beside while they are decoded
MOST_PARAMETERS = 64
LARGE = 1 << 16  # bytes of an answer that are held until they are read

PAGE = Path(__file__).parent / "page"
KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


def create_app(index: Index, settings: Settings, metrics: ServiceMetrics) -> ASGIApp:
    """The ASGI application for an index, which it closes on shutdown. metrics: also receives the index's
    measurements. Raises UsageError for an invalid token file."""
    scoped = isinstance(index, StoreOfScopes)
    if scoped and settings.token_file is None:
        raise UsageError(
            f"{index.store.url} has scopes: name the one to serve, or give a token file with the scope of "
            "each token",
            parameter="scope",
        )
    tokens = None if settings.token_file is None else Tokens(settings.token_file, scoped=scoped)
    service = Service(index, settings, metrics)
    limits = settings.limits
    bodies = Bodies(limits.bodies * limits.body_bytes, "running requests")
    sent = Bodies(limits.answers * limits.answer_bytes, "answers that clients have not read")
    begins = Begins()
    routes: list[BaseRoute] = []
    for path, endpoints in groupby(ENDPOINTS, lambda endpoint: endpoint.path):
        answering = {
            each.method: Answering(each, service, tokens, limits, bodies, sent, begins) for each in endpoints
        }
        routes.append(Route(path.replace("{id}", "{id:path}"), Methods(path, answering)))
    document = wire.encode(openapi.document(ENDPOINTS))

    routes.append(Route("/openapi.json", _given_to_all(document, JSON)))
    for file in PAGE.iterdir():
        path = "/" if file.name == "index.html" else f"/page/{file.name}"
        routes.append(Route(path, _given_to_all(file.read_bytes(), KINDS[file.suffix])))
    router = Router(routes, redirect_slashes=False, default=_nothing, lifespan=service.lifespan)
    return Around(router, settings, metrics.answered)


def _given_to_all(content: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    """Answers from memory: strangers may ask, and reading a file takes a thread for each part of it."""

    async def answer(request: Request) -> Response:
        return Response(content, media_type=media_type)

    return answer


async def _nothing(scope: Scope, receive: Receive, send: Send) -> None:
    raise HTTPException(404, "no such path")


class Answering:
    """Answers the requests of one endpoint. tokens: None allows everybody; bodies, sent: of requests and
    answers; begins: turns of all requests."""

    def __init__(
        self,
        endpoint: Endpoint,
        service: Service,
        tokens: Tokens | None,
        limits: Limits,
        bodies: Bodies,
        sent: Bodies,
        begins: Begins,
    ) -> None:
        self._endpoint = endpoint
        self._service = service
        self._tokens = tokens
        self._limits = limits
        self._bodies = bodies
        self._sent = sent
        self._begins = begins
        self._most = limits.body_bytes
        if endpoint.comparing:
            self._most = min(self._most, limits.comparing_bytes)
        self._before = {"profile": service.profile} if endpoint.names_profile else {}

    async def answer(self, request: Request) -> Response:
        """Answer a request. Raises HTTPException, ClientDisconnect, and the service's errors."""
        endpoint, service = self._endpoint, self._service
        source.set(client_of(request.client.host) if request.client else "")
        if self._tokens is not None and endpoint.role is not None:
            token = self._tokens.require(request.headers.get("authorization", ""), endpoint.role)
            source.set(token.digest)
            service = service.within(token.scope)
        await self._begins.turn()
        request.scope["is_stranger"] = self._tokens is not None and endpoint.role is None
        with self._bodies.holding() as hold:
            value = await unless_gone(request, self._value(service, *await self._given(request, hold)))
        if isinstance(value, bytes):
            return Response(value, headers={"Content-Type": CONTENT_TYPE})
        encode = partial(wire.encode, value, **self._before)
        return Response(await service.made(answers.listed(value), encode), media_type=JSON)

    async def _value(self, service: Service, decode: Decode, takes_long: bool) -> object:
        """What is answered to a request, of which `_given` says how it is decoded."""
        given = await service.coding.run(decode) if takes_long else decode()
        del decode  # and so the body
        return await self._endpoint.call(service, *given)

    async def send_large(self, response: Response, send: Send) -> None:
        """Send an answer, and hold its bytes until the client has read most of it. Raises TimedOut."""
        body = bytes(response.body)
        with self._sent.holding() as hold:
            try:
                hold(len(body))
            except Overloaded as error:  # what was asked may have changed something, and that may be repeated
                raise TimedOut(f"the answer was made, and is not sent: {error}") from error
            status, headers = response.status_code, response.raw_headers
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body, "more_body": True})
            await asyncio.sleep(0)  # it is written, and the last part waits until much of it is read
            await send({"type": "http.response.body", "body": b""})

    async def _given(self, request: Request, hold: Callable[[int], None]) -> tuple[Decode, bool]:
        """What decodes the request object of an endpoint, if it takes one, and whether that takes long. hold:
        counts the bytes of a body."""
        endpoint = self._endpoint
        if endpoint.names_profile:
            _require_read(request, endpoint)
        if endpoint.asked is None:
            return tuple, False
        if not endpoint.has_body:
            return partial(self._addressed, request), len(request.scope["query_string"]) > LONG_ADDRESS
        content_type = request.headers.get("content-type", "").lower()
        kind = content_type.partition(";")[0].strip()
        lines = endpoint.in_lines and kind == JSON_LINES
        if kind != JSON and not lines:
            or_lines = f", or {JSON_LINES}" * endpoint.in_lines
            raise HTTPException(415, f"the body must be {JSON}{or_lines}")
        if not {"utf-8", "utf8"}.issuperset(_CHARSET.findall(content_type)):
            raise HTTPException(415, "the body must be in UTF-8")
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise HTTPException(415, "the body is compressed: send it as it is")
        body = await read_body(request, self._most, self._limits.receive_seconds, hold)
        return partial(self._decoded, body, lines), takes_long(body)

    def _addressed(self, request: Request) -> tuple[asked.AnyRequest]:
        """The parameters of an address as the request object."""
        kind = self._endpoint.asked
        assert kind is not None  # as it takes parameters
        try:
            path = [(name, unquote_to_bytes(value).decode()) for name, value in request.path_params.items()]
            query = parse_qsl(request.url.query, keep_blank_values=True, errors="strict")
        except UnicodeDecodeError as error:
            raise HTTPException(400, "the address is not percent-encoded UTF-8") from error
        return (wire.convert(asked.from_address([*query, *path], kind), kind, "query"),)

    def _decoded(self, body: bytes, lines: bool) -> tuple[asked.AnyRequest]:
        """A body as the request object. lines: it is JSON lines."""
        require_few_strings(body, self._limits.documents)
        if lines:
            return (_documents(body),)
        kind = self._endpoint.asked
        assert kind is not None  # as it has a body
        given = wire.decode(body, kind, "body")
        wire.require_single_names(body, "body")
        return (given,)


def _require_read(request: Request, endpoint: Endpoint) -> None:
    """Refuses what would be ignored, as it may limit what is asked for, and more parameters than any request
    has. Raises BadInput."""
    if request.scope["query_string"].count(b"&") >= MOST_PARAMETERS:
        raise TooLarge(f"the address has more than {MOST_PARAMETERS} parameters: send fewer at once")
    if endpoint.has_body or endpoint.asked is None:
        # The first name is enough: decoding all of 64 KiB holds the event loop for 5 ms.
        for name in QueryParams(request.scope["query_string"][:LONG_ADDRESS]):
            where = "in the body" if endpoint.has_body else "without parameters"
            raise BadInput(f"{name!r} in the address is not read: ask {where}")
    if not endpoint.has_body and not {"0", ""}.issuperset(
        request.headers.get(name, "") for name in ("content-length", "transfer-encoding")
    ):
        raise BadInput(f"{endpoint.method} takes no body: put what is asked for into the address")


class Methods:
    """Dispatches the requests of one path by method; HEAD is GET without a body."""

    def __init__(self, path: str, answering: Mapping[str, Answering]) -> None:
        self._path = path
        self._answering = {**answering}
        if "GET" in answering:
            self._answering["HEAD"] = answering["GET"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["endpoint_path"] = self._path
        answering = self._answering.get(scope["method"])
        if answering is None:
            allowed = ", ".join(sorted(self._answering))
            raise HTTPException(405, f"this path only allows {allowed}", {"Allow": allowed})
        response = await answering.answer(Request(scope, receive))
        if len(response.body) > LARGE:
            await answering.send_large(response, send)
        else:
            await response(scope, receive, send)


def _documents(body: bytes) -> asked.DocumentsRequest:
    """Parses JSON lines. Raises Malformed, Unfitting."""
    lines = enumerate(body.split(b"\n"), 1)
    kind = asked.GivenDocument
    documents = list[asked.GivenDocument]()
    for number, line in lines:
        if line.strip():
            documents.append(wire.decode(line, kind, f"line {number}"))
            wire.require_single_names(line, f"line {number}")
    return asked.DocumentsRequest(documents=documents)


async def unless_gone(request: Request, answer: Awaitable[T]) -> T:
    """An answer, unless the client disconnects before: then what has not begun is cancelled. Raises
    ClientDisconnect."""

    async def leave() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass  # a body that is not read, such as the empty one of GET

    answering = asyncio.ensure_future(answer)
    leaving = asyncio.ensure_future(leave())
    try:
        await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            leaving.result()
            raise ClientDisconnect
        return await answering
    finally:
        answering.cancel()
        leaving.cancel()
