"""`simhbase spark dedup` with two threads beside `simhbase dedup`: the same cores, documents and lists."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from time import perf_counter
from typing import TYPE_CHECKING
from urllib.request import urlopen

import simhbase
from simhbase.corpus.inputs import Inputs
from simhbase.spark.dedup_files import dedup_files
from tests import reference
from tests.bench.report import Cell, Table
from tests.command_line import write_lines
from tests.local_spark import local_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BASES = 15_000  # texts that have nothing to do with each other; with others made of them 25,000 documents
WARMING = 0.25  # of the documents, in a first run, as Java compiles what it runs often
SESSION = {"spark.ui.enabled": "true", "spark.ui.port": "0", "spark.driver.memory": "2g"}
PARTITIONS = "spark.sql.shuffle.partitions"
CUT = {"xwlb_chinadata": ("\n", 60, 3), "laws": ("\n\n", 80, 14), "versioned_docs_en": ("\n\n", 80, 14)}


def measure(scale: float = 1.0) -> list[Table]:
    with TemporaryDirectory() as name, local_spark(Path(name, "spark"), **SESSION) as session:
        files = [
            write_lines(Path(name, f"{times}.jsonl"), corpus(round(BASES * scale * times)))
            for times in (WARMING, 1, 2)
        ]
        runs = [_Runs(session, file, Path(name, file.stem)) for file in files]
        warming, once, twice = runs
        warming.on_spark("", 2)
        rows = [
            once.alone("simhbase dedup"),
            once.on_spark("Spark, partitions=2", 2),
            once.on_spark("Spark, a session's 200", None),
            twice.alone("simhbase dedup, twice the documents"),
            twice.on_spark("Spark, a session's 200, twice the documents", None),
        ]
    columns = ["by", "documents", "duplicates", "seconds", "times the command", "shuffled MB", "memory GB"]
    alone = {row.documents: row.seconds for row in rows if not row.shuffled}
    table: list[list[Cell]] = [
        [
            row.by,
            row.documents,
            row.duplicates,
            round(row.seconds, 1),
            row.seconds / alone[row.documents],
            row.shuffled / 1e6,
            row.memory / 1e9,
        ]
        for row in rows
    ]
    return [Table("dedup of a skewed corpus on two cores", columns, table)]


@dataclass(frozen=True)
class _Run:
    """What a run found and took. shuffled: bytes; memory: bytes of all processes, at most."""

    by: str
    documents: int
    duplicates: int
    seconds: float
    shuffled: int
    memory: int


@dataclass(frozen=True)
class _Runs:
    """Runs over a file, with their lists in a folder."""

    session: SparkSession
    file: Path
    folder: Path

    def alone(self, by: str) -> _Run:
        self.folder.mkdir()
        inputs, start = Inputs([str(self.file)], rejects=self.folder / "rejects.jsonl"), perf_counter()
        with watched_memory() as memory:
            report = simhbase.dedup(
                inputs, unique=self.folder / "unique.jsonl", duplicates=self.folder / "duplicates.jsonl"
            )
        seconds = perf_counter() - start
        return _Run(by, report.documents, report.duplicates, seconds, 0, memory[0])

    def on_spark(self, by: str, partitions: int | None) -> _Run:
        self.session.conf.set(PARTITIONS, "200" if partitions is None else f"{partitions}")
        before, start = shuffled(self.session), perf_counter()
        with watched_memory() as memory:
            report = dedup_files(
                self.session,
                [str(self.file)],
                partitions=partitions,
                overwrite=True,
                unique=f"{self.folder}/spark/unique",
                duplicates=f"{self.folder}/spark/duplicates",
                rejects=f"{self.folder}/spark/rejects",
            )
        seconds = perf_counter() - start
        moved = shuffled(self.session) - before
        return _Run(by, report.documents, report.duplicates, seconds, moved, memory[0])


def shuffled(session: SparkSession) -> int:
    """Bytes that all stages have written to shuffles, by Spark's status REST API."""
    context = session.sparkContext
    with urlopen(f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages") as answer:
        return sum(stage["shuffleWriteBytes"] for stage in json.load(answer))


@contextmanager
def watched_memory() -> Iterator[list[int]]:
    """The most memory (PSS) of this process and all below it, as one item, once a second."""
    most, ended = [0], Event()

    def look() -> None:
        while True:  # also within a run of less than a second
            most[0] = max(most[0], sum(map(_pss, _descendants())))
            if ended.wait(1.0):
                return

    looking = Thread(target=look, daemon=True)
    looking.start()
    try:
        yield most
    finally:
        ended.set()
        looking.join()


def _descendants() -> Iterator[int]:
    parents = dict[int, int]()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
    found = [os.getpid()]
    for process in found:
        found += [child for child, parent in parents.items() if parent == process]
    yield from found


def _pss(process: int) -> int:
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0
    return sum(int(kilobytes) << 10 for kilobytes in re.findall(r"^Pss: +(\d+)", text, re.MULTILINE))


def corpus(bases: int) -> list[dict[str, object]]:
    """Paragraphs, near and exact copies of some, a crowd of texts near one, and a fifth of bad records."""
    chance = random.Random(7)
    pool = list(dict.fromkeys(chain.from_iterable(_paragraphs(name, chance) for name in CUT)))
    chance.shuffle(pool)
    texts = pool[:bases]
    seed, few = max(texts, key=len)[:600], bases // 125
    found: list[tuple[str | None, str | None]] = [(f"b{n}", text) for n, text in enumerate(texts)]
    found += [
        (f"p{n}", changed(texts[chance.randrange(20 * few)], (0.02, 0.05)[n % 2], chance))
        for n in range(30 * few)
    ]
    found += [(f"x{n}", texts[20 * few + chance.randrange(10 * few)]) for n in range(5 * few)]
    found += [(f"s{n}", f"{changed(seed, 0.015, chance)} {n}") for n in range(3 * few)]
    found += [(f"e{n}", ("", "  ", "?", "ok")[n % 4]) for n in range(len(found) // 4)]
    found += [(f"n{n}", None) for n in range(few)]
    found += [(None, f"{texts[40 * few + n]} without an id") for n in range(few)]
    found += [(f"b{50 * few + n}", f"{texts[60 * few + n]} of an id that comes again") for n in range(few)]
    chance.shuffle(found)
    return [{"id": key, "text": text} for key, text in found]


def _paragraphs(name: str, chance: random.Random) -> Iterator[str]:
    between, least, most = CUT[name]
    for _, text in reference.documents(name):
        parts = [part.strip() for part in text.split(between) if len(part.strip()) >= least]
        if most > 3:
            chance.shuffle(parts)
        yield from (part[:800] for part in parts[:most])


def changed(text: str, share: float, chance: random.Random) -> str:
    """A text with runs of other characters, until about this share of them has changed."""
    letters, left = list(text), max(1, int(len(text) * share))
    others = "的一是在不了有和人这中大为上个国我以要他" if re.search("[一-鿿]", text) else "abcdefghijklmnop "
    while left > 0:
        size, start = chance.randint(2, 8), chance.randrange(len(text))
        letters[start : start + size] = chance.choices(others, k=size)
        left -= size
    return "".join(letters)
