"""`simhbase find --against`: queries looked up among the documents of files."""

import json
import os
import random

import pytest

import simhbase
from simhbase.errors import UsageError
from tests import reference
from tests.command_line import (
    documents,
    fingerprints,
    read_lines,
    result,
    run,
    run_alone,
    texts,
    write_lines,
)

PLAIN = (
    "--set",
    "verify=false",
)
MINHASH = ("--set", "scheme=minhash", "--set", "threshold=0.8")


def near(text: str, changed: int = 1) -> str:
    words = text.split()
    return " ".join(["zz"] * changed + words[changed:])


def found(answer):
    return [match["id"] for match in answer["matches"]]


@pytest.fixture
def contents():
    """d0 to d3, of which d2 is nearly d0, and d3 is d1."""
    first, second = texts(2)
    return [first, second, near(first), second]


@pytest.fixture
def corpus(tmp_path, contents):
    return documents(tmp_path / "corpus.jsonl", contents)


@pytest.mark.parametrize(
    "options",
    [
        PLAIN,
        ("--set", "k=6", *PLAIN),
        ("--set", "layout=4x1", *PLAIN),
        ("--set", "features=chars:3", *PLAIN),
        MINHASH,
    ],
)
def test_files_answer_as_a_store_of_the_same_documents_does(tmp_path, corpus, options):
    queries = documents(tmp_path / "queries.jsonl", [near(text) for text in texts(4, seed=0)], prefix="q")
    created = ("--set", "layout=8x2") if "k=6" in options else ()
    result("load", *options, *created, corpus, cwd=tmp_path)
    expected = result("find", queries, cwd=tmp_path)
    answers = result("match", "--against", corpus, *options, queries, cwd=tmp_path, SIMHBASE_STORE="memory:")
    for answer in [*answers, *expected]:
        for match in answer["matches"]:
            del match["similarity"], match["drawers"]  # no store, no drawers
    assert answers == expected
    assert found(answers[0])


def test_no_store_is_opened(tmp_path, corpus):
    assert found(result("match", "--against", corpus, "--text", texts(1)[0], cwd=tmp_path)) == ["d0", "d2"]
    assert list(tmp_path.iterdir()) == [corpus]


@pytest.mark.parametrize(
    "options",
    [("--set", "verify=true", "--set", "k=20"), ("--min-similarity", "0.5", "--set", "k=20"), MINHASH],
)
def test_similarities_are_counted_exactly(tmp_path, corpus, contents, options):
    query = near(contents[0], 2)
    answer = result("match", "--against", corpus, *options, "--text", query, cwd=tmp_path)
    assert set(found(answer)) == {"d0", "d2"}
    for match in answer["matches"]:
        exact = reference.similarity(query, contents[int(match["id"][1:])])
        assert match["similarity"] == pytest.approx(exact, abs=1e-4)


def test_matches_share_as_much_as_is_asked_for(tmp_path, corpus, contents):
    exact = reference.similarity(contents[0], contents[2])
    queries = documents(tmp_path / "queries.jsonl", contents[:2], prefix="q")
    for least, expected in ((exact - 1e-4, ["d0", "d2"]), (exact + 1e-4, ["d0"])):
        options = ("--min-similarity", least, "--set", "k=20", queries)
        answers = result("match", "--against", corpus, *options, cwd=tmp_path)
        assert [found(answer) for answer in answers] == [expected, ["d1", "d3"]]


def test_texts_of_one_fingerprint_are_told_apart(tmp_path):
    words = texts(1)[0].split()
    backwards = " ".join(reversed(words))  # the same SimHash
    file = documents(tmp_path / "corpus.jsonl", [" ".join(words), backwards])
    options = ("--against", file, "--min-similarity", "0.8")
    assert found(result("match", *options, "--text", backwards, cwd=tmp_path)) == ["d1"]


def test_texts_shorter_than_a_shingle_are_near_their_equals(tmp_path):
    options = ("--set", "features=chars:1", "--set", "k=3", "--min-similarity", "0.9")
    file = documents(tmp_path / "corpus.jsonl", ["一二", "二一"])
    assert found(result("match", "--against", file, *options, "--text", "一二", cwd=tmp_path)) == ["d0"]


