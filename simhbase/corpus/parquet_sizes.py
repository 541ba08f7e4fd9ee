"""Where the columns of a Parquet file are, and how large their pages, by its footer and their headers.

pyarrow knows it, too, but ends the process if what it is asked for is damaged. Both have the compact form of
Thrift, of which fields are read by their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import SEEK_END, RawIOBase
from typing import Any, NamedTuple

_MAGIC_BYTES = 4
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)
_ROW_GROUPS, _COLUMNS, _COLUMN, _PATH, _PACKED, _DATA_PAGE, _DICTIONARY_PAGE = 4, 1, 3, 3, 7, 9, 11
_KIND, _PAGE_UNPACKED, _PAGE_PACKED, _VALUES = 1, 2, 3, 1
_OF_KIND = {0: 5, 2: 7, 3: 8}  # the field of a header that tells more: data, dictionary, data of version 2
_DICTIONARY = 2
_HEADER_BYTES = (256, 64 << 10, 16 << 20)  # it may have the least and the greatest value
_DAMAGE = (AttributeError, LookupError, TypeError, ValueError, RecursionError)


class Chunk(NamedTuple):
    """The values of a column in one group of rows, and where they are. is_flat: a value is a row."""

    column: str
    begin: int
    end: int
    is_flat: bool


class Page(NamedTuple):
    """A page, its size in memory and in the file, and the number of its rows at least."""

    is_dictionary: bool
    unpacked: int
    packed: int
    rows: int


def chunks(file: RawIOBase) -> list[list[Chunk]]:
    """For each group of rows, its columns that have values. Empty for a damaged footer."""
    end = file.seek(0, SEEK_END) - _MAGIC_BYTES - 4
    try:
        file.seek(end)
        size = int.from_bytes(file.read(4) or b"", "little")
        file.seek(end - size)
        footer = _Thrift(file.read(size) or b"").struct()
        found = [[_chunk(column[_COLUMN]) for column in group[_COLUMNS]] for group in footer[_ROW_GROUPS]]
        return [[chunk for chunk in group if chunk.begin > 0] for group in found]
    except (*_DAMAGE, OSError):
        return []


def _chunk(column: dict[int, Any]) -> Chunk:
    begin = min((column[field] for field in (_DATA_PAGE, _DICTIONARY_PAGE) if column.get(field)), default=0)
    path = b".".join(column[_PATH]).decode(errors="replace")
    return Chunk(path, begin, begin + column[_PACKED], len(column[_PATH]) == 1)


def pages(file: RawIOBase, chunk: Chunk) -> Iterator[Page]:
    """The pages of a column, up to the first damaged one. Raises OSError if that is the first one."""
    place = chunk.begin
    while place < chunk.end:
        found = _page_at(file, place)
        if found is None:
            if place == chunk.begin:
                raise OSError("a page has another header than those of Parquet")
            return
        page, size = found
        yield page if chunk.is_flat else page._replace(rows=0)
        place += size + page.packed


def _page_at(file: RawIOBase, place: int) -> tuple[Page, int] | None:
    """The page there, and the size of its header; None if it is damaged."""
    for most in _HEADER_BYTES:
        file.seek(place)
        header = _Thrift(file.read(most) or b"")
        try:
            fields = header.struct()
        except IndexError:  # it is longer
            continue
        except _DAMAGE:
            return None
        return _page(fields, header.place)
    return None


def _page(fields: dict[int, Any], size: int) -> tuple[Page, int] | None:
    kind, unpacked, packed = fields.get(_KIND, -1), fields.get(_PAGE_UNPACKED), fields.get(_PAGE_PACKED)
    if not isinstance(unpacked, int) or not isinstance(packed, int) or min(unpacked, packed) < 0:
        return None
    more = fields.get(_OF_KIND.get(kind, 0))
    values = more.get(_VALUES) if isinstance(more, dict) else None
    return Page(kind == _DICTIONARY, unpacked, packed, values if isinstance(values, int) else 0), size


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
