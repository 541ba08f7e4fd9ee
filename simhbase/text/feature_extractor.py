"""Features of texts: their sets, and words with weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simhbase._core import Pipeline, Sets
from simhbase.text.features import UP_TO_TRIPLES, FeatureOptions
from simhbase.text.idf import SCALE

_UNITS = {"saturated": 2, "tfidf": SCALE, "levels": 1}  # of the core's weights in one; 1 for the others


@dataclass
class FeatureExtractor:
    """Computes features of texts."""

    options: FeatureOptions

    @property
    def measures_containment(self) -> bool:
        """False for features of very short texts, of which a changed word is all that runs of characters
        show."""
        return self.options.kind != UP_TO_TRIPLES

    @cached_property
    def _pipeline(self) -> Pipeline:
        return self.options.pipeline()

    def sets(self, texts: Sequence[str]) -> Sets:
        return self._pipeline.sets(list(texts))

    def similarity(
        self, texts: Sequence[str], left: NDArray[np.int64], right: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Jaccard similarity of m pairs of texts: positions int64 (m,) -> float64 (m,). If both are shorter
        than a shingle, 1 for equal texts."""
        pairs = (np.ascontiguousarray(places, np.int64) for places in (left, right))
        return np.frombuffer(self._pipeline.similarity(list(texts), *pairs), np.float64)

    def containment(
        self, texts: Sequence[str], left: NDArray[np.int64], right: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Share of the characters of each left text that the right one has, of m pairs: positions int64 (m,)
        -> float64 (m,), 1 for an empty text. White space and boilerplate do not count.
        core/src/containment.rs has the rules."""
        pairs = (np.ascontiguousarray(places, np.int64) for places in (left, right))
        return np.frombuffer(self._pipeline.containment(list(texts), *pairs), np.float64)

    def words(self, text: str) -> list[tuple[str, float]]:
        """Words of a text with weights, heaviest first, ties by the words' bytes."""
        unit = _UNITS.get(self.options.weights, 1)
        return [(word, weight / unit) for word, weight in self._pipeline.words(text)]
