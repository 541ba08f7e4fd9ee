"""`simhbase stats`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from simhbase.admin import Administrator
from simhbase.admin.hot import Hot
from simhbase.cli.options import store_option
from simhbase.cli.output import Output, json_option
from simhbase.cli.parts import part_option
from simhbase.cli.progress import progress
from simhbase.errors import UsageError
from simhbase.index import open_index
from simhbase.index.part import WHOLE, Part


@click.command()
@store_option
@click.option("--exact", is_flag=True, help="Count every row instead of taking the store's estimates.")
@click.option(
    "--hot",
    "most",
    type=click.IntRange(min=1),
    metavar="N",
    help="Name the N fingerprints with the most documents and the N drawers with the most rows.",
)
@part_option("With --hot: read the I-th of N equal parts of the tables alone.")
@json_option
def stats(url: str, exact: bool, most: int | None, part: Part | None, output: Output) -> None:
    """Count documents, index rows and bytes of a store.

    Bytes are estimates. The sizes of drawers are those of a sample: the drawers of some stored fingerprints,
    as a lookup of a stored document reads them. A large drawer is more often among them than a small one.

    In an embedded store the numbers of rows are estimates, too: a row that was written twice (a fingerprint
    that several documents have, a document that moved) counts twice until RocksDB compacts its files.
    --exact counts every row.

    --hot reads every row, or every row of a part, and counts what `simhbase vacuum` has not removed yet, too.

    'simhbase tables describe' shows the profile, and how HBase keeps the tables.
    """
    if part is not None and most is None:
        raise UsageError("--part goes with --hot: the other numbers are those of the whole store")
    with open_index(url, access="read") as index:
        found = asdict(Administrator(index).stats(exact))
        if most is not None:
            found |= _hot(Administrator(index).hot(most, part=part or WHOLE, progress=progress))
    output.summary(found)


def _hot(found: Hot) -> dict[str, Any]:
    return {
        "hot_fingerprints": [
            {"fingerprint": f"{each.fingerprint:016x}", "documents": each.documents}
            for each in found.fingerprints
        ],
        "hot_drawers": [
            {"flag": each.flag, "prefix": each.prefix.hex(), "rows": each.rows} for each in found.drawers
        ],
    }
