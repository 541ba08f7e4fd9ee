"""`simhbase migrate`: a store's documents in another one, with what belongs to them."""

import json
import os
import random
import re
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import simhbase
from simhbase import Profile
from simhbase.admin import migrate as migration
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index.rows import document_key
from simhbase.index.stored_profile import read_profile
from simhbase.index.writer import DocumentBatch, Writer
from simhbase.stores import open_store
from simhbase.stores.base import now
from simhbase.stores.meta import Meta
from simhbase.stores.rocksdb import store as store_module
from simhbase.stores.rocksdb.database import Database
from simhbase.stores.rocksdb.store import BATCH_ROWS, RocksStore
from tests.command_line import (
    COMMAND,
    documents,
    environment,
    fingerprints,
    result,
    run,
    texts,
    write_lines,
)
from tests.content import content

STORE, TO = ("--store", "rocksdb:s.db"), ("--to", "rocksdb:t.db")
TARGET = ("--store", "rocksdb:t.db")
COUNTS = ("documents", "added", "updated", "unchanged", "later", "deleted")


def migrate(tmp_path, *options, exit_code=0):
    return result("migrate", *STORE, *TO, *options, cwd=tmp_path, exit_code=exit_code)


def load(tmp_path, values, *options):
    file = fingerprints(tmp_path / "prepared.jsonl", values)
    return result("load", "--fingerprint-field", "f", *STORE, *options, file, cwd=tmp_path)


def counted(report):
    return tuple(report[name] for name in COUNTS)


def spread(count, first=0):
    return {f"d{number}": number * 0x9E3779B97F4A7C15 % 2**64 for number in range(first, first + count)}


def test_a_store_with_other_drawers_has_the_same_documents(tmp_path):
    load(tmp_path, spread(50))
    first = migrate(tmp_path, "--set", "layout=6x3")
    assert counted(first) == (50, 50, 0, 0, 0, 0)
    assert counted(migrate(tmp_path)) == (50, 0, 0, 50, 0, 0)
    asked = ("--fingerprint", f"{spread(8)['d7'] ^ 0b111:016x}")
    there, other = (result("find", *asked, *store, cwd=tmp_path) for store in (STORE, TARGET))
    drawers = [match.pop("drawers") for found in (there, other) for match in found["matches"]]
    assert other == there
    assert drawers[0] != drawers[1]  # of other layouts
    assert [match["id"] for match in other["matches"]] == ["d7"]
    assert result("tables", "describe", *TARGET, cwd=tmp_path)["profile"]["layout"] == "6x3"
    assert result("check", *TARGET, cwd=tmp_path)["index_rows"] == 50 * 20


def test_it_speaks_on_the_console_of_what_there_is(tmp_path):
    load(tmp_path, spread(3))
    done = run("migrate", *STORE, *TO, cwd=tmp_path)
    assert done.returncode == 0
    assert re.search(rb"documents +3\nadded +3\n", done.stdout)
    assert b"lost" not in done.stdout


def test_what_was_written_meanwhile_comes_with_the_next_run(tmp_path):
    load(tmp_path, spread(10))
    migrate(tmp_path)
    load(tmp_path, {"d1": 1, "new": 2})
    result("delete", "d2", *STORE, cwd=tmp_path)
    assert counted(migrate(tmp_path, "--delete-missing")) == (10, 1, 1, 8, 0, 1)
    with simhbase.open(f"rocksdb:{tmp_path / 't.db'}", access="read") as index:
        assert index.fingerprints(["d1", "d2", "new"]) == [1, None, 2]


