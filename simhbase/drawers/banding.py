"""Names of the drawers of sketches: hashes of their bands."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simhbase import _core
from simhbase.drawers.bands import Bands


def segments(bands: Bands, sketches: NDArray[np.uint8], bits: int) -> NDArray[np.uint32]:
    """Upper 32 bits of a hash of each band: uint8 (n, bytes) -> uint32 (n, number)."""
    named = _core.segments(np.ascontiguousarray(sketches), bits, bands.rows, 0, bands.number)
    return np.frombuffer(named, np.uint32).reshape(len(sketches), bands.number)
