"""An index in memory, to look fingerprints up among n documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhbase._core import SortedDrawers
from simhbase.drawers.join import distinct
from simhbase.drawers.rowkeys import FLAG, segments_of
from simhbase.drawers.scheme import Bounds, Distances, Scheme
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.process.slices import bounded_slices, ranges

CHUNK_ROWS = 1 << 20  # members of drawers compared at once
INDEXED_AT_ONCE = 1 << 14
_POSITION_BITS, _POSITION = 32, 0xFFFFFFFF


class Limits(NamedTuple):
    """Maximum numbers. drawer: fingerprints read of a drawer, the first, None for all; listed: documents of a
    fingerprint, the first; matches: documents of a query, the nearest, and of equally near ones the first."""

    drawer: int | None
    listed: int
    matches: int


@dataclass(frozen=True, slots=True)
class Hits:
    """Documents near some queries. query, document: int64 (m,), each pair once; fingerprint (of the
    document): uint64 (m,); distance: (m,).

    truncated: int64 (t,), queries near more documents than these.
    """

    query: NDArray[np.int64]
    document: NDArray[np.int64]
    fingerprint: NDArray[np.uint64]
    distance: Distances
    truncated: NDArray[np.int64]

    def where(self, chosen: NDArray[np.bool_]) -> Hits:
        return Hits(
            self.query[chosen],
            self.document[chosen],
            self.fingerprint[chosen],
            self.distance[chosen],
            self.truncated,
        )


class MemoryIndex:
    """The fingerprints of n documents in the drawers of a scheme. Takes 8 bytes per drawer beside the
    fingerprints.

    Only distinct fingerprints are indexed, so a page copied a hundred thousand times is compared once.
    """

    def __init__(self, fingerprints: FingerprintBatch, scheme: Scheme) -> None:
        values = distinct(fingerprints.values)
        n = len(values.first)
        self._scheme = scheme
        self._fingerprints = fingerprints[values.first]
        self._documents = np.argsort(values.inverse, kind="stable")
        self._starts = np.searchsorted(values.inverse[self._documents], np.arange(n + 1))
        self._drawers = SortedDrawers(scheme.tables, n)
        for start in range(0, n, INDEXED_AT_ONCE):
            part = self._fingerprints[start : start + INDEXED_AT_ONCE]
            self._drawers.put(start, np.ascontiguousarray(segments_of(scheme.prefixes(part))))
        for table in range(scheme.tables):
            self._drawers.sort(table)

    def near(self, fingerprints: FingerprintBatch, bounds: Bounds, limits: Limits) -> Iterator[Hits]:
        """Documents near each of q texts, in chunks ordered by query; a query is never split."""
        if not len(fingerprints):
            return
        probes = self._scheme.probes(fingerprints)
        segments, tables = np.ascontiguousarray(segments_of(probes)), (probes[0, :, FLAG] - 1).tolist()
        first = 0
        while first < len(fingerprints):
            found, first = self._drawers.near(
                segments, tables, limits.drawer, self._compared(fingerprints, bounds), first, CHUNK_ROWS
            )
            query, member, full = (np.frombuffer(column, dtype=np.int64) for column in found)
            if len(full):
                query, member = self._with_equal(fingerprints.values, query, member, full)
            yield from self._listed(*self._within(fingerprints, query, member, bounds), full, limits)

    def _compared(
        self, fingerprints: FingerprintBatch, bounds: Bounds
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint64], int] | None:
        """Fingerprints of which a few bits differ; None: those of similar texts are unrelated."""
        if self._scheme.layout is None:
            return None
        return self._fingerprints.values, np.ascontiguousarray(fingerprints.values), bounds.bits

    def _with_equal(
        self,
        values: NDArray[np.uint64],
        query: NDArray[np.int64],
        member: NDArray[np.int64],
        full: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Adds fingerprints equal to those of queries whose drawers were not read to the end."""
        equal, which = self._equal(values[full])
        both = np.union1d(_paired(query, member), _paired(full[which], equal))
        return both >> _POSITION_BITS, both & _POSITION

    def _equal(self, values: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Fingerprints equal to those of queries whose drawers were not read to the end, and to which."""
        if not len(values):
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        stored = self._fingerprints.values
        found = np.searchsorted(stored, values, sorter=self._by_value)
        equal = self._by_value[np.minimum(found, len(stored) - 1)]
        which = np.flatnonzero(stored[equal] == values)
        return equal[which], which

    @cached_property
    def _by_value(self) -> NDArray[np.int64]:
        return np.argsort(self._fingerprints.values)

    def _within(
        self,
        fingerprints: FingerprintBatch,
        query: NDArray[np.int64],
        member: NDArray[np.int64],
        bounds: Bounds,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], Distances]:
        """Members of drawers near by their bits: those near by their sketches, too, with their distances."""
        bits = self._scheme.bits_apart(self._fingerprints.values[member], fingerprints.values[query])
        sketching = self._scheme.sketching
        if sketching is None:
            return query, member, bits
        compared = fingerprints.sketches, query, self._fingerprints.sketches, member
        mismatches, similar = bounds.verified(sketching, *compared)
        distance = self._scheme.distances(bits, mismatches)
        return query[similar], member[similar], distance[similar]

    def _listed(
        self,
        query: NDArray[np.int64],
        member: NDArray[np.int64],
        distance: Distances,
        full: NDArray[np.int64],
        limits: Limits,
    ) -> Iterator[Hits]:
        """full: queries whose drawers have more."""
        nearest, crowded = _nearest(query, distance, self._documents[self._starts[member]], limits.matches)
        query, member, distance = query[nearest], member[nearest], distance[nearest]
        counts = self._starts[member + 1] - self._starts[member]
        # Of each fingerprint one document beyond the limit of queries, which says that there are more.
        taken = np.minimum(counts, min(limits.listed, limits.matches + 1))
        if len(more := _either(full, crowded)):
            yield Hits(query[:0], member[:0], self._fingerprints.values[:0], distance[:0], more)
        ends = np.flatnonzero(np.diff(query, append=-1)) + 1
        of_query = np.diff(np.cumsum(taken)[ends - 1], prepend=0)
        starts = np.append(0, ends)
        for some in bounded_slices(of_query, CHUNK_ROWS):
            part = slice(starts[some.start], starts[some.stop])
            repeated = np.repeat(np.arange(part.start, part.stop), taken[part])
            document = self._documents[ranges(self._starts[member[part]], taken[part])]
            chosen, cut = _nearest(query[repeated], distance[repeated], document, limits.matches)
            repeated, document = repeated[chosen], document[chosen]
            longer = query[part][counts[part] > limits.listed]
            yield Hits(
                query[repeated],
                document,
                self._fingerprints.values[member[repeated]],
                distance[repeated],
                _either(longer, cut),
            )


def _nearest(
    query: NDArray[np.int64], distance: Distances, document: NDArray[np.int64], most: int
) -> tuple[NDArray[np.int64] | slice, NDArray[np.int64]]:
    """Positions of the nearest documents of each query (ascending; a slice of all), and the queries that have
    more."""
    rank = np.arange(len(query)) - np.searchsorted(query, query)
    if not (rank >= most).any():
        return slice(None), query[:0]
    order = np.lexsort((document, distance, query))
    return np.sort(order[rank < most]), np.unique(query[rank >= most])


def _either(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers in either, ascending. Mostly there are none, and to find that by sorting takes longer."""
    return np.union1d(one, other) if len(one) or len(other) else one


def _paired(query: NDArray[np.int64], member: NDArray[np.int64]) -> NDArray[np.int64]:
    """One number of both."""
    return query << _POSITION_BITS | member
