"""How well sketches of MinHash estimate."""

from __future__ import annotations

import numpy as np

from simhbase.fingerprint.minhash import SketchParameters
from simhbase.fingerprint.pipeline import Fingerprinter
from simhbase.fingerprint.sketches import mismatches_of
from simhbase.text.features import FeatureOptions
from tests.bench.report import Cell, Table

PAIRS = 4_000
JACCARD = 0.8
FORMS = [(128, 1), (128, 2), (128, 4), (128, 8), (128, 16), (128, 32), (256, 1), (256, 4), (256, 8), (512, 1)]


def measure(scale: float = 1.0) -> list[Table]:
    """Slots against bits."""
    return [estimates(round(PAIRS * scale))]


def estimates(count: int) -> Table:
    """What sketches of so many slots and bits cost and tell, on sets of known similarity."""
    rng = np.random.default_rng(1)
    words = [[f"w{word:x}" for word in each] for each in rng.integers(0, 2**63, (count, 500)).tolist()]
    shared = round(500 * JACCARD)
    left = [" ".join(each[: (500 + shared) // 2]) for each in words]
    right = [" ".join(each[(500 - shared) // 2 :]) for each in words]
    rows: list[list[Cell]] = []
    for slots, bits in FORMS:
        sketching = SketchParameters(slots, bits)
        fingerprinter = Fingerprinter(FeatureOptions(kind="words:1"), sketching=sketching, is_minhash=True)
        sketches = [fingerprinter.fingerprint_many(texts).fingerprints.sketches for texts in (left, right)]
        found = sketching.similarity(mismatches_of(sketching, *sketches))
        error = float(np.sqrt(np.mean((found - JACCARD) ** 2)))
        told = f"{sketching.bytes * error**2:.3f}"
        rows.append([slots, bits, sketching.bytes, f"{error:.4f}", f"{found.mean() - JACCARD:+.4f}", told])
    return Table(
        f"Estimates from sketches of {count:,} pairs of sets of Jaccard similarity {JACCARD}",
        ["slots", "bits", "bytes", "standard error", "bias", "bytes x error^2"],
        rows,
        ["The smaller the last column, the more a byte tells."],
    )
