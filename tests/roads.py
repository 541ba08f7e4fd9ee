"""Fingerprints with the loops that Numba compiles, and without."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from simhbase import acceleration

ROADS = ("plain", "compiled")


@contextmanager
def road(name: str) -> Iterator[None]:
    """Take one of ROADS, whatever there is to do; skips the test where Numba is not installed."""
    if name == "compiled":
        pytest.importorskip("numba", reason="Numba is not installed")
        assert acceleration.prepare()
    with pytest.MonkeyPatch.context() as patch:
        if name == "plain":
            patch.setattr(acceleration, "_loops", lambda module, characters: None)
        yield
