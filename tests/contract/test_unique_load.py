"""Loads with --unique-only, and what they leave out or list, on every store."""

import json
from pathlib import Path

import pytest

import simhbase
from simhbase import Profile
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
    simhbase.open(url, create=Profile()).close()
    return url


def test_a_stored_document_whose_new_text_is_a_duplicate_is_removed_and_counted(url, tmp_path):
    simhbase.load(documents(tmp_path / "a.jsonl", {"a": 1, "b": 2, "c": 3}), url, unique_only=True)
    second = documents(tmp_path / "b.jsonl", {"a": 2, "c": 3, "d": 3})
    report = simhbase.load(second, url, unique_only=True)
    assert (report.loaded, report.duplicates, report.outdated) == (1, 2, 1)
    with simhbase.open(url, access="read") as index:
        found = [[match.id for match in index.find(text(number))] for number in (1, 2, 3)]
    assert found == [[], ["b"], ["c"]]


@pytest.mark.parametrize("unique_only", [False, True])
def test_new_lists_what_was_added_or_changed_and_what_exists_can_be_skipped(url, tmp_path, unique_only):
    new = tmp_path / "new.jsonl"
    simhbase.load(documents(tmp_path / "a.jsonl", {"a": 1, "b": 2}), url)
    second = documents(tmp_path / "b.jsonl", {"a": 1, "b": 4, "d": 5})
    report = simhbase.load(second, url, unique_only=unique_only, new=new)
    assert [json.loads(line)["id"] for line in new.read_text().splitlines()] == ["b", "d"]
    assert (report.added, report.moved, report.unchanged) == (1, 1, 1)
    third = documents(tmp_path / "c.jsonl", {"a": 6, "e": 7})
    report = simhbase.load(third, url, unique_only=unique_only, new=new, skip_existing=True)
    assert [json.loads(line)["id"] for line in new.read_text().splitlines()] == ["e"]
    assert (report.added, report.unchanged) == (1, 1)
