"""Many new documents come to the embedded store as files; whatever happens, all of them are there or none."""

import multiprocessing
import random
import time
from collections.abc import Callable
from contextlib import closing, suppress
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

from simhbase.admin.check import Checker
from simhbase.drawers.layout import layout
from simhbase.drawers.scheme import SimHashScheme
from simhbase.errors import StoreFailed
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import writer as writing
from simhbase.index.reader import Reader
from simhbase.index.writer import DocumentBatch, Writer
from simhbase.model.values import Query
from simhbase.stores import create_store, drop_store, open_store
from simhbase.stores.base import Store
from simhbase.stores.rocksdb import RocksStore, ingestion
from simhbase.stores.rocksdb import store as store_module
from tests.content import content

SCHEME = SimHashScheme(layout("5x2"), k=3)
NEW = [f"new{number}" for number in range(50)]
OLD = ["old", "moving"]
COMPLETE = 10  # the step at which the files are complete, and none is handed over


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"rocksdb:{tmp_path / 'store'}"


@pytest.fixture(autouse=True)
def files_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is new comes as files, however little it is."""
    monkeypatch.setattr(store_module, "FILE_ROWS", 1)
    monkeypatch.setattr(writing, "CHANGED_AT_ONCE", 3)


def values(ids: list[str], seed: int) -> FingerprintBatch:
    """A fingerprint of each id; some are equal."""
    chance = random.Random(seed)
    few = [chance.getrandbits(64) for _ in range(len(ids) // 2 + 1)]
    return FingerprintBatch.bare(np.array([chance.choice(few) for _ in ids], dtype=np.uint64))


def add(store: Store, ids: list[str], seed: int = 1) -> None:
    Writer(store, SCHEME).add(DocumentBatch(ids, values(ids, seed)))


def found(store: Store, ids: list[str], seed: int = 1) -> list[str]:
    """Those ids that a lookup of their fingerprints finds."""
    lookups = Reader(store, SCHEME).find(values(ids, seed), Query(k=0))
    return [
        document
        for document, lookup in zip(ids, lookups, strict=True)
        if document in [match.id for match in lookup.matches]
    ]


def of_files(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir() if each.name.startswith("ingest")]


@pytest.mark.parametrize("seed", range(5))
def test_the_tables_are_the_same_as_by_the_log(
    url: str, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [f"d{number}" for number in range(40)]

    def change(store: Store) -> None:
        chance = random.Random(seed)
        for step in range(8):
            if chance.random() < 0.3:
                Writer(store, SCHEME).delete(chance.sample(ids, 10))
            else:
                add(store, chance.sample(ids, chance.randint(1, 40)), chance.choice([seed, step]))

    with closing(create_store(url)) as by_files:
        change(by_files)
        assert of_files(tmp_path / "store") == []
        monkeypatch.setattr(store_module, "FILE_ROWS", 1 << 60)
        with closing(create_store(f"rocksdb:{tmp_path / 'other'}")) as by_the_log:
            change(by_the_log)
            assert content(by_files) == content(by_the_log)
        assert Checker(by_files, SCHEME).check().problems == {}


def test_files_of_the_index_wait_to_be_merged(url: str) -> None:
    """Merged by fours, rows of a load would be written more often."""
    with closing(create_store(url)) as store:
        assert isinstance(store, RocksStore)
        index = store.database.families["index"]
        for number in range(8):
            add(store, [f"{number}-{each}" for each in range(20)], seed=number)
            assert not index.property_int_value("rocksdb.compaction-pending")
        assert index.property_int_value("rocksdb.num-files-at-level0") == 7, "the first one lies deeper"
        store.compact()
        assert index.property_int_value("rocksdb.num-files-at-level0") == 0


class Stop(BaseException):
    """The process is gone."""


def stopping_at(monkeypatch: pytest.MonkeyPatch, number: int) -> Callable[[], int]:
    """Stops at a step of that number, right before or right behind it. Returns what says how many there
    were."""
    count = 0

    def stepping(step: Callable[..., None]) -> Callable[..., None]:
        def run(*args: object, **kwargs: object) -> None:
            nonlocal count
            for do in (lambda: None, lambda: step(*args, **kwargs)):
                do()
                if count == number:
                    raise Stop
                count += 1

        return run

    monkeypatch.setattr(ingestion, "_write_index", stepping(ingestion._write_index))
    monkeypatch.setattr(ingestion, "_write_records", stepping(ingestion._write_records))
    monkeypatch.setattr(ingestion, "sync", stepping(ingestion.sync))
    monkeypatch.setattr(ingestion.shutil, "rmtree", stepping(ingestion.shutil.rmtree))
    monkeypatch.setattr(ingestion.Ingestion, "_hand_over", stepping(ingestion.Ingestion._hand_over))
    return lambda: count


def prepared(url: str) -> None:
    with closing(create_store(url)) as store:
        add(store, OLD, seed=7)


def stopped(url: str, number: int) -> bool:
    """Whether adding stopped at a step."""
    with pytest.MonkeyPatch.context() as patch, closing(open_store(url, "write")) as store:
        stopping_at(patch, number)
        try:
            add(store, NEW)
        except Stop:
            return True
        return False


def test_who_stops_at_any_step_leaves_all_or_nothing(tmp_path: Path) -> None:
    outcomes = []
    number = 0
    while True:
        url = f"rocksdb:{tmp_path / str(number)}"
        prepared(url)
        was_stopped = stopped(url, number)
        # What readers see until somebody writes again: none of them by a lookup, or all.
        with closing(open_store(url, "read")) as reader:
            assert found(reader, NEW) in ([], NEW)
        with closing(open_store(url, "write")) as store:
            there = found(store, NEW)
            assert found(store, OLD, seed=7) == OLD
            assert Checker(store, SCHEME).check().problems == {}
            assert Checker(store, SCHEME).check().garbage == {}
            add(store, NEW)  # again
            assert found(store, NEW) == NEW
        assert there in ([], NEW)
        assert of_files(tmp_path / str(number)) == []
        outcomes.append(bool(there))
        if not was_stopped:
            break
        number += 1
    assert number > COMPLETE
    # From the step on at which the files are complete, all is there.
    assert outcomes == sorted(outcomes)
    assert outcomes.index(True) == COMPLETE


def test_a_stop_while_what_was_left_is_handed_over_is_mended_by_the_next(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared(url)
    assert stopped(url, COMPLETE)
    for number in range(10):
        with monkeypatch.context() as patch, suppress(Stop):
            stopping_at(patch, number)
            open_store(url, "write").close()
    with closing(open_store(url, "write")) as store:
        assert found(store, NEW) == NEW


def test_what_failed_to_be_handed_over_comes_before_the_next_write(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would hide what is written later."""
    hand_over = ingestion.Ingestion._hand_over
    with closing(create_store(url)) as store:
        with monkeypatch.context() as patch:

            def full(self: ingestion.Ingestion, table: str) -> None:
                if table == "index":
                    raise Exception("IO error: No space left on device")
                hand_over(self, table)

            patch.setattr(ingestion.Ingestion, "_hand_over", full)
            with pytest.raises(StoreFailed, match="Free some disk space and repeat this"):
                add(store, NEW)
            with pytest.raises(StoreFailed, match="Free some disk space"):
                add(store, OLD, seed=7)
        assert Writer(store, SCHEME).delete(NEW[:10]) == 10
        assert found(store, NEW) == NEW[10:]
    with closing(open_store(url, "write")) as store:
        assert found(store, NEW) == NEW[10:]
        assert Checker(store, SCHEME).check().problems == {}


