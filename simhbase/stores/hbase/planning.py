"""Estimates the size of an index: bytes and regions of tables, rows per drawer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, comb

from simhbase.drawers.layout import MAX_TABLES, SEGMENT_BITS, Layout, layout
from simhbase.drawers.rowkeys import KEY_BYTES
from simhbase.drawers.scheme import Scheme
from simhbase.stores.hbase.schema import MOST_REGIONS

REGION_BYTES = 5 << 30  # half of where HBase splits by itself (hbase.hregion.max.filesize)
ID_BYTES = 24  # of an id, as news has them
# Per row, in addition to key and value, with FAST_DIFF and Bloom filters: 5 to 6 bytes were measured for rows
# written within a minute; timestamps further apart take 2 more.
ROW_BYTES = 8
_FINGERPRINT_BYTES = 8
_DOCUMENT_BYTES = 4 + ID_BYTES + _FINGERPRINT_BYTES + 1  # hash and id; fingerprint and state
_OBSOLETE_BYTES = 1 + 8 + _FINGERPRINT_BYTES + ID_BYTES
_CHANGED = 1 / 4  # maximum share of documents that change between two vacuums


@dataclass(frozen=True, slots=True)
class Content:
    """The expected content of an index: documents, drawers per document, bytes per sketch. listed: sketches
    are in fingerprints (minhash), not in documents."""

    documents: int
    drawers: int
    sketch_bytes: int = 0
    listed: bool = False

    @classmethod
    def of(cls, documents: int, scheme: Scheme) -> Content:
        sketch_bytes = scheme.sketching.bytes if scheme.sketching else 0
        return cls(documents, scheme.tables, sketch_bytes, scheme.listed_sketching is not None)

    def table_bytes(self) -> dict[str, int]:
        """Uncompressed bytes of each table except meta."""
        in_fingerprints, in_documents = (self.sketch_bytes, 0) if self.listed else (0, self.sketch_bytes)
        rows = {
            "index": self.drawers * (KEY_BYTES + ROW_BYTES),
            "fingerprints": _FINGERPRINT_BYTES + ID_BYTES + in_fingerprints + ROW_BYTES,
            "documents": _DOCUMENT_BYTES + in_documents + ROW_BYTES,
            "obsolete": _CHANGED * (_OBSOLETE_BYTES + ROW_BYTES),
        }
        return {table: int(self.documents * size) for table, size in rows.items()}

    def regions(self) -> dict[str, int]:
        """Initial number of regions of each of these tables."""
        return {
            table: min(max(-(-size // REGION_BYTES), 1), MOST_REGIONS)
            for table, size in self.table_bytes().items()
        }


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
