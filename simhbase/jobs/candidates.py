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
_POSITION_BITS = np.uint64(32)
_POSITION = np.uint64(2**32 - 1)


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
        parts = [_keys(each.left, each.right) for each in pairs]
        count = int(fingerprint.max(initial=-1)) + 1
        members = Adjacency(fingerprint, np.arange(len(fingerprint) + 1, dtype=kind))
        shared = np.empty(0, dtype=np.int64)
        are_shared = count < len(fingerprint)
        if are_shared:
            order: Numbers = np.argsort(fingerprint, kind="stable").astype(kind)
            sizes: Numbers = np.bincount(fingerprint).astype(kind)
            members = Adjacency(order, np.zeros(count + 1, dtype=kind))
            np.cumsum(sizes, dtype=kind, out=members.starts[1:])
            shared = np.flatnonzero(sizes > 1)
        keys = np.empty(sum(map(len, parts)) * (1 + are_shared) + len(shared), dtype=np.uint64)
        end = len(shared)
        keys[:end] = _keys(shared, shared)
        while parts:  # each part is freed when it is copied
            part = parts.pop()
            # A document of the later fingerprint may come before one of the earlier.
            both = part, part << _POSITION_BITS | part >> _POSITION_BITS
            for some in both[: 1 + are_shared]:
                keys[end : end + len(some)] = some
                end += len(some)
        keys.sort()
        starts = np.empty(count + 1, dtype=numbers_below(len(keys) + 1))
        for start in range(0, count + 1, _AT_ONCE):
            wanted = np.arange(start, min(start + _AT_ONCE, count + 1), dtype=np.uint64) << _POSITION_BITS
            starts[start : start + len(wanted)] = np.searchsorted(keys, wanted)
        keys &= _POSITION
        near: Numbers = keys.astype(kind)
        return cls(fingerprint, Adjacency(near, starts), members)

    def batches(self, most: int) -> Iterator[NDArray[np.int64]]:
        """The m positions in order, in batches with about `most` documents and candidates, at least one."""
        amounts = self._amounts(most)
        for first in range(0, len(self.fingerprint), _AT_ONCE):
            of_documents = amounts[self.fingerprint[first : first + _AT_ONCE]]
            for part in bounded_slices(of_documents, most):
                yield np.arange(first + part.start, first + part.stop)

    def _amounts(self, most: int) -> NDArray[np.int32]:
        """One and the candidates of a document with each fingerprint, up to `most`: (u,)."""
        amounts = np.empty(len(self.near.starts) - 1, dtype=np.int32)
        sizes = np.diff(self.members.starts)
        for first in range(0, len(amounts), _AT_ONCE):
            starts = self.near.starts[first : first + _AT_ONCE + 1]
            before = np.append(0, np.cumsum(sizes[self.near.values[starts[0] : starts[-1]]]))
            amounts[first : first + _AT_ONCE] = np.minimum(1 + np.diff(before[starts - starts[0]]), most)
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


def _keys(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Pairs packed into integers, which sort by left, then right."""
    return left.astype(np.uint64) << _POSITION_BITS | right.astype(np.uint64)
