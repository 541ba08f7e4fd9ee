"""Keeping documents for a time: `simhbase delete --older-than`, `simhbase find --since`."""

import json
from functools import partial

import pytest

import simhbase
from simhbase.index.reader import IDS_LIMIT
from simhbase.index.writer import DocumentBatch, Writer
from simhbase.stores.atomic import BaseStore
from simhbase.stores.base import now
from tests.command_line import documents, read_lines, result, run, texts

STORE = ("--store", "rocksdb:s.db")
DAY = 24 * 3_600_000  # milliseconds
OPTIONS = pytest.mark.parametrize(
    "options",
    [
        (),
        (
            "--set",
            "verify=true",
        ),
        ("--set", "scheme=minhash"),
    ],
    ids=["simhash", "verified", "minhash"],
)


@pytest.fixture
def made():
    return texts(1)[0]


def load(tmp_path, made, *options):
    """A store with three copies of a text: d0 from 100 days ago, d1 from 10, d2 from now."""
    result("load", documents(tmp_path / "a.jsonl", [made] * 3), *options, *STORE, cwd=tmp_path)
    with simhbase.open(f"rocksdb:{tmp_path / 's.db'}") as index:
        batch = index.fingerprinter.fingerprint_many([made]).fingerprints
        for document, days in (("d0", 100), ("d1", 10)):
            index.delete([document])
            time = now() - days * DAY
            Writer(index.store, index.profile.index_scheme, partial(int, time)).add(
                DocumentBatch([document], batch)
            )


def found(tmp_path, made, *options):
    answer = result("find", "--text", made, *options, *STORE, cwd=tmp_path)
    return [match["id"] for match in answer["matches"]]


@OPTIONS
def test_documents_are_found_by_when_they_were_last_written(tmp_path, made, options):
    load(tmp_path, made, *options)
    assert found(tmp_path, made) == ["d0", "d1", "d2"]
    assert found(tmp_path, made, "--since", "30d") == ["d1", "d2"]
    assert found(tmp_path, made, "--since", "12h") == ["d2"]
    assert found(tmp_path, made, "--since", "2020-02-29") == ["d0", "d1", "d2"]
    assert found(tmp_path, made, "--since", "0s") == []
    assert len(result("find", "--id", "d2", "--since", "1w", *STORE, cwd=tmp_path)["matches"]) == 1


@OPTIONS
def test_what_is_older_is_deleted(tmp_path, made, options):
    load(tmp_path, made, *options)
    assert result("delete", "--older-than", "30d", *STORE, cwd=tmp_path) == {"deleted": 1}
    assert found(tmp_path, made) == ["d1", "d2"]
    assert result("delete", "--older-than", "30d", *STORE, cwd=tmp_path) == {"deleted": 0}
    assert result("check", *STORE, cwd=tmp_path)["clean"]


def test_what_a_load_finds_unchanged_is_not_written_anew(tmp_path, made):
    load(tmp_path, made)
    report = result("load", documents(tmp_path / "a.jsonl", [made] * 3), *STORE, cwd=tmp_path)
    assert report["unchanged"] == 3
    assert result("delete", "--older-than", "30d", *STORE, cwd=tmp_path) == {"deleted": 1}


@pytest.mark.parametrize("given", [("d0",), ("--ids-file", "-")])
def test_ids_and_an_age_do_not_go_together(tmp_path, made, given):
    load(tmp_path, made)
    done = run("delete", *given, "--older-than", "30d", *STORE, cwd=tmp_path)
    assert done.returncode == 2
    assert b"leave out ids and --ids-file" in done.stderr
    assert found(tmp_path, made) == ["d0", "d1", "d2"]


@pytest.mark.parametrize("command", [("delete", "--older-than"), ("find", "--text", "a b", "--since")])
def test_what_is_no_time_is_a_usage_error(tmp_path, made, command):
    load(tmp_path, made)
    done = run(*command, "soon", *STORE, cwd=tmp_path)
    assert done.returncode == 2
    assert f"Invalid value for '{command[-1]}': ".encode() in done.stderr
    assert b"is not a time: use a number with s, m, h, d or w" in done.stderr


def test_a_time_that_is_to_come_is_a_usage_error(tmp_path, made):
    load(tmp_path, made)
    done = run("delete", "--older-than", "9999-01-01", *STORE, cwd=tmp_path)
    assert done.returncode == 2
    assert b"9999-01-01 is in the future: give a time in the past" in done.stderr


def test_deleting_what_is_older_of_what_is_not_there_exits_10(tmp_path):
    assert run("delete", "--older-than", "30d", *STORE, cwd=tmp_path).returncode == 10
    assert not (tmp_path / "s.db").exists()


def test_it_is_said_on_the_console_how_many_are_gone(tmp_path, made):
    load(tmp_path, made)
    assert run("delete", "--older-than", "5d", *STORE, cwd=tmp_path).stdout == b"deleted  2\n"


