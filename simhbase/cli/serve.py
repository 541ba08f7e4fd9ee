"""`simhbase serve`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import ip_address, ip_network
from pathlib import Path

import click

from simhbase.cli.options import FiniteRange, command, converted, option, scope_option, store_option
from simhbase.cli.output import message
from simhbase.errors import SimhbaseError, UsageError

PORT = 8765


def _names(hosts: Sequence[str]) -> tuple[str, ...]:
    """Names of hosts, as they are compared with the header Host without its port. Raises UsageError."""
    for host in hosts:
        if not re.fullmatch(r"[\w.-]+", host, re.ASCII):
            raise UsageError(f"{host!r} is not the name of a host: give it without scheme, port and path")
    return tuple(hosts)


@command(
    epilog="""\b
Examples:
  simhbase serve --store rocksdb:news.db
  simhbase serve --store hbase://gateway:9090/news --host 0.0.0.0 --workers 4 --token-file tokens
"""
)
@store_option
@scope_option
@option("--host HOST", "Address to listen on.", default="127.0.0.1")
@option("--port PORT", "Port to listen on; 0: any free port.", type=click.IntRange(0, 65535), default=PORT)
@option(
    "--workers N",
    "Number of processes. More than one on an embedded store needs --read-only.",
    type=click.IntRange(1, 256),
    default=1,
)
@option(
    "--token-file FILE",
    "Access tokens: lines of 'read TOKEN' and 'write TOKEN', of a store with scopes each with scope=NAME; "
    "reloaded when it changes.",
    type=click.Path(dir_okay=False, path_type=Path),
)
@option("--read-only", "Serve only lookups; other processes can write.")
@option(
    "--allow-host NAME",
    "Accept this host name, too, when there are no tokens. Repeatable.",
    name="hosts",
    multiple=True,
    callback=converted(_names),
)
@option(
    "--trusted-proxy ADDRESS",
    "Log the client that this proxy names in X-Forwarded-For. An address or a network. Repeatable.",
    name="proxies",
    multiple=True,
)
@option("--max-body MIB", "Maximum size of a request.", type=click.IntRange(1, 1024), default=16)
@option(
    "--max-batch N",
    "Maximum texts or documents in a request.",
    type=click.IntRange(1, 100_000),
    default=1000,
)
@option(
    "--max-characters N",
    "Maximum characters of a text; four times as many for the texts of a request.",
    type=click.IntRange(1, 100_000_000),
    default=1_000_000,
)
@option(
    "--timeout SECONDS",
    "Time limit for receiving and for answering a request.",
    type=FiniteRange(0.1, 3600),
    default=30.0,
)
@option(
    "--log-level LEVEL",
    "Log level (JSON lines on stderr): debug, info (each request), warning, error.",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
)
def serve(
    url: str,
    scope: str | None,
    host: str,
    port: int,
    workers: int,
    token_file: Path | None,
    read_only: bool,
    hosts: tuple[str, ...],
    proxies: tuple[str, ...],
    max_body: int,
    max_batch: int,
    max_characters: int,
    timeout: float,
    log_level: str,
) -> None:
    """Serve a store over HTTP, with a search page.

    Lookups, documents and claims are JSON under /v1, described by /openapi.json; /healthz, /readyz and
    /metrics are for monitoring. Needs: pip install 'simhbase[serve]'.

    Listening on a public address requires --token-file. Use a proxy for TLS and rate limits. SIGTERM and
    Ctrl-C stop the service after accepted requests are answered.
    """
    if token_file is None and not _is_loopback(host):
        raise UsageError(f"{host} is public: give --token-file, or listen on 127.0.0.1 behind a proxy")
    if token_file is not None and hosts:
        raise UsageError(
            "has no effect with --token-file, which needs no names: leave it out", parameter="hosts"
        )
    trusted = tuple(network for proxy in proxies for network in _networks(proxy))
    try:
        from simhbase.online.server import listen
        from simhbase.online.server import serve as run
        from simhbase.online.settings import LOOPBACK_NAMES, MIB, Limits, Settings
    except ImportError as error:
        raise SimhbaseError(
            f"the service needs {error.name}, which is not installed: pip install 'simhbase[serve]'"
        ) from error
    settings = Settings(
        url,
        "read" if read_only else "write",
        token_file,
        (*LOOPBACK_NAMES, host, *hosts),
        trusted,
        Limits(
            body_bytes=max_body * MIB,
            documents=max_batch,
            characters=max_characters,
            seconds=timeout,
            receive_seconds=timeout,
        ),
        scope,
    )
    with listen(host, port) as listening:
        run(settings, listening, workers, log_level, message)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _networks(proxy: str) -> tuple[str, ...]:
    """The network of a proxy; of IPv4 also as it appears on a socket for IPv6. Raises UsageError."""
    try:
        network = ip_network(proxy)
    except ValueError as error:
        raise UsageError(
            f"{error}: give an address or a network, e.g. 127.0.0.1 or 10.0.0.0/8", parameter="proxies"
        ) from error
    if network.version == 6:
        return (str(network),)
    return str(network), f"::ffff:{network.network_address}/{96 + network.prefixlen}"
