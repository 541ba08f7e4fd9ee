"""Short texts by their length, and by how much longer one of two is: what the preset for them finds beside
MinHash (complete), by three similarities that none of them owns."""

from __future__ import annotations

import gzip
import os
import random
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
import orjson
from numpy.typing import NDArray

from simhbase.drawers.threshold import RisingThreshold
from simhbase.profile.profile import Profile, make_profile
from simhbase.quality.exact_join import similar_pairs
from simhbase.quality.pairs import TextPairs
from simhbase.quality.schemes import BY_LENGTH as PRESET
from simhbase.quality.schemes import CorpusFingerprints, fingerprint_texts, pairs_found_by
from simhbase.text.feature_extractor import FeatureExtractor
from simhbase.text.jaccard import PAIRS, ShingleSets, shingle_sets
from simhbase.text.normalise import normalise
from tests.bench.report import Cell, Table
from tests.bench.short import SINCE, read_items
from tests.reference import DATA

CHINESE, ENGLISH = 6000, 4000  # texts
EDITED = 1 / 3  # so many of them have an edited copy
LENGTHS = (8, 400)
LEAST_PAIRS = 0.4  # Jaccard of pairs of characters, from which pairs of texts are measured at all
BASE = "`--profile complete`"
SCHEMES: Mapping[str, Profile] = {
    BASE: make_profile({}, "complete"),
    "`--profile short`": PRESET,
}
SLOTS = (128, 256)
THRESHOLDS = ("0.5-0.7", "0.52-0.7", "0.53-0.7", "0.54-0.7", "0.55-0.7", "0.58-0.7")
COMPARED_FROM = 0.4  # estimated similarity, from which features are counted
TO_FIND: Mapping[str, tuple[str, float]] = {
    "edit similarity 0.8": ("edit", 0.8),
    "Jaccard of pairs 0.7": ("pairs", 0.7),
    "Jaccard of triples 0.7": ("triples", 0.7),
}
RIGHT: Mapping[str, tuple[str, float]] = {
    "edit similarity 0.7": ("edit", 0.7),
    "edit similarity 0.6": ("edit", 0.6),
    "Jaccard of pairs 0.5": ("pairs", 0.5),
}
BY_LENGTH = {"below 30": (0, 30), "30-60": (30, 60), "60-100": (60, 100), "100-140": (100, 140)}
LONG = 140  # characters, from which a text is no short one
BY_RATIO = {"1-1.05": (1.0, 1.05), "1.05-1.15": (1.05, 1.15), "1.15-1.3": (1.15, 1.301)}
_DATELINE = re.compile(r"^[^：:。]{0,20}新闻联播[^：:。]{0,4}[：:]\s*")
_CLAUSE = re.compile(r"[^。！？；，,.!?;]*[。！？；，,.!?;]?\s*")

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Pairs:
    """m pairs of texts, with their similarities by name and their lengths, the lesser first."""

    left: Numbers
    right: Numbers
    similarity: Mapping[str, NDArray[np.float64]]
    lengths: tuple[Numbers, Numbers]

    def bins(self) -> dict[str, NDArray[np.bool_]]:
        """Which pairs are in each bin: by both texts' length, short with long, by the ratio."""
        shorter, longer = self.lengths
        ratio = longer / shorter
        return {
            **{name: (shorter >= low) & (longer < high) for name, (low, high) in BY_LENGTH.items()},
            "short and long": (shorter < LONG) & (longer >= LONG),
            f"{LONG} and more": shorter >= LONG,
            **{f"ratio {name}": (ratio >= low) & (ratio < high) for name, (low, high) in BY_RATIO.items()},
        }


