"""Workers claim near texts of a service, and add others, while it, its servers and they themselves are
killed: what was acknowledged is there and found, and no two near texts were accepted."""

import random
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path

import pytest

import simhbase
from simhbase import Client, Document, Profile
from simhbase.errors import RetryableError
from simhbase.model.values import Claim
from tests.claimed import Fleet, Given, assert_right, claim_by, fingerprinted, texts_of
from tests.cluster import Cluster
from tests.service import Service, serving

WORKERS = 4
ANSWER = 240.0  # seconds in which a client gets one
BETWEEN = 8.0  # seconds between two faults
ADDED_AT_ONCE = 5


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        port: int = listening.getsockname()[1]
        return port


def claim(url: str, worker: int, documents: Sequence[Given], path: Path) -> None:
    with Client(url, timeout=ANSWER) as client:

        def ask(some: list[Given]) -> list[Claim]:
            return client.claim_many([Document(*each) for each in some], timeout=20)

        claim_by(ask, worker, documents, path)


def add(url: str, worker: int, documents: Sequence[Given], path: Path) -> None:
    """Adds documents, and notes those that were acknowledged."""
    with Client(url, timeout=ANSWER) as client, path.open("a") as file:
        for start in range(0, len(documents), ADDED_AT_ONCE):
            some = [Document(*each) for each in documents[start : start + ADDED_AT_ONCE]]
            while True:
                with suppress(RetryableError):
                    client.add(some)
                    break
            print(*(document.id for document in some), sep="\n", file=file, flush=True)


def soaked(
    store: str, folder: Path, seconds: float, faults: Sequence[Callable[[], object]], read: Callable[[], str]
) -> None:
    """Runs a service and its workers for so long, with a fault now and then; then looks at the store."""
    most = 400 if seconds < 60 else 20_000
    claimed = [each for name in ("xwlb_chinadata", "xwlb_duckburn") for each in texts_of(name, most)]
    random.Random(1).shuffle(claimed)
    added = list(texts_of("laws", most))
    port = free_port()
    chance = random.Random(2)
    url = f"http://127.0.0.1:{port}"
    fleet = Fleet(claim, url, claimed, folder / "claims", WORKERS)
    adders = Fleet(add, url, added, folder / "adds", 1)
    end = time.monotonic() + seconds
    killed = 0

    def turn(service: Service) -> bool:
        """One fault after a while; whether the service has been killed."""
        nonlocal killed
        time.sleep(min(BETWEEN, max(0.0, end - time.monotonic())))
        if time.monotonic() >= end:
            return False
        killed += 1
        fault = chance.randrange(len(faults) + 1)
        if fault == len(faults):
            service.process.kill()
            service.process.wait()
            return True
        faults[fault]()
        return False

    started = False
    while time.monotonic() < end:
        with serving(store, folder, "--port", port, "--log-level", "warning") as service:
            if not started:
                started = True
                fleet.start()
                adders.start()
            while time.monotonic() < end and not turn(service):
                pass
            if time.monotonic() >= end:
                for process in (*fleet.processes, *adders.processes):
                    process.kill()
                    process.join()
    answers = fleet.answers()
    acknowledged = "".join(path.read_text() for path in adders.paths).split("\n")[:-1]
    assert killed
    assert len([answer for answer in answers if answer.outcome]) > 20
    kept = assert_right(read(), list(fingerprinted(claimed).items()), answers)
    assert kept > 10
    fingerprints = fingerprinted(added)
    with simhbase.open(read(), access="read", ids_limit=100_000, drawer_limit=None) as index:
        asked = [document for document in acknowledged if document in fingerprints]
        found = index.find_fingerprints([fingerprints[document] for document in asked])
        missing = [
            document
            for document, lookup in zip(asked, found, strict=True)
            if document not in {match.id for match in lookup.matches}
        ]
        assert asked
        assert missing == []


@pytest.mark.parametrize("seconds", [25, pytest.param(600, marks=pytest.mark.full)])
def test_over_an_embedded_store_that_is_killed(seconds, tmp_path):
    store = f"rocksdb:{tmp_path / 's.db'}"
    simhbase.open(store, create=Profile(verify=False)).close()
    soaked(store, tmp_path, seconds, [], lambda: store)


@pytest.mark.full
@pytest.mark.hbase_cluster
def test_over_hbase_whose_servers_are_killed(hbase_cluster: Cluster, tmp_path):
    store = hbase_cluster.empty_store("soak")
    simhbase.open(store, create=Profile(verify=False)).close()

    def server(name: str) -> None:
        hbase_cluster.run("kill", name)
        time.sleep(BETWEEN)
        hbase_cluster.run("up")

    names = ("regionserver-1", "thrift-1")
    faults = [lambda name=name: server(name) for name in names]
    soaked(store, tmp_path, 600, faults, lambda: store)
