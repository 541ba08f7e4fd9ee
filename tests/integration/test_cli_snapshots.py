"""`simhbase tables snapshot` and `tables restore`: copies of stores as they are."""

import os
import signal
import subprocess
import time
from contextlib import suppress

import pytest

import simhbase
from simhbase.admin import Administrator
from simhbase.errors import TablesMissing
from simhbase.stores import drop_store
from tests.command_line import COMMAND, environment, fingerprints, result, run
from tests.content import content

STORE = ("--store", "rocksdb:s.db")


def load(tmp_path, values, store=STORE):
    file = fingerprints(tmp_path / "prepared.jsonl", values)
    return result("load", "--fingerprint-field", "f", *store, file, cwd=tmp_path)


def spread(count, first=0):
    return {f"d{number}": number * 0x9E3779B97F4A7C15 % 2**64 for number in range(first, first + count)}


def rows(path):
    with simhbase.open(f"rocksdb:{path}", access="read") as index:
        return content(index.store)


def test_a_snapshot_is_the_store_as_it_was(tmp_path):
    load(tmp_path, spread(50))
    before = rows(tmp_path / "s.db")
    made = result("tables", "snapshot", "kept/monday", *STORE, cwd=tmp_path)
    assert made == {"store": "rocksdb:s.db", "snapshot": "kept/monday"}
    load(tmp_path, spread(20, first=100))
    result("delete", "d1", *STORE, cwd=tmp_path)
    assert rows(tmp_path / "kept" / "monday") == before != rows(tmp_path / "s.db")
    found = result("find", "--id", "d1", "--store", "rocksdb:kept/monday", cwd=tmp_path)
    assert [match["id"] for match in found["matches"]] == ["d1"]


def test_a_store_that_was_dropped_is_restored(tmp_path):
    load(tmp_path, spread(50))
    before = rows(tmp_path / "s.db")
    result("tables", "snapshot", "kept", *STORE, cwd=tmp_path)
    result("tables", "drop", "--yes", *STORE, cwd=tmp_path)
    result("tables", "restore", "kept", *STORE, cwd=tmp_path)
    assert rows(tmp_path / "s.db") == rows(tmp_path / "kept") == before
    load(tmp_path, spread(20, first=100))
    assert result("check", *STORE, cwd=tmp_path)["documents"] == 70
    assert rows(tmp_path / "kept") == before


def test_nothing_that_exists_is_overwritten(tmp_path):
    load(tmp_path, spread(5))
    result("tables", "snapshot", "kept", *STORE, cwd=tmp_path)
    load(tmp_path, {"late": 1})
    (tmp_path / "file").touch()
    for command, name, there in (
        ("snapshot", "kept", "kept"),
        ("snapshot", "file", "file"),
        ("restore", "kept", "s.db"),
    ):
        done = run("tables", command, name, *STORE, cwd=tmp_path)
        assert done.returncode == 2
        assert f"{tmp_path / there} exists already".encode() in done.stderr
    assert result("stats", "--exact", *STORE, cwd=tmp_path)["documents"] == 6
    assert result("stats", "--exact", "--store", "rocksdb:kept", cwd=tmp_path)["documents"] == 5


@pytest.mark.parametrize("is_link", [True, False], ids=["link", "folder"])
def test_a_folder_beside_the_snapshot_is_not_emptied(tmp_path, is_link):
    load(tmp_path, spread(5))
    folder = tmp_path / ("others" if is_link else "kept.tmp")
    folder.mkdir()
    (folder / "thesis.txt").write_text("of a user")
    if is_link:
        (tmp_path / "kept.tmp").symlink_to("others")
    result("tables", "snapshot", "kept", *STORE, cwd=tmp_path)
    assert (folder / "thesis.txt").read_text() == "of a user"
    names = {path.name for path in tmp_path.iterdir()}
    assert names - {"kept.tmp", "others"} == {"kept", "s.db", "prepared.jsonl"}
    assert rows(tmp_path / "kept") == rows(tmp_path / "s.db")


def test_a_snapshot_within_the_store_is_refused(tmp_path):
    load(tmp_path, spread(5))
    done = run("tables", "snapshot", "s.db/kept", *STORE, cwd=tmp_path)
    assert done.returncode == 2
    assert b"is inside the folder of the store" in done.stderr
    assert not (tmp_path / "s.db" / "kept").exists()


def test_while_another_writes_it_is_busy(tmp_path):
    load(tmp_path, spread(5))
    with simhbase.open(f"rocksdb:{tmp_path / 's.db'}"):
        done = run("tables", "snapshot", "kept", *STORE, cwd=tmp_path)
    assert done.returncode == 13
    assert b"wait until that process ends" in done.stderr
    assert not (tmp_path / "kept").exists()


