from __future__ import annotations

import pytest

from simhbase.jobs.representative import Preference, compared_as_text


@pytest.mark.parametrize(
    ("values", "greatest", "least"),
    [
        ([9, 10, 2.5], [1, 0, 2], [2, 0, 1]),
        (["9", "10", "2.5"], [1, 0, 2], [2, 0, 1]),
        (["9", 10, "x"], [2, 0, 1], [1, 0, 2]),
        (["2020-02-01", "2021-01-01"], [1, 0], [0, 1]),
        # As Arrow writes times of different zones and units, and others do.
        (
            ["2024-01-01 10:00:00.000000Z", "2024-01-01 17:00:00.000000+0800", None, "2024-01-01T11:00"],
            [3, 0, 1, 2],
            [1, 0, 3, 2],
        ),
        (["2024-01-01 10:00:00.5", "2024-01-01T09:00:00"], [0, 1], [1, 0]),
        (["20240106", "2024-01-05"], [0, 1], [1, 0]),
        (["2024-01-05", "2024-1-10"], [1, 0], [0, 1]),  # a text
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
    ("values", "reason"),
    [
        ([1, "n/a", "?"], "'n/a' is not a number, but others are"),
        (["2", "x"], "'x' is not a number, but others are"),
        ([None, "2024-01-05", "2024-1-10"], "'2024-1-10' is not a date of ISO 8601, but others are"),
        (["x", "y", None], None),
        ([1, "2", None], None),
        (["2024-01-05", "2024-01-05T10:00Z", None], None),
        ([], None),
    ],
)
def test_a_text_where_others_are_numbers_or_dates_is_told(values, reason):
    assert compared_as_text(values) == reason
