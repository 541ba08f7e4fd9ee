"""The URL of a PostgreSQL store: server, database, schema, number of connections, timeout."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import PGconn

from simhbase.errors import UsageError
from simhbase.model.urls import redacted
from simhbase.stores.options import (
    DEFAULT_CONNECTIONS,
    DEFAULT_TIMEOUT,
    options_of,
    require_host_name,
    take_connections,
    take_timeout,
)

FORM = "postgresql://[USER@]HOST[:PORT]/DATABASE?schema=NAME&connections=8&timeout=60"
DEFAULT_SCHEMA = "simhbase"
# libpq looks at them only when it connects, and psycopg at the first one.
_NUMBERS = (
    "connect_timeout",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_count",
    "tcp_user_timeout",
)
_NO_SERVER = "/dev/null"  # as a folder of sockets, in which there can be none
_QUOTED = re.compile(r'(?<!query parameter): ".*"$')  # libpq quotes the URL, or a value of it
_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
_OWN = re.compile(r"(?:-c\s*|--)([^\s=.]+\.[^\s=]+)=")


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed URL.

    schema: holds the store's tables; connections: maximum of a process, shared by its threads; timeout:
    seconds for an operation with all retries, and for a lock; server: libpq's parameters; passwords: its file
    of them, for this and other servers.
    """

    url: str
    schema: str = DEFAULT_SCHEMA
    connections: int = DEFAULT_CONNECTIONS
    timeout: float = DEFAULT_TIMEOUT
    server: dict[str, Any] = field(default_factory=dict)
    passwords: Path = Path(os.devnull)

    def table(self, name: str) -> str:
        """A table in a statement. Without its schema another one might be taken: behind a connection pooler
        search_path may be that of another client. The schema may be a word of SQL."""
        return f'"{self.schema}".{name}'


def parse(url: str) -> Address:
    """Parse a URL; options that are not named here are libpq's. Raises UsageError naming the invalid part."""
    head, _, query = url.partition("?")
    # As libpq reads it, to which "+" is no space.
    options = options_of(url, query.replace("+", "%2B"))
    if own := _OWN.search(options.get("options", "")):  # PostgreSQL has no such names: it may be anything
        raise UsageError(
            f"options= in the URL sets {own[1]}, whose value may be secret, and URLs are shown in messages, "
            f"logs and lists of processes: set it by PGOPTIONS='-c {own[1]}=VALUE'"
        )
    schema = options.pop("schema", DEFAULT_SCHEMA)
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", schema):
        raise UsageError(
            f"{redacted(url)}: schema={schema} is not a name of lower-case letters, digits and '_'"
        )
    connections, timeout = take_connections(url, options), take_timeout(url, options)
    try:
        server = conninfo_to_dict(f"{head}?{urlencode(options, quote_via=quote)}" if options else head)
    except ProgrammingError as error:
        said = str(error).strip()
        # Where the last character is no quote, each of many would be looked at to the end.
        reason = _QUOTED.sub("", said) if said.endswith('"') else said
        raise UsageError(f"no store {redacted(url)!r}: {reason}; the form is {FORM}") from error
    for name in _FILES:
        # libpq would wait for the writer of a pipe. A name of no file is its own affair, such as "system".
        if Path(path := str(server.get(name, ""))).is_fifo():
            raise UsageError(f"{redacted(url)}: {name}={path} is a pipe, and no file")
    said, passwords = _tried(server)
    if (wrong := _wrong_value(server, said)) is not None:
        raise UsageError(f"{redacted(url)}: {wrong}")
    waiting = {
        "application_name": "simhbase",
        "client_encoding": "UTF8",
        "connect_timeout": 10,
        # A server that is cut off is noticed, whatever the system's settings.
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": int(timeout * 1000),
    }
    return Address(url, schema, connections, timeout, waiting | server, passwords)


def _wrong_value(server: dict[str, Any], said: str) -> str | None:
    """What is wrong with the values of libpq's options, None for nothing. said: see `_tried`."""
    for name in _NUMBERS:
        if not re.fullmatch("-?[0-9]+", str(server.get(name, "0"))):
            return f"{name}={server[name]} is not a number"
    for host in _hosts(server):
        if not host.startswith(("/", "@")):  # a folder of sockets
            try:
                require_host_name(host)
            except ValueError as error:
                return str(error)
    return None if f"{_NO_SERVER}/" in said else said  # in any language


def _hosts(server: dict[str, Any]) -> list[str]:
    return str(server.get("host") or server.get("hostaddr") or "").split(",")


def _tried(server: dict[str, Any]) -> tuple[str, Path]:
    """What libpq says of its options, which it looks at before it connects, here to no server; and its file
    of passwords, which a variable or a file of services may name."""
    nowhere = {"host": _NO_SERVER, "port": "1"}  # instead of those of its variables
    if any(hosts := _hosts(server)):  # as many as there are ports
        nowhere = {"host": ",".join([_NO_SERVER] * len(hosts))}
    # With a password it looks for none in a file.
    tried = PGconn.connect_start(
        make_conninfo("", **server | nowhere | {"hostaddr": "", "password": "-"}).encode()
    )
    said = tried.error_message.decode(errors="replace").strip()
    named = next((each.val for each in tried.info if each.keyword == b"passfile"), None)
    tried.finish()
    # Unlike that of Path it raises nothing where a user has no home.
    own = os.path.expanduser("~/.pgpass")  # noqa: PTH111
    return said, Path(os.fsdecode(named) if named else own)
