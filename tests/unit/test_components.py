"""Connected components of what is near, by few comparisons."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from simhbase.drawers.components import connections, merge_components
from simhbase.process.slices import Numbers


@pytest.mark.parametrize("reach", [2, 30, 3000])
def test_connections_join_all_that_are_near_by_few_comparisons(reach: int) -> None:
    """Numbers in a line: near are those within a reach, and a crowd is near all of itself."""
    random = np.random.default_rng(reach)
    places = np.concatenate([random.integers(0, 50_000, 2000), random.integers(0, 3, 500)])
    members, compared = np.arange(len(places)), 0

    def near(left: Numbers, right: Numbers) -> NDArray[np.bool_]:
        nonlocal compared
        compared += len(left)
        found: NDArray[np.bool_] = np.abs(places[left] - places[right]) <= reach
        return found

    root = np.arange(len(places))
    for left, right in connections(members, near):
        assert (np.abs(places[left] - places[right]) <= reach).all()
        root = merge_components(root, left, right)
    left, right = np.triu_indices(len(places), 1)
    is_near = np.abs(places[left] - places[right]) <= reach
    assert np.array_equal(root, merge_components(np.arange(len(places)), left[is_near], right[is_near]))
    assert compared <= len(left)


def test_a_crowd_of_which_none_is_near_takes_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simhbase.drawers.components.LOOKS", 50)
    compared = list[int]()

    def near(left: Numbers, right: Numbers) -> NDArray[np.bool_]:
        compared.append(len(left))
        return np.zeros(len(left), np.bool_)

    for n in (40, 1000, 2000):
        compared.clear()
        root = np.arange(n)
        for left, right in connections(np.arange(n), near):
            root = merge_components(root, left, right)
        assert sum(compared) <= 50 * n
        # The first ones were compared with all others.
        assert root.tolist() == ([*range(50)] + [50] * (n - 50) if n > 50 else [*range(n)])
