"""Recall and precision of the pairs that a scheme finds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.components import merge_components
from simhbase.model.thresholds import SIMILAR
from simhbase.quality.intervals import Estimate, estimate
from simhbase.quality.pairs import Positions, TextPairs
from simhbase.quality.sample import Sample

BINS = ((SIMILAR, 0.7), (0.7, 0.75), (0.75, 0.8), (0.8, 0.9), (0.9, 1.0))


@dataclass(frozen=True, slots=True)
class DrawerSizes:
    """How full drawers are. unrelated, related: mean number of unrelated texts and of near-duplicates in a
    text's drawers; largest: texts in the largest drawer."""

    unrelated: float
    related: float
    largest: int


def drawers(keys: Iterable[NDArray[np.uint64]], left: Positions, right: Positions) -> DrawerSizes:
    """Measure the drawers of n texts. keys: for each table, names of drawers, uint64 (n,); left, right: int64
    (m,), pairs of near-duplicates."""
    n = met = related = largest = 0
    for table in keys:
        sizes = np.unique(table, return_counts=True)[1]
        n = len(table)
        met += int((sizes * (sizes - 1)).sum())
        related += 2 * int(np.count_nonzero(table[left] == table[right]))
        largest = max(largest, int(sizes.max(initial=0)))
    return DrawerSizes((met - related) / max(n, 1), related / max(n, 1), largest)


@dataclass(frozen=True, kw_only=True)
class Quality:
    """Recall and precision.

    pairs: number of pairs to be found; found: number of pairs found, right or not; by_bin: recall by
    similarity, without empty bins; recall: share of the pairs to be found that were found; precision: share
    of found pairs that are right. None if there were no pairs.
    """

    pairs: int
    found: int
    by_bin: Mapping[str, Estimate]
    recall: Estimate | None
    precision: Estimate | None

    def as_dict(self) -> dict[str, Any]:
        """Recall and precision as JSON values."""
        bins = {name: share(of_bin) for name, of_bin in self.by_bin.items()}
        return {"recall": bins | {"all": share(self.recall)}, "precision": share(self.precision)}


def share(estimate: Estimate | None) -> dict[str, float] | None:
    return None if estimate is None else asdict(estimate)


def bin_name(low: float, high: float) -> str:
    return f"{low:g}-{high:g}"


@dataclass(frozen=True)
class Truth:
    """Ground truth of a sample. pairs: pairs that should be found; right: pairs that are right if found."""

    pairs: TextPairs
    right: TextPairs
    sample: Sample

    def quality(
        self,
        found: TextPairs,
        least: float = 0.0,
        bins: Iterable[tuple[float, float]] = BINS,
        judged: TextPairs | None = None,
    ) -> Quality:
        """Quality of found pairs. least: similarity from which pairs should be found; judged: those found
        pairs for which it is known if they are right (default: all)."""
        by_bin = {bin_name(*bounds): self.recall(found, *bounds) for bounds in bins}
        return Quality(
            pairs=len(self.pairs.between(least).left),
            found=len(found.left),
            by_bin={name: of_bin for name, of_bin in by_bin.items() if of_bin is not None},
            recall=self.recall(found, least, 1.0),
            precision=self.precision(found if judged is None else judged),
        )

    def recall(self, found: TextPairs, low: float, high: float) -> Estimate | None:
        """Share of the pairs with a similarity from `low` to below `high` (or 1.0, if `high` is) that were
        found. In a sample only pairs with a common key count: others are in it by accident."""
        pairs = self.pairs.between(low, high)
        if not self.sample.is_whole:
            pairs = pairs.where(self.sample.common_keys(pairs.left, pairs.right) > 0)
        return self._share(found.has(pairs.left, pairs.right), pairs)

    def precision(self, found: TextPairs) -> Estimate | None:
        """Share of found pairs that are right."""
        return self._share(self.right.has(found.left, found.right), found)

    def _share(self, hits: NDArray[np.bool_], pairs: TextPairs) -> Estimate | None:
        # Each pair is weighted by the number of pairs of the corpus that it represents.
        weights = 1 / self.sample.probability(pairs.left, pairs.right)
        clusters = merge_components(np.arange(pairs.n), pairs.left, pairs.right)[pairs.left]
        return estimate(hits, clusters, weights)
