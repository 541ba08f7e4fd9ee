"""MinHash signatures a second, against the two usual packages, and how well sketches estimate."""

from __future__ import annotations

import numpy as np
from datasketch import MinHash
from rensa import RMinHash

from simhbase.fingerprint.minhash import SLOTS, SketchParameters
from simhbase.fingerprint.pipeline import Fingerprinter
from simhbase.fingerprint.sketches import mismatches_of
from simhbase.text.features import FeatureOptions
from tests import reference
from tests.bench.report import Cell, Table, interleaved

TEXTS = 2_000
SLOW_TEXTS = 200
RUNS = 5
PAIRS = 4_000
JACCARD = 0.8
FORMS = [(128, 1), (128, 2), (128, 4), (128, 8), (128, 16), (128, 32), (256, 1), (256, 4), (256, 8), (512, 1)]


def measure(scale: float = 1.0) -> list[Table]:
    """Sketches from texts; slots against bits."""
    texts = [text for _, text in reference.documents("xwlb_chinadata", round(74_545 / (TEXTS * scale)))]
    return [speed(texts), estimates(round(PAIRS * scale))]


def speed(texts: list[str]) -> Table:
    shingles = [[text[start : start + 3] for start in range(len(text) - 2)] for text in texts]
    few = [[shingle.encode() for shingle in each] for each in shingles[:: len(texts) // SLOW_TEXTS]]
    shared = MinHash(num_perm=SLOTS)

    def datasketch() -> None:
        for each in few:
            shared.copy().update_batch(each)

    def rensa() -> None:
        for each in shingles:
            RMinHash(num_perm=SLOTS, seed=1).update(each)

    fingerprinter = Fingerprinter(
        FeatureOptions(kind="chars:3"), sketching=SketchParameters(SLOTS), is_minhash=True
    )
    seconds = interleaved(RUNS, datasketch, rensa, lambda: fingerprinter.fingerprint_many(texts))
    rates = [len(few if position == 0 else texts) / elapsed for position, elapsed in enumerate(seconds)]
    names = [
        "datasketch, update_batch with shared permutations",
        "rensa, update",
        "simhbase, from raw text to sketches",
    ]
    return Table(
        f"MinHash signatures of {SLOTS} slots, one thread, peers from ready shingles",
        ["", "texts/s", "times datasketch", "times rensa"],
        [[name, rate, rate / rates[0], rate / rates[1]] for name, rate in zip(names, rates, strict=True)],
        [
            f"{len(texts):,} items of Chinese television news ({len(few)} for datasketch) of "
            f"{np.mean(list(map(len, shingles))):.0f} shingles of 3 characters on average; "
            f"medians of {RUNS} interleaved runs."
        ],
    )


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
