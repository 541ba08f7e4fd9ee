"""Helpers shared by backends: converting arrays of row keys to bytes and back, and some rows of meta."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.rowkeys import KEY_BYTES, fingerprints_of
from simhbase.stores.base import PART_ROWS, TTL_ROW, DrawerRows, IndexRows, Records, Version

NONE = np.empty(0, dtype=np.int64)
_COUNTER = struct.Struct(">q")


def to_bytes(array: NDArray[np.uint8]) -> list[bytes]:
    """Each run of bytes along the last axis, without a Python loop."""
    runs: list[bytes] = np.frombuffer(array.tobytes(), _run(array.shape[-1])).tolist()
    return runs


def versions_of(version: Version | None) -> Iterable[int]:
    """The version of each row, 0 if there is none."""
    return version if isinstance(version, Sequence) else repeat(version or 0)


@cache
def _run(size: int) -> np.dtype[np.void]:
    return np.dtype((np.void, size))


def to_index_rows(rows: Sequence[bytes]) -> IndexRows:
    """Index rows of a store that keeps no times."""
    keys = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(-1, KEY_BYTES)
    return IndexRows(keys, np.zeros(len(keys), dtype=np.int64))


def parts_of(drawers: Sequence[Sequence[bytes]], limit: int | None) -> Iterator[DrawerRows]:
    """The answer of a read, given all row keys of each drawer."""
    first = 0
    offsets, rows, cut = [0], list[bytes](), list[int]()
    for number, drawer in enumerate(drawers):
        rows += drawer[:limit]
        offsets.append(len(rows))
        if limit is not None and len(drawer) > limit:
            cut.append(number)
        if len(rows) >= PART_ROWS:
            yield drawer_rows(first, offsets, rows, cut)
            first, offsets, rows, cut = number + 1, [0], [], []
    yield drawer_rows(first, offsets, rows, cut)


def drawer_rows(
    first: int, offsets: Sequence[int], rows: Sequence[bytes], truncated: Sequence[int]
) -> DrawerRows:
    """A part of an answer, given row keys by drawer, starting with the drawer `first`."""
    return DrawerRows(
        _numbers(first, first + len(offsets) - 1),
        np.array(offsets, dtype=np.int64),
        fingerprints_of(b"".join(rows)),
        np.array(truncated, dtype=np.int64) if truncated else NONE,
    )


@lru_cache
def _numbers(first: int, end: int) -> NDArray[np.int64]:
    numbers = np.arange(first, end, dtype=np.int64)
    numbers.flags.writeable = False
    return numbers


def ttl_in(meta: Records) -> int | None:
    """Seconds after which documents of an atomic store expire, or None."""
    (cell,) = meta.get([TTL_ROW])
    return None if cell is None else int(cell.value)


def counted_up(value: bytes | None, by: int) -> tuple[int, bytes]:
    """Increment a stored counter (None: absent); returns the number and the new value to store."""
    count = by if value is None else _COUNTER.unpack(value)[0] + by
    return count, _COUNTER.pack(count)


def behind(prefix: bytes) -> bytes:
    """The first key behind those with a prefix; b"" if there is none."""
    head = prefix.rstrip(b"\xff")
    return head[:-1] + bytes([head[-1] + 1]) if head else b""


def ahead_of(before: int, server: int, after: int) -> int:
    """By how many milliseconds this machine's clock is ahead of a server's that was asked in between. The
    call itself accounts for part of the difference."""
    return max(before - server, 0) + min(after - server, 0)
