"""What leaving out learnt boilerplate changes among the news: fewer templates, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import orjson
from numpy.typing import NDArray

from simhbase.corpus.parser import Parser
from simhbase.corpus.record import Chunk, InputOptions, Raw
from simhbase.drawers.rowkeys import segments_of
from simhbase.drawers.scheme import MinHashScheme, least_estimate
from simhbase.fingerprint.minhash import SketchParameters
from simhbase.jobs.learn_boilerplate import coverage_of, learn, total_coverage
from simhbase.model.thresholds import RIGHT, SIMILAR
from simhbase.profile.profile import Profile
from simhbase.quality.pairs import TextPairs
from simhbase.quality.schemes import CorpusFingerprints, fingerprint_texts
from simhbase.quality.truth import BINS, DrawerSizes, Truth, bin_name, drawers
from simhbase.text.boilerplate import Boilerplate
from tests.bench.report import Cell, Table, shown

SHARES = (0.01, 0.001)
THRESHOLDS = (SIMILAR, 0.7, 0.8)
OTHER_DAYS = ((SIMILAR, 0.8), (0.8, 1.0))
PARSER = Parser(InputOptions(id_from="line"))
AT_ONCE = 500
MOST_FREQUENT = 5


@dataclass(frozen=True)
class Learnt:
    """Boilerplate that a share of the texts of odd days have, and what it covers of all texts."""

    share: float
    boilerplate: Boilerplate
    coverage: tuple[int, ...]  # see total_coverage

    def told(self) -> str:
        own = self.boilerplate
        _, characters, covered, bare = self.coverage
        most = ", ".join(f"{entry.text} ({entry.documents:,})" for entry in own.entries[:MOST_FREQUENT])
        return (
            f"{100 * self.share:g} %: {own.count('phrase'):,} phrases and {own.count('line'):,} lines, which "
            f"cover {100 * covered / characters:.1f} % of the characters of all texts, and "
            f"{bare:,} texts as a whole. The most frequent: {most}."
        )


@dataclass(frozen=True)
class News:
    """All near-duplicates of the news; those of one day, which are repetitions, and those of different days,
    most of which are of one template; and the labelled templates."""

    near: Truth
    one_day: Truth
    other_days: Truth
    templates: Truth

    @classmethod
    def of(cls, near: Truth, templates: Truth) -> News:
        day = days(near)
        same = day[near.pairs.left] == day[near.pairs.right]
        return cls(near, chosen(near, same), chosen(near, ~same), templates)

    def told(self) -> str:
        repeated, others = len(self.one_day.pairs.left), len(self.other_days.pairs.left)
        return (
            f"{len(self.near.sample.texts):,} different texts. Pairs found, in per cent with 95 % intervals: "
            f"of {repeated:,} pairs of one day, which are repetitions; of {others:,} of different days, most "
            f"of them of one template; and of {len(self.templates.pairs.left):,} labelled templates. All "
            f"similarities are of the whole texts, also those that precision goes by ({RIGHT} and more): a "
            "pair that owes its similarity to boilerplate is right by them. The boilerplate is what "
            "`simhbase idf --boilerplate` learns from the texts of odd days."
        )


def days(truth: Truth) -> NDArray[np.int64]:
    """The day of each text, which its id tells: archive/day/number."""
    found = np.zeros(len(truth.sample.texts), dtype=np.int64)
    for name, place in truth.sample.places.items():
        found[place] = int(name.split("/")[1])
    return found


def chosen(truth: Truth, which: NDArray[np.bool_]) -> Truth:
    return Truth(truth.pairs.where(which), truth.right, truth.sample)


def boilerplate(near: Truth, templates: Truth, target: int, threads: int) -> Table:
    """The figures without boilerplate left out, and with."""
    news = News.of(near, templates)
    learnt = [learnt_from_odd_days(near, share) for share in SHARES]
    found = list(rows("nothing", None, news, target, threads))
    for each in learnt:
        name = f"what {100 * each.share:g} % have"
        found += rows(name, each.boilerplate, news, target, threads)
    return Table(
        "Learnt boilerplate: two archives of Chinese television news",
        [
            "left out",
            "near",
            "candidates",
            "largest drawer",
            *(f"one day {bin_name(*bounds)}" for bounds in BINS),
            *(f"other days {bin_name(*bounds)}" for bounds in OTHER_DAYS),
            "precision",
            "templates matched",
        ],
        found,
        [news.told(), *(each.told() for each in learnt)],
    )


def learnt_from_odd_days(truth: Truth, share: float) -> Learnt:
    texts = truth.sample.texts
    odd = [text for text, day in zip(texts, days(truth).tolist(), strict=True) if day % 2]
    found = learn(lambda work: map(work, chunks(odd)), PARSER, share).boilerplate(f"{share}")
    covered = total_coverage(coverage_of(PARSER, found, chunk) for chunk in chunks(texts))
    return Learnt(share, found, covered)


def chunks(texts: Sequence[str]) -> Iterator[Chunk]:
    for start in range(0, len(texts), AT_ONCE):
        some = texts[start : start + AT_ONCE]
        place = ("news", start, f"news:{start}")
        yield [Raw(*place, orjson.dumps({"text": text}), holds="json") for text in some]


def rows(
    name: str, left_out: Boilerplate | None, news: News, target: int, threads: int
) -> Iterator[list[Cell]]:
    simhash = Profile(verify=False, boilerplate=left_out)
    minhash = Profile(scheme="minhash", threshold=min(THRESHOLDS), boilerplate=left_out)
    by_bits, by_sketch = fingerprint_texts(news.near.sample.texts, [simhash, minhash], threads)
    found = near_by(simhash, by_bits)
    yield row([name, "SimHash, k = 3"], found, read(simhash, by_bits, news), news, target)
    sketching = minhash.sketching
    assert sketching is not None
    found = near_by(minhash, by_sketch, sketching)
    filled = read(minhash, by_sketch, news)
    for threshold in THRESHOLDS:
        near = f"MinHash {minhash.bands}, similarity >= {threshold}"
        yield row(
            [name, near],
            found.where(found.score >= least_estimate(sketching, threshold, MinHashScheme.errors)),
            filled,
            news,
            target,
        )


def near_by(
    profile: Profile, printed: CorpusFingerprints, sketching: SketchParameters | None = None
) -> TextPairs:
    scheme = profile.index_scheme
    return printed.found(scheme.pairs(printed.fingerprints, scheme.bounds(None, None)), sketching)


def read(profile: Profile, printed: CorpusFingerprints, news: News) -> DrawerSizes:
    segments = segments_of(profile.index_scheme.prefixes(printed.fingerprints)).astype(np.uint64)
    return drawers(segments.T, *printed.positions(news.near.pairs))


def row(names: list[Cell], found: TextPairs, filled: DrawerSizes, news: News, target: int) -> list[Cell]:
    larger = target / found.n
    return [
        *names,
        f"{filled.unrelated * larger + filled.related:,.1f}",
        round(filled.largest * larger),
        *(shown(news.one_day.recall(found, *bounds)) for bounds in BINS),
        *(shown(news.other_days.recall(found, *bounds)) for bounds in OTHER_DAYS),
        shown(news.near.precision(found)),
        shown(news.templates.recall(found, 0.0, 1.0)),
    ]
