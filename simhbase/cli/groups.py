"""`simhbase groups`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

import click

from simhbase.cli.options import command, option, scope_option, since_option, store_option, tag_option
from simhbase.cli.output import Output, closeness, local_time, message, results_option, times_met
from simhbase.model.groups import Group
from simhbase.model.moment import since_epoch
from simhbase.process.progress import show_progress

if TYPE_CHECKING:
    from simhbase.admin.spooled import OfStored


@command(
    epilog="""\b
Examples:
  simhbase groups --min-size 10
  simhbase groups --tag source=wire --json > groups.jsonl
""",
)
@store_option
@scope_option
@option(
    "--min-size N",
    "Only groups of at least N documents.",
    group="Groups",
    type=click.IntRange(min=2),
    default=2,
)
@option(
    "--chains/--no-chains",
    "Group chains of matches, instead of one document and its matches.",
    group="Groups",
    default=False,
)
@since_option("Documents")
@tag_option("Only documents with this tag. Repeatable: with all of them.", "Documents")
@results_option
def groups(
    url: str,
    scope: str | None,
    min_size: int,
    chains: bool,  # an option
    since: datetime | None,
    tags: Mapping[str, str],
    output: Output,
) -> None:
    """Group the near-duplicates among the documents of a store.

    A group is the document that was stored first and all that a lookup of it finds, without those of earlier
    groups. Prints the groups, largest first, and the documents of each, nearest first. Reads all documents.
    If the store counts refused claims, prints how many ids were refused because of the first document.
    """
    from simhbase.admin import Administrator
    from simhbase.drawers.groups import LOOKS
    from simhbase.index import open_index

    with (
        open_index(url, access="read", scope=scope) as index,
        Administrator(index).groups(
            min_size, since=since, tags=tags, chains=chains, progress=show_progress
        ) as found,
    ):
        groups = f"{len(found):,} group{'s' * (len(found) != 1)}"
        tell(
            found,
            f"{found.documents:,} documents: {groups}, with {found.duplicates:,} beside the first of each",
        )
        if found.truncated:
            message(
                f"truncated: {found.truncated:,}, which share drawers with very many that they are not near "
                f"to, and were compared with {LOOKS:,} of these. They may belong to a group"
            )
        output.records(found, _lines)


def tell(found: OfStored, result: str) -> None:
    """Say what was found, and what may be missing."""
    since = local_time(since_epoch(found.read_at))
    message(f"{result}. What was written since {since} may be missing")
    if found.muted:
        message(f"left out because they are muted: {found.muted:,}")
    if found.lost_sketches:
        message(
            "left out because their sketch is lost ('simhbase check' names them), or was replaced meanwhile: "
            f"{found.lost_sketches:,}"
        )


def _lines(group: Group) -> Iterator[str]:
    yield f"{group.size:,} documents  {times_met(group.met)}{group.group}"
    for member in group.members:
        yield f"  {closeness(member.distance, member.similarity)}  {member.id}"
