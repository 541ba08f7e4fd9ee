"""`simhbase loads`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from simhbase.cli.options import Group, option, scope_option, store_option
from simhbase.cli.output import Output, json_option, local_time
from simhbase.errors import UsageError
from simhbase.model import wire

if TYPE_CHECKING:
    from simhbase.index.load_log import LoadState


@click.group(cls=Group, invoke_without_command=True)
@store_option
@scope_option
@json_option
@click.pass_context
def loads(context: click.Context, url: str, scope: str | None, output: Output) -> None:
    """List the loads into a store.

    Shows the last run of each. To resume a load that was stopped or killed, run the same command again. Loads
    of standard input cannot be resumed, and are not listed.
    """
    from simhbase.admin import Administrator
    from simhbase.index import open_index

    if context.invoked_subcommand is not None:
        if context.get_parameter_source("url") is ParameterSource.COMMANDLINE:
            raise UsageError(
                f"put --store after {context.invoked_subcommand}: simhbase loads forget NAME --store URL"
            )
        return
    with open_index(url, access="read", scope=scope) as index:
        found = Administrator(index).loads()
    output.rows([_values(state) for state in found])
    if not found:
        output.hint("no loads")


@loads.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@store_option
@scope_option
@option("--finished", "Forget all finished loads.")
@json_option
def forget(names: tuple[str, ...], finished: bool, url: str, scope: str | None, output: Output) -> None:
    """Forget loads, so that they start over.

    Stored documents stay.
    """
    from simhbase.admin import Administrator
    from simhbase.index import open_index

    if not names and not finished:
        raise UsageError("give the names of loads, or --finished: simhbase loads lists them")
    with open_index(url, scope=scope) as index:
        known = Administrator(index).loads()
        if missing := sorted(set(names).difference(state.name for state in known)):
            raise UsageError(f"no load {', '.join(map(repr, missing))}: simhbase loads lists them")
        done = [state.name for state in known if finished and state.progress == "finished"]
        forgotten = list(dict.fromkeys([*names, *done]))
        for name in forgotten:
            Administrator(index).forget_load(name)
    output.summary({"forgotten": forgotten})


@dataclass
class _Counts:
    """Documents of a load so far, of its counts."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    duplicates: int = 0
    rejected: int = 0


def _values(state: LoadState) -> dict[str, object]:
    counts = wire.convert(state.counts or {}, _Counts, "counts")
    return {
        "name": state.name,
        "state": "killed" if state.was_killed else state.progress,
        "begun": local_time(state.begun),
        "changed": local_time(state.changed),
        "loaded": counts.added + counts.updated + counts.unchanged,
        "duplicates": counts.duplicates,
        "rejected": counts.rejected,
        "host": state.host,
        "process": str(state.process),
        "reason": state.reason or None,
    }
