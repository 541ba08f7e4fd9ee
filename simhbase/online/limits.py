"""Reads request bodies, with limits on size and time, and on the total size of all requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from simhbase.errors import Overloaded
from simhbase.online.failures import TooLarge


class Bodies:
    """The bodies of all running requests, limited to a total number of bytes."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most

    @contextmanager
    def holding(self) -> Iterator[Callable[[int], None]]:
        """Yields a function that counts further bytes of a request until the block ends. It raises Overloaded
        above the limit."""
        held = 0

        def hold(size: int) -> None:
            nonlocal held
            if size > self._left:
                raise Overloaded(
                    f"running requests have reached {self._most:,} bytes in total: try again later, with "
                    "smaller requests"
                )
            self._left -= size
            held += size

        try:
            yield hold
        finally:
            self._left += held


async def read_body(request: Request, most: int, seconds: float, hold: Callable[[int], None]) -> bytes:
    """Read the body of a request. hold: counts bytes as they arrive. Raises TooLarge for more than `most`
    bytes, HTTPException if it is not complete within `seconds`, ClientDisconnect, and what `hold` raises."""
    length = request.headers.get("content-length", "0").lstrip("0") or "0"
    too_large = TooLarge(f"the body is larger than {most:,} bytes: send less at once")
    if int(length) > most:  # at most 20 digits: the parser refuses larger numbers
        raise too_large
    parts: list[bytes] = []
    size, has_more = 0, True
    try:
        async with asyncio.timeout(seconds):
            while has_more:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > most:
                    raise too_large
                hold(len(parts[-1]))
                has_more = message.get("more_body", False)
    except TimeoutError as error:
        raise HTTPException(
            408, f"the request was not complete within {seconds:g} s", {"Connection": "close"}
        ) from error
    return parts[0] if len(parts) == 1 else b"".join(parts)
