"""The pairs of texts that a scheme finds, and how good they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.components import united
from simhbase.errors import BadInput
from simhbase.quality.exact_join import SimilarPairs
from simhbase.quality.intervals import Estimate, estimate
from simhbase.quality.sample import Sample

BINS = ((0.7, 0.75), (0.75, 0.8), (0.8, 0.9), (0.9, 1.0))
MOST_PAIRS = 20_000_000

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FoundPairs:
    """Pairs of n texts: left and right int64 (m,) with left < right, in ascending order of both; score
    float64 (m,), by which a scheme decides: bits of distance, or an estimated similarity."""

    n: int
    left: Numbers
    right: Numbers
    score: NDArray[np.float64]

    @classmethod
    def gathered(cls, n: int, parts: Iterable[tuple[Numbers, Numbers, NDArray[np.float64]]]) -> FoundPairs:
        """Of chunks of pairs in any order, each pair once. Raises BadInput for more than MOST_PAIRS."""
        held = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
        total = 0
        for part in parts:
            held.append(part)
            total += len(part[0])
            if total > MOST_PAIRS:
                raise BadInput(
                    f"more than {MOST_PAIRS:,} pairs of {n:,} texts are near each other: they are made of "
                    "one template, or too short to differ. Leave such texts out, or take a smaller sample"
                )
        left, right, score = map(np.concatenate, zip(*held, strict=True))
        order = np.argsort(left * n + right)
        return cls(n, left[order], right[order], score[order])

    def where(self, chosen: NDArray[np.bool_]) -> FoundPairs:
        return FoundPairs(self.n, self.left[chosen], self.right[chosen], self.score[chosen])

    def places(self, left: Numbers, right: Numbers) -> Numbers:
        """The position of each of these pairs among the found ones, -1 of those not found: int64."""
        keys = self.left * self.n + self.right
        wanted = left * self.n + right
        places = np.searchsorted(keys, wanted)
        inside = np.minimum(places, max(len(keys) - 1, 0))
        there = keys[inside] == wanted if len(keys) else np.zeros(len(wanted), dtype=np.bool_)
        return np.where(there, inside, -1)


@dataclass(frozen=True, slots=True)
class DrawerSizes:
    """How full drawers get: the members that a text meets in its drawers, unrelated ones and its near
    duplicates; the members of the largest drawer."""

    unrelated: float
    related: float
    largest: int


def drawers(keys: Iterable[NDArray[np.uint64]], left: Numbers, right: Numbers) -> DrawerSizes:
    """Of n texts: keys, uint64 (n,) of each table, name their drawers; left, right: int64 (m,), the
    pairs of near-duplicates among them."""
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
    """How good what was found is.

    pairs: how many were to be found; found: how many were, of any kind; by_bin: recall of pairs by their
    similarity, without bins of no pair; recall: of all that were to be found; precision: the share of what
    was found that is right. None: there were no pairs.
    """

    pairs: int
    found: int
    by_bin: Mapping[str, Estimate]
    recall: Estimate | None
    precision: Estimate | None

    def by_name(self) -> dict[str, Any]:
        """As plain values."""
        bins = {name: share(of_bin) for name, of_bin in self.by_bin.items()}
        return {"recall": bins | {"all": share(self.recall)}, "precision": share(self.precision)}


def share(estimate: Estimate | None) -> dict[str, float] | None:
    return None if estimate is None else asdict(estimate)


def bin_name(low: float, high: float) -> str:
    return f"{low:g}-{high:g}"


@dataclass(frozen=True)
class Truth:
    """What ought to be found among the texts of a sample: `pairs`; and what may be: `right` are all pairs
    that are right where they are found."""

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
        """Of what was found, where pairs of a similarity of `least` were to be found. judged: the part of
        which is known whether it is right."""
        by_bin = {bin_name(*bounds): self.recall(found, *bounds) for bounds in bins}
        return Quality(
            pairs=int(np.count_nonzero(self.pairs.jaccard >= least)),
            found=len(found.left),
            by_bin={name: of_bin for name, of_bin in by_bin.items() if of_bin is not None},
            recall=self.recall(found, least, 1.0),
            precision=self.precision(found if judged is None else judged),
        )

    def recall(self, found: FoundPairs, low: float, high: float) -> Estimate | None:
        """Of the pairs from `low` to below `high` (1.0 belongs to the last bin) the share found. Of a
        sample only pairs with a common key count: without one a pair is there by accident."""
        similarity = self.pairs.jaccard
        chosen = np.flatnonzero((similarity >= low) & ((similarity < high) | (high == 1.0)))
        left, right = self.pairs.left[chosen], self.pairs.right[chosen]
        if not self.sample.is_whole:
            drawn = self.sample.common_keys(left, right) > 0
            left, right = left[drawn], right[drawn]
        return self._share(found.places(left, right) >= 0, left, right)

    def precision(self, found: FoundPairs) -> Estimate | None:
        """Of the pairs found the share that is right."""
        right = FoundPairs(found.n, self.right.left, self.right.right, self.right.jaccard)
        return self._share(right.places(found.left, found.right) >= 0, found.left, found.right)

    def _share(self, hits: NDArray[np.bool_], left: Numbers, right: Numbers) -> Estimate | None:
        """Of m pairs; each counts for the pairs of the corpus that it stands for."""
        weights = 1 / self.sample.probability(left, right)
        clusters = united(np.arange(len(self.sample.texts)), left, right)[left]
        return estimate(hits, clusters, weights)
