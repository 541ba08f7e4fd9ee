"""Stores on servers that many processes write, each change in one step: PostgreSQL and Redis."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import simhbase
from simhbase.admin.check import Checker
from simhbase.errors import ProfileMismatch, StoreBusy, StoreUnreachable, TablesMissing
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index, open_index
from simhbase.profile.profile import Profile
from simhbase.stores import drop_store, open_store
from tests.claimed import (
    Fleet,
    assert_no_near_pair,
    assert_right,
    assert_scopes_claim_apart,
    claim_and_stay,
    clusters,
)
from tests.command_line import COMMAND, documents, environment, fingerprints, result, run, texts
from tests.postgresql import PostgreSQL
from tests.redis import Redis
from tests.relay import LOCALHOST, Relay
from tests.service import serving
from tests.services import Server
from tests.services import started as started_server

KINDS: dict[str, type[Server]] = {"postgresql": PostgreSQL, "redis": Redis}
SERVERS = [pytest.param(name, marks=getattr(pytest.mark, name)) for name in KINDS]


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def url(server: Server) -> str:
    """A store with a profile, and nothing in it."""
    url = server.empty_store("integration")
    simhbase.open(url, create=Profile(verify=False)).close()
    return url


@pytest.fixture(params=SERVERS)
def fallible(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server for tests that stop it."""
    with started_server(KINDS[request.param]) as server:
        yield server
        server.start()  # it is stopped once more


def add(index: Index, given: Sequence[tuple[str, int]]) -> None:
    values = np.array([value for _, value in given], dtype=np.uint64)
    index.add_fingerprints([name for name, _ in given], values)


def test_every_command_works(server: Server, tmp_path: Path) -> None:
    url = server.empty_store("commands")
    contents = texts(60)
    path = documents(tmp_path / "news.jsonl", contents)
    store = ("--store", url)
    assert run("load", *store, path, cwd=tmp_path).returncode == 10
    assert result("tables", "create", *store, cwd=tmp_path)["store"] == url
    assert result("load", *store, path, cwd=tmp_path)["loaded"] == 60
    assert result("load", *store, path, cwd=tmp_path)["loaded"] == 60
    (again,) = [
        result("load", *store, "--unique-only", documents(tmp_path / "b.jsonl", contents, "e"), cwd=tmp_path)
    ]
    assert (again["loaded"], again["duplicates"]) == (0, 60)
    found = result("find", *store, "--id", "d7", cwd=tmp_path)
    assert [match["id"] for match in found["matches"]] == ["d7"]
    assert len(result("find", *store, path, cwd=tmp_path)) == 60
    assert len(result("list", *store, cwd=tmp_path)) == 60
    assert result("delete", *store, "d0", "d1", cwd=tmp_path)["deleted"] == 2
    assert result("stats", *store, "--exact", cwd=tmp_path)["documents"] == 58
    assert result("stats", *store, cwd=tmp_path)["documents"] == 58
    assert result("check", *store, cwd=tmp_path)["clean"]
    assert result("check", *store, "--repair", cwd=tmp_path)["clean"]
    assert result("check", *store, "--part", "1/4", cwd=tmp_path)["clean"]
    assert run("vacuum", *store, cwd=tmp_path).returncode == 0
    assert result("compact", *store, cwd=tmp_path)["bytes_after"] > 0
    assert result("tables", "check", *store, cwd=tmp_path)["fixed_texts"] == 24
    assert result("tables", "describe", *store, cwd=tmp_path)["profile"]["scheme"] == "simhash"
    assert len(result("loads", *store, cwd=tmp_path)) > 0
    assert run("tables", "create", *store, "--set", "layout=4x1", cwd=tmp_path).returncode == 12
    assert run("tables", "snapshot", *store, "copy", cwd=tmp_path).returncode == 2
    assert run("dedup", "--against", url, path, cwd=tmp_path).returncode == 0
    asked = run("tables", "drop", *store, cwd=tmp_path)
    assert f" of {url}: give --yes" in asked.stderr.decode()
    assert result("tables", "drop", *store, "--yes", cwd=tmp_path)["dropped"]
    assert run("find", *store, "--id", "d7", cwd=tmp_path).returncode == 10


