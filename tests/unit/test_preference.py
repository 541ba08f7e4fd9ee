from __future__ import annotations

import pytest

from simhbase.errors import UsageError
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
        (["2024-01-05", "2024-1-10"], [1, 0], [0, 1]),
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
        (["31/01/2024", "soon"], "'soon' is not a date, but others are"),
        ([None, "2024-01-05", "soon"], "'soon' is not a date, but others are"),
        (["x", "y", None], None),
        ([1, "2", None], None),
        (["2024-01-05", "2024-01-05T10:00Z", None], None),
        ([], None),
    ],
)
def test_a_text_where_others_are_numbers_or_dates_is_told(values, reason):
    assert compared_as_text(values) == reason


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Wed, 01 Jan 2020 10:00:00 GMT", "Fri, 06 Dec 2024 10:00:00 GMT"),
        ("Fri, 06 Dec 2024 20:00:00 +0800", "Fri, 06 Dec 2024 13:00:00 GMT"),
        ("2024年9月30日", "2024年10月1日"),
        ("2024年9月30日 9时5分", "2024年9月30日10时1分2秒"),
        ("2024-9-30", "2024-10-1"),
        ("2024/9/30 08:00", "2024/9/30 10:00:01"),
        ("Wed Jan  1 10:00:00 2020", "Fri Dec  6 10:00:00 2024"),
        ("31/01/2020", "06/12/2024"),
        ("12/31/2019", "01/02/2020"),
        ("2024-09-30", "Tue, 01 Oct 2024 00:00:00 GMT"),
        (2**53, 2**53 + 1),
        (str(10**30), str(10**30 + 1)),
        (2**63, 2.0**64),
    ],
)
def test_dates_and_large_numbers_are_compared_for_what_they_are(older, newer):
    assert Preference("f", 1).order([older, newer]).tolist() == [1, 0]
    assert Preference("f", -1).order([newer, older]).tolist() == [1, 0]
    assert compared_as_text([older, newer]) is None


def test_dates_whose_order_is_uncertain_are_refused_without_it():
    values = ["03/04/2024", "01/05/2024"]
    with pytest.raises(UsageError, match=r"^date_order: dates such as .* say dmy or mdy"):
        Preference("f").order(values)
    assert Preference("f", 1, "dmy").order(values).tolist() == [1, 0]
    assert Preference("f", 1, "mdy").order(values).tolist() == [0, 1]