@pytest.mark.parametrize(
    "options",
    [
        (),
        (
            "--set",
            "verify=true",
        ),
        ("--set", "scheme=minhash"),
        ("--profile", "short"),
    ],
    ids=["simhash", "verified", "minhash", "short"],
)
def test_users_files_and_sketches_are_carried_over(tmp_path, options):
    made = texts(12, words=30)
    documents(tmp_path / "a.jsonl", [*made, f"{made[0]} and"])
    (tmp_path / "own.txt").write_text("line\t3\tsubscribe\n", "utf-8")
    own = ["--set", "boilerplate=own.txt"]
    if "scheme=minhash" not in options and "--profile" not in options:
        (tmp_path / "idf.txt").write_text("and 3.5\nor 1.5\n", "utf-8")
        own += ["--set", "idf=idf.txt", "--set", "weights=tfidf"]
    result("load", "a.jsonl", *own, *options, *STORE, cwd=tmp_path)
    (tmp_path / "own.txt").unlink()
    migrate(tmp_path)
    query = write_lines(tmp_path / "q.jsonl", [{"id": "q", "text": f"{made[0]}\nSubscribe\nand"}])
    there, other = (result("find", query, *store, cwd=tmp_path) for store in (STORE, TARGET))
    assert other == there
    assert "d12" in {match["id"] for match in other["matches"]}
    assert result("check", *TARGET, cwd=tmp_path)["clean"]
    stored = [content(opened) for opened in both_stores(tmp_path)]
    for each in stored:
        each["meta"] = [row for row in each["meta"] if row[0] != b"profile"]
    assert stored[0] == stored[1]


def both_stores(tmp_path):
    for name in ("s.db", "t.db"):
        store = open_store(f"rocksdb:{tmp_path / name}", "read")
        yield store
        store.close()


def test_the_answers_to_the_fixed_texts_are_those_of_the_store_s_creator(tmp_path):
    url, to = (f"rocksdb:{tmp_path / name}" for name in ("s.db", "t.db"))
    load(tmp_path, spread(3))
    with simhbase.open(url) as index:
        meta = Meta(index.store)
        row = meta.get(b"profile")
        record = json.loads(row)
        record["probes"][0] = "0" * 16  # as another version of the tokenizer made it
        meta.put([(b"profile", json.dumps(record).encode())])
    simhbase.migrate(url, to)
    store = open_store(to, "read")
    assert read_profile(store).probes == record["probes"]
    store.close()
    other = f"rocksdb:{tmp_path / 'u.db'}"
    simhbase.open(other, create=Profile(verify=False)).close()
    with pytest.raises(simhbase.ProfileMismatch, match="compute different fingerprints"):
        simhbase.migrate(url, other)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--set", "features=chars:3"), b"features is words, not chars:3"),
        (("--set", "scheme=minhash"), b"scheme is simhash, not minhash"),
        (
            (
                "--set",
                "verify=true",
            ),
            b"verify is off, not on",
        ),
        (("--profile", "short"), b"scheme is simhash, not minhash"),
    ],
)
def test_what_takes_the_texts_again_is_said(tmp_path, options, what):
    load(tmp_path, spread(3))
    done = run("migrate", *STORE, *TO, *options, cwd=tmp_path)
    assert done.returncode == 12
    assert what in done.stderr
    assert b"needs new fingerprints or sketches" in done.stderr
    assert not (tmp_path / "t.db").exists()


def test_a_threshold_that_takes_other_sketches_takes_the_texts_again(tmp_path):
    documents(tmp_path / "a.jsonl", texts(3))
    result("load", "a.jsonl", "--set", "scheme=minhash", "--set", "features=chars:1-3", *STORE, cwd=tmp_path)
    done = run("migrate", *STORE, *TO, "--set", "threshold=0.54-0.7", cwd=tmp_path)
    assert done.returncode == 12
    assert b"threshold is 0.65, not 0.54-0.7" in done.stderr
    assert counted(migrate(tmp_path, "--set", "threshold=0.6", "--set", "bands=32x4"))[:2] == (3, 3)


def test_a_target_with_other_fingerprints_is_refused(tmp_path):
    load(tmp_path, spread(3))
    result("tables", "create", "--set", "features=chars:3", *TARGET, cwd=tmp_path)
    done = run("migrate", *STORE, *TO, cwd=tmp_path)
    assert done.returncode == 12
    assert b"features is words, not chars:3" in done.stderr


def test_the_same_store_twice_is_a_usage_error(tmp_path):
    load(tmp_path, spread(3))
    done = run("migrate", *STORE, "--to", "rocksdb:./s.db", cwd=tmp_path)
    assert done.returncode == 2
    assert b"is the store rocksdb:s.db itself" in done.stderr


