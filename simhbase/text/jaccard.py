"""Sets of the features of texts, and their exact Jaccard similarity."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simhbase.text.feature_extractor import FeatureExtractor
from simhbase.text.features import SHINGLES, FeatureOptions

PAIRS = "chars:2"  # for short texts


class ShingleSets:
    """Sets of the features of n texts. A text that is too short has an empty set."""

    def __init__(self, extractor: FeatureExtractor, texts: Sequence[str]) -> None:
        self._sets = extractor.sets(texts)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Sizes of the sets: int64 (n,)."""
        return np.frombuffer(self._sets.sizes(), np.int64)

    @property
    def tokens(self) -> NDArray[np.uint32]:
        """Features that several sets have: uint32 (m,), set after set, ascending within a set. A token is the
        rank of a feature by the number of sets that contain it, rarest first."""
        return self._ranked[0]

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where sets are among `tokens`: int64 (n + 1,), set i is tokens[offsets[i]:offsets[i + 1]]."""
        return self._ranked[1]

    @property
    def shared(self) -> NDArray[np.int64]:
        """Number of features of each set that other sets contain, too: int64 (n,)."""
        return np.diff(self.offsets)

    @cached_property
    def _ranked(self) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        tokens, offsets = self._sets.ranked()
        return np.frombuffer(tokens, np.uint32), np.frombuffer(offsets, np.int64)

    def similarity(self, left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.float64]:
        """Similarity of m pairs of sets: positions int64 (m,) -> float64 (m,), 0 for two empty sets."""
        pairs = [np.ascontiguousarray(places, np.int64) for places in (left, right)]
        return np.frombuffer(self._sets.similarity(*pairs), np.float64)


def shingle_sets(texts: Sequence[str], kind: str = SHINGLES) -> ShingleSets:
    """Feature sets of n texts. kind: see FeatureOptions."""
    return ShingleSets(FeatureExtractor(FeatureOptions(kind=kind)), texts)
