"""Pairs of documents that may match, by their fingerprints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.join import Pairs
from simhbase.slices import bounded_slices, ranges

Positions = tuple[NDArray[np.int64], NDArray[np.int64]]  # left and right documents of pairs
_POSITION_BITS = np.uint64(32)
_POSITION = np.uint64(2**32 - 1)


@dataclass(frozen=True)
class Adjacency:
    """Adjacency lists of u nodes. values: int64 (p,), the concatenated lists; starts: int64 (u + 1,), where
    each list begins."""

    values: NDArray[np.int64]
    starts: NDArray[np.int64]

    def lengths(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.starts[chosen + 1] - self.starts[chosen]

    def joined(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """Concatenate the chosen lists."""
        return self.values[ranges(self.starts[chosen], self.lengths(chosen))]


@dataclass(frozen=True)
class CandidateGraph:
    """Candidates of m documents: those with the same fingerprint, or a near one.

    Stores pairs of fingerprints, not of documents, which would not fit if very many texts share a
    fingerprint. fingerprint: int64 (m,), number of each document's fingerprint; near: near fingerprints of
    each; members: documents with each fingerprint, in order.
    """

    fingerprint: NDArray[np.int64]
    near: Adjacency
    members: Adjacency

    @classmethod
    def of(cls, fingerprint: NDArray[np.int64], pairs: Iterable[Pairs]) -> Self:
        """Build the graph. fingerprint: int64 (m,), numbers 0 to u - 1 in order of first documents; pairs: of
        these numbers."""
        keys = np.concatenate([np.empty(0, np.uint64), *(_keys(each.left, each.right) for each in pairs)])
        count = int(fingerprint.max(initial=-1)) + 1
        members = Adjacency(fingerprint, np.arange(len(fingerprint) + 1))
        if count < len(fingerprint):
            sizes = np.bincount(fingerprint)
            members = Adjacency(np.argsort(fingerprint, kind="stable"), np.append(0, np.cumsum(sizes)))
            shared = np.flatnonzero(sizes > 1)
            # A document of the later fingerprint may come before one of the earlier.
            both = np.concatenate([keys, keys << _POSITION_BITS, _keys(shared, shared)])
            keys >>= _POSITION_BITS
            both[len(keys) : 2 * len(keys)] |= keys
            keys = both
            del both
        keys.sort()
        wanted = np.arange(count + 1, dtype=np.uint64)
        wanted <<= _POSITION_BITS
        starts = np.searchsorted(keys, wanted)
        keys &= _POSITION
        return cls(fingerprint, Adjacency(keys.view(np.int64), starts), members)

    def batches(self, most: int) -> Iterator[NDArray[np.int64]]:
        """The m positions in order, in batches with about `most` documents and candidates, at least one."""
        before = np.zeros(len(self.near.values) + 1, dtype=np.int64)
        np.take(np.diff(self.members.starts), self.near.values, out=before[1:], mode="clip")
        np.cumsum(before, out=before)
        amounts = np.diff(before[self.near.starts])
        amounts += 1
        del before
        amounts = amounts[self.fingerprint]
        return (np.arange(part.start, part.stop) for part in bounded_slices(amounts, most))

    def later_pairs(self, documents: NDArray[np.int64]) -> Positions:
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