@pytest.mark.parametrize("scheme", ["simhash", "minhash"])
def test_stores_are_migrated_from_and_to_others(server: Server, tmp_path: Path, scheme: str) -> None:
    url, back = server.empty_store("migrated"), f"rocksdb:{tmp_path / 'back.db'}"
    path = documents(tmp_path / "news.jsonl", texts(40))
    profile = ("--set", f"scheme={scheme}")
    assert run("load", path, *profile, cwd=tmp_path).returncode == 0
    assert result("migrate", "--to", url, cwd=tmp_path)["added"] == 40
    assert result("migrate", "--store", url, "--to", back, cwd=tmp_path)["added"] == 40
    assert result("check", "--store", url, cwd=tmp_path)["clean"]
    there = [
        result("find", "--store", each, path, cwd=tmp_path) for each in ("rocksdb:simhbase.db", url, back)
    ]
    assert there[0] == there[1] == there[2]


def test_many_documents_replace_what_is_there(url: str) -> None:
    random_ = np.random.default_rng(1)
    values = random_.integers(0, 1 << 64, 5_000, dtype=np.uint64)
    ids = [f"copied/{number}/{'x' * (number % 7)}" for number in range(len(values))]
    with open_index(url) as index:
        assert index.add_fingerprints(ids, values).added == 5_000
        values[::2] = random_.integers(0, 1 << 64, 2_500, dtype=np.uint64)
        report = index.add_fingerprints(ids, values, [{"tag": name[-1]} for name in ids])
        assert (report.added, report.updated) == (0, 2_500)
        assert index.fingerprints(ids) == values.tolist()
        assert index.documents(["copied/1/x"])[0].tags == {"tag": "x"}  # type: ignore[union-attr]
    assert simhbase.check(url).clean


def test_of_many_processes_none_keeps_a_near_pair_and_a_dead_one_stops_nobody(
    url: str, tmp_path: Path
) -> None:
    given = list(clusters(150, 8))
    fleet = Fleet(claim_and_stay, url, [each for start in range(8) for each in given[start::8]], tmp_path, 4)
    fleet.start()
    fleet.wait_for(0.3)
    fleet.processes[0].kill()
    assert fleet.join() == [-signal.SIGKILL, 0, 0, 0]
    assert 150 <= assert_right(url, given, fleet.answers()) < len(given)


def test_a_killed_worker_of_one_scope_stops_nobody_in_another(server: Server, tmp_path: Path) -> None:
    url = server.empty_store("scopes")
    simhbase.open(url, create=Profile(verify=False), scoped=True).close()
    assert_scopes_claim_apart(url, list(clusters(60, 8)), 8, tmp_path)


def test_two_unique_loads_at_once_keep_no_near_pair(url: str, tmp_path: Path) -> None:
    given = list(clusters(50, 6))
    parts = {"even": dict(given[::2]), "odd": dict(given[1::2])}
    for name, part in parts.items():
        fingerprints(tmp_path / f"{name}.jsonl", part)
    commands = [
        [
            *COMMAND,
            "load",
            f"{name}.jsonl",
            "--fingerprint-field",
            "f",
            "--unique-only",
            "--store",
            url,
            "--json",
        ]
        for name in parts
    ]
    running = [
        subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE)
        for command in commands
    ]
    for process in running:
        process.communicate(timeout=120)
    assert [process.returncode for process in running] == [0, 0]
    assert len(assert_no_near_pair(url, given)) >= 50


def test_adds_and_deletes_of_many_threads_leave_no_damage(url: str) -> None:
    with open_index(url) as index, ThreadPoolExecutor(6) as pool:

        def work(worker: int) -> None:
            chance = random.Random(worker)
            for _ in range(25):
                ids = [f"d{chance.randrange(12)}" for _ in range(3)]
                if chance.random() < 0.3:
                    index.delete(ids)
                else:
                    add(index, [(name, chance.randrange(8)) for name in dict.fromkeys(ids)])
                index.find_fingerprints(np.array([chance.randrange(8)], dtype=np.uint64))

        list(pool.map(work, range(6)))
        assert len(list(index.stored())) == len(index)
    report = simhbase.check(url)
    assert report.clean
    assert not report.garbage


