"""`simhbase serve`."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

import click

from simhbase.cli.options import store_option
from simhbase.cli.output import message
from simhbase.errors import SimhbaseError, UsageError

PORT = 8765


@click.command(
    epilog="""\b
Examples:
  simhbase serve --store rocksdb:news.db
  simhbase serve --store hbase://gateway:9090/news --host 0.0.0.0 --workers 4 --token-file tokens
"""
)
@store_option
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Port to listen on; 0: any that is free.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Processes that serve. An embedded store has one, but with --read-only.",
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Who may ask: lines of 'read TOKEN' and 'write TOKEN'. Is read again when it changes.",
)
@click.option("--read-only", is_flag=True, help="Serve lookups alone, beside others that write.")
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Another name of this service, where there are no tokens; may be repeated.",
)
@click.option(
    "--max-body",
    type=click.IntRange(min=1),
    default=16,
    show_default=True,
    metavar="MIB",
    help="Size of a request at most.",
)
@click.option(
    "--max-batch",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    metavar="N",
    help="Texts or documents of a request at most.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.1),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a request waits for its answer, and may take to come in.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="Least level of what is logged, as JSON lines on stderr; info has a line a request.",
)
def serve(
    url: str,
    host: str,
    port: int,
    workers: int,
    token_file: Path | None,
    read_only: bool,
    hosts: tuple[str, ...],
    max_body: int,
    max_batch: int,
    timeout: float,
    log_level: str,
) -> None:
    """Serve a store over HTTP, with a page to search it by.

    Lookups, documents and claims as JSON under /v1 (described by /openapi.json), /healthz, /readyz and
    /metrics; docs/service.md has more. Needs the extra serve: pip install 'simhbase[serve]'.

    On an address that others can reach a file of tokens is needed. TLS and rate limits are a proxy's. SIGTERM
    and Ctrl-C stop the service when what it has accepted is answered.
    """
    if token_file is None and not _is_loopback(host):
        raise UsageError(
            f"others can reach {host}: give --token-file, or listen on 127.0.0.1, behind a proxy"
        )
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
        Limits(body_bytes=max_body * MIB, documents=max_batch, seconds=timeout, receive_seconds=timeout),
    )
    with listen(host, port) as listening:
        run(settings, listening, workers, log_level, message)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
