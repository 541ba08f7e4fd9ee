"""Near-duplicates planted among real texts, removed by simhbase and by its peers: processor time, memory,
what is found and what is kept.

python -m tests.bench.planted CORPUS.parquet: columns n (the place of a row), id, text, kind and of.
Rows of kind near02, near05 and exact are copies of the row whose id is `of`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
import pyarrow.parquet as pq

import simhbase
from tests.bench import planted_program
from tests.bench.peers import ALONE, NotMeasured, output_of, python_with
from tests.bench.planted_program import triples
from tests.bench.report import Cell, Table, render

PACKAGES = {
    "simhbase": (),
    "rensa": ("rensa", "pyarrow"),
    "datasketch": ("datasketch", "pyarrow"),
    "text-dedup": ("text-dedup", "pyarrow"),
}
ALIKE = 0.5  # triples that a removed text has in common with one that is kept, at least
WARMING_ROWS = 2000  # of a first run, so that modules are compiled and libraries in memory
PLANTED = {"near02", "near05", "exact"}


def measure(corpus: Path) -> Table:
    table = pq.read_table(corpus, columns=["n", "id", "kind", "of"]).to_pydict()
    number = {document: str(n) for n, document, kind in _rows(table, "n", "id", "kind") if kind == "base"}
    pairs = [(str(n), number[of]) for n, kind, of in _rows(table, "n", "kind", "of") if kind in PLANTED]
    rows: list[list[Cell]] = []
    for name in PACKAGES:
        try:
            rows.append([name, *row(name, corpus, pairs)])
        except NotMeasured as failure:
            rows.append([name, str(failure), "", "", "", ""])
        print(*rows[-1], sep=", ", file=sys.stderr)
    head = ["", "processor, s", "MB", f"found of {len(pairs):,} pairs", "rows kept", "wrongly removed"]
    notes = [
        f"Wrongly removed: texts with less than {ALIKE} of their triples in common with any that is kept."
    ]
    return Table("Planted near-duplicates", head, rows, notes)


def _rows(table: dict[str, list[Any]], *columns: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(table[each] for each in columns), strict=True)


def row(name: str, corpus: Path, pairs: Sequence[tuple[str, str]]) -> list[Cell]:
    with TemporaryDirectory(prefix="simhbase-planted-") as folder:
        kept, few = Path(folder, "kept.jsonl"), Path(folder, "few.parquet")
        pq.write_table(pq.read_table(corpus).slice(0, WARMING_ROWS), few)
        words = [python_with(PACKAGES[name]), "-P", planted_program.__file__, name]
        for each in (few, corpus):
            seconds, megabytes = output_of([*words, str(each), str(kept)], ALONE).split()[-2:]
        lines = kept.read_bytes().splitlines()
        left = {str(orjson.loads(each)["n"]) if name == "simhbase" else each.decode() for each in lines}
    found = sum(not left.issuperset(pair) for pair in pairs)
    return [float(seconds), int(megabytes), found, len(left), wrongly_removed(corpus, left)]


def wrongly_removed(corpus: Path, left: set[str]) -> int:
    table = pq.read_table(corpus, columns=["n", "text"]).to_pydict()
    texts = {str(n): text for n, text in _rows(table, "n", "text") if text and len(triples(text)) > 1}
    kept = {text for n, text in texts.items() if n in left}
    gone = sorted({text for n, text in texts.items() if n not in left} - kept)
    by_triples = {"scheme": "minhash", "features": "chars:3"}
    against = [{"id": f"{n}", "text": text} for n, text in enumerate(sorted(kept))]
    found = simhbase.match(against=against, texts=gone, profile=by_triples, min_similarity=ALIKE)
    missed = [
        set(triples(text)) for text, answer in zip(gone, found, strict=True) if not answer.lookup.matches
    ]
    return sum(not any(alike(one, set(triples(other))) for other in kept) for one in missed)


def alike(one: set[str], other: set[str]) -> bool:
    return len(one & other) >= ALIKE * len(one | other)


if __name__ == "__main__":
    print(render([measure(Path(sys.argv[1]))]))
