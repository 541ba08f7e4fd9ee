"""The head of an answer and its body in one packet."""

from __future__ import annotations

import asyncio
from typing import Any


class JoinedWrites:
    """A transport that joins what is written to it in one turn of the event loop.

    uvicorn writes the head and the body of an answer by themselves: a call of the system more, which wakes a
    client that then has to wait for the rest.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Writes when the turn ends."""
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        """Closes the transport when everything is written."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        if parts and not self._transport.is_closing():  # as it is where the client has gone meanwhile
            self._transport.write(b"".join(parts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
