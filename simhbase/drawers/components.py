"""Connected components of a graph of pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simhbase.process.slices import Numbers


def merge_components(root: NDArray[np.int64], left: Numbers, right: Numbers) -> NDArray[np.int64]:
    """Merge sets that are named by their least member. root: int64 (n,), the name of each element's set;
    left, right: (m,), elements whose sets to merge. Starting from np.arange(n), the result is the connected
    components of a graph.

    Each round links the larger root of every pair to the smallest root it meets, then shortens paths until
    all elements point at their root (vectorised union-find: Shiloach and Vishkin, An O(log n) parallel
    connectivity algorithm, 1982).
    """
    left, right = root[left], root[right]
    while len(apart := np.flatnonzero(left != right)):
        left, right = left[apart], right[apart]
        root = root.copy()
        np.minimum.at(root, np.maximum(left, right), np.minimum(left, right))
        while not np.array_equal(root, shorter := root[root]):
            root = shorter
        left, right = root[left], root[right]
    return root