def measure(scale: float = 1.0) -> list[Table]:
    """The tables of recall and precision."""
    start = perf_counter()
    texts = short_texts(scale)
    lengths = np.array([len(text) for text in texts])
    sets = {"pairs": shingle_sets(texts, PAIRS), "triples": shingle_sets(texts, "chars:3")}

    def pairs(left: Numbers, right: Numbers) -> Pairs:
        similarity = {name: each.similarity(left, right) for name, each in sets.items()}
        similarity["edit"] = np.array(
            [edit_similarity(texts[one], texts[other]) for one, other in zip(left, right, strict=True)]
        )
        both = lengths[left], lengths[right]
        return Pairs(left, right, similarity, (np.minimum(*both), np.maximum(*both)))

    known = similar_pairs(sets["pairs"], LEAST_PAIRS)
    near = pairs(known.left, known.right)
    printed = fingerprint_texts(texts, list(SCHEMES.values()), len(os.sched_getaffinity(0)))
    found = {
        name: pairs_found_by(profile, of_profile, None)
        for (name, profile), of_profile in zip(SCHEMES.items(), printed, strict=True)
    }
    print(f"lengths: {len(texts):,} texts, {perf_counter() - start:.0f} s", file=sys.stderr)
    precise = {name: pairs(each.left, each.right) for name, each in found.items()}
    return [recall(near, found, texts), precision(precise), by_threshold(texts, near, found[BASE], pairs)]


def recall(near: Pairs, found: Mapping[str, TextPairs], texts: Sequence[str]) -> Table:
    bins = near.bins()
    rows: list[list[Cell]] = []
    for wanted, (similarity, least) in TO_FIND.items():
        of_truth = near.similarity[similarity] >= least
        counts = [int(np.count_nonzero(of_truth & chosen)) for chosen in bins.values()]
        rows.append([wanted, "pairs", *counts])
        for name, each in found.items():
            hits = each.has(near.left, near.right)
            rows.append([wanted, name, *(share(hits[of_truth & chosen]) for chosen in bins.values())])
    return Table(
        "Short texts: recall by length and by how much longer one is",
        ["to be found", "scheme", *bins],
        rows,
        [
            f"{len(texts):,} different texts, half of them of {np.median([len(text) for text in texts]):.0f} "
            "characters and fewer (without white space): titles and beginnings of items of Chinese "
            "television news, and beginnings of paragraphs of English documentation, cut at clauses at "
            f"lengths up to {LENGTHS[1]}. They have near pairs of their own (two archives of one programme, "
            "versions of a page), and of a third of them there is a copy with realistic edits: characters "
            "replaced (2 to 12 in a hundred), left out or put in (3 to 28 in a hundred), the beginning left "
            "out or something added at the end. A column has the pairs whose texts are both so long; of a "
            f"text below {LONG} characters and one above; or one of which is so many times as long as "
            "the other. Edit similarity is 1 - edits (Levenshtein) / characters of the longer. Recall in per "
            "cent."
        ],
    )


def precision(precise: Mapping[str, Pairs]) -> Table:
    rows: list[list[Cell]] = []
    for name, pairs in precise.items():
        bins = {"all": np.ones(len(pairs.left), dtype=np.bool_), **pairs.bins()}
        rows.append([name, "pairs found", *(int(np.count_nonzero(chosen)) for chosen in bins.values())])
        rows += [
            [name, right, *(share(pairs.similarity[similarity][chosen] >= least) for chosen in bins.values())]
            for right, (similarity, least) in RIGHT.items()
        ]
    return Table(
        "Short texts: precision by length and by how much longer one is",
        ["scheme", "right from", *bins],
        rows,
        ["Of the pairs found among the same texts the share that is so similar, in per cent."],
    )


