"""Which changes of a text still match, by its length and by the threshold."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from time import perf_counter

import orjson

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
LEAST = {"dedup": None, "dedup from 0.5": 0.5, "dedup from 0.8": 0.8, "dedup from 0.9": 0.9}


def measure(scale: float = 1.0) -> list[Table]:
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
    return [
        Table(
            "Which changes still match",
            ["texts", "words", "change", "similarity", "lowest tenth", "highest tenth", *finders],
            rows,
            [
                f"{TEXTS} texts of each length. In per cent with 95 % intervals: copies that a store with "
                "the profile finds, or `dedup`. Similarity: exact, of growing shingles; the median."
            ],
        )
    ]


def cells(change: MatchedChange) -> list[Cell]:
    similarities = (f"{each:.2f}" for each in (change.similarity, change.low, change.high))
    return [change.change, *similarities, *map(shown, change.matched.values())]


def texts_of(file: str, words: int) -> Iterator[str]:
    """Texts of so many words in normal form: documents, joined until they are long enough, and cut. Of a page
    in several versions the first one."""
    pages = set()
    parts: list[str] = []
    count = 0
    with gzip.open(DATA / f"{file}.jsonl.gz") as lines:
        for record in map(orjson.loads, lines):
            page = record.get("project"), record.get("page", record["id"])
            if page in pages:
                continue
            pages.add(page)
            text = WordsInText(record["text"])
            parts.append(text.text)
            count += len(text.words)
            if count >= words:
                yield WordsInText("\n".join(parts)).cut(words)
                parts, count = [], 0
