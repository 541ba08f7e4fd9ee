"""Options of `simhbase tables` that have a meaning for tables in HBase only."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from simhbase.cli.options import Command, converted, store_option
from simhbase.errors import UsageError
from simhbase.stores.ddl import COMPRESSIONS, DEFAULT_REGIONS, MOST_REGIONS, Options, regions_for

SCHEME = "hbase:"
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


@dataclass(frozen=True)
class TableOptions:
    """What was given of the options, by name."""

    given: Mapping[str, Any]

    def options(self) -> Options:
        """That, with the defaults for the others. Raises UsageError."""
        chosen = dict(self.given)
        if "documents" in chosen:
            if "regions" in chosen:
                raise UsageError("--regions and --documents both say how many regions: give one of them")
            chosen["regions"] = regions_for(chosen.pop("documents"))
        return Options(**chosen)

    def refuse(self, reason: str) -> None:
        """Raises UsageError where something was given, which is of no use for this reason."""
        if self.given:
            raise UsageError(f"{', '.join(f'--{name}' for name in self.given)}: {reason}")


def is_in_hbase(url: str) -> bool:
    """Whether a store has tables in HBase."""
    return url.startswith(SCHEME)


def administered_store(command: Command) -> Command:
    """Adds `--store` and `--thrift2`; the command takes `url`, which says both."""

    @wraps(command)
    def with_url(*args: Any, url: str, thrift2: str | None, **kwargs: Any) -> None:
        command(*args, url=url if thrift2 is None else _with_thrift2(url, thrift2), **kwargs)

    text = "A Thrift 2 gateway of HBase, on the hosts of --store; the same as thrift2=PORT in its URL."
    option = click.option("--thrift2", metavar="PORT", help=text)
    return store_option(option(with_url))


def _with_thrift2(url: str, thrift2: str) -> str:
    if not is_in_hbase(url):
        raise UsageError(f"--thrift2: HBase alone has such a gateway, and {url} is no HBase store")
    return f"{url}{'&' if '?' in url else '?'}thrift2={thrift2}"


def creation_options(command: Command) -> Command:
    """Adds what may be chosen for new tables; the command takes `made`, TableOptions."""
    return _table_options(_SPLITTING | _STORING)(command)


def expectation_options(command: Command) -> Command:
    """Adds what may be expected of live tables; the command takes `made`, TableOptions."""
    return _table_options(_STORING)(command)


def _table_options(options: Mapping[str, Callable[[Command], Command]]) -> Callable[[Command], Command]:
    def decorate(command: Command) -> Command:
        @wraps(command)
        def with_tables(*args: Any, **kwargs: Any) -> None:
            values = {name: kwargs.pop(name) for name in options}
            given = {name: value for name, value in values.items() if value is not None}
            command(*args, made=TableOptions(given), **kwargs)

        decorated: Command = with_tables
        for option in reversed(list(options.values())):
            decorated = option(decorated)
        return decorated

    return decorate


def _seconds(text: str) -> int:
    found = re.fullmatch(r"(\d{1,10})([smhdw]?)", text)
    if not found:
        raise UsageError(f"{text!r} is not a number of seconds, or one with s, m, h, d or w as 30d")
    return int(found[1]) * _UNITS[found[2]]


_SPLITTING = {
    "regions": click.option(
        "--regions",
        type=click.IntRange(1, MOST_REGIONS),
        metavar="N",
        help=f"Regions of each table at first ({DEFAULT_REGIONS}).",
    ),
    "documents": click.option(
        "--documents",
        type=click.IntRange(min=0),
        metavar="N",
        help="As many regions as this number of documents fills.",
    ),
}
_STORING = {
    "compression": click.option(
        "--compression",
        type=click.Choice([name.lower() for name in COMPRESSIONS]),
        callback=converted(str.upper),
        help="Compression of the files in HBase (HBase's own default).",
    ),
    "ttl": click.option(
        "--ttl",
        metavar="SECONDS",
        callback=converted(_seconds),
        help="Documents vanish so long after they were stored, as 86400 or 30d (never).",
    ),
}
