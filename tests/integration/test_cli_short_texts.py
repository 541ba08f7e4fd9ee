"""Short texts from the creation of a store for them to their duplicates."""

import pytest

from tests.command_line import documents, read_lines, result
from tests.short import sentence_pairs

STORE = ("--store", "rocksdb:store.db")
FOUND = 0.94  # of the 37 pairs of sentences 36 are


@pytest.fixture
def corpus(tmp_path):
    """Sentences, and behind them those that differ in two characters."""
    pairs = sentence_pairs()
    return documents(tmp_path / "in.jsonl", [left for left, _ in pairs] + [right for _, right in pairs])


def expected(pairs: int) -> dict[str, str]:
    return {f"d{number + pairs}": f"d{number}" for number in range(pairs)}


def test_a_store_for_short_texts_finds_sentences_that_differ_in_two_characters(tmp_path, corpus):
    created = result("tables", "create", "--profile", "short", *STORE, cwd=tmp_path)["profile"]
    assert (created["scheme"], created["features"], created["slots"]) == ("minhash", "chars:1-3", 256)
    assert created["threshold"] == "0.54-0.7"
    assert result("load", *STORE, "--profile", "short", corpus, cwd=tmp_path)["loaded"] == 74
    mates = expected(37)
    mates |= {right: left for left, right in mates.items()}
    answers = result("find", *STORE, corpus, cwd=tmp_path)
    others = {
        answer["id"]: [match["id"] for match in answer["matches"] if match["id"] != answer["id"]]
        for answer in answers
    }
    assert all(found in ([], [mates[name]]) for name, found in others.items())
    assert sum(map(len, others.values())) >= FOUND * 74
    by_id = result("find", *STORE, "--id", "d0", cwd=tmp_path)
    assert by_id["matches"] == answers[0]["matches"]
    by_fingerprint = result("find", *STORE, "--fingerprint", answers[0]["fingerprint"], cwd=tmp_path)
    assert by_fingerprint["matches"] == answers[0]["matches"]
    strict = result("find", *STORE, "--min-similarity", "0.8", corpus, cwd=tmp_path)
    assert sum(len(answer["matches"]) for answer in strict) < 74 + 5
    assert result("check", *STORE, cwd=tmp_path)["clean"]
    assert result("tables", "check", *STORE, cwd=tmp_path)["same"]


def test_duplicates_among_short_texts_are_found_without_a_store_too(tmp_path, corpus):
    result("dedup", "--profile", "short", "--duplicates", "duplicates.jsonl", corpus, cwd=tmp_path)
    duplicates = {line["id"]: line["duplicate_of"] for line in read_lines(tmp_path / "duplicates.jsonl")}
    assert duplicates.items() <= expected(37).items()
    assert len(duplicates) >= FOUND * 37
    unique = ("--yes", "--unique-only", "--duplicates", "of_load.jsonl")
    result("load", "--profile", "short", *unique, *STORE, corpus, cwd=tmp_path)
    loaded = {line["id"]: line["duplicate_of"] for line in read_lines(tmp_path / "of_load.jsonl")}
    assert loaded == duplicates
    answers = result("match", "--profile", "short", "--against", corpus, corpus, cwd=tmp_path)
    against = {
        (answer["id"], match["id"])
        for answer in answers
        for match in answer["matches"]
        if int(match["id"][1:]) < int(answer["id"][1:])
    }
    assert against == duplicates.items()
