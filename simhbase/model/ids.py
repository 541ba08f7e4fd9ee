"""Values of Python programs and files that can be ids: texts, whole numbers of any type, UUIDs."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

from simhbase.errors import BadInput

IDS_ARE = "ids are texts, whole numbers or UUIDs"
_MOST_DIGITS = 4300  # that Python writes
_TOO_LONG = f"the id is a number of more than {_MOST_DIGITS:,} digits"


def id_of(value: Any) -> str:
    """The id that a value stands for. Raises BadInput."""
    if isinstance(value, str | UUID):
        return str(value)  # NumPy has its own
    if is_integer(value):
        return _digits(value.__index__())
    if not may_be_id(value) or not _is_whole(value):
        raise BadInput(f"the id is {value!r:.80}: {IDS_ARE}")
    if not isinstance(value, Decimal) and value + 1 == value:
        raise BadInput(f"the id is {value!r}: its type does not hold all digits of such numbers")
    if isinstance(value, Decimal) and value.adjusted() >= _MOST_DIGITS:  # making it an integer may take hours
        raise BadInput(_TOO_LONG)
    return _digits(int(value))


def _digits(value: int) -> str:
    try:
        return str(value)
    except ValueError as error:
        raise BadInput(_TOO_LONG) from error


def may_be_id(value: object) -> bool:
    """True for values whose type has ids among them."""
    if isinstance(value, bool):
        return False
    return isinstance(value, str | UUID | Decimal) or is_integer(value) or hasattr(value, "is_integer")


def is_integer(value: object) -> bool:
    """True also for NumPy's."""
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    if isinstance(value, Decimal):
        return value.is_finite() and value == value.to_integral_value()
    return bool(value.is_integer())
