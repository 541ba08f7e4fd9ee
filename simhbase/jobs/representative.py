"""Which document of a group is its representative."""

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
    """By what documents are preferred: the greatest (sign 1) or the least (-1) value first.

    field: JSON field or CSV column of the value; None for the length of the text in characters.
    """

    field: str | None
    sign: Literal[1, -1] = 1

    def order(self, values: Sequence[Value | None]) -> NDArray[np.int64]:
        """Positions of n documents from the most preferred to the least: int64 (n,).

        Values are compared as numbers where all are, as dates where all are such (ISO 8601; times without
        an offset are UTC), else as texts by code points. Of equal ones the first is preferred, and those
        without a value (None, NaN) to nobody.
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
    """What `first` (None: input order), `longest`, `newest` and `oldest` (by the date field), a field's name
    or one behind a minus stands for. Raises UsageError for no name."""
    if name in ("first", "longest"):
        return None if name == "first" else Preference(None)
    field = date_field if name in ("newest", "oldest") else name.removeprefix("-")
    if not field:
        raise UsageError(
            f"must be first, longest, newest, oldest, FIELD or -FIELD, not {name!r}", parameter="keep"
        )
    return Preference(field, -1 if name == "oldest" or name.startswith("-") else 1)


def compared_as_text(values: Sequence[Value | None]) -> str | None:
    """Why values are compared as texts, naming the first that is no number or no date as others are: what a
    person may not have expected. None where all are alike."""
    known = [value for value in values if value is not None]
    for measured, kind in ((as_number, "number"), (as_moment, "date of ISO 8601")):
        are_such = [_is_such(measured, value) for value in known]
        if all(are_such):
            return None
        if any(are_such):
            return f"{str(known[are_such.index(False)])[:40]!r} is no {kind}, others are"
    return None


def _is_such(measured: Callable[[Value | None], float], value: Value) -> bool:
    try:
        measured(value)
    except ValueError:
        return False
    return True


def as_number(value: Value | None) -> float:
    """The number that a value is compared as, NaN for none. Raises ValueError for a text that is none."""
    return nan if value is None else float(value)


def as_moment(value: Value | None) -> float:
    """The microseconds since 1970 of a date, with a time or without, NaN for none. Raises ValueError for what
    is none of ISO 8601."""
    if value is None:
        return nan
    moment = datetime.fromisoformat(str(value))
    return float(((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND)
