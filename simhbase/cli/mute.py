"""`simhbase mute`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from simhbase.cli.consent import Consent, consent_options
from simhbase.cli.options import (
    Group,
    converted,
    fingerprint_base_option,
    fingerprint_option,
    future,
    option,
    scope_option,
    store_option,
    typed_fingerprints,
)
from simhbase.cli.output import Output, json_option
from simhbase.errors import UsageError

if TYPE_CHECKING:
    from simhbase.corpus.record import Base

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
@scope_option
@fingerprint_option("Mute all documents with this fingerprint, also future ones. Repeatable.")
@fingerprint_base_option()
@option(
    "--until TIME", "When to unmute, e.g. 30d or 2030-01-31. [default: never]", callback=converted(future)
)
@option("--note TEXT", "Note shown in the list.", default="")
@json_option
def add(
    ids: Sequence[str],
    fingerprints: Sequence[str],
    fingerprint_base: Base | None,
    until: datetime | None,
    note: str,
    url: str,
    scope: str | None,
    output: Output,
) -> None:
    """Add documents or fingerprints to the mute list.

    Ids need not be stored yet; those that are not are named. Existing entries get the new end and note.
    """
    _require_names(ids, fingerprints)
    values = typed_fingerprints(fingerprints, fingerprint_base)
    from simhbase.index import open_index

    with open_index(url, scope=scope) as index:
        added = index.mute(ids, values, until, note)
        not_stored = index.not_stored(ids)
        output.summary({"added": added, "not_stored": not_stored, "muted": len(index.muted())})


@mute.command(short_help="Remove documents or fingerprints from the mute list.")
@_ids_argument
@store_option
@scope_option
@fingerprint_option("A muted fingerprint. Repeatable.")
@fingerprint_base_option()
@consent_options()
@json_option
def remove(
    ids: Sequence[str],
    fingerprints: Sequence[str],
    fingerprint_base: Base | None,
    url: str,
    scope: str | None,
    consent: Consent,
    output: Output,
) -> None:
    """Remove documents or fingerprints from the mute list.

    Those that are not on it are ignored. Asks before it removes more than half of the entries, or all of
    fewer than ten; without a terminal it then needs --yes.
    """
    _require_names(ids, fingerprints)
    values = typed_fingerprints(fingerprints, fingerprint_base)
    from simhbase.admin.removal import Removal
    from simhbase.index import open_index

    with open_index(url, access="read" if consent.dry_run else "write", scope=scope) as index:
        muted = index.muted()
        going = [each for each in muted if each.id in ids or each.fingerprint in values]
        if consent.dry_run:
            output.summary({"would_remove": len(going), "muted": len(muted)})
            return
        consent.require(Removal(len(going), len(muted), "muted entries", index.store.url))
        removed = index.unmute(ids, values)
        output.summary({"removed": removed, "muted": len(index.muted())})


@mute.command("list")
@store_option
@scope_option
@json_option
def list_(url: str, scope: str | None, output: Output) -> None:
    """List muted documents and fingerprints, oldest first."""
    from simhbase.index import open_index

    with open_index(url, access="read", scope=scope) as index:
        entries = index.muted()
    output.rows(entries)
    if not entries:
        output.hint("nothing is muted")


def _require_names(ids: Sequence[str], fingerprints: Sequence[str]) -> None:
    if not ids and not fingerprints:
        raise UsageError("give ids or --fingerprint")
