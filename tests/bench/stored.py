"""How much `find` reports of real text: recall by similarity, precision, and templates matched.

Loads both archives of a Chinese television news programme with `simhbase load`, looks every item up
again with `simhbase find`, and compares the pairs found with all pairs of Jaccard similarity >= 0.5
(exact, of character 3-shingles).
"""

from __future__ import annotations

import csv
import gzip
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import orjson

from simhbase.text.normalise import normalise
from tests.bench.report import Table
from tests.reference import DATA

CORPORA = ("chinadata", "duckburn")
PROFILES = {
    "saturated counts (default)": "--profile default",
    "TF-IDF, top 64 (classic)": "--profile classic",
}
BINS = ((0.5, 0.6), (0.6, 0.7), (0.7, 0.8), (0.8, 0.9), (0.9, 1.0))
RIGHT = (0.5, 0.65)  # a pair found counts as right from this similarity on
SHORTEST = 100  # texts with fewer characters are not in the truth
Pair = tuple[str, str]


def measure(_scale: float = 1.0) -> list[Table]:
    """The table for both presets; always of the whole archives, as the truth is."""
    truth = read_truth(DATA / "pairs_xwlb_exact.tsv.gz")
    templates = read_templates(DATA / "pairs_xwlb_templates.tsv")
    verified = long_texts()
    rows = []
    for name, options in PROFILES.items():
        found = {pair for pair in find_pairs(shlex.split(options)) if verified.issuperset(pair)}
        bins = [
            {pair for pair, similarity in truth.items() if within(similarity, *bounds)} for bounds in BINS
        ]
        right = [{pair for pair, similarity in truth.items() if similarity >= least} for least in RIGHT]
        rows.append(
            [
                name,
                len(found),
                *(share(found, pairs) for pairs in bins),
                *(share(pairs, found) for pairs in right),
                share(found, templates),
            ]
        )
    return [
        Table(
            "Pairs found in 94,421 items of television news, k = 3",
            [
                "profile",
                "pairs found",
                *(f"recall {low}-{high}" for low, high in BINS),
                *(f"precision (>= {least})" for least in RIGHT),
                "templates matched",
            ],
            rows,
            [
                "Recall of pairs by Jaccard similarity, and how many there are; precision: the share of the "
                "pairs found that have at least that similarity; templates: items of different days made of "
                "one template, which a person would not call duplicates (most below 0.7)."
            ],
        )
    ]


def within(similarity: float, low: float, high: float) -> bool:
    """The last bin includes its upper bound."""
    return low <= similarity < high or similarity == high == 1.0


def share(part: set[Pair], whole: set[Pair]) -> str:
    return f"{len(part & whole) / len(whole):.3f} ({len(whole):,})" if whole else "none"


def read_truth(path: Path) -> dict[Pair, float]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return {ordered(row[4], row[5]): float(row[0]) for row in csv.reader(lines, delimiter="\t")}


def read_templates(path: Path) -> set[Pair]:
    with path.open(encoding="utf-8") as lines:
        rows = csv.reader(lines, delimiter="\t")
        return {ordered(f"chinadata/{row[4]}", f"chinadata/{row[5]}") for row in rows}


def long_texts() -> set[str]:
    """Ids of the texts that the truth covers."""
    return {
        f"{corpus}/{record['id']}"
        for corpus in CORPORA
        for record in read_records(corpus_path(corpus))
        if len(normalise(record["text"]).replace(" ", "")) >= SHORTEST
    }


def read_records(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path) as lines:
        yield from map(orjson.loads, lines)


def find_pairs(profile: list[str]) -> set[Pair]:
    """All pairs that load and find report for both archives."""
    pairs = set()
    with tempfile.TemporaryDirectory() as folder:
        store = ["--store", f"rocksdb:{folder}/store"]
        for corpus in CORPORA:
            loaded = simhbase("load", *store, *profile, *corpus_arguments(corpus), "--rejects", os.devnull)
            print(loaded.decode().strip(), file=sys.stderr)
        for corpus in CORPORA:
            for line in simhbase("find", *store, *corpus_arguments(corpus)).splitlines():
                answer = orjson.loads(line)
                pairs |= {
                    ordered(answer["id"], match["id"])
                    for match in answer["matches"]
                    if match["id"] != answer["id"]
                }
                if answer["truncated"]:
                    print(f"truncated: {answer['id']}", file=sys.stderr)
    return pairs


def corpus_arguments(corpus: str) -> list[str]:
    return ["--json", "--id-prefix", f"{corpus}/", str(corpus_path(corpus))]


def simhbase(*arguments: str) -> bytes:
    """The output of a command; texts that are rejected are part of real data, all else is a failure."""
    done = subprocess.run([sys.executable, "-m", "simhbase", *arguments], capture_output=True)
    if done.returncode not in (0, 3):
        sys.exit(f"simhbase {shlex.join(arguments)} ended with {done.returncode}: {done.stderr.decode()}")
    return done.stdout


def corpus_path(corpus: str) -> Path:
    return DATA / f"xwlb_{corpus}.jsonl.gz"


def ordered(one: str, other: str) -> Pair:
    return (one, other) if one < other else (other, one)
