"""Converts fingerprints to row keys of drawers and back, as arrays.

A row key is segment (4 bytes) + flag (1 byte) + fingerprint (8 bytes), all big-endian; a drawer's prefix is
its first 5 bytes. See schema/format.md for examples of every layout.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from simhbase._core import Probes
from simhbase.drawers.layout import SEGMENT_BITS, Layout
from simhbase.drawers.layout import layout as layout_called

KEY_BYTES = 13
PREFIX_BYTES = 5
FLAG = 4  # place of the flag in a row key
_FLAG_BITS = 8
_BEHIND_BITS = 24  # in a word that begins with a prefix
_KEY = np.dtype([("segment", ">u4"), ("flag", "u1"), ("fingerprint", ">u8")])
# The same 13 bytes for writing: segment and flag are the first 5 bytes of one word, whose other 3
# the fingerprint covers. So `drawer` has to be written first.
_DRAWER_THEN_FINGERPRINT = np.dtype(
    {"names": ["drawer", "fingerprint"], "formats": [">u8", ">u8"], "offsets": [0, 5], "itemsize": KEY_BYTES}
)
_WORD = np.dtype(">u8")
_NATIVE_WORD = np.dtype(np.uint64)


@dataclass(frozen=True, slots=True)
class _Moves:
    """Shifts and masks that extract the drawers of a fingerprint.

    right, mask, left: uint64 (runs, tables, 1), which move each run of bits to its place; tables with fewer
    runs are padded with empty masks, so a few array operations serve all. flags: uint64 (tables, 1), at their
    place.
    """

    right: NDArray[np.uint64]
    mask: NDArray[np.uint64]
    left: NDArray[np.uint64]
    flags: NDArray[np.uint64]


@lru_cache
def _moves_of_tables(name: str, bits: int) -> list[list[tuple[int, int, int]]]:
    """Per table and run: shift to the right, mask, and shift to the left into a prefix of 40 bits.

    Cached by the layout's name: hashing a Layout would take as long as computing the prefixes.
    """
    tables = []
    for table in layout_called(name, bits).tables:
        room = SEGMENT_BITS
        moves = []
        for run in table:
            width = min(run.width, room)
            room -= width
            moves.append((bits - run.start - width, (1 << width) - 1, room + _FLAG_BITS))
        tables.append([move for move in moves if move[1]])
    return tables


@lru_cache
def _moves(name: str, bits: int) -> _Moves:
    tables = _moves_of_tables(name, bits)
    runs = max(map(len, tables))
    padded = np.array([moves + [(0, 0, 0)] * (runs - len(moves)) for moves in tables], dtype=np.uint64)
    right, mask, left = np.ascontiguousarray(padded.transpose(2, 1, 0))[..., np.newaxis]
    left += np.uint64(_BEHIND_BITS)
    flags = np.arange(1, len(tables) + 1, dtype=np.uint64) << np.uint64(_BEHIND_BITS)
    return _Moves(right, mask, left, flags[:, np.newaxis])


def _drawers(fingerprints: NDArray[np.uint64], layout: Layout) -> NDArray[np.uint64]:
    """Segment (32 bits), flag (8), zeros (24) of each fingerprint in each table: (n,) -> (tables, n).

    Tables come first so that NumPy's inner loops run over the fingerprints.
    """
    moves = _moves(layout.name, layout.bits)
    bits = fingerprints >> moves.right
    bits &= moves.mask
    bits <<= moves.left
    drawers: NDArray[np.uint64] = np.bitwise_or.reduce(bits, axis=0)
    drawers |= moves.flags
    return drawers


def prefixes(fingerprints: NDArray[np.uint64], layout: Layout) -> NDArray[np.uint8]:
    """Key prefixes of drawers: uint64 (n,) -> uint8 (n, tables, 5)."""
    rows = _drawers(fingerprints, layout).T.astype(_WORD, order="C")
    return rows.view(np.uint8).reshape(*rows.shape, _WORD.itemsize)[..., :PREFIX_BYTES]


def probes(fingerprints: NDArray[np.uint64], layout: Layout) -> NDArray[np.uint8]:
    """Key prefixes of the drawers that a lookup reads: uint64 (n,) -> uint8 (n, probes, 5).

    These are the fingerprint's own drawers; with flips, each is followed by those whose names differ in one
    bit.
    """
    if not layout.flips:
        return prefixes(fingerprints, layout)
    tables, flipped = _flips(layout.name, layout.bits)
    words = _drawers(fingerprints, layout).T[:, tables] ^ flipped
    rows = words.astype(_WORD, order="C")
    return rows.view(np.uint8).reshape(*rows.shape, _WORD.itemsize)[..., :PREFIX_BYTES]


def probes_of(fingerprint: int, layout: Layout) -> list[bytes]:
    """The prefixes of `probes` for one fingerprint of 64 bits, as bytes: NumPy calls would take longer than
    reading the drawers."""
    return _probes(layout.name, layout.bits).of(fingerprint)


@lru_cache
def _probes(name: str, bits: int) -> Probes:
    tables = _moves_of_tables(name, bits)
    return Probes(list(zip(range(1, len(tables) + 1), tables, _flips_of_tables(name, bits), strict=True)))


@lru_cache
def _flips_of_tables(name: str, bits: int) -> list[list[int]]:
    """Per table, the bits that a lookup flips, in a prefix of 40 bits."""
    found = layout_called(name, bits)
    widths = [len(named) if found.flips else 0 for named in found.named_bits()]
    return [[1 << (8 * PREFIX_BYTES - 1 - bit) for bit in range(width)] for width in widths]


@lru_cache
def _flips(name: str, bits: int) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Table of each probe, and the bit of its drawer that is flipped: two arrays (probes,)."""
    flips = _flips_of_tables(name, bits)
    tables = np.repeat(np.arange(len(flips)), [1 + len(each) for each in flips])
    flipped = np.array([flip for each in flips for flip in (0, *each)], dtype=np.uint64)
    return tables, flipped << np.uint64(_BEHIND_BITS)


