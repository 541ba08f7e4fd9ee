"""Short texts: what finds titles, first sentences and written sentences that differ in two characters, and
whether what does so still tells long texts apart."""

from __future__ import annotations

import gzip
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
import orjson

from simhbase.model.thresholds import RIGHT as RIGHT_IF_LONG
from simhbase.model.thresholds import SIMILAR
from simhbase.profile.profile import ALL_LENGTHS, Profile, make_profile
from simhbase.quality import truth as bins
from simhbase.quality.calibration import Goal, measured
from simhbase.quality.exact_join import similar_pairs
from simhbase.quality.pairs import TextPairs
from simhbase.quality.sample import Sample
from simhbase.quality.schemes import (
    BY_LENGTH,
    CorpusFingerprints,
    Setting,
    fingerprint_texts,
    minhash_settings,
    simhash_settings,
)
from simhbase.quality.truth import Truth, bin_name
from simhbase.text.feature_extractor import FeatureExtractor
from simhbase.text.features import SHINGLES, FeatureOptions
from simhbase.text.jaccard import ShingleSets, shingle_sets
from simhbase.text.normalise import normalise
from tests.bench.report import Cell, Table, shown
from tests.reference import DATA
from tests.short import sentence_pairs

ARCHIVES = {"xwlb_chinadata": "chinadata/", "xwlb_duckburn": "duckburn/"}
TRUTH = "pairs_xwlb_exact.tsv.gz"
SHORT = 140  # characters at most
SINCE = "20220101"  # from when on both archives have the same items
DAYS = 10  # of each month
SAME_ITEM = 0.8  # similarity of two items' texts
RIGHT = 0.5  # similarity, by pairs of characters, from which two short texts are near-duplicates
BINS = ((0.5, 0.6), (0.6, 0.7), (0.7, 0.8), (0.8, 1.0))
TARGET = 1_000_000
SIMHASH: tuple[Mapping[str, object], ...] = (
    {"verify": False, "min_length": 1},
    {"verify": False, "features": "chars:1"},
    {"verify": False, "features": "chars:2"},
    {"verify": False, "features": "chars:3"},
)
BITS = (3, 5, 7, 10, 12)
RISES, LOWER = "0.54-0.7", "0.52-0.7"
BY_LENGTH_SETTINGS: tuple[Sequence[str], Sequence[float | str]] = (
    ("32x4", "42x3"),
    (0.5, 0.6, 0.7, LOWER, RISES, "0.58-0.7"),
)
FEWER_SLOTS = Profile(scheme="minhash", slots=128, threshold=LOWER)
FEWER_SLOTS_SETTINGS: tuple[Sequence[str], Sequence[float | str]] = (
    ("32x4",),
    (0.5, LOWER, RISES, "0.58-0.7"),
)
LONG: tuple[tuple[Sequence[str], Sequence[float | str]], ...] = (
    (("20x5",), (SIMILAR,)),
    (("32x4",), (0.7, 0.75)),
    (("32x4",), (0.7, RISES)),
)
MINHASH: Mapping[str, tuple[Sequence[str], Sequence[float | str]]] = {
    "chars:1": (("32x4",), (0.7, 0.8)),
    "chars:2": (("20x6", "32x4", "42x3"), (0.5, 0.6, 0.7)),
    "chars:3": (("20x6", "42x3"), (0.4, 0.5, 0.7, 0.8)),
}
_FIRST_SENTENCE = re.compile(r"[^。！？!?\n]*[。！？!?\n]?")


@dataclass(frozen=True)
class Item:
    """One item of the news: its id, with the archive's prefix, day, title and text."""

    id: str
    day: str
    title: str
    text: str

    def in_first_days(self, days: float) -> bool:
        """Whether it is of the first days of a month: of fewer days both archives keep an item's pairs."""
        return int(self.day[-2:]) <= days


