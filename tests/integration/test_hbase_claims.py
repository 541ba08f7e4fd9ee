"""Processes that claim near texts at once on a real HBase, while servers and they themselves are killed."""

import gzip
import json
import multiprocessing
import random
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest

from simhbase.drawers.join import pairs_within
from simhbase.errors import RetryableError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import open_index
from simhbase.index.check import Checker
from simhbase.index.stored_profile import write_profile
from simhbase.jobs.load import load
from simhbase.profile import make_profile
from simhbase.stores import open_store
from tests.cluster import Cluster
from tests.reference import DATA

pytestmark = pytest.mark.hbase_cluster

K = 3
PATIENCE = 900.0  # seconds
AT_ONCE = 20  # documents of a claim at most
SERVER_KILLED_AFTER, WORKER_KILLED_AFTER = 0.3, 0.5  # of the documents that all have to claim


@pytest.fixture
def url(hbase_cluster: Cluster) -> str:
    url = hbase_cluster.empty_store("claims")
    with closing(open_store(url, "write")) as store:
        write_profile(store, make_profile({}))
    return url


@dataclass(frozen=True)
class Answer:
    """What a worker was answered about a document, and when: seconds of one clock. outcome None: it was never
    answered, as the worker was killed, or the store failed."""

    id: str
    outcome: str | None
    match: str | None
    begin: float
    end: float


def claim(url: str, worker: int, documents: Sequence[tuple[str, int]], path: Path) -> None:
    """Claims documents in an order of its own, and notes when it begins and what it is answered."""
    chance = random.Random(worker)
    left = list(documents)
    chance.shuffle(left)
    with open_index(url) as index, path.open("a") as file:
        while left:
            some, left = left[: (size := chance.randint(1, AT_ONCE))], left[size:]
            batch = FingerprintBatch.bare(np.array([value for _, value in some], dtype=np.uint64))
            print(
                json.dumps(["begin", [document for document, _ in some], time.monotonic()]),
                file=file,
                flush=True,
            )
            try:
                claims = index.claim_batch([document for document, _ in some], batch, timeout=120).claims
            except RetryableError:
                left += some  # the same claims again
                continue
            undecided = {each.id for each in claims if each.outcome == "undecided"}
            left += [each for each in some if each[0] in undecided]
            answers = [(each.id, each.outcome, each.match and each.match.id) for each in claims]
            print(json.dumps(["end", answers, time.monotonic()]), file=file, flush=True)


def answers_in(path: Path) -> list[Answer]:
    """What a worker has noted; a line that was cut by its end does not count."""
    found, begin, asked = [], 0.0, list[str]()
    *lines, _ = path.read_text().split("\n") if path.exists() else [""]
    for kind, what, when in map(json.loads, lines):
        if kind == "begin":
            found += [Answer(document, None, None, begin, float("inf")) for document in asked]
            asked, begin = what, when
        else:
            found += [Answer(document, outcome, match, begin, when) for document, outcome, match in what]
            asked = []
    return found + [Answer(document, None, None, begin, float("inf")) for document in asked]


