"""The schemes that are compared: what each finds among texts, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache, cached_property
from math import comb

import numpy as np
from numpy.typing import NDArray

from simhbase.features import FeatureBatch
from simhbase.fingerprinter import Fingerprints
from simhbase.layout import MAX_TABLES, SEGMENT_BITS, Layout, layout
from simhbase.minhash import Bands, SketchForm, bands
from simhbase.pairs import Pairs, pair_batches
from simhbase.parallel import map_in_order
from simhbase.profile import Profile
from simhbase.quality.found import Drawers, Found, drawers, sharing
from simhbase.quality.join import SimilarPairs
from simhbase.rowkeys import prefixes

Parameters = Mapping[str, object]

MOST_BITS = 7
SIMHASH_FEATURES: tuple[Parameters, ...] = (
    {},
    {"min_length": 1},
    {"weights": "tfidf", "top": 64},
    {"features": "chars:3"},
    {"features": "words:2"},
)
MINHASH_BANDS = ("16x8", "20x6", "25x5", "32x4")
MINHASH_THRESHOLDS = (0.0, 0.65, 0.7, 0.75, 0.8)
_TEXTS = 256  # sent to a worker at once


@dataclass(frozen=True)
class Cost:
    """A layout of drawers: its name, the rows a document takes in the index, and how full it gets."""

    layout: str
    rows: int
    drawers: Drawers


@dataclass(frozen=True)
class Setting:
    """One scheme with all its parameters but the layout: `layouts` names those that serve, fewest rows
    first, and `cost` measures one (and remembers it).

    features and decision say in words what is compared and what counts as near; parameters are those
    of a profile that differ from its defaults.
    """

    scheme: str
    features: str
    decision: str
    parameters: Parameters
    found: Found
    layouts: Sequence[str]
    cost: Callable[[str], Cost]


@dataclass(frozen=True)
class Prints:
    """Fingerprints of those of n texts that have one: texts int64 (m,), values uint64 (m,)."""

    n: int
    texts: NDArray[np.int64]
    values: NDArray[np.uint64]


@dataclass(frozen=True)
class _Fingerprinting:
    """Texts -> their fingerprints under several profiles. Cheap to send to another process."""

    profiles: Sequence[Profile]

    def __call__(self, texts: Sequence[str]) -> list[Fingerprints]:
        return [work(texts) for work in self._pipelines]

    @cached_property
    def _pipelines(self) -> list[Callable[[Sequence[str]], Fingerprints]]:
        return [profile.fingerprinter().fingerprint_many for profile in self.profiles]


def fingerprint_texts(texts: Sequence[str], profiles: Sequence[Profile], processes: int) -> list[Prints]:
    """The fingerprints of n texts under each profile."""
    lots = [texts[start : start + _TEXTS] for start in range(0, len(texts), _TEXTS)]
    with closing(map_in_order(_Fingerprinting(profiles), lots, processes)) as results:
        by_lot = list(results)
    return [_joined(len(texts), [of_lot[number] for of_lot in by_lot]) for number in range(len(profiles))]


def _joined(n: int, parts: Sequence[Fingerprints]) -> Prints:
    accepted = np.concatenate([np.empty(0, np.bool_), *(part.accepted for part in parts)])
    values = np.concatenate([np.empty(0, np.uint64), *(part.values for part in parts)])
    return Prints(n, np.flatnonzero(accepted), values[accepted])


def simhash_settings(prints: Prints, parameters: Parameters, near: SimilarPairs) -> Iterator[Setting]:
    """SimHash with these parameters at every k up to MOST_BITS; near: the near duplicates, see Drawers."""
    found = near_fingerprints(prints, MOST_BITS)
    cost = cache(lambda name: _cost(prints, layout(name), near))
    for k in range(MOST_BITS + 1):
        yield Setting(
            "simhash",
            features_in_words(parameters),
            f"k = {k}",
            {**parameters, "k": k},
            found.where(found.score <= k),
            [choice.name for choice in layouts_reaching(k)],
            cost,
        )


def near_fingerprints(prints: Prints, k: int) -> Found:
    """All pairs of texts within k bits; the score is the distance."""

    def part(pairs: Pairs) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        return prints.texts[pairs.left], prints.texts[pairs.right], pairs.distance.astype(np.float64)

    return Found.gathered(prints.n, map(part, pair_batches(prints.values, k)))


def layouts_reaching(k: int) -> list[Layout]:
    """The layouts that find every pair within k bits and no more, fewest rows first, up to the first
    whose drawers are named by all the bits a segment has."""
    reach = max(k, 1)
    found = []
    for chosen in range(1, SEGMENT_BITS):
        if comb(reach + chosen, chosen) > MAX_TABLES:
            break
        choice = layout(f"{reach + chosen}x{chosen}")
        found.append(choice)
        if min(sum(run.width for run in table) for table in choice.tables) >= SEGMENT_BITS:
            break
    return found


def _cost(prints: Prints, choice: Layout, near: SimilarPairs) -> Cost:
    segments = prefixes(prints.values, choice)[..., :4].copy().view(">u4")[..., 0].astype(np.uint64)
    return Cost(
        choice.name, len(choice.tables), drawers(segments.T, *_positions(prints.n, prints.texts, near))
    )


def _positions(
    n: int, texts: NDArray[np.int64], near: SimilarPairs
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of n texts as pairs of positions in `texts`; those with another text are left out."""
    position = np.full(n, -1)
    position[texts] = np.arange(len(texts))
    left, right = position[near.left], position[near.right]
    there = (left >= 0) & (right >= 0)
    return left[there], right[there]


