"""Filters of a scan, serialised as HBase's Thrift 2 gateway takes them (TScan.filterBytes).

A MultiRowRangeFilter lets one scan visit many ranges of keys; the server seeks from one to the next. In
protobuf (HBase's Filter.proto; what is inside is a message of the filter's own):

    Filter               { 1: string name, the Java class; 2: bytes, a MultiRowRangeFilter }
    MultiRowRangeFilter  { repeated 1: RowRange }
    RowRange             { 1: bytes start, 2: bool with the start, 3: bytes stop, 4: bool with the stop }

A field is a byte of its number * 8 + its kind, 0 for a bool and 2 for bytes. Bytes are preceded by their
length as a varint: 7 bits per byte, lowest first, 128 added to all but the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import starmap

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.rowkeys import KEY_BYTES, PREFIX_BYTES

_NAME = b"org.apache.hadoop.hbase.filter.MultiRowRangeFilter"


def multi_row_range(starts: Sequence[bytes], stops: Sequence[bytes]) -> bytes:
    """A filter for key ranges, each from its start until before its stop (empty: the end); at least one,
    sorted. The server merges overlapping ranges."""
    return _filter(b"".join(starmap(_range, zip(starts, stops, strict=True))))


def drawer_ranges(prefixes: NDArray[np.uint8]) -> bytes:
    """A filter for the rows of drawers: prefixes (m, 5) uint8, at least one, sorted."""
    ranges = np.empty((len(prefixes), len(_DRAWER)), dtype=np.uint8)
    ranges[:] = _DRAWER
    ranges[:, _FIRST] = ranges[:, _SECOND] = prefixes
    return _filter(ranges.tobytes())


def _filter(ranges: bytes) -> bytes:
    return _field(1, _NAME) + _field(2, ranges)


def _range(start: bytes, stop: bytes) -> bytes:
    before, between, behind = _around(len(start), len(stop))
    return before + start + between + stop + behind


@lru_cache
def _around(start: int, stop: int) -> tuple[bytes, bytes, bytes]:
    """What stands before, between and behind the keys of a range, given their lengths."""
    before, between, behind = _head(1, start), b"\x10\x01" + _head(3, stop), b"\x20\x00"
    size = len(before) + start + len(between) + stop + len(behind)
    return _head(1, size) + before, between, behind


def _field(number: int, value: bytes) -> bytes:
    return _head(number, len(value)) + value


def _head(number: int, size: int) -> bytes:
    return bytes([number << 3 | 2]) + _varint(size)


def _varint(number: int) -> bytes:
    low = bytearray()
    while number > 0x7F:
        low.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*low, number])


# The range of a drawer; its prefix occurs twice.
_PREFIX = b"\xd1" * PREFIX_BYTES
_DRAWER_RANGE = _range(_PREFIX, _PREFIX + b"\xff" * (KEY_BYTES - PREFIX_BYTES) + b"\x00")
_FIRST, _SECOND = (
    slice(start, start + PREFIX_BYTES)
    for start in (_DRAWER_RANGE.index(_PREFIX), _DRAWER_RANGE.rindex(_PREFIX))
)
_DRAWER = np.frombuffer(_DRAWER_RANGE, dtype=np.uint8)
