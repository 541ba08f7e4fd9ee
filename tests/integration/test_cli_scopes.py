"""The commands of a store with scopes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import simhbase
from tests.command_line import documents, result, run, texts

STORE = ("--store", "rocksdb:tenants.db")
A, B = (*STORE, "--scope", "a"), (*STORE, "--scope", "b")
ONE, OTHER = texts(2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a store of two scopes: a has two texts, b has one of them twice."""
    assert result("tables", "create", "--scoped", *STORE, cwd=tmp_path)["scoped"] is True
    documents(tmp_path / "a.jsonl", [ONE, OTHER])
    documents(tmp_path / "b.jsonl", [ONE, ONE])
    for scope, path in ((A, "a.jsonl"), (B, "b.jsonl")):
        assert result("load", *scope, path, cwd=tmp_path)["loaded"] == 2
    return tmp_path


def ids(answer: Any) -> set[str]:
    return {each["id"] for each in answer}


def test_commands_on_documents_work_within_a_scope(folder: Path) -> None:
    assert result("tables", "describe", *STORE, cwd=folder)["scoped"] is True
    for scope, near in ((A, {"d0"}), (B, {"d0", "d1"})):
        assert ids(result("list", *scope, cwd=folder)) == {"d0", "d1"}
        assert ids(result("find", *scope, "--text", ONE, cwd=folder)["matches"]) == near
        assert ids(result("find", *scope, "--id", "d0", cwd=folder)["matches"]) == near
        (explained,) = [result("find", *scope, "--text", ONE, "--explain", cwd=folder)]
        assert ids(explained["candidates"]) == near
        assert result("stats", *scope, cwd=folder)["documents"] == 2
    assert result("stats", *STORE, "--exact", cwd=folder)["documents"] == 4
    (group,) = [result("groups", *B, cwd=folder)]
    assert (group["group"], group["size"]) == ("d0", 2)
    assert result("groups", *A, cwd=folder) == []
    pairs = run("pairs", *B, cwd=folder).stdout.decode().splitlines()
    assert [line.split("\t")[:2] for line in pairs[1:]] == [["d0", "d1"]]
    compared = result("compare", *A, "--id", "d0", "--text", OTHER, cwd=folder)
    assert ids(compared["candidates"]) == {"d0"}
    assert result("check", *STORE, cwd=folder)["clean"] is True
    assert result("delete", *A, "d0", "d1", "--yes", cwd=folder)["deleted"] == 2
    assert result("list", *A, cwd=folder) == []
    assert ids(result("list", *B, cwd=folder)) == {"d0", "d1"}


def test_one_text_has_one_fingerprint_in_all_scopes_and_none(folder: Path) -> None:
    found = [result("find", *scope, "--text", ONE, cwd=folder)["fingerprint"] for scope in (A, B)]
    (printed,) = [result("fingerprint", *STORE, "a.jsonl", cwd=folder)]
    assert {*found, printed[0]["fingerprint"]} == {found[0]}
    for scope, near in ((A, {"d0"}), (B, {"d0", "d1"})):
        by_value = result("find", *scope, "--fingerprint", found[0], cwd=folder)
        assert ids(by_value["matches"]) == near
    hot = result("stats", *STORE, "--hot", "1", cwd=folder)["hot_fingerprints"]
    assert hot == [{"scope": "b", "fingerprint": found[0], "documents": 2}]


def test_mute_lists_are_of_scopes(folder: Path) -> None:
    assert result("mute", "add", *B, "d0", "d9", cwd=folder)["not_stored"] == ["d9"]
    assert [ids(result("find", *each, "--text", ONE, cwd=folder)["matches"]) for each in (A, B)] == [
        {"d0"},
        {"d1"},
    ]
    assert result("mute", "list", *A, cwd=folder) == []
    assert ids(result("mute", "list", *B, cwd=folder)) == {"d0", "d9"}
    assert result("mute", "remove", *B, "d0", "d9", "--yes", cwd=folder)["removed"] == 2


def test_one_file_is_loaded_into_two_scopes_under_one_name(folder: Path) -> None:
    """The second is not taken for a repeated run of the first, and each can be forgotten."""
    for scope in (A, B):
        assert result("load", *scope, "--name", "night", "a.jsonl", cwd=folder)["loaded"] == 2
    for scope in (A, B):
        names = [each["name"] for each in result("loads", *scope, cwd=folder)]
        assert len(names) == 2
        assert "night" in names
    assert result("loads", "forget", *A, "night", cwd=folder)["forgotten"] == ["night"]
    assert "night" in [each["name"] for each in result("loads", *B, cwd=folder)]
    assert len(result("loads", *STORE, cwd=folder)) == 3


def test_only_what_is_unique_within_a_scope_is_loaded(folder: Path) -> None:
    documents(folder / "c.jsonl", [ONE, *texts(1, seed=7)], "c")
    options = ("--unique-only", "--duplicates", "out.jsonl", "--yes")
    found = result("load", *A, *options, "c.jsonl", cwd=folder)
    assert (found["loaded"], found["duplicates"]) == (1, 1)
    (line,) = (folder / "out.jsonl").read_text().splitlines()
    assert (json.loads(line)["id"], json.loads(line)["duplicate_of"]) == ("c0", "d0")
    new = result("load", *STORE, "--scope", "new", *options, "c.jsonl", cwd=folder)
    assert (new["loaded"], new["duplicates"]) == (2, 0)
    assert ids(result("list", *B, cwd=folder)) == {"d0", "d1"}


