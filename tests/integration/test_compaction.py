"""The files of an embedded store are merged: beside readers, interrupted, killed, without room."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import simhbase
from simhbase.admin import Administrator
from simhbase.drawers.layout import layout
from simhbase.drawers.rowkeys import encode
from simhbase.errors import StoreFailed, UsageError
from simhbase.progress import Advance, Total
from simhbase.stores import create_store, open_store
from simhbase.stores.base import Changes
from simhbase.stores.rocksdb import compaction
from simhbase.stores.rocksdb.store import RocksStore
from simhbase.stores.strings import Strings
from tests.command_line import environment, run

COUNT = 60_000
PARTS = 4
SPREAD = 0x9E3779B97F4A7C15
TIMEOUT = 120  # seconds
KEYS = encode(np.random.default_rng(2).integers(0, 2**64, COUNT, dtype=np.uint64), layout("5x2"))


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with several files a table, all in the first level."""
    url = f"rocksdb:{tmp_path / 'store'}"
    store = create_store(url)
    for number, part in enumerate(np.array_split(KEYS, PARTS)):
        keys = Strings.of([b"%d-%d" % (number, row) for row in range(2000)])
        rows = keys, Strings.of([b"a document"] * 2000)
        store.commit(Changes(1, part, part[:0].reshape(-1, 13), {"documents": rows}))
    store.close()
    return url


def opened(url: str) -> RocksStore:
    store = open_store(url, "write")
    assert isinstance(store, RocksStore)
    return store


def files(store: RocksStore) -> set[int]:
    """The levels that files are in."""
    return {file["level"] for file in store.database.rdict.live_files()}


def assert_all_there(store: RocksStore) -> None:
    assert (store.drawers.times(KEYS[::100]) >= 0).all()
    assert len(store.records("documents").scan([b"3-"], 5000)[0]) == 2000


def test_all_files_are_merged_into_one_level_and_said_how_far_that_is(url):
    told = []

    @contextmanager
    def progress(unit: str, total: Total) -> Iterator[Advance]:
        told.append((unit, total()))
        yield lambda counted, done: told.append((counted, done))

    store = opened(url)
    assert 0 in files(store)
    store.compact(progress, whole=True)
    assert len(files(store)) == 1
    assert_all_there(store)
    store.close()
    (unit, total), *steps = told
    assert unit == "bytes"
    assert all(counted >= 0 and done <= total for counted, done in steps)


def test_where_much_is_new_all_is_merged_and_where_little_is_the_newest_files(url):
    store = opened(url)
    store.compact()
    assert len(files(store)) == 1
    whole = {file["name"] for file in store.database.rdict.live_files() if file["size"] > 1 << 20}
    some = encode(np.random.default_rng(5).integers(0, 2**64, 1000, dtype=np.uint64), layout("5x2"))
    store.drawers.add(some)
    store.compact()
    assert whole & {file["name"] for file in store.database.rdict.live_files()}, "the large files stay"
    assert_all_there(store)
    assert (store.drawers.times(some) >= 0).all()
    store.close()


def test_what_was_deleted_takes_no_room_any_more(url):
    store = opened(url)
    store.compact(whole=True)
    before = store.drawers.approximate_size().bytes
    store.drawers.remove(KEYS[: COUNT // 2].reshape(-1, 13), np.zeros(COUNT // 2 * 10, np.int64))
    store.compact(whole=True)
    assert store.drawers.approximate_size().bytes < 0.6 * before
    store.close()


def test_an_interrupted_compaction_harms_nothing_and_writes_go_on(url):
    def stops(unit: str, total: Total) -> object:
        raise KeyboardInterrupt

    @contextmanager
    def stops_within(unit: str, total: Total) -> Iterator[Advance]:
        def advance(counted: int, done: int) -> None:
            raise KeyboardInterrupt

        yield advance

    store = opened(url)
    for progress in (stops, stops_within):
        with pytest.raises(KeyboardInterrupt):
            store.compact(progress, whole=True)
        assert_all_there(store)
        store.records("documents").put([(b"after", b"")])
        store.require_writable()
    store.compact(whole=True)
    assert len(files(store)) == 1
    assert_all_there(store)
    store.close()


def test_a_follower_reads_on_meanwhile(url):
    store = opened(url)
    reader = open_store(url, "read")

    @contextmanager
    def reading(unit: str, total: Total) -> Iterator[Advance]:
        def advance(counted: int, done: int) -> None:
            reader.refresh()
            assert_all_there(reader)

        yield advance

    store.compact(reading, whole=True)
    reader.refresh()
    assert_all_there(reader)
    reader.close()
    store.close()


def test_without_room_it_says_so_and_a_load_only_merges_the_newest_files(url, monkeypatch):
    monkeypatch.setattr(compaction.shutil, "disk_usage", lambda folder: SimpleNamespace(free=1 << 20))
    store = opened(url)
    with pytest.raises(StoreFailed, match=r"takes room for .* make room first"):
        store.compact(whole=True)
    store.compact()
    assert_all_there(store)
    store.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_command_that_was_stopped_can_be_run_again(tmp_path, number):
    documents = tmp_path / "documents.jsonl"
    with documents.open("w") as lines:
        lines.writelines(
            f'{{"id": "{i}", "fingerprint": "{i * SPREAD % 2**64:016x}"}}\n' for i in range(30_000)
        )
    url = f"rocksdb:{tmp_path / 'store'}"
    assert (
        run(
            "load", documents.name, "--fingerprint-field", "fingerprint", "--store", url, cwd=tmp_path
        ).returncode
        == 0
    )
    command = [sys.executable, "-m", "simhbase", "compact", "--json", "--store", url]
    stopped = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(0.5)
    stopped.send_signal(number)
    stopped.communicate(timeout=TIMEOUT)
    done = subprocess.run(command, env=environment(), capture_output=True, check=True, timeout=TIMEOUT)
    assert b'"bytes_after"' in done.stdout
    assert simhbase.check(url).clean
    with simhbase.open(url, access="read") as index:
        assert Administrator(index).stats(exact=True).documents == 30_000


def test_a_store_that_is_none_of_files_has_nothing_to_merge():
    with pytest.raises(UsageError, match="major_compact"):
        simhbase.compact("hbase://127.0.0.1:1/none")
