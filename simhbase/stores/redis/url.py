"""The URL of a Redis store: server, database, prefix of keys, number of connections, timeout."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from simhbase.errors import UsageError
from simhbase.model.urls import redacted
from simhbase.stores.options import (
    DEFAULT_CONNECTIONS,
    DEFAULT_TIMEOUT,
    options_of,
    require_host_name,
    take_connections,
    take_file,
    take_number,
    take_timeout,
)

FORM = "redis[s]://[USER@]HOST[:PORT][/DATABASE]?prefix=NAME&connections=8&timeout=60"
DEFAULT_PREFIX = "simhbase"
DEFAULT_PORT = 6379
MOST_DATABASES, MOST_REPLICAS = 1 << 20, 100
_FILES = ("ca", "cert", "key")


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed URL.

    prefix: keys begin with it and a colon; replicas: how many of them acknowledge each write; connections:
    maximum of a process, shared by its threads; timeout: seconds for an operation with all retries, and for
    the lock; tls: whether to encrypt; ca, cert, key: files for TLS, in PEM.
    """

    url: str
    host: str
    port: int = DEFAULT_PORT
    user: str | None = None
    database: int = 0
    prefix: str = DEFAULT_PREFIX
    replicas: int = 0
    connections: int = DEFAULT_CONNECTIONS
    timeout: float = DEFAULT_TIMEOUT
    tls: bool = False
    ca: str | None = None
    cert: str | None = None
    key: str | None = None


def parse(url: str) -> Address:
    """Parse a URL. Raises UsageError naming the invalid part."""
    head, _, query = url.partition("?")
    options = options_of(url, query)
    try:
        parts = urlsplit(head)
        host, port = parts.hostname, parts.port or DEFAULT_PORT
        require_host_name(host or "")
    except ValueError as error:
        raise UsageError(f"no store {redacted(url)!r}: {error}; the form is {FORM}") from error
    path = parts.path.strip("/")
    if not host or not ((path.isdecimal() and int(path) < MOST_DATABASES) or not path):
        raise UsageError(f"no store {redacted(url)!r}: the form is {FORM}, with a number as DATABASE")
    prefix = options.pop("prefix", DEFAULT_PREFIX)
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", prefix):
        raise UsageError(
            f"{redacted(url)}: prefix={prefix} is not a name of letters, digits, '_', '.' and '-'"
        )
    address = Address(
        url,
        host,
        port,
        unquote(parts.username) if parts.username else None,
        int(path or 0),
        prefix,
        take_number(url, options, "replicas", 0, MOST_REPLICAS, least=0),
        take_connections(url, options),
        take_timeout(url, options),
        parts.scheme == "rediss",
        *(take_file(url, options, name) for name in _FILES),
    )
    if options:
        raise UsageError(f"{redacted(url)}: there is no option {next(iter(options))}; the form is {FORM}")
    if not address.tls and (address.ca or address.cert or address.key):
        raise UsageError(f"{redacted(url)}: {', '.join(_FILES)} are for TLS, which rediss:// uses")
    return address
