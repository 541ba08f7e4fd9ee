"""Options in the URL of a store on a server."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl

from simhbase.errors import UsageError
from simhbase.model.urls import redacted

DEFAULT_CONNECTIONS, MOST_CONNECTIONS = 8, 64
DEFAULT_TIMEOUT, LONGEST_TIMEOUT = 60, 1_000_000


def options_of(url: str, query: str) -> dict[str, str]:
    """The options of a URL by their names. Raises UsageError if one is given twice."""
    found: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in found:
            raise UsageError(f"{redacted(url)}: {name} is given twice: which one counts is not certain")
        found[name] = value
    return found


def require_host_name(host: str) -> None:
    """Raises ValueError for a name that no host can have, such as one with two dots in a row, of which the
    system's resolver makes a UnicodeError."""
    try:
        host.encode("idna")
    except UnicodeError as error:
        raise ValueError(f"{host[:80]!r} is not the name of a host") from error


def take_number(url: str, options: dict[str, str], name: str, default: int, most: int, least: int = 1) -> int:
    """Remove an option from the others and return it. Raises UsageError."""
    text = options.pop(name, str(default))
    if not text.isdecimal() or not least <= int(text) <= most:
        raise UsageError(f"{redacted(url)}: {name}={text} is not a number from {least} to {most}")
    return int(text)


def take_file(url: str, options: dict[str, str], name: str) -> str | None:
    """Remove an option that names a file from the others and return it. Raises UsageError if there is none,
    or a pipe, which would be waited for."""
    path = options.pop(name, None)
    if path is not None and not Path(path).is_file():
        raise UsageError(f"{redacted(url)}: {name}={path} is not a file that exists")
    return path


def take_connections(url: str, options: dict[str, str]) -> int:
    return take_number(url, options, "connections", DEFAULT_CONNECTIONS, MOST_CONNECTIONS)


def take_timeout(url: str, options: dict[str, str]) -> float:
    return float(take_number(url, options, "timeout", DEFAULT_TIMEOUT, LONGEST_TIMEOUT))
