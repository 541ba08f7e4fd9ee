"""Chooses the representative of a group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import nan
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from simhbase.corpus.record import Value
from simhbase.errors import UsageError
from simhbase.jobs.dates import DateOrder, microseconds, shown_order

_EXACT = 2.0**53


@dataclass(frozen=True, slots=True)
class Preference:
    """Order of preference: greatest (sign 1) or least (-1) value first. field: JSON field or CSV column of
    the value; None for the length of the text in characters. date_order: of dates with the year last; None:
    what the values show."""

    field: str | None
    sign: Literal[1, -1] = 1
    date_order: DateOrder | None = None

    def order(self, values: Sequence[Value | None]) -> NDArray[np.int64]:
        """Positions of n documents in order of preference: int64 (n,).

        Values are compared as numbers if all are numbers, as dates if all are dates (see `microseconds`),
        else as texts by code points. Equal ones stay in order; those without a value (None, NaN) come last.
        Raises UsageError for dates such as 01/02/2024, if no value shows their order.
        """
        with suppress(ValueError):
            numbers = np.array([as_number(value) for value in values], dtype=np.float64)
            if not np.any(np.abs(numbers) >= _EXACT):
                order: NDArray[np.int64] = np.argsort(-self.sign * numbers, kind="stable")  # NaN comes last
                return order
            return self._order_of([_exact(value) for value in values])
        known_order = self.date_order or shown_order(values)
        if known_order == "uncertain":
            raise UsageError(
                "dates such as 01/02/2024 may begin with the day or the month: say dmy or mdy",
                parameter="date_order",
            )
        with suppress(ValueError):
            read = partial(microseconds, order=known_order)
            return self._order_of([None if value is None else read(str(value)) for value in values])
        return self._order_of([None if value is None else str(value) for value in values])

    def _order_of(self, values: Sequence[Any]) -> NDArray[np.int64]:
        """The order of comparable values."""
        there = [number for number, value in enumerate(values) if value is not None]
        known = sorted(there, key=values.__getitem__, reverse=self.sign > 0)
        unknown = [number for number, value in enumerate(values) if value is None]
        return np.array(known + unknown, dtype=np.int64)


def preference(name: str, date_field: str, date_order: DateOrder | None = None) -> Preference | None:
    """Parse `first` (returns None), `longest`, `newest` or `oldest` (by the date field), FIELD or -FIELD.
    Raises UsageError for an empty name."""
    if name in ("first", "longest"):
        return None if name == "first" else Preference(None)
    field = date_field if name in ("newest", "oldest") else name.removeprefix("-")
    if not field:
        raise UsageError(
            f"must be first, longest, newest, oldest, FIELD or -FIELD, not {name!r}", parameter="keep"
        )
    return Preference(field, -1 if name == "oldest" or name.startswith("-") else 1, date_order)


def compared_as_text(values: Sequence[Value | None]) -> str | None:
    """Why values are compared as texts although some are numbers or dates; None if they are not."""
    known = [value for value in values if value is not None]
    order = shown_order(known)
    if order == "uncertain":
        return None  # refused, or said by an option
    for measured, kind in ((as_number, "number"), (partial(_as_moment, order=order), "date")):
        are_such = [or_none(measured, value) is not None for value in known]
        if all(are_such):
            return None
        if any(are_such):
            return f"{str(known[are_such.index(False)])[:40]!r} is not a {kind}, but others are"
    return None


def or_none(measured: Callable[[Value | None], float], value: Value) -> float | None:
    """The value as `measured`, None if it is no such value."""
    try:
        return measured(value)
    except ValueError:
        return None


def as_number(value: Value | None) -> float:
    """Convert a value to a number, None to NaN. Raises ValueError."""
    return nan if value is None else float(value)


def as_moment(value: Value | None) -> float:
    """Convert a date, with or without a time, to microseconds since 1970, None to NaN. Raises ValueError."""
    return _as_moment(value, None)


def _as_moment(value: Value | None, order: DateOrder | None) -> float:
    return nan if value is None else float(microseconds(str(value), order))


def _exact(value: Value | None) -> int | float | None:
    """A number that can be compared exactly, None for NaN. Raises ValueError."""
    with suppress(ValueError):
        return int(value) if isinstance(value, str | int) else value
    number = as_number(value)
    return None if number != number else number
