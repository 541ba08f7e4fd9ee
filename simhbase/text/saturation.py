"""Weights of repeated words that grow more slowly than their counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# A word that a long text on a narrow subject repeats 90 to 280 times decides every bit, and makes otherwise
# different texts near. In texts of up to about 400 words, repeated words are those that near-duplicates
# share, and any saturation costs recall (measured in docs/quality.md).
SATURATION = 6
SATURATED_FROM = 1024  # words
STEEPNESS = 4
# Three emoticon codes in a post of three words would decide every bit. In longer texts this changes hardly
# any weight, and recall is the same as with counts.
CAPPED_BY = 4
LARGEST_COUNT = 1 << 15  # keeps products within 64 bits


def capped(counts: NDArray[np.int64], distinct: NDArray[np.int64] | int) -> NDArray[np.int64]:
    """Weights of m words: int64 (m,). counts: (m,), occurrences; distinct: distinct words of the text."""
    weights: NDArray[np.int64] = np.minimum(counts, 1 + distinct // CAPPED_BY)
    return weights


def saturated(counts: NDArray[np.int64], words: NDArray[np.int64]) -> NDArray[np.int64]:
    """Weights of m words in units of one half: int64 (m,). counts: (m,), occurrences; words: (m,), all words
    of the text.

    c K / (c + K), the saturation of BM25 (Robertson, Zaragoza: The Probabilistic Relevance Framework, 2009),
    with K = 6 (1024 / words)^4, but at least 6. So it equals the count in short texts, is at most 6 in long
    ones, and changes little between texts of similar length.
    """
    # Halves, not finer: with finer weights ties never occur, and bits near a tie differ more often.
    counts = np.minimum(counts, LARGEST_COUNT)
    bound = SATURATION * SATURATED_FROM**STEEPNESS
    scaled = counts * np.minimum(words, SATURATED_FROM) ** STEEPNESS
    rounded: NDArray[np.int64] = (4 * counts * bound + scaled + bound) // (2 * (scaled + bound))
    return rounded
