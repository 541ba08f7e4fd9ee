"""Loads with --unique-only, and what they leave out or list, on every store."""

import json
from pathlib import Path

import pytest

import simhbase
from simhbase import Profile
from simhbase.corpus import record
from simhbase.corpus.inputs import Inputs
from simhbase.corpus.watcher import Watcher
from simhbase.loads import load
from tests.contract.conftest import Backend


def text(number: int) -> str:
    return " ".join(f"w{number}x{each}" for each in range(30))


def documents(path: Path, texts: dict[str, int]) -> Path:
    lines = (json.dumps({"id": name, "text": text(number)}) + "\n" for name, number in texts.items())
    path.write_text("".join(lines))
    return path


@pytest.fixture
def url(backend: Backend) -> str:
    url = backend.url(0)
    if url == "memory:":
        pytest.skip("is gone when it is closed")
    simhbase.open(url, create=Profile(verify=False)).close()
    return url


def test_a_stored_document_whose_new_text_is_a_duplicate_is_removed_and_counted(url, tmp_path):
    simhbase.load(documents(tmp_path / "a.jsonl", {"a": 1, "b": 2, "c": 3}), url, unique_only=True)
    second = documents(tmp_path / "b.jsonl", {"a": 2, "c": 3, "d": 3})
    report = simhbase.load(second, url, unique_only=True)
    assert (report.loaded, report.duplicates, report.outdated) == (1, 2, 1)
    with simhbase.open(url, access="read") as index:
        found = [[match.id for match in index.find(text(number))] for number in (1, 2, 3)]
    assert found == [[], ["b"], ["c"]]


@pytest.fixture(params=["one write", "two writes"])
def _written(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two documents of a load come into the store so."""
    monkeypatch.setattr(record, "CHUNK_RECORDS", 1)
    monkeypatch.setattr(load, "CHUNKS_AT_ONCE", 2 if request.param == "one write" else 1)


@pytest.mark.usefixtures("_written")
def test_a_text_that_a_removed_document_has_kept_out_is_not_lost(url, tmp_path):
    simhbase.load(documents(tmp_path / "a.jsonl", {"a": 1, "c": 3}), url, unique_only=True)
    report = simhbase.load(documents(tmp_path / "b.jsonl", {"b": 1, "a": 3}), url, unique_only=True)
    assert (report.duplicates, report.outdated) == (2, 0)
    with simhbase.open(url, access="read") as index:
        assert [match.id for match in index.find(text(1))] == ["a"]


@pytest.mark.usefixtures("_written")
def test_a_load_tells_of_texts_that_were_left_out_for_a_document_that_has_moved(url, tmp_path):
    class Notes(Watcher):
        def note(self, text: str) -> None:
            notes.append(text)

    notes: list[str] = []
    simhbase.load(documents(tmp_path / "a.jsonl", {"a": 1}), url, unique_only=True)
    second = Inputs([documents(tmp_path / "b.jsonl", {"b": 1, "a": 2})], watcher=Notes())
    simhbase.load(second, url, unique_only=True)
    assert notes == [load.OUTGROWN.format(1)]
    report = simhbase.load(second, url, unique_only=True)
    assert (report.added, report.unchanged, len(notes)) == (1, 1, 1)
    with simhbase.open(url, access="read") as index:
        assert [match.id for match in index.find(text(1))] == ["b"]


@pytest.mark.parametrize("unique_only", [False, True])
def test_new_lists_what_was_added_or_changed_and_what_exists_can_be_skipped(url, tmp_path, unique_only):
    new = tmp_path / "new.jsonl"
    simhbase.load(documents(tmp_path / "a.jsonl", {"a": 1, "b": 2}), url)
    second = documents(tmp_path / "b.jsonl", {"a": 1, "b": 4, "d": 5})
    report = simhbase.load(second, url, unique_only=unique_only, new=new)
    assert [json.loads(line)["id"] for line in new.read_text().splitlines()] == ["b", "d"]
    assert (report.added, report.updated, report.unchanged) == (1, 1, 1)
    third = documents(tmp_path / "c.jsonl", {"a": 6, "e": 7})
    report = simhbase.load(third, url, unique_only=unique_only, new=new, skip_existing=True)
    assert [json.loads(line)["id"] for line in new.read_text().splitlines()] == ["e"]
    assert (report.added, report.unchanged) == (1, 1)
