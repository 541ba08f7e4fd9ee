"""Slices of bounded size, and ranges of positions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int32 | np.int64]  # int32 takes half the memory


def numbers_below(end: int) -> type[np.int32 | np.int64]:
    """The smaller type that holds the numbers below `end`."""
    return np.int32 if end <= 2**31 else np.int64


def ranges(starts: Numbers, counts: Numbers) -> NDArray[np.int64]:
    """Concatenated ranges, given their starts and lengths."""
    before = np.cumsum(counts) - counts
    numbers: NDArray[np.int64] = np.arange(counts.sum()) + np.repeat(starts - before, counts)
    return numbers


def bounded_slices(amounts: Numbers, most: int) -> Iterator[slice]:
    """Slices of adjacent items whose amounts sum to about `most`, with at least one item each."""
    ends = np.cumsum(amounts)
    total = int(ends[-1]) if len(ends) else 0
    if total <= most:
        return iter([slice(0, len(amounts))] if len(amounts) else [])
    cuts = np.searchsorted(ends, np.arange(most, total, most), side="right")
    bounds: Iterable[int] = np.unique([0, *cuts.tolist(), len(amounts)]).tolist()
    return (slice(start, end) for start, end in pairwise(bounds))
