"""Options in the URL of a store on a server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

from simhbase.errors import UsageError

DEFAULT_CONNECTIONS, MOST_CONNECTIONS = 8, 64
DEFAULT_TIMEOUT, LONGEST_TIMEOUT = 60, 1_000_000
_PORT = re.compile(r":\d+(?=[/,?])")
# As an option, in a fragment, or within the value of another option.
_SECRET = re.compile(r"(?i)(pass(?!file)|pwd|secret|token)[a-z]*\s*=")


def refuse_secret(url: str, instead: str) -> None:
    """Raises UsageError for a URL with what may be a password, also with one that has signs which end a name
    in a URL. The URL is not shown. instead: how to give it."""
    if any(":" in user for user in _users(url)) or _SECRET.search(unquote(url)):
        raise UsageError(
            "the URL contains a password, and URLs are shown in messages, logs and lists of processes: leave "
            f"it out, and give it by {instead}"
        )


def _users(url: str) -> Iterator[str]:
    """What may be the user of a URL, wherever a user ends, without addresses of IPv6."""
    rest = re.sub(r"\[[^]]*\]", "", url.partition("://")[2])
    yield unquote(rest.partition("?")[0].rpartition("@")[0])
    yield _PORT.sub("", rest.rpartition("@")[0])


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
