"""Fingerprints made elsewhere: integers, and texts in hexadecimal or decimal digits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from simhbase.corpus.record import Base, Raw, Reject, SourceReject
from simhbase.errors import BadInput

DECIDING = 1000  # values of a source that may show its base
_HEXADECIMAL = re.compile("(?:0[xX])?([0-9a-fA-F]+)")
_DECIMAL = re.compile("-?[0-9]{1,40}")
_SHOWN = 40  # characters


def fingerprint_of(value: str | int, bits: int, base: Base) -> int:
    """A fingerprint of `bits` bits. An integer may also be signed (two's complement). Raises BadInput."""
    if isinstance(value, int):
        if not -(1 << bits - 1) <= value < 1 << bits:
            raise BadInput(
                f"{_shown(value)} is no fingerprint of {bits} bits: it is beyond the integers of {bits} bits"
            )
        return value % (1 << bits)
    if base == 10:
        if not _DECIMAL.fullmatch(value):
            raise BadInput(
                f"{_shown(value)} is no fingerprint of {bits} bits: an integer in decimal digits is needed"
            )
        return fingerprint_of(int(value), bits, base)
    found = _HEXADECIMAL.fullmatch(value)
    if not found or len(found[1]) != bits // 4:
        raise BadInput(
            f"{_shown(value)} is no fingerprint of {bits} bits: {bits // 4} hexadecimal digits are needed"
        )
    return int(found[1], 16)


def may_be_decimal(text: str) -> bool:
    """True for digits that could be of either base: 0x or a letter shows that they are hexadecimal."""
    return _DECIMAL.fullmatch(text) is not None


def ambiguous(example: str, what: str) -> str:
    """Why digits are refused."""
    return (
        f"{what} only decimal digits, such as {example[:_SHOWN]!r}: they may be decimal or hexadecimal "
        "numbers. Say which (fingerprint_base)"
    )


def of_certain_base(
    items: Iterable[Raw | Reject], text_of: Callable[[Raw], str | None]
) -> Iterator[Raw | Reject]:
    """The records of a source whose first texts show that they are hexadecimal, else a SourceReject.

    text_of: the text of a record's fingerprint, None for an integer and for what cannot be read.
    """
    rest = iter(items)
    held: list[Raw | Reject] = []
    example = ""
    for item in rest:
        text = text_of(item) if isinstance(item, Raw) else None
        if text and not may_be_decimal(text) and _HEXADECIMAL.fullmatch(text):
            yield from (*held, item)
            yield from rest
            return
        if text and may_be_decimal(text):
            example = example or text
        if example:
            held.append(item)
        else:
            yield item
        if len(held) == DECIDING:
            break
    if example:
        reason = ambiguous(
            example,
            f"its first {DECIDING:,} fingerprints have" if len(held) == DECIDING else "its fingerprints have",
        )
        yield SourceReject(held[0].source, None, None, reason)


def _shown(value: str | int) -> str:
    return repr(value)[:_SHOWN]
