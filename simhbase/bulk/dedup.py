"""Groups of near duplicates within one array of fingerprints.

Only distinct fingerprints are joined, so that a page copied a hundred thousand times costs no more
than two different ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simhbase.filing import Bounds, Distances, Filing
from simhbase.pairs import distances, distinct, united
from simhbase.prints import Prints


@dataclass(frozen=True, slots=True)
class Groups:
    """Connected components of documents near each other.

    representative: int64 (n,), the group's first document in input order (a document alone: itself);
    distance: (n,), to the representative, which in a chain of near texts may be far; similarity:
    float64 (n,), to the representative, None where nothing tells it.
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


@dataclass(frozen=True)
class Exact:
    """What near documents must also be: similar, told of pairs of documents by more than their prints.

    similarity: positions int64 (m,) twice -> float64 (m,).
    """

    least: float
    similarity: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]]


def groups(prints: Prints, filing: Filing, bounds: Bounds, exact: Exact | None = None) -> Groups:
    """Groups documents joined by chains of near pairs. Those of the same fingerprint are equal, and
    the first of them is compared with others."""
    values = distinct(prints.values)
    root = np.arange(len(values.values))
    for pairs in filing.pairs(prints[values.first], bounds):
        if exact is not None:
            similar = exact.similarity(values.first[pairs.left], values.first[pairs.right]) >= exact.least
            pairs = pairs.where(similar)
        root = united(root, pairs.left, pairs.right)
    representative = values.first[root[values.inverse]]
    everyone = np.arange(len(prints))
    distance: Distances = distances(prints.values, everyone, representative)
    similarity = None
    if filing.form is not None:
        unequal = filing.form.unequal_among(prints.sketches, everyone, prints.sketches, representative)
        distance, similarity = filing.distances(distance, unequal), filing.form.similarity(unequal)
    if exact is not None:
        similarity = _exactly(representative, exact)
    return Groups(representative, distance, similarity)


def _exactly(representative: NDArray[np.int64], exact: Exact) -> NDArray[np.float64]:
    """The similarity of each document to its representative."""
    similarity = np.ones(len(representative))
    others = np.flatnonzero(representative != np.arange(len(representative)))
    similarity[others] = exact.similarity(others, representative[others])
    return similarity
