"""The files of an embedded store are merged: beside readers, interrupted, killed, without room."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import simhbase
from simhbase.admin import Administrator
from simhbase.corpus.inputs import Inputs
from simhbase.corpus.record import InputOptions
from simhbase.corpus.watcher import Watcher
from simhbase.drawers.layout import layout
from simhbase.drawers.rowkeys import encode
from simhbase.errors import StoreFailed, UsageError
from simhbase.loads import load as load_job
from simhbase.process.progress import Advance, Total
from simhbase.stores import create_store, open_store
from simhbase.stores.base import Changes
from simhbase.stores.hbase.schema import TABLES
from simhbase.stores.rocksdb import compaction
from simhbase.stores.rocksdb.store import RocksStore
from simhbase.stores.strings import Strings
from tests.command_line import environment, run
from tests.limits import files_up_to

COUNT = 60_000
PARTS = 4
SPREAD = 0x9E3779B97F4A7C15
TIMEOUT = 120  # seconds
KEYS = encode(np.random.default_rng(2).integers(0, 2**64, COUNT, dtype=np.uint64), layout("5x2"))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return filled(tmp_path)


def filled(tmp_path: Path) -> str:
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
    with pytest.raises(StoreFailed, match=r"needs \d+ MiB of disk space .* free some space first"):
        store.compact(whole=True)
    store.compact()
    assert_all_there(store)
    store.close()


def test_a_full_disk_meanwhile_is_told_and_harms_nothing(url):
    store = opened(url)
    with files_up_to(1 << 20), pytest.raises(StoreFailed, match=r"compacting .* failed.*make room"):
        store.compact(whole=True)
    assert_all_there(store)
    store.records("documents").put([(b"after", b"")])
    store.compact(whole=True)
    assert len(files(store)) == 1
    assert_all_there(store)
    store.close()


class WhileMerging(Watcher):
    """Does something while the files of a store are merged; keeps notes."""

    def __init__(self, meanwhile: Callable[[], AbstractContextManager[None]]) -> None:
        self.notes: list[str] = []
        self._meanwhile = meanwhile

    @contextmanager
    def progress(self, unit: str, total: Total) -> Iterator[Advance]:
        with self._meanwhile() if unit == "bytes" else nullcontext():
            yield lambda counted, done: None

    def note(self, text: str) -> None:
        self.notes.append(text)


def load_and_merge(folder: Path, meanwhile: Callable[[], AbstractContextManager[None]]) -> list[str]:
    """Loads documents, whose files are merged whatever they are like; returns what was noted."""
    watcher = WhileMerging(meanwhile)
    load_job.SETTLED, compaction._is_scattered = 1, lambda table: True
    options = InputOptions(fingerprint_field="fingerprint")
    simhbase.load(Inputs([write_documents(folder)], options, watcher=watcher), f"rocksdb:{folder / 'store'}")
    return watcher.notes


@contextmanager
def killed() -> Iterator[None]:
    os.kill(os.getpid(), signal.SIGKILL)
    yield


def assert_loaded(url: str) -> None:
    assert simhbase.check(url).clean
    with simhbase.open(url, access="read") as index:
        assert Administrator(index).stats(exact=True).documents == 25_000


def test_a_load_whose_merge_meets_a_full_disk_has_stored_all_and_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(load_job, "SETTLED", load_job.SETTLED)
    monkeypatch.setattr(compaction, "_is_scattered", compaction._is_scattered)
    (note,) = load_and_merge(tmp_path, lambda: files_up_to(1 << 20))
    assert re.match(r"all documents are stored, but compacting .* failed.*run simhbase compact", note)
    simhbase.compact(f"rocksdb:{tmp_path / 'store'}")
    assert_loaded(f"rocksdb:{tmp_path / 'store'}")


def test_a_load_that_was_killed_in_its_merge_has_stored_all_and_ends_when_it_is_run_again(tmp_path):
    code = (
        "import sys; from pathlib import Path; from tests.integration.test_compaction import *; "
        "load_and_merge(Path(sys.argv[1]), killed if sys.argv[2] == '1' else nullcontext)"
    )
    command = [sys.executable, "-c", code, tmp_path]
    stopped = subprocess.run([*command, "1"], capture_output=True, check=False, timeout=TIMEOUT)
    assert stopped.returncode == -signal.SIGKILL, stopped.stderr
    assert_loaded(f"rocksdb:{tmp_path / 'store'}")
    subprocess.run([*command, "0"], check=True, timeout=TIMEOUT)
    assert_loaded(f"rocksdb:{tmp_path / 'store'}")


def write_documents(folder: Path) -> str:
    documents = folder / "documents.jsonl"
    with documents.open("w") as lines:
        lines.writelines(
            f'{{"id": "{i}", "fingerprint": "{i * SPREAD % 2**64:016x}"}}\n' for i in range(25_000)
        )
    return str(documents)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_command_that_was_stopped_can_be_run_again(tmp_path, number):
    documents, url = write_documents(tmp_path), f"rocksdb:{tmp_path / 'store'}"
    loading = run("load", documents, "--fingerprint-field", "fingerprint", "--store", url, cwd=tmp_path)
    assert loading.returncode == 0
    command = [sys.executable, "-m", "simhbase", "compact", "--json", "--store", url]
    stopped = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(0.5)
    stopped.send_signal(number)
    stopped.communicate(timeout=TIMEOUT)
    done = subprocess.run(command, env=environment(), capture_output=True, check=True, timeout=TIMEOUT)
    assert b'"bytes_after"' in done.stdout
    assert_loaded(url)


def test_a_store_that_is_none_of_files_has_nothing_to_merge(tmp_path):
    script = [f"major_compact 'name:none_{table}'" for table in TABLES]
    script.append("major_compact 'name:none_met' unless list('name:none_met').empty?")
    with pytest.raises(UsageError, match=re.escape("\n".join(script))):
        simhbase.compact("hbase://127.0.0.1:1/name:none")
    done = run("compact", "--store", "hbase://127.0.0.1:1/name:none", cwd=tmp_path)
    assert done.stdout.decode().splitlines() == [*script, "exit"]
    assert b"run this in the hbase shell" in done.stderr
