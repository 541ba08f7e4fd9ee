"""Arrow files and streams (also Feather), read batch by batch.

A file is a stream with a footer, which lists its batches. It is read as a stream, so that batches that the
footer leaves out are noticed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from io import SEEK_END, RawIOBase
from typing import Any

MAGIC = b"ARROW1"
STREAM = b"\xff\xff\xff\xff"  # the mark of a message, as data sets of Hugging Face begin
_END_OF_STREAM = STREAM + bytes(4)
_LENGTH_BYTES = 4  # of a footer's length, before the last magic word
_MOST_PADDING, _ALIGNMENT = 1 << 10, 8  # bytes: writers align the first message to 8, or 64
_LEAST_OF_SCHEMA, _MOST_OF_SCHEMA = 64, 16 << 20  # bytes, as a message


class ArrowTable:
    """An Arrow stream, or a file, which is a stream between a magic word and a footer. checked: returns a
    batch that is sound, or raises. Raises as pyarrow."""

    def __init__(self, file: RawIOBase, is_stream: bool, checked: Callable[[Any], Any]) -> None:
        from pyarrow import ipc

        self._checked = checked
        self._listed = None if is_stream else ipc.open_file(file).num_record_batches  # in the footer
        self._stream = _Parts(file, (0, file.seek(0, SEEK_END))) if is_stream else _within(file)
        self._reader: Any = ipc.open_stream(self._stream)
        self.schema: Any = self._reader.schema

    def batches(self, _columns: list[str] | None, begin: int, _at_once: int) -> Iterator[Any]:
        """All batches, with all columns, from row `begin` on. Raises as pyarrow, and OSError for a stream
        that has no end, and a file with other batches than its footer counts."""
        given = 0
        for batch in self._reader:
            if begin < batch.num_rows:
                yield self._checked(batch).slice(begin)
            begin = max(begin - batch.num_rows, 0)
            given += 1
        if self._listed is None and self._stream.last_bytes(len(_END_OF_STREAM)) != _END_OF_STREAM:
            raise OSError("it was cut short: it has no mark of its end")
        if self._stream.read(1):
            raise OSError("more data follows its end, as of several files that were joined")
        if self._listed not in (None, given):
            raise OSError(f"it has {given:,} batches, its footer counts {self._listed:,}")


class _Parts(RawIOBase):
    """Parts of a file, each read from its beginning to its end. head: bytes to read before them."""

    def __init__(self, file: RawIOBase, *parts: tuple[int, int], head: bytes = b"") -> None:
        self._file, self._parts, self._head, self.place = file, deque(parts), head, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        found, self._head = self._head, b""
        if 0 <= size < len(found):
            found, self._head = found[:size], found[size:]
        while self._parts and (size < 0 or len(found) < size):
            begin, end = self._parts.popleft()
            wanted = end - begin if size < 0 else min(size - len(found), end - begin)
            self._file.seek(begin)
            data = read_whole(self._file, wanted)
            self.place = begin + len(data)
            if wanted < end - begin and data:
                self._parts.appendleft((self.place, end))
            found = found + data if found else data
        return found

    def last_bytes(self, size: int) -> bytes:
        """So many of those that were read last."""
        self._file.seek(max(self.place - size, 0))
        return read_whole(self._file, size)


def _within(file: RawIOBase) -> _Parts:
    """The stream in an Arrow file, which begins behind the magic word and zero bytes."""
    file.seek(len(MAGIC))
    padding = file.read(_MOST_PADDING) or b""
    begin = len(MAGIC) + len(padding) - len(padding.lstrip(b"\0"))
    end = file.seek(0, SEEK_END) - len(MAGIC) - _LENGTH_BYTES
    file.seek(end)
    size = int.from_bytes(file.read(_LENGTH_BYTES) or b"", "little")
    begin -= begin % _ALIGNMENT
    head, end = _missing_head(file, begin), end - size
    parts = _dictionaries_first(_Parts(file, (begin, end), head=head), begin, end)
    return _Parts(file, *parts, head=head)


def _dictionaries_first(stream: _Parts, begin: int, end: int) -> list[tuple[int, int]]:
    """The parts of a file in the order that streams have: its dictionaries may be behind its batches."""
    from pyarrow import ipc

    messages = ipc.MessageReader.open_stream(stream)
    schema, whole = next(messages, None), [(begin, end)]
    if (
        schema is None
        or schema.type != "schema"
        or not any(map(_has_dictionary, ipc.read_schema(schema).types))
    ):
        return whole
    parts: dict[str, list[tuple[int, int]]] = {"dictionary": [], "record batch": []}
    place = batches_begin = stream.place
    for message in messages:
        if message.type not in parts or (message.type == "dictionary" and not parts["record batch"]):
            return whole
        parts[message.type].append((place, place := stream.place))
    return [(begin, batches_begin), *parts["dictionary"], *parts["record batch"], (place, end)]


def _has_dictionary(kind: Any) -> bool:
    from pyarrow import types

    inner = (kind.field(number).type for number in range(kind.num_fields))
    return bool(types.is_dictionary(kind)) or any(map(_has_dictionary, inner))


def _missing_head(file: RawIOBase, begin: int) -> bytes:
    """What is before the schema in streams, where a file has none: the mark of a message, and its length.
    Polars 2 writes such files. The message behind it has its mark."""
    file.seek(begin)
    first = read_whole(file, _LENGTH_BYTES)
    if first == STREAM or int.from_bytes(first, "little") >= _LEAST_OF_SCHEMA:
        return b""
    schema = first + read_whole(file, _MOST_OF_SCHEMA)
    size = schema.find(STREAM)
    while size > 0 and size % _ALIGNMENT > 0:
        size = schema.find(STREAM, size + 1)
    return b"" if size < 0 else STREAM + size.to_bytes(_LENGTH_BYTES, "little")


def read_whole(file: RawIOBase, size: int) -> bytes:
    """So many bytes, or the rest of the file."""
    parts = list[bytes]()
    while size > 0 and (part := file.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
