"""`simhbase tables` where no HBase is asked: scripts for its shell, and what other stores refuse."""

from pathlib import Path

import pytest

from simhbase.stores.hbase.planning import Content
from tests.command_line import result, run

HBASE = "hbase://nowhere/news:articles"


def script(*options: object, cwd: Path) -> str:
    return result("tables", "ddl", "--store", HBASE, *options, cwd=cwd)["script"]


def test_the_script_has_what_was_chosen_and_its_use_is_said(tmp_path):
    options = ("--regions", 4, "--compression", "gz", "--ttl", "30d")
    printed = run("tables", "ddl", "--store", HBASE, *options, cwd=tmp_path)
    assert printed.stdout.decode() == script(*options, cwd=tmp_path)
    text = printed.stdout.decode()
    assert [line for line in text.splitlines() if line.startswith("create ")] == [
        f"create 'news:articles_{table}',"
        for table in ("index", "fingerprints", "documents", "obsolete", "meta")
    ]
    assert "create_namespace 'news'" in text
    assert (text.count("COMPRESSION => 'GZ'"), text.count("TTL => '2592000'")) == (5, 4)
    assert text.count("SPLITS => ['\\x40', '\\x80', '\\xC0']") == 4
    assert "hbase shell FILE" in text.partition("create")[0]
    assert b"hbase shell FILE" in printed.stderr


def test_a_time_to_live_is_that_of_four_tables(tmp_path):
    assert script("--ttl", "30d", cwd=tmp_path).count("TTL => '2592000'") == 4


@pytest.mark.parametrize(
    ("profile", "content"),
    [
        ((), Content(10**9, drawers=10, sketch_bytes=64)),
        (("--set", "layout=6x3", "--set", "verify=true"), Content(10**9, drawers=20, sketch_bytes=64)),
        (("--set", "scheme=minhash"), Content(10**9, drawers=20, sketch_bytes=256, listed=True)),
    ],
)
def test_regions_follow_from_documents_and_profile(tmp_path, profile, content):
    text = script("--documents", "1e9", *profile, cwd=tmp_path)
    splits = [table.partition("SPLITS => ")[2] for table in text.split("\ncreate ")[1:]]
    counted = [listed and listed.count(", ") + 2 for listed in splits]
    assert counted == [*content.regions().values(), ""]


def test_a_layout_with_drawers_longer_than_are_read_is_warned_of(tmp_path):
    many = ("tables", "ddl", "--store", HBASE, "--documents", 10**9)
    told = run(*many, "--set", "layout=4x1", cwd=tmp_path)
    assert told.returncode == 0
    assert "warning: layout 4x1 has 15,259 rows a drawer" in told.stderr.decode()
    for profile in ((), ("--set", "scheme=minhash")):
        assert b"warning" not in run(*many, *profile, cwd=tmp_path).stderr


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--regions", 4, "--documents", 5), "give one of them"),
        (("--ttl", "soon"), "'soon' is not a duration"),
        (("--ttl", "90"), "'90' is not a duration: use a number with s, m, h, d or w (30d)"),
        (("--ttl", "0"), "--ttl: must be a whole number of seconds"),
        (("--ttl", "9999999999w"), "--ttl: must be a whole number of seconds"),
        (("--compression", "zip"), "--compression: must be one of"),
        (("--regions", 0), "0 is not in the range"),
        (("--store", "rocksdb:s.db"), "tables ddl is for stores in HBase"),
        (("--store", "hbase://h/wrong prefix"), "is not [NAMESPACE:]PREFIX"),
    ],
)
def test_wrong_options_are_refused(tmp_path, options, reason):
    done = run("tables", "ddl", *options, cwd=tmp_path, SIMHBASE_STORE=HBASE)
    assert (done.returncode, done.stdout) == (2, b"")
    assert reason in done.stderr.decode()


@pytest.mark.parametrize(
    ("store", "command"),
    [
        ("rocksdb:s.db", ("create", "--regions", 4)),
        ("memory:", ("create", "--documents", 4)),
        ("rocksdb:s.db", ("check", "--compression", "none")),
    ],
)
def test_other_stores_refuse_what_only_hbase_has(tmp_path, store, command):
    done = run("tables", *command, "--store", store, cwd=tmp_path)
    assert done.returncode == 2
    assert f"{command[1]}: " in done.stderr.decode()
    assert f"{store} is not an HBase store" in done.stderr.decode()
    assert list(tmp_path.iterdir()) == []


def test_choices_for_new_tables_need_a_gateway_that_makes_them(tmp_path):
    done = run("tables", "create", "--store", HBASE, "--regions", 4, cwd=tmp_path)
    assert done.returncode == 2
    assert f"--regions: creating HBase tables needs a Thrift 2 gateway, and {HBASE}" in done.stderr.decode()


def test_what_an_interrupted_creation_left_is_dropped_after_the_same_question(tmp_path):
    from rocksdict import Options, Rdict

    half = Rdict(str(tmp_path / "s.db"), Options(raw_mode=True))
    half.create_column_family("index", Options(raw_mode=True)).close()
    half.close()
    drop = ("tables", "drop", "--store", "rocksdb:s.db")
    kept = run(*drop, cwd=tmp_path)
    assert (
        kept.returncode,
        b"delete rocksdb:s.db (not complete, or damaged): give --yes" in kept.stderr,
    ) == (2, True)
    assert run(*drop, "--yes", cwd=tmp_path).returncode == 0
    assert list(tmp_path.iterdir()) == []
    assert run(*drop, cwd=tmp_path).returncode == 10
