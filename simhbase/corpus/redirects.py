"""Where redirects of a web server may lead: to no address that is nearer to this machine than the server's.

A server of strangers could lead to services that only this machine or its network reaches, and their answers
would become documents.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from ipaddress import IPv4Address, ip_address, ip_network
from typing import Any

from simhbase.errors import BadInput

_NAT64 = ip_network("64:ff9b::/96")  # addresses that end in one of IPv4, to which a gateway translates


def nearness(address: str) -> int:
    """2 for this machine and its link (where clouds answer their machines), 1 for other addresses that are
    not of the internet, 0 for those of the internet, and for names."""
    try:
        found = ip_address(address)
    except ValueError:  # systems take 127.1 and 2130706433 for addresses, too
        return 2 if _is_taken_for_address(address) else 0
    if found in _NAT64:
        found = IPv4Address(found.packed[-4:])
    found = getattr(found, "ipv4_mapped", None) or found
    if found.is_loopback or found.is_link_local or found.is_unspecified:
        return 2
    return 0 if found.is_global else 1


class Redirects:
    """Looks at all hosts that requests of one session lead to. The first is the one that was named, whose
    addresses may be anywhere at first. Methods raise BadInput for what is nearer than these.

    resolver: of aiohttp. Connections are made to the addresses that it gives here, so that a name that means
    another address each time is of no use.
    """

    def __init__(self, resolver: Any) -> None:
        self._resolver = resolver
        self._named: str | None = None
        self._allowed: int | None = None

    async def check(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """The answer to a request, as middleware of aiohttp. Addresses are not resolved."""
        host = request.url.raw_host
        self._named = self._named or host
        if _is_taken_for_address(host):
            self._admitted(host, [host])
        return await handler(request)

    async def resolve(self, host: str, *given: Any, **more: Any) -> list[Any]:
        """The addresses of a host, as the resolver gives them, without those that are nearer."""
        found: list[Any] = await self._resolver.resolve(host, *given, **more)
        admitted = self._admitted(host, [each["host"] for each in found])
        return [each for each in found if each["host"] in admitted]

    async def close(self) -> None:
        await self._resolver.close()

    def _admitted(self, host: str, addresses: Collection[str]) -> set[str]:
        if self._allowed is None and host == self._named:
            # The farthest: beside its server's, the name of a stranger may have an address of this machine.
            self._allowed = min(map(nearness, addresses), default=0)
        admitted = {each for each in addresses if nearness(each) <= (self._allowed or 0)}
        if addresses and not admitted:
            raise BadInput(
                f"the server leads to {host}, an address of this machine or network: give the URL there, or "
                "follow links (follow_links)"
            )
        return admitted


def _is_taken_for_address(host: str) -> bool:
    """True for a host that aiohttp does not ask a resolver about."""
    return ":" in host or host.replace(".", "").isdigit()
