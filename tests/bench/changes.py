"""Which changes of a text still match, by its length and by the threshold."""

from __future__ import annotations

import gzip
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from time import perf_counter

import numpy as np
import orjson

from simhbase.model.thresholds import SIMILAR
from simhbase.profile.profile import make_profile
from simhbase.quality.changes import (
    TEXTS,
    Finder,
    MatchedChange,
    WordsInText,
    by_dedup,
    by_store,
    matched_changes,
)
from simhbase.text.jaccard import shingle_sets
from tests.bench.quality import threads
from tests.bench.report import Cell, Table, shown
from tests.reference import DATA

LANGUAGES = {"English documentation": "versioned_docs_en", "Chinese news": "xwlb_chinadata"}
LENGTHS = (50, 100, 300, 1000, 3000)  # words
STORES: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "default": ("default", {}),
    "complete": ("complete", {}),
    "short": ("short", {}),
    "default, threshold 0.5": ("default", {"threshold": 0.5}),
    "default, threshold 0.8": ("default", {"threshold": 0.8}),
    "complete, threshold 0.5": ("complete", {"threshold": 0.5}),
    "complete, threshold 0.5, bands auto": ("complete", {"threshold": 0.5, "bands": "auto"}),
    "complete, threshold 0.8": ("complete", {"threshold": 0.8}),
}
LONG = 1500  # characters
EDITED = {
    "English documentation": "versioned_docs_en",
    "Chinese news": "xwlb_chinadata",
    "Chinese laws": "laws",
}
LEAST = {"dedup": None, "dedup from 0.5": 0.5, "dedup from 0.8": 0.8, "dedup from 0.9": 0.9}


def measure(scale: float = 1.0) -> list[Table]:
    return [changed(scale), edited(scale)]


def changed(scale: float) -> Table:
    finders: dict[str, Finder] = {
        name: by_store(make_profile(parameters, preset), threads())
        for name, (preset, parameters) in STORES.items()
    }
    finders |= {name: by_dedup(least, threads()) for name, least in LEAST.items()}
    rows: list[list[Cell]] = []
    for title, file in LANGUAGES.items():
        for length in LENGTHS:
            start = perf_counter()
            texts = list(islice(texts_of(file, length), max(2, int(TEXTS * scale))))
            rows += [[title, length, *cells(each)] for each in matched_changes(texts, finders)]
            print(f"{title}, {length} words: {perf_counter() - start:.0f} s", file=sys.stderr)
    return Table(
        "Which changes still match",
        ["texts", "words", "change", "similarity", "lowest tenth", "highest tenth", *finders],
        rows,
        [
            f"{TEXTS} texts of each length. In per cent with 95 % intervals: copies that a store with "
            "the profile finds, or `dedup`. Similarity: exact, of growing shingles; the median."
        ],
    )


Edit = Callable[[int, str], str]  # of the n-th text


def edited(scale: float) -> Table:
    """Long texts after edits of which hardly any may be missed."""
    finders: dict[str, Finder] = {
        "dedup": by_dedup(None, threads()),
        **{name: by_store(make_profile({}, name), threads()) for name in ("complete", "default")},
    }
    rows: list[list[Cell]] = []
    for title, file in EDITED.items():
        texts = list(islice(long_texts(file), max(2, int(TEXTS * scale))))
        for name, edit in edits_of(texts).items():
            both = [*texts, *(edit(place, text) for place, text in enumerate(texts))]
            left = np.arange(len(texts))
            right = left + len(texts)
            similarity = shingle_sets(both).similarity(left, right)
            found = [find(both).has(left, right) for find in finders.values()]
            shares = [f"{each.mean():.3f}" for each in (similarity >= SIMILAR, *found)]
            rows.append([title, len(texts), name, f"{np.median(similarity):.2f}", *shares])
    return Table(
        "Edits of long texts",
        ["texts", "number", "edit", "similarity", f"from {SIMILAR} on", *finders],
        rows,
        [
            f"Texts of {LONG:,} characters and more. Shares: of the edited ones those that are {SIMILAR} and "
            "more similar, exactly, and those found. What is put in front is of another text of the kind."
        ],
    )


def edits_of(texts: Sequence[str]) -> Mapping[str, Edit]:
    """By name."""
    chance = random.Random(0)
    letters = "".join(texts)

    def replaced(_: int, text: str) -> str:
        changed = [*text]
        for place in chance.sample(range(len(text)), len(text) // 100):
            changed[place] = chance.choice(letters)
        return "".join(changed)

    def in_front(share: float, place: int, text: str) -> str:
        """Of another text, repeated if it is too short."""
        length, other = int(share * len(text)), texts[place - 1]
        return (other * (length // len(other) + 1))[:length] + text

    return {
        "doubled": lambda _, text: text + text,
        "1 % of the characters replaced": replaced,
        "30 % of its length put in front": partial(in_front, 0.3),
        "30 % of the result in front": partial(in_front, 3 / 7),
    }


def long_texts(file: str) -> Iterator[str]:
    """Documents of LONG characters and more; of a page in several versions the first one."""
    return (text for text in documents_of(file) if len(text) >= LONG)


def cells(change: MatchedChange) -> list[Cell]:
    similarities = (f"{each:.2f}" for each in (change.similarity, change.low, change.high))
    return [change.change, *similarities, *map(shown, change.matched.values())]


def texts_of(file: str, words: int) -> Iterator[str]:
    """Texts of so many words in normal form: documents, joined until they are long enough, and cut."""
    parts: list[str] = []
    count = 0
    for document in documents_of(file):
        text = WordsInText(document)
        parts.append(text.text)
        count += len(text.words)
        if count >= words:
            yield WordsInText("\n".join(parts)).cut(words)
            parts, count = [], 0


def documents_of(file: str) -> Iterator[str]:
    """Texts; of a page in several versions the first one."""
    pages = set()
    with gzip.open(DATA / f"{file}.jsonl.gz") as lines:
        for record in map(orjson.loads, lines):
            page = record.get("project"), record.get("page", record["id"])
            if page not in pages:
                pages.add(page)
                yield record["text"]
