"""Containment of texts in others: the share of the characters of one that the other has, too.
core/src/containment.rs has its rules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simhbase.text.feature_extractor import FeatureExtractor
from simhbase.text.features import UP_TO_TRIPLES, FeatureOptions


def is_measured(options: FeatureOptions) -> bool:
    """False for features of very short texts, of which a changed word is all that runs of characters show."""
    return options.kind != UP_TO_TRIPLES


def containment(
    extractor: FeatureExtractor, texts: Sequence[str], left: NDArray[np.int64], right: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Share of the characters of each left text that the right one has, of m pairs: positions int64 (m,) ->
    float64 (m,), 1 for an empty text. White space and boilerplate do not count."""
    pairs = (np.ascontiguousarray(places, np.int64) for places in (left, right))
    return np.frombuffer(extractor.containment(texts, *pairs), np.float64)
