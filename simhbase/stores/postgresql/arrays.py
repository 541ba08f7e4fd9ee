"""PostgreSQL's binary formats, written by NumPy: arrays as parameters, and rows for COPY.

A field is its length (int32) and its bytes. See "COPY", "Binary Format", and array_recv in PostgreSQL's
documentation and source.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format

from simhbase.stores.strings import Strings

_BYTEA, _INT8 = 17, 20  # types
_HEAD = struct.Struct(">iiiii")  # dimensions, whether there are NULLs, type, size, first subscript
_EMPTY = struct.Struct(">iii")
_LENGTH = struct.Struct(">i")
_INTEGER = struct.Struct(">iq")
_INTEGERS = np.dtype([("length", ">i4"), ("value", ">i8")])
COPY_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
COPY_END = b"\xff\xff"


class Integers(bytes):
    """A parameter of the type int8[]."""


class ByteStrings(bytes):
    """A parameter of the type bytea[]."""


class _Prepared(Dumper):
    format = Format.BINARY

    def dump(self, obj: Any) -> Buffer:
        prepared: bytes = obj
        return prepared


class _IntegersDumper(_Prepared):
    oid = 1016


class _ByteStringsDumper(_Prepared):
    oid = 1001


def register(connection: psycopg.Connection[Any]) -> None:
    """Teaches a connection these parameters."""
    connection.adapters.register_dumper(Integers, _IntegersDumper)
    connection.adapters.register_dumper(ByteStrings, _ByteStringsDumper)


def integers(values: NDArray[Any] | Sequence[int]) -> Integers:
    """An int8[] of n integers; uint64 are taken as int64 of the same bits."""
    if not len(values):
        return Integers(_EMPTY.pack(0, 0, _INT8))
    head = _HEAD.pack(1, 0, _INT8, len(values), 1)
    if not isinstance(values, np.ndarray):  # few
        return Integers(head + b"".join([_INTEGER.pack(8, value) for value in values]))
    fields = np.empty(len(values), dtype=_INTEGERS)
    fields["length"] = 8
    fields["value"] = values.view(np.int64) if values.dtype == np.uint64 else values
    return Integers(head + fields.tobytes())


def byte_strings(values: Sequence[bytes]) -> ByteStrings:
    """A bytea[] of n strings."""
    if not values:
        return ByteStrings(_EMPTY.pack(0, 0, _BYTEA))
    fields = [_LENGTH.pack(len(value)) + value for value in values]
    return ByteStrings(_HEAD.pack(1, 0, _BYTEA, len(values), 1) + b"".join(fields))


def copied(*columns: Strings) -> NDArray[np.uint8]:
    """The rows of a binary COPY, of columns of n fields each, between COPY_HEAD and COPY_END."""
    rows = len(columns[0])
    parts = [_repeated(np.array(len(columns), dtype=">i2"), rows)]
    for column in columns:
        lengths = column.lengths.astype(">i4")
        parts += [Strings.rows_of(lengths.view(np.uint8).reshape(rows, 4)), column]
    return Strings.joined(*parts).content


def big_endian(values: NDArray[Any], rows: int) -> Strings:
    """n integers as int8 fields; a single one is repeated."""
    numbers = values.view(np.int64) if values.dtype == np.uint64 else values
    wide = np.ascontiguousarray(np.broadcast_to(numbers.astype(">i8"), rows))
    return Strings.rows_of(wide.view(np.uint8).reshape(rows, 8))


def _repeated(value: NDArray[Any], rows: int) -> Strings:
    return Strings.rows_of(np.broadcast_to(value.reshape(1).view(np.uint8), (rows, value.nbytes)))
