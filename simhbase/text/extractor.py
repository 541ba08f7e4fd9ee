"""Features of batches of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simhbase._core import Pipeline, Sets
from simhbase.text.features import FeatureOptions
from simhbase.text.idf import SCALE

_UNITS = {"saturated": 2, "tfidf": SCALE, "levels": 1}  # of the core's weights in one; 1 for the others


@dataclass(frozen=True, slots=True)
class FeatureBatch:
    """Features of n texts, text after text; they may repeat.

    digests: uint64 (m,), their first 64 bits; counts: int64 (n,), number of features of each text.
    """

    digests: NDArray[np.uint64]
    counts: NDArray[np.int64]


class Extractor:
    """Computes features of texts."""

    def __init__(self, options: FeatureOptions) -> None:
        self.options = options

    @cached_property
    def _pipeline(self) -> Pipeline:
        return self.options.pipeline()

    def extract(self, texts: Sequence[str]) -> FeatureBatch:
        digests, counts = self._pipeline.features(list(texts))
        return FeatureBatch(np.frombuffer(digests, np.uint64), np.frombuffer(counts, np.int64))

    def sets(self, texts: Sequence[str]) -> Sets:
        return self._pipeline.sets(list(texts))

    def words(self, text: str) -> list[tuple[str, float]]:
        """Words of a text with weights, heaviest first, ties by the words' bytes."""
        unit = _UNITS.get(self.options.weights, 1)
        return [(word, weight / unit) for word, weight in self._pipeline.words(text)]
