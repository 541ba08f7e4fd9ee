"""Shares measured on samples, with confidence intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_NORMAL = 1.959964  # 95 %


@dataclass(frozen=True, slots=True)
class Estimate:
    """A share with its 95 % confidence interval. pairs: number of pairs it was measured on."""

    value: float
    low: float
    high: float
    pairs: int


def estimate(
    hits: NDArray[np.bool_], clusters: NDArray[np.int64], weights: NDArray[np.float64]
) -> Estimate | None:
    """Estimate the share of m pairs that are hits; None for no pairs.

    hits, clusters, weights: (m,). Pairs of one cluster (below 2^32) count as repetitions of one observation:
    a hundred copies of a page make 4,950 pairs, which are found all or none.

    Wilson's interval (Probable Inference, JASA 22, 1927) with the effective number of observations (Kish,
    Survey Sampling, 1965). It stays within 0 and 1, also if all or none are hits.
    """
    if not len(hits):
        return None
    total = float(weights.sum())
    value = float(weights[hits].sum()) / total
    by_cluster = np.bincount(np.unique(clusters, return_inverse=True)[1], weights=weights)
    observations = total**2 / float((by_cluster**2).sum())
    squared = _NORMAL**2
    centre = (value + squared / (2 * observations)) / (1 + squared / observations)
    spread = value * (1 - value) / observations + squared / (4 * observations**2)
    margin = _NORMAL * spread**0.5 / (1 + squared / observations)
    return Estimate(
        value, max(0.0, min(centre - margin, value)), min(1.0, max(centre + margin, value)), len(hits)
    )
