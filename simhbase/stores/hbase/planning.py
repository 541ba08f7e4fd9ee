"""How large an index becomes: bytes and regions of its tables, rows of its drawers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, comb

from simhbase.drawers.layout import MAX_TABLES, SEGMENT_BITS, Layout, layout
from simhbase.drawers.rowkeys import KEY_BYTES
from simhbase.stores.hbase.schema import MOST_REGIONS

REGION_BYTES = 5 << 30  # half of where HBase splits by itself (hbase.hregion.max.filesize)
ID_BYTES = 24  # of an id, as news has them
# Of a row beside its key and its value, with FAST_DIFF and bloom filters: 5 to 6 bytes were measured where
# all rows were written within a minute; times that are further apart take 2 more.
ROW_BYTES = 8
_FINGERPRINT_BYTES = 8
_DOCUMENT_BYTES = 4 + ID_BYTES + _FINGERPRINT_BYTES + 1  # hash and id; fingerprint and state
_OBSOLETE_BYTES = 1 + 8 + _FINGERPRINT_BYTES + ID_BYTES
_CHANGED = 1 / 4  # of the documents change before `vacuum` has been there, at most


@dataclass(frozen=True, slots=True)
class Content:
    """What an index is to hold: documents, each in so many drawers, with sketches of so many bytes."""

    documents: int
    drawers: int
    sketch_bytes: int = 0

    def table_bytes(self) -> dict[str, int]:
        """Bytes of each table but meta, as stored and before any compression."""
        rows = {
            "index": self.drawers * (KEY_BYTES + ROW_BYTES),
            "fingerprints": _FINGERPRINT_BYTES + ID_BYTES + self.sketch_bytes + ROW_BYTES,
            "documents": _DOCUMENT_BYTES + ROW_BYTES,
            "obsolete": _CHANGED * (_OBSOLETE_BYTES + ROW_BYTES),
        }
        return {table: int(self.documents * size) for table, size in rows.items()}

    def regions(self) -> dict[str, int]:
        """How many regions each of these tables should begin with."""
        return {
            table: min(max(-(-size // REGION_BYTES), 1), MOST_REGIONS)
            for table, size in self.table_bytes().items()
        }


def drawer_rows(documents: int, tables: Layout) -> float:
    """How many rows the largest kind of drawers holds, on average, where fingerprints are spread evenly."""
    fewest = min(sum(run.width for run in runs) for runs in tables.tables)
    return documents / 2.0 ** min(fewest, SEGMENT_BITS)


def oversized_drawers(documents: int, tables: Layout, limit: int) -> str | None:
    """That drawers would hold more rows than lookups read, in words, with the layout to take instead."""
    rows = drawer_rows(documents, tables)
    if rows <= limit:
        return None
    fitting = (each for each in _reaching(tables) if drawer_rows(documents, each) <= limit)
    instead = next(
        (f": take layout {each.name}, with {ceil(drawer_rows(documents, each)):,}" for each in fitting),
        ", nor has any other layout smaller ones: part the documents among several indexes",
    )
    return (
        f"layout {tables.name} has {ceil(rows):,} rows a drawer with {documents:,} documents, and lookups "
        f"read {limit:,} of them{instead}"
    )


def _reaching(tables: Layout) -> Iterable[Layout]:
    """Layouts with the same guarantee, those with fewer rows a document first."""
    blocks = range(tables.guarantee + 1, tables.bits + 1)
    return (
        layout(f"{number}x{number - tables.guarantee}", tables.bits)
        for number in blocks
        if comb(number, tables.guarantee) <= MAX_TABLES
    )
