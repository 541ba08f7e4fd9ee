"""Fingerprints to row keys of drawers and back, whole arrays at a time.

A row key is segment (4 bytes) + flag (1 byte) + fingerprint (8 bytes), all big-endian; a drawer's
prefix is its first 5 bytes. See schema/format.md for an example of every layout.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from simhbase.layout import SEGMENT_BITS, Layout

KEY_BYTES = 13
PREFIX_BYTES = 5
_PREFIX = np.dtype([("segment", ">u4"), ("flag", "u1")])
_KEY = np.dtype([("segment", ">u4"), ("flag", "u1"), ("fingerprint", ">u8")])


@lru_cache
def _shifts(layout: Layout) -> tuple[list[NDArray[np.uint64]], ...]:
    """Per run: right shift, mask and left shift of each table, arrays of shape (tables,).

    Tables of fewer runs are padded with empty ones, so that a few array operations serve all.
    """
    right, mask, left = [], [], []
    for table in layout.tables:
        room = SEGMENT_BITS
        columns = []
        for run in table:
            width = min(run.width, room)
            room -= width
            columns.append((layout.bits - run.start - width, (1 << width) - 1, room))
        columns = [column for column in columns if column[1]]
        right.append([column[0] for column in columns])
        mask.append([column[1] for column in columns])
        left.append([column[2] for column in columns])
    runs = max(map(len, right))

    def by_run(rows: list[list[int]]) -> list[NDArray[np.uint64]]:
        padded = [row + [0] * (runs - len(row)) for row in rows]
        return list(np.array(padded, dtype=np.uint64).T.copy())

    return by_run(right), by_run(mask), by_run(left)


@lru_cache
def _flags(layout: Layout) -> NDArray[np.uint8]:
    return np.arange(1, len(layout.tables) + 1, dtype=np.uint8)


def segments(fingerprints: NDArray[np.uint64], layout: Layout) -> NDArray[np.uint64]:
    """The 32-bit segment of each fingerprint in each table: (n,) -> (n, tables)."""
    column = fingerprints[:, np.newaxis]
    steps = zip(*_shifts(layout), strict=True)
    right, mask, left = next(steps)
    result: NDArray[np.uint64] = ((column >> right) & mask) << left
    for right, mask, left in steps:
        result |= ((column >> right) & mask) << left
    return result


def prefixes(fingerprints: NDArray[np.uint64], layout: Layout) -> NDArray[np.uint8]:
    """The drawers' prefixes: (n,) uint64 -> (n, tables, 5) uint8."""
    rows = np.empty((len(fingerprints), len(layout.tables)), dtype=_PREFIX)
    rows["segment"] = segments(fingerprints, layout)
    rows["flag"] = _flags(layout)
    return rows.view(np.uint8).reshape(*rows.shape, PREFIX_BYTES)


def encode(fingerprints: NDArray[np.uint64], layout: Layout) -> NDArray[np.uint8]:
    """The row keys: (n,) uint64 -> (n, tables, 13) uint8."""
    rows = np.empty((len(fingerprints), len(layout.tables)), dtype=_KEY)
    rows["segment"] = segments(fingerprints, layout)
    rows["flag"] = _flags(layout)
    rows["fingerprint"] = fingerprints[:, np.newaxis]
    return rows.view(np.uint8).reshape(*rows.shape, KEY_BYTES)


def decode(keys: NDArray[np.uint8]) -> tuple[NDArray[np.uint32], NDArray[np.uint8], NDArray[np.uint64]]:
    """Segments, flags and fingerprints of row keys: (n, 13) uint8 -> three arrays (n,)."""
    rows = np.ascontiguousarray(keys).view(_KEY).reshape(-1)
    return (
        rows["segment"].astype(np.uint32),
        rows["flag"].copy(),
        rows["fingerprint"].astype(np.uint64),
    )
