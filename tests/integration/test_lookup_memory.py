"""A batch of lookups whose drawers are as long as they may be takes memory for a part of the rows."""

import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from simhbase.drawers.bands import bands
from simhbase.drawers.layout import layout
from simhbase.drawers.scheme import MinHashScheme, Scheme, SimHashScheme
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.minhash import SketchParameters
from simhbase.fingerprint.sketches import fingerprints as fingerprints_of
from simhbase.index.reader import DRAWER_LIMIT, Reader
from simhbase.model.values import Query
from simhbase.stores import create_store
from simhbase.stores.base import PART_ROWS, Cell, DrawerRows, Store
from simhbase.stores.checked import checked

LIMIT = 300 << 20  # bytes
DOCUMENTS = 4096
SKETCHED = 1024  # documents that are compared by their sketches, which takes longer
WHOLE_DRAWERS = PART_ROWS // DRAWER_LIMIT  # of one part
SOME = np.random.default_rng(1).integers(0, 2**64, PART_ROWS, dtype=np.uint64)


class LongDrawers:
    """A store in which every drawer has as many rows as are read of one, and more; it counts them.

    The fingerprints are those of `pool`, a power of two of them, one drawer beginning where the other ends.
    """

    def __init__(self, store: Store, pool: NDArray[np.uint64]) -> None:
        self._store, self._pool = store, pool
        self.drawers, self.rows = self, 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def read(self, prefixes: NDArray[np.uint8], limit: int) -> Iterator[DrawerRows]:
        for first in range(0, len(prefixes), WHOLE_DRAWERS):
            numbers = np.arange(first, min(first + WHOLE_DRAWERS, len(prefixes)))
            offsets = np.arange(len(numbers) + 1) * limit
            rows = self._pool[(np.arange(offsets[-1]) + first * limit) % len(self._pool)]
            self.rows += len(rows)
            yield DrawerRows(numbers, offsets, rows, numbers)


def peak_of_finding(store: Store, scheme: Scheme, fingerprints: FingerprintBatch) -> int:
    """Bytes that a lookup takes at most, beyond what was there before."""
    reader = Reader(store, scheme)
    tracemalloc.start()
    try:
        near = reader.near(fingerprints, reader.asked(Query()))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert near.truncated == [True] * len(fingerprints)
    return peak


@pytest.mark.parametrize(
    "spread",
    [True, pytest.param(False, marks=pytest.mark.full)],
    ids=["drawers of their own", "the same drawers for all"],
)
def test_a_batch_in_full_drawers_stays_under_300_mb(spread):
    scheme = SimHashScheme(layout("4x1"), k=3)
    values = np.random.default_rng(0).integers(0, 2**64, DOCUMENTS, dtype=np.uint64)
    if not spread:  # they differ in bits that are in one of the drawers' keys
        values = values[0] ^ np.arange(DOCUMENTS, dtype=np.uint64)
    store = LongDrawers(create_store("memory:"), SOME)
    assert peak_of_finding(store, scheme, FingerprintBatch.bare(values)) < LIMIT
    drawers = len(np.unique(scheme.prefixes(FingerprintBatch.bare(values)).reshape(-1, 5), axis=0))
    assert store.rows == drawers * DRAWER_LIMIT
    assert drawers > 14_000 if spread else drawers < 5_000


def test_a_batch_whose_texts_share_bands_with_many_others_stays_under_300_mb():
    """All that the drawers hold is near by its bits, and is judged by its sketch."""
    sketching, number = SketchParameters(slots=128), 1 << 13
    scheme = MinHashScheme(bands("2x8"), sketching, threshold=0.8)
    sketches = np.random.default_rng(0).integers(0, 256, (SKETCHED + number, sketching.bytes), dtype=np.uint8)
    sketches[:SKETCHED, :16] = 7  # both bands
    fingerprints = FingerprintBatch(fingerprints_of(sketches), sketches)
    stored = dict(
        zip(fingerprints.values[SKETCHED:].tolist(), fingerprints.sketch_bytes()[SKETCHED:], strict=True)
    )
    store = LongDrawers(Sketched(stored), fingerprints.values[SKETCHED:])
    assert peak_of_finding(store, scheme, fingerprints[:SKETCHED]) < LIMIT
    assert store.rows == 2 * DRAWER_LIMIT


class Sketched:
    """A store that lists one document of each fingerprint."""

    tables = ("fingerprints", "documents", "meta")
    keeps_hints = False  # it has no table of rows that become obsolete

    def __init__(self, sketches: dict[int, bytes]) -> None:
        self._sketches = sketches

    def read_consistent(self, read):
        return read()

    def records(self, table: str) -> "Sketched":
        assert table == "fingerprints"
        return self

    def scan(self, prefixes: list[bytes], limit: int) -> list[list[tuple[bytes, Cell]]]:
        keys = [prefix + b"x" if int.from_bytes(prefix) in self._sketches else None for prefix in prefixes]
        return [[(key, Cell(self._listing(key), 1))] if key else [] for key in keys]

    def _listing(self, key: bytes) -> bytes:
        return checked(key, self._sketches[int.from_bytes(key[:-1])])
