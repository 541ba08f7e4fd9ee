"""In which order documents are preferred as representatives of their group; `drawers/groups.py` chooses."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import nan
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from simhbase.corpus.record import Value
from simhbase.deduplication.dates import (
    DATE,
    TWO_DIGITS,
    WITH_OFFSET,
    DateOrder,
    DateReader,
    DateUnit,
    form_of,
    forms_of,
)
from simhbase.errors import BadInput, UsageError

DATE_FIELD = "date"
_EXACT = 2.0**53


@dataclass(frozen=True, slots=True)
class Preference:
    """Order of preference: greatest (sign 1) or least (-1) value first. field: JSON field or CSV column of
    the value; None for the length of the text in characters. date_order: of dates with the year last, or
    with two digits for it; date_unit: of numbers among dates; None: what the values show. is_date: the values
    are dates."""

    field: str | None
    sign: Literal[1, -1] = 1
    date_order: DateOrder | None = None
    date_unit: DateUnit | None = None
    is_date: bool = False

    def order(
        self, values: Sequence[Value | None], note: Callable[[str], None] = lambda message: None
    ) -> NDArray[np.int64]:
        """Positions of n documents in order of preference: int64 (n,).

        Dates are compared as such. Other values are compared as numbers if all are numbers, as dates if all
        are dates (see `DateReader`), else as texts by code points. Equal values stay in order. Documents
        without a value (None, NaN) come last, as do values that are no dates where others are. note: receives
        messages about what was decided. Raises UsageError for dates whose meaning is uncertain, BadInput if
        no value is a date.
        """
        if not self.is_date:
            with suppress(ValueError):
                return self._by_number(values)
        values = [None if value is None or value != value else value for value in values]
        forms = forms_of(values, self.date_order)
        if not self.reads_dates(forms):
            if reason := compared_as_text(values, self.date_order):
                note(f"{self.field!r} is compared as text: {reason}")
            return self._order_of([None if value is None else str(value) for value in values])
        reader = self.dates(forms, note)
        return self._order_of([None if value is None else reader.moment(value) for value in values])

    def reads_dates(self, forms: Collection[str | None]) -> bool:
        """True if values that are not all numbers are compared as dates. forms: see `dates`."""
        # In a field that is not called a date, 1.2.10 is more likely a version.
        is_text = None in forms or (TWO_DIGITS in forms and self.date_order is None)
        return self.is_date or not is_text

    def dates(self, forms: Mapping[str | None, tuple[Value, int]], note: Callable[[str], None]) -> DateReader:
        """How the dates of the field are read. forms: those of all values, with an example of each and their
        number; None is that of what is no date. Raises UsageError and BadInput as `order`."""
        known = {form: value for form, (value, _) in forms.items() if form is not None}
        if None in forms:
            value, count = forms[None]
            order = f" in the order {self.date_order}" if self.date_order else ""
            example = f"{str(value)[:40]!r} in {self.field!r} is no date{order}"
            if not known:
                raise BadInput(f"{example}, and no other value is: keep by -FIELD or FIELD", parameter="keep")
            such = f" (and {count - 1:,} more are none)" if count > 1 else ""
            note(f"{example}{such}, though others are: documents without a date are kept last")
        if {DATE, WITH_OFFSET} <= known.keys():
            shown = str(known[DATE])[:40]
            note(f"{self.field!r} has dates with an offset and such as {shown}, which is taken as UTC")
        return DateReader.of(known, self.date_order, self.date_unit)

    def _by_number(self, values: Sequence[Value | None]) -> NDArray[np.int64]:
        """Raises ValueError if one is no number."""
        numbers = np.array([as_number(value) for value in values], dtype=np.float64)
        if np.any(np.abs(numbers) >= _EXACT):
            return self._order_of([_exact(value) for value in values])
        order: NDArray[np.int64] = np.argsort(-self.sign * numbers, kind="stable")  # NaN comes last
        return order

    def _order_of(self, values: Sequence[Any]) -> NDArray[np.int64]:
        """The order of comparable values."""
        there = [number for number, value in enumerate(values) if value is not None]
        known = sorted(there, key=values.__getitem__, reverse=self.sign > 0)
        unknown = [number for number, value in enumerate(values) if value is None]
        return np.array(known + unknown, dtype=np.int64)


def preference(
    name: str,
    date_field: str,
    date_order: DateOrder | None = None,
    date_unit: DateUnit | None = None,
) -> Preference | None:
    """Parse `first` (returns None), `longest`, `newest` or `oldest` (by the date field), FIELD or -FIELD.
    Raises UsageError for an empty name, and for what has no effect on this choice."""
    is_date, has_values = name in ("newest", "oldest"), name not in ("first", "longest")
    if date_field != DATE_FIELD and not is_date:
        raise UsageError(f"applies to keep newest and oldest, not {name}", parameter="date_field")
    for parameter, value in ("date_order", date_order), ("date_unit", date_unit):
        if value is not None and not has_values:
            raise UsageError(f"applies to keep newest, oldest and FIELD, not {name}", parameter=parameter)
    if not has_values:
        return None if name == "first" else Preference(None)
    field = date_field if is_date else name.removeprefix("-")
    if not field:
        raise UsageError(
            f"must be first, longest, newest, oldest, FIELD or -FIELD, not {name!r}", parameter="keep"
        )
    sign: Literal[1, -1] = -1 if name == "oldest" or name.startswith("-") else 1
    return Preference(field, sign, date_order, date_unit, is_date)


def compared_as_text(values: Sequence[Value | None], order: DateOrder | None = None) -> str | None:
    """Why values are compared as texts although some are numbers or dates; None if they are not. order: as
    for `form_of`."""
    known = [value for value in values if value is not None]
    for is_such, kind in ((is_number, "number"), (partial(form_of, order=order), "date")):
        are_such = [bool(is_such(value)) for value in known]
        if all(are_such):
            return None
        if any(are_such):
            return f"{str(known[are_such.index(False)])[:40]!r} is not a {kind}, but others are"
    return None


def is_number(value: Value) -> bool:
    with suppress(ValueError):
        as_number(value)
        return True
    return False


def as_number(value: Value | None) -> float:
    """Convert a value to a number, None to NaN. Raises ValueError."""
    try:
        return nan if value is None else float(value)
    except OverflowError:  # as a text it is infinite, too
        return float(f"{value}")


def _exact(value: Value | None) -> int | float | None:
    """A number that can be compared exactly, None for NaN. Raises ValueError."""
    with suppress(ValueError):
        if isinstance(value, str | int):
            return int(value)
    number = as_number(value)
    return None if number != number else number