@dataclass(frozen=True)
class ShortTexts:
    """Different short texts of items, and behind them the written sentences: the left ones, then those that
    differ from each in two characters.

    near: the pairs as similar as RIGHT, and those of one item; same: those of one item.
    """

    title: str
    texts: list[str]
    near: Truth
    same: Truth

    def sentences(self, found: TextPairs) -> str:
        """How many of the pairs of sentences were found, and how many pairs of others of them."""
        count = len(sentence_pairs())
        first = len(self.texts) - 2 * count
        of_sentences = found.left >= first
        right = np.count_nonzero(found.right[of_sentences] == found.left[of_sentences] + count)
        others = np.count_nonzero(of_sentences) - right
        return f"{right} of {count}" + (f", {others} wrong" if others else "")


def measure(scale: float = 1.0) -> list[Table]:
    """All tables."""
    items = list(read_items(scale))
    similar = same_items(items)
    recent = [item for item in items if item.day >= SINCE]
    titles = compared(short_texts("titles", items, similar, lambda item: item.title))
    sentences = compared(short_texts("first sentences", recent, similar, first_sentence))
    longer = long_texts(items)
    return [recommended(titles, sentences, longer), titles, sentences, longer]


def recommended(titles: Table, sentences: Table, longer: Table) -> Table:
    """What the figures say about the preset for short texts."""
    rises = f"similarity >= {RISES}"
    fewer = f"{FEWER_SLOTS.features}, {FEWER_SLOTS.slots} slots"

    def of_titles(features: str, near: str, layout: str) -> str:
        cells = cells_of(titles, features, near, layout)
        return (
            f"{features}, {near}, {layout}: titles of one item {cells['of one item']}, precision "
            f"{cells['precision']}, sentences {cells['sentences']}, {cells['candidates']} candidates"
        )

    def of_both(features: str, near: str) -> str:
        first, second = (cells_of(table, features, near, "32x4") for table in (titles, sentences))
        named = "" if features == BY_LENGTH.features else f"{features}, "
        return (
            f"{named}{near}: titles of one item {first['of one item']}, precision {first['precision']}, "
            f"first sentences {second['of one item']}, precision {second['precision']}, sentences "
            f"{first['sentences']}"
        )

    def of_long(features: str, near: str, layout: str) -> str:
        cells = cells_of(longer, features, near, layout)
        return (
            f"{features}, {near}: recall of 0.75-0.8 {cells['recall 0.75-0.8']}, of 0.8-0.9 "
            f"{cells['recall 0.8-0.9']}, precision {cells['precision']}"
        )

    rows: list[list[Cell]] = [
        [
            "scheme",
            "minhash",
            "SimHash sums up so few features that two characters of 17 change about 12 bits of 64, and no "
            "layout finds those in drawers that can be read; so no k that depends on the number of features "
            "helps, either. "
            + "; ".join(of_titles("chars:1", f"k = {k}", name) for k, name in ((7, "10x3"), (12, "14x2"))),
        ],
        [
            "features",
            BY_LENGTH.features,
            f"pairs of characters find short texts ({of_titles('chars:2', 'similarity >= 0.5', '32x4')}), "
            f"triples fewer ({of_titles('chars:3', 'similarity >= 0.5', '42x3')}). Where texts are longer "
            "than 140 characters, pairs do not tell templates apart "
            f"({of_long('chars:2', 'similarity >= 0.7', '32x4')}), growing shingles do "
            f"({of_long(SHINGLES, f'similarity >= {SIMILAR}', '20x5')}). So all texts have both, and short "
            "ones the single characters, too, which fade out from 16 to 64 characters: "
            f"{of_long(BY_LENGTH.features, rises, '32x4')}",
        ],
        [
            "threshold",
            str(RISES),
            "0.54 up to 48 features, 0.7 from 128: "
            + "; ".join(
                of_both(BY_LENGTH.features, f"similarity >= {each}") for each in (0.5, 0.6, 0.7, RISES)
            ),
        ],
        [
            "slots",
            BY_LENGTH.slots,
            "titles of one template often have a similarity of 0.5, sentences that differ in two characters "
            "one of 0.6; with 128 slots estimates stray too far to part them: "
            + "; ".join(of_both(fewer, f"similarity >= {each}") for each in (LOWER, RISES)),
        ],
        ["bands", "32x4", "; ".join(of_titles(BY_LENGTH.features, rises, each) for each in ("32x4", "42x3"))],
    ]
    return Table("Short texts: what `--profile short` is", ["parameter", "preset", "measured"], rows)


