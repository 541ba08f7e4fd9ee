"""`simhbase loads`."""

from __future__ import annotations

import click
from click.core import ParameterSource

from simhbase.admin import Administrator
from simhbase.cli.options import store_option
from simhbase.cli.output import Output, json_option, shown_moment
from simhbase.errors import UsageError
from simhbase.index import open_index
from simhbase.index.load_log import LoadState


@click.group(invoke_without_command=True)
@store_option
@json_option
@click.pass_context
def loads(context: click.Context, url: str, output: Output) -> None:
    """List the loads into a store, by name the last run of each.

    A load that was stopped or killed is resumed where it was when it is run again with the same inputs and
    options. Loads of standard input, which cannot be read again, are not listed.
    """
    if context.invoked_subcommand is not None:
        if context.get_parameter_source("url") is ParameterSource.COMMANDLINE:
            raise UsageError(
                f"--store belongs behind {context.invoked_subcommand}: simhbase loads forget NAME --store URL"
            )
        return
    with open_index(url, access="read") as index:
        found = Administrator(index).loads()
    output.rows([_values(state) for state in found])
    if not found:
        output.end("no loads")


@loads.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--finished", is_flag=True, help="Forget all loads that have finished.")
@store_option
@json_option
def forget(names: tuple[str, ...], finished: bool, url: str, output: Output) -> None:
    """Forget how far loads are: run again, they begin anew.

    What they have stored stays.
    """
    if not names and not finished:
        raise UsageError("name the loads to forget, or give --finished: simhbase loads shows their names")
    with open_index(url) as index:
        known = Administrator(index).loads()
        if missing := sorted(set(names).difference(state.name for state in known)):
            raise UsageError(f"no load {', '.join(map(repr, missing))}: simhbase loads shows their names")
        done = [state.name for state in known if finished and state.progress == "finished"]
        forgotten = list(dict.fromkeys([*names, *done]))
        for name in forgotten:
            Administrator(index).forget_load(name)
    output.summary({"forgotten": forgotten})


def _values(state: LoadState) -> dict[str, object]:
    counts = state.counts or {}
    loaded = sum(counts.get(name, 0) for name in ("added", "moved", "unchanged"))
    return {
        "name": state.name,
        "state": "killed" if state.was_killed else state.progress,
        "begun": shown_moment(state.begun),
        "changed": shown_moment(state.changed),
        "loaded": loaded,
        "duplicates": counts.get("duplicates", 0),
        "rejected": counts.get("rejected", 0),
        "host": state.host,
        "process": str(state.process),
        "reason": state.reason or None,
    }