@dataclass
class Fleet:
    """Workers that claim the same documents, each under ids of its own and in an order of its own."""

    url: str
    documents: Sequence[tuple[str, int]]
    folder: Path
    workers: int

    def __post_init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.folder.mkdir(exist_ok=True)
        share = -(-len(self.documents) // self.workers)
        parts = [self.documents[start : start + share] for start in range(0, len(self.documents), share)]
        self.paths = [self.folder / str(number) for number in range(len(parts))]
        self.processes: list[BaseProcess] = [
            context.Process(target=claim, args=(self.url, number, part, path), daemon=True)
            for number, (part, path) in enumerate(zip(parts, self.paths, strict=True))
        ]

    def start(self) -> None:
        for process in self.processes:
            process.start()

    def wait_for(self, share: float) -> None:
        """Until so many of the documents have been answered."""
        end = time.monotonic() + PATIENCE
        while sum(answer.outcome is not None for answer in self.answers()) < share * len(self.documents):
            assert time.monotonic() < end, "they do not get on"
            assert any(process.is_alive() for process in self.processes), "all have ended"
            time.sleep(0.2)

    def join(self) -> list[int | None]:
        for process in self.processes:
            process.join(PATIENCE)
        return [process.exitcode for process in self.processes]

    def answers(self) -> list[Answer]:
        return [answer for path in self.paths for answer in answers_in(path)]


def assert_no_near_pair(url: str, documents: Sequence[tuple[str, int]]) -> dict[str, int]:
    """Compares all that is stored with each other, and returns it."""
    ids = [document for document, _ in documents]
    with open_index(url, access="read") as index:
        found = zip(ids, index.fingerprints(ids), strict=True)
        stored = {document: value for document, value in found if value is not None}
        assert Checker(index.store, index.profile.index_scheme).check().is_clean
    assert len(pairs_within(np.array(list(stored.values()), dtype=np.uint64), K).left) == 0
    return stored


def assert_right(url: str, documents: Sequence[tuple[str, int]], answers: Sequence[Answer]) -> int:
    """Checks a history against what is stored; returns how many documents are."""
    fingerprints = dict(documents)
    stored = assert_no_near_pair(url, documents)
    accepted = {answer.id for answer in answers if answer.outcome == "accepted"}
    unanswered = {answer.id for answer in answers if answer.outcome is None}
    assert accepted <= stored.keys() <= accepted | unanswered
    assert {document: fingerprints[document] for document in stored} == stored
    begun = {answer.id: answer.begin for answer in sorted(answers, key=lambda each: -each.begin)}
    for answer in answers:
        assert answer.outcome in ("accepted", "duplicate", "undecided", None), answer
        if answer.outcome == "duplicate":
            assert answer.match in stored, answer
            assert answer.id not in stored, answer
            assert (fingerprints[answer.id] ^ stored[answer.match]).bit_count() <= K, answer
            assert begun[answer.match] <= answer.end, f"{answer}: of what nobody had claimed"
    return len(stored)


def clusters(count: int, size: int) -> Iterator[tuple[str, int]]:
    """Documents in groups: of a group many are within three bits of each other, and not all."""
    chance = random.Random(count)
    for group in range(count):
        centre = chance.getrandbits(64)
        for number in range(size):
            value = centre
            for bit in chance.sample(range(64), chance.randint(0, 3)):
                value ^= 1 << bit
            yield f"{number}/{group}", value


def by_turns(documents: Sequence[tuple[str, int]], size: int) -> list[tuple[str, int]]:
    """The documents of a group apart from each other, so that each worker has one."""
    return [each for start in range(size) for each in documents[start::size]]


def test_of_many_processes_none_keeps_a_near_pair_and_a_dead_one_stops_nobody(url, tmp_path):
    groups = 40
    documents = by_turns(list(clusters(groups, 6)), 6)
    fleet = Fleet(url, documents, tmp_path, 4)
    fleet.start()
    fleet.wait_for(WORKER_KILLED_AFTER)
    fleet.processes[0].kill()
    assert fleet.join() == [-signal.SIGKILL, 0, 0, 0]
    assert assert_right(url, documents, fleet.answers()) < len(documents)
    # What the dead one has left is claimed again.
    again = Fleet(url, documents, tmp_path / "again", 2)
    again.start()
    assert again.join() == [0, 0]
    assert groups <= assert_right(url, documents, [*fleet.answers(), *again.answers()]) < len(documents)
    answered = {answer.id for answer in again.answers() if answer.outcome}
    assert answered == {document for document, _ in documents}


def test_two_unique_loads_at_once_keep_no_near_pair(url, tmp_path):
    documents = list(clusters(50, 6))
    for name, part in (("even", documents[::2]), ("odd", documents[1::2])):
        lines = (json.dumps({"id": document, "hash": f"{value:016x}"}) for document, value in part)
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=load_unique, args=(tmp_path / f"{name}.jsonl", url))
        for name in ("even", "odd")
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(PATIENCE)
    assert [process.exitcode for process in processes] == [0, 0]
    assert 50 <= len(assert_no_near_pair(url, documents)) < len(documents)


def load_unique(path: Path, url: str) -> None:
    from simhbase.corpus.inputs import Inputs
    from simhbase.corpus.record import InputOptions

    load(Inputs([str(path)], InputOptions(fingerprint_field="hash")), url, unique_only=True)


def texts_of(corpus: str, most: int) -> Iterator[tuple[str, str]]:
    path = DATA / f"{corpus}.jsonl.gz"
    if not path.exists():
        pytest.skip(f"{path.name} is not in {DATA}")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for record in map(json.loads, islice(lines, most)):
            yield record["id"], record["text"]


@pytest.mark.full
def test_twenty_thousand_texts_while_a_region_server_is_killed(url, hbase_cluster, tmp_path):
    """News of two crawls, of which many are the same."""
    profile = make_profile({})
    texts = [
        (f"{name}/{document}", text)
        for name in ("xwlb_chinadata", "xwlb_duckburn")
        for document, text in texts_of(name, 10_000)
    ]
    found = profile.fingerprinter().fingerprint_many([text for _, text in texts])
    documents = [
        (document, value)
        for (document, _), value, fits in zip(
            texts, found.fingerprints.values.tolist(), found.accepted.tolist(), strict=True
        )
        if fits
    ]
    random.Random(1).shuffle(documents)
    fleet = Fleet(url, documents, tmp_path, 8)
    fleet.start()
    try:
        fleet.wait_for(SERVER_KILLED_AFTER)
        hbase_cluster.run("kill", "regionserver-1")
        fleet.wait_for(WORKER_KILLED_AFTER)
        fleet.processes[0].kill()
        assert fleet.join() == [-signal.SIGKILL, *[0] * 7]
        assert assert_right(url, documents, fleet.answers()) < len(documents)
    finally:
        hbase_cluster.run("up")