def cells_of(table: Table, features: str, near: str, layout: str) -> dict[str, Cell]:
    """The row of a setting, by the names of the columns."""
    named = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    (found,) = [
        cells
        for cells in named
        if (cells["features"], cells["near"], cells["layout"]) == (features, near, layout)
    ]
    return found


def first_sentence(item: Item) -> str:
    found = _FIRST_SENTENCE.match(item.text.lstrip())
    return found[0][:SHORT] if found else ""


def read_items(scale: float) -> Iterator[Item]:
    for name, prefix in ARCHIVES.items():
        with gzip.open(DATA / f"{name}.jsonl.gz") as lines:
            for record in map(orjson.loads, lines):
                item = Item(prefix + record["id"], record["day"], record["title"] or "", record["text"])
                if item.in_first_days(max(1, DAYS * scale)):
                    yield item


def same_items(items: Iterable[Item]) -> dict[tuple[str, str], float]:
    """The similarity of all pairs of items' texts that are listed: 0.5 and more."""
    known = {item.id for item in items}
    with gzip.open(DATA / TRUTH, "rt") as lines:
        rows = (line.rstrip("\n").split("\t") for line in lines)
        return {(row[4], row[5]): float(row[0]) for row in rows if row[4] in known and row[5] in known}


def short_texts(
    title: str,
    items: Iterable[Item],
    similar: Mapping[tuple[str, str], float],
    short: Callable[[Item], str],
) -> ShortTexts:
    """The different short texts, white space left out, of 4 to SHORT characters."""
    places: dict[str, int] = {}
    of_item: dict[str, int] = {}
    for item in items:
        text = normalise(short(item)).replace(" ", "")
        if 4 <= len(text) <= SHORT:
            of_item[item.id] = places.setdefault(text, len(places))
    lefts, rights = zip(*sentence_pairs(), strict=True)
    texts = [*places, *lefts, *rights]
    sets = ShingleSets(FeatureExtractor(FeatureOptions(kind="chars:2")), texts)
    chosen = {
        tuple(sorted((of_item[left], of_item[right])))
        for (left, right), similarity in similar.items()
        if similarity >= SAME_ITEM and of_item.get(left, -1) != of_item.get(right, -1)
        if left in of_item and right in of_item
    }
    left, right = np.array(sorted(chosen), dtype=np.int64).reshape(-1, 2).T
    same = TextPairs(len(texts), left, right, sets.similarity(left, right))
    near = similar_pairs(sets, RIGHT)
    sample = Sample.of_all(texts)
    return ShortTexts(title, texts, Truth(near, near.union(same), sample), Truth(same, same, sample))


def minhash_of(features: str) -> Profile:
    """MinHash of these features, with a threshold that rises if there is one for them."""
    threshold = LOWER if features == ALL_LENGTHS["features"] else 0.8
    return Profile(scheme="minhash", features=features, threshold=threshold)


