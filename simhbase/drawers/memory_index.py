"""An index in memory, to look fingerprints up among n documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.join import distinct
from simhbase.drawers.rowkeys import FLAG, segments_of
from simhbase.drawers.scheme import Bounds, Distances, Scheme
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.process.slices import bounded_slices, ranges

CHUNK_ROWS = 1 << 20  # members of drawers compared at once
INDEXED_AT_ONCE = 1 << 14
_POSITION_BITS = np.uint64(32)
_POSITION = np.uint64(0xFFFFFFFF)


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
        # Segment and position share one uint64, which sorts several times faster than positions by segment.
        self._drawers = np.empty((scheme.tables, n), dtype=np.uint64)
        for start in range(0, n, INDEXED_AT_ONCE):
            part = self._fingerprints[start : start + INDEXED_AT_ONCE]
            positions = np.arange(start, start + len(part), dtype=np.uint64)
            self._drawers[:, start : start + len(part)] = _named(scheme.prefixes(part)).T | positions
        self._drawers.sort(axis=1)

    def near(self, fingerprints: FingerprintBatch, bounds: Bounds, limits: Limits) -> Iterator[Hits]:
        """Documents near each of q texts, in chunks ordered by query; a query is never split."""
        if not len(fingerprints):
            return
        probes = self._scheme.probes(fingerprints)
        named = _named(probes)
        tables = probes[:1, :, FLAG].ravel().astype(np.int64) - 1
        first, end = np.empty(named.shape, dtype=np.int64), np.empty(named.shape, dtype=np.int64)
        for probe, table in enumerate(tables.tolist()):
            first[:, probe] = np.searchsorted(self._drawers[table], named[:, probe])
            end[:, probe] = np.searchsorted(self._drawers[table], named[:, probe] | _POSITION, side="right")
        counts = end - first
        full = np.zeros(0, dtype=np.int64)
        if limits.drawer is not None:
            full = np.flatnonzero((counts > limits.drawer).any(axis=1))
            np.minimum(counts, limits.drawer, out=counts)
        first += tables * self._drawers.shape[1]
        for chunk in bounded_slices(counts.sum(axis=1), CHUNK_ROWS):
            place = ranges(first[chunk].ravel(), counts[chunk].ravel())
            member = (self._drawers.ravel()[place] & _POSITION).astype(np.int64)
            query = np.repeat(np.arange(chunk.start, chunk.stop), counts[chunk].sum(axis=1))
            cut = full[(full >= chunk.start) & (full < chunk.stop)]
            equal, which = self._equal(fingerprints.values[cut])
            query, member = np.append(query, cut[which]), np.append(member, equal)
            yield from self._listed(*self._within(fingerprints, query, member, bounds), cut, limits)

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
        """Near members of drawers with their distances; each query and member once."""
        # Each once before they are compared: near texts share many drawers. One number of both sorts fast.
        both = np.sort(query << _POSITION_BITS.astype(np.int64) | member)
        new = np.ones(len(both), dtype=np.bool_)
        new[1:] = both[1:] != both[:-1]
        query, member = both[new] >> _POSITION_BITS.astype(np.int64), both[new] & _POSITION.astype(np.int64)
        bits = self._scheme.bits_apart(self._fingerprints.values[member], fingerprints.values[query])
        near = np.flatnonzero(bits <= bounds.bits)
        query, member, bits = query[near], member[near], bits[near]
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
        if len(more := np.union1d(full, crowded)):
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
                np.union1d(longer, cut),
            )


def _nearest(
    query: NDArray[np.int64], distance: Distances, document: NDArray[np.int64], most: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions of the nearest documents of each query (ascending), and the queries that have more."""
    rank = np.arange(len(query)) - np.searchsorted(query, query)
    if not (rank >= most).any():
        return np.arange(len(query)), query[:0]
    order = np.lexsort((document, distance, query))
    return np.sort(order[rank < most]), np.unique(query[rank >= most])


def _named(prefixes: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Segments, shifted to leave room for a position: uint8 (n, drawers, 5) -> uint64 (n, drawers)."""
    return segments_of(prefixes).astype(np.uint64) << _POSITION_BITS
