"""Parses answers to index scans directly into arrays, without a Python object per row.

An index row is a key of 13 bytes with one cell, an empty value in the column i: (family i, empty qualifier).
So all rows of an answer have the same size, and differ only in key and time: they are compared with a
pattern, from which keys and times are extracted. The patterns are those of HBase 2.6.1 in Thrift's binary
protocol.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.rowkeys import KEY_BYTES, PREFIX_BYTES
from simhbase.stores.base import IndexRows

Read = Callable[[int], bytes]

_TIME = np.dtype(">i8")
_WORD = np.dtype(">u8")
_STOP, _BOOL, _STRING, _STRUCT, _LIST = 0, 2, 11, 12, 15
_SIZES = {_BOOL: 1, 3: 1, 4: 8, 6: 2, 8: 4, 10: 8}  # of values, by type: bool, byte, double, i16, i32, i64


@dataclass(frozen=True, slots=True)
class Failure:
    """A gateway's error answer; can_retry: the same request may succeed later."""

    message: bytes
    can_retry: bool


class UnexpectedRow(Exception):
    """An answer with something other than index rows. The connection cannot be used further."""


class NotFiltered(Exception):
    """Rows of drawers that were not requested: the gateway does not know the filter."""


def read_index_rows_thrift1(read: Read) -> IndexRows | Failure:
    """Parse the answer to scannerGetList or getRowsWithColumns of Thrift 1.

    read(n) returns the next n bytes after the message's header. Raises UnexpectedRow.
    """
    return _read_answer(read, _TROWRESULT)


def read_index_rows_thrift2(read: Read) -> IndexRows | Failure:
    """Parse the answer to getScannerResults of Thrift 2."""
    return _read_answer(read, _TRESULT)


