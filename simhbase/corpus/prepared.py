"""Fingerprints made elsewhere: integers, and texts in hexadecimal or decimal digits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Literal

from simhbase.corpus.record import Base, Raw, Reject, SourceReject
from simhbase.errors import BadInput, UsageError

DECIDING = 1000  # values of a source that may show its base
HELD_BYTES = 32 << 20  # of records, until one shows it
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
            f"{_shown(value)} is no fingerprint of {bits} bits: {bits // 4} hexadecimal digits are needed. "
            "Decimal digits need base 10 (fingerprint_base)"
        )
    return int(found[1], 16)


def shown_base(text: str, bits: int) -> Base | Literal["uncertain"] | None:
    """The base that the form of a fingerprint shows: 0x, or a letter among bits / 4 digits, says 16; a minus
    sign, or more than bits / 4 decimal digits, 10. "uncertain" for other decimal digits, None for what is no
    fingerprint in either base."""
    digits = bits // 4
    if _DECIMAL.fullmatch(text):
        if -(1 << bits - 1) <= int(text) < 1 << bits:
            return 10 if text[0] == "-" or len(text) > digits else "uncertain"
        return "uncertain" if len(text) == digits else None
    found = _HEXADECIMAL.fullmatch(text)
    return 16 if found and (len(found[1]) == digits or text[1:2] in ("x", "X")) else None


def base_of(texts: Iterable[str], bits: int, what: str) -> Base:
    """The base that the first certain one of some fingerprints shows; 16 if there are no digits. what: the
    subject of a message. Raises UsageError if all that have digits are uncertain."""
    example = ""
    for text in texts:
        match shown_base(text, bits):
            case "uncertain":
                example = example or text
            case None:
                pass
            case base:
                return base
    if example:
        raise UsageError(ambiguous(example, what), parameter="fingerprint_base")
    return 16


def ambiguous(example: str, what: str) -> str:
    """Why digits are refused."""
    return (
        f"{what} only decimal digits, such as {example[:_SHOWN]!r}: they may be decimal or hexadecimal "
        "numbers. Say which (fingerprint_base)"
    )


def of_certain_base(
    items: Iterable[Raw | Reject], texts_of: Callable[[Raw], Sequence[str]], bits: int
) -> Iterator[Raw | Reject]:
    """The records of a source with the base that its first texts show, else a SourceReject.

    Holds at most DECIDING records, and HELD_BYTES. texts_of: the texts of a record's fingerprints, none for
    an integer and for what cannot be read.
    """
    rest = iter(items)
    held: list[Raw | Reject] = []
    size, example = 0, ""
    for item in rest:
        texts = texts_of(item) if isinstance(item, Raw) else ()
        for text in texts:
            base = shown_base(text, bits)
            if base == "uncertain":
                example = example or text
            elif base is not None:
                yield from (_with_base(each, base) for each in chain(held, [item], rest))
                return
        if not example:
            yield item
            continue
        held.append(item)
        size += len(item.data) + len(item.row or b"") if isinstance(item, Raw) else 0
        if len(held) == DECIDING or size > HELD_BYTES:
            what = f"its first {len(held):,} fingerprints have"
            yield SourceReject(held[0].source, None, None, ambiguous(example, what))
            return
    if example:
        yield SourceReject(held[0].source, None, None, ambiguous(example, "its fingerprints have"))


def _with_base(item: Raw | Reject, base: Base) -> Raw | Reject:
    return item._replace(base=base) if isinstance(item, Raw) and base != item.base else item


def _shown(value: str | int) -> str:
    return repr(value)[:_SHOWN]
