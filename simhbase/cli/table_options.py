"""Options of `simhbase tables` for what is created; all but `--ttl` have a meaning in HBase only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import click

from simhbase.cli.options import Command, converted, seconds, store_option
from simhbase.errors import UsageError
from simhbase.stores.hbase.schema import COMPRESSIONS, DEFAULT_REGIONS, MOST_REGIONS, OBSOLETE_REGIONS

SCHEME = "hbase:"


def administered_store(command: Command) -> Command:
    """Adds `--store` and `--thrift2`; the command takes `url`, which says both."""

    @wraps(command)
    def with_url(*args: Any, url: str, thrift2: str | None, **kwargs: Any) -> None:
        command(*args, url=url if thrift2 is None else _with_thrift2(url, thrift2), **kwargs)

    text = "A Thrift 2 gateway of HBase, on the hosts of --store; the same as thrift2=PORT in its URL."
    option = click.option("--thrift2", metavar="PORT", help=text)
    return store_option(option(with_url))


def _with_thrift2(url: str, thrift2: str) -> str:
    if not url.startswith(SCHEME):
        raise UsageError(f"--thrift2: HBase alone has such a gateway, and {url} is no HBase store")
    return f"{url}{'&' if '?' in url else '?'}thrift2={thrift2}"


def creation_options(command: Command) -> Command:
    """Adds what may be chosen for new tables; the command takes `wanted`, what was given by name."""
    return _table_options(_SPLITTING | _STORING)(command)


def expectation_options(command: Command) -> Command:
    """Adds what may be expected of live tables; the command takes `wanted`, what was given by name."""
    return _table_options(_STORING)(command)


def _table_options(options: Mapping[str, Callable[[Command], Command]]) -> Callable[[Command], Command]:
    def decorate(command: Command) -> Command:
        @wraps(command)
        def with_tables(*args: Any, **kwargs: Any) -> None:
            values = {name: kwargs.pop(name) for name in options}
            given = {name: value for name, value in values.items() if value is not None}
            command(*args, wanted=given, **kwargs)

        decorated: Command = with_tables
        for option in reversed(list(options.values())):
            decorated = option(decorated)
        return decorated

    return decorate


_SPLITTING = {
    "regions": click.option(
        "--regions",
        type=click.IntRange(1, MOST_REGIONS),
        metavar="N",
        help=f"Regions of each table at first; of obsolete {OBSOLETE_REGIONS} at most. "
        f"[default: {DEFAULT_REGIONS}]",
    ),
    "documents": click.option(
        "--documents",
        type=click.IntRange(min=0),
        metavar="N",
        help="Choose the number of regions of each table for this many documents.",
    ),
}
_STORING = {
    "compression": click.option(
        "--compression",
        type=click.Choice([name.lower() for name in COMPRESSIONS]),
        callback=converted(str.upper),
        help="Compression of the files in HBase, whose servers must have its library. [default: HBase's own]",
    ),
    "ttl": click.option(
        "--ttl",
        metavar="SECONDS",
        callback=converted(seconds),
        help="Documents vanish so long after they were last written, as 86400 or 30d. [default: never]",
    ),
}
