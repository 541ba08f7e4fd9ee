"""Fingerprints of documents filed in drawers in memory, so that others can be looked up among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simhbase.filing import Bounds, Distances, Filing
from simhbase.pairs import distinct
from simhbase.prints import Prints
from simhbase.quality.jaccard import lots, ranges
from simhbase.rowkeys import segments_of

LOT_ROWS = 1 << 20  # members of drawers compared at once
FILED_AT_ONCE = 1 << 14
_POSITION_BITS = np.uint64(32)
_POSITION = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, slots=True)
class Hits:
    """Documents near some queries: query and document int64 (m,), every pair once; the document's
    fingerprint uint64 (m,) and distance (m,).

    truncated: int64 (t,), the queries to which a fingerprint is near that has more documents than were
    asked for.
    """

    query: NDArray[np.int64]
    document: NDArray[np.int64]
    fingerprint: NDArray[np.uint64]
    distance: Distances
    truncated: NDArray[np.int64]

    def where(self, chosen: NDArray[np.bool_]) -> Hits:
        """Some of them: bool (m,)."""
        return Hits(
            self.query[chosen],
            self.document[chosen],
            self.fingerprint[chosen],
            self.distance[chosen],
            self.truncated,
        )


class Filed:
    """The fingerprints of n documents in the drawers of a filing: 8 bytes a drawer, beside the prints.

    Only distinct fingerprints are filed, so that a page copied a hundred thousand times is compared once.
    """

    def __init__(self, prints: Prints, filing: Filing) -> None:
        values = distinct(prints.values)
        n = len(values.values)
        self._filing = filing
        self._prints = prints[values.first]
        self._documents = np.argsort(values.inverse, kind="stable")
        self._starts = np.searchsorted(values.inverse[self._documents], np.arange(n + 1))
        # Segment and position share one uint64, which NumPy sorts several times faster than positions.
        self._drawers = np.empty((filing.tables, n), dtype=np.uint64)
        for start in range(0, n, FILED_AT_ONCE):
            part = self._prints[start : start + FILED_AT_ONCE]
            positions = np.arange(start, start + len(part), dtype=np.uint64)
            self._drawers[:, start : start + len(part)] = self._named(part).T | positions
        self._drawers.sort(axis=1)

    def near(self, prints: Prints, bounds: Bounds, most: int) -> Iterator[Hits]:
        """The documents near each of q texts, all of one query in one lot, and the lots in order of the
        queries; of each fingerprint the first `most` documents."""
        named = self._named(prints)
        first, end = np.empty(named.shape, dtype=np.int64), np.empty(named.shape, dtype=np.int64)
        for table, drawer in enumerate(self._drawers):
            first[:, table] = np.searchsorted(drawer, named[:, table])
            end[:, table] = np.searchsorted(drawer, named[:, table] | _POSITION, side="right")
        counts = end - first
        first += np.arange(self._filing.tables) * self._drawers.shape[1]
        for lot in lots(counts.sum(axis=1), LOT_ROWS):
            members = self._drawers.ravel()[ranges(first[lot].ravel(), counts[lot].ravel())] & _POSITION
            query = np.repeat(np.arange(lot.start, lot.stop), counts[lot].sum(axis=1))
            yield self._listed(*self._within(prints, query, members.astype(np.int64), bounds), most)

    def _named(self, prints: Prints) -> NDArray[np.uint64]:
        """The drawers' segments, above room for a position: uint64 (n, tables)."""
        return segments_of(self._filing.prefixes(prints)).astype(np.uint64) << _POSITION_BITS

    def _within(
        self, prints: Prints, query: NDArray[np.int64], member: NDArray[np.int64], bounds: Bounds
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], Distances]:
        """Those members of drawers that are near, with their distances; one that shares several drawers
        with a query once."""
        bits = self._filing.bits_apart(self._prints.values[member], prints.values[query])
        near = np.flatnonzero(bits <= bounds.bits)
        order = near[np.lexsort((member[near], query[near]))]
        query, member, bits = query[order], member[order], bits[order]
        new = np.ones(len(order), dtype=np.bool_)
        new[1:] = (np.diff(query) != 0) | (np.diff(member) != 0)
        query, member, bits = query[new], member[new], bits[new]
        form = self._filing.form
        if form is None:
            return query, member, bits
        compared = prints.sketches, query, self._prints.sketches, member
        unequal = form.unequal_among(*compared)
        similar = unequal <= bounds.most_unequal(form, *compared)
        distance = self._filing.distances(bits, unequal)
        return query[similar], member[similar], distance[similar]

    def _listed(
        self, query: NDArray[np.int64], member: NDArray[np.int64], distance: Distances, most: int
    ) -> Hits:
        counts = self._starts[member + 1] - self._starts[member]
        taken = np.minimum(counts, most)
        repeated = np.repeat(np.arange(len(member)), taken)
        return Hits(
            query[repeated],
            self._documents[ranges(self._starts[member], taken)],
            self._prints.values[member[repeated]],
            distance[repeated],
            np.unique(query[counts > most]),
        )
