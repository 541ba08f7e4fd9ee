"""Fingerprints -> drawers -> candidates -> matches; one read of the drawers for a whole batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simhbase import records
from simhbase.errors import UsageError
from simhbase.hamming import distance
from simhbase.layout import Layout
from simhbase.model import Lookup, Match
from simhbase.rowkeys import PREFIX_BYTES, prefixes
from simhbase.stores.base import Store

DRAWER_LIMIT = 10_000
IDS_LIMIT = 1_000


@dataclass(frozen=True)
class Near:
    """Stored fingerprints near n queries.

    query: int64 (m,) ascending; fingerprint: uint64 (m,); distance: uint8 (m,); every pair of query
    and fingerprint once. truncated: bool (n,), true where a drawer was not read to its end.
    """

    query: NDArray[np.int64]
    fingerprint: NDArray[np.uint64]
    distance: NDArray[np.uint8]
    truncated: NDArray[np.bool_]


@dataclass(frozen=True)
class Reader:
    """Looks fingerprints up in one store.

    drawer_limit: rows read of one drawer at most, None for all; ids_limit: documents listed of one
    fingerprint at most. A lookup that met either says `truncated`.
    """

    store: Store
    layout: Layout
    drawer_limit: int | None = DRAWER_LIMIT
    ids_limit: int = IDS_LIMIT

    def find(self, fingerprints: NDArray[np.uint64], k: int) -> list[Lookup]:
        """The documents within k bits of each of n fingerprints. Raises UsageError for a k above
        the layout's guarantee."""
        near = self.near(fingerprints, k)
        queries = fingerprints.tolist()
        if not len(near.query):
            return [
                Lookup(query, (), cut) for query, cut in zip(queries, near.truncated.tolist(), strict=True)
            ]
        documents, more = self._documents(near)
        return [
            Lookup(query, tuple(sorted(documents.get(number, {}).values())), cut or number in more)
            for number, (query, cut) in enumerate(zip(queries, near.truncated.tolist(), strict=True))
        ]

    def near(self, fingerprints: NDArray[np.uint64], k: int) -> Near:
        """The fingerprints in the index within k bits of each of n; they may have no documents."""
        if not 0 <= k <= self.layout.guarantee:
            raise UsageError(
                f"k = {k} is out of range: layout {self.layout.name} finds every pair within "
                f"{self.layout.guarantee} bits, so k is from 0 to {self.layout.guarantee}"
            )
        tables = len(self.layout.tables)
        rows = self.store.drawers.read(
            prefixes(fingerprints, self.layout).reshape(-1, PREFIX_BYTES), self.drawer_limit
        )
        truncated = np.logical_or.reduce(rows.truncated.reshape(-1, tables), axis=1)
        query = np.repeat(np.arange(len(fingerprints)), np.diff(rows.offsets[::tables]))
        distances = distance(rows.fingerprints, fingerprints[query])
        within = np.flatnonzero(distances <= k)
        return _once(Near(query[within], rows.fingerprints[within], distances[within], truncated))

    def _documents(self, near: Near) -> tuple[dict[int, dict[str, Match]], set[int]]:
        """Per query its matches by id, nearest first, and the queries whose ids were cut."""
        fingerprints = near.fingerprint.tolist()
        distinct = list(dict.fromkeys(fingerprints))
        scanned = self.store.records("fingerprints").scan(
            list(map(records.listing_prefix, distinct)), self.ids_limit + 1
        )
        listings = dict(zip(distinct, scanned, strict=True))
        found: dict[int, dict[str, Match]] = {}
        more = set()
        for number, fingerprint, bits in zip(
            near.query.tolist(), fingerprints, near.distance.tolist(), strict=True
        ):
            rows = listings[fingerprint]
            if len(rows) > self.ids_limit:
                more.add(number)
            matches = found.setdefault(number, {})
            for key, _ in rows[: self.ids_limit]:
                match = Match(bits, records.listing_id(key), fingerprint)
                # In the middle of a move a document is listed twice: its nearer fingerprint counts.
                if match.id not in matches or match < matches[match.id]:
                    matches[match.id] = match
        return found, more


def _once(near: Near) -> Near:
    """Every fingerprint once a query: the same one comes back from several drawers."""
    if len(near.query) < 2:
        return near
    order = np.lexsort((near.fingerprint, near.query))
    query, fingerprint = near.query[order], near.fingerprint[order]
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = (query[1:] != query[:-1]) | (fingerprint[1:] != fingerprint[:-1])
    return Near(query[first], fingerprint[first], near.distance[order][first], near.truncated)
