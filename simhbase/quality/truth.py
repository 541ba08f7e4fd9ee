"""Recall and precision of the pairs that a scheme finds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.components import merge_components
from simhbase.errors import BadInput
from simhbase.quality.exact_join import SimilarPairs
from simhbase.quality.intervals import Estimate, estimate
from simhbase.quality.sample import Sample

BINS = ((0.7, 0.75), (0.75, 0.8), (0.8, 0.9), (0.9, 1.0))
MOST_PAIRS = 20_000_000

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FoundPairs:
    """Pairs of n texts. left, right: int64 (m,) with left < right, sorted by both; score: float64 (m,),
    distance in bits, or estimated similarity."""

    n: int
    left: Numbers
    right: Numbers
    score: NDArray[np.float64]

    @classmethod
    def of(cls, n: int, parts: Iterable[tuple[Numbers, Numbers, NDArray[np.float64]]]) -> FoundPairs:
        """Collect chunks of distinct pairs in any order. Raises BadInput for more than MOST_PAIRS."""
        held = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
        total = 0
        for part in parts:
            held.append(part)
            total += len(part[0])
            if total > MOST_PAIRS:
                raise BadInput(
                    f"more than {MOST_PAIRS:,} pairs of {n:,} texts are near each other: they are made from "
                    "one template, or too short to differ. Leave such texts out, or use a smaller sample"
                )
        left, right, score = map(np.concatenate, zip(*held, strict=True))
        order = np.argsort(left * n + right)
        return cls(n, left[order], right[order], score[order])

    def where(self, chosen: NDArray[np.bool_]) -> FoundPairs:
        return FoundPairs(self.n, self.left[chosen], self.right[chosen], self.score[chosen])

    def places(self, left: Numbers, right: Numbers) -> Numbers:
        """Position of each given pair among these, -1 if it is missing: int64."""
        keys = self.left * self.n + self.right
        wanted = left * self.n + right
        places = np.searchsorted(keys, wanted)
        inside = np.minimum(places, max(len(keys) - 1, 0))
        there = keys[inside] == wanted if len(keys) else np.zeros(len(wanted), dtype=np.bool_)
        return np.where(there, inside, -1)


@dataclass(frozen=True, slots=True)
class DrawerSizes:
    """How full drawers are. unrelated, related: mean number of unrelated texts and of near-duplicates in a
    text's drawers; largest: texts in the largest drawer."""

    unrelated: float
    related: float
    largest: int


def drawers(keys: Iterable[NDArray[np.uint64]], left: Numbers, right: Numbers) -> DrawerSizes:
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

    pairs: SimilarPairs
    right: SimilarPairs
    sample: Sample

    def quality(
        self,
        found: FoundPairs,
        least: float = 0.0,
        bins: Iterable[tuple[float, float]] = BINS,
        judged: FoundPairs | None = None,
    ) -> Quality:
        """Quality of found pairs. least: similarity from which pairs should be found; judged: those found
        pairs for which it is known if they are right (default: all)."""
        by_bin = {bin_name(*bounds): self.recall(found, *bounds) for bounds in bins}
        return Quality(
            pairs=int(np.count_nonzero(self.pairs.jaccard >= least)),
            found=len(found.left),
            by_bin={name: of_bin for name, of_bin in by_bin.items() if of_bin is not None},
            recall=self.recall(found, least, 1.0),
            precision=self.precision(found if judged is None else judged),
        )

    def recall(self, found: FoundPairs, low: float, high: float) -> Estimate | None:
        """Share of the pairs with a similarity from `low` to below `high` (or 1.0, if `high` is) that were
        found. In a sample only pairs with a common key count: others are in it by accident."""
        similarity = self.pairs.jaccard
        chosen = np.flatnonzero((similarity >= low) & ((similarity < high) | (high == 1.0)))
        left, right = self.pairs.left[chosen], self.pairs.right[chosen]
        if not self.sample.is_whole:
            drawn = self.sample.common_keys(left, right) > 0
            left, right = left[drawn], right[drawn]
        return self._share(found.places(left, right) >= 0, left, right)

    def precision(self, found: FoundPairs) -> Estimate | None:
        """Share of found pairs that are right."""
        right = FoundPairs(found.n, self.right.left, self.right.right, self.right.jaccard)
        return self._share(right.places(found.left, found.right) >= 0, found.left, found.right)

    def _share(self, hits: NDArray[np.bool_], left: Numbers, right: Numbers) -> Estimate | None:
        # Each pair is weighted by the number of pairs of the corpus that it represents.
        weights = 1 / self.sample.probability(left, right)
        clusters = merge_components(np.arange(len(self.sample.texts)), left, right)[left]
        return estimate(hits, clusters, weights)
