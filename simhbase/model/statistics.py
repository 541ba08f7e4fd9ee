"""Size and contents of an index. See values.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simhbase.model.values import Size


@dataclass(frozen=True, slots=True)
class DrawerStats:
    """Rows in the drawers of a sample of stored fingerprints, that is, what a lookup of a stored document
    reads. Large drawers are overrepresented compared with all drawers.

    sampled: number of drawers; mean_rows: None if there are none; over_limit: drawers with more rows than
    lookups read.
    """

    sampled: int
    mean_rows: float | None
    largest_rows: int
    over_limit: int


@dataclass(frozen=True, slots=True)
class Stats:
    """Size and contents of an index.

    fingerprints: distinct ones; index_rows: rows in drawers. exact: every row was counted; estimates: names
    of the values that are the store's estimates, always including bytes. Embedded stores count a rewritten
    row twice until RocksDB compacts. ranges: (least, most) of estimated counts, 95 % of the time; not where
    the store does not say how far it may be off. table_estimates: rows and bytes by table. operations:
    `Index.counters` since the index was opened, and `Index.gauges`.
    """

    documents: int
    fingerprints: int
    index_rows: int
    exact: bool
    estimates: tuple[str, ...]
    ranges: Mapping[str, tuple[int, int]]
    bytes: int
    bytes_per_document: float | None
    table_estimates: Mapping[str, Size]
    drawers: DrawerStats
    operations: Mapping[str, int]