def test_readers_do_not_mind(tmp_path):
    load(tmp_path, spread(5))
    with simhbase.open(f"rocksdb:{tmp_path / 's.db'}", access="read") as index:
        result("tables", "snapshot", "kept", *STORE, cwd=tmp_path)
        assert index.fingerprints(["d1"]) != [None]


@pytest.mark.parametrize("command", ["snapshot", "restore"])
def test_what_is_not_there_exits_10(tmp_path, command):
    done = run("tables", command, "kept", *STORE, cwd=tmp_path)
    assert done.returncode == 10
    assert list(tmp_path.iterdir()) == []


def test_a_store_in_memory_has_none(tmp_path):
    load(tmp_path, spread(5))
    result("tables", "snapshot", "kept", *STORE, cwd=tmp_path)
    assert run("tables", "snapshot", "other", "--store", "memory:", cwd=tmp_path).returncode == 10
    done = run("tables", "restore", "kept", "--store", "memory:", cwd=tmp_path)
    assert done.returncode == 2
    assert b"cannot be restored from a snapshot" in done.stderr


def test_a_snapshot_that_was_killed_leaves_none_and_is_made_again(tmp_path):
    load(tmp_path, spread(2000))
    for pause in (0.2, 0.4, 0.5, 0.6):
        command = [*COMMAND, "tables", "snapshot", "kept", *STORE]
        with subprocess.Popen(
            command, cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            time.sleep(pause)
            os.kill(process.pid, signal.SIGKILL)
        if (tmp_path / "kept").exists():
            break
    else:
        result("tables", "snapshot", "kept", *STORE, cwd=tmp_path)
    assert rows(tmp_path / "kept") == rows(tmp_path / "s.db")


def test_dropping_asks_with_a_word_of_snapshots(tmp_path):
    load(tmp_path, spread(5))
    done = run("tables", "drop", *STORE, cwd=tmp_path)
    assert done.returncode == 2
    assert b"'simhbase tables snapshot' makes a copy" in done.stderr
    assert result("stats", "--exact", *STORE, cwd=tmp_path)["documents"] == 5


def test_python_returns_what_was_made(tmp_path):
    load(tmp_path, spread(5))
    url = f"rocksdb:{tmp_path / 's.db'}"
    made = simhbase.tables.snapshot(url, str(tmp_path / "kept"))
    assert (made.store, made.script) == (url, None)
    other = f"rocksdb:{tmp_path / 't.db'}"
    simhbase.tables.restore(other, f"rocksdb:{tmp_path / 'kept'}")
    with simhbase.open(other) as index:
        assert Administrator(index).stats(exact=True).documents == 5


def test_hbase_gets_scripts_for_its_shell(tmp_path):
    store = ("--store", "hbase://nowhere/texts:news")
    script = result("tables", "snapshot", "1122", *store, cwd=tmp_path)["script"]
    _, snapshots = script.split("\nend\n")
    assert snapshots.splitlines() == [
        *(
            f"take 'texts:news_{table}', '1122-{table}'"
            for table in ("meta", "documents", "fingerprints", "index", "obsolete")
        ),
        "take 'texts:news_met', '1122-met' unless list('texts:news_met').empty?",
        "exit",
    ]
    script = result("tables", "restore", "1122", *store, cwd=tmp_path)["script"]
    assert "create_namespace 'texts'" in script
    assert script.splitlines()[-2:] == ["clone_snapshot '1122-meta', 'texts:news_meta'", "exit"]
    done = run("tables", "snapshot", "1'2", *store, cwd=tmp_path)
    assert done.returncode == 2
    assert b"names no snapshot in HBase" in done.stderr


@pytest.mark.full  # docs/hbase.md's clones are made in the short suite
@pytest.mark.hbase
def test_hbase_s_shell_runs_them(hbase, tmp_path):
    one, other = (hbase.url(name) for name in ("snapped", "unsnapped"))
    try:
        for url in (one, other):
            with suppress(TablesMissing):
                drop_store(url)
        result("tables", "create", "--regions", 2, "--set", "verify=false", "--store", one, cwd=tmp_path)
        load(tmp_path, spread(20), ("--store", one))
        scripts = [
            result("tables", "snapshot", "snap", "--store", one, cwd=tmp_path)["script"],
            result("tables", "restore", "snap", "--store", other, cwd=tmp_path)["script"],
        ]
        tables = ("meta", "documents", "fingerprints", "index", "obsolete")
        gone = "".join(f"delete_snapshot 'snap-{table}'\n" for table in tables)
        left = "".join(f"begin\n  delete_snapshot 'snap-{table}'\nrescue\nend\n" for table in tables)
        hbase.shell(left + "".join(script.removesuffix("exit\n") for script in scripts) + gone + "exit\n")
        report = result("check", "--store", other, cwd=tmp_path)
        assert (report["documents"], report["clean"]) == (20, True)
    finally:
        for url in (one, other):
            with suppress(TablesMissing):
                drop_store(url)
