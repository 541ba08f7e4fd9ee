"""`simhbase mute`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import click

from simhbase.cli.consent import Consent, consent_options
from simhbase.cli.options import Group, converted, fingerprint_option, future, option, store_option
from simhbase.cli.output import Output, json_option
from simhbase.errors import UsageError

_ids_argument = click.argument("ids", nargs=-1, metavar="[ID]...")


@click.group(cls=Group)
def mute() -> None:
    """Hide documents from lookups, for ever or until a date.

    Muted documents stay stored, but lookups do not find them, and nothing is a duplicate of them. Other
    processes notice changes within five seconds.
    """


@mute.command(short_help="Add documents or fingerprints to the mute list.")
@_ids_argument
@store_option
@fingerprint_option("Mute all documents with this fingerprint, also future ones. Repeatable.")
@option(
    "--until TIME", "When to unmute, e.g. 30d or 2030-01-31. [default: never]", callback=converted(future)
)
@option("--note TEXT", "Note shown in the list.", default="")
@json_option
def add(
    ids: Sequence[str],
    fingerprints: Sequence[int],
    until: datetime | None,
    note: str,
    url: str,
    output: Output,
) -> None:
    """Add documents or fingerprints to the mute list.

    Ids need not be stored yet. Existing entries get the new end and note.
    """
    _require_names(ids, fingerprints)
    from simhbase.index import open_index

    with open_index(url) as index:
        added = index.mute(ids, fingerprints, until, note)
        output.summary({"added": added, "muted": len(index.muted())})


@mute.command(short_help="Remove documents or fingerprints from the mute list.")
@_ids_argument
@store_option
@fingerprint_option("A muted fingerprint. Repeatable.")
@consent_options()
@json_option
def remove(
    ids: Sequence[str], fingerprints: Sequence[int], url: str, consent: Consent, output: Output
) -> None:
    """Remove documents or fingerprints from the mute list.

    Those that are not on it are ignored. Asks before it removes more than half of the entries, or all of
    fewer than ten; without a terminal it then needs --yes.
    """
    _require_names(ids, fingerprints)
    from simhbase.admin.removal import Removal
    from simhbase.index import open_index

    with open_index(url, access="read" if consent.dry_run else "write") as index:
        muted = index.muted()
        going = [each for each in muted if each.id in ids or each.fingerprint in fingerprints]
        if consent.dry_run:
            output.summary({"would_remove": len(going), "muted": len(muted)})
            return
        consent.require(Removal(len(going), len(muted), "muted entries", index.store.url))
        removed = index.unmute(ids, fingerprints)
        output.summary({"removed": removed, "muted": len(index.muted())})


@mute.command("list")
@store_option
@json_option
def list_(url: str, output: Output) -> None:
    """List muted documents and fingerprints, oldest first."""
    from simhbase.index import open_index

    with open_index(url, access="read") as index:
        entries = index.muted()
    output.rows(entries)
    if not entries:
        output.hint("nothing is muted")


def _require_names(ids: Sequence[str], fingerprints: Sequence[int]) -> None:
    if not ids and not fingerprints:
        raise UsageError("give ids or --fingerprint")
