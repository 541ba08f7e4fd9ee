"""`simhbase loads`."""

from __future__ import annotations

from datetime import datetime

import click
from click.core import ParameterSource

from simhbase.cli.options import store_option
from simhbase.cli.output import Output, json_option
from simhbase.errors import UsageError
from simhbase.index import open_index
from simhbase.index.manifests import LoadState


@click.group(invoke_without_command=True)
@store_option
@json_option
@click.pass_context
def loads(context: click.Context, url: str, output: Output) -> None:
    """List the loads into a store, by name the last run of each.

    A load that was stopped or killed goes on where it was when it is run again with the same inputs and
    options. Loads of standard input, which cannot be read again, are not listed.
    """
    if context.invoked_subcommand is not None:
        if context.get_parameter_source("url") is ParameterSource.COMMANDLINE:
            raise UsageError(
                f"--store belongs behind {context.invoked_subcommand}: simhbase loads forget NAME --store URL"
            )
        return
    with open_index(url, access="read") as index:
        found = index.loads()
    output.rows([_values(state) for state in found])
    if not found:
        output.end("no loads")


@loads.command()
@click.argument("name")
@store_option
@json_option
def forget(name: str, url: str, output: Output) -> None:
    """Forget how far a load is: run again, it begins anew.

    What it has stored stays.
    """
    with open_index(url) as index:
        if not index.forget_load(name):
            raise UsageError(f"no load {name!r}: simhbase loads shows their names")
    output.summary({"forgotten": name})


def _values(state: LoadState) -> dict[str, object]:
    counts = state.counts or {}
    loaded = sum(counts.get(name, 0) for name in ("added", "moved", "unchanged"))
    return {
        "name": state.name,
        "state": "killed" if state.was_killed else state.progress,
        "begun": _moment(state.begun),
        "changed": _moment(state.changed),
        "loaded": loaded,
        "duplicates": counts.get("duplicates", 0),
        "rejected": counts.get("rejected", 0),
        "host": state.owner.host,
        "process": str(state.owner.pid),
        "reason": state.reason or None,
    }


def _moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000).astimezone().isoformat(" ", "seconds")