def drawer_parts(
    keys: NDArray[np.uint8], prefixes: NDArray[np.uint8]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Assign rows to drawers: keys (n, 13) uint8, sorted, and prefixes (m, 5) uint8, sorted and distinct ->
    drawers with rows, int64 (p,), as indices of prefixes, and offsets of their rows, int64 (p + 1,). Raises
    NotFiltered for a row of another drawer."""
    rows, drawers = _prefix_words(keys), _prefix_words(prefixes)
    starts = np.searchsorted(rows, drawers).astype(np.int64)
    counts = np.searchsorted(rows, drawers, side="right") - starts
    if counts.sum() != len(keys):
        raise NotFiltered("the gateway sent rows that were not asked for")
    found = np.flatnonzero(counts).astype(np.int64)
    return found, np.append(starts[found], len(keys))


def _prefix_words(keys: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """The first 5 bytes of keys (n, 5 or more) uint8, in numbers that sort as they do: uint64 (n,)."""
    words = np.zeros((len(keys), _WORD.itemsize), dtype=np.uint8)
    words[:, :PREFIX_BYTES] = keys[:, :PREFIX_BYTES]
    return words.view(_WORD)[:, 0].astype(np.uint64)


class _Form:
    """The bytes of a row: `head`, ending with the key's length; the key; `middle`; the cell's time; `end`."""

    def __init__(self, head: bytes, middle: bytes, end: bytes) -> None:
        self.head = head
        self.time = len(head) + KEY_BYTES + len(middle)
        self.size = self.time + _TIME.itemsize + len(end)
        row = rb"%b.{%d}%b.{%d}%b" % (
            re.escape(head),
            KEY_BYTES,
            re.escape(middle),
            _TIME.itemsize,
            re.escape(end),
        )
        # NumPy is faster from 70 rows on, but takes ten times as long for the few rows of most drawers.
        self._row = re.compile(row, re.DOTALL)
        self._rows = re.compile(rb"(?:%b)*+" % row, re.DOTALL)

    def check(self, rows: bytes) -> None:
        """Raises UnexpectedRow if these are not rows of this form."""
        if self._rows.fullmatch(rows):
            return
        # Before Python 3.11.4, a match of `*+` may end behind the last whole row.
        each = (rows[start : start + self.size] for start in range(0, len(rows), self.size))
        odd = next(row for row in each if not self._row.fullmatch(row))
        raise UnexpectedRow(f"not a row of the index: {odd.hex(' ')}")

    def converted(self, rows: bytes) -> IndexRows:
        """Parse rows of this form."""
        count, start = len(rows) // self.size, len(self.head)
        if not count:  # no buffer to point into
            return IndexRows(np.empty((0, KEY_BYTES), dtype=np.uint8), np.empty(0, dtype=np.int64))
        keys = np.ndarray((count, KEY_BYTES), np.uint8, rows, start, (self.size, 1))
        times = np.ndarray(count, _TIME, rows, self.time, self.size)
        return IndexRows(keys.copy(), times.astype(np.int64))


_ROW = bytes.fromhex("0b 0001 0000000d")  # field 1, 13 bytes
_TROWRESULT = _Form(
    _ROW,
    bytes.fromhex("0d 0002 0b 0c 00000001")  # columns, a map of strings to structures with one entry:
    + bytes.fromhex("00000002 693a  0b 0001 00000000  0a 0002"),  # i: -> the value, empty; the timestamp
    bytes.fromhex("00 00"),  # the ends of TCell and TRowResult
)
_TRESULT = _Form(
    _ROW,
    bytes.fromhex("0f 0002 0c 00000001")  # columnValues, a list of one structure:
    + bytes.fromhex("0b 0001 00000001 69  0b 0002 00000000  0b 0003 00000000")  # family, qualifier, value
    + bytes.fromhex("0a 0004"),  # timestamp
    bytes.fromhex("03 0006 04 00")  # type, a put; the end of TColumnValue
    + bytes.fromhex("02 0003 00  02 0004 00  00"),  # not stale, not partial; the end of TResult
)


def _read_answer(read: Read, sketching: _Form) -> IndexRows | Failure:
    """The structure of a result: field 0 is what was asked for, others are exceptions."""
    kind = read(1)[0]
    if kind == _STOP:
        return Failure(b"neither rows nor an error", can_retry=True)
    if kind == _STRUCT:
        number = read(2)
        answer: IndexRows | Failure = _read_failure(read)
    else:
        header = read(7)  # of a list: the number of the field, type and count of the elements
        number, kinds, count = header[:2], header[2], int.from_bytes(header[3:])
        if (kind, number, kinds) != (_LIST, b"\x00\x00", _STRUCT):
            raise UnexpectedRow(f"not a list of rows: {kind:02x} {header.hex(' ')}")
        answer = sketching.converted(_read_rows(read, count, sketching))
    stop = read(1)[0]
    if stop != _STOP:
        raise UnexpectedRow(f"a result goes on behind field {number.hex()}: {stop:02x}")
    return answer


def _read_rows(read: Read, count: int, sketching: _Form) -> bytes:
    """Concatenated rows of the form.

    Rows of another form must not make us wait for bytes that never come, as they may be shorter. Only the key
    can make them shorter, by 12 bytes: a column name is never shorter than i:, and a value can only be
    longer. 12 bytes are less than a third of a row, so two thirds of the remaining rows never have more bytes
    than what follows. Each part is checked before the next one is read.
    """
    parts = []
    while count > 1:
        some = count * 2 // 3
        parts.append(read(some * sketching.size))
        sketching.check(parts[-1])
        count -= some
    if count:
        # The last row starts with the length of its key: if that is ours, the rest is at least as long.
        head = read(len(sketching.head))
        if head != sketching.head:
            raise UnexpectedRow(f"not a row of the index: {head.hex(' ')}")
        parts.append(head + read(sketching.size - len(head)))
        sketching.check(parts[-1])
    return b"".join(parts)


def _read_failure(read: Read) -> Failure:
    """Parse an IOError, TIOError or IllegalArgument {1: string message, 2: bool canRetry}."""
    fields: dict[tuple[int, int], bytes] = {}
    while (kind := read(1)[0]) != _STOP:
        number = int.from_bytes(read(2))
        if kind == _STRING:
            fields[number, kind] = read(int.from_bytes(read(4)))
        elif kind in _SIZES:
            fields[number, kind] = read(_SIZES[kind])
        else:
            raise UnexpectedRow(f"not an error: field {number} is of type {kind}")
    return Failure(fields.get((1, _STRING), b""), fields.get((2, _BOOL)) == b"\x01")
