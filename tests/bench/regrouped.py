"""Whether dedup forms the groups of an older state of the source: scripts/bench --against COMMIT regrouped.

Ten corpora of real texts, grouped by this state and by the older ones, each in a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson

from tests.bench import older
from tests.bench.kinds import Documents, kinds
from tests.bench.report import Cell, Table
from tests.reference import documents

LIMIT = 20_000  # texts of a corpus
PARAGRAPH = 60  # characters at least
# Only what older states have, too.
PROGRAM = """
import sys, time
import simhbase
start = time.process_time()
simhbase.dedup(sys.argv[1], sys.argv[4], chains=sys.argv[3] == "chains", duplicates=sys.argv[2])
print(time.process_time() - start)
"""
WAYS = (("complete", "stars"), ("complete", "chains"), ("classic", "stars"), ("classic", "chains"))


def measure(scale: float = 1.0) -> list[Table]:
    pythons = {"now": Path(sys.executable)} | older.BUILT
    rows: list[list[Cell]] = []
    with TemporaryDirectory(prefix="simhbase-regrouped-") as folder:
        corpus = Path(folder, "corpus.jsonl")
        for title, texts in corpora().items():
            count = write(corpus, islice(texts(), int(LIMIT * scale)))
            for profile, way in WAYS:
                found = {state: grouped(python, corpus, profile, way) for state, python in pythons.items()}
                now, spent = found.pop("now")
                row: list[Cell] = [title, profile, way, count, len(now), spent]
                for kept, seconds in found.values():
                    row += [
                        seconds,
                        sum(now.get(each) != kept.get(each) for each in now.keys() | kept.keys()),
                    ]
                rows.append(row)
                print(*row, sep=", ", file=sys.stderr)
    head = ["texts", "profile", "groups", "documents", "removed", "processor, s"]
    head += [
        column for commit in older.BUILT for column in (f"s at {commit}", "removed or grouped otherwise")
    ]
    return [Table("Groups of dedup and of older states", head, rows)]


def grouped(python: Path, corpus: Path, profile: str, way: str) -> tuple[dict[str, str], float]:
    """The representative of each removed document, and seconds of processor time."""
    removed = corpus.with_name("removed.jsonl")
    words = [str(python), "-P", "-c", PROGRAM, str(corpus), str(removed), way, profile]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    lines = map(orjson.loads, removed.read_bytes().splitlines())
    return {line["id"]: line["duplicate_of"] for line in lines}, float(done.stdout)


def write(corpus: Path, texts: Documents) -> int:
    lines = [orjson.dumps({"id": f"{n}", "text": text}) for n, (_, text) in enumerate(texts)]
    corpus.write_bytes(b"\n".join(lines))
    return len(lines)


def corpora() -> Mapping[str, Callable[[], Documents]]:
    of_kinds = kinds()
    found = {name: of_kinds[name] for name in list(of_kinds)[:6]}
    found["news of another archive, Chinese"] = partial(documents, "xwlb_duckburn")
    for name in list(found)[:3]:
        found[f"paragraphs of {name}"] = partial(paragraphs, found[name])
    return found


def paragraphs(texts: Callable[[], Documents]) -> Iterator[tuple[str, str]]:
    return (("", part) for _, text in texts() for part in text.split("\n") if len(part) >= PARAGRAPH)
