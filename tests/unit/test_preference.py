from __future__ import annotations

import pytest

from simhbase.deduplication.representative import Preference, compared_as_text
from simhbase.errors import BadInput, UsageError


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
        ([None, 2.0**60, float("nan"), 2, float("nan"), 3], [1, 5, 3, 0, 2, 4], [3, 5, 1, 0, 2, 4]),
        ([None, "a", None, "b"], [3, 1, 0, 2], [1, 3, 0, 2]),
        ([], [], []),
    ],
)
def test_values_order_documents_and_of_equal_ones_the_first_is_preferred(values, greatest, least):
    assert Preference("f", 1).order(values).tolist() == greatest
    assert Preference("f", -1).order(values).tolist() == least


@pytest.mark.parametrize(
    ("preference", "lesser", "greater"),
    [
        (Preference("f"), 1, 10**400),  # beyond what a float holds
        (Preference("f"), 10**400, 10**400 + 1),
        (Preference("f"), -(10**400), 0.5),
        (Preference("f", is_date=True), "1700000000.1" + 5_000 * "0", "1700000000.25"),
        (Preference("f", is_date=True), "1700000000.1", f"1700000000.{5_000 * '1'}"),
    ],
    ids=["beyond floats", "both", "below", "date", "later date"],
)
def test_numbers_of_thousands_of_digits_are_compared(preference, lesser, greater):
    assert preference.order([lesser, greater]).tolist() == [1, 0]
    assert preference.order([greater, lesser]).tolist() == [0, 1]


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


def test_numbers_of_json_are_no_months_of_a_year():
    """2024.11, which was November, is less than 2024.2."""
    assert Preference("date", 1, is_date=True).order([2024.11, 2024.2]).tolist() == [1, 0]
    assert Preference("date", 1, is_date=True).order(["2024.2", "2024.11"]).tolist() == [1, 0]


def test_dates_whose_order_is_uncertain_are_refused_without_it():
    values = ["03/04/2024", "01/05/2024"]
    with pytest.raises(UsageError, match=r"^date_order: dates such as .* say dmy or mdy"):
        Preference("f").order(values)
    assert Preference("f", 1, "dmy").order(values).tolist() == [1, 0]
    assert Preference("f", 1, "mdy").order(values).tolist() == [0, 1]


NEWEST = Preference("date", is_date=True)


def ordered(preference, values):
    notes = []
    return preference.order(values, notes.append).tolist(), notes


@pytest.mark.parametrize(
    ("values", "parameter", "said"),
    [
        (["20240930", "1700000000"], "date_unit", "8 digits of a date.* and .*seconds.* cannot be compared"),
        ([1700000000, 1700000000000], "date_unit", "seconds.*milliseconds"),
        ([1700000000000, 1700000000000000], "date_unit", "milliseconds.*microseconds"),
        (["1700000000000000", "1700000000000000000"], "date_unit", "microseconds.*nanoseconds"),
        (["2024-09-30", 1700000000], "date_unit", "seconds.*date"),
        ([1700000000000, 20240930101112], "date_unit", "14 digits of a date"),
        ([0, 1700000000], "date_unit", "0 digits"),
        ([-5, 1700000000], "date_unit", "negative numbers"),
        (["30/09/24", "2024-10-01"], "date_order", "two digits for the year: say dmy, mdy or ymd"),
        (["24-9-30"], "date_order", "two digits"),
        (["01/02/2024"], "date_order", "say dmy or mdy"),
        (["31/01/2024", "01/31/2024"], "date_order", "say dmy or mdy"),
    ],
)
def test_dates_whose_meaning_is_uncertain_are_refused_with_the_option(values, parameter, said):
    with pytest.raises(UsageError, match=rf"^{parameter}: .*{said}"):
        NEWEST.order(values)
    with pytest.raises(UsageError, match=f"^{parameter}: "):
        NEWEST.order(values[::-1])


