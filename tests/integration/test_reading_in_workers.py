from __future__ import annotations

import gzip
import re
import subprocess
import sys
from itertools import chain
from pathlib import Path

import orjson
import pytest

from simhbase.corpus.parser import Parser
from simhbase.corpus.record import InputOptions
from simhbase.corpus.sources import Sources
from simhbase.process.workers import Bounds, map_in_processes
from tests.command_line import COMMAND, environment, run
from tests.hostile import REPEATED, growing_page, page_of

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
    results = map_in_processes(parser.parse, chunks, 2, parser.lost, Bounds(60, 1 << 30))
    assert list(chain.from_iterable(results)) == alone


def test_a_page_that_takes_too_long_is_a_reject_and_all_others_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("simhbase.corpus.reading.PAGE_SECONDS", 0.3)
    monkeypatch.setattr("simhbase.corpus.reading.PAGE_SECONDS_PER_MIB", 0.001)
    pages = [f"<p>words of page {number}</p>" for number in range(20)]
    pages[7] = page_of(REPEATED["formatting"], 15 << 20)
    rows = [orjson.dumps({"id": f"p{number}", "text": page}) for number, page in enumerate(pages)]
    path = tmp_path / "pages.jsonl"
    path.write_bytes(b"\n".join(rows))
    options = "--html", "--processes", 1, "--rejects", "rejects.jsonl"
    done = run("load", path.name, "--store", "rocksdb:pages.db", *options, cwd=tmp_path)
    assert done.returncode == 3
    assert b"rejected    1\n" in done.stdout
    (reject,) = map(orjson.loads, (tmp_path / "rejects.jsonl").read_bytes().splitlines())
    assert (reject["line"], reject["id"]) == (8, "p7")
    assert reject["reason"].startswith(
        "the text of the page was not extracted: it took more than 0.3 s of processor time"
    )


@pytest.mark.parametrize("size", [32 << 10, pytest.param(1 << 20, marks=pytest.mark.full)])
def test_a_page_that_takes_too_much_memory_is_a_reject_also_if_it_is_the_only_one(tmp_path, size):
    (tmp_path / "page.html").write_text(growing_page(size))
    limited = 'ulimit -v 4000000; exec "$@"'  # kB of addresses, so that it fails and takes no more
    done = subprocess.run(
        ["bash", "-c", limited, "-", *COMMAND, "fingerprint", "page.html"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (1, "")
    # Where memory comes slowly, the time is over first.
    assert re.search(
        r"it took more than (1,024 MiB of memory|\d\.\d s of processor time): leave it", done.stderr
    )


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
