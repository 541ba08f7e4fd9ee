"""Connected components of a graph of pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.groups import LOOKS
from simhbase.process.slices import Numbers

_COMPARED = 1 << 18  # pairs at once


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


def connections(
    members: NDArray[np.int64], near: Callable[[Numbers, Numbers], NDArray[np.bool_]]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Near pairs of m members that connect all that are near: far fewer than there are near pairs, from few
    comparisons if most members are near one of a few, and in no case from more than one a pair. Members that
    are left after LOOKS comparisons are connected, near or not. So they are in one component, where forming
    groups has the same limit, and reports which members it did not compare.

    near: members (n,) twice -> bool (n,), which pairs are near.
    """
    looks = 0  # of each member
    while len(members) > 1:
        leader, members = members[:1], members[1:]
        if looks >= LOOKS:
            yield np.repeat(leader, len(members)), members
            return
        is_near = near(np.repeat(leader, len(members)), members)
        led, members = members[is_near], members[~is_near]
        looks += 1 + len(led)
        yield np.repeat(leader, len(led)), led
        # Members led are compared no more after this, so what is near one of them must be connected here.
        waiting = members
        while len(led) and len(waiting):
            count = max(1, _COMPARED // len(waiting))
            some, led = led[:count], led[count:]
            met = near(np.repeat(some, len(waiting)), np.tile(waiting, len(some))).reshape(len(some), -1)
            is_met = met.any(axis=0)
            yield some[met.argmax(axis=0)][is_met], waiting[is_met]
            waiting = waiting[~is_met]
