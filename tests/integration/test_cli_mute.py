"""`simhbase mute`, and another process that has the store open meanwhile."""

from pathlib import Path

import pytest

import simhbase
from simhbase import Document, Profile
from simhbase.index import mute
from tests.command_line import result, run, run_alone, texts

TEXT, OTHER = texts(2)


@pytest.fixture(params=["rocksdb", pytest.param("hbase", marks=pytest.mark.hbase)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store of two texts."""
    if request.param == "rocksdb":
        url = f"rocksdb:{tmp_path / 'store.db'}"
    else:
        url = request.getfixturevalue("hbase").empty_store("muted")
    with simhbase.open(url, create=Profile(verify=False)) as index:
        index.add([Document("a", TEXT), Document("b", TEXT), Document("c", OTHER)])
    return url


def test_ids_and_fingerprints_are_muted_listed_and_unmuted(tmp_path, url):
    store = ("--store", url)

    def answer(*command, exit_code=0):
        return result(*command, *store, cwd=tmp_path, exit_code=exit_code)

    def found(text):
        return [match["id"] for match in answer("find", "--text", text)["matches"]]

    digits = answer("find", "--text", OTHER)["fingerprint"]
    assert answer("mute", "list") == []
    assert answer("mute", "add", "a", "--until", "30d", "--note", "asked for") == {
        "added": 1,
        "not_stored": [],
        "muted": 1,
    }
    assert answer("mute", "add", "a", "x", "--fingerprint", digits) == {
        "added": 2,
        "not_stored": ["x"],
        "muted": 3,
    }
    assert (found(TEXT), found(OTHER)) == (["b"], [])
    entries = answer("mute", "list")
    assert [(entry["id"], entry["fingerprint"]) for entry in entries] == [
        ("a", None),
        ("x", None),
        (None, digits),
    ]
    assert {(entry["until"], entry["note"]) for entry in entries} == {(None, "")}, "replaced"
    assert answer("mute", "remove", "a", "nobody", "--fingerprint", digits) == {"removed": 2, "muted": 1}
    assert (found(TEXT), found(OTHER)) == (["a", "b"], ["c"])


def test_a_process_that_has_the_store_open_follows_the_list(tmp_path, url, monkeypatch):
    monkeypatch.setattr(mute, "READ_AGAIN", 0)
    with simhbase.open(url, access="read") as reader:
        assert [match.id for match in reader.find(TEXT).matches] == ["a", "b"]
        done = run_alone("mute", "add", "a", "--store", url, cwd=tmp_path)
        assert done.returncode == 0, done.stderr.decode()
        assert [match.id for match in reader.find(TEXT).matches] == ["b"]
        assert run_alone("mute", "remove", "--yes", "a", "--store", url, cwd=tmp_path).returncode == 0
        assert [match.id for match in reader.find(TEXT).matches] == ["a", "b"]


def test_what_is_shown_says_when_an_entry_ends_and_why(tmp_path):
    store = ("--store", f"rocksdb:{tmp_path}/store.db")
    result("tables", "create", *store, cwd=tmp_path)
    assert run("mute", "list", *store, cwd=tmp_path).stderr == b"nothing is muted\n"
    run("mute", "add", "a", "--until", "2999-01-31", "--note", "asked for", *store, cwd=tmp_path)
    head, line = run("mute", "list", *store, cwd=tmp_path).stdout.decode().splitlines()
    assert head.split() == ["id", "fingerprint", "since", "until", "note"]
    assert "2999-01-31 00:00:00" in line
    assert line.endswith("asked for")


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["add"], "give ids or --fingerprint"),
        (["remove"], "give ids or --fingerprint"),
        (["add", ""], "the id is empty"),
        (["add", "a", "--until", "2020-01-31"], "2020-01-31 is in the past: give a time in the future"),
        (["add", "a", "--note", "one\ntwo"], "a note is one line"),
    ],
)
def test_what_cannot_be_muted_is_a_mistake_of_use(tmp_path, command, says):
    store = f"rocksdb:{tmp_path}/store.db"
    simhbase.open(store, create=Profile(verify=False)).close()
    done = run("mute", *command, "--store", store, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert says in done.stderr.decode()
    assert result("mute", "list", "--store", store, cwd=tmp_path) == []
