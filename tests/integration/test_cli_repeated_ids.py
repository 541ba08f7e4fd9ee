"""`simhbase load` and ids that come twice."""

import pytest

from simhbase.jobs import seen_ids as seen
from tests.command_line import result, texts, write_lines

COUNT = 6000


@pytest.fixture
def documents(tmp_path):
    """Of 6,000 documents the last 50 have ids that came before, and texts of their own."""
    lines = [
        {"id": f"a{number % (COUNT - 50)}", "text": text} for number, text in enumerate(texts(COUNT, words=8))
    ]
    return write_lines(tmp_path / "documents.jsonl", lines)


@pytest.mark.parametrize("in_memory", [100, seen.IN_MEMORY])
def test_ids_that_come_twice_are_rejected_in_memory_and_on_disk(tmp_path, documents, in_memory, monkeypatch):
    _, *others = seen.SeenIds.__init__.__defaults__
    monkeypatch.setattr(seen.SeenIds.__init__, "__defaults__", (in_memory, *others))
    rejects = tmp_path / "rejects"
    loaded = result("load", documents, "--rejects", rejects, cwd=tmp_path, exit_code=3)
    assert (loaded["added"], loaded["rejected"]) == (COUNT - 50, 50)
    assert rejects.read_text().count("the same id came before, in line 1 of") == 1