def test_a_corpus_is_compared_with_a_scope(folder: Path) -> None:
    documents(folder / "c.jsonl", [ONE, OTHER], "c")
    against = ("dedup", "--against", STORE[1], "--scope")
    assert result(*against, "a", "c.jsonl", cwd=folder)["duplicates"] == 2
    assert result(*against, "b", "c.jsonl", cwd=folder)["duplicates"] == 1
    (folder / "pairs.tsv").write_text("d0\td1\n")
    for scope, found in ((A, 0), (B, 1)):
        assert result("evaluate", *scope, "--pairs", "pairs.tsv", cwd=folder)["found"] == found


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("find", *STORE, "--text", ONE), "--scope: rocksdb:tenants.db has scopes, and none was given"),
        (("list", *STORE), "--scope: rocksdb:tenants.db has scopes, and none was given"),
        (("load", *STORE, "a.jsonl"), "--scope: rocksdb:tenants.db has scopes, and none was given"),
        (("delete", *STORE, "d0", "--yes"), "--scope: rocksdb:tenants.db has scopes, and none was given"),
        (("groups", *STORE), "--scope: rocksdb:tenants.db has scopes, and none was given"),
        (("mute", "list", *STORE), "--scope: rocksdb:tenants.db has scopes, and none was given"),
        (("dedup", "--against", STORE[1], "a.jsonl"), "--scope: rocksdb:tenants.db has scopes, and none"),
        (("find", *STORE, "--scope", "", "--text", ONE), "--scope: '' is not a valid name of a scope"),
        (("find", *STORE, "--scope", "a\x1fb", "--text", ONE), "is not a valid name of a scope"),
        (("dedup", "--scope", "a", "a.jsonl"), "--scope: is one of the store"),
        (("pairs", "--scope", "a", "a.jsonl"), "give --store"),
        (("evaluate", "--scope", "a", "--pairs", "a.jsonl", "a.jsonl"), "--scope: is one of a store"),
        (("compare", "--scope", "a", "--text", ONE, "--text", OTHER), "--scope: is one of a store"),
        (("stats", *A, "--hot", "3"), "hot fingerprints and drawers are those of a whole store"),
        (("find", "--scope", "a", "--text", ONE, "--store", "rocksdb:plain.db"), "has no scopes: leave it"),
        (("load", "--scope", "a", "a.jsonl", "--store", "rocksdb:plain.db"), "has no scopes: leave it out"),
    ],
)
def test_which_scope_is_meant_is_said(folder: Path, arguments: tuple[str, ...], problem: str) -> None:
    simhbase.open(f"rocksdb:{folder}/plain.db", create="default").close()
    refused = run(*arguments, cwd=folder)
    assert refused.returncode == 2
    assert problem in " ".join(refused.stderr.decode().split())


def test_a_store_gets_scopes_when_it_is_made_or_never(folder: Path) -> None:
    simhbase.open(f"rocksdb:{folder}/plain.db", create="default").close()
    refused = run("tables", "create", "--scoped", "--store", "rocksdb:plain.db", cwd=folder)
    assert refused.returncode == 14
    assert "has no scopes, and should" in refused.stderr.decode()
    assert result("tables", "create", *STORE, cwd=folder)["scoped"] is True
    assert result("load", "--store", "rocksdb:new.db", "--scope", "a", "a.jsonl", cwd=folder)["loaded"] == 2
    assert result("tables", "describe", "--store", "rocksdb:new.db", cwd=folder)["scoped"] is True


def test_a_store_moves_into_a_scope_of_another(folder: Path) -> None:
    assert result("load", "--store", "rocksdb:plain.db", "a.jsonl", cwd=folder)["loaded"] == 2
    moving = ("migrate", "--store", "rocksdb:plain.db", "--to", STORE[1], "--scope", "c")
    assert result(*moving, cwd=folder)["added"] == 2
    found = [result("list", *each, cwd=folder) for each in (A, (*STORE, "--scope", "c"))]
    assert found[0] == found[1]
    result("delete", "d0", "--yes", "--store", "rocksdb:plain.db", cwd=folder)
    trial = result(*moving, "--delete-missing", "--dry-run", cwd=folder)
    assert trial == {"would_delete": 1, "documents": 2}
    assert result(*moving, "--delete-missing", "--yes", cwd=folder)["deleted"] == 1
    assert ids([result("list", *STORE, "--scope", "c", cwd=folder)]) == {"d1"}
    assert ids(result("list", *A, cwd=folder)) == {"d0", "d1"}


def test_scopes_are_listed_and_dropped(folder: Path) -> None:
    listed = result("scopes", "list", *STORE, cwd=folder)
    assert listed == [{"scope": name} for name in "ab"]
    drop = ("scopes", "drop", "a", *STORE)
    assert result(*drop, "--dry-run", cwd=folder) == {"scope": "a", "would_drop": 2}
    asked = run(*drop, cwd=folder)
    assert asked.returncode == 2
    assert "this would delete the scope 'a' (about 2 documents)" in asked.stderr.decode()
    assert result(*drop, "--yes", cwd=folder) == {"scope": "a", "deleted": 2}
    assert [result("scopes", "list", *STORE, cwd=folder)] == [{"scope": "b"}]
    assert result("loads", *A, cwd=folder) == []
    assert run("scopes", "drop", "a\x1fb", "--yes", *STORE, cwd=folder).returncode == 2


def test_a_load_is_forgotten_within_its_scope(folder: Path) -> None:
    result("load", *A, "--name", "night", "a.jsonl", cwd=folder)
    refused = run("loads", "forget", "night", *STORE, cwd=folder)
    assert refused.returncode == 2
    assert "has scopes, and none was given" in refused.stderr.decode()
    assert "night" in [each["name"] for each in result("loads", *A, cwd=folder)]
