"""How words are weighed: by counts, or so that no word that is repeated decides all bits of a long text.

The long texts are on few subjects: laws, of which cities pass one each on heating or tourism, and pages of
documentation. A pair that is found is right from a Jaccard similarity of 0.65 on, as everywhere."""

from __future__ import annotations

import gzip
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from time import perf_counter

import numpy as np
import orjson
from numpy.typing import NDArray

from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.quality.calibration import Goal, measured
from simhbase.quality.exact_join import similar_pairs
from simhbase.quality.sample import Sample
from simhbase.quality.schemes import CorpusFingerprints, simhash_settings
from simhbase.quality.truth import BINS, Truth, bin_name
from simhbase.text.extractor import Extractor, FeatureBatch
from simhbase.text.features import FeatureOptions
from simhbase.text.idf import SCALE
from simhbase.text.jaccard import jaccard, shingle_sets
from tests.bench.report import Cell, Table, shown
from tests.reference import DATA

Numbers = NDArray[np.int64]
Weighing = Callable[[Numbers, Numbers], NDArray[np.float64] | Numbers]

LONG = 5000  # characters
NEWS = 20_000  # items, at scale 1
TARGET = 1_000_000
RIGHT, UNRELATED = 0.65, 0.3
K = 3
AT_ONCE = 256
# What people have seen in them, and tried beside them.
LOOKED_AT = (
    "The pair that is wrong among the laws is two cities' rules of their underground railways; those of "
    "counts are the rules of two cities on heating, tourism, audits or town planning, with 17 to 30 % "
    "of their shingles in common. Other bounds of saturation from 4 to 8, and other lengths from which "
    "it holds (512 to 1,280 words), were tried on the same texts: below 1,024 words and with a slower "
    "fall recall of news is lost, above it precision where texts have 3,000 characters."
)


def capped(most: int) -> Weighing:
    return lambda counts, words: np.minimum(counts, most)


def saturated(counts: Numbers, words: Numbers) -> Numbers:
    """As in core/src/features.rs, in units of one half."""
    bound, scaled = 6 * 1024**4, np.minimum(counts, 1 << 15) * np.minimum(words, 1024) ** 4
    return (4 * np.minimum(counts, 1 << 15) * bound + scaled + bound) // (2 * (scaled + bound))


def bm25(k: float) -> Weighing:
    return lambda counts, words: counts * (k + 1) / (counts + k)


WEIGHTS: Mapping[str, Weighing] = {
    "count": lambda counts, words: counts,
    **{f"count, at most {most}": capped(most) for most in (1, 3, 4, 8, 16)},
    "square root": lambda counts, words: np.sqrt(counts),
    "1 + logarithm": lambda counts, words: 1 + np.log(counts),
    **{f"BM25, k = {k}": bm25(k) for k in (1.2, 4, 8)},
    "saturated": lambda counts, words: saturated(counts, words) / 2,
}


def measure(scale: float = 1.0) -> list[Table]:
    corpora: Mapping[str, Iterator[str]] = {
        "Chinese local laws of 5,000 characters and more": laws(),
        "pages of one project, joined to 5,000 characters and more": joined_pages(),
        "Chinese television news": news(int(NEWS * scale)),
    }
    tables = [table(title, list(dict.fromkeys(texts))) for title, texts in corpora.items()]
    tables[0].notes.append(LOOKED_AT)
    return tables


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
    batches = list(counted(texts))
    sets = shingle_sets(texts)
    near = similar_pairs(sets, BINS[0][0])
    truth = Truth(near, near.between(RIGHT), Sample.of_all(texts))
    rows: list[list[Cell]] = []
    for name, weighing in WEIGHTS.items():
        values = np.concatenate([fingerprints(batch, weighing) for batch in batches])
        there = np.flatnonzero(np.concatenate([batch.texts_with_features for batch in batches]))
        fingerprinted = CorpusFingerprints(len(texts), there, FingerprintBatch.bare(values[there]))
        (setting,) = simhash_settings(fingerprinted, {"verify": False}, near, [K])
        figures = measured(setting, truth, Goal(TARGET))
        similarity = jaccard(sets, setting.found.left, setting.found.right)
        rows.append(
            [
                name,
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
            *("recall 0.8-1", "precision", "pairs", "of them wrong", "below 0.3", "candidates"),
            "largest drawer",
        ],
        rows,
        [
            f"{len(texts):,} different texts, half of them of {np.median(lengths):,.0f} characters and more; "
            f"SimHash of words, k = {K}. A pair found is wrong below {RIGHT}."
        ],
    )


class Counted:
    """The words of texts, how often each is in its text, and how many words that has."""

    def __init__(self, batch: FeatureBatch) -> None:
        texts = np.repeat(np.arange(len(batch.counts)), batch.counts)
        pairs, self.counts = np.unique(np.column_stack([texts, batch.digests]), axis=0, return_counts=True)
        owners, self.digests = pairs[:, 0].astype(np.int64), pairs[:, 1].astype(np.uint64)
        self.words = batch.counts[owners]
        self.of_texts = np.bincount(owners, minlength=len(batch.counts)).astype(np.int64)
        self.texts_with_features = self.of_texts >= 2


def counted(texts: list[str]) -> Iterator[Counted]:
    extractor = Extractor(FeatureOptions(kind="words:1"))
    for start in range(0, len(texts), AT_ONCE):
        yield Counted(extractor.extract(texts[start : start + AT_ONCE]))


def fingerprints(batch: Counted, weighing: Weighing) -> NDArray[np.uint64]:
    weights = np.rint(weighing(batch.counts, batch.words) * SCALE).astype(np.int64)
    bits = np.unpackbits(batch.digests.byteswap().view(np.uint8).reshape(-1, 8), axis=1)
    ends = np.cumsum(batch.of_texts)
    sums = [
        2 * weights[start:end] @ bits[start:end] > weights[start:end].sum()
        for start, end in zip([0, *ends], ends, strict=False)
    ]
    return np.packbits(np.array(sums), axis=1).view(">u8")[:, 0].astype(np.uint64)
