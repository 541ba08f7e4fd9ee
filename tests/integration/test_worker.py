"""The fleet of examples/worker.py: every document gets its answer, and no two near ones are accepted, also
where workers are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

import simhbase
from simhbase import Profile
from tests.cluster import Cluster
from tests.command_line import environment
from tests.examples import ROOT
from tests.near import versions
from tests.service import serving

WORKER = ROOT / "examples" / "worker.py"
DOCUMENTS = [{"id": f"d{number}", "text": text} for number, text in enumerate(versions(100))]
REJECTED = {"id": "empty", "text": ""}
LATER = 200  # documents that come when a worker has been killed
WORKERS, KILLED = 3, 2
K = 3
TOKEN = "claims-with-this-token"
TIMEOUT = 120  # seconds: what takes so long hangs


class Fleet:
    """A fleet that is running."""

    def __init__(self, url: str, workers: int, folder: Path, *options: str, **variables: str) -> None:
        command = [sys.executable, str(WORKER), "--store", url, "--workers", str(workers), *options]
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment(**variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.lines: list[dict[str, Any]] = []
        self.answered = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.append(json.loads(line))
            self.answered.set()

    def give(self, documents: Sequence[dict[str, str]]) -> None:
        assert self.process.stdin
        self.process.stdin.writelines(json.dumps(document) + "\n" for document in documents)
        self.process.stdin.flush()

    def workers(self) -> list[int]:
        """The ids of its processes."""
        command = ["ps", "-A", "-ww", "-o", "pid=", "-o", "ppid=", "-o", "args="]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        rows = [line.split(None, 2) for line in listed.splitlines()]
        ours = str(self.process.pid)
        return [int(row[0]) for row in rows if row[1] == ours and "spawn_main" in row[2]]

    def end(self) -> list[dict[str, Any]]:
        """Everything that it said."""
        assert self.process.stdin
        self.process.stdin.close()
        assert self.process.wait(TIMEOUT) == 0
        self._reader.join()
        return self.lines

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        with self.process, suppress(BrokenPipeError):
            self._reader.join()


def check(index: simhbase.Index, answers: list[dict[str, Any]]) -> None:
    """Each document has one answer; of what is near, one was accepted, and is stored."""
    assert sorted(answer["id"] for answer in answers) == sorted(each["id"] for each in (*DOCUMENTS, REJECTED))
    assert [answer["id"] for answer in answers if answer["outcome"] == "rejected"] == ["empty"]
    accepted = [answer["id"] for answer in answers if answer["outcome"] == "accepted"]
    duplicates = {answer["id"]: answer["duplicate_of"] for answer in answers if "duplicate_of" in answer}
    assert len(accepted) + len(duplicates) == len(DOCUMENTS)
    assert set(duplicates.values()) <= set(accepted)
    assert 100 <= len(accepted) < 0.8 * len(DOCUMENTS)
    stored = index.fingerprints([each["id"] for each in DOCUMENTS])
    assert {each["id"] for each, value in zip(DOCUMENTS, stored, strict=True) if value is not None} == set(
        accepted
    )
    values = np.array([value for value in stored if value is not None], dtype=np.uint64)
    apart = np.bitwise_count(values[:, None] ^ values[None, :])
    assert apart[~np.eye(len(values), dtype=np.bool_)].min() > K


def await_answers(fleet: Fleet, number: int) -> None:
    deadline = time.monotonic() + TIMEOUT
    while len(fleet.lines) < number:
        assert time.monotonic() < deadline
        fleet.answered.wait(0.01)
        time.sleep(0.01)


def run_fleet(url: str, folder: Path) -> list[dict[str, Any]]:
    with Fleet(url, WORKERS, folder) as fleet:
        fleet.give(DOCUMENTS[:-LATER])
        assert fleet.answered.wait(TIMEOUT)
        workers = fleet.workers()
        assert len(workers) == WORKERS
        for worker in workers[:KILLED]:
            os.kill(worker, signal.SIGKILL)
        fleet.give([*DOCUMENTS[-LATER:], REJECTED])
        return fleet.end()


def test_a_fleet_of_an_embedded_store_fingerprints_for_one_that_claims(tmp_path: Path) -> None:
    url = f"rocksdb:{tmp_path}/store"
    simhbase.open(url, create=Profile(verify=False)).close()
    answers = run_fleet(url, tmp_path)
    with simhbase.open(url, access="read") as index:
        check(index, answers)


def test_a_fleet_asks_a_service(tmp_path: Path) -> None:
    simhbase.open(f"rocksdb:{tmp_path}/store", create=Profile(verify=False)).close()
    with serving("rocksdb:store", tmp_path) as service:
        answers = run_fleet(service.url, tmp_path)
    with simhbase.open(f"rocksdb:{tmp_path}/store", access="read") as index:
        check(index, answers)


@pytest.mark.hbase
def test_a_fleet_of_a_store_in_hbase_claims_in_every_process(hbase: Cluster, tmp_path: Path) -> None:
    url = hbase.empty_store("fleet")
    simhbase.open(url, create=Profile(verify=False)).close()
    answers = run_fleet(url, tmp_path)
    with simhbase.open(url, access="read") as index:
        check(index, answers)


def test_documents_are_answered_as_they_come(tmp_path: Path) -> None:
    url = f"rocksdb:{tmp_path}/store"
    simhbase.open(url, create=Profile(verify=False)).close()
    with Fleet(url, 1, tmp_path) as fleet:
        for number in range(3):
            fleet.give([DOCUMENTS[number]])
            await_answers(fleet, number + 1)
            assert fleet.lines[number]["id"] == DOCUMENTS[number]["id"]
        assert len(fleet.end()) == 3


def test_a_fleet_shows_a_service_its_token(tmp_path: Path) -> None:
    simhbase.open(f"rocksdb:{tmp_path}/store", create=Profile(verify=False)).close()
    for name, content in (("tokens", f"write {TOKEN}\n"), ("token", f"{TOKEN}\n")):
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o600)
    with serving("rocksdb:store", tmp_path, "--token-file", "tokens") as service:
        for options, variables in (((), {"SIMHBASE_TOKEN": TOKEN}), (("--token-file", "token"), {})):
            with Fleet(service.url, 1, tmp_path, *options, **variables) as fleet:
                fleet.give(DOCUMENTS[:1])
                assert [answer["outcome"] for answer in fleet.end()] == ["accepted"]
        with Fleet(service.url, 1, tmp_path) as fleet:
            fleet.give(DOCUMENTS[:1])
            assert fleet.process.wait(TIMEOUT) == 1
            assert fleet.lines == []


TAGGED = {"id": "a/1", "text": DOCUMENTS[0]["text"], "tags": {"tenant": "a", "source": "wire"}}
MIXED = [
    json.dumps(TAGGED),
    "{bad",
    json.dumps({"id": "no-text"}),
    "",
    "[1]",
    json.dumps({"id": "b/1", "text": DOCUMENTS[0]["text"], "tags": ["tenant"]}),
    "[" * 100_000,
    json.dumps({"id": "half of a pair: \ud800", "text": DOCUMENTS[0]["text"]}),
    json.dumps({"id": "too-many", "text": "x" * 1_100_000}),
    json.dumps({"id": "empty-tag", "text": DOCUMENTS[0]["text"], "tags": {"tenant": ""}}),
    json.dumps({"id": "b/1", "text": DOCUMENTS[0]["text"], "tags": None}),
]


def run_whole(
    url: str, folder: Path, lines: Sequence[str], *options: str
) -> subprocess.CompletedProcess[str]:
    """A fleet that has all of its documents from the beginning, until it ends."""
    return subprocess.run(
        [sys.executable, str(WORKER), "--store", url, "--workers", "1", *options],
        cwd=folder,
        env=environment(),
        input="".join(line + "\n" for line in lines),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )


def check_mixed(index: simhbase.Index, done: subprocess.CompletedProcess[str]) -> None:
    """The good lines have their answers, with tags, and each of the others has a reason."""
    assert (done.returncode, done.stderr) == (0, "")
    outcomes = list(map(json.loads, done.stdout.splitlines()))
    reasons = {each["line"]: each["reason"] for each in outcomes if "line" in each}
    assert list(reasons) == [2, 3, 5, 6, 7]
    assert "not JSON" in reasons[2]
    assert "'text'" in reasons[3]
    assert "'tags'" in reasons[6]
    assert {each["outcome"] for each in outcomes if "line" in each} == {"rejected"}
    answers = {each["id"]: each for each in outcomes if "id" in each}
    assert answers.pop("a/1") == {"id": "a/1", "outcome": "accepted"}
    assert answers.pop("b/1") == {"id": "b/1", "outcome": "duplicate", "duplicate_of": "a/1"}
    assert {name: each["outcome"] for name, each in answers.items()} == dict.fromkeys(answers, "rejected")
    assert "tenant" in answers["empty-tag"]["reason"]
    assert index.documents(["a/1"])[0].tags == TAGGED["tags"]


def test_bad_lines_are_rejected_and_tags_kept_in_an_embedded_store(tmp_path: Path) -> None:
    url = f"rocksdb:{tmp_path}/store"
    simhbase.open(url, create=Profile(verify=False)).close()
    done = run_whole(url, tmp_path, MIXED)
    with simhbase.open(url, access="read") as index:
        check_mixed(index, done)


def test_bad_lines_are_rejected_and_tags_kept_by_a_service(tmp_path: Path) -> None:
    simhbase.open(f"rocksdb:{tmp_path}/store", create=Profile(verify=False)).close()
    with serving("rocksdb:store", tmp_path) as service:
        done = run_whole(service.url, tmp_path, MIXED)
    with simhbase.open(f"rocksdb:{tmp_path}/store", access="read") as index:
        check_mixed(index, done)


@pytest.mark.hbase
def test_bad_lines_are_rejected_and_tags_kept_in_hbase(hbase: Cluster, tmp_path: Path) -> None:
    url = hbase.empty_store("lines")
    simhbase.open(url, create=Profile(verify=False)).close()
    done = run_whole(url, tmp_path, MIXED)
    with simhbase.open(url, access="read") as index:
        check_mixed(index, done)


def check_message(done: subprocess.CompletedProcess[str], *said: str) -> None:
    """It ended with one line that says all this."""
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("worker.py: ")
    assert done.stderr.count("\n") == 1
    for each in said:
        assert each in done.stderr


def test_a_fleet_says_why_it_cannot_begin(tmp_path: Path) -> None:
    check_message(run_whole("rocksdb:nothing", tmp_path, []), "rocksdb:nothing")
    with simhbase.open(f"rocksdb:{tmp_path}/store", create=Profile(verify=False)):
        check_message(run_whole("rocksdb:store", tmp_path, []), "store")
    check_message(run_whole("rocksdb:store", tmp_path, [], "--token-file", "none"), "none")


def test_a_fleet_says_why_its_workers_cannot_go_on(tmp_path: Path) -> None:
    simhbase.open(f"rocksdb:{tmp_path}/store", create=Profile(verify=False)).close()
    tokens = {"tokens": f"write {TOKEN}  the crawlers\n", "unknown": f"{TOKEN}-of-old\n"}
    for name, content in tokens.items():
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o600)
    lines = list(map(json.dumps, DOCUMENTS))
    with serving("rocksdb:store", tmp_path, "--token-file", "tokens") as service:
        done = run_whole(service.url, tmp_path, lines, "--token-file", "unknown", "--workers", "2")
        check_message(done, service.url, "unknown token")
        done = run_whole(service.url, tmp_path, lines, "--token-file", "tokens")
        check_message(done, "give only the token")
        assert TOKEN not in done.stderr
