"""`simhbase scopes`."""

from __future__ import annotations

import click

from simhbase.cli.consent import Consent, consent_options
from simhbase.cli.options import Group, store_option
from simhbase.cli.output import Output, json_option
from simhbase.process.progress import show_progress


@click.group(cls=Group)
def scopes() -> None:
    """List and drop the scopes of a store.

    A store has scopes if it was created so ('simhbase tables create --scoped'). A scope begins with its first
    document: 'simhbase load --scope NAME'.
    """


@scopes.command("list", short_help="List the scopes that were written to.")
@store_option
@json_option
def list_(url: str, output: Output) -> None:
    """List the scopes that were written to.

    'simhbase stats --scope NAME' counts the documents of one.
    """
    from simhbase.admin import Administrator
    from simhbase.index import open_index

    with open_index(url, access="read") as index:
        found = Administrator(index).scopes()
    output.rows([{"scope": name} for name in found])
    if not found:
        output.hint("no scopes")


@scopes.command(short_help="Delete all of a scope.")
@click.argument("scope", metavar="NAME")
@store_option
@consent_options()
@json_option
def drop(scope: str, url: str, consent: Consent, output: Output) -> None:
    """Delete the documents, mute list and logs of loads of a scope.

    Takes time by the size of the scope. Asks first; without a terminal, give --yes. To finish after it was
    stopped, run it again. Stop the writers of the scope before: what they write meanwhile may stay.
    """
    from simhbase.admin import Administrator
    from simhbase.index import open_index

    with open_index(url, access="read" if consent.dry_run else "write") as index:
        administrator = Administrator(index)
        if consent.dry_run or not consent.yes:
            documents = Administrator(index.within(scope)).documents(0, progress=show_progress)
            if consent.dry_run:
                output.summary({"scope": scope, "would_drop": documents})
                return
            consent.ask(f"delete the scope {scope!r} (about {documents:,} documents) of {url}")
        removed = administrator.drop_scope(scope, progress=show_progress)
        output.summary({"scope": scope, "deleted": removed})