@pytest.mark.parametrize("table", ["fingerprints", "index", "documents"])
def test_what_failed_to_be_handed_over_is_there_when_it_is_written_again(
    url: str, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    """And a delete beside it takes no index rows that another document needs."""
    hand_over = ingestion.Ingestion._hand_over
    same = FingerprintBatch.bare(np.full(2, 12345, dtype=np.uint64))
    with closing(create_store(url)) as store:
        writer = Writer(store, SCHEME)
        with monkeypatch.context() as patch:

            def full(self: ingestion.Ingestion, name: str) -> None:
                if name == table:
                    raise Exception("IO error: No space left on device")
                hand_over(self, name)

            patch.setattr(ingestion.Ingestion, "_hand_over", full)
            with pytest.raises(StoreFailed, match="Free some disk space"):
                writer.add(DocumentBatch(["a", "b"], same))
        assert writer.add(DocumentBatch(["a", "b"], same)).unchanged == 2
        assert writer.delete(["a"]) == 1
        (lookup,) = Reader(store, SCHEME).find(same[:1])
        assert [match.id for match in lookup.matches] == ["b"]
        assert Checker(store, SCHEME).check().problems == {}


def test_no_room_for_the_files_leaves_the_store_as_it_was(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise Exception("IO error: No space left on device")

    prepared(url)
    with closing(open_store(url, "write")) as store:
        before = content(store)
        with monkeypatch.context() as patch:
            patch.setattr(ingestion, "_write_records", full)
            with pytest.raises(StoreFailed, match="Free some disk space"):
                add(store, NEW)
        assert content(store) == before
        add(store, NEW)
        assert found(store, NEW) == NEW


def test_a_reader_beside_the_writer_sees_them(url: str) -> None:
    prepared(url)
    with closing(open_store(url, "write")) as writer, closing(open_store(url, "read")) as reader:
        for number in range(3):
            ids = [f"{number}-{name}" for name in NEW]
            add(writer, ids, seed=number)
            reader.refresh()
            assert found(reader, ids, seed=number) == ids
        assert found(reader, OLD, seed=7) == OLD


def test_a_compacted_store_has_no_files_that_may_hold_any_key(url: str) -> None:
    with closing(create_store(url)) as store:
        assert isinstance(store, RocksStore)
        for number in range(3):
            add(store, [f"{number}-{name}" for name in NEW], seed=number)
        tables = store.database.families.values()
        assert any(_newest_files(table) for table in tables)
        store.compact()
        assert not any(_newest_files(table) for table in tables)
        for number in range(3):
            ids = [f"{number}-{name}" for name in NEW]
            assert found(store, ids, seed=number) == ids


def _newest_files(table: object) -> int:
    return int(table.property_value("rocksdb.num-files-at-level0"))  # type: ignore[attr-defined]


def test_a_dropped_store_leaves_nothing(url: str, tmp_path: Path) -> None:
    prepared(url)
    assert stopped(url, COMPLETE)
    assert of_files(tmp_path / "store") == ["ingest"]
    drop_store(url)
    assert not (tmp_path / "store").exists()


def _adding(url: str, said: Connection) -> None:
    store_module.FILE_ROWS = 1
    with closing(open_store(url, "write")) as store:
        for number in range(10_000):
            add(store, [f"{number}-{name}" for name in NEW], seed=number)
            said.send(number)


@pytest.mark.parametrize("number", range(4))
def test_a_killed_writer_leaves_what_it_had_acknowledged_and_all_or_nothing_of_the_rest(
    url: str, number: int
) -> None:
    prepared(url)
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_adding, args=(url, there))
    process.start()
    there.close()
    done = here.recv()
    time.sleep(0.2 * number + 0.05 * random.random())
    process.kill()
    process.join()
    with suppress(EOFError):
        while True:
            done = here.recv()
    with closing(open_store(url, "write")) as store:
        for each in range(done + 2):
            ids = [f"{each}-{name}" for name in NEW]
            assert found(store, ids, seed=each) in ([ids] if each <= done else [[], ids])
        assert Checker(store, SCHEME).check().problems == {}
        assert Checker(store, SCHEME).check().garbage == {}