def test_documents_of_several_files_and_queries_of_a_pipe(tmp_path, contents):
    for name in ("a", "b"):
        documents(tmp_path / f"{name}.jsonl", contents[:2], prefix=name)
    line = json.dumps({"id": "q", "text": contents[0]}).encode()
    answer = result("match", "--against", "a.jsonl", "--against", "b*", cwd=tmp_path, stdin=line)
    assert (answer["id"], found(answer)) == ("q", ["a0", "b0"])
    turned = result("match", "--against", "-", "a.jsonl", cwd=tmp_path, stdin=line)
    assert [found(answer) for answer in turned] == [["q"], []]


def test_many_copies_are_listed_up_to_the_limit(tmp_path, contents):
    file = documents(tmp_path / "corpus.jsonl", [contents[0]] * 50)
    answer = result("match", "--against", file, "--ids-limit", 7, "--text", contents[0], cwd=tmp_path)
    assert (len(answer["matches"]), answer["truncated"]) == (7, True)
    answer = result("match", "--against", file, "--ids-limit", 50, "--text", contents[0], cwd=tmp_path)
    assert (len(answer["matches"]), answer["truncated"]) == (50, False)


def test_a_crowd_is_listed_up_to_the_limit_and_what_is_cut_is_said(tmp_path):
    (text,) = texts(1, words=60)
    contents = [f"{text} {number}" for number in range(8)] + [text] * 5
    file = documents(tmp_path / "crowd.jsonl", contents)
    every = run("match", "--against", file, "--json", file, cwd=tmp_path)
    assert [len(json.loads(line)["matches"]) for line in every.stdout.splitlines()] == [12] * 13
    assert b"truncated" not in every.stderr
    some = run("match", "--against", file, "--matches-limit", 3, "--json", file, cwd=tmp_path)
    for line, answer in zip(
        every.stdout.splitlines(), map(json.loads, some.stdout.splitlines()), strict=True
    ):
        assert answer["truncated"]
        listed = {match["id"]: match["distance"] for match in answer["matches"]}
        nearest = sorted(match["distance"] for match in json.loads(line)["matches"])[:3]
        assert (answer["id"] not in listed, sorted(listed.values())) == (True, nearest)
    assert b"13 of 13 results are truncated: there may be more matches. Raise --matches-limit" in some.stderr
    answers = simhbase.match([file], [file], matches_limit=3)
    assert [(len(each.lookup), each.lookup.truncated) for each in answers] == [(3, True)] * 13
    full = result("match", "--against", file, "--drawer-limit", 1, "--text", contents[9], cwd=tmp_path)
    assert (full["truncated"], {"d8", "d9"} <= set(found(full))) == (True, True)


@pytest.mark.parametrize("limit", ["drawer_limit", "ids_limit", "matches_limit"])
def test_limits_of_python_are_whole_numbers(limit):
    for given in (0, "7"):
        with pytest.raises(UsageError, match=f"{limit}.*from 1 on"):
            simhbase.match(["q.jsonl"], ["d.jsonl"], **{limit: given})


def test_prepared_fingerprints_are_looked_up_among_prepared_ones(tmp_path):
    chance = random.Random(5)
    values = {f"d{number}": chance.getrandbits(64) for number in range(300)}
    file = fingerprints(tmp_path / "corpus.jsonl", values)
    queries = fingerprints(tmp_path / "queries.jsonl", {name: value ^ 1 for name, value in values.items()})
    options = ("--against", file, "--fingerprint-field", "f")
    answers = result("match", *options, queries, cwd=tmp_path)
    assert [found(answer) for answer in answers] == [[answer["id"]] for answer in answers]
    asked = result("match", *options, "--fingerprint", f"{values['d7']:016x}", cwd=tmp_path)
    assert found(asked) == ["d7"]


def test_bad_documents_and_queries_are_named_and_cost_nothing_else(tmp_path, contents):
    good = {"id": "d0", "text": contents[0]}
    write_lines(tmp_path / "corpus.jsonl", [good, {"id": "x"}, good, {"id": "short", "text": "a"}])
    write_lines(tmp_path / "queries.jsonl", [{"id": "q", "text": contents[0]}, {"id": "empty", "text": ""}])
    options = ("--yes", "--against", "corpus.jsonl", "--rejects", "rejects.jsonl", "queries.jsonl")
    answers = result("match", *options, cwd=tmp_path, exit_code=3)
    assert [found(answer) for answer in answers] == [["d0"], []]
    rejects = [(line["source"], line["line"]) for line in read_lines(tmp_path / "rejects.jsonl")]
    assert rejects == [("corpus.jsonl", 2), ("corpus.jsonl", 3), ("corpus.jsonl", 4), ("queries.jsonl", 2)]


