"""Pairs of documents that may match, by their fingerprints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.join import Pairs
from simhbase.process.slices import Numbers, bounded_slices, numbers_below, ranges

Positions = tuple[Numbers, Numbers]  # left and right documents of pairs
Choice = Callable[[Numbers, Numbers], NDArray[np.bool_]]  # which of m pairs to keep: bool (m,)
_LEAST_AHEAD = 64  # documents looked at for a batch, of which most may be too many for it
_MEMBERS_AT_ONCE = 1 << 18  # of crowds


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

    def totals(self, amounts: Numbers, chosen: Numbers) -> NDArray[np.int64]:
        """The sum of amounts that belong to the values of each chosen list. amounts: (a,), of `joined`."""
        before = np.append(0, np.cumsum(amounts, dtype=np.int64))
        ends = np.append(0, np.cumsum(self.lengths(chosen), dtype=np.int64))
        sums: NDArray[np.int64] = np.diff(before[ends])
        return sums


class Crowds:
    """Fingerprints that share a large drawer, whose pairs are not listed: n near texts have n * n / 2.

    Their pairs are made for few documents at a time, and verified only where they matter. So a drawer costs
    its members for each document that asks for them: in stars only a representative does, and in chains one
    of a drawer whose members are not all connected yet.
    """

    def __init__(self, drawers: Sequence[NDArray[np.int64]], count: int, near: Choice) -> None:
        """drawers: members of each; count: of all fingerprints; near: tells which pairs are near."""
        kind = numbers_below(count)
        sizes = np.array([len(each) for each in drawers], dtype=np.int64)
        members = np.concatenate([each.astype(kind) for each in drawers])
        numbers = np.repeat(np.arange(len(drawers)), sizes)
        self._members = Adjacency(members, np.append(0, np.cumsum(sizes)))
        starts = np.append(0, np.cumsum(np.bincount(members, minlength=count)))
        self._drawers = Adjacency(numbers[np.argsort(members, kind="stable")], starts)
        self._open = np.ones(len(drawers), dtype=np.bool_)
        self.near = near

    def amounts(self, fingerprints: Numbers) -> NDArray[np.int64]:
        """How many members the open drawers of each fingerprint have: (f,)."""
        drawers = self._drawers.joined(fingerprints)
        return self._drawers.totals(self._members.lengths(drawers) * self._open[drawers], fingerprints)

    def pairs(self, fingerprints: Numbers) -> Iterator[Positions]:
        """Numbers (m,) of fingerprints, given as (f,), and members (m,) of their open drawers, which may
        repeat."""
        drawers = self._drawers.joined(fingerprints)
        number = np.repeat(np.arange(len(fingerprints)), self._drawers.lengths(fingerprints))
        number, drawers = number[self._open[drawers]], drawers[self._open[drawers]]
        sizes = self._members.lengths(drawers)
        for part in bounded_slices(sizes, _MEMBERS_AT_ONCE):
            yield np.repeat(number[part], sizes[part]), self._members.joined(drawers[part])

    def close_connected(self, fingerprints: Numbers, connected: Callable[[Numbers], bool]) -> None:
        """Close those drawers of fingerprints whose members are connected: `pairs` leaves them out."""
        drawers = self._drawers.joined(fingerprints)
        for drawer in np.unique(drawers[self._open[drawers]]).tolist():
            self._open[drawer] = not connected(self._members.joined(np.array([drawer])))


@dataclass(frozen=True)
class CandidateGraph:
    """Candidates of m documents: those with the same fingerprint, or a near one.

    Stores pairs of fingerprints, not of documents, which would not fit if very many texts share a
    fingerprint. fingerprint: (m,), number of each document's fingerprint; near: near fingerprints of each;
    members: documents with each fingerprint, in order; crowds: fingerprints in large drawers, None if there
    are none.
    """

    fingerprint: Numbers
    near: Adjacency
    members: Adjacency
    crowds: Crowds | None

    @classmethod
    def of(
        cls, fingerprint: Numbers, pairs: Iterable[Pairs], drawers: Sequence[NDArray[np.int64]], near: Choice
    ) -> Self:
        """Build the graph. fingerprint: (m,), numbers 0 to u - 1 in order of first documents; pairs: of these
        numbers; drawers: large ones, known when all pairs have been read, whose pairs are not among them;
        near: tells which of these are near."""
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
        lists = Adjacency(np.empty(int(starts[-1]), dtype=kind), starts)
        ends = starts[:-1].copy()
        _append(lists.values, ends, shared, shared)
        while parts:  # each part is freed when it is copied
            left, right = parts.pop()
            _append(lists.values, ends, left, right)
            if are_shared:
                _append(lists.values, ends, right, left)
        return cls(fingerprint, lists, members, Crowds(drawers, count, near) if drawers else None)

    def batches(self, most: int, chosen: Choice | None = None) -> Iterator[Numbers]:
        """The m positions in order, in batches of at most `most` documents and candidates, at least one
        document. chosen: tells which pairs are kept when their batch is made; documents that would not be
        paired with themselves are left out. None: keep all."""
        begin, ahead = 0, most
        while begin < len(self.fingerprint):
            documents = np.arange(begin, min(begin + ahead, len(self.fingerprint)))
            asking = documents if chosen is None else documents[chosen(documents, documents)]
            fingerprints = self.fingerprint[asking]
            candidates = self.members.lengths(self.near.joined(fingerprints))
            amounts = 1 + self.near.totals(candidates, fingerprints)
            if self.crowds is not None:
                amounts += self.crowds.amounts(fingerprints)
            ends = np.cumsum(amounts)
            count = max(int(np.searchsorted(ends, most, side="right")), 1)
            if len(asking):
                yield asking[:count]
            begin = int(asking[count]) if count < len(asking) else begin + ahead
            ahead = min(2 * count + _LEAST_AHEAD, most)

    def later_pairs(self, documents: Numbers, chosen: Choice) -> Positions:
        """Pairs of each document and those of its candidates that come after it, by document, each once.
        chosen: tells which pairs to keep."""
        fingerprints = self.fingerprint[documents]
        listed = self.near.joined(fingerprints)
        numbers: Numbers = np.repeat(np.arange(len(documents)), self.near.lengths(fingerprints))
        left, right = self._of_documents(documents[numbers], listed, chosen)
        crowds = self.crowds
        if crowds is None:
            return left, right
        lefts, rights = [left], [right]
        for firsts, members in crowds.pairs(fingerprints):
            one, other = self._of_documents(documents[firsts], members, chosen)
            lefts.append(one)
            rights.append(other)
        pairs = np.unique(np.column_stack([np.concatenate(lefts), np.concatenate(rights)]), axis=0)
        left, right = pairs[:, 0], pairs[:, 1]
        one, other = self.fingerprint[left], self.fingerprint[right]
        near = one == other
        apart = np.flatnonzero(~near)
        near[apart] = crowds.near(one[apart], other[apart])
        return left[near], right[near]

    def leave_out_connected(self, documents: Numbers, root: Numbers) -> None:
        """No longer make pairs of those crowds of documents that are connected already. root: (m,), equal for
        connected documents."""

        def connected(members: Numbers) -> bool:
            roots = root[self.members.joined(members)]
            return bool((roots == roots[0]).all())

        if self.crowds is not None:
            self.crowds.close_connected(self.fingerprint[documents], connected)

    def _of_documents(self, left: Numbers, fingerprints: Numbers, chosen: Choice) -> Positions:
        """Chosen pairs of documents with those that have other fingerprints: (m,) twice."""
        left = np.repeat(left, self.members.lengths(fingerprints))
        right = self.members.joined(fingerprints)
        after: NDArray[np.int64] = np.flatnonzero(right > left)
        after = after[chosen(left[after], right[after])]
        return left[after], right[after]


def _append(values: Numbers, ends: Numbers, lists: Numbers, appended: Numbers) -> None:
    """Append a value to each of m lists, which may repeat. ends: (u,), the ends of all lists so far."""
    order = np.argsort(lists, kind="stable")
    chosen, counts = np.unique(lists[order], return_counts=True)
    values[ranges(ends[chosen], counts)] = appended[order]
    ends[chosen] += counts.astype(ends.dtype)
