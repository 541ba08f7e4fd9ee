"""Bodies of requests and answers: limits on the size and time of each, and on the total size of all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from simhbase.errors import Overloaded
from simhbase.model import wire
from simhbase.online.calls import source
from simhbase.online.failures import TooLarge
from simhbase.process.queue import Shares

STRINGS_OF_DOCUMENT = 64  # names and values of fields and tags
LONG = 1 << 16  # bytes of a body that others are served beside while it is decoded
MANY_STRINGS = 1000  # which take as long


def require_few_strings(body: bytes, documents: int) -> None:
    """Check the number of strings and lines in JSON against what that many documents can have: decoding it
    holds the interpreter. Raises TooLarge."""
    most = STRINGS_OF_DOCUMENT * (documents + 1)
    # A backslash before a quote that ends a string hides one of two at most.
    if body.count(b'"') - body.count(b'\\"') > 2 * most or body.count(b"\n") > 2 * most:
        raise TooLarge(
            f"the body has more than {most:,} names and values, or twice as many lines: send fewer at once"
        )


def takes_long(body: bytes) -> bool:
    """True for a body whose decoding would hold the event loop for milliseconds."""
    return len(body) > LONG or body.count(b'"') > 2 * MANY_STRINGS


def fitting(values: Sequence[object], most: int) -> int:
    """How many of the first values take at most that many bytes as JSON, where control characters take six
    each; at least one."""
    size = 0
    for number, value in enumerate(values):
        size += len(wire.encode(value))
        if size > most and number:
            return number
    return len(values)


class Bodies:
    """Bodies that are held at once, of all requests or of all answers: sources have shares of a total number
    of bytes. what: names them in errors."""

    def __init__(self, most: int, what: str) -> None:
        self._most = most
        self._what = what
        self._shares = Shares(most)

    @contextmanager
    def holding(self) -> Iterator[Callable[[int], None]]:
        """Yields a function that counts further bytes of a request until the block ends. It raises Overloaded
        above the limit."""
        held, caller = 0, source.get()

        def hold(size: int) -> None:
            nonlocal held
            if size and not self._shares.take(caller, size):
                raise Overloaded(
                    f"{self._what} have reached {self._most:,} bytes in total: try again later, or ask for "
                    "less at once"
                )
            held += size

        try:
            yield hold
        finally:
            if held:
                self._shares.give_back(caller, held)


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
