"""The client of a service for asyncio."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from simhbase.model.stored import StoredDocument
from simhbase.model.values import Moment
from simhbase.online.client import CONNECTIONS, Client

P = ParamSpec("P")
T = TypeVar("T")


def _awaited(
    method: Callable[Concatenate[Client, P], T],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """A method of Client that runs in a thread."""

    @wraps(method)
    async def call(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(partial(method, self._client, *args, **kwargs))

    return call


class AsyncClient:
    """Client of a service (`simhbase serve`) for asyncio: the methods of Client, to be awaited.

    Use it as an asynchronous context manager, or await `close`. url, token, timeout, tls: as for Client.
    Requests run in threads, at most 32 at once. Cancelling a task does not stop a request that has begun, so
    a document may still be stored. Raises as Client.
    """

    def __init__(
        self, url: str, *, token: str | None = None, timeout: float = 60.0, tls: ssl.SSLContext | None = None
    ) -> None:
        self._client = Client(url, token=token, timeout=timeout, tls=tls)
        # asyncio.to_thread has five threads on one core, for everything in the program.
        self._threads = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="simhbase-client")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Wait for running requests, and close all connections; may be called twice."""
        await asyncio.to_thread(self._threads.shutdown)
        self._client.close()

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    find = _awaited(Client.find)
    find_many = _awaited(Client.find_many)
    claim = _awaited(Client.claim)
    claim_many = _awaited(Client.claim_many)
    add = _awaited(Client.add)
    delete = _awaited(Client.delete)
    get = _awaited(Client.get)
    document = _awaited(Client.document)
    neighbours = _awaited(Client.neighbours)
    groups = _awaited(Client.groups)
    compare = _awaited(Client.compare)
    features = _awaited(Client.features)
    explain = _awaited(Client.explain)
    mute = _awaited(Client.mute)
    unmute = _awaited(Client.unmute)
    muted = _awaited(Client.muted)
    status = _awaited(Client.status)

    async def stored(
        self, since: Moment | None = None, tags: Mapping[str, str] | None = None
    ) -> AsyncIterator[StoredDocument]:
        """Iterate over the stored documents, as `Client.stored`."""
        documents = self._client.stored(since, tags)
        while (document := await self._run(partial(next, documents, None))) is not None:
            yield document
