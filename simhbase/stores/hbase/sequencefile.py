"""Rows of HBase as Hadoop's SequenceFiles of ImmutableBytesWritable -> Result: what HBase's Export writes and
its Import reads (`simhbase/stores/hbase/hfiles.py`).

A file is a header, then records, with the file's sync mark (16 random bytes) between some of them, where
Hadoop may cut it in two. Integers are big-endian.

header:  SEQ 06, the names of both classes (length in one byte, name), 00 00 (nothing compressed), int32 0 (no
         metadata), sync mark
record:  int32 length of key and value, int32 length of the key, key: int32 length of the row, row; value:
         length (varint), ClientProtos.Result of HBase in Protocol Buffers
Result:  0a, length, Cell: 0a length row, 12 length family, 1a 00 (empty qualifier), 20 time (varint),
         28 04 (put), 32 length value; lengths are varints
mark:    int32 -1, sync mark

tests/unit/test_sequencefile.py has an example of each. Rows of one size differ in few places: NumPy fills
these into copies of a template.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

SYNC_BYTES = 16
MARKED_RECORDS = 2_000  # records between two marks
MARK = b"\xff\xff\xff\xff"
_CLASSES = (b"org.apache.hadoop.hbase.io.ImmutableBytesWritable", b"org.apache.hadoop.hbase.client.Result")
_SEVEN_BITS = 0x7F
_ROWS_AT_ONCE = 1 << 18  # put together in memory


def header(sync: bytes) -> bytes:
    """How a file with this sync mark begins."""
    names = b"".join(bytes([len(name)]) + name for name in _CLASSES)
    return b"SEQ\x06" + names + b"\0\0" + bytes(4) + sync


def records(
    family: bytes, keys: NDArray[np.uint8], values: NDArray[np.uint8], time: int, sync: bytes
) -> bytes:
    """The records of n rows, with a mark before every MARKED_RECORDS: keys (n, size) and values (n, size),
    uint8, of cells with an empty qualifier at a time in milliseconds."""
    head, between, tail = _template(family, keys.shape[1], values.shape[1], time)
    parts = [_repeated(head, len(keys)), keys, _repeated(between, len(keys)), keys]
    found = np.concatenate([*parts, _repeated(tail, len(keys)), values], axis=1)
    marked = range(0, len(keys), MARKED_RECORDS)
    return b"".join(MARK + sync + found[start : start + MARKED_RECORDS].tobytes() for start in marked)


def _template(family: bytes, key_bytes: int, value_bytes: int, time: int) -> tuple[bytes, bytes, bytes]:
    """What a record has before its key, then before the row of its cell, then before its value."""
    row = b"\x0a" + _varint(key_bytes)
    rest = b"\x12" + _varint(len(family)) + family + b"\x1a\0\x20" + _varint(time)
    rest += b"\x28\x04\x32" + _varint(value_bytes)
    cell = len(row) + key_bytes + len(rest) + value_bytes
    result = b"\x0a" + _varint(cell)
    value = _varint(len(result) + cell) + result
    key = key_bytes.to_bytes(4)
    record = len(key) + key_bytes + len(value) + cell
    head = record.to_bytes(4) + (len(key) + key_bytes).to_bytes(4) + key
    return head, value + row, rest


def _repeated(part: bytes, n: int) -> NDArray[np.uint8]:
    return np.broadcast_to(np.frombuffer(part, dtype=np.uint8), (n, len(part)))


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > _SEVEN_BITS:
        found.append(number & _SEVEN_BITS | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


class Output(Protocol):
    """Takes bytes."""

    def write(self, content: bytes, /) -> object:
        """Takes the next."""

    def close(self) -> object:
        """No more come."""


class SequenceFile:
    """A file of rows of one column family, in any order, that is written. Raises OSError.

    file: open for writing bytes, of any file system; it is closed with this.
    """

    def __init__(self, file: Output, family: bytes) -> None:
        self._family = family
        self._sync = secrets.token_bytes(SYNC_BYTES)
        self._file = file
        self._file.write(header(self._sync))

    def put_keys(self, keys: NDArray[np.uint8], time: int) -> None:
        """Rows without values: keys (n, size) uint8; `time` is that of their cells."""
        self._put(keys, np.empty((len(keys), 0), dtype=np.uint8), time)

    def put(self, rows: Sequence[tuple[bytes, bytes]], time: int) -> None:
        """Rows of any sizes; `time` is that of their cells. Those of one size are filled in together."""
        by_size: dict[tuple[int, int], list[tuple[bytes, bytes]]] = {}
        for row in rows:
            by_size.setdefault((len(row[0]), len(row[1])), []).append(row)
        for (key_bytes, value_bytes), some in by_size.items():
            keys, values = zip(*some, strict=True)
            self._put(_array(keys, key_bytes), _array(values, value_bytes), time)

    def _put(self, keys: NDArray[np.uint8], values: NDArray[np.uint8], time: int) -> None:
        for start in range(0, len(keys), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            self._file.write(records(self._family, keys[part], values[part], time, self._sync))

    def close(self) -> None:
        """No more come."""
        self._file.close()


def read_keys(path: Path) -> Iterator[bytes]:
    """The keys of the rows of a file that was written here. Raises OSError."""
    with path.open("rb") as file:
        beginning = len(header(bytes(SYNC_BYTES)))
        file.seek(beginning)
        while size := file.read(4):
            if size == MARK:
                file.seek(SYNC_BYTES, os.SEEK_CUR)
                continue
            record = file.read(4 + int.from_bytes(size))
            key_bytes = int.from_bytes(record[:4])
            yield record[8 : 4 + key_bytes]


def _array(parts: Sequence[bytes], size: int) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(parts), dtype=np.uint8).reshape(len(parts), size)
