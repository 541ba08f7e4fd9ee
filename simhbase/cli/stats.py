"""`simhbase stats`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from simhbase.cli.options import command, converted, option, part, scope_option, store_option
from simhbase.cli.output import Output, json_option
from simhbase.errors import UsageError
from simhbase.process.progress import show_progress

if TYPE_CHECKING:
    from simhbase.index.part import Part


@command()
@store_option
@scope_option
@option("--exact", "Count every row instead of using estimates.")
@option(
    "--hot N",
    "List the N fingerprints with most documents, and the N largest drawers.",
    name="most",
    type=click.IntRange(min=1),
)
@option("--part I/N", "With --hot: read only part I of N.", callback=converted(part))
@json_option
def stats(
    url: str, scope: str | None, exact: bool, most: int | None, part: Part | None, output: Output
) -> None:
    """Count documents, index rows and bytes of a store.

    Bytes are estimates; so are row counts of large stores, without --exact. Drawer sizes come from a sample
    of lookups, in which large drawers are overrepresented.

    --hot reads all rows, including obsolete ones. 'simhbase tables describe' shows the profile.
    """
    from simhbase.admin import Administrator
    from simhbase.index import open_index
    from simhbase.index.part import WHOLE

    if part is not None and most is None:
        raise UsageError("--part needs --hot: other figures are for the whole store")
    with open_index(url, access="read", scope=scope) as index:
        found = asdict(Administrator(index).stats(exact))
        if most is not None:
            hot = Administrator(index).hot(most, part=part or WHOLE, progress=show_progress)
            found["hot_fingerprints"] = [
                {
                    **({} if each.scope is None else {"scope": each.scope}),
                    "fingerprint": f"{each.fingerprint:016x}",
                    "documents": each.documents,
                }
                for each in hot.fingerprints
            ]
            found["hot_drawers"] = [
                {"flag": each.flag, "prefix": each.prefix.hex(), "rows": each.rows} for each in hot.drawers
            ]
    output.summary(found)
