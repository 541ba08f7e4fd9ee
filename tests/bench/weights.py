"""How words are weighed: by counts, or so that no word that is repeated decides all bits of a long text.

The long texts are on few subjects: laws, of which cities pass one each on heating or tourism, and pages of
documentation."""

from __future__ import annotations

import gzip
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from time import perf_counter

import numpy as np
import orjson

from simhbase.model.thresholds import RIGHT
from simhbase.profile.profile import make_profile
from simhbase.quality.calibration import Goal, measured
from simhbase.quality.exact_join import similar_pairs
from simhbase.quality.sample import Sample
from simhbase.quality.schemes import fingerprint_texts, simhash_settings
from simhbase.quality.truth import BINS, Truth, bin_name
from simhbase.text.jaccard import shingle_sets
from tests.bench.report import Cell, Table, shown
from tests.reference import DATA

LONG = 5000  # characters
NEWS = 20_000  # items, at scale 1
TARGET = 1_000_000
UNRELATED = 0.3
K = 3
WEIGHTS = ("count", "capped", "saturated")


def measure(scale: float = 1.0) -> list[Table]:
    corpora: Mapping[str, Iterator[str]] = {
        "Chinese local laws of 5,000 characters and more": laws(),
        "pages of one project, joined to 5,000 characters and more": joined_pages(),
        "Chinese television news": news(int(NEWS * scale)),
    }
    return [table(title, list(dict.fromkeys(texts))) for title, texts in corpora.items()]


def laws() -> Iterator[str]:
    return (record["text"] for record in records("laws") if len(record["text"]) >= LONG)


def joined_pages() -> Iterator[str]:
    """Of each version of a project the pages of one folder in eight parts, by the order of their names: the
    same part of two versions is near, two parts have their subject in common."""
    parts: dict[tuple[str, str, str, int], list[str]] = defaultdict(list)
    places: dict[tuple[str, str], int] = {}
    for record in sorted(records("versioned_docs_en"), key=lambda each: each["page"]):
        folder, _, page = record["page"].rpartition("/")
        part = places.setdefault((folder, page), len(places)) % 8
        parts[record["project"], record["version"], folder, part].append(record["text"])
    texts = ("\n\n".join(pages) for pages in parts.values())
    return (text for text in texts if len(text) >= LONG)


def news(count: int) -> Iterator[str]:
    """Items of the latest years from both archives, of which they have most in common."""
    every = [
        (record["day"], record["text"])
        for name in ("xwlb_chinadata", "xwlb_duckburn")
        for record in records(name)
        if len(record["text"]) >= 110
    ]
    return (text for _, text in sorted(every, reverse=True)[:count])


def records(name: str) -> Iterator[dict[str, str]]:
    with gzip.open(DATA / f"{name}.jsonl.gz") as lines:
        yield from map(orjson.loads, lines)


def table(title: str, texts: list[str]) -> Table:
    start = perf_counter()
    sets = shingle_sets(texts)
    near = similar_pairs(sets, min(RIGHT, BINS[0][0]))
    truth = Truth(near, near.between(RIGHT), Sample.of_all(texts))
    parameters = [{"verify": False, "weights": weights} for weights in WEIGHTS]
    fingerprinted = fingerprint_texts(texts, list(map(make_profile, parameters)), 1)
    rows: list[list[Cell]] = []
    for of_weights, given in zip(fingerprinted, parameters, strict=True):
        (setting,) = simhash_settings(of_weights, given, near, [K])
        figures = measured(setting, truth, Goal(TARGET))
        similarity = sets.similarity(setting.found.left, setting.found.right)
        rows.append(
            [
                str(given["weights"]),
                *(shown(figures.by_bin.get(bin_name(*bounds))) for bounds in BINS),
                shown(figures.recall),
                shown(figures.precision),
                len(similarity),
                int(np.count_nonzero(similarity < RIGHT)),
                int(np.count_nonzero(similarity < UNRELATED)),
                f"{figures.candidates:,.0f}",
                round(figures.largest),
            ]
        )
    print(f"{title}: {len(texts):,} texts, {perf_counter() - start:.0f} s", file=sys.stderr)
    lengths = [len(text) for text in texts]
    return Table(
        f"Weights of words: {title}",
        [
            "weight",
            *(f"recall {bin_name(*bounds)}" for bounds in BINS),
            *(f"recall {Goal.jaccard:g}-1", "precision", "pairs", "of them wrong", "below 0.3", "candidates"),
            "largest drawer",
        ],
        rows,
        [
            f"{len(texts):,} different texts, half of them of {np.median(lengths):,.0f} characters and more; "
            f"SimHash of words, k = {K}. A pair found is wrong below {RIGHT}."
        ],
    )