WRITES = {
    "add": lambda index: index.add_fingerprints(["late"], [1 << 40]),
    "claim": lambda index: index.claim_batch(["late"], FingerprintBatch.bare(np.array([1 << 40], np.uint64))),
}


@pytest.mark.parametrize("again", [True, False], ids=["created again", "dropped"])
@pytest.mark.parametrize("write", ["add", "claim"])
def test_who_opened_tables_that_were_dropped_changes_no_others(url: str, write: str, again: bool) -> None:
    """At once, and not only when it looks whether they are the same."""
    with open_index(url) as index:
        index.add_fingerprints(["a"], [7])
        drop_store(url)
        if again:
            with simhbase.open(url, create=Profile(verify=False, layout="4x1")) as other:
                other.add_fingerprints(["a"], [7])
        with pytest.raises((ProfileMismatch, TablesMissing) if again else TablesMissing):
            WRITES[write](index)
    if again:
        with open_index(url, access="read") as other:
            assert [document and document.id for document in other.documents(["a", "late"])] == ["a", None]
            assert Checker(other.store, other.profile.index_scheme).check().clean
        drop_store(url)
    with pytest.raises(TablesMissing, match="no tables to drop"):
        drop_store(url)


def test_a_child_of_a_fork_has_connections_of_its_own(url: str) -> None:
    with open_index(url) as index:
        add(index, [("a", 1)])
        child = os.fork()
        if child == 0:
            found = index.documents(["a"]) != [None]
            os._exit(0 if found else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert index.documents(["a"]) != [None]


def test_all_connections_are_busy_for_a_while(url: str) -> None:
    with (
        closing(open_store(f"{url}&connections=1&timeout=1", "write")) as store,
        ThreadPoolExecutor(1) as pool,
    ):
        with store.exclusive():
            waiting = pool.submit(store.records("meta").get, [b"a"])
            with pytest.raises(StoreBusy, match="connections"):
                waiting.result()
        assert store.records("meta").get([b"a"]) == [None]


def test_a_lock_is_waited_for_and_then_said(url: str, tmp_path: Path) -> None:
    with closing(open_store(url, "write")) as holder, open_index(f"{url}&timeout=1") as index:
        with holder.exclusive():
            with pytest.raises(StoreBusy, match=r"held (the|a) lock for 1 s"):
                add(index, [("a", 1)])
            assert index.documents(["a"]) == [None]  # reads go on
            assert run("delete", "a", "--store", f"{url}&timeout=1", cwd=tmp_path).returncode == 13
        add(index, [("a", 1)])


@pytest.mark.parametrize("what", ["request", "answer"])
def test_a_change_whose_connection_is_cut_is_told_and_repeating_it_mends(server: Server, what: str) -> None:
    name = server.empty_store("cut").rpartition("=")[2]
    simhbase.open(server.store(name), create=Profile(verify=False)).close()
    with (
        Relay((LOCALHOST, server.port)) as relay,
        open_index(server.through(relay, name, timeout=20)) as index,
    ):
        add(index, [("a", 1), ("b", 2)])
        lose = relay.lose_request_for if what == "request" else relay.lose_answer_to
        lose("COMMIT\0" if server.service == "postgresql" else "change\r\n")
        with pytest.raises(StoreUnreachable):
            add(index, [("b", 1 << 40), ("c", 1)])
        assert relay.has_lost_all
        # All or nothing.
        stored = index.fingerprints(["a", "b", "c"])
        assert stored in ([1, 2, None], [1, 1 << 40, 1])
        assert (stored[2] == 1) == (what == "answer")
        add(index, [("b", 1 << 40), ("c", 1)])
        assert index.fingerprints(["a", "b", "c"]) == [1, 1 << 40, 1]
    report = simhbase.check(server.store(name))
    assert report.clean
    assert not report.garbage


def test_a_server_that_restarts_is_waited_for(fallible: Server) -> None:
    url = fallible.store("restarted")
    with simhbase.open(url, create=Profile(verify=False)) as index:
        add(index, [("a", 1)])
        fallible.stop()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(index.documents, ["a"])
            time.sleep(0.5)
            fallible.start()
            assert waiting.result() != [None]
        add(index, [("b", 1 << 40)])
        assert index.store.counters()["retries"] > 0


def test_a_service_whose_server_is_gone_says_so_at_once_until_it_is_back(
    fallible: Server, tmp_path: Path
) -> None:
    url = fallible.store("gone")
    simhbase.open(url, create=Profile(verify=False)).close()
    (text,) = texts(1)
    with serving(url, tmp_path) as service:
        assert service.post("/v1/documents", {"id": "a", "text": text}).status == 200
        fallible.stop()
        for _ in range(20):
            for away in (service.post("/v1/find", {"text": text}), service.get("/readyz")):
                assert (away.status, away.code) == (503, "store_unreachable"), away.body
        (beginning,) = [line["message"] for line in service.logged() if line["level"] == "warning"]
        assert beginning.startswith("waiting for ")
        fallible.start()
        service.await_ready()
        assert service.post("/v1/find", {"text": text}).status == 200
        assert f"{url} answers again, after " in service.log_text()


def test_a_load_whose_server_crashes_ends_with_11_and_resumes(
    fallible: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simhbase.index.load_log.LEASE", 0.5)  # the first run could not say that it has ended
    url = f"{fallible.store('crashed')}&timeout=1"
    simhbase.open(url, create=Profile(verify=False)).close()
    path = fingerprints(tmp_path / "all.jsonl", dict(clusters(1_000, 20)))
    command = ["load", str(path), "--fingerprint-field", "f", "--unique-only", "--store", url, "--json"]
    loading = subprocess.Popen([*COMMAND, *command], cwd=tmp_path, env=environment(), stderr=subprocess.PIPE)
    with closing(open_store(url, "read")) as store:
        while store.records("documents").approximate_size().rows == 0:
            assert loading.poll() is None
            time.sleep(0.05)
    fallible.stop("immediate")
    _, said = loading.communicate(timeout=120)
    assert loading.returncode == 11, said
    assert b"psycopg" not in said
    fallible.start()
    # The first run could not release its lock.
    patient = fallible.store("crashed") + "&timeout=20"
    done = result(*command[:-2], patient, "--json", cwd=tmp_path)
    assert done["documents"] == 20_000
    with open_index(patient, access="read") as index:
        assert len(index) == done["loaded"]
    report = simhbase.check(patient)
    assert report.clean
    assert not report.garbage


@pytest.mark.parametrize("after", [pytest.param(0.0, marks=pytest.mark.full), 0.3])
def test_a_load_that_is_killed_leaves_whole_batches_and_resumes(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: float
) -> None:
    monkeypatch.setattr("simhbase.index.load_log.LEASE", 0.5)  # of the run that was killed
    url = server.empty_store("killed")
    simhbase.open(url, create=Profile(verify=False)).close()
    path = fingerprints(tmp_path / "all.jsonl", dict(clusters(1_500, 10)))
    command = ["load", str(path), "--fingerprint-field", "f", "--unique-only", "--store", url, "--json"]
    loading = subprocess.Popen([*COMMAND, *command], cwd=tmp_path, env=environment())
    with closing(open_store(url, "read")) as store:
        while store.records("documents").approximate_size().rows == 0:
            assert loading.poll() is None
            time.sleep(0.02)
    time.sleep(after)
    loading.kill()
    loading.wait()
    report = simhbase.check(url)
    assert report.clean
    assert not report.garbage
    done = result(*command, cwd=tmp_path)
    assert done["documents"] == 15_000
    with open_index(url, access="read") as index:
        assert len(index) == done["loaded"]
    assert simhbase.check(url).clean
