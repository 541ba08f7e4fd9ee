"""`simhbase compare`, and `find --explain` of a document that was not found."""

import json
import re
import tracemalloc
from pathlib import Path

import pytest

import simhbase
from simhbase.cli.compare import _texts_of
from simhbase.corpus.inputs import Inputs
from simhbase.corpus.record import InputOptions
from simhbase.errors import UsageError
from tests.command_line import documents, result, run, texts, write_lines

ONE, OTHER = texts(2, words=120)
NEAR = f"{ONE} more"
STORE = ("--store", "rocksdb:store.db")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a store of three documents, two of which are near each other."""
    with simhbase.open(f"rocksdb:{tmp_path / 'store.db'}", create="default") as index:
        index.add([("one", ONE), ("near", NEAR), ("other", OTHER)])
    return tmp_path


def test_two_texts_are_compared_as_python_does(folder: Path) -> None:
    (folder / "one.txt").write_text(ONE)
    (folder / "near.html").write_text(f"<p>{NEAR}</p>")
    expected = simhbase.compare(ONE, NEAR)
    for given in (["--text", ONE, "--text", NEAR], ["one.txt", "near.html"], ["one.txt", "--text", NEAR]):
        found = result("compare", *given, cwd=folder)
        assert found["jaccard"] == expected.jaccard
        assert found["similarity"] == expected.similarity
        assert found["containment"] == list(expected.containment)
        assert found["drawers"] == list(expected.drawers)
        assert [each["same"] for each in found["stretches"]] == [each.same for each in expected.stretches]


def test_people_see_what_differs(folder: Path) -> None:
    said = run("compare", "--text", ONE, "--text", NEAR, cwd=folder).stdout.decode()
    assert "exact similarity      0.9" in said
    assert "estimated similarity  0.9" in said
    assert re.search("containment +1.000 of the left in the right, 0.9.. of the right in the left", said)
    assert " of 10 (" in said
    assert said.endswith("{+more+}\n")
    assert f"{ONE[:60]} [... " in said


def test_almost_all_is_not_shown_as_all_and_the_profile_short_shows_none(folder: Path) -> None:
    long = " ".join(texts(30, words=120))
    two = ("--text", long, "--text", f"{long} x")
    said = run("compare", *two, cwd=folder).stdout.decode()
    assert "1.000 of the left in the right, 0.999 of the right in the left" in said
    assert "containment" not in run("compare", "--profile", "short", *two, cwd=folder).stdout.decode()
    assert result("compare", "--profile", "short", *two, cwd=folder)["containment"] is None


def test_the_profile_is_given_or_that_of_a_store_that_is_given(folder: Path) -> None:
    simhbase.open(f"rocksdb:{folder / 'bare.db'}", create={"verify": False}).close()
    two = ("--text", ONE, "--text", NEAR)
    for given in (("--set", "verify=false"), ("--store", "rocksdb:bare.db")):
        assert result("compare", *two, *given, cwd=folder)["similarity"] is None
    differing = run("compare", *two, "--store", "rocksdb:bare.db", "--set", "k=1", cwd=folder)
    assert differing.returncode == 12


@pytest.mark.parametrize("given", [("--id", "one"), ("--text", ONE)])
def test_a_stored_document_is_judged_as_a_candidate(folder: Path, given: tuple[str, str]) -> None:
    for document, verdict in (("near", "match"), ("other", "too far")):
        found = result("compare", *STORE, *given, "--id", document, cwd=folder)
        (candidate,) = found["candidates"]
        assert (candidate["id"], candidate["verdict"]) == (document, verdict)
        said = run("compare", *STORE, *given, "--id", document, cwd=folder).stdout.decode()
        assert f"  {verdict} " in said


def test_what_is_no_pair_is_refused(folder: Path) -> None:
    documents(folder / "two.jsonl", [ONE, OTHER])
    write_lines(folder / "none.jsonl", [{"id": "a", "body": ONE}])
    refused = {
        (): "two texts or stored documents, not 0",
        ("--id", "one"): "not 1",
        ("--id", "one", "--id", "near", "--text", ONE): "not 3",
        ("two.jsonl", "--text", ONE): "two.jsonl holds 2 texts, and compare takes one of a file",
        ("none.jsonl", "--text", ONE): "none.jsonl: .*text",
        ("gone.txt", "--text", ONE): "gone.txt: .*No such file",
        ("--id", "one", "--id", "gone"): "holds no document 'gone'",
        ("--id", "one", "--text", ""): "the text is empty",
    }
    for given, said in refused.items():
        done = run("compare", *STORE, *given, cwd=folder)
        assert done.returncode in (1, 2)
        assert done.stdout == b""
        assert re.search(said, done.stderr.decode())


def test_the_texts_of_a_file_that_has_too_many_are_not_held(tmp_path: Path) -> None:
    """1.3 MB of a packed file took 1.2 GB."""
    write_lines(tmp_path / "many.jsonl", [{"text": f"{number} " * 50_000} for number in range(400)])
    inputs = Inputs(str(tmp_path / "many.jsonl"), InputOptions(id_from="line"), threads=1)
    tracemalloc.start()
    with pytest.raises(UsageError, match="holds 400 texts"):
        list(_texts_of(inputs))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 40_000_000


def test_find_explains_a_document_that_it_did_not_find(folder: Path) -> None:
    for query in (("--id", "one"), ("--text", ONE)):
        done = run("find", "--json", *STORE, *query, "--explain", "--candidate", "other", cwd=folder)
        verdicts = {each["id"]: each["verdict"] for each in json.loads(done.stdout)["candidates"]}
        assert verdicts["other"] == "too far"
        assert verdicts["near"] == "match"
        done = run("find", "--json", *STORE, *query, "--explain", "--candidate", "gone", cwd=folder)
        verdicts = {each["id"]: each["verdict"] for each in json.loads(done.stdout)["candidates"]}
        assert verdicts["gone"] == "not stored"
    done = run("find", *STORE, "--id", "one", "--candidate", "other", cwd=folder)
    assert (done.returncode, done.stderr) == (2, b"Error: --candidate needs --explain\n")
