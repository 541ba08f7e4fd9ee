"""Helpers shared by backends: converting arrays of row keys to bytes and back, and other values."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import repeat
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.rowkeys import KEY_BYTES, PREFIX_BYTES, fingerprints_of
from simhbase.stores.base import DrawerRows, IndexRows, Version

BATCH_ROWS = 10_000
NONE = np.empty(0, dtype=np.int64)

S = TypeVar("S", list[Any], NDArray[Any])


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


def columns_of(keys: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """The prefixes, as numbers of 40 bits, and the fingerprints of keys (..., 13): (n,) twice."""
    rows = np.ascontiguousarray(keys).reshape(-1, KEY_BYTES)
    return prefix_numbers(rows[:, :PREFIX_BYTES]), fingerprints_of(rows.tobytes())


def prefix_numbers(prefixes: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Prefixes (n, 5) as numbers of 40 bits: int64 (n,)."""
    wide = np.zeros((len(prefixes), 8), dtype=np.uint8)
    wide[:, 8 - PREFIX_BYTES :] = prefixes
    return wide.view(">i8").ravel().astype(np.int64)


def prefixes_of(numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Prefixes of drawers, given as numbers of 40 bits: int64 (n,) -> uint8 (n, 5)."""
    return numbers.astype(">i8").view(np.uint8).reshape(-1, 8)[:, 8 - PREFIX_BYTES :]


def prefix_number(key: bytes) -> int:
    """The prefix of a key, or of the first key that starts like this, as a number."""
    return int.from_bytes(key[:PREFIX_BYTES].ljust(PREFIX_BYTES, b"\0"))


def keys_of(prefixes: NDArray[np.int64], fingerprints: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Row keys (n, 13) of prefixes as numbers (n,) and fingerprints (n,)."""
    columns = prefixes_of(prefixes), fingerprints.astype(">u8").view(np.uint8).reshape(-1, 8)
    return np.concatenate(columns, axis=1)


def rows_between(keys: NDArray[np.uint8], start: bytes, stop: bytes) -> Iterator[IndexRows]:
    """Those of the rows with sorted keys from `start` until before `stop` (empty: the end), in batches, of a
    store that keeps no times."""
    first = bisect_left(keys, start, key=np.ndarray.tobytes)
    keys = keys[first : bisect_left(keys, stop, key=np.ndarray.tobytes) if stop else None]
    for first in range(0, len(keys), BATCH_ROWS):
        some = keys[first : first + BATCH_ROWS]
        yield IndexRows(some, np.zeros(len(some), dtype=np.int64))


def limited(
    first: int, lengths: NDArray[np.int64], fingerprints: NDArray[np.uint64], limit: int | None
) -> DrawerRows:
    """A part of an answer, given the numbers of rows and the rows of m drawers, starting with the drawer
    `first`; rows behind the limit are left out."""
    cut = NONE
    if limit is not None and len(cut := np.flatnonzero(lengths > limit)):
        place = np.arange(len(fingerprints)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        fingerprints, lengths = fingerprints[place < limit], np.minimum(lengths, limit)
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
    return DrawerRows(_numbers(first, first + len(lengths)), offsets, fingerprints, first + cut)


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


def parts_of(whole: S, most: int) -> list[S]:
    """Consecutive slices of up to `most` elements."""
    return [whole[start : start + most] for start in range(0, len(whole), most)]
