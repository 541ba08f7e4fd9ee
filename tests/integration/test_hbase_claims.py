"""Processes that claim near texts at once on a real HBase, while servers and they themselves are killed."""

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from pathlib import Path

import happybase
import numpy as np
import pytest

from simhbase.admin import vacuum
from simhbase.admin.vacuum import Vacuum
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import open_index
from simhbase.index.claims.batch import LEASE
from simhbase.index.stored_profile import write_profile
from simhbase.loads.load import load
from simhbase.model.values import Claim
from simhbase.profile.profile import Profile
from simhbase.stores import open_store
from tests.claimed import (
    PATIENCE,
    Fleet,
    Given,
    assert_no_near_pair,
    assert_right,
    assert_scopes_claim_apart,
    claim,
    claim_and_stay,
    claim_by,
    clusters,
    fingerprinted,
    texts_of,
)
from tests.cluster import Cluster
from tests.command_line import environment

pytestmark = pytest.mark.hbase

THREADS = 8
SERVER_KILLED_AFTER, WORKER_KILLED_AFTER = 0.3, 0.5  # of the documents that all have to claim


@pytest.fixture
def url(servers: Cluster) -> str:
    url = servers.empty_store("claims")
    with closing(open_store(url, "write")) as store:
        write_profile(store, Profile(verify=False))
    return url


def by_turns(documents: Sequence[tuple[str, int]], size: int) -> list[tuple[str, int]]:
    """The documents of a group apart from each other, so that each worker has one."""
    return [each for start in range(size) for each in documents[start::size]]


def test_of_many_processes_none_keeps_a_near_pair_and_a_dead_one_stops_nobody(url, tmp_path):
    groups = 40
    documents = by_turns(list(clusters(groups, 6)), 6)
    fleet = Fleet(claim_and_stay, url, documents, tmp_path, 4)
    fleet.start()
    fleet.wait_for(WORKER_KILLED_AFTER, worker=0)
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


def test_a_killed_worker_of_one_scope_stops_nobody_in_another(servers, tmp_path):
    url = servers.empty_store("scopes")
    with closing(open_store(url, "write")) as store:
        write_profile(store, Profile(verify=False), scoped=True)
    assert_scopes_claim_apart(url, list(clusters(20, 6)), 6, tmp_path)


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


def claim_by_threads(url: str, worker: int, documents: Sequence[Given], path: Path) -> None:
    """Each document by a claim of its own, many at once."""
    with open_index(url) as index, ThreadPoolExecutor(THREADS) as pool:

        def ask_one(given: Given) -> Claim:
            document, value = given
            batch = FingerprintBatch.bare(np.array([value], dtype=np.uint64))
            return index.claim_batch([document], batch, timeout=120).claims[0]

        claim_by(lambda some: list(pool.map(ask_one, some)), worker, documents, path)


def move_region(cluster: Cluster, table: str) -> None:
    with closing(happybase.Connection(*cluster.gateway, timeout=60_000)) as connection:
        (region,) = connection.table(table).regions()
    cluster.shell(f"move '{region['name'].decode().rstrip('.').rpartition('.')[2]}'")


@pytest.mark.full
@pytest.mark.hbase_cluster
def test_threads_of_a_fleet_while_workers_stop_and_meta_moves_a_gateway_hangs_and_vacuum_runs(
    url, servers, tmp_path
):
    groups = 150
    documents = by_turns(list(clusters(groups, 6)), 6)
    fleet = Fleet(claim_by_threads, url, documents, tmp_path, 4)
    fleet.start()
    fleet.wait_for(0.1)
    stopped = [process.pid for process in fleet.processes[:2]]
    gateway = next(pid for name, pid in servers.description["pids"].items() if name == "thrift-1")
    try:
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        with open_index(url) as index:
            end = time.monotonic() + LEASE + 5
            while time.monotonic() < end:
                move_region(servers, "claims_meta")
                Vacuum(index.store, index.profile.index_scheme, vacuum.LEAST_GRACE, index.clock).run()
        os.kill(stopped[0], signal.SIGCONT)
        os.kill(gateway, signal.SIGSTOP)
        time.sleep(LEASE + 2)
    finally:
        for pid in (*stopped, gateway):
            os.kill(pid, signal.SIGCONT)
    assert fleet.join() == [0] * 4
    assert groups <= assert_right(url, documents, fleet.answers()) < len(documents)


@pytest.mark.full
def test_a_load_that_is_killed_at_any_request_of_its_claims_keeps_nobody_waiting_for_longer_than_a_lease(
    url, tmp_path
):
    values, left = list(islice(far_values(), 100)), list[str]()
    for number, value in enumerate(values):
        line = json.dumps({"id": f"killed/{number}", "hash": f"{value:016x}"})
        (tmp_path / f"{number}.jsonl").write_text(line + "\n")
        command = ["load", f"{number}.jsonl", "--fingerprint-field", "hash", "--unique-only", "--store", url]
        done = subprocess.run(
            [sys.executable, "-m", "tests.killed", str(number + 1), "1.0", *command],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            check=False,
        )
        with open_index(url) as index:
            near = FingerprintBatch.bare(np.array([value ^ 1], dtype=np.uint64))
            (claim,) = index.claim_batch([f"near/{number}"], near, timeout=5 * LEASE).claims
        left.append(claim.outcome)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
    assert left[-1] == "duplicate"
    assert {"accepted", "duplicate"} == set(left)
    claimed = [
        pair
        for number, value in enumerate(values)
        for pair in ((f"killed/{number}", value), (f"near/{number}", value ^ 1))
    ]
    assert len(assert_no_near_pair(url, claimed)) == len(left)


def far_values() -> Iterator[int]:
    chance = random.Random(5)
    while True:
        yield chance.getrandbits(64)


@pytest.mark.full
@pytest.mark.hbase_cluster
def test_twenty_thousand_texts_while_a_region_server_is_killed(url, servers, tmp_path):
    """News of two crawls, of which many are the same."""
    texts = [each for name in ("xwlb_chinadata", "xwlb_duckburn") for each in texts_of(name, 10_000)]
    documents = list(fingerprinted(texts).items())
    random.Random(1).shuffle(documents)
    fleet = Fleet(claim_and_stay, url, documents, tmp_path, 8)
    fleet.start()
    try:
        fleet.wait_for(SERVER_KILLED_AFTER)
        servers.run("kill", "regionserver-1")
        fleet.wait_for(WORKER_KILLED_AFTER)
        fleet.processes[0].kill()
        assert fleet.join() == [-signal.SIGKILL, *[0] * 7]
        assert assert_right(url, documents, fleet.answers()) < len(documents)
    finally:
        servers.run("up")
