"""Names of the drawers of sketches: hashes of their bands."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simhbase._core import meet_first
from simhbase.drawers.bands import Bands
from simhbase.fingerprint.sketches import hash_words, unpack


def segments(bands: Bands, sketches: NDArray[np.uint8], bits: int) -> NDArray[np.uint32]:
    """Upper 32 bits of a hash of each band: uint8 (n, bytes) -> uint32 (n, number)."""
    slots = unpack(sketches, bits)[:, : bands.slots]
    return _hashed(slots.reshape(len(sketches), bands.number, bands.rows), bits)


def segments_of(bands: Bands, band: int, sketches: NDArray[np.uint8], bits: int) -> NDArray[np.uint32]:
    """Upper 32 bits of a hash of one band: uint32 (n,)."""
    return _hashed(unpack(sketches, bits)[:, band * bands.rows : (band + 1) * bands.rows], bits)


def are_first(
    bands: Bands, band: int, a: NDArray[np.uint8], b: NDArray[np.uint8], bits: int
) -> NDArray[np.bool_]:
    """Whether all slots agree in a band, and in none before it, sketch by sketch: two times uint8 (n, bytes)
    -> bool (n,)."""
    return np.frombuffer(meet_first(a, b, bits, bands.rows, band), np.bool_)


def _hashed(slots: NDArray[np.unsignedinteger], bits: int) -> NDArray[np.uint32]:
    """Of bands of slots, (..., rows) -> (...)."""
    rows, in_word = slots.shape[-1], 64 // bits
    words = np.zeros((*slots.shape[:-1], -(-rows // in_word)), dtype=np.uint64)
    for row in range(rows):
        word = words[..., row // in_word]
        word <<= np.uint64(bits % 64)
        word |= slots[..., row]
    return (hash_words(words) >> np.uint64(32)).astype(np.uint32)