def test_a_corpus_of_which_nothing_can_be_read_fails(tmp_path, corpus):
    options = ("--text-field", "body", "--against", corpus)
    done = run("match", *options, "--text", "some words to look up", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"nothing could be read" in done.stderr
    missing = run("match", "--against", "missing.jsonl", "--text", "some words", cwd=tmp_path)
    assert (missing.returncode, missing.stdout) == (1, b"")
    assert b"missing.jsonl" in missing.stderr


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--store", "rocksdb:x.db"), "--store"),
        (("--id", "d0"), "--id"),
        (("--matches-limit", "0"), "--matches-limit"),
        (("--min-similarity", "0.8", "--fingerprint", "ff" * 8), "give the texts"),
        (("--set", "scheme=minhash", "--set", "k=3"), "k"),
        (("--rejects", "corpus.jsonl"), "is an input"),
        (("--against", "-", "-"), "standard input"),
    ],
)
def test_what_does_not_go_together_ends_with_usage(tmp_path, corpus, options, named):
    done = run("match", "--against", corpus, *options, "--text", "a text", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, b""), done.stderr.decode()
    assert named in done.stderr.decode()
    assert corpus.stat().st_size > 0


@pytest.mark.parametrize(
    ("against", "asked"),
    [
        ("-", "/dev/stdin"),
        ("/dev/fd/0", "-"),
        ("/dev/stdin", "/dev/stdin"),
        ("pipe", "pipe"),
        ("pipe", "./pipe"),
    ],
)
def test_a_pipe_is_not_read_twice_by_whatever_names(tmp_path, corpus, against, asked):
    """The second time it was empty, and so was the answer; or it was waited for without an end."""
    os.mkfifo(tmp_path / "pipe")
    done = run_alone("match", "--against", against, asked, cwd=tmp_path, stdin=corpus.read_bytes())
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"a pipe can only be read once" in done.stderr


def test_a_pipe_is_not_matched_with_itself_in_python(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="a pipe can only be read once"):
        simhbase.match(tmp_path / "pipe", f"{tmp_path}/./pipe")


def test_a_store_has_its_profile(tmp_path, corpus):
    result("load", corpus, cwd=tmp_path)
    done = run("find", "--set", "features=chars:3", "--text", "a text", cwd=tmp_path)
    assert done.returncode == 2
    assert b"No such option" in done.stderr


@pytest.mark.parametrize("is_itself", [False, True])
def test_matches_are_counted_by_folder_and_by_file(tmp_path, contents, corpus, is_itself):
    for name, some in {"x/a": contents[:2], "x/b": [texts(3)[2]], "y/c": contents[2:]}.items():
        file = tmp_path / "in" / f"{name}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        documents(file, some, prefix=name)
    (tmp_path / "in" / "y" / "d.jsonl").write_text("no json\n")
    (tmp_path / "in" / "y" / "e.jsonl.gz").write_text("no gzip")
    expected = {
        "file": [
            "in/x/a.jsonl: 2 documents, 2 with matches, 0 rejected, 0 unreadable",
            "in/x/b.jsonl: 1 documents, 0 with matches, 0 rejected, 0 unreadable",
            "in/y/c.jsonl: 2 documents, 2 with matches, 0 rejected, 0 unreadable",
            "in/y/d.jsonl: 1 documents, 0 with matches, 1 rejected, 0 unreadable",
            "in/y/e.jsonl.gz: 0 documents, 0 with matches, 0 rejected, 1 unreadable",
        ],
        "folder": [
            "in/x: 3 documents, 2 with matches, 0 rejected, 0 unreadable",
            "in/y: 3 documents, 2 with matches, 1 rejected, 1 unreadable",
        ],
    }
    against = "in" if is_itself else corpus
    for by_source, lines in expected.items():
        done = run("match", "--against", against, "--by-source", by_source, "in", cwd=tmp_path)
        said = [line for line in done.stderr.decode().splitlines() if "with matches" in line]
        assert said == lines