@pytest.mark.hbase
def test_the_same_in_hbase(hbase, tmp_path, made):
    url = hbase.empty_store("retention")
    store = ("--store", url)
    result("tables", "create", *store, cwd=tmp_path)
    result("load", documents(tmp_path / "a.jsonl", [made]), *store, cwd=tmp_path)
    answer = run("find", "--text", made, "--since", "1h", "--json", *store, cwd=tmp_path)
    assert [match["id"] for match in json.loads(answer.stdout)["matches"]] == ["d0"]
    assert result("delete", "--older-than", "1d", *store, cwd=tmp_path) == {"deleted": 0}


# --- a time to live ---


def age(tmp_path, days):
    """Makes all documents of the store so much older."""
    with simhbase.open(f"rocksdb:{tmp_path / 's.db'}") as index:
        table = index.store.records("documents")
        rows = [(key, cell) for batch in table.iterate() for key, cell in batch]
        table.delete([key for key, _ in rows])
        values = [(key, cell.value) for key, cell in rows]
        table.put(values, [cell.version - days * DAY for _, cell in rows])


@pytest.mark.parametrize("options", [(), ("--set", "layout=6x3"), ("--set", "scheme=minhash")])
def test_a_store_whose_documents_expire(tmp_path, made, options):
    made_by = ("tables", "create", "--ttl", "30d", *options, *STORE)
    result(*made_by, cwd=tmp_path)
    assert result("tables", "describe", *STORE, cwd=tmp_path)["ttl"] == 30 * 86400
    result("load", documents(tmp_path / "a.jsonl", [made]), *STORE, cwd=tmp_path)
    age(tmp_path, 29)
    assert found(tmp_path, made) == ["d0"]
    assert result("vacuum", *STORE, cwd=tmp_path)["expired"] == 0
    age(tmp_path, 2)
    assert found(tmp_path, made) == []
    assert result("find", "--id", "d0", *STORE, cwd=tmp_path, exit_code=3)["matches"] == []
    assert result("check", *STORE, cwd=tmp_path)["clean"]
    report = result("vacuum", *STORE, cwd=tmp_path)
    assert (report["looked_at"], report["expired"]) == (1, 1)
    assert result("check", *STORE, cwd=tmp_path)["listings"] == 0


def test_what_has_expired_is_no_duplicate_and_not_stored(tmp_path, made):
    result("tables", "create", "--ttl", "30d", *STORE, cwd=tmp_path)
    result("load", documents(tmp_path / "a.jsonl", [made]), *STORE, cwd=tmp_path)
    again = ("load", "--unique-only", documents(tmp_path / "b.jsonl", [made], "e"), *STORE)
    assert result(*again, "--name", "one", cwd=tmp_path)["duplicates"] == 1
    age(tmp_path, 31)
    done = run("delete", "d0", *STORE, cwd=tmp_path)
    assert b"not stored in rocksdb:s.db: d0" in done.stderr
    assert result(*again, "--name", "two", cwd=tmp_path)["added"] == 1


def test_a_stored_document_is_compared_with_behind_a_thousand_that_have_expired(tmp_path, made):
    result("tables", "create", "--ttl", "30d", *STORE, cwd=tmp_path)
    result("load", documents(tmp_path / "a.jsonl", [made] * (IDS_LIMIT + 10)), *STORE, cwd=tmp_path)
    age(tmp_path, 31)
    result("load", documents(tmp_path / "b.jsonl", [made], "z"), *STORE, cwd=tmp_path)
    new = documents(tmp_path / "c.jsonl", [*texts(2), made], "new")
    report = result("dedup", "--against", "rocksdb:s.db", "--duplicates", "d.jsonl", new, cwd=tmp_path)
    assert report["duplicates_of_stored"] == 2
    found = {line["id"]: line["duplicate_of"] for line in read_lines(tmp_path / "d.jsonl")}
    assert found == {"new0": "z0", "new2": "z0"}


def test_a_store_keeps_the_time_to_live_it_was_created_with(tmp_path):
    result("tables", "create", "--ttl", "30d", *STORE, cwd=tmp_path)
    result("tables", "create", "--ttl", "30d", *STORE, cwd=tmp_path)
    result("tables", "check", "--ttl", "30d", *STORE, cwd=tmp_path)
    result("tables", "check", *STORE, cwd=tmp_path)
    for command in ("create", "check"):
        done = run("tables", command, "--ttl", "1d", *STORE, cwd=tmp_path)
        assert done.returncode == 14
        assert b"expire after 30 days, and should expire after 1 day. This" in done.stderr
    result("tables", "create", "--store", "rocksdb:t.db", cwd=tmp_path)
    done = run("tables", "check", "--ttl", "1d", "--store", "rocksdb:t.db", cwd=tmp_path)
    assert b"documents of rocksdb:t.db never expire, and should expire after 1 day" in done.stderr


