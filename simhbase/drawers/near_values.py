"""Finds near pairs among distinct 64-bit values, by the core (`core/src/join.rs`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from simhbase._core import Join
from simhbase.drawers.layout import Run
from simhbase.process.progress import Progress, counting

WORD_BITS = 64
QUARTER = WORD_BITS // 4
AT_ONCE = 1 << 22  # comparisons between which signals are looked for: some hundredths of a second
COMPARED = "comparisons"  # of progress: once for each table

Values = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class ValuePairs:
    """Pairs of values: one, other uint64 (m,), distance uint8 (m,)."""

    one: Values
    other: Values
    distance: NDArray[np.uint8]


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
    runs = [[(run.start, run.width) for run in table] for table in tables]
    join = Join(np.ascontiguousarray(values), k, runs, AT_ONCE)
    before = 0
    with counting(progress, COMPARED, lambda: len(values) * len(tables)) as note:
        while (found := join.step()) is not None:  # between the steps Python looks for signals
            one, other, distance, compared = found
            note(compared - before)
            before = compared
            yield ValuePairs(
                np.frombuffer(one, np.uint64),
                np.frombuffer(other, np.uint64),
                np.frombuffer(distance, np.uint8),
            )
