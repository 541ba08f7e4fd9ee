from __future__ import annotations

import gzip
import subprocess
import sys
from itertools import chain
from pathlib import Path

import orjson
import pytest

from simhbase.corpus.parser import Parser
from simhbase.corpus.record import InputOptions
from simhbase.corpus.sources import Sources
from simhbase.workers import map_in_processes

MEMORY_OF_READING = """
import resource, sys
from simhbase.corpus.parser import Parser
from simhbase.corpus.record import InputOptions
from simhbase.corpus.sources import Sources

parser = Parser(InputOptions())
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
count = sum(len(parser.parse(chunk)) for chunk in Sources(sys.argv[1:], InputOptions()).chunks())
print(count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_workers_parse_the_same_records_in_the_same_order(tmp_path):
    rows = [
        orjson.dumps({"id": i, "text": "文" * (i % 50)}) if i % 97 else b"not JSON %d" % i
        for i in range(5000)
    ]
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b"\n".join(rows)))
    (tmp_path / "b.csv").write_bytes(b"id,text\n" + b"".join(b'c%d,"x\ny"\n' % i for i in range(1000)))
    parser = Parser(InputOptions())

    chunks = list(Sources([str(tmp_path), "missing.jsonl"], InputOptions()).chunks())
    alone = list(chain.from_iterable(map(parser.parse, chunks)))
    assert len(alone) == 6001
    assert list(chain.from_iterable(map_in_processes(parser.parse, chunks, 2))) == alone


def memory_of_reading(path: Path) -> tuple[int, int]:
    """Records read from a file by a process of its own, and the KiB it grew by."""
    run = subprocess.run(
        [sys.executable, "-c", MEMORY_OF_READING, str(path)], capture_output=True, check=True, text=True
    )
    count, grown = map(int, run.stdout.split())
    return count, grown


@pytest.mark.full
def test_a_gigabyte_is_read_in_the_memory_of_a_hundredth(tmp_path):
    line = orjson.dumps({"id": "x", "text": "文字" * 500}) + b"\n"
    small, large = tmp_path / "small.jsonl", tmp_path / "large.jsonl"
    small.write_bytes(line * (10_000_000 // len(line)))
    with large.open("wb") as file:
        for _ in range(100):
            file.write(small.read_bytes())
    count, memory = memory_of_reading(small)
    large_count, large_memory = memory_of_reading(large)
    assert large_count == 100 * count
    assert large_memory < 2 * memory + 10_000
