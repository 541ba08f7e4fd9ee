"""Dates as programs write them, where their order is certain."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Literal

DateOrder = Literal["dmy", "mdy"]
_TIME = r"(?:[T ]*(\d{1,2})[:时](\d{1,2})(?:[:分](\d{1,2}))?[分秒]?)?"
_YEAR_FIRST = re.compile(rf"(\d{{4}})([-/.年])(\d{{1,2}})[-/.月](\d{{1,2}})日?{_TIME}")
_YEAR_LAST = re.compile(rf"(\d{{1,2}})([-/.])(\d{{1,2}})\2(\d{{4}}){_TIME}")
_RFC_2822 = re.compile(r"(?:[A-Za-z]{3}, ?)?\d{1,2} [A-Za-z]{3} \d{4} \d{2}:\d{2}(?::\d{2})?(?: \S+)?")
_CTIME = "%a %b %d %H:%M:%S %Y"
_MONTHS = 12
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


def microseconds(text: str, order: DateOrder | None = None) -> int:
    """Microseconds since 1970 of a date: ISO 8601, year first (2024-9-30, 2024年9月30日), RFC 2822, ctime;
    with an order also 30/9/2024. Times without an offset are UTC. Raises ValueError for others."""
    moment = _moment(text.strip(), order)
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND


def _moment(text: str, order: DateOrder | None) -> datetime:
    with suppress(ValueError):
        return datetime.fromisoformat(text)
    if found := _YEAR_FIRST.fullmatch(text):
        year, _, month, day, *time = found.groups()
        return _of(year, month, day, time)
    if order is not None and (found := _YEAR_LAST.fullmatch(text)):
        first, _, second, year, *time = found.groups()
        day, month = (first, second) if order == "dmy" else (second, first)
        return _of(year, month, day, time)
    if _RFC_2822.fullmatch(text):
        return parsedate_to_datetime(text)
    return datetime.strptime(text, _CTIME)  # without an offset it is UTC


def _of(year: str, month: str, day: str, time: list[str | None]) -> datetime:
    hour, minute, second = (int(each or 0) for each in time)
    return datetime(int(year), int(month), int(day), hour, minute, second)  # UTC


def shown_order(values: Iterable[object]) -> DateOrder | Literal["uncertain"] | None:
    """The order that dates with the year last show: one that begins with more than 12 begins with the day.
    "uncertain" if none shows it, None if there are none."""
    found = [match for value in values if (match := _YEAR_LAST.fullmatch(str(value).strip()))]
    if not found:
        return None
    days_first = any(int(match[1]) > _MONTHS for match in found)
    months_first = any(int(match[3]) > _MONTHS for match in found)
    if days_first == months_first:
        return "uncertain"
    return "dmy" if days_first else "mdy"
