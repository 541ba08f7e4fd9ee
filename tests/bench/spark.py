"""dedup on Spark with two threads, beside `simhbase.dedup`: the same cores, texts and groups."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import simhbase
from simhbase import spark
from tests import reference
from tests.bench.report import Table
from tests.command_line import write_lines
from tests.local_spark import local_spark

DOCUMENTS = 74_545


def measure(scale: float = 1.0) -> list[Table]:
    with TemporaryDirectory() as name, local_spark(Path(name)) as session:
        some = islice(reference.documents("xwlb_chinadata"), round(DOCUMENTS * scale))
        records = [{"n": number, "id": key, "text": text} for number, (key, text) in enumerate(some)]
        file = write_lines(Path(name, "news.jsonl"), records)
        read = session.read.schema("n long, id string, text string").json(str(file)).repartition(8)

        def on_spark() -> int:
            found = spark.dedup(read, order_column="n")
            duplicates = found.report().duplicates
            found.unpersist()
            return duplicates

        rows = [
            timed("simhbase.dedup", lambda: simhbase.dedup(file).duplicates),
            timed("Spark, local[2]", on_spark),
            timed("Spark again, in the same Java", on_spark),
        ]
    headings = ["by", "documents", "duplicates", "seconds", "documents/s", "times simhbase.dedup"]
    alone = rows[0][2]
    table = [
        [by, len(records), duplicates, seconds, len(records) / seconds, seconds / alone]
        for by, duplicates, seconds in rows
    ]
    return [Table("dedup of Chinese television news on two cores", headings, table)]


def timed(by: str, job: Callable[[], int]) -> tuple[str, int, float]:
    """What did it, how many duplicates it found, and in how many seconds."""
    start = perf_counter()
    duplicates = job()
    return by, duplicates, perf_counter() - start
