"""How much memory messages of Arrow take, by their headers: a few compressed bytes may mean gigabytes.

pyarrow has no limit for this. The headers are flatbuffers, of which only the fields are read that tell it. A
part of a flatbuffer may be there once, and be meant any number of times, of which pyarrow makes a copy each.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from errno import EFBIG
from io import SEEK_END, RawIOBase
from itertools import chain
from typing import Self

_BEGIN = b"\xff\xff\xff\xff"
_END = _BEGIN + bytes(4)
_MAGIC = b"ARROW1"
_SCHEMA, _DICTIONARY_BATCH, _RECORD_BATCH = 1, 2, 3
_TIMESTAMP, _UNION = 10, 14  # types with a text, and with numbers
_COMPRESSED = b"ARROW:experimental_compression"  # as Arrow 0.17 noted it
_BUFFER_BYTES, _BLOCK_BYTES = 16, 24
_NOT_COMPRESSED = -1
_MOST_HEADER_BYTES = 64 << 20
MOST_PARTS = 1 << 17  # columns, fields of these, and notes of a header, of each of which pyarrow makes 1 KB
_MOST_COPIES = 16  # of the bytes of a header, in names and texts; writers make one
_MOST_PADDING = 1 << 10  # writers align the first message to 8 bytes, or 64
_DAMAGE = (struct.error, IndexError, ValueError)


@dataclass(frozen=True, slots=True)
class Message:
    """A message: whether it has rows, the size of its body in the file and in memory, and where it ends."""

    has_rows: bool
    packed: int
    unpacked: int
    end: int


def message_at(file: RawIOBase, begin: int) -> Message | None:
    """The message at a position; None at the end. Raises OSError if it is damaged, or of Arrow before 0.15:
    pyarrow may read it all the same, whatever memory it takes."""
    file.seek(begin)
    head = file.read(8) or b""
    if head in (b"", _END):
        return None
    try:
        return _message_at(file, begin, head)
    except _DAMAGE as error:
        raise OSError("a message has another head than those of Arrow") from error


def require_small_schema(data: bytes) -> None:
    """Raise OSError for a schema, as a message, that takes much more memory than it has bytes: one of 140 kB
    takes 2.4 GB. Also if it is damaged."""
    try:
        message = _Table.of(data[8 if data.startswith(_BEGIN) else 4 :])
        _require_small(message, _fields_of(message))
    except _DAMAGE as error:
        raise OSError("its schema cannot be read") from error


def require_small_footer(file: RawIOBase) -> None:
    """Raise OSError for an Arrow file with such a schema in its footer, and for a damaged footer."""
    try:
        footer = _footer(file)
        _require_small(footer, _fields(footer.table(1)))
    except _DAMAGE as error:
        raise OSError("its footer cannot be read") from error


def blocks(file: RawIOBase) -> tuple[list[int], list[int]]:
    """Where the dictionaries and the batches of an Arrow file begin; nothing if it is damaged."""
    try:
        footer = _footer(file)
        dictionaries, batches = (footer.vector(field, _BLOCK_BYTES) for field in (2, 3))
        begins = [[_number("<q", footer.data, each) for each in found] for found in (dictionaries, batches)]
    except (*_DAMAGE, OSError):
        return [], []
    return begins[0], begins[1]


def first_message(file: RawIOBase) -> int:
    """Where the first message of an Arrow file begins, behind its magic word and zero bytes."""
    file.seek(len(_MAGIC))
    padding = file.read(_MOST_PADDING) or b""
    return len(_MAGIC) + len(padding) - len(padding.lstrip(b"\0"))


def _footer(file: RawIOBase) -> _Table:
    end = file.seek(0, SEEK_END) - len(_MAGIC) - 4
    if end < 0:
        raise IndexError(end)
    file.seek(end)
    size = _number("<i", file.read(4) or b"", 0)
    if not 0 < size <= end:
        raise IndexError(size)
    file.seek(end - size)
    return _Table.of(file.read(size) or b"")


def _message_at(file: RawIOBase, begin: int, head: bytes) -> Message:
    size = _number("<i", head, 4)
    if not head.startswith(_BEGIN) or not 0 < size <= _MOST_HEADER_BYTES:
        raise ValueError(size)
    message = _Table.of(file.read(size) or b"")
    kind, packed = message.number("<B", 1), message.number("<q", 3)
    body, unpacked = begin + 8 + size, packed
    if packed < 0:
        raise IndexError(packed)
    _require_small(message, _fields_of(message))
    if kind in (_DICTIONARY_BATCH, _RECORD_BATCH):
        batch = message.table(2) if kind == _RECORD_BATCH else message.table(2).table(1)
        if batch.place(3) or any(note.text(0) == _COMPRESSED for note in message.tables(4)):
            unpacked = sum(_unpacked_buffers(file, body, batch))
    return Message(kind == _RECORD_BATCH, packed, unpacked, body + packed)


def _require_small(header: _Table, fields: Iterator[int]) -> None:
    """Raise OSError for too many notes and fields, or bytes of these, as pyarrow holds them. header: a
    message, or the footer of a file; fields: bytes of each."""
    size, most = 0, min(_MOST_HEADER_BYTES, _MOST_COPIES * len(header.data))
    for count, part in enumerate(chain(_notes(header, 4), fields), 1):
        size += part
        if count > MOST_PARTS or size > most:
            raise OSError(
                EFBIG,
                f"its schema or notes have more than {MOST_PARTS:,} parts, or {most:,} bytes of names and "
                "texts in memory, as parts of them are used again and again",
            )


def _fields_of(message: _Table) -> Iterator[int]:
    return _fields(message.table(2)) if message.number("<B", 1) == _SCHEMA else iter(())


def _fields(schema: _Table) -> Iterator[int]:
    """Of each field of a schema, with those within, and of each note, its bytes."""
    yield from _notes(schema, 2)
    levels = [schema.tables(1)]
    while levels:
        field = next(levels[-1], None)
        if field is None:
            levels.pop()
            continue
        has_more = field.number("<B", 2) in (_TIMESTAMP, _UNION)
        yield field.length(0) + (field.table(3).length(1) if has_more else 0)
        yield from _notes(field, 6)
        levels.append(field.tables(5))


def _notes(table: _Table, field: int) -> Iterator[int]:
    """Of each of these, a key and a value, its bytes."""
    for note in table.tables(field):
        yield note.length(0) + note.length(1)


def _unpacked_buffers(file: RawIOBase, body: int, batch: _Table) -> Iterator[int]:
    """Sizes of compressed buffers in memory, which each begins with."""
    for place in batch.vector(2, _BUFFER_BYTES):
        offset, length = struct.unpack_from("<qq", batch.data, place)
        if length > 0:
            file.seek(body + offset)
            size = _number("<q", file.read(8) or b"", 0)
            yield length if size == _NOT_COMPRESSED else max(size, 0)


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of a flatbuffer, whose fields are numbered from 0."""

    data: bytes
    begin: int

    @classmethod
    def of(cls, data: bytes) -> Self:
        return cls(data, _number("<I", data, 0))

    def place(self, field: int) -> int:
        """Where a field is; 0 if it is missing."""
        fields = self.begin - _number("<i", self.data, self.begin)
        if 4 + 2 * field >= _number("<H", self.data, fields):
            return 0
        offset = _number("<H", self.data, fields + 4 + 2 * field)
        return self.begin + offset if offset else 0

    def number(self, form: str, field: int) -> int:
        place = self.place(field)
        return _number(form, self.data, place) if place else 0

    def table(self, field: int) -> _Table:
        return _Table(self.data, self._target(field))

    def tables(self, field: int) -> Iterator[_Table]:
        """Those of a vector."""
        for place in self.vector(field, 4):
            yield _Table(self.data, place + _number("<I", self.data, place))

    def length(self, field: int) -> int:
        """That of a text or vector, 0 if it is missing."""
        return _number("<I", self.data, self._target(field)) if self.place(field) else 0

    def text(self, field: int) -> bytes:
        begin = self._target(field) + 4 if self.place(field) else 0
        return self.data[begin : begin + self.length(field)]

    def vector(self, field: int, size: int) -> range:
        """Where the elements of a vector begin, given the size of each."""
        if not self.place(field):
            return range(0)
        begin = self._target(field)
        return range(begin + 4, begin + 4 + size * _number("<I", self.data, begin), size)

    def _target(self, field: int) -> int:
        place = self.place(field)
        return place + _number("<I", self.data, place)


def _number(form: str, data: bytes, place: int) -> int:
    if place < 0:
        raise IndexError(place)
    number: int = struct.unpack_from(form, data, place)[0]
    return number
