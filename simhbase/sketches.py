"""The sketches that a store keeps, a row a fingerprint."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simhbase import records
from simhbase.minhash import SketchForm
from simhbase.stores.base import Store


def stored_sketches(
    store: Store, fingerprints: Sequence[int], form: SketchForm
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """The sketches of n fingerprints, uint8 (n, bytes), and which of them are there, bool (n,), in one
    read. One of another size counts as absent."""
    values = store.records("fingerprints").get(list(map(records.sketch_key, fingerprints)))
    usable = [value if value is not None and len(value) == form.bytes else None for value in values]
    absent = bytes(form.bytes)
    content = b"".join(absent if value is None else value for value in usable)
    there = np.array([value is not None for value in usable], dtype=np.bool_)
    return np.frombuffer(content, dtype=np.uint8).reshape(-1, form.bytes), there
