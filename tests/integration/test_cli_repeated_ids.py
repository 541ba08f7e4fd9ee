"""`simhbase load` and ids that come twice."""

import pytest

from simhbase.corpus import seen_ids as seen
from simhbase.corpus.sources import CHUNK_RECORDS
from simhbase.jobs.load import CHUNKS_AT_ONCE
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
    monkeypatch.setattr(seen.SeenIds.__init__, "__defaults__", (in_memory,))
    rejects = tmp_path / "rejects"
    loaded = result("load", documents, "--rejects", rejects, cwd=tmp_path, exit_code=3)
    assert (loaded["added"], loaded["rejected"]) == (COUNT - 50, 50)
    assert rejects.read_text().count("the same id came before, in line 1 of") == 1


def test_without_the_check_the_last_document_of_an_id_counts(tmp_path, documents):
    """But for those that are written at once: none is left out of the count."""
    assert CHUNKS_AT_ONCE * CHUNK_RECORDS < COUNT - 50
    loaded = result("load", documents, "--ids-are-unique", cwd=tmp_path)
    assert (loaded["loaded"], loaded["added"], loaded["rejected"]) == (COUNT, COUNT - 50, 0)
    last = texts(COUNT, words=8)[-1]
    (found,) = result("find", "--text", last, cwd=tmp_path)["matches"]
    assert (found["id"], found["distance"]) == ("a49", 0)


def test_without_the_check_ids_that_come_twice_at_once_are_rejected(tmp_path):
    lines = [{"id": "a", "text": text} for text in texts(3, words=8)]
    documents = write_lines(tmp_path / "documents.jsonl", lines)
    loaded = result("load", documents, "--ids-are-unique", cwd=tmp_path, exit_code=3)
    assert (loaded["documents"], loaded["loaded"], loaded["rejected"]) == (3, 1, 2)