@pytest.mark.parametrize(
    ("options", "older", "newer"),
    [
        ({"date_unit": "s"}, "2023-11-14", 1700000000),
        ({"date_unit": "ms"}, 1700000000000, "2023-11-15"),
        ({"date_unit": "s"}, 0, 1700000000.5),
        ({"date_unit": "ns"}, 1700000000000000000, 1700000000000000001),
        ({"date_unit": "us"}, "-5", "7"),
        ({"date_order": "dmy"}, "30/09/24", "1/10/24"),
        ({"date_order": "ymd"}, "24.9.30", "24.10.1"),
        ({"date_order": "mdy"}, "12/31/99", "01/01/00"),
        ({}, "20240930", "20241001"),
        ({}, "20240930", "2024-10-01"),
        ({}, 2**60, 2**60 + 1),
        ({}, str(2**60), str(2**60 + 1)),
        ({}, 2019, 2020),
        ({}, "2024-09", "2024.10"),
        ({}, "2024年9月", "2024-09-02"),
        ({}, "30 Sep 2024", "1 October 2024"),
        ({}, "September 30, 2024", "Oct 1, 2024"),
        ({}, "2024-09-30 18:00:00 +0800", "2024-09-30 11:00:00 UTC"),
        ({}, "2024-09-30 11:00:00.5 +0000 UTC", "2024-09-30 11:00:01 GMT"),
        ({}, "Fri, 06 Dec 2024 10:00:00 +0000 (UTC)", "Fri, 06 Dec 2024 10:00:01 GMT"),
    ],
)
def test_dates_that_are_certain_or_said_are_compared(options, older, newer):
    for is_date in (True, False):
        preference = Preference("date", is_date=is_date, **options)
        assert ordered(preference, [older, newer])[0] == [1, 0]
        assert ordered(preference, [newer, older])[0] == [0, 1]


@pytest.mark.parametrize("other", ["soon", "2024-13-45", "31/02/2024", "Fri, 06 Dec 2024 20:00:00 CEST"])
def test_the_newest_is_no_text_among_dates(other):
    order, (note,) = ordered(NEWEST, [other, "2024-09-30", None, "2025-01-01"])
    assert order == [3, 1, 0, 2]
    assert (
        note == f"{other!r} in 'date' is no date, though others are: documents without a date are kept last"
    )
    with pytest.raises(BadInput, match=r"^keep: .* is no date, and no other value is"):
        NEWEST.order([other, "x"])


@pytest.mark.parametrize("value", ["30/09/24", "30/9/24 10:00", "24-13-31"])
def test_dates_of_two_digits_that_do_not_fit_the_order_are_counted_and_said(value):
    preference = Preference("date", date_order="mdy", is_date=True)
    order, (note,) = ordered(preference, [value, "01/02/24", "12/31/23", value, "soon"])
    assert order == [1, 2, 0, 3, 4]
    assert note == (
        f"{value!r} in 'date' is no date in the order mdy (and 2 more are none), though others are: "
        "documents without a date are kept last"
    )
    with pytest.raises(BadInput, match="is no date in the order mdy, and no other value is"):
        preference.order([value])
    # Fields that are not called dates are compared as texts.
    order, (note,) = ordered(Preference("f", date_order="mdy"), [value, "01/02/24"])
    assert (order, note) == ([0, 1], f"'f' is compared as text: {value!r} is not a date, but others are")


def test_dates_with_and_without_an_offset_are_noted():
    order, (note,) = ordered(NEWEST, ["2024-09-30T10:00+08:00", "2024-09-30T09:00"])
    assert order == [1, 0]
    assert note == "'date' has dates with an offset and such as 2024-09-30T09:00, which is taken as UTC"


def test_an_order_that_a_date_contradicts_is_refused():
    with pytest.raises(UsageError, match="31/01/2024 is no date in the order mdy"):
        Preference("date", date_order="mdy", is_date=True).order(["31/01/2024", "01/02/2024"])


def test_values_of_a_field_that_look_like_dates_of_two_digits_are_texts():
    assert ordered(Preference("version"), ["1.2.10", "1.2.11"]) == ([1, 0], [])


def test_a_date_with_a_long_remark_is_told_in_short():
    _, notes = ordered(NEWEST, [f"1 Jan 2020 00:00 ({'A' * 100_000})", "2024-09-30T09:00+08:00"])
    assert len(notes[0]) < 200
