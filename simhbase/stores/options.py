"""Options in the URL of a store on a server."""

from __future__ import annotations

import re

from simhbase.errors import UsageError

DEFAULT_CONNECTIONS, MOST_CONNECTIONS = 8, 64
DEFAULT_TIMEOUT, LONGEST_TIMEOUT = 60, 1_000_000


def refuse_password(url: str, options: dict[str, str], instead: str) -> None:
    """Raises UsageError for a URL with a password, also with one that has signs which end a name in a URL.
    instead: how to give it."""
    before = re.sub(r"\[[^]]*\]", "", url.partition("://")[2].rpartition("@")[0])  # without addresses of IPv6
    if re.search(r":(?!\d+[/,?])", before) or options.keys() & {"password", "sslpassword"}:
        raise UsageError(
            "the URL of a store contains a password, and URLs are shown in messages, logs and lists of "
            f"processes: leave it out, and give it by {instead}"
        )


def take_number(url: str, options: dict[str, str], name: str, default: int, most: int, least: int = 1) -> int:
    """Remove an option from the others and return it. Raises UsageError."""
    text = options.pop(name, str(default))
    if not text.isdecimal() or not least <= int(text) <= most:
        raise UsageError(f"{url}: {name}={text} is not a number from {least} to {most}")
    return int(text)


def take_connections(url: str, options: dict[str, str]) -> int:
    return take_number(url, options, "connections", DEFAULT_CONNECTIONS, MOST_CONNECTIONS)


def take_timeout(url: str, options: dict[str, str]) -> float:
    return float(take_number(url, options, "timeout", DEFAULT_TIMEOUT, LONGEST_TIMEOUT))
