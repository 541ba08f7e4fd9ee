"""Routes whose handlers read the request by themselves, without FastAPI's way there, which takes as long as a
lookup."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from simhbase.online.failures import answer_to

Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class DirectRoute:
    """A path, and what answers a POST to it."""

    path: str
    handler: Handler


class DirectRoutes:
    """In front of an app that has the same routes, which it describes and refuses other methods for."""

    def __init__(self, app: ASGIApp, routes: Iterable[DirectRoute]) -> None:
        self._app = app
        self._routes = {route.path: route for route in routes}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        route = self._routes.get(scope.get("path", ""))
        if route is None or scope.get("method") != "POST":
            await self._app(scope, receive, send)
            return
        scope["route"] = route  # for the log
        try:
            answer = await route.handler(Request(scope, receive))
        except Exception as error:
            answer = answer_to(error)
        await answer(scope, receive, send)
