"""Pairs of documents that may match, by their fingerprints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.join import Pairs
from simhbase.slices import Numbers, bounded_slices, numbers_below, ranges

Positions = tuple[Numbers, Numbers]  # left and right documents of pairs
_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class Adjacency:
    """Adjacency lists of u nodes. values: (p,), the concatenated lists; starts: (u + 1,), where each list
    begins."""

    values: Numbers
    starts: Numbers

    def lengths(self, chosen: Numbers) -> Numbers:
        return self.starts[chosen + 1] - self.starts[chosen]

    def joined(self, chosen: Numbers) -> Numbers:
        """Concatenate the chosen lists."""
        return self.values[ranges(self.starts[chosen], self.lengths(chosen))]


@dataclass(frozen=True)
class CandidateGraph:
    """Candidates of m documents: those with the same fingerprint, or a near one.

    Stores pairs of fingerprints, not of documents, which would not fit if very many texts share a
    fingerprint. fingerprint: (m,), number of each document's fingerprint; near: near fingerprints of each;
    members: documents with each fingerprint, in order.
    """

    fingerprint: Numbers
    near: Adjacency
    members: Adjacency

    @classmethod
    def of(cls, fingerprint: Numbers, pairs: Iterable[Pairs]) -> Self:
        """Build the graph. fingerprint: (m,), numbers 0 to u - 1 in order of first documents; pairs: of these
        numbers."""
        kind = numbers_below(len(fingerprint) + 1)
        count = int(fingerprint.max(initial=-1)) + 1
        members = Adjacency(fingerprint, np.arange(len(fingerprint) + 1, dtype=kind))
        shared: Numbers = np.empty(0, dtype=kind)
        are_shared = count < len(fingerprint)
        if are_shared:
            order: Numbers = np.argsort(fingerprint, kind="stable").astype(kind)
            sizes: Numbers = np.bincount(fingerprint).astype(kind)
            members = Adjacency(order, np.zeros(count + 1, dtype=kind))
            np.cumsum(sizes, dtype=kind, out=members.starts[1:])
            shared = np.flatnonzero(sizes > 1).astype(kind)
            del sizes
        lengths = np.zeros(count + 1, dtype=kind)
        lengths[shared + kind(1)] = 1
        parts: list[Positions] = []
        for each in pairs:
            parts.append((each.left.astype(kind), each.right.astype(kind)))
            # A document of the later fingerprint may come before one of the earlier.
            for numbers in parts[-1][: 1 + are_shared]:
                np.add.at(lengths, numbers + kind(1), kind(1))
        starts: Numbers = np.cumsum(lengths, dtype=numbers_below(int(lengths.sum(dtype=np.int64)) + 1))
        del lengths
        near = Adjacency(np.empty(int(starts[-1]), dtype=kind), starts)
        ends = starts[:-1].copy()
        _append(near.values, ends, shared, shared)
        while parts:  # each part is freed when it is copied
            left, right = parts.pop()
            _append(near.values, ends, left, right)
            if are_shared:
                _append(near.values, ends, right, left)
        return cls(fingerprint, near, members)

    def batches(self, most: int) -> Iterator[NDArray[np.int64]]:
        """The m positions in order, in batches with about `most` documents and candidates, at least one."""
        for first in range(0, len(self.fingerprint), _AT_ONCE):
            distinct, which = np.unique(self.fingerprint[first : first + _AT_ONCE], return_inverse=True)
            for part in bounded_slices(self._amounts(distinct, most)[which], most):
                yield np.arange(first + part.start, first + part.stop)

    def _amounts(self, fingerprints: Numbers, most: int) -> NDArray[np.int64]:
        """One and the candidates of a document with each fingerprint, up to `most`: (f,)."""
        candidates = self.members.lengths(self.near.joined(fingerprints))
        before = np.append(0, np.cumsum(candidates, dtype=np.int64))
        ends = np.append(0, np.cumsum(self.near.lengths(fingerprints), dtype=np.int64))
        amounts: NDArray[np.int64] = np.minimum(1 + np.diff(before[ends]), most)
        return amounts

    def later_pairs(self, documents: Numbers) -> Positions:
        """Pairs of each document and its candidates that come after it, by document."""
        fingerprints = self.fingerprint[documents]
        near = self.near.joined(fingerprints)
        left = np.repeat(documents, self.near.lengths(fingerprints))
        left = np.repeat(left, self.members.lengths(near))
        right = self.members.joined(near)
        after = right > left
        return left[after], right[after]


def _append(values: Numbers, ends: Numbers, lists: Numbers, appended: Numbers) -> None:
    """Append a value to each of m lists, which may repeat. ends: (u,), the ends of all lists so far."""
    order = np.argsort(lists, kind="stable")
    chosen, counts = np.unique(lists[order], return_counts=True)
    values[ranges(ends[chosen], counts)] = appended[order]
    ends[chosen] += counts.astype(ends.dtype)
