"""Processes that claim near texts at once on a real HBase, while servers and they themselves are killed."""

import json
import multiprocessing
import random
import signal
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import open_index
from simhbase.index.stored_profile import write_profile
from simhbase.jobs.load import load
from simhbase.model import Claim
from simhbase.profile import make_profile
from simhbase.stores import open_store
from tests.claimed import (
    PATIENCE,
    Fleet,
    Given,
    assert_no_near_pair,
    assert_right,
    claim_by,
    fingerprinted,
    texts_of,
)
from tests.cluster import Cluster

pytestmark = pytest.mark.hbase_cluster

SERVER_KILLED_AFTER, WORKER_KILLED_AFTER = 0.3, 0.5  # of the documents that all have to claim


@pytest.fixture
def url(hbase_cluster: Cluster) -> str:
    url = hbase_cluster.empty_store("claims")
    with closing(open_store(url, "write")) as store:
        write_profile(store, make_profile({}))
    return url


def claim(url: str, worker: int, documents: Sequence[Given], path: Path) -> None:
    with open_index(url) as index:

        def ask(some: list[Given]) -> list[Claim]:
            values = np.array([value for _, value in some], dtype=np.uint64)
            batch = FingerprintBatch.bare(values)
            return index.claim_batch([document for document, _ in some], batch, timeout=120).claims

        claim_by(ask, worker, documents, path)


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
    fleet = Fleet(claim, url, documents, tmp_path, 4)
    fleet.start()
    fleet.wait_for(WORKER_KILLED_AFTER)
    fleet.processes[0].kill()
    assert fleet.join() == [-signal.SIGKILL, 0, 0, 0]
    assert assert_right(url, documents, fleet.answers()) < len(documents)
    # What the dead one has left is claimed again.
    again = Fleet(claim, url, documents, tmp_path / "again", 2)
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


@pytest.mark.full
def test_twenty_thousand_texts_while_a_region_server_is_killed(url, hbase_cluster, tmp_path):
    """News of two crawls, of which many are the same."""
    texts = [each for name in ("xwlb_chinadata", "xwlb_duckburn") for each in texts_of(name, 10_000)]
    documents = list(fingerprinted(texts).items())
    random.Random(1).shuffle(documents)
    fleet = Fleet(claim, url, documents, tmp_path, 8)
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