def minhash_settings(shingles: FeatureBatch, parameters: Parameters, near: SimilarPairs) -> Iterator[Setting]:
    """MinHash of these shingles with several bands, and the thresholds that verify what they find."""
    form = SketchForm()
    texts = np.flatnonzero(shingles.counts)
    sketches = form.sketches(shingles)[texts]
    for name in MINHASH_BANDS:
        keys = list(_band_keys(bands(name), sketches, form))
        found = _near_sketches(len(shingles.counts), texts, sketches, keys, form)
        cost = Cost(name, len(keys), drawers(keys, *_positions(len(shingles.counts), texts, near)))
        for threshold in MINHASH_THRESHOLDS:
            yield Setting(
                "minhash",
                features_in_words(parameters),
                f"similarity >= {threshold}" if threshold else "any band",
                {**parameters, "min_similarity": threshold},
                found.where(found.score >= threshold),
                [name],
                {name: cost}.__getitem__,
            )


def _band_keys(of: Bands, sketches: NDArray[np.uint8], form: SketchForm) -> Iterator[NDArray[np.uint64]]:
    for band in of.segments(sketches, form.bits).T:
        yield band.astype(np.uint64)


def _near_sketches(
    n: int,
    texts: NDArray[np.int64],
    sketches: NDArray[np.uint8],
    keys: Sequence[NDArray[np.uint64]],
    form: SketchForm,
) -> Found:
    """All pairs of texts that share a band; the score is their estimated similarity."""
    met = [np.empty(0, np.int64)]
    for left, right in sharing(keys):
        met.append(np.unique(left * len(texts) + right))
    pairs = np.unique(np.concatenate(met))
    left, right = pairs // max(len(texts), 1), pairs % max(len(texts), 1)
    similarity = form.similarity(form.unequal(sketches[left], sketches[right]))
    return Found.gathered(n, [(texts[left], texts[right], similarity)])


def features_in_words(parameters: Parameters) -> str:
    """What a profile's parameters say about features: words, count; words, tfidf, top 64; chars:3."""
    kind = str(parameters.get("features", "words"))
    if kind != "words":
        return kind
    short = ", also of 1 character" if parameters.get("min_length") == 1 else ""
    top = f", top {parameters['top']}" if "top" in parameters else ""
    return f"words{short}, {parameters.get('weights', 'count')}{top}"
