"""An index in memory, to look fingerprints up among n documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Hits:
    """Documents near some queries. query, document: int64 (m,), each pair once; fingerprint (of the
    document): uint64 (m,); distance: (m,).

    truncated: int64 (t,), queries near a fingerprint with more documents than the limit.
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

    def near(self, fingerprints: FingerprintBatch, bounds: Bounds, most: int) -> Iterator[Hits]:
        """Documents near each of q texts, in chunks ordered by query; a query is never split. most: documents
        per fingerprint."""
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
        first += tables * self._drawers.shape[1]
        for chunk in bounded_slices(counts.sum(axis=1), CHUNK_ROWS):
            members = self._drawers.ravel()[ranges(first[chunk].ravel(), counts[chunk].ravel())] & _POSITION
            query = np.repeat(np.arange(chunk.start, chunk.stop), counts[chunk].sum(axis=1))
            yield self._listed(*self._within(fingerprints, query, members.astype(np.int64), bounds), most)

    def _within(
        self,
        fingerprints: FingerprintBatch,
        query: NDArray[np.int64],
        member: NDArray[np.int64],
        bounds: Bounds,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], Distances]:
        """Near members of drawers with their distances; each query and member once."""
        bits = self._scheme.bits_apart(self._fingerprints.values[member], fingerprints.values[query])
        near = np.flatnonzero(bits <= bounds.bits)
        order = near[np.lexsort((member[near], query[near]))]
        query, member, bits = query[order], member[order], bits[order]
        new = np.ones(len(order), dtype=np.bool_)
        new[1:] = (np.diff(query) != 0) | (np.diff(member) != 0)
        query, member, bits = query[new], member[new], bits[new]
        sketching = self._scheme.sketching
        if sketching is None:
            return query, member, bits
        compared = fingerprints.sketches, query, self._fingerprints.sketches, member
        mismatches, similar = bounds.verified(sketching, *compared)
        distance = self._scheme.distances(bits, mismatches)
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
            self._fingerprints.values[member[repeated]],
            distance[repeated],
            np.unique(query[counts > most]),
        )


def _named(prefixes: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Segments, shifted to leave room for a position: uint8 (n, drawers, 5) -> uint64 (n, drawers)."""
    return segments_of(prefixes).astype(np.uint64) << _POSITION_BITS
