"""Dates as programs write them, where their form is certain or was said."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from fractions import Fraction
from typing import Literal

from simhbase.corpus.record import Value
from simhbase.errors import UsageError

DateOrder = Literal["dmy", "mdy", "ymd"]
DateUnit = Literal["s", "ms", "us", "ns"]
NANOSECONDS: Mapping[DateUnit, int] = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_MOST = NANOSECONDS["s"]  # numbers of one scale are compared to this part of one
_TOLD = 40  # characters of a number, which has 20 digits before its point: what follows is below this part

# Forms of dates. Numbers have that of their scale, such as "seconds".
DATE, WITH_OFFSET, TWO_DIGITS = "date", "date with an offset", "two digits for the year"
DAY_FIRST, MONTH_FIRST, EITHER_FIRST = "day first", "month first", "day or month first"
COMPACT = "8 digits of a date"
_SCALES = {9: "seconds", 10: "seconds", 12: "milliseconds", 13: "milliseconds"}
_SCALES |= {15: "microseconds", 16: "microseconds", 18: "nanoseconds", 19: "nanoseconds"}

_TIME = r"(?:[T ]*(\d{1,2})[:时](\d{1,2})(?:[:分](\d{1,2}))?[分秒]?)?"
_YEAR_FIRST = re.compile(rf"(\d{{4}})(?:([-/.年])(\d{{1,2}})(?:月|[-/.月](\d{{1,2}})日?)?){_TIME}")
_YEAR_LAST = re.compile(rf"(\d{{1,2}})([-/.])(\d{{1,2}})\2(\d{{4}}){_TIME}")
_TWO_DIGITS = re.compile(
    rf"(?=\d\d[-/.]|\d+[-/.]\d+[-/.]\d\d(?!\d))(\d{{1,2}})([-/.])(\d{{1,2}})\2(\d{{1,2}}){_TIME}"
)
_ZONE = r"[+-]\d{4}|UTC?|GMT|Z|[ECMP][SD]T"
_RFC_2822 = re.compile(
    rf"(?:[A-Za-z]{{3}}, ?)?\d{{1,2}} [A-Za-z]{{3}} \d{{4}} \d{{2}}:\d{{2}}(?::\d{{2}})?"
    rf"(?: (?:{_ZONE}))?(?: \([^)]*\))?"
)
_IN_UTC = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d\S*?)(?: \+0000)? (?:UTC|GMT)")
# ctime, and days with the month's name.
_WITH_NAMES = ("%a %b %d %H:%M:%S %Y", "%d %b %Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y")
# A fraction of four digits or fewer may be a date: 2024.9.
_NUMBER = re.compile(r"([+-]?)(\d{1,20}|\d{5,20}\.\d+)")
_FRACTION = re.compile(r"([+-]?)(\d{1,20}(?:\.\d+)?)")
_WHOLE = re.compile(r"([+-]?\d{1,20})\.0+")
_COMPACT = re.compile(
    r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:[01]\d|2[0-3])?(?:[0-5]\d){0,2}"
)
_LATEST_OF_2000 = 68  # two digits for the year, as POSIX reads them
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


def form_of(value: Value, order: DateOrder | None = None) -> str | None:
    """The form of a date or number, None for another value. order: the one that was said, if any: dates with
    two digits for the year that do not fit are none."""
    text = _text(value)
    if number := _number(value, text):
        whole = number[2].partition(".")[0].lstrip("0")
        if _COMPACT.fullmatch(whole):
            return f"{len(whole)} digits of a date"
        return _SCALES.get(len(whole), f"{len(whole)} digits") if number[1] != "-" else "negative numbers"
    if text[:4].isdigit():  # most dates: others take longer
        return _form_of_certain(text)
    if _YEAR_LAST.fullmatch(text):
        is_day_first, is_month_first = (_is_date(text, order) for order in ("dmy", "mdy"))
        if is_day_first and is_month_first:
            return EITHER_FIRST
        return DAY_FIRST if is_day_first else MONTH_FIRST if is_month_first else None
    if _TWO_DIGITS.fullmatch(text):
        return TWO_DIGITS if order is None or _is_date(text, order) else None
    return _form_of_certain(text)


def _form_of_certain(text: str) -> str | None:
    with suppress(ValueError):
        return WITH_OFFSET if _moment(text, None).tzinfo else DATE
    return None


def forms_of(
    values: Iterable[Value | None], order: DateOrder | None = None
) -> dict[str | None, tuple[Value, int]]:
    """The forms of values, with the first one of each, and their number. order: as for `form_of`."""
    forms: dict[str | None, tuple[Value, int]] = {}
    for value in values:
        if value is not None:
            form = form_of(value, order)
            first, count = forms.get(form, (value, 0))
            forms[form] = first, count + 1
    return forms


def _is_date(text: str, order: DateOrder) -> bool:
    with suppress(ValueError):
        return bool(_moment(text, order))
    return False


@dataclass(frozen=True, slots=True)
class DateReader:
    """Reads the dates of a field. order: of dates with the year last, or with two digits for it; unit: of
    numbers, since 1970; has_numbers: all values are numbers of one scale."""

    order: DateOrder | None
    unit: DateUnit | None
    has_numbers: bool = False

    @classmethod
    def of(
        cls, forms: Mapping[str, Value], order: DateOrder | None = None, unit: DateUnit | None = None
    ) -> DateReader:
        """forms: those of all values, with an example of each. Raises UsageError if the meaning of some is
        uncertain, and no argument says it."""
        shown = _shown_order(forms, order)
        numbers = [form for form in forms if _is_of_numbers(form)]
        others = [form for form in forms if not _is_of_numbers(form)]
        if unit is None and (len(numbers) > 1 or (numbers and others and numbers != [COMPACT])):
            one, other = [*numbers, *others][:2]
            raise UsageError(
                f"{_shown(forms[one])} ({one}) and {_shown(forms[other])} ({other}) cannot be compared: say "
                "what numbers count since 1970, s, ms, us or ns, or write all dates in one form",
                parameter="date_unit",
            )
        return cls(order or shown, unit, has_numbers=not others)

    def moment(self, value: Value) -> int | None:
        """A date as nanoseconds since 1970, or another number that is greater for a later one. None for what
        is no date."""
        text = _text(value)
        if (self.has_numbers or self.unit) and _number(value, text):
            factor = NANOSECONDS[self.unit] if self.unit else _MOST
            return int(Fraction(text[:_TOLD]) * factor) if "." in text else int(text) * factor
        with suppress(ValueError):
            moment = _moment(text, self.order)
            known = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return NANOSECONDS["us"] * ((known - _EPOCH) // _MICROSECOND)
        return None


def _shown_order(forms: Mapping[str, Value], said: DateOrder | None) -> DateOrder | None:
    """The order that dates with the year last show. Raises UsageError if it is uncertain and not said, or
    another one than was said."""
    if TWO_DIGITS in forms and said is None:
        raise UsageError(
            f"dates such as {forms[TWO_DIGITS]} have two digits for the year: say dmy, mdy or ymd",
            parameter="date_order",
        )
    shown: dict[str, DateOrder] = {DAY_FIRST: "dmy", MONTH_FIRST: "mdy"}
    found = [form for form in shown if form in forms]
    if said is None and (len(found) > 1 or (not found and EITHER_FIRST in forms)):
        raise UsageError(
            "dates such as 01/02/2024 may begin with the day or the month: say dmy or mdy",
            parameter="date_order",
        )
    for form in found if said else ():
        if shown[form] != said:
            raise UsageError(f"{forms[form]} is no date in the order {said}", parameter="date_order")
    return shown[found[0]] if found else None


def _is_of_numbers(form: str) -> bool:
    return form[0].isdigit() or form == "negative numbers" or form in _SCALES.values()


def _number(value: Value, text: str) -> re.Match[str] | None:
    """The sign and the digits of a number. As a text, 2024.9 may be a date; as a number it is none."""
    return (_FRACTION if isinstance(value, float) else _NUMBER).fullmatch(text)


def _text(value: Value) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = str(value).strip()
    whole = _WHOLE.fullmatch(text) if ".0" in text else None
    return whole[1] if whole else text


def _shown(value: Value) -> str:
    return repr(str(value)[:40])


def _moment(text: str, order: DateOrder | None) -> datetime:
    """Raises ValueError."""
    with suppress(ValueError):
        return datetime.fromisoformat(text)
    if found := _IN_UTC.fullmatch(text):
        return datetime.fromisoformat(f"{found[1]}+00:00")
    if found := _YEAR_FIRST.fullmatch(text):
        year, _, month, day, *time = found.groups()
        return _of(year, month, day or "1", time)
    if order is not None and (found := _YEAR_LAST.fullmatch(text) or _TWO_DIGITS.fullmatch(text)):
        first, _, second, third, *time = found.groups()
        parts = dict(zip(order, (first, second, third), strict=True))
        if len(parts["y"]) == 1 or len(parts["d"]) == 4:
            raise ValueError(text)
        return _of(parts["y"], parts["m"], parts["d"], time)
    if _RFC_2822.fullmatch(text):
        return parsedate_to_datetime(text)
    for form in _WITH_NAMES:
        with suppress(ValueError):
            return datetime.strptime(text, form)  # without an offset it is UTC
    raise ValueError(text)


def _of(year: str, month: str, day: str, time: list[str | None]) -> datetime:
    hour, minute, second = (int(each or 0) for each in time)
    full = int(year) if len(year) > 2 else int(year) + (2000 if int(year) <= _LATEST_OF_2000 else 1900)
    return datetime(full, int(month), int(day), hour, minute, second)  # UTC
