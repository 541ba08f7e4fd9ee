"""Estimates the size of an index: bytes and regions of tables."""

from __future__ import annotations

from dataclasses import dataclass

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
