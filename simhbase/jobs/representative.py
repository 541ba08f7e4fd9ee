"""Chooses the representative of a group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import nan
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from simhbase.corpus.record import Value
from simhbase.errors import UsageError

_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Preference:
    """Order of preference: greatest (sign 1) or least (-1) value first. field: JSON field or CSV column of
    the value; None for the length of the text in characters."""

    field: str | None
    sign: Literal[1, -1] = 1

    def order(self, values: Sequence[Value | None]) -> NDArray[np.int64]:
        """Positions of n documents in order of preference: int64 (n,).

        Values are compared as numbers if all are numbers, as dates if all are dates (ISO 8601; times without
        an offset are UTC), else as texts by code points. Equal ones stay in order; those without a value
        (None, NaN) come last.
        """
        for measured in (as_number, as_moment):
            with suppress(ValueError):
                numbers = np.array([measured(value) for value in values], dtype=np.float64)
                order: NDArray[np.int64] = np.argsort(-self.sign * numbers, kind="stable")  # NaN comes last
                return order
        return self._order_of_texts(values)

    def _order_of_texts(self, values: Sequence[Value | None]) -> NDArray[np.int64]:
        texts = {number: str(value) for number, value in enumerate(values) if value is not None}
        known = sorted(texts, key=texts.__getitem__, reverse=self.sign > 0)
        unknown = [number for number, value in enumerate(values) if value is None]
        return np.array(known + unknown, dtype=np.int64)


def preference(name: str, date_field: str) -> Preference | None:
    """Parse `first` (returns None), `longest`, `newest` or `oldest` (by the date field), FIELD or -FIELD.
    Raises UsageError for an empty name."""
    if name in ("first", "longest"):
        return None if name == "first" else Preference(None)
    field = date_field if name in ("newest", "oldest") else name.removeprefix("-")
    if not field:
        raise UsageError(
            f"must be first, longest, newest, oldest, FIELD or -FIELD, not {name!r}", parameter="keep"
        )
    return Preference(field, -1 if name == "oldest" or name.startswith("-") else 1)


def compared_as_text(values: Sequence[Value | None]) -> str | None:
    """Why values are compared as texts although some are numbers or dates; None if they are not."""
    known = [value for value in values if value is not None]
    for measured, kind in ((as_number, "number"), (as_moment, "date of ISO 8601")):
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
    """Convert a date of ISO 8601, with or without a time, to microseconds since 1970, None to NaN. Raises
    ValueError."""
    if value is None:
        return nan
    moment = datetime.fromisoformat(str(value))
    return float(((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND)
