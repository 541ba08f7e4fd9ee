"""How many rows the drawers of a layout have, and which layout has few enough."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, comb

from simhbase.drawers.layout import MAX_TABLES, SEGMENT_BITS, Layout, layout


def drawer_rows(documents: int, tables: Layout) -> float:
    """Average rows per drawer, for the largest kind of drawers, with evenly distributed fingerprints."""
    fewest = min(sum(run.width for run in runs) for runs in tables.tables)
    return documents / 2.0 ** min(fewest, SEGMENT_BITS)


def oversized_drawers(documents: int, tables: Layout, limit: int) -> str | None:
    """A warning if drawers would exceed the limit of lookups, with a better layout."""
    rows = drawer_rows(documents, tables)
    if rows <= limit:
        return None
    fitting = (each for each in _reaching(tables) if drawer_rows(documents, each) <= limit)
    instead = next(
        (f": take layout {each.name}, with {ceil(drawer_rows(documents, each)):,}" for each in fitting),
        ", and no other layout has smaller ones: split the documents into several indexes",
    )
    return (
        f"layout {tables.name} has {ceil(rows):,} rows a drawer with {documents:,} documents, and lookups "
        f"read {limit:,} of them{instead}"
    )


def _reaching(tables: Layout) -> Iterable[Layout]:
    """Layouts with the same guarantee, those with fewer rows per document first."""
    blocks = range(tables.guarantee + 1, tables.bits + 1)
    return (
        layout(f"{number}x{number - tables.guarantee}", tables.bits)
        for number in blocks
        if comb(number, tables.guarantee) <= MAX_TABLES
    )
