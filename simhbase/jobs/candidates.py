"""Which of many documents may be near which, by their fingerprints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.join import Pairs
from simhbase.slices import bounded_slices, ranges

Positions = tuple[NDArray[np.int64], NDArray[np.int64]]  # of the left and the right of each pair
_POSITION_BITS = np.uint64(32)
_POSITION = np.uint64(2**32 - 1)


@dataclass(frozen=True)
class Adjacency:
    """A list of numbers for each of u: values int64 (p,), one list behind the other; starts: int64 (u + 1,),
    where each begins."""

    values: NDArray[np.int64]
    starts: NDArray[np.int64]

    def lengths(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.starts[chosen + 1] - self.starts[chosen]

    def joined(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers of the chosen lists, one behind the other."""
        return self.values[ranges(self.starts[chosen], self.lengths(chosen))]


@dataclass(frozen=True)
class Candidates:
    """Of each of m documents those that may be near it: of its own fingerprint, or of one near that.

    A list of the pairs would fit nowhere where very many different texts have one fingerprint. So there is
    one of the fingerprints' pairs: fingerprint, int64 (m,), is the number of each document's; near says
    which are near each, members who has it, in order.
    """

    fingerprint: NDArray[np.int64]
    near: Adjacency
    members: Adjacency

    @classmethod
    def of(cls, fingerprint: NDArray[np.int64], pairs: Iterable[Pairs]) -> Self:
        """Of documents by the numbers of their fingerprints, 0 .. u - 1 by their first ones, and the pairs
        of these."""
        keys = np.concatenate([np.empty(0, np.uint64), *(_keys(each.left, each.right) for each in pairs)])
        count = int(fingerprint.max(initial=-1)) + 1
        members = Adjacency(fingerprint, np.arange(len(fingerprint) + 1))
        if count < len(fingerprint):
            sizes = np.bincount(fingerprint)
            members = Adjacency(np.argsort(fingerprint, kind="stable"), np.append(0, np.cumsum(sizes)))
            shared = np.flatnonzero(sizes > 1)
            # A later fingerprint may have documents before those of an earlier one.
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
        """The m positions in order, in batches of about so many documents and candidates, or of one
        document."""
        before = np.zeros(len(self.near.values) + 1, dtype=np.int64)
        np.take(np.diff(self.members.starts), self.near.values, out=before[1:], mode="clip")
        np.cumsum(before, out=before)
        amounts = np.diff(before[self.near.starts])
        amounts += 1
        del before
        amounts = amounts[self.fingerprint]
        return (np.arange(part.start, part.stop) for part in bounded_slices(amounts, most))

    def behind(self, documents: NDArray[np.int64]) -> Positions:
        """Pairs of each document and those candidates that come after it, by document."""
        fingerprints = self.fingerprint[documents]
        near = self.near.joined(fingerprints)
        left = np.repeat(documents, self.near.lengths(fingerprints))
        left = np.repeat(left, self.members.lengths(near))
        right = self.members.joined(near)
        after = right > left
        return left[after], right[after]


def _keys(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Both numbers of each pair in one integer, which sorts by left, then right."""
    return left.astype(np.uint64) << _POSITION_BITS | right.astype(np.uint64)
