"""Where redirects of a web server may lead: to no address that is nearer to this machine than the server's.

A server of strangers could lead to services that only this machine or its network reaches, and their answers
would become documents.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from ipaddress import ip_address
from typing import Any

from simhbase.errors import BadInput


def nearness(address: str) -> int:
    """2 for this machine and its link (where clouds answer their machines), 1 for other addresses that are
    not of the internet, 0 for those of the internet, and for names."""
    try:
        found = ip_address(address)
    except ValueError:
        return 0
    found = getattr(found, "ipv4_mapped", None) or found
    if found.is_loopback or found.is_link_local or found.is_unspecified:
        return 2
    return 0 if found.is_global else 1


class Redirects:
    """Looks at all hosts that requests of one session lead to. The first is the one that was named, whose
    addresses may be anywhere. Methods raise BadInput for another one that is nearer.

    resolver: of aiohttp. Connections are made to the addresses that it gives here, so that a name that means
    another address each time is of no use.
    """

    def __init__(self, resolver: Any) -> None:
        self._resolver = resolver
        self._named: str | None = None
        self._allowed = 0

    async def check(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """The answer to a request, as middleware of aiohttp. Addresses are not resolved."""
        host = request.url.raw_host
        self._named = self._named or host
        self._require(host, [host])
        return await handler(request)

    async def resolve(self, host: str, *given: Any, **more: Any) -> list[Any]:
        """The addresses of a host, as the resolver gives them."""
        found: list[Any] = await self._resolver.resolve(host, *given, **more)
        self._require(host, [each["host"] for each in found])
        return found

    async def close(self) -> None:
        await self._resolver.close()

    def _require(self, host: str, addresses: Iterable[str]) -> None:
        nearest = max(map(nearness, addresses), default=0)
        if host == self._named:
            self._allowed = max(self._allowed, nearest)
        elif nearest > self._allowed:
            raise BadInput(
                f"the server leads to {host}, an address of this machine or network: give the URL there, or "
                "follow links (follow_links)"
            )
