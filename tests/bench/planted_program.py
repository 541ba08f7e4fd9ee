"""Removes near-duplicates of a Parquet file by one program, and writes the ids that it keeps.

python -P planted_program.py NAME CORPUS KEPT: the loops that the programs' documentations show, with triples
of characters and 128 permutations. Of the texts that are near an earlier one that is kept, none is kept.
"""

from __future__ import annotations

import json
import pickle
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

PERMUTATIONS, THRESHOLD, BANDS = 128, 0.65, 32


def triples(text: str) -> list[str]:
    letters = "".join(text.lower().split())
    return [letters[place : place + 3] for place in range(len(letters) - 2)]


def by_rensa(texts: list[tuple[str, str]]) -> Iterator[str]:
    from rensa import RMinHash, RMinHashLSH  # type: ignore[import-untyped]

    lsh = RMinHashLSH(threshold=THRESHOLD, num_perm=PERMUTATIONS, num_bands=BANDS)
    sketches: dict[int, Any] = {}
    for number, (document, text) in enumerate(texts):
        sketch = RMinHash(num_perm=PERMUTATIONS, seed=42)
        sketch.update(triples(text))
        if not any(sketch.jaccard(sketches[near]) >= THRESHOLD for near in lsh.query(sketch)):
            lsh.insert(number, sketch)
            sketches[number] = sketch
            yield document


def by_datasketch(texts: list[tuple[str, str]]) -> Iterator[str]:
    from datasketch import MinHash, MinHashLSH  # type: ignore[import-untyped]

    lsh = MinHashLSH(threshold=THRESHOLD, num_perm=PERMUTATIONS, params=(BANDS, PERMUTATIONS // BANDS))
    sketches: dict[int, Any] = {}
    for number, (document, text) in enumerate(texts):
        sketch = MinHash(num_perm=PERMUTATIONS)
        sketch.update_batch([each.encode() for each in triples(text)])
        if not any(sketch.jaccard(sketches[near]) >= THRESHOLD for near in lsh.query(sketch)):
            lsh.insert(number, sketch)
            sketches[number] = sketch
            yield document


def by_text_dedup(texts: list[tuple[str, str]]) -> Iterator[str]:
    """By its command, with its words of 5; those of its groups but the first."""
    with TemporaryDirectory() as folder:
        given, written = Path(folder, "texts.jsonl"), Path(folder, "written")
        given.write_text("".join(json.dumps({"text": text}) + "\n" for _, text in texts))
        words = ["--path", "json", "--data_files", str(given), "--split", "train", "--column", "text"]
        words += ["--threshold", str(THRESHOLD), "--num_perm", str(PERMUTATIONS), "--cache_dir", folder]
        words += ["--output", str(written), "--debug"]
        subprocess.run([sys.executable, "-m", "text_dedup.minhash", *words], check=True, stdout=sys.stderr)
        groups = pickle.loads((written / "uf.pkl").read_bytes())
    removed = {member for member in list(groups.parent) if groups.find(member) != member}
    yield from (document for number, (document, _) in enumerate(texts) if number not in removed)


def by_simhbase(corpus: str, kept: str) -> None:
    import simhbase

    simhbase.dedup(corpus, id_field="n", unique=kept)


def main(name: str, corpus: str, kept: str) -> None:
    if name == "simhbase":
        by_simhbase(corpus, kept)
    else:
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(corpus, columns=["n", "text"]).to_pydict()
        texts = [(str(n), text) for n, text in zip(table["n"], table["text"], strict=True) if text]
        loop = {"rensa": by_rensa, "datasketch": by_datasketch, "text-dedup": by_text_dedup}[name]
        Path(kept).write_text("".join(f"{document}\n" for document in loop(texts) if document))
    every = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(sum(each.ru_utime + each.ru_stime for each in every), most_megabytes())


def most_megabytes() -> int:
    """Greatest memory of this process; that of `getrusage` counts the program that started it, too."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) // 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