def compared(short: ShortTexts) -> Table:
    start = perf_counter()
    simhash = [Profile(**parameters) for parameters in SIMHASH]
    minhash = [minhash_of(features) for features in MINHASH]
    profiles = [*simhash, *minhash, FEWER_SLOTS, BY_LENGTH]
    printed = fingerprint_texts(short.texts, profiles, len(os.sched_getaffinity(0)))
    near = short.near.pairs
    rows: list[list[Cell]] = []
    for number, (profile, of_profile) in enumerate(zip(profiles, printed, strict=True)):
        if profile.scheme == "simhash":
            settings = simhash_settings(of_profile, SIMHASH[number], near, BITS)
        else:
            settings = settings_of_minhash(profile, of_profile, near)
        rows += [row(short, setting) for setting in settings]
    print(f"{short.title}: {len(short.texts):,} texts, {perf_counter() - start:.0f} s", file=sys.stderr)
    lengths = [len(text) for text in short.texts]
    counts = ", ".join(f"{len(near.between(*bounds).left):,} of {bin_name(*bounds)}" for bounds in BINS)
    return Table(
        f"Short texts: {short.title}",
        [
            *("scheme", "features", "near", "layout", "rows", "candidates"),
            *(f"recall {bin_name(*bounds)}" for bounds in BINS),
            *("of one item", "precision", "sentences"),
        ],
        rows,
        [
            f"{len(short.texts):,} different {short.title} of Chinese television news, half of them of "
            f"{np.median(lengths):.0f} characters and fewer, and pairs of sentences of about 17 characters "
            "that differ in two of them. Recall: of all pairs by exact Jaccard similarity of pairs of "
            f"characters ({counts}), and of the {len(short.same.pairs.left)} different pairs of one item "
            f"(its texts have a similarity of {SAME_ITEM} and more), however different they are. A pair "
            f"found is right if it is of one item, or its similarity {RIGHT} or more. In per cent with 95 % "
            "intervals; rows of a document in the index, and candidates that a lookup reads among "
            f"{TARGET:,}."
        ],
    )


def settings_of_minhash(
    profile: Profile, fingerprinted: CorpusFingerprints, near: TextPairs
) -> Iterator[Setting]:
    """Those that are compared of a profile."""
    if profile == FEWER_SLOTS:
        for setting in minhash_settings(fingerprinted, near, profile, *FEWER_SLOTS_SETTINGS):
            yield replace(setting, features=f"{setting.features}, {profile.slots} slots")
        return
    names, thresholds = MINHASH.get(profile.features, BY_LENGTH_SETTINGS)
    yield from minhash_settings(fingerprinted, near, profile, names, thresholds)


def row(short: ShortTexts, setting: Setting) -> list[Cell]:
    figures = measured(setting, short.near, Goal(TARGET))
    return [
        setting.scheme,
        setting.features,
        setting.decision,
        figures.cost.layout,
        figures.cost.rows,
        f"{figures.candidates:,.0f}",
        *(shown(short.near.recall(setting.found, *bounds)) for bounds in BINS),
        shown(short.same.recall(setting.found, 0.0, 1.0)),
        shown(figures.precision),
        short.sentences(setting.found),
    ]


def long_texts(items: Iterable[Item]) -> Table:
    """The recommendation for short texts where texts are long, beside the one for long texts."""
    long = (item.text for item in items if len(normalise(item.text).replace(" ", "")) > SHORT)
    texts = list(dict.fromkeys(long))
    known = similar_pairs(shingle_sets(texts), RIGHT_IF_LONG)
    truth = Truth(known, known, Sample.of_all(texts))
    profiles = [
        make_profile({}, "complete"),
        Profile(scheme="minhash", features="chars:2"),
        BY_LENGTH,
    ]
    printed = fingerprint_texts(texts, profiles, len(os.sched_getaffinity(0)))
    rows: list[list[Cell]] = []
    for profile, of_profile, chosen in zip(profiles, printed, LONG, strict=True):
        for setting in minhash_settings(of_profile, known, profile, *chosen):
            figures = measured(setting, truth, Goal(TARGET))
            rows.append(
                [
                    *(setting.features, setting.decision, figures.cost.layout, figures.cost.rows),
                    f"{figures.candidates:,.0f}",
                    *(shown(figures.by_bin.get(bin_name(*bounds))) for bounds in bins.BINS),
                    shown(figures.precision),
                ]
            )
    return Table(
        f"The same settings of MinHash where texts are longer than {SHORT} characters",
        [
            *("features", "near", "layout", "rows", "candidates"),
            *(f"recall {bin_name(*bounds)}" for bounds in bins.BINS),
            "precision",
        ],
        rows,
        [
            f"{len(texts):,} different items, and their pairs by exact Jaccard similarity of growing "
            f"shingles; a pair found is right from {RIGHT_IF_LONG} on."
        ],
    )
