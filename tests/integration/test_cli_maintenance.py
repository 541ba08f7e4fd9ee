"""What a nightly run does beside loading: `simhbase vacuum`, and `simhbase check` part by part."""

import json
from collections import Counter
from typing import cast

import pytest

import simhbase
from simhbase.admin.check import STRAY_LISTING, STRAY_ROW, UNINDEXED, UNLISTED, UNREADABLE, Checker, Part
from simhbase.cli import COMMANDS
from simhbase.drawers.rowkeys import decode
from simhbase.index.rows import Entry, document_key, listing_key
from simhbase.stores.meta import Meta
from simhbase.stores.rocksdb.store import RocksStore
from tests.command_line import documents, fingerprints, result, run, texts

STORE = ("--store", "rocksdb:s.db")
SPREAD = 0x9E3779B97F4A7C15
FILED = {f"d{number}": number * SPREAD % 2**64 for number in range(300)}


def load(tmp_path, values):
    file = fingerprints(tmp_path / "prepared.jsonl", values)
    return result("load", "--fingerprint-field", "f", *STORE, file, cwd=tmp_path)


# --- vacuum ---


def test_vacuum_has_nothing_to_do_in_an_embedded_store_and_says_so(tmp_path):
    load(tmp_path, FILED)
    result("delete", "d1", "d2", *STORE, cwd=tmp_path)
    done = run("vacuum", "--json", *STORE, cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr.decode() == "rocksdb:s.db removes obsolete rows at once: nothing to do\n"
    report = json.loads(done.stdout)
    assert report.pop("seconds") >= 0
    assert report.pop("removes_at_once")
    removed = ["listings", "index_rows", "deleted_documents", "claims", "expired", "refused_claims"]
    assert report == dict.fromkeys(["looked_at", *removed, "too_young"], 0)
    assert result("check", *STORE, cwd=tmp_path)["documents"] == len(FILED) - 2


def test_vacuum_speaks_on_the_console_too(tmp_path):
    load(tmp_path, {"a": 0})
    done = run("vacuum", *STORE, cwd=tmp_path)
    assert done.returncode == 0
    assert b"looked at" in done.stdout
    assert "vacuum" in COMMANDS


def test_a_grace_time_is_longer_than_calls_take_and_clocks_differ(tmp_path):
    load(tmp_path, {"a": 0})
    for grace in ("14400s", "4h", "1d", "1w"):
        assert run("vacuum", "--older-than", grace, *STORE, cwd=tmp_path).returncode == 0
    for grace in ("1s", "0", "14399s", "239m"):
        done = run("vacuum", "--older-than", grace, *STORE, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"at least 14400 s (four hours)" in done.stderr
    for grace in ("soon", "-1d", "1.5h", "1y", "", "14400"):
        done = run("vacuum", "--older-than", grace, *STORE, cwd=tmp_path)
        assert done.returncode == 2
        assert b"--older-than" in done.stderr


def test_vacuum_of_what_is_not_there_exits_10(tmp_path):
    assert run("vacuum", *STORE, cwd=tmp_path).returncode == 10
    assert not (tmp_path / "s.db").exists()


# --- check by parts ---


@pytest.mark.parametrize("parts", [1, 3, 4, 1000])
def test_the_parts_of_a_store_are_checked_one_by_one_and_make_the_whole(tmp_path, parts):
    load(tmp_path, FILED)
    whole = result("check", *STORE, cwd=tmp_path)
    with simhbase.open(f"rocksdb:{tmp_path}/s.db", access="read") as index:
        seen = [part_of(index, number, parts) for number in range(1, parts + 1)]
    assert [sum(column) for column in zip(*seen, strict=True)] == [
        whole["documents"],
        whole["listings"],
        whole["index_rows"],
    ]
    assert whole["documents"] == len(FILED)
    first = result("check", "--part", f"1/{parts}", *STORE, cwd=tmp_path)
    assert (first["documents"], first["listings"], first["index_rows"]) == seen[0]
    assert first["clean"]


def part_of(index, number, of):
    report = Checker(index.store, index.profile.index_scheme).check(Part(number, of))
    assert report.clean
    return report.documents, report.listings, report.index_rows


def test_each_problem_is_found_and_mended_in_the_part_that_it_is_in(tmp_path):
    load(tmp_path, FILED)
    with simhbase.open(f"rocksdb:{tmp_path}/s.db") as index:
        store = index.store
        store.records("fingerprints").delete([listing_key(FILED["d7"], "d7")])
        store.records("documents").delete([document_key("d8")])
        (rows,) = [rows for rows in store.drawers.iterate() if len(rows.keys)]
        of_d9 = rows.keys[decode(rows.keys)[2] == FILED["d9"]]
        store.drawers.remove(of_d9[:1], rows.times[:1])
    parts = [f"{number}/4" for number in range(1, 5)]
    done = [run("check", "--part", part, "--json", *STORE, cwd=tmp_path) for part in parts]
    found = [json.loads(part.stdout) for part in done]
    problems = Counter(kind for part in found for kind in part["problems"])
    assert problems.pop(STRAY_ROW) >= 1, "those of d7, which its fingerprint does not list"
    assert problems == {UNLISTED: 1, STRAY_LISTING: 1, UNINDEXED: 1}
    assert [each.returncode for each in done] == [1 if each["problems"] else 0 for each in found]
    for part in parts:
        assert result("check", "--repair", "--part", part, *STORE, cwd=tmp_path)["clean"]
    for _ in range(2):  # index rows of d8 may be in parts that came before that of its listing
        result("check", "--repair", *STORE, cwd=tmp_path)
    last = result("check", *STORE, cwd=tmp_path)
    assert (last["documents"], last["problems"], last["garbage"]) == (len(FILED) - 1, {}, {})


def test_what_is_no_part_is_a_usage_error(tmp_path):
    load(tmp_path, {"a": 0})
    done = run("check", "--part", "5/4", *STORE, cwd=tmp_path)
    assert done.returncode == 2
    assert b"--part" in done.stderr


def test_a_row_that_cannot_be_read_is_a_problem_and_is_removed_by_a_repair(tmp_path):
    load(tmp_path, {"a": 0})
    with simhbase.open(f"rocksdb:{tmp_path}/s.db") as index:
        index.store.records("documents").put([(document_key("b"), b"\x00")], 5)
    assert json.loads(run("check", "--json", *STORE, cwd=tmp_path).stdout)["problems"] == {UNREADABLE: 1}
    assert result("check", "--repair", *STORE, cwd=tmp_path)["clean"]
    assert result("check", *STORE, cwd=tmp_path)["documents"] == 1


@pytest.mark.parametrize("left", [0, 3, 7])
def test_a_value_that_is_cut_off_is_such_a_row(tmp_path, left):
    load(tmp_path, {"a": 0, "b": 1 << 40})
    with simhbase.open(f"rocksdb:{tmp_path}/s.db") as index:
        store = cast(RocksStore, index.store)
        (stored,) = store.database.get("documents", [document_key("a")])
        with store.exclusive():
            store.database.write([("documents", [document_key("a")], [stored[:left]])])
    assert json.loads(run("check", "--json", *STORE, cwd=tmp_path).stdout)["problems"][UNREADABLE] == 1
    assert result("check", "--repair", *STORE, cwd=tmp_path)["clean"]
    assert result("find", "--id", "b", *STORE, cwd=tmp_path)["matches"]
    load(tmp_path, {"a": 0})
    assert result("check", *STORE, cwd=tmp_path)["documents"] == 2


@pytest.mark.parametrize("row", [b"\1", b"\1" * 20])
def test_an_index_row_of_another_length_is_named_and_a_copy_is_without_it(tmp_path, row):
    load(tmp_path, {"a": 0, "b": 1 << 40})
    with simhbase.open(f"rocksdb:{tmp_path}/s.db") as index:
        store = cast(RocksStore, index.store)
        with store.exclusive():
            store.database.write([("index", [row], [b""])])
    done = run("check", "--repair", *STORE, cwd=tmp_path)
    assert done.returncode == 1
    assert f"has {len(row)} bytes instead of 13: {row.hex()}" in done.stderr.decode()
    result("migrate", *STORE, "--to", "rocksdb:other.db", cwd=tmp_path)
    assert result("check", "--store", "rocksdb:other.db", cwd=tmp_path)["clean"]


def test_a_repair_ends_where_texts_are_needed(tmp_path):
    documents(tmp_path / "a.jsonl", texts(1))
    run("load", *STORE, "a.jsonl", cwd=tmp_path)
    with simhbase.open(f"rocksdb:{tmp_path}/s.db") as index:
        (fingerprint,) = index.fingerprints(["d0"])
        records = index.store.records("documents")
        (cell,) = records.get([document_key("d0")])
        key = document_key("d0")
        records.put([(key, Entry(fingerprint).encode(key))], cell.version)
    done = run("check", *STORE, cwd=tmp_path)
    assert b"Error: problems were found; load the texts again" in done.stderr
    assert result("check", "--repair", *STORE, cwd=tmp_path, exit_code=1)["passes"] == 1


def test_a_damaged_profile_is_named(tmp_path):
    load(tmp_path, {"a": 0})
    with simhbase.open(f"rocksdb:{tmp_path}/s.db") as index:
        index.store.records("meta").put([(b"profile", b"{oops")])
    done = run("check", *STORE, cwd=tmp_path)
    assert done.returncode == 1
    assert b"the row 'profile' of the table meta of rocksdb:s.db is damaged" in done.stderr


# --- stores of other versions ---


def test_every_command_refuses_a_store_of_another_format_and_says_what_to_do(tmp_path):
    documents(tmp_path / "a.jsonl", texts(2))
    result("load", "a.jsonl", *STORE, cwd=tmp_path)
    with simhbase.open(f"rocksdb:{tmp_path}/s.db") as index:
        meta = Meta(index.store)
        profile = json.loads(meta.get(b"profile")) | {"format": 2}
        meta.put([(b"profile", json.dumps(profile).encode())])
    for command in (
        ("load", "a.jsonl"),
        ("find", "a.jsonl"),
        ("delete", "d0"),
        ("check",),
        ("stats",),
        ("vacuum",),
        ("tables", "create"),
        ("tables", "check"),
        ("tables", "describe"),
    ):
        done = run(*command, *STORE, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (12, b""), command
        (told,) = done.stderr.decode().splitlines()
        assert "format 2" in told
        assert "load the documents into a new store" in told
    assert run("tables", "drop", "--yes", *STORE, cwd=tmp_path).returncode == 0
