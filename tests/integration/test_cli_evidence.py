"""Why documents were removed, a line each."""

import pytest

import simhbase
from simhbase.text.features import SHINGLES, FeatureOptions
from tests import reference
from tests.command_line import documents, fingerprints, read_lines, result, run, texts, write_lines

WORDS = texts(1, words=200)[0].split()
TEXT = " ".join(WORDS)
CHANGED = " ".join([*WORDS[:-1], "another"])
REORDERED = " ".join([*WORDS[:180], *reversed(WORDS[180:])])


def evidence(tmp_path, *command: object) -> dict[str, dict[str, object]]:
    """The lines of a command by their ids, which are those of its duplicates, in their order."""
    result(*command, "--yes", "--evidence", "e.jsonl", "--duplicates", "d.jsonl", cwd=tmp_path)
    lines = read_lines(tmp_path / "e.jsonl")
    duplicates = read_lines(tmp_path / "d.jsonl")
    names = ("id", "duplicate_of", "distance", "similarity", "containment")
    names = (*names, "source", "line", "kept_source", "kept_line")
    for line, duplicate in zip(lines, duplicates, strict=True):
        assert [line.get(name) for name in names] == [duplicate.get(name) for name in names]
    return {line["id"]: line for line in lines}


def test_what_dedup_removes_has_the_rule_the_exact_similarity_and_the_words_that_differ(tmp_path):
    documents(tmp_path / "a.jsonl", [TEXT, TEXT, CHANGED, REORDERED])
    found = evidence(tmp_path, "dedup", "a.jsonl")
    assert found["d1"] == {
        "id": "d1",
        "duplicate_of": "d0",
        "distance": 0,
        "similarity": 1.0,
        "containment": 1.0,
        "source": "a.jsonl",
        "line": 2,
        "kept_source": "a.jsonl",
        "kept_line": 1,
        "rule": "same text",
        "jaccard": 1.0,
        "words": {"removed": [], "kept": [], "more": 0},
        "stretches": 0,
        "notes": [],
    }
    assert found["d2"]["rule"] == found["d3"]["rule"] == "Jaccard >= 0.65"
    assert found["d2"]["jaccard"] == pytest.approx(reference.similarity(TEXT, CHANGED), abs=1e-4)
    assert found["d2"]["words"] == {"removed": ["another"], "kept": [WORDS[-1]], "more": 0}
    assert found["d2"]["stretches"] == 1
    contained = reference.containment(CHANGED, TEXT, FeatureOptions(kind=SHINGLES))
    assert 0 < contained - found["d2"]["containment"] < 1e-4
    assert found["d3"]["words"] == {"removed": [], "kept": [], "more": 0}
    assert found["d3"]["stretches"] > 1


def test_no_more_words_are_listed_than_people_read(tmp_path):
    many = " ".join([*WORDS[:150], *texts(1, seed=1, words=70)[0].split()])
    documents(tmp_path / "a.jsonl", [TEXT, many])
    found = evidence(tmp_path, "dedup", "--min-similarity", 0, "--set", "k=31", "a.jsonl")
    words = found["d1"]["words"]
    assert (len(words["removed"]), len(words["kept"]), words["more"]) == (20, 20, 80)
    assert words["kept"] == WORDS[150:170]


def test_fingerprints_have_a_rule_and_no_texts(tmp_path):
    fingerprints(tmp_path / "a.jsonl", {"a": 0, "b": 1, "c": 0})
    found = evidence(tmp_path, "dedup", "--fingerprint-field", "f", "a.jsonl")
    place = {"source": "a.jsonl", "kept_source": "a.jsonl", "kept_line": 1}
    assert found == {
        "b": {"id": "b", "duplicate_of": "a", "distance": 1, "rule": "within 3 bits"} | place | {"line": 2},
        "c": {"id": "c", "duplicate_of": "a", "distance": 0, "rule": "same fingerprint"}
        | place
        | {"line": 3},
    }


