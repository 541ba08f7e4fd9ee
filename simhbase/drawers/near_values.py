"""Finds near pairs among distinct 64-bit values: sorted by the bits that name a drawer, its members are
neighbours.

The bits of the values are permuted, so that a sorted value holds its drawer and all its other bits: the
distance of neighbours is the popcount of their XOR, and nothing has to be looked up. Values are sorted as a
whole only once for each leading block. Tables that begin with the same block are sorted within parts that fit
into the processor's cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.layout import Run
from simhbase.progress import Progress, counting
from simhbase.slices import bounded_slices, ranges

WORD_BITS = 64
PART = 1 << 14  # values sorted at once
PAIRS_AT_ONCE = 1 << 15
STEPS = 8  # for so many places neighbours are compared all at once
QUARTER = WORD_BITS // 4
COMPARED = "comparisons"  # of progress: once for each table

Values = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class ValuePairs:
    """Pairs of values: one, other uint64 (m,), distance uint8 (m,)."""

    one: Values
    other: Values
    distance: NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class _Order:
    """A permutation of bits that moves those of a table to the front.

    runs: of all bits, in their new order; named: number of bits that name a drawer.
    """

    runs: tuple[Run, ...]
    named: int

    @classmethod
    def of(cls, table: Sequence[Run]) -> _Order:
        others, start = [], 0
        for run in [*sorted(table, key=attrgetter("start")), Run(WORD_BITS, 0)]:
            others.append(Run(start, run.start - start))
            start = run.start + run.width
        runs = tuple(run for run in (*table, *others) if run.width)
        return cls(runs, sum(run.width for run in table))

    @property
    def lead(self) -> int:
        """Where the first run begins."""
        return self.runs[0].start

    @property
    def mask(self) -> np.uint64:
        """The bits that name a drawer, before they are moved."""
        return np.uint64(self.restored(np.array([~self.rest]))[0])

    @property
    def rest(self) -> np.uint64:
        """The bits that name no drawer, when they have been moved."""
        return np.uint64(2 ** (WORD_BITS - self.named) - 1)

    def arranged(self, values: Values) -> Values:
        made = np.zeros_like(values)
        for run in self.runs:
            made <<= np.uint64(run.width)
            made |= values >> _shift(run) & _ones(run)
        return made

    def restored(self, arranged: Values) -> Values:
        values, shift = np.zeros_like(arranged), WORD_BITS
        for run in self.runs:
            shift -= run.width
            values |= (arranged >> np.uint64(shift) & _ones(run)) << _shift(run)
        return values


def _shift(run: Run) -> np.uint64:
    return np.uint64(WORD_BITS - run.start - run.width)


def _ones(run: Run) -> np.uint64:
    return np.uint64(2**run.width - 1)


def tables_within_three(n: int) -> list[list[Run]]:
    """Tables such that any two values within 3 bits agree on at least one, for n values.

    One half differs in at most one bit. So one of its quarters is equal, and of its other quarter all parts
    but one. There are as many parts as leave about one of n evenly distributed values in a drawer, and at
    most four.
    """
    parts = next((parts for parts in (1, 2, 3) if n <= 2 ** (2 * QUARTER - QUARTER // parts)), 4)
    tables = []
    for quarter in range(4):
        first = (quarter ^ 1) * QUARTER
        borders = [first + QUARTER * part // parts for part in range(parts + 1)]
        split = [Run(start, stop - start) for start, stop in pairwise(borders)]
        tables += [
            [Run(quarter * QUARTER, QUARTER), *split[:left_out], *split[left_out + 1 :]]
            for left_out in reversed(range(parts))
        ]
    return tables


def near_values(
    values: Values, k: int, tables: Sequence[Sequence[Run]], progress: Progress
) -> Iterator[ValuePairs]:
    """Pairs at most k bits apart that agree on at least one table, each pair once.

    values: uint64 (n,), distinct and sorted. Working memory: two arrays like it. Progress counts a value once
    for each table.
    """
    orders = sorted(map(_Order.of, tables), key=attrgetter("lead"))
    masks = [order.mask for order in orders]
    with counting(progress, COMPARED, lambda: len(values) * len(orders)) as note:
        for _, numbered in groupby(enumerate(orders), key=lambda each: each[1].lead):
            group = list(numbered)
            arranged = _sorted_by(group[0][1], values)
            for part in _parts(arranged, min(order.runs[0].width for _, order in group)):
                yield from _joined(_of_group(arranged[part], group, masks, k))
                note((part.stop - part.start) * len(group))


def _of_group(
    arranged: Values, group: Sequence[tuple[int, _Order]], masks: Sequence[np.uint64], k: int
) -> Iterator[ValuePairs]:
    """Near pairs of a part, which is in the first order of a group of numbered ones."""
    (number, first), *others = group
    yield from _of_table(arranged, first, k, masks[:number])
    if others:
        members = first.restored(arranged)
    for number, order in others:
        moved = order.arranged(members)
        moved.sort()
        yield from _of_table(moved, order, k, masks[:number])


def _joined(found: Iterable[ValuePairs]) -> Iterator[ValuePairs]:
    """Joins small chunks, as long as they are small."""
    held: list[ValuePairs] = []
    for pairs in found:
        held.append(pairs)
        if sum(len(each.one) for each in held) >= PAIRS_AT_ONCE:
            yield _concatenated(held)
            held = []
    if held:
        yield _concatenated(held)


def _concatenated(held: Sequence[ValuePairs]) -> ValuePairs:
    return ValuePairs(
        np.concatenate([each.one for each in held]),
        np.concatenate([each.other for each in held]),
        np.concatenate([each.distance for each in held]),
    )


def _sorted_by(order: _Order, values: Values) -> Values:
    if order.runs == tuple(sorted(order.runs, key=attrgetter("start"))):
        return values
    arranged = np.empty_like(values)
    for start in range(0, len(values), PART):
        arranged[start : start + PART] = order.arranged(values[start : start + PART])
    arranged.sort()
    return arranged


def _parts(arranged: Values, lead: int) -> Iterator[slice]:
    """Parts of about PART sorted values, or more if so many agree on their first bits."""
    same = np.uint64(2 ** (WORD_BITS - lead) - 1)
    start = 0
    while start < len(arranged):
        last = arranged[min(start + PART, len(arranged)) - 1]
        stop = int(np.searchsorted(arranged, last | same, side="right"))
        yield slice(start, stop)
        start = stop


def _of_table(arranged: Values, order: _Order, k: int, earlier: Sequence[np.uint64]) -> Iterator[ValuePairs]:
    """Near pairs that share a drawer, and none of the earlier tables."""
    for one, other in _near_neighbours(arranged, order.rest, k):
        one, other = order.restored(one), order.restored(other)
        differing = one ^ other
        new = np.ones(len(one), dtype=np.bool_)
        for mask in earlier:
            new &= (differing & mask) != 0
        yield ValuePairs(one[new], other[new], np.bitwise_count(differing[new]))


def _near_neighbours(arranged: Values, rest: np.uint64, k: int) -> Iterator[tuple[Values, Values]]:
    """Sorted values at most k bits apart that differ in no bit but those of `rest`."""
    differing = arranged[1:] ^ arranged[:-1]
    left = np.flatnonzero(differing <= rest)
    differing = differing[left]
    for step in range(1, STEPS + 1):
        near = left[np.bitwise_count(differing) <= k]
        if len(near):
            yield arranged[near], arranged[near + step]
        left = left[: np.searchsorted(left, len(arranged) - step - 1)]
        differing = arranged[left] ^ arranged[left + step + 1]
        together = differing <= rest
        left, differing = left[together], differing[together]
        if not len(left):
            return
    counts = np.searchsorted(arranged, arranged[left] | rest, side="right") - left - 1 - STEPS
    for part in bounded_slices(counts, PAIRS_AT_ONCE):
        one = np.repeat(left[part], counts[part])
        other = ranges(left[part] + 1 + STEPS, counts[part])
        near = np.flatnonzero(np.bitwise_count(arranged[one] ^ arranged[other]) <= k)
        if len(near):
            yield arranged[one[near]], arranged[other[near]]