def test_a_source_that_is_not_there_exits_10_and_makes_nothing(tmp_path):
    assert run("migrate", *STORE, *TO, cwd=tmp_path).returncode == 10
    assert not (tmp_path / "t.db").exists()


def test_a_target_that_somebody_writes_to_exits_13(tmp_path):
    load(tmp_path, spread(3))
    with simhbase.open(f"rocksdb:{tmp_path / 't.db'}", create=Profile(verify=False)):
        assert run("migrate", *STORE, *TO, cwd=tmp_path).returncode == 13


def test_a_writer_may_have_the_source_open(tmp_path):
    load(tmp_path, spread(3))
    with simhbase.open(f"rocksdb:{tmp_path / 's.db'}") as index:
        index.add_fingerprints(["late"], [7])
        assert counted(migrate(tmp_path)) == (4, 4, 0, 0, 0, 0)


def test_documents_whose_sketch_is_lost_are_left_out_and_said(tmp_path):
    documents(tmp_path / "a.jsonl", texts(3))
    result("load", "a.jsonl", "--set", "scheme=minhash", *STORE, cwd=tmp_path)
    with simhbase.open(f"rocksdb:{tmp_path / 's.db'}") as index:
        table = index.store.records("fingerprints")
        key = next(key for batch in table.iterate() for key, _ in batch)
        table.delete([key])
    done = run("migrate", *STORE, *TO, "--json", cwd=tmp_path)
    assert done.returncode == 3
    report = json.loads(done.stdout)
    assert (report["documents"], report["added"], report["lost_sketches"]) == (3, 2, 1)
    assert b"some documents were not copied" in done.stderr
    assert result("check", *TARGET, cwd=tmp_path)["clean"]


def test_a_run_that_was_killed_is_run_again(tmp_path):
    load(tmp_path, spread(BATCH_ROWS + 2000))
    for _ in range(2):
        with subprocess.Popen(
            [*COMMAND, "migrate", *STORE, *TO], cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL
        ) as process:
            time.sleep(random.uniform(0.3, 1.5))  # any moment will do
            os.kill(process.pid, signal.SIGKILL)
    assert migrate(tmp_path)["documents"] == BATCH_ROWS + 2000
    there, other = (content(store) for store in both_stores(tmp_path))
    assert {**there, "meta": None} == {**other, "meta": None}
    assert counted(migrate(tmp_path, "--delete-missing")) == (
        BATCH_ROWS + 2000,
        0,
        0,
        BATCH_ROWS + 2000,
        0,
        0,
    )


def test_many_documents_come_to_an_embedded_store_as_files_which_is_then_settled(tmp_path, monkeypatch):
    count = BATCH_ROWS + 2000
    load(tmp_path, spread(count))
    taken, settled = [], []
    add_files, compact = Database.add_files, RocksStore.compact
    one_read = 10 * BATCH_ROWS
    monkeypatch.setattr(store_module, "FILE_ROWS", one_read + 1)
    monkeypatch.setattr(migration, "SETTLED", count)
    monkeypatch.setattr(Database, "add_files", lambda *given: taken.append(given) or add_files(*given))
    monkeypatch.setattr(RocksStore, "compact", lambda *given: settled.append(given) or compact(*given))
    for added, files in ((count, 1), (0, 1)):
        report = migrate(tmp_path)
        assert (report["documents"], report["added"]) == (count, added)
        assert (len(taken), len(settled)) == (files, files)
    there, other = (content(store) for store in both_stores(tmp_path))
    assert {**there, "meta": None} == {**other, "meta": None}


def test_python_returns_the_report(tmp_path):
    load(tmp_path, spread(3))
    report = simhbase.migrate(
        f"rocksdb:{tmp_path / 's.db'}", f"rocksdb:{tmp_path / 't.db'}", {"layout": "4x1", "k": 2}
    )
    assert isinstance(report, simhbase.MigrationReport)
    assert (report.documents, report.added) == (3, 3)
    with simhbase.open(f"rocksdb:{tmp_path / 't.db'}", access="read") as index:
        assert (index.profile.layout, index.profile.k) == ("4x1", 2)