def test_a_load_tells_what_it_knows_without_the_texts(tmp_path):
    fingerprints(tmp_path / "a.jsonl", {"a": 0, "b": 1, "c": 0})
    found = evidence(tmp_path, "load", "--unique-only", "--fingerprint-field", "f", "a.jsonl")
    place = {"source": "a.jsonl"}  # where the kept one was read is not kept in mind
    assert found == {
        "b": {"id": "b", "duplicate_of": "a", "distance": 1, "rule": "within 3 bits"} | place | {"line": 2},
        "c": {"id": "c", "duplicate_of": "a", "distance": 0, "rule": "same fingerprint"}
        | place
        | {"line": 3},
    }


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (("--set", "scheme=minhash"), "estimated similarity >= 0.65"),
        (("--set", "scheme=minhash", "--min-similarity", 0.5), "estimated similarity >= 0.5"),
        (("--min-similarity", 0.5), "within 7 bits in a shared drawer, estimated similarity >= 0.5"),
    ],
)
def test_a_load_names_the_similarity_it_was_asked_for(tmp_path, options, rule):
    documents(tmp_path / "a.jsonl", [TEXT, CHANGED])
    found = evidence(tmp_path, "load", "--unique-only", *options, "a.jsonl")
    assert (found["d1"]["rule"], "jaccard" in found["d1"]) == (rule, False)
    assert found["d1"]["similarity"] >= 0.5


def test_what_matches_a_stored_document_says_so(tmp_path):
    documents(tmp_path / "old.jsonl", [TEXT], prefix="old")
    result("load", "--set", "verify=true", "old.jsonl", cwd=tmp_path)
    new = texts(1, seed=1)[0]
    documents(tmp_path / "new.jsonl", [CHANGED, new, new])
    found = evidence(
        tmp_path, "dedup", "--against", "rocksdb:simhbase.db", "--min-similarity", 0.6, "new.jsonl"
    )
    assert (
        found["d0"]["rule"]
        == "within 7 bits in a shared drawer, estimated similarity >= 0.6, of a stored document"
    )
    assert "words" not in found["d0"]
    assert found["d2"]["rule"] == "same text"


def test_words_are_those_that_features_are_made_of(tmp_path):
    write_lines(tmp_path / "a.jsonl", [{"id": "a", "text": TEXT}, {"id": "b", "text": f"{TEXT} 更多"}])
    assert evidence(tmp_path, "dedup", "a.jsonl")["b"]["words"]["removed"] == ["更", "多"]


def test_evidence_of_a_load_needs_unique_only_and_a_file_of_its_own(tmp_path):
    documents(tmp_path / "a.jsonl", [TEXT])
    alone = run("load", "--evidence", "e.jsonl", "a.jsonl", cwd=tmp_path)
    assert alone.returncode == 2
    assert b"--evidence: applies to unique-only loads" in alone.stderr
    twice = run("dedup", "--evidence", "e.jsonl", "--duplicates", "e.jsonl", "a.jsonl", cwd=tmp_path)
    assert (twice.returncode, b"two options write to" in twice.stderr) == (2, True)
    assert not (tmp_path / "simhbase.db").exists()


def test_evidence_alone_is_asked_for_in_python(tmp_path):
    documents(tmp_path / "a.jsonl", [TEXT, CHANGED])
    report = simhbase.dedup(tmp_path / "a.jsonl", evidence=tmp_path / "e.jsonl")
    (line,) = read_lines(tmp_path / "e.jsonl")
    assert (report.duplicates, line["id"]) == (1, "d1")


def test_removed_and_kept_documents_are_named_with_their_places(tmp_path):
    one, other = texts(2, seed=5, words=200)
    write_lines(tmp_path / "a.jsonl", [{"id": "a1", "text": other}, {"id": "a2", "text": one}])
    (tmp_path / "b.csv").write_text(f'id,text\nb1,"{one} more"\nb2,"{other}"\n')
    documents(tmp_path / "stored.jsonl", [other], prefix="stored")
    result("load", "stored.jsonl", cwd=tmp_path)
    names = ("source", "line", "kept_source", "kept_line")
    both = "a.jsonl", "b.csv"
    found = evidence(tmp_path, "dedup", "--keep", "longest", *both)
    assert [[line[name] for name in names] for line in found.values()] == [
        ["a.jsonl", 2, "b.csv", 2],
        ["b.csv", 3, "a.jsonl", 1],
    ]
    found = evidence(tmp_path, "dedup", "--against", "rocksdb:simhbase.db", *both)
    assert {name: [line.get(each) for each in names] for name, line in found.items()} == {
        "a1": ["a.jsonl", 1, None, None],  # of a stored document
        "b2": ["b.csv", 3, None, None],
        "b1": ["b.csv", 2, "a.jsonl", 2],
    }
    found = evidence(tmp_path, "load", "--unique-only", *both)
    assert {name: [line.get(each) for each in names] for name, line in found.items()} == {
        "a1": ["a.jsonl", 1, None, None],
        "b1": ["b.csv", 2, None, None],
        "b2": ["b.csv", 3, None, None],
    }
