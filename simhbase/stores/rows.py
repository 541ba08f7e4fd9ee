"""What the backends share: arrays of row keys to bytes and back, and the form of counters."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from itertools import accumulate, chain

import numpy as np
from numpy.typing import NDArray

from simhbase.rowkeys import KEY_BYTES, fingerprints_of
from simhbase.stores.base import DrawerRows

_COUNTER = struct.Struct(">q")


def to_bytes(array: NDArray[np.uint8]) -> list[bytes]:
    """Each run of bytes along the last axis, without a Python step for each."""
    runs: list[bytes] = np.frombuffer(array.tobytes(), _run(array.shape[-1])).tolist()
    return runs


@cache
def _run(size: int) -> np.dtype[np.void]:
    return np.dtype((np.void, size))


def to_keys(rows: Sequence[bytes]) -> NDArray[np.uint8]:
    """Row keys as an array (n, 13)."""
    return np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(-1, KEY_BYTES)


def to_drawer_rows(drawers: Sequence[Sequence[bytes]], limit: int | None) -> DrawerRows:
    """The answer to a read that found these row keys of each drawer, one more than `limit` where
    the drawer holds more."""
    counts = list(map(len, drawers))
    truncated = np.zeros(len(counts), np.bool_)
    if limit is not None and max(counts, default=0) > limit:
        truncated[:] = [count > limit for count in counts]
        drawers = [drawer[:limit] for drawer in drawers]
        counts = list(map(len, drawers))
    offsets = np.fromiter(accumulate(counts, initial=0), np.int64, len(counts) + 1)
    return DrawerRows(fingerprints_of(b"".join(chain.from_iterable(drawers))), offsets, truncated)


def counted_up(value: bytes | None, by: int) -> tuple[int, bytes]:
    """A counter that held `value` (None: nothing yet) after `by` more, as a number and as stored."""
    count = by if value is None else _COUNTER.unpack(value)[0] + by
    return count, _COUNTER.pack(count)
