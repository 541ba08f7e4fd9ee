"""Every scheme on real texts, against all their near-duplicates: recall, precision and price, plots, and
the figures that the project wants to reach."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import perf_counter

import orjson

from simhbase.fingerprint.minhash import SLOTS
from simhbase.model.thresholds import SIMILAR
from simhbase.quality.calibration import Calibration, Figures, Goal, recommend
from simhbase.quality.intervals import Estimate
from simhbase.quality.labels import Labels, labelled_pairs, read_labels
from simhbase.quality.pairs import TextPairs
from simhbase.quality.plots import draw
from simhbase.quality.report import command, layout_rows
from simhbase.quality.sample import Sample, Sampler, document_keys
from simhbase.quality.truth import BINS, Truth, bin_name
from simhbase.text.jaccard import shingle_sets
from simhbase.text.normalise import normalise
from tests.bench import lengths, short, weights
from tests.bench.boilerplate import boilerplate
from tests.bench.report import Cell, Table, shown
from tests.reference import DATA

PLOTS = Path("docs", "plots")
TARGET = 1_000_000  # documents that drawers are extrapolated to
SMALL = 20_000  # texts of each corpus at a scale below 1, times the scale
AT_ONCE = 1000
RECOMMENDED = ("20x5", f"similarity >= {SIMILAR}")
STRICT = ("20x5", "similarity >= 0.75")


@dataclass(frozen=True)
class Corpus:
    """Files with the prefix of their ids; texts with fewer than `shortest` characters are left out."""

    title: str
    files: Mapping[str, str]
    shortest: int = 0
    labels: str | None = None
    id_prefix: str = ""

    def documents(self) -> Iterator[tuple[str, str]]:
        """Ids and texts."""
        for name, prefix in self.files.items():
            with gzip.open(DATA / f"{name}.jsonl.gz") as lines:
                for record in map(orjson.loads, lines):
                    if not self.shortest or len(normalise(record["text"]).replace(" ", "")) >= self.shortest:
                        yield prefix + record["id"], record["text"]


CORPORA = {
    "news": Corpus(
        "two archives of Chinese television news",
        {"xwlb_chinadata": "chinadata/", "xwlb_duckburn": "duckburn/"},
        shortest=100,
        labels="pairs_xwlb_templates.tsv",
        id_prefix="chinadata/",
    ),
    "laws": Corpus("Chinese local laws", {"laws": ""}, labels="pairs_laws_labels.tsv"),
    "docs": Corpus(
        "English documentation in several versions",
        {"versioned_docs_en": ""},
        labels="pairs_vdocs_en_labels.tsv",
    ),
}


@dataclass(frozen=True)
class Measured:
    """A corpus with its calibration, and the truth of its labels."""

    corpus: Corpus
    calibration: Calibration
    labelled: Truth

    def figures(self, layout: str, near: str) -> Figures:
        """Those of one setting of MinHash."""
        (found,) = [
            each
            for each in self.calibration.figures
            if (each.cost.layout, each.setting.decision) == (layout, near)
        ]
        return found

    def of_labels(self, found: TextPairs, low: float = 0.0) -> Estimate | None:
        """The share of the labelled pairs from a similarity on that is found."""
        return self.labelled.recall(found, low, 1.0)


def measure(scale: float = 1.0) -> Iterator[Table]:
    """All tables, each as soon as it is there; draws the plots into docs/plots."""
    measured = {}
    for name, corpus in CORPORA.items():
        measured[name] = each = measured_corpus(name, corpus, scale)
        yield from (schemes(each), layouts(each))
    yield goals(measured)
    news = measured["news"]
    yield boilerplate(news.calibration.truth, news.labelled, TARGET, threads())
    for part in (weights.measure, short.measure, lengths.measure, heldout):
        yield from part(scale)


def heldout(scale: float) -> list[Table]:
    """The same corpora, halved."""
    found: list[Table] = import_module("tests.bench.heldout").measure(scale)  # it takes what is here
    return found


def measured_corpus(name: str, corpus: Corpus, scale: float) -> Measured:
    start = perf_counter()
    limit = sys.maxsize if scale >= 1 else max(1, int(SMALL * scale))
    sample = sampled(corpus.documents(), limit)
    calibration = recommend(sample, Goal(TARGET), threads())
    labels = known(read_labels(DATA / str(corpus.labels)), corpus.id_prefix, sample)
    pairs = labelled_pairs(labels, sample, shingle_sets(sample.texts))
    for path in draw(calibration, PLOTS / name):
        if path.suffix == ".png":  # the page shows the others
            path.unlink()
    print(f"{name}: {len(sample.texts):,} texts, {perf_counter() - start:.0f} s", file=sys.stderr)
    return Measured(corpus, calibration, Truth(pairs, pairs, sample))


def threads() -> int:
    return len(os.sched_getaffinity(0))


def sampled(documents: Iterable[tuple[str, str]], limit: int) -> Sample:
    sampler = Sampler(limit)
    rest = iter(documents)
    while some := [document for _, document in zip(range(AT_ONCE), rest, strict=False)]:
        ids, texts = zip(*some, strict=True)
        sampler.add(ids, texts, document_keys(texts, 0))
    return sampler.sample()


def known(labels: Labels, prefix: str, sample: Sample) -> Labels:
    """The pairs of which a sample has both, with the prefix put before their ids."""
    pairs = [
        (prefix + left, prefix + right)
        for left, right in zip(labels.left, labels.right, strict=True)
        if prefix + left in sample.places and prefix + right in sample.places
    ]
    return Labels(labels.source, [left for left, _ in pairs], [right for _, right in pairs], None)


def schemes(measured: Measured) -> Table:
    calibration = measured.calibration
    goal = calibration.goal
    label = "templates matched" if measured.corpus.shortest else "labelled pairs found"
    return Table(
        f"Schemes: {measured.corpus.title}",
        [
            "scheme",
            "features",
            "near",
            "layout",
            "rows",
            "candidates",
            "largest drawer",
            *(f"recall {bin_name(*bounds)}" for bounds in BINS),
            f"recall {goal.jaccard:g}-1",
            "precision",
            label,
        ],
        [_row(measured, figures) for figures in calibration.figures],
        notes(measured, label),
    )


def notes(measured: Measured, label: str) -> list[str]:
    """What the figures are of, and what follows from them."""
    calibration = measured.calibration
    sample, goal, best = calibration.sample, calibration.goal, calibration.recommended
    pairs = calibration.truth.pairs
    counts = ", ".join(f"{len(pairs.between(low, high).left):,} of {low}-{high}" for low, high in BINS)
    outcome = "reaches the goal" if calibration.reached else "comes nearest to the goal"
    return [
        f"{len(sample.texts):,} different texts ({sample.copies:,} copies are left out), with all their "
        f"pairs by exact Jaccard similarity of growing shingles: {counts}. In per cent with 95 % "
        f"intervals; a pair found is right if its similarity is {goal.right} or more. {label.capitalize()}: "
        f"of {len(measured.labelled.pairs.left):,} pairs. Rows: of a document in the index; candidates: "
        f"rows that a lookup reads among {TARGET:,} documents; largest drawer: its rows then. MinHash: "
        f"{SLOTS} slots of 8 bits, similarity as estimated from them; verified: SimHash, and similarity as "
        "estimated from a sketch of 256 slots of 2 bits.",
        f"For recall {goal.recall:g} of pairs of {goal.jaccard:g} and more with precision "
        f"{goal.precision:g}, `calibrate` recommends `{command(best)}`, which {outcome}.",
    ]


def _row(measured: Measured, figures: Figures) -> list[Cell]:
    return [
        figures.setting.scheme,
        figures.setting.features,
        figures.setting.decision,
        figures.cost.layout,
        figures.cost.rows,
        f"{figures.candidates:,.1f}",
        round(figures.largest),
        *(shown(figures.by_bin.get(bin_name(*bounds))) for bounds in BINS),
        shown(figures.recall),
        shown(figures.precision),
        shown(measured.of_labels(figures.setting.found)),
    ]


def layouts(measured: Measured) -> Table:
    wider = measured.calibration.wider
    rows: list[list[Cell]] = [
        [
            layout["near"],
            layout["layout"],
            layout["rows"],
            f"{layout['candidates_per_million']:,.1f}",
            layout["largest_drawer_per_million"],
            shown(figures.recall),
        ]
        for figures in wider
        for layout in layout_rows(figures)
    ]
    return Table(
        f"Wider search: {measured.corpus.title}",
        [
            "near",
            "layout",
            "rows",
            "candidates per million",
            "largest drawer per million",
            f"recall {SIMILAR}-1",
        ],
        rows,
        [
            f"SimHash of {wider[0].setting.features}. NxM: N blocks, every M of them; all layouts of one k "
            "find the same pairs, they differ in what a document and a lookup cost."
        ],
    )


def goals(measured: Mapping[str, Measured]) -> Table:
    """The figures to reach, from the settings above."""
    news, laws, docs = (measured[name] for name in ("news", "laws", "docs"))
    verified, strict = news.figures(*RECOMMENDED), news.figures(*STRICT)
    best = max(
        (each for each in news.calibration.figures if each.setting.decision == "k = 3"),
        key=lambda each: each.recall.value if each.recall else 0.0,
    )
    name = f"SimHash of {best.setting.features}, k = 3"
    templates = news.of_labels(verified.setting.found), news.of_labels(strict.setting.found)
    lost = value(verified.recall) - value(strict.recall)
    complete = f"the profile complete ({RECOMMENDED[0]} at {SIMILAR})"
    of_docs, of_laws = (
        each.of_labels(each.figures(*RECOMMENDED).setting.found, 0.8) for each in (docs, laws)
    )
    rows = [
        at_least(f"news: {complete}, recall of 0.8 and more", verified.by_bin.get("0.8-0.9"), 0.99),
        at_least("the same, recall of 0.7-0.75", verified.by_bin.get("0.7-0.75"), 0.95),
        at_least("the same, precision", verified.precision, 0.97),
        at_least(f"news: {name}, recall of 0.8-0.9", best.by_bin.get("0.8-0.9"), 0.55),
        at_least("the same, recall of 0.9 and more", best.by_bin.get("0.9-1"), 0.84),
        at_most(f"templates matched by {complete}", templates[0], 0.08),
        at_most(f"the same at 0.75 (which costs {100 * lost:.1f} % of recall)", templates[1], 0.03),
        at_least(f"documentation: {complete}, recall of labelled pairs of 0.8 and more", of_docs, 0.95),
        at_least("laws: the same", of_laws, 1.0),
    ]
    return Table("Figures to reach", ["what", "goal", "measured", "reached"], rows)


def at_least(what: str, found: Estimate | None, goal: float) -> list[Cell]:
    return [what, f">= {100 * goal:g} %", shown(found), "yes" if value(found) >= goal else "no"]


def at_most(what: str, found: Estimate | None, goal: float) -> list[Cell]:
    return [what, f"<= {100 * goal:g} %", shown(found), "yes" if found and found.value <= goal else "no"]


def value(estimate: Estimate | None) -> float:
    return 0.0 if estimate is None else estimate.value
