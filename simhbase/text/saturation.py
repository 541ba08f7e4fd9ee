"""Words that are repeated weigh less than their count: in long texts, or in short ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Where one word of a long text on a narrow subject is counted 90 to 280 times, it decides every bit, and
# texts that have nothing else in common are near. In texts of up to some 400 words what repeats is what
# near-duplicates share, and they lose by any saturation. docs/quality.md has both measured.
SATURATION = 6
SATURATED_FROM = 1024  # words
STEEPNESS = 4
# Three codes of emoticons in a post of three words would decide every bit. In longer texts hardly any word
# weighs less by this, and near-duplicates are found as by counts.
CAPPED_BY = 4
LARGEST_COUNT = 1 << 15  # keeps products within 64 bits


def capped(counts: NDArray[np.int64], distinct: NDArray[np.int64] | int) -> NDArray[np.int64]:
    """The weights of words that are counted so often in texts of so many different words: int64 (m,)."""
    weights: NDArray[np.int64] = np.minimum(counts, 1 + distinct // CAPPED_BY)
    return weights


def saturated(counts: NDArray[np.int64], words: NDArray[np.int64]) -> NDArray[np.int64]:
    """The weights of words that are counted so often in texts of so many words, in halves: int64 (m,) twice
    -> int64 (m,). (Of finer ones no sum is exactly even, and a bit that is near even differs sooner.)

    c K / (c + K), the saturation of BM25 (Robertson, Zaragoza: The Probabilistic Relevance Framework, 2009),
    with K = 6 (1024 / words)^4, and never below 6. So it is the count itself in short texts, up to 6 in long
    ones, and changes little between texts of nearly one length.
    """
    counts = np.minimum(counts, LARGEST_COUNT)
    bound = SATURATION * SATURATED_FROM**STEEPNESS
    scaled = counts * np.minimum(words, SATURATED_FROM) ** STEEPNESS
    rounded: NDArray[np.int64] = (4 * counts * bound + scaled + bound) // (2 * (scaled + bound))
    return rounded
