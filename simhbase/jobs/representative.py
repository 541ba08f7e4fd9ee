"""Which document of a group is its representative."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from simhbase.corpus.record import Value
from simhbase.errors import UsageError


@dataclass(frozen=True, slots=True)
class Preference:
    """By what documents are preferred: the greatest (sign 1) or the least (-1) value first.

    field: JSON field or CSV column of the value; None for the length of the text in characters.
    """

    field: str | None
    sign: Literal[1, -1] = 1

    def order(self, values: Sequence[Value | None]) -> NDArray[np.int64]:
        """Positions of n documents from the most preferred to the least: int64 (n,).

        Values are compared as numbers where all are, else as texts by code points. Of equal ones the
        first is preferred, and those without a value (None, NaN) to nobody.
        """
        if any(_is_text(value) for value in values):
            return self._order_of_texts(values)
        numbers = np.array([as_number(value) for value in values], dtype=np.float64)
        order: NDArray[np.int64] = np.argsort(-self.sign * numbers, kind="stable")  # NaN comes last
        return order

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
        raise UsageError(f"`keep={name!r}`: name a field, or use first, longest, newest or oldest")
    return Preference(field, -1 if name == "oldest" or name.startswith("-") else 1)


def text_among_numbers(values: Sequence[Value | None]) -> str | None:
    """The first text where other values are numbers: what a person may not have expected."""
    text = next((value for value in values if isinstance(value, str) and _is_text(value)), None)
    if text is None or all(value is None or _is_text(value) for value in values):
        return None
    return text


def _is_text(value: Value | None) -> bool:
    try:
        as_number(value)
    except ValueError:
        return True
    return False


def as_number(value: Value | None) -> float:
    """The number that a value is compared as, NaN for none. Raises ValueError for a text that is none."""
    return nan if value is None else float(value)
