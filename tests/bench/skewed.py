"""Fingerprints as skewed as those of real news: normal variables with the means and correlations that explain
the bits of real fingerprints, of which the signs are taken.

python -m tests.bench.skewed: measure them again on the texts of shared/data, and write MODEL.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from simhbase.profile.profile import Profile
from tests import reference

MODEL = Path(__file__).with_name("news.npz")  # of 94,421 items of Chinese television news
CORPORA = ("xwlb_chinadata", "xwlb_duckburn")
AT_ONCE = 1 << 16
Words = NDArray[np.uint64]


def uniform(n: int, seed: int) -> Words:
    return np.random.default_rng(seed).integers(0, 2**64, n, dtype=np.uint64)


def skewed(n: int, seed: int) -> Words:
    """n fingerprints without near-duplicates, other than by chance."""
    with np.load(MODEL) as model:
        means, mixing = model["means"], model["mixing"].T
    random = np.random.default_rng(seed)
    made = np.empty(n, dtype=np.uint64)
    for start in range(0, n, AT_ONCE):
        count = min(AT_ONCE, n - start)
        bits = random.standard_normal((count, 64), dtype=np.float32) @ mixing + means > 0
        made[start : start + count] = np.packbits(bits, axis=1).view(">u8").ravel()
    return made


def fitted(values: Words) -> dict[str, NDArray[np.float32]]:
    """Means, and a matrix that mixes independent normal variables into correlated ones."""
    bits = np.unpackbits(values.astype(">u8").view(np.uint8).reshape(-1, 8), axis=1)
    means = [NormalDist().inv_cdf(share) for share in bits.mean(axis=0).tolist()]
    # The correlation of two normal variables whose signs have that of the bits.
    correlations = np.sin(np.pi / 2 * np.corrcoef(bits.T).clip(-0.99, 0.99))
    np.fill_diagonal(correlations, 1)
    weights, vectors = np.linalg.eigh(correlations)
    mixing = vectors * np.sqrt(weights.clip(1e-6))
    return {"means": np.array(means, dtype=np.float32), "mixing": mixing.astype(np.float32)}


def _real() -> Iterator[Words]:
    fingerprinter = Profile(verify=False).fingerprinter()
    for corpus in CORPORA:
        texts = [text for _, text in reference.documents(corpus)]
        yield fingerprinter.fingerprint_many(texts).fingerprints.values


if __name__ == "__main__":
    np.savez(MODEL, **fitted(np.unique(np.concatenate([*_real()]))))
