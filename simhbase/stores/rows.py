"""What the backends share: arrays of row keys to bytes and back, and the form of counters."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from simhbase.rowkeys import KEY_BYTES, fingerprints_of
from simhbase.stores.base import DrawerRows

_COUNTER = struct.Struct(">q")


def to_bytes(array: NDArray[np.uint8]) -> list[bytes]:
    """Each run of bytes along the last axis, without a Python step for each."""
    size = array.shape[-1]
    runs: list[bytes] = np.ascontiguousarray(array).reshape(-1, size).view(f"V{size}").ravel().tolist()
    return runs


def to_keys(rows: Sequence[bytes]) -> NDArray[np.uint8]:
    """Row keys as an array (n, 13)."""
    return np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(-1, KEY_BYTES)


def to_drawer_rows(drawers: Sequence[Sequence[bytes]], limit: int | None) -> DrawerRows:
    """The answer to a read that found these row keys of each drawer, one more than `limit` where
    the drawer holds more."""
    most = max(map(len, drawers), default=0) if limit is None else limit
    counts = np.fromiter(map(len, drawers), np.int64, len(drawers))
    truncated = counts > most
    if truncated.any():
        drawers = [drawer[:most] for drawer in drawers]
        counts = np.minimum(counts, most)
    offsets = np.zeros(len(drawers) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return DrawerRows(fingerprints_of(b"".join(chain.from_iterable(drawers))), offsets, truncated)


def counted_up(value: bytes | None, by: int) -> tuple[int, bytes]:
    """A counter that held `value` (None: nothing yet) after `by` more, as a number and as stored."""
    count = by if value is None else _COUNTER.unpack(value)[0] + by
    return count, _COUNTER.pack(count)
