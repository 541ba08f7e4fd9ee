"""Groups of an embedded store, by processor time: beside reading its documents, and of a large cluster."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from time import process_time

import numpy as np
from numpy.typing import NDArray

from simhbase.admin import Administrator
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.sketches import fingerprints
from simhbase.index import Index, open_index
from tests.bench.report import Cell, Table

PROFILES = ("default", "complete")
SIZE, CLUSTER = 300_000, 6000
NEAR = 4  # every fourth document is near another
BITS = 3  # of fingerprints of the cluster that differ from its middle


def measure(scale: float = 1.0) -> list[Table]:
    """A row a profile and kind of store."""
    rows: list[list[Cell]] = []
    for profile in PROFILES:
        for what, size, made in (("near pairs", SIZE, pairs), ("one cluster", CLUSTER, cluster)):
            with (
                TemporaryDirectory(prefix="simhbase-bench-") as folder,
                open_index(f"rocksdb:{folder}/store", create=profile) as index,
            ):
                n = round(size * scale)
                index.add_batch([f"document/{number}" for number in range(n)], batch(index, *made(index, n)))
                start = process_time()
                assert len(index) == n
                listed = process_time() - start
                start = process_time()
                with Administrator(index).groups() as found:
                    grouped = process_time() - start
                    rows.append([profile, what, n, len(found), grouped, n / grouped, grouped / listed])
    head = ["profile", "store", "documents", "groups", "processor s", "documents/s", "times len(index)"]
    return [Table("Embedded store: its groups", head, rows)]


def batch(index: Index, values: NDArray[np.uint64], sketches: NDArray[np.uint8]) -> FingerprintBatch:
    is_hash = index.profile.index_scheme.listed_sketching is not None
    return FingerprintBatch(fingerprints(sketches) if is_hash else values, sketches)


def pairs(index: Index, n: int) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
    """Fingerprints and sketches of which a quarter differ in a bit from another one's."""
    chance = np.random.default_rng(1)
    values = chance.integers(0, 2**64, n, dtype=np.uint64)
    sketches = chance.integers(0, 256, (n, sketch_bytes(index)), dtype=np.uint8)
    near = np.arange(n // NEAR)
    values[-len(near) :] = values[near] ^ np.uint64(1) << chance.integers(0, 64, len(near), dtype=np.uint64)
    sketches[-len(near) :] = sketches[near]
    sketches[-len(near) :, 0] ^= 1
    return values, sketches


def cluster(index: Index, n: int) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
    """Fingerprints and sketches that all differ a little from one."""
    chance = np.random.default_rng(2)
    flips = np.uint64(1) << chance.integers(0, 64, (BITS, n), dtype=np.uint64)
    sketches = np.repeat(chance.integers(0, 256, (1, sketch_bytes(index)), dtype=np.uint8), n, axis=0)
    places = chance.integers(0, sketches.shape[1], (BITS, n))
    for place in places:
        sketches[np.arange(n), place] ^= 1
    return np.bitwise_xor.reduce(flips), sketches


def sketch_bytes(index: Index) -> int:
    sketching = index.profile.sketching
    assert sketching is not None
    return sketching.bytes
