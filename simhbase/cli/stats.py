"""`simhbase stats`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click
import numpy as np

from simhbase import records
from simhbase.cli.options import store_option
from simhbase.cli.output import Output, json_option
from simhbase.cli.tables import sizes
from simhbase.index import Index, open_index
from simhbase.prints import Prints
from simhbase.reader import DRAWER_LIMIT
from simhbase.rowkeys import PREFIX_BYTES
from simhbase.sketches import stored_sketches

COUNTS = ("documents", "fingerprints", "index_rows")


@dataclass(frozen=True)
class _Counts:
    documents: int
    fingerprints: int
    index_rows: int


@click.command()
@store_option
@click.option("--exact", is_flag=True, help="Count every row instead of taking the store's estimates.")
@json_option
def stats(url: str, exact: bool, output: Output) -> None:
    """Count documents, index rows and bytes of a store.

    Bytes are always an estimate. Drawers are those of some stored fingerprints, spread evenly: what
    a lookup of a stored document reads. Large ones come up more often than among all drawers.
    """
    with open_index(url, access="read") as index:
        counts = _counted(index) if exact else _estimated(index)
        size = sum(size.bytes for _, size in sizes(index.store))
        output.summary(
            {
                "documents": counts.documents,
                "fingerprints": counts.fingerprints,
                "index_rows": counts.index_rows,
                "exact": exact,
                "estimates": [*(() if exact else COUNTS), "bytes", "bytes_per_document"],
                "bytes": size,
                "bytes_per_document": round(size / counts.documents, 1) if counts.documents else None,
                "profile": {
                    name: value
                    for name, value in index.profile.describe().items()
                    if name
                    in (
                        "scheme",
                        "bits",
                        "layout",
                        "k",
                        "bands",
                        "threshold",
                        "slots",
                        "features",
                        "weights",
                        "top",
                    )
                },
                "drawers": _drawers(index),
            }
        )


def _estimated(index: Index) -> _Counts:
    rows = {name: size.rows for name, size in sizes(index.store)}
    return _Counts(rows["documents"], round(rows["index"] / index.profile.filing.tables), rows["index"])


def _counted(index: Index) -> _Counts:
    store = index.store
    fingerprints = 0
    last = None
    for batch in store.records("fingerprints").iterate():
        for key, _ in batch:
            listing = records.parse_listing(key)
            if listing and listing[0] != last:
                last = listing[0]
                fingerprints += 1
    return _Counts(
        documents=sum(map(len, store.records("documents").iterate())),
        fingerprints=fingerprints,
        index_rows=sum(map(len, store.drawers.iterate())),
    )


def _drawers(index: Index) -> dict[str, Any]:
    """Rows in the drawers of a sample: the first fingerprint of each leading byte."""
    firsts = index.store.records("fingerprints").scan([bytes([first]) for first in range(256)], limit=1)
    found = [int.from_bytes(key[:8]) for rows in firsts for key, _ in rows]
    fingerprints = np.array(found, dtype=np.uint64)
    prints, form = Prints.bare(fingerprints), index.profile.form
    if form is not None:
        sketches, there = stored_sketches(index.store, found, form)
        prints = Prints(fingerprints, sketches)[there]
    places = index.profile.filing.prefixes(prints).reshape(-1, PREFIX_BYTES)
    rows = index.store.drawers.read(places, DRAWER_LIMIT)
    lengths = np.diff(rows.offsets)
    return {
        "sampled": len(lengths),
        "mean_rows": round(float(lengths.mean()), 2) if len(lengths) else None,
        "largest_rows": int(lengths.max(initial=0)),
        "over_limit": int(rows.truncated.sum()),
    }
