"""Connected components of a graph of pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def united(root: NDArray[np.int64], left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
    """Joins sets, each of which is named by its least member: root int64 (n,) says by which, left and
    right (m,) whose sets become one. From np.arange(n) on they are a graph's connected components.

    Each round hangs the larger root of every pair under the least it meets, then shortens the
    paths until all members point at their root again (the vectorised form of union-find: Shiloach
    and Vishkin, An O(log n) parallel connectivity algorithm, 1982).
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
