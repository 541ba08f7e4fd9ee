"""Thrift's compact form, as of the footers and headers of Parquet: read with the kinds of all values,
changed, and written again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

STOP, TRUE, FALSE, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = 0, 1, 2, 7, 8, 9, 10, 11, 12
INTEGERS = (4, 5, 6)
_LONG = 15  # elements of a list, whose number follows

Struct = dict[int, tuple[int, Any]]  # kinds and values by the numbers of fields
Values = tuple[int, list[Any]]  # the kind of the elements of a list, and these


@dataclass
class Reader:
    data: bytes
    place: int = 0

    def struct(self) -> Struct:
        fields, number = Struct(), 0
        while (head := self._byte()) != STOP:
            number = number + (head >> 4) if head >> 4 else self._integer()
            kind = head & 15
            fields[number] = (kind, None if kind in (TRUE, FALSE) else self._value(kind))
        return fields

    def _value(self, kind: int) -> Any:
        if kind in INTEGERS:
            return self._integer()
        if kind in (BINARY, DOUBLE):
            size = self._varint() if kind == BINARY else 8
            self.place += size
            return self.data[self.place - size : self.place]
        if kind in (LIST, SET):
            head = self._byte()
            count = head >> 4 if head >> 4 < _LONG else self._varint()
            return head & 15, [self._value(head & 15) for _ in range(count)]
        return self.struct() if kind == STRUCT else self._byte()

    def _byte(self) -> int:
        self.place += 1
        return self.data[self.place - 1]

    def _varint(self) -> int:
        number = shift = 0
        while (byte := self._byte()) > 127:
            number, shift = number | (byte & 127) << shift, shift + 7
        return number | byte << shift

    def _integer(self) -> int:
        number = self._varint()
        return number >> 1 ^ -(number & 1)


def written(fields: Struct) -> bytes:
    """Fields in their order, each with its whole number."""
    return b"".join(_field(number, *field) for number, field in fields.items()) + bytes([STOP])


def _field(number: int, kind: int, value: Any) -> bytes:
    return bytes([kind]) + _integer(number) + (b"" if kind in (TRUE, FALSE) else _value(kind, value))


def _value(kind: int, value: Any) -> bytes:
    if kind in INTEGERS:
        return _integer(value)
    if kind == BINARY:
        return _varint(len(value)) + bytes(value)
    if kind in (LIST, SET):
        inner, values = value
        return (
            bytes([_LONG << 4 | inner])
            + _varint(len(values))
            + b"".join(_value(inner, each) for each in values)
        )
    if kind == MAP:  # of numbers to numbers
        head = bytes([5 << 4 | 5]) if value else b""
        return (
            _varint(len(value)) + head + b"".join(_integer(each) for pair in value.items() for each in pair)
        )
    if kind == DOUBLE:
        return bytes(value)
    return written(value) if kind == STRUCT else bytes([value])


def _integer(number: int) -> bytes:
    return _varint(2 * number if number >= 0 else -2 * number - 1)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])
