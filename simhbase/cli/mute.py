"""`simhbase mute`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import click

from simhbase.cli.options import converted, moment_to_come, store_option
from simhbase.cli.output import Output, json_option
from simhbase.cli.queries import fingerprints_of
from simhbase.errors import UsageError
from simhbase.index import open_index

_ids_argument = click.argument("ids", nargs=-1, metavar="[ID]...")


def _fingerprints_option(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "--fingerprint",
        "fingerprints",
        callback=converted(fingerprints_of),
        multiple=True,
        metavar="HEX",
        help=text,
    )


@click.group()
def mute() -> None:
    """Keep documents from being matches for a time, and list which.

    What is on a store's mute list stays stored, and is left out of what lookups find. Nothing is a duplicate
    of it, either: claims and load --unique-only accept texts near it. Processes that have the store open
    follow within five seconds.
    """


@mute.command(short_help="Put documents or fingerprints on the mute list.")
@_ids_argument
@_fingerprints_option("Mute all documents of this fingerprint, those that come later too; may be repeated.")
@click.option(
    "--until",
    metavar="TIME",
    callback=converted(moment_to_come),
    help="When it ends: so many s, m (minutes), h, d or w from now, as 30d, or a date as 2030-01-31. "
    "[default: never]",
)
@click.option("--note", default="", metavar="TEXT", help="Why, for those who read the list.")
@store_option
@json_option
def add(
    ids: Sequence[str],
    fingerprints: Sequence[int],
    until: datetime | None,
    note: str,
    url: str,
    output: Output,
) -> None:
    """Put documents or fingerprints on the mute list.

    An id need not be stored yet. What is on the list already gets the new end and note.
    """
    _require_names(ids, fingerprints)
    with open_index(url) as index:
        added = index.mute(ids, fingerprints, until, note)
        output.summary({"added": added, "muted": len(index.muted())})


@mute.command(short_help="Take documents or fingerprints off the mute list.")
@_ids_argument
@_fingerprints_option("A fingerprint that is muted; may be repeated.")
@store_option
@json_option
def remove(ids: Sequence[str], fingerprints: Sequence[int], url: str, output: Output) -> None:
    """Take documents or fingerprints off the mute list.

    What is not on it does no harm.
    """
    _require_names(ids, fingerprints)
    with open_index(url) as index:
        removed = index.unmute(ids, fingerprints)
        output.summary({"removed": removed, "muted": len(index.muted())})


@mute.command("list")
@store_option
@json_option
def list_(url: str, output: Output) -> None:
    """List what is muted, the oldest entries first."""
    with open_index(url, access="read") as index:
        entries = index.muted()
    output.rows(entries)
    if not entries:
        output.end("nothing is muted")


def _require_names(ids: Sequence[str], fingerprints: Sequence[int]) -> None:
    if not ids and not fingerprints:
        raise UsageError("nothing was named: give ids or --fingerprint")