def by_threshold(
    texts: Sequence[str], near: Pairs, base: TextPairs, pairs: Callable[[Numbers, Numbers], Pairs]
) -> Table:
    """What slots and threshold make of the preset."""
    profiles = [replace(PRESET, slots=slots) for slots in SLOTS]
    printed = fingerprint_texts(texts, profiles, len(os.sched_getaffinity(0)))
    found = {
        (f"{profile.slots}", threshold): pairs_found_by(
            replace(profile, threshold=threshold), of_profile, None
        )
        for profile, of_profile in zip(profiles, printed, strict=True)
        for threshold in THRESHOLDS
    }
    found |= {
        ("counted exactly", threshold): counted(replace(profiles[0], threshold=threshold), printed[0], texts)
        for threshold in THRESHOLDS
    }
    of_base = recalls(near, base)
    rows: list[list[Cell]] = []
    for (slots, threshold), each in found.items():
        of_found = pairs(each.left, each.right)
        right = of_found.similarity["pairs"] >= RIGHT["Jaccard of pairs 0.5"][1]
        by_bin = {name: 100 * right[chosen].mean() for name, chosen in of_found.bins().items()}
        recalled = recalls(near, each)
        rows.append(
            [
                *(slots, threshold, len(right), share(right), f"{by_bin['below 30']:.1f}"),
                f"{min(by_bin.values()):.1f}",
                *(f"{recalled['edit similarity 0.8', name]:.1f}" for name in ("below 30", "30-60")),
                f"{min(recalled[key] - of_base[key] for key in of_base):+.1f}",
            ]
        )
    return Table(
        "Short texts: slots and threshold",
        [
            *("slots", "threshold", "pairs found", "precision", "below 30", "least of all bins"),
            *("recall of edit similarity 0.8, below 30", "30-60", "least lead on complete"),
        ],
        rows,
        [
            "The features of the preset among the same texts. Precision: the share of the pairs found whose "
            "Jaccard similarity of pairs of characters is 0.5 and more; least of all bins: of the nine "
            "columns above; lead: recall less that of complete, the least of all columns and the three "
            "similarities above. Counted exactly: the bands of 128 slots find, and the texts' features are "
            "counted, not estimated. Of the 208 wrong pairs below 30 characters (128 slots, 0.52-0.7) three "
            "in four have fewer features in common than the threshold says: their estimates stray. Most are "
            "of one template with another name or date (visits of heads of state, `apiVersion:` lines); "
            "seven in eight are of an edit similarity of 0.6 and more."
        ],
    )


def counted(profile: Profile, fingerprinted: CorpusFingerprints, texts: Sequence[str]) -> TextPairs:
    """What the bands find and features that are counted decide."""
    found = pairs_found_by(profile, fingerprinted, COMPARED_FROM)
    sets = ShingleSets(FeatureExtractor(profile.feature_options), texts)
    fewer = np.minimum(sets.sizes[found.left], sets.sizes[found.right])
    threshold = profile.index_scheme.threshold
    assert isinstance(threshold, RisingThreshold)
    least = np.array([threshold.of(features) for features in fewer.tolist()])
    return found.where(sets.similarity(found.left, found.right) >= least)


def recalls(near: Pairs, found: TextPairs) -> dict[tuple[str, str], float]:
    """Per cent by similarity and bin."""
    hits = found.has(near.left, near.right)
    return {
        (wanted, name): 100 * float(hits[(near.similarity[similarity] >= least) & chosen].mean())
        for wanted, (similarity, least) in TO_FIND.items()
        for name, chosen in near.bins().items()
    }


def share(hits: NDArray[np.bool_]) -> Cell:
    return f"{100 * hits.mean():.1f}" if len(hits) else "-"


def short_texts(scale: float) -> list[str]:
    """Different texts without white space, the Chinese ones first, and behind both their edited copies."""
    chance = random.Random(0)
    texts: list[str] = []
    for found, count in ((chinese(), CHINESE), (english(), ENGLISH)):
        chosen = sorted(found, key=together)[: int(count * scale)]
        others = "".join(chance.sample(chosen, min(200, len(chosen))))
        texts += chosen
        texts += [edited(text, others, chance) for text in chance.sample(chosen, int(len(chosen) * EDITED))]
    return [text for text in dict.fromkeys(texts) if len(text) >= LENGTHS[0]]


