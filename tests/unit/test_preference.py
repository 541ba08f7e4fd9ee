from __future__ import annotations

import pytest

from simhbase.jobs.representative import Preference, text_among_numbers


@pytest.mark.parametrize(
    ("values", "greatest", "least"),
    [
        ([9, 10, 2.5], [1, 0, 2], [2, 0, 1]),
        (["9", "10", "2.5"], [1, 0, 2], [2, 0, 1]),
        (["9", 10, "x"], [2, 0, 1], [1, 0, 2]),
        (["2020-02-01", "2021-01-01"], [1, 0], [0, 1]),
        ([1, 2, 1, 2], [1, 3, 0, 2], [0, 2, 1, 3]),
        (["b", "a", "b", "a"], [0, 2, 1, 3], [1, 3, 0, 2]),
        ([None, 1, "nan", 2], [3, 1, 0, 2], [1, 3, 0, 2]),
        ([None, "a", None, "b"], [3, 1, 0, 2], [1, 3, 0, 2]),
        ([], [], []),
    ],
)
def test_values_order_documents_and_of_equal_ones_the_first_is_preferred(values, greatest, least):
    assert Preference("f", 1).order(values).tolist() == greatest
    assert Preference("f", -1).order(values).tolist() == least


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([1, "n/a", "?"], "n/a"),
        (["2", "x"], "x"),
        (["x", "y", None], None),
        ([1, "2", None], None),
        ([], None),
    ],
)
def test_a_text_where_others_are_numbers_is_told(values, text):
    assert text_among_numbers(values) == text
