"""Where the columns of a Parquet file begin, by its footer.

pyarrow knows it, too, but ends the process if what it is asked for is damaged. The footer has the compact
form of Thrift, of which fields are read by their numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import SEEK_END, RawIOBase
from typing import Any

_MAGIC_BYTES = 4
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)
_ROW_GROUPS, _COLUMNS, _COLUMN, _PATH, _DATA_PAGE, _DICTIONARY_PAGE = 4, 1, 3, 3, 9, 11


def first_pages(file: RawIOBase) -> list[list[tuple[str, int]]]:
    """For each group of rows, the names of columns with rows and where the first page of each begins. Empty
    for a damaged footer."""
    end = file.seek(0, SEEK_END) - _MAGIC_BYTES - 4
    try:
        file.seek(end)
        size = int.from_bytes(file.read(4) or b"", "little")
        file.seek(end - size)
        footer = _Thrift(file.read(size) or b"").struct()
        pages = [list(map(_first_page, group[_COLUMNS])) for group in footer[_ROW_GROUPS]]
        return [[page for page in group if page[1] > 0] for group in pages]
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError, OSError):
        return []


def _first_page(chunk: dict[int, Any]) -> tuple[str, int]:
    column = chunk[_COLUMN]
    places = [column[field] for field in (_DATA_PAGE, _DICTIONARY_PAGE) if column.get(field)]
    return b".".join(column[_PATH]).decode(errors="replace"), min(places, default=0)


@dataclass(slots=True)
class _Thrift:
    """Values in Thrift's compact form, one after the other."""

    data: bytes
    place: int = 0

    def struct(self) -> dict[int, Any]:
        fields, number = dict[int, Any](), 0
        while (head := self._byte()) != _STOP:
            number = number + (head >> 4) if head >> 4 else self._integer()
            kind = head & 15
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind)
        return fields

    def _value(self, kind: int) -> Any:
        if kind in _INTEGERS:
            return self._integer()
        if kind == _BINARY:
            return self._bytes(self._varint())
        if kind in (_LIST, _SET):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._varint()
            return [self._value(head & 15) for _ in range(count)]
        if kind == _STRUCT:
            return self.struct()
        if kind == _DOUBLE:
            return self._bytes(8)
        if kind in (_TRUE, _FALSE, _BYTE):  # in a list a byte, too
            return self._byte()
        raise ValueError(kind)

    def _bytes(self, size: int) -> bytes:
        self.place += size
        if self.place > len(self.data):
            raise IndexError(self.place)
        return self.data[self.place - size : self.place]

    def _byte(self) -> int:
        byte = self.data[self.place]
        self.place += 1
        return byte

    def _varint(self) -> int:
        number, shift = 0, 0
        while (byte := self._byte()) & 0x80:
            number |= (byte & 0x7F) << shift
            shift += 7
        return number | byte << shift

    def _integer(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)