def together(text: str) -> tuple[float, str]:
    """In no order but that texts of one beginning, as versions are, stay side by side."""
    return random.Random(text[:6]).random(), text


def chinese() -> set[str]:
    items = [item for item in read_items(1.0) if item.day >= SINCE]
    beginnings = ((item.text.lstrip(), item.day) for item in items)
    return suitable(
        [
            *(item.title for item in items),
            *(beginning(_DATELINE.sub("", text), day) for text, day in beginnings),
        ]
    )


def english() -> set[str]:
    with gzip.open(DATA / "versioned_docs_en.jsonl.gz") as lines:
        paragraphs = (
            line.strip() for record in map(orjson.loads, lines) for line in record["text"].split("\n")
        )
        return suitable(beginning(line, "") for line in paragraphs if line[:1].isalpha() and " " in line)


def suitable(texts: Iterable[str]) -> set[str]:
    bare = map(without_space, texts)
    return {text for text in bare if LENGTHS[0] <= len(text) <= LENGTHS[1]}


def without_space(text: str) -> str:
    return normalise(text).replace(" ", "")


def beginning(text: str, seed: str) -> str:
    """The first clauses of a text, up to a length that follows from its first characters: those of two
    versions end near each other."""
    length = 10 * 2 ** (5 * random.Random(without_space(text[:12])[:8] + seed).random())
    return "".join(clauses_up_to(text, length))


def clauses_up_to(text: str, length: float) -> Iterator[str]:
    taken = 0
    for clause in _CLAUSE.findall(text):
        if taken >= length or (taken and taken + len(clause) > 1.15 * length):
            return
        taken += len(clause)
        yield clause


def edited(text: str, others: str, chance: random.Random) -> str:
    """The text with an edit of one kind, or with two."""
    size = len(text)

    def some(least: float, most: float) -> int:
        return max(1, round(size * chance.uniform(least, most)))

    def elsewhere(count: int) -> str:
        start = chance.randrange(max(1, len(others) - count))
        return others[start : start + count]

    kind = chance.choice(["replace", "replace", "leave out", "put in", "end", "beginning", "replace, end"])
    if kind.startswith("replace"):
        for _ in range(some(0.02, 0.12)):
            place = chance.randrange(size)
            text = text[:place] + chance.choice(others) + text[place + 1 :]
    if kind == "leave out":
        count = some(0.03, 0.22)
        place = chance.randrange(size - count + 1)
        text = text[:place] + text[place + count :]
    if kind == "put in":
        place = chance.randrange(size + 1)
        text = text[:place] + elsewhere(some(0.03, 0.28)) + text[place:]
    if kind.endswith("end"):
        text += elsewhere(some(0.03, 0.28))
    return text[some(0.03, 0.22) :] if kind == "beginning" else text


def edit_similarity(one: str, other: str) -> float:
    """1 - edits / characters of the longer."""
    return 1 - levenshtein(one, other) / max(len(one), len(other))


def levenshtein(one: str, other: str) -> int:
    """How many characters to put in, leave out or replace, bit-parallel in long integers (Hyyrö, A Bit-Vector
    Algorithm for Computing Levenshtein and Damerau Edit Distances, 2003)."""
    if not other:
        return len(one)
    everywhere, last = (1 << len(other)) - 1, 1 << (len(other) - 1)
    places: dict[str, int] = {}
    for place, character in enumerate(other):
        places[character] = places.get(character, 0) | 1 << place
    more, less, distance = everywhere, 0, len(other)
    for character in one:
        same = places.get(character, 0)
        vertical = same | less
        horizontal = (((same & more) + more) ^ more) | same
        up = less | (~(horizontal | more) & everywhere)
        down = more & horizontal
        distance += bool(up & last) - bool(down & last)
        up = (up << 1 | 1) & everywhere
        more = (down << 1 & everywhere) | (~(vertical | up) & everywhere)
        less = up & vertical
    return distance
