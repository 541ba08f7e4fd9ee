"""The URL of an HBase store: gateways, tables, number of connections, timeout."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar
from urllib.parse import parse_qsl

from simhbase.errors import UsageError
from simhbase.model.urls import redacted
from simhbase.stores.hbase.schema import DEFAULT_NAMESPACE, DEFAULT_PREFIX
from simhbase.stores.options import require_host_name

FORM = "hbase://HOST:PORT[,HOST:PORT]/[NAMESPACE:]PREFIX?thrift2=PORT&connections=8&timeout=60"
DEFAULT_PORT = 9090
DEFAULT_CONNECTIONS = 8
DEFAULT_TIMEOUT = 60.0
MOST_CONNECTIONS = 64
MOST_PORTS = 65535
QOPS = ("auth", "auth-int", "auth-conf")  # what SASL protects, weakest first
SPNEGO_SERVICE = "HTTP"  # RFC 4559

OPTIONS = ("thrift2", "connections", "timeout", "tls", "ca", "cert", "http", "kerberos", "qop", "user")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Gateway:
    """Address of a Thrift server."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Kerberos:
    """The principal of gateways, SERVICE/HOST: `host` is None if it is the host in the URL. qop: the weakest
    of QOPS to accept."""

    service: str
    host: str | None = None
    qop: str = QOPS[0]


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed URL.

    gateways: Thrift 1; gateways2: Thrift 2, for filtered scans and administration; connections: maximum of a
    process, shared by its threads, half of them to each kind; timeout: seconds for an operation with all
    retries; certificates: file of authorities to trust instead of the system's; certificate: file with the
    client's own certificate and key; user: whom to act for.
    """

    url: str
    gateways: tuple[Gateway, ...]
    namespace: str = DEFAULT_NAMESPACE
    prefix: str = DEFAULT_PREFIX
    gateways2: tuple[Gateway, ...] = ()
    connections: int = DEFAULT_CONNECTIONS
    timeout: float = DEFAULT_TIMEOUT
    tls: bool = False
    certificates: Path | None = None
    certificate: Path | None = None
    http: bool = False
    kerberos: Kerberos | None = None
    user: str | None = None


def parse(url: str) -> Address:
    """Parse a URL. Raises UsageError naming the invalid part."""
    # Not by urlsplit: recent Pythons refuse an IPv6 address behind another host.
    address, _, query = url.partition("?")
    hosts, _, path = address.partition("://")[2].partition("/")
    gateways = _gateways(url, hosts)
    namespace, prefix = _tables(url, path)
    options = _options(url, query)

    def option(name: str, convert: Callable[[str], T], default: T, what: str) -> T:
        if name not in options:
            return default
        try:
            return convert(options[name])
        except ValueError as error:
            raise UsageError(f"{redacted(url)}: {name}={options[name]} is not {what}") from error

    tls = option("tls", _switch, False, "0 or 1")
    http = option("http", _switch, False, "0 or 1")
    needed = {
        "ca": ("tls=1", tls),
        "cert": ("tls=1", tls),
        "user": ("http=1", http),
        "qop": ("kerberos=", "kerberos" in options),
    }
    for name, (other, is_given) in needed.items():
        if name in options and not is_given:
            raise UsageError(f"{redacted(url)}: {name}= without {other} has no effect, add {other}")
    if http and "qop" in options:
        raise UsageError(f"{redacted(url)}: qop= has no effect over HTTP, use tls=1")
    kerberos = option("kerberos", _principal, None, "SERVICE, or SERVICE/HOST")
    if kerberos is not None:
        kerberos = replace(
            kerberos,
            qop=option("qop", lambda text: QOPS[QOPS.index(text)], QOPS[0], f"one of {', '.join(QOPS)}"),
        )
        if http and kerberos.service != SPNEGO_SERVICE:
            raise UsageError(
                f"{redacted(url)}: over HTTP the service is {SPNEGO_SERVICE}: kerberos={SPNEGO_SERVICE}"
            )
    return Address(
        url,
        gateways,
        namespace,
        prefix,
        option("thrift2", lambda text: _gateways2(text, gateways), (), "a port, or HOST:PORT"),
        option(
            "connections",
            _number_to(MOST_CONNECTIONS),
            DEFAULT_CONNECTIONS,
            f"a number from 1 to {MOST_CONNECTIONS}",
        ),
        option("timeout", _seconds, DEFAULT_TIMEOUT, "a positive number of seconds"),
        tls,
        option("ca", _file, None, "a file that exists"),
        option("cert", _file, None, "a file that exists"),
        http,
        kerberos,
        option("user", _user, None, "a user's name"),
    )


def _gateways(url: str, text: str) -> tuple[Gateway, ...]:
    try:
        return tuple(dict.fromkeys(map(_gateway, text.split(","))))
    except ValueError as error:
        raise UsageError(f"no store {redacted(url)!r}: {error}; the form is {FORM}") from error


def _gateway(text: str) -> Gateway:
    found = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^\s:@\[\]]+))(?::(\d{1,5}))?", text)
    if not found:
        raise ValueError(f"{text!r} is not HOST:PORT")
    require_host_name(found[2] or "")
    port = int(found[3]) if found[3] else DEFAULT_PORT
    if not 1 <= port <= MOST_PORTS:
        raise ValueError(f"{text!r} is not HOST:PORT with a port from 1 to {MOST_PORTS}")
    return Gateway(found[1] or found[2], port)


def _gateways2(text: str, gateways: tuple[Gateway, ...]) -> tuple[Gateway, ...]:
    """A bare port means this port on each of the gateways' hosts."""
    if text.isdecimal():
        port = _number_to(MOST_PORTS)(text)
        return tuple(dict.fromkeys(Gateway(gateway.host, port) for gateway in gateways))
    if not re.search(r":\d+$", text):  # a bare name is more often a mistyped port than a host
        raise ValueError(text)
    return (_gateway(text),)


def _tables(url: str, path: str) -> tuple[str, str]:
    namespace, colon, prefix = path.rpartition(":")
    if not path:
        return DEFAULT_NAMESPACE, DEFAULT_PREFIX
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", prefix) or (
        colon and not re.fullmatch(r"[A-Za-z0-9_]+", namespace)
    ):
        raise UsageError(
            f"no store {redacted(url)!r}: {path!r} is not [NAMESPACE:]PREFIX of letters, digits, '_', '.' "
            "and '-'"
        )
    return namespace or DEFAULT_NAMESPACE, prefix


def _options(url: str, query: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError as error:
        raise UsageError(
            f"no store {redacted(url)!r}: its options are not NAME=VALUE&...; the form is {FORM}"
        ) from error
    for name, _ in pairs:
        if name not in OPTIONS:
            raise UsageError(f"{redacted(url)}: no option {name!r}, there are {', '.join(OPTIONS)}")
    if len(dict(pairs)) < len(pairs):
        raise UsageError(f"{redacted(url)}: an option is given twice")
    return dict(pairs)


def _number_to(most: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        if not text.isdecimal() or not 1 <= int(text) <= most:
            raise ValueError(text)
        return int(text)

    return convert


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < 1e6:
        raise ValueError(text)
    return seconds


def _switch(text: str) -> bool:
    return bool(("0", "1").index(text))


def _file(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise ValueError(text)
    return path


def _principal(text: str) -> Kerberos:
    found = re.fullmatch(r"([^\s/@]+)(?:/([^\s/@]+))?", text)
    if not found:
        raise ValueError(text)
    return Kerberos(found[1], found[2])


def _user(text: str) -> str:
    if not re.fullmatch(r"[!-~]+", text):  # a header
        raise ValueError(text)
    return text