@pytest.mark.hbase
def test_a_store_that_one_machine_has_outgrown_goes_to_hbase(hbase, tmp_path):
    to = hbase.url("outgrown")
    load(tmp_path, spread(30))
    done = run("migrate", *STORE, "--to", hbase.url("outgrown").partition("?")[0], cwd=tmp_path)
    assert done.returncode == 10
    try:
        report = result("migrate", *STORE, "--to", to, "--set", "layout=4x1", cwd=tmp_path)
        assert counted(report) == (30, 30, 0, 0, 0, 0)
        assert result("find", "--id", "d7", "--store", to, cwd=tmp_path)["matches"][0]["id"] == "d7"
        assert result("tables", "describe", "--store", to, cwd=tmp_path)["profile"]["layout"] == "4x1"
        result("delete", "d3", "--store", to, cwd=tmp_path)
        assert counted(migrate_back(tmp_path, to)) == (29, 0, 0, 29, 0, 1)
    finally:
        result("tables", "drop", "--yes", "--store", to, cwd=tmp_path)


def migrate_back(tmp_path, url):
    return result("migrate", "--store", url, *TO[:1], "rocksdb:s.db", cwd=tmp_path)


def test_writers_go_on_with_the_source_until_the_switch(tmp_path):
    """The target misses nothing in the end, and its readers never find damage."""
    url, to = (f"rocksdb:{tmp_path / name}" for name in ("s.db", "t.db"))
    chance = random.Random(1)
    ids = [f"d{number}" for number in range(300)]
    has_begun, is_over = threading.Event(), threading.Event()
    load(tmp_path, spread(300))

    def write() -> None:
        with simhbase.open(url) as index:
            while not is_over.is_set():
                some = chance.sample(ids, 20)
                index.add_fingerprints(some, [chance.getrandbits(64) for _ in some])
                index.delete(chance.sample(ids, 5))
                has_begun.set()

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            assert has_begun.wait(60)
            for _ in range(6):
                simhbase.migrate(url, to, delete_missing=True)
                assert simhbase.check(to).clean
        finally:
            is_over.set()
        writing.result()
    simhbase.migrate(url, to, delete_missing=True)
    there, other = (content(store) for store in both_stores(tmp_path))
    assert {**there, "meta": None} == {**other, "meta": None}
    assert versions(url, ids) == versions(to, ids)


def versions(url, ids):
    with simhbase.open(url, access="read") as index:
        return index.store.records("documents").get(list(map(document_key, ids)))


def test_what_a_clock_that_was_ahead_has_written_is_said_to_stay(tmp_path):
    load(tmp_path, {"a": 1})
    with simhbase.open(f"rocksdb:{tmp_path / 's.db'}") as index:
        ahead = Writer(index.store, index.profile.index_scheme, lambda: now() + 3_600_000)
        ahead.add(DocumentBatch(["b"], FingerprintBatch.bare(np.array([2], dtype=np.uint64))))
    migrate(tmp_path)
    result("delete", "b", *STORE, cwd=tmp_path)
    done = run("migrate", *STORE, *TO, "--delete-missing", "--json", cwd=tmp_path)
    report = json.loads(done.stdout)
    assert (report["deleted"], report["too_young"]) == (0, 1)
    assert b"documents kept in rocksdb:t.db that are not in rocksdb:s.db: 1. They were" in done.stderr


@pytest.mark.parametrize(
    ("made", "given"),
    [({}, "layout"), ({}, "k"), ({"verify": True}, "bands"), ({"scheme": "minhash"}, "bands")],
)
def test_a_parameter_that_is_none_is_chosen_by_the_profile(tmp_path, made, given):
    url, to = (f"rocksdb:{tmp_path / name}" for name in ("s.db", "t.db"))
    simhbase.tables.create(url, made)
    for _ in range(2):
        simhbase.migrate(url, to, {given: None})
    assert simhbase.tables.describe(to).profile == simhbase.tables.describe(url).profile