@lru_cache
def segment_masks(name: str, bits: int) -> tuple[int, ...]:
    """Per table of a layout, the fingerprint bits that name a drawer, as an integer."""
    named = layout_called(name, bits).named_bits()
    return tuple(sum(1 << (bits - 1 - bit) for bit in table) for table in named)


def encode(fingerprints: NDArray[np.uint64], layout: Layout) -> NDArray[np.uint8]:
    """Row keys: uint64 (n,) -> uint8 (n, tables, 13)."""
    rows = np.empty((len(fingerprints), len(layout.tables)), dtype=_DRAWER_THEN_FINGERPRINT)
    rows["drawer"] = _drawers(fingerprints, layout).T
    rows["fingerprint"] = fingerprints[:, np.newaxis]
    return rows.view(np.uint8).reshape(*rows.shape, KEY_BYTES)


def encode_segments(segments: NDArray[np.uint32], fingerprints: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Row keys for given segments: uint32 (n, tables), uint64 (n,) -> uint8 (n, tables, 13)."""
    rows = np.empty(segments.shape, dtype=_KEY)
    rows["segment"] = segments
    rows["flag"] = np.arange(1, segments.shape[1] + 1, dtype=np.uint8)
    rows["fingerprint"] = fingerprints[:, np.newaxis]
    return rows.view(np.uint8).reshape(*rows.shape, KEY_BYTES)


def numbers_of(prefixes: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Prefixes as numbers in the same order: uint8 (..., 5) -> uint64 (...)."""
    words = np.zeros((*prefixes.shape[:-1], _WORD.itemsize), dtype=np.uint8)
    words[..., :PREFIX_BYTES] = prefixes
    return words.view(_WORD)[..., 0].astype(np.uint64)


def segments_of(prefixes: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Segments of drawer prefixes: uint8 (n, tables, 5) -> uint32 (n, tables)."""
    segments = np.ascontiguousarray(prefixes[..., :4]).view(_KEY["segment"])
    return segments[..., 0].astype(np.uint32)


def fingerprints_of(rows: bytes) -> NDArray[np.uint64]:
    """Fingerprints of n concatenated row keys: 13 n bytes -> uint64 (n,)."""
    first = PREFIX_BYTES if rows else 0
    found = np.ndarray(len(rows) // KEY_BYTES, _WORD, buffer=rows, offset=first, strides=KEY_BYTES)
    return found.astype(_NATIVE_WORD)


def decode(keys: NDArray[np.uint8]) -> tuple[NDArray[np.uint32], NDArray[np.uint8], NDArray[np.uint64]]:
    """Segments, flags and fingerprints of row keys: uint8 (n, 13) -> three arrays (n,)."""
    rows = np.ascontiguousarray(keys).view(_KEY).reshape(-1)
    return (
        rows["segment"].astype(np.uint32),
        rows["flag"].copy(),
        rows["fingerprint"].astype(np.uint64),
    )
