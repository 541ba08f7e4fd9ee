"""Threads that fingerprint, beside threads that read, Ctrl-C and forks."""

import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

import simhbase
from tests.command_line import COMMAND, documents, environment, result, texts

READERS = 16
LARGE = 16_000_000  # characters
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")


def test_16_threads_read_a_store_while_a_load_writes_it(tmp_path):
    """What is stored is always found, and what is not is never answered; what was found stays."""
    some = texts(3000, words=30)
    url = f"rocksdb:{tmp_path / 's.db'}"
    documents(tmp_path / "old.jsonl", some[:1500])
    documents(tmp_path / "new.jsonl", some[1500:], prefix="n")
    names = [f"d{number}" for number in range(1500)] + [f"n{number}" for number in range(1500)]
    simhbase.load(tmp_path / "old.jsonl", url)
    is_loaded = Event()

    def read(seed: int) -> int:
        chance, lookups, found = random.Random(seed), 0, set[int]()
        while not is_loaded.is_set() or lookups < 10:
            asked = chance.sample(range(3000), 20)
            for number, lookup in zip(asked, index.find_many([some[n] for n in asked]), strict=True):
                matches = [match.id for match in lookup.matches]
                assert matches == [names[number]] or (matches == [] and number >= 1500)
                assert matches or number not in found
                found.update([number] if matches else [])
            lookups += 1
        return lookups

    with simhbase.open(url, access="read") as index, ThreadPoolExecutor(READERS) as readers:
        running = [readers.submit(read, seed) for seed in range(READERS)]
        try:
            report = simhbase.load(simhbase.Inputs(tmp_path / "new.jsonl", threads=4), url)
        finally:
            is_loaded.set()
        assert min(each.result() for each in running) >= 10
        assert [[match.id for match in each.matches] for each in index.find_many(some)] == [
            [n] for n in names
        ]
    assert (report.loaded, report.added) == (1500, 1500)


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@LINUX
@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_in_a_text_of_16_mb_ends_the_load_after_it(tmp_path, threads):
    words = " ".join(texts(100, words=50))
    huge = (words * (LARGE // len(words) + 1))[:LARGE]
    documents(tmp_path / "a.jsonl", [f"{number} {huge}" for number in range(6)])
    load = (
        "load",
        "a.jsonl",
        "--store",
        "rocksdb:s.db",
        "--max-record-bytes",
        64 << 20,
        "--threads",
        threads,
    )
    with subprocess.Popen(
        [*COMMAND, *map(str, load)], cwd=tmp_path, env=environment(), stderr=subprocess.PIPE
    ) as process:
        while not (tmp_path / "s.db").exists():  # it begins
            time.sleep(0.005)
        begun = processor_seconds(process.pid)
        while processor_seconds(process.pid) < begun + 0.3:
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=120)
    assert process.returncode == 130, told
    assert told.startswith(b"stopped before anything was loaded"), told
    assert b"Traceback" not in told
    assert result(*load, cwd=tmp_path)["loaded"] == 6


FORKS = """
import os, signal, sys, threading
from simhbase.profile.profile import Profile

text = "one text that threads fingerprint while others fork " * 50
fingerprinter = Profile().fingerprinter()
expected = fingerprinter.fingerprint(text)
ended = threading.Event()

def work():
    while not ended.is_set():
        fingerprinter.fingerprint_many([text] * 50)

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
codes = []
for _ in range(30):
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # ends one that waits for a lock
        os._exit(fingerprinter.fingerprint(text) != expected)
    codes.append(os.waitpid(child, 0)[1])
ended.set()
for thread in threads:
    thread.join()
sys.exit(any(codes))
"""


def test_a_process_forked_while_threads_fingerprint_can_fingerprint():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKS],
        env=environment(),
        capture_output=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
