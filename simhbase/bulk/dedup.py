"""Groups of near duplicates within one array of fingerprints.

Only distinct fingerprints are joined, so that a page copied a hundred thousand times costs no more
than two different ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simhbase.filing import Bounds, Distances, Filing
from simhbase.pairs import Pairs, distances, distinct
from simhbase.prints import Prints


@dataclass(frozen=True, slots=True)
class Groups:
    """Connected components of documents near each other.

    representative: int64 (n,), the group's first document in input order (a document alone: itself);
    distance: (n,), to the representative, which in a chain of near texts may be far; similarity:
    float64 (n,), to the representative, None where sketches do not tell it.
    """

    representative: NDArray[np.int64]
    distance: Distances
    similarity: NDArray[np.float64] | None = None

    @property
    def unique(self) -> NDArray[np.bool_]:
        """Which documents are representatives: bool (n,)."""
        same: NDArray[np.bool_] = self.representative == np.arange(len(self.representative))
        return same

    @property
    def count(self) -> int:
        """How many groups have two documents or more."""
        return len(np.unique(self.representative[~self.unique]))


def groups(prints: Prints, filing: Filing, bounds: Bounds) -> Groups:
    """Groups documents joined by chains of near pairs."""
    values = distinct(prints.values)
    root = np.arange(len(values.values))
    for pairs in filing.pairs(prints[values.first], bounds):
        root = _united(root, pairs)
    representative = values.first[root[values.inverse]]
    everyone = np.arange(len(prints))
    bits = distances(prints.values, everyone, representative)
    form = filing.form
    if form is None:
        return Groups(representative, bits)
    unequal = form.unequal_among(prints.sketches, everyone, prints.sketches, representative)
    return Groups(representative, filing.distances(bits, unequal), form.similarity(unequal))


def _united(root: NDArray[np.int64], pairs: Pairs) -> NDArray[np.int64]:
    """Joins sets, each of which is named by its least member: root int64 (n,) says by which.

    Each round hangs the larger root of every pair under the least it meets, then shortens the
    paths until all members point at their root again (the vectorised form of union-find: Shiloach
    and Vishkin, An O(log n) parallel connectivity algorithm, 1982).
    """
    left, right = root[pairs.left], root[pairs.right]
    while len(apart := np.flatnonzero(left != right)):
        left, right = left[apart], right[apart]
        root = root.copy()
        np.minimum.at(root, np.maximum(left, right), np.minimum(left, right))
        while not np.array_equal(root, shorter := root[root]):
            root = shorter
        left, right = root[left], root[right]
    return root
