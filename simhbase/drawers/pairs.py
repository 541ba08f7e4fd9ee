"""All pairs of documents that match."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.groups import Matcher
from simhbase.drawers.join import Distinct, sharing_batches
from simhbase.drawers.scheme import Distances
from simhbase.model.groups import Pair
from simhbase.process.slices import Numbers

_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class MeasuredPairs:
    """Pairs of documents. left, right: positions (m,) with left < right; distance: (m,); similarity: float64
    (m,), None if unknown."""

    left: Numbers
    right: Numbers
    distance: Distances
    similarity: NDArray[np.float64] | None


def near_pairs(matcher: Matcher) -> Iterator[MeasuredPairs]:
    """The pairs of matches among n documents, each once, unordered, some ten thousand at a time.

    Copies are compared once: c of them cost as much as one, and have c * (c - 1) / 2 pairs.
    """
    values = matcher.distinct(np.arange(len(matcher.fingerprints)))
    copies = _Copies(values)

    def measured(left: Numbers, right: Numbers, exact: NDArray[np.float64]) -> MeasuredPairs:
        distance, similarity = matcher.measured(left, right)
        return MeasuredPairs(left, right, distance, similarity if matcher.exact is None else exact)

    for left, right in sharing_batches(values.inverse.astype(np.uint32)):
        yield measured(left, right, np.ones(len(left)))
    for pairs in matcher.distinct_pairs(values.first):
        for start in range(0, len(pairs.left), _AT_ONCE):
            left, right = pairs.left[start : start + _AT_ONCE], pairs.right[start : start + _AT_ONCE]
            firsts, others, exact = matcher.similar(values.first, left, right)
            for one, other, pair in copies.of(firsts, others):
                yield measured(one, other, exact[pair])


def pairs_of(found: Iterable[MeasuredPairs], ids: Callable[[Numbers], Sequence[Any]]) -> Iterator[Pair]:
    """Pairs of ids. ids: of documents, given by position."""
    for each in found:
        similarity = [None] * len(each.left) if each.similarity is None else each.similarity.tolist()
        yield from map(Pair, ids(each.left), ids(each.right), each.distance.tolist(), similarity)


class _Copies:
    """The documents of each distinct value."""

    def __init__(self, values: Distinct) -> None:
        self._documents = np.argsort(values.inverse, kind="stable")
        self._counts = np.bincount(values.inverse, minlength=len(values.first))
        self._starts = np.cumsum(self._counts) - self._counts

    def of(self, left: Numbers, right: Numbers) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
        """Every document of one value with every document of the other, for m pairs of values: the lesser and
        the greater position, and the number of the pair."""
        amounts = self._counts[left] * self._counts[right]
        ends = np.cumsum(amounts)
        for start in range(0, int(amounts.sum()), _AT_ONCE):
            number = np.arange(start, min(start + _AT_ONCE, int(ends[-1])))
            pair = np.searchsorted(ends, number, side="right")
            place = np.divmod(number - (ends[pair] - amounts[pair]), self._counts[right[pair]])
            one, other = (
                self._documents[self._starts[values[pair]] + each]
                for values, each in zip((left, right), place, strict=True)
            )
            yield np.minimum(one, other), np.maximum(one, other), pair
