"""Where the columns of a Parquet file are, and how large their pages, by its footer and their headers.

pyarrow knows it, too, but ends the process if what it is asked for is damaged. Both have the compact form of
Thrift, of which fields are read by their numbers: those of footers, which may have megabytes, by the core. By
these sizes `parquet.py` refuses columns (`require_plausible`) before they are unpacked. What pyarrow can read
is read alike here, or refused: a page that is not looked at may take any memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from errno import EFBIG
from io import SEEK_END, RawIOBase
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhbase._core import parquet_footer

_MAGIC_BYTES = 4
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = (
    0,
    1,
    2,
    3,
    7,
    8,
    9,
    10,
    11,
    12,
    13,
)
_INTEGERS = {4: 16, 5: 32, 6: 64}  # their bits, which readers keep of longer ones
_VARINT_BYTES = 10
FOOTER_BYTES, MOST_COLUMNS = 64 << 20, 1 << 16
MOST_ELEMENTS = 1 << 24  # of the lists of a footer, which readers hold in memory
MOST_CHUNKS = 1 << 20  # columns of all groups of rows, for each of which readers take 1 KB
_KIND, _PAGE_UNPACKED, _PAGE_PACKED, _VALUES = 1, 2, 3, 1
_OF_KIND = {0: 5, 2: 7, 3: 8}  # the field of a header that tells more: data, dictionary, data of version 2
# What is kept of structs, by the numbers of fields; of lists of others only their lengths are.
_Kept = Mapping[int, Any]
_OF_PAGE: _Kept = {
    _KIND: {},
    _PAGE_UNPACKED: {},
    _PAGE_PACKED: {},
    **{each: {_VALUES: {}} for each in _OF_KIND.values()},
}
_DICTIONARY = 2
_HEADER_BYTES = (256, 64 << 10, 16 << 20)  # it may have the least and the greatest value
_HEADER_VALUES = 1000  # those that are known have 40
_DAMAGE = (AttributeError, LookupError, TypeError, ValueError, RecursionError)


class Chunk(NamedTuple):
    """The values of a column in one group of rows, and where they are, from 0 to 0 if there are none.
    is_flat: a value is a row."""

    column: str
    begin: int
    end: int
    is_flat: bool


class Page(NamedTuple):
    """A page, its size in memory and in the file, the number of its rows at least, and that of its values."""

    is_dictionary: bool
    unpacked: int
    packed: int
    rows: int
    values: int = 0


class Footer(NamedTuple):
    """Of each group of rows the number of its columns, and of each of these where it begins and ends."""

    columns: list[int]
    places: NDArray[np.int64]


def small_footer(file: RawIOBase) -> Footer:
    """The footer. Raises OSError for one that would take much more memory to read than it has bytes: one of
    11 MB whose columns have no places takes 3 GB."""
    try:
        elements, groups, places = parquet_footer(_footer(file), MOST_ELEMENTS)
    except (LookupError, ValueError) as error:
        raise OSError(f"its footer cannot be read: {error}") from error
    if elements > MOST_COLUMNS:
        raise OSError(EFBIG, f"it has more than {MOST_COLUMNS:,} columns")
    found = Footer(np.frombuffer(groups, np.uint32).tolist(), np.frombuffer(places, np.int64).reshape(-1, 2))
    if len(found.places) > MOST_CHUNKS:
        raise OSError(EFBIG, f"its groups of rows have more than {MOST_CHUNKS:,} columns")
    file.seek(0)
    return found


def chunks(
    file: RawIOBase, footer: Footer, columns: Sequence[tuple[str, bool]], groups: int
) -> list[list[Chunk]]:
    """The columns of each group of rows. columns: of each its name and whether a value is a row; groups:
    their number. Raises OSError for a footer that tells otherwise, and if columns overlap."""
    width = len(columns)
    if footer.columns != [width] * groups:
        raise OSError("its footer tells otherwise where its columns are")
    begins, ends = footer.places.T.tolist()
    if sum(ends) - sum(begins) > file.seek(0, SEEK_END):  # they would be read again and again
        raise OSError("its columns overlap")
    found = [
        Chunk(name, begin, end, is_flat)
        for (name, is_flat), begin, end in zip(cycle(columns), begins, ends, strict=False)
    ]
    return [found[group * width : (group + 1) * width] for group in range(groups)]


def _footer(file: RawIOBase) -> bytes:
    end = max(file.seek(0, SEEK_END) - _MAGIC_BYTES - 4, 0)
    file.seek(end)
    size = int.from_bytes(file.read(4) or b"", "little")
    if size > end:
        raise LookupError(size)
    if size > FOOTER_BYTES:
        raise OSError(EFBIG, f"its footer has {size:,} bytes, at most {FOOTER_BYTES:,} are read")
    file.seek(end - size)
    return file.read(size) or b""


def pages(file: RawIOBase, chunk: Chunk) -> Iterator[Page]:
    """The pages of a column, up to the first one that no reader can read. Raises OSError if that is the first
    one, and for a header that readers may take for another."""
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
        header = _Thrift(file.read(most) or b"", _HEADER_VALUES)
        try:
            fields = header.struct(_OF_PAGE)
        except IndexError:  # it is longer
            continue
        except _DAMAGE:
            return None
        return _page(fields, header.place)
    return None


def _page(fields: dict[int, Any], size: int) -> tuple[Page, int] | None:
    kind, unpacked, packed = (fields.get(field) for field in (_KIND, _PAGE_UNPACKED, _PAGE_PACKED))
    if not (isinstance(kind, int) and isinstance(unpacked, int) and isinstance(packed, int)):
        return None
    if min(unpacked, packed) < 0:
        return None
    more = fields.get(_OF_KIND.get(kind, 0))
    given = more.get(_VALUES) if isinstance(more, dict) else None
    values = given if isinstance(given, int) else 0
    return Page(kind == _DICTIONARY, unpacked, packed, values, values), size


@dataclass(slots=True)
class _Thrift:
    """Values in Thrift's compact form, one after the other. most: number of values that are read. Raises
    OSError if there are more, and for a field that is there twice, of which readers take one or the other."""

    data: bytes
    most: int = 1 << 62
    place: int = 0

    def struct(self, kept: _Kept) -> dict[int, Any]:
        """Those of its fields that are kept."""
        fields, number, seen = dict[int, Any](), 0, set[int]()
        while (head := self._byte()) != _STOP:
            number = number + (head >> 4) if head >> 4 else self._integer(16)
            kind = head & 15
            if number in seen:
                raise OSError("a field is there twice")
            seen.add(number)
            value = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, kept.get(number, {}))
            if number in kept:
                fields[number] = value
        return fields

    def _value(self, kind: int, kept: _Kept) -> Any:
        self.most -= 1
        if self.most < 0:
            raise OSError("a header has more values than those of Parquet")
        if kind in _INTEGERS:
            return self._integer(_INTEGERS[kind])
        if kind == _BINARY:
            return self._bytes(self._size())
        if kind in (_LIST, _SET):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._size()
            if kept:
                return [self._value(head & 15, kept) for _ in range(count)]
            for _ in range(count):
                self._value(head & 15, kept)
            return range(count)
        if kind == _MAP:
            count = self._size()
            kinds = self._byte() if count else 0
            for _ in range(count):
                self._value(kinds >> 4, {})
                self._value(kinds & 15, {})
            return None
        if kind == _STRUCT:
            return self.struct(kept)
        if kind in (_DOUBLE, _UUID):
            return self._bytes(8 if kind == _DOUBLE else 16)
        if kind in (_TRUE, _FALSE, _BYTE):  # in a list a byte, too
            return self._byte()
        raise ValueError(kind)

    def _size(self) -> int:
        size = self._varint() & 0xFFFFFFFF
        if size >> 31:
            raise ValueError(size)
        return size

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
        number = 0
        for shift in range(0, 7 * _VARINT_BYTES, 7):
            byte = self._byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise ValueError(number)  # without this limit, a long one would take quadratic time

    def _integer(self, bits: int) -> int:
        number = self._varint() & (1 << 64) - 1
        cut = ((number >> 1) ^ -(number & 1)) & (1 << bits) - 1
        return cut - (cut >> bits - 1 << bits)
