"""What a load says in the end, and files of what is new: whoever stops it, whoever waits for it."""

import json
import threading
from contextlib import chdir
from pathlib import Path
from unittest.mock import patch

import pytest

import simhbase
from simhbase.corpus.inputs import Inputs
from simhbase.index import open_index
from simhbase.loads import load as load_job
from simhbase.loads.job import Load
from simhbase.loads.load import loading
from tests.integration.test_resumed_loads import corpus, loads
from tests.stopping import Crash

STORE = "rocksdb:s.db"


def documents(path: Path, texts: dict[str, str]) -> str:
    path.write_text("".join(json.dumps({"id": name, "text": text}) + "\n" for name, text in texts.items()))
    return str(path)


def text(number: int) -> str:
    return " ".join(f"w{number}x{each}" for each in range(30))


def lines(path: Path) -> list[str]:
    return [json.loads(line)["id"] for line in path.read_text().splitlines()]


@pytest.fixture
def folder(tmp_path):
    corpus(tmp_path / "a.jsonl", 60)
    with chdir(tmp_path):
        yield tmp_path


def job(**options: object) -> Load:
    return Load(inputs=Inputs(["a.jsonl"], threads=1), store=STORE, **options)


UNIQUE = {"unique_only": True, "unique": "u.jsonl", "duplicates": "d.jsonl", "evidence": "e.jsonl"}


def test_a_load_whose_report_nobody_got_reports_again_and_reads_nothing_anew(folder):
    with pytest.raises(Crash), loading(job(**UNIQUE)) as first:
        raise Crash
    (state,) = loads(folder)
    assert state.progress == "finishing"
    files = [(folder / name).read_bytes() for name in ("u.jsonl", "d.jsonl", "e.jsonl")]
    with patch.object(load_job, "store_kept", side_effect=AssertionError), loading(job(**UNIQUE)) as second:
        assert second == first
    assert [(folder / name).read_bytes() for name in ("u.jsonl", "d.jsonl", "e.jsonl")] == files
    (state,) = loads(folder)
    assert state.progress == "finished"


def test_a_store_is_compacted_before_its_load_is_noted_as_finished(folder, monkeypatch):
    seen = []
    monkeypatch.setattr(load_job, "SETTLED", 1)
    compact = "simhbase.stores.rocksdb.store.RocksStore.compact"
    monkeypatch.setattr(
        compact, lambda self, progress: seen.append([each.progress for each in loads(folder)])
    )
    with loading(job()):
        seen.append([each.progress for each in loads(folder)])
    assert seen == [["finishing"], ["finishing"]]


def test_who_waited_for_the_same_load_reports_what_it_did(folder):
    reports = {}
    with loading(job(**UNIQUE)) as first:
        waiting = threading.Thread(
            target=lambda: reports.update(second=simhbase.load(**given(job(**UNIQUE, lock_wait=60))))
        )
        waits = threading.Event()
        with patch.object(load_job, "sleep", lambda seconds: waits.set() or waits.wait(0.05)):
            waiting.start()
            assert waits.wait(60)
            files = (folder / "d.jsonl").read_bytes()
    waiting.join()
    assert reports["second"] == first
    assert (folder / "d.jsonl").read_bytes() == files
    again = simhbase.load(**given(job(**UNIQUE)))
    assert (again.added, again.unchanged) == (0, first.loaded)


def given(job: Load) -> dict[str, object]:
    return {
        "inputs": job.inputs, "store": job.store, "lock_wait": job.lock_wait,
        **{name: getattr(job, name) for name in UNIQUE},
    }  # fmt: skip


def test_a_store_that_nothing_came_into_goes_again(folder):
    (folder / "bad.jsonl").write_text("no json\n")
    assert simhbase.load("bad.jsonl", STORE).counts.nothing_read
    assert not (folder / "s.db").exists()


def test_what_exists_is_skipped(tmp_path):
    url, new = f"rocksdb:{tmp_path / 's.db'}", tmp_path / "new.csv"
    simhbase.load(documents(tmp_path / "a.jsonl", {"a": text(1), "b": text(2)}), url)
    given = documents(tmp_path / "b.jsonl", {"a": text(9), "c": text(3), "d": text(1)})
    report = simhbase.load(given, url, skip_existing=True, unique_only=True, new=new)
    assert (report.documents, report.added, report.unchanged, report.duplicates) == (3, 1, 1, 1)
    assert new.read_text() == f"id,text\nc,{text(3)}\n"
    with open_index(url, access="read") as index:
        assert [match.id for match in index.find(text(1))] == ["a"]


@pytest.mark.parametrize("unique_only", [False, True])
@pytest.mark.parametrize("calls", range(12, 60, 12))
def test_new_is_the_same_after_a_stop(folder, monkeypatch, unique_only, calls):
    from simhbase.corpus import record
    from tests.integration.test_resumed_loads import Steps

    monkeypatch.setattr(record, "CHUNK_RECORDS", 3)
    monkeypatch.setattr(load_job, "CHUNKS_AT_ONCE", 2)
    options = {"unique_only": unique_only, "skip_existing": True, "new": "new.jsonl"}
    simhbase.tables.create(STORE)
    simhbase.tables.create("rocksdb:other.db")
    whole = simhbase.load(Inputs(["a.jsonl"], threads=1), "rocksdb:other.db", **options)
    expected = (folder / "new.jsonl").read_bytes()
    (folder / "new.jsonl").unlink()
    steps = Steps(calls, torn=False)
    with patch.object(load_job, "open_index", steps.open_index), pytest.raises(Crash):
        simhbase.load(Inputs(["a.jsonl"], threads=1), STORE, **options)
    report = simhbase.load(Inputs(["a.jsonl"], threads=1), STORE, **options)
    assert (folder / "new.jsonl").read_bytes() == expected
    assert report.documents == whole.documents