def test_a_copy_has_the_time_to_live_that_is_asked_for(tmp_path, made):
    result("tables", "create", "--ttl", "30d", *STORE, cwd=tmp_path)
    result("load", documents(tmp_path / "a.jsonl", [made]), *STORE, cwd=tmp_path)
    for name, ttl, expected in ("t", "90d", 90 * 86400), ("u", "never", None):
        to = ("--to", f"rocksdb:{name}.db", "--ttl", ttl)
        for _ in range(2):
            result("migrate", *STORE, *to, cwd=tmp_path)
        described = result("tables", "describe", "--store", f"rocksdb:{name}.db", cwd=tmp_path)
        assert described.get("ttl") == expected
    done = run("migrate", *STORE, "--to", "rocksdb:t.db", "--ttl", "30d", cwd=tmp_path)
    assert done.returncode == 14
    assert b"documents of rocksdb:t.db expire after 90 days, and should expire after 30 days" in done.stderr
    done = run("migrate", *STORE, "--to", "rocksdb:v.db", "--ttl", "1d", "--salvage", "lost", cwd=tmp_path)
    assert (done.returncode, b"--salvage keeps the time to live" in done.stderr) == (2, True)


def test_a_time_to_live_is_that_of_the_store_it_is_copied_to(tmp_path, made):
    result("tables", "create", "--ttl", "30d", *STORE, cwd=tmp_path)
    result("load", documents(tmp_path / "a.jsonl", [made]), *STORE, cwd=tmp_path)
    result("migrate", *STORE, "--to", "rocksdb:t.db", cwd=tmp_path)
    assert result("tables", "describe", "--store", "rocksdb:t.db", cwd=tmp_path)["ttl"] == 30 * 86400
    result("tables", "create", "--ttl", "1d", "--store", "rocksdb:u.db", cwd=tmp_path)
    age(tmp_path, 2)
    done = run("migrate", *STORE, "--to", "rocksdb:u.db", "--json", cwd=tmp_path)
    report = json.loads(done.stdout)
    assert (report["documents"], report["added"], report["expired"]) == (1, 0, 1)
    assert b"left out, older than the time to live of rocksdb:u.db: 1\n" in done.stderr
    differs = "documents of rocksdb:u.db expire after 1 day, and those of rocksdb:s.db expire after 30 days"
    assert report["warnings"] == [differs]
    assert f"warning: {differs}\n".encode() in done.stderr
    stated = run("migrate", *STORE, "--to", "rocksdb:u.db", "--ttl", "1d", "--json", cwd=tmp_path)
    for agreed in (stated, run("migrate", *STORE, "--to", "rocksdb:t.db", "--json", cwd=tmp_path)):
        assert json.loads(agreed.stdout)["warnings"] == []


def test_a_copy_of_documents_whose_time_to_live_may_not_be_read_says_its_own(tmp_path, monkeypatch):
    """As in HBase without the right C; here a store that tells as little."""
    result("load", documents(tmp_path / "a.jsonl", texts(3)), *STORE, cwd=tmp_path)
    told = BaseStore.ttl
    monkeypatch.setattr(BaseStore, "ttl", lambda store: "unknown" if "s.db" in store.url else told(store))
    copy = ("migrate", *STORE, "--to", "rocksdb:t.db")
    done = run(*copy, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        b"Error: --ttl: is needed: documents of rocksdb:s.db may expire (this user may not read after which "
        b"time), so say after which time those of rocksdb:t.db do, or never\n"
    )
    assert not (tmp_path / "t.db").exists()
    for _ in range(2):  # to a new store, and to one that is there
        assert result(*copy, "--ttl", "7d", cwd=tmp_path)["documents"] == 3
    assert result("tables", "describe", "--store", "rocksdb:t.db", cwd=tmp_path)["ttl"] == 7 * 24 * 3600
    other = ("migrate", *STORE, "--to", "rocksdb:n.db", "--ttl", "never")
    assert result(*other, cwd=tmp_path)["documents"] == 3
    assert "ttl" not in result("tables", "describe", "--store", "rocksdb:n.db", cwd=tmp_path)


@pytest.mark.parametrize("ttl", ["0", "9999999999w"])
def test_a_time_to_live_has_bounds_everywhere(tmp_path, ttl):
    done = run("tables", "create", "--ttl", ttl, *STORE, cwd=tmp_path)
    assert done.returncode == 2
    assert b"--ttl: must be a whole number of seconds" in done.stderr
    assert not (tmp_path / "s.db").exists()
    result("tables", "create", *STORE, cwd=tmp_path)
    done = run("migrate", *STORE, "--to", "rocksdb:t.db", "--ttl", ttl, cwd=tmp_path)
    assert (done.returncode, b"--ttl: must be a whole number of seconds" in done.stderr) == (2, True)
    assert not (tmp_path / "t.db").exists()


@pytest.mark.parametrize("ttl", [True, 1.5, "90d", 0, 2**31])
def test_a_time_to_live_is_a_whole_number_of_seconds(tmp_path, ttl):
    url = f"rocksdb:{tmp_path / 's.db'}"
    for given in (simhbase.tables.create, simhbase.tables.check):
        with pytest.raises(simhbase.UsageError, match=f"ttl: must be a whole number of .*, not {ttl!r}"):
            given(url, ttl=ttl)
    with pytest.raises(simhbase.UsageError, match="ttl: must be a whole number"):
        simhbase.migrate("rocksdb:nowhere", url, ttl=ttl)
    assert not (tmp_path / "s.db").exists()
