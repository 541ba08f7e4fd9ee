"""What a threshold of similarity means: how many words texts of this similarity have in common."""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping, Sequence
from statistics import fmean
from time import perf_counter

from simhbase.quality.exact_join import similar_pairs
from simhbase.quality.pairs import TextPairs
from simhbase.text.jaccard import shingle_sets
from tests.bench.beside import (
    COMPARED,
    LIMIT,
    LOOKED_AT,
    MOST_CHARACTERS,
    NEAR,
    WRONG,
    Overlap,
    as_set,
    more_kinds,
    words_of,
)
from tests.bench.quality import sampled
from tests.bench.report import Cell, Table

THRESHOLDS = (0.6, 0.65, 0.7, 0.75)
FEWEST = 20  # pairs of a kind, of which shares are told

Shares = tuple[float, float, float]  # near pairs found; right if below WRONG is wrong, and if below NEAR is


def measure(scale: float = 1.0) -> list[Table]:
    by_kind: dict[str, Mapping[str, Shares]] = {}
    for title, documents in more_kinds().items():
        start = perf_counter()
        texts = [text[:MOST_CHARACTERS] for text in sampled(documents(), int(LIMIT * scale)).texts]
        if shares := shares_of(list(dict.fromkeys(texts))):
            by_kind[title] = shares
        print(f"{title}: {len(texts):,} texts, {perf_counter() - start:.0f} s", file=sys.stderr)
    rows: list[list[Cell]] = [
        [name, *(f"{fmean(each):.3f}" for each in zip(*(of[name] for of in by_kind.values()), strict=True))]
        for name in next(iter(by_kind.values()), {})
    ]
    return [
        Table(
            "What a threshold means",
            [
                *("threshold", f"found of overlap >= {NEAR}", f"right, if < {WRONG} is wrong"),
                f"right, if < {NEAR} is wrong",
            ],
            rows,
            [
                f"All pairs by exact similarity; means over {', '.join(by_kind)}. Overlap is the longest "
                "common subsequence of words as a share of the longer text; of at most "
                f"{COMPARED:,} pairs of a kind drawn at random, those that are to be found among the pairs "
                f"whose triples have a Jaccard similarity of {LOOKED_AT} and more."
            ],
        )
    ]


def shares_of(texts: Sequence[str]) -> Mapping[str, Shares]:
    """By the name of a threshold; nothing if there are too few near pairs."""
    triples = similar_pairs(shingle_sets(texts, "chars:3"), LOOKED_AT)
    growing = similar_pairs(shingle_sets(texts), min(THRESHOLDS))
    overlap, chance = Overlap(words_of(texts)), random.Random(1)

    def drawn(pairs: TextPairs) -> list[tuple[int, int]]:
        every = sorted(as_set(pairs))
        return chance.sample(every, min(COMPARED, len(every)))

    near = [pair for pair in drawn(triples) if overlap(*pair) >= NEAR]
    found = {f"{least:.2f}": growing.between(least) for least in THRESHOLDS}
    found["triples of characters, 0.70"] = triples.between(0.7)
    if len(near) < FEWEST or any(len(pairs.left) < FEWEST for pairs in found.values()):
        return {}
    shares = {}
    for name, pairs in found.items():
        everything, some = as_set(pairs), drawn(pairs)
        overlaps = [overlap(*pair) for pair in some]
        right = [fmean(each >= least for each in overlaps) for least in (WRONG, NEAR)]
        shares[name] = (fmean(pair in everything for pair in near), right[0], right[1])
    return shares
