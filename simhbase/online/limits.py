"""The body of a request, no larger and no slower than it may be."""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from simhbase.online.failures import TooLarge

_LONGEST = 20  # digits of a length: longer ones are too large in any case, and slow to convert


async def read_body(request: Request, most: int, seconds: float) -> bytes:
    """The body of a request. Raises TooLarge for more than so many bytes, HTTPException for one that does not
    come in within so many seconds, ClientDisconnect."""
    length = request.headers.get("content-length", "0").lstrip("0") or "0"
    if len(length) > _LONGEST or int(length) > most:
        raise _too_large(most)
    try:
        async with asyncio.timeout(seconds):
            return await _all(request, most)
    except TimeoutError as error:
        raise HTTPException(
            408, f"the request did not come in within {seconds:g} s", {"Connection": "close"}
        ) from error


async def _all(request: Request, most: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            raise _too_large(most)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large(most: int) -> TooLarge:
    return TooLarge(f"the body is larger than {most:,} bytes: send less at once")
