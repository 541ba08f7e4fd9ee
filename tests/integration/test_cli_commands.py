"""Every command's answers, on the embedded store."""

import bz2
import gzip
import json
import lzma
import re
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pytest
import zstandard
from pyarrow import parquet

import simhbase
from simhbase.admin.check import STRAY_LISTING, UNLISTED
from simhbase.cli import cli
from simhbase.index.rows import document_key, listing_key
from simhbase.stores.meta import Meta
from simhbase.text.userfile import read_table
from tests.command_line import documents, fingerprints, read_lines, result, run, texts, write_lines

NEWS = "国务院总理主持召开常务会议，研究部署进一步促进就业和稳定物价的政策措施，听取有关部门工作汇报。"
ZERO = "0x" + "0" * 16
STORE = ("--store", "rocksdb:s.db")
FAR = 0xFFFFFFFFFFFFFFFF


WARC = (
    b"WARC/1.0\r\nWARC-Type: resource\r\nWARC-Target-URI: http://x/\r\nContent-Type: text/plain\r\n"
    b"Content-Length: %d\r\n\r\n%b\r\n\r\n" % (len(NEWS.encode()), NEWS.encode())
)


def load(tmp_path, values, *options, exit_code=0):
    """Loads prepared fingerprints."""
    file = fingerprints(tmp_path / "prepared.jsonl", values)
    return result("load", "--fingerprint-field", "f", *options, file, cwd=tmp_path, exit_code=exit_code)


def matches(answer):
    return [(match["id"], match["distance"]) for match in answer["matches"]]


# --- load and find ---


def test_what_was_loaded_is_found_by_text_id_and_fingerprint(tmp_path):
    documents(tmp_path / "a.jsonl", [NEWS, *texts(3)])
    report = result("load", "a.jsonl", *STORE, cwd=tmp_path)
    assert report.pop("seconds") >= 0
    stored = {"loaded": 4, "added": 4, "updated": 0, "unchanged": 0}
    others = {"duplicates": 0, "outdated": 0, "rejected": 0, "unreadable_sources": 0, "unusable_sources": []}
    source = {
        "source": "a.jsonl",
        "documents": 4,
        "duplicates": 0,
        "removed": 0.0,
        "rejected": 0,
        "unreadable": 0,
    }
    rest = {"sources": [source], "largest": [], "new_store": True}
    assert report == {"documents": 4, **stored, **others, **rest}

    by_text = result("find", "--text", NEWS, *STORE, cwd=tmp_path)
    assert by_text["id"] is None
    assert matches(by_text) == [("d0", 0)]
    assert not by_text["truncated"]
    by_id = result("find", "--id", "d0", *STORE, cwd=tmp_path)
    assert by_id == {**by_text, "id": "d0"}
    by_fingerprint = result("find", "--fingerprint", by_text["fingerprint"], *STORE, cwd=tmp_path)
    assert by_fingerprint == by_text


def test_the_store_is_simhbase_db_in_the_working_folder_unless_told_otherwise(tmp_path):
    documents(tmp_path / "a.jsonl", [NEWS])
    result("load", "a.jsonl", cwd=tmp_path)
    assert (tmp_path / "simhbase.db").is_dir()
    assert matches(result("find", "--text", NEWS, cwd=tmp_path)) == [("d0", 0)]
    result("load", "a.jsonl", cwd=tmp_path, SIMHBASE_STORE="rocksdb:other.db")
    assert (tmp_path / "other.db").is_dir()
    result("load", "a.jsonl", "--store", "rocksdb:third.db", cwd=tmp_path, SIMHBASE_STORE="rocksdb:other.db")
    assert (tmp_path / "third.db").is_dir()


def test_a_store_in_the_folder_that_is_loaded_is_no_input(tmp_path):
    documents(tmp_path / "a.jsonl", [NEWS])
    result("load", ".", cwd=tmp_path)
    again = result("load", ".", cwd=tmp_path)
    assert (again["documents"], again["unchanged"]) == (1, 1)


def test_a_tilde_in_the_url_of_a_store_is_the_home_folder(tmp_path):
    documents(tmp_path / "a.jsonl", [NEWS])
    result("load", "a.jsonl", "--store", "rocksdb:~/s.db", cwd=tmp_path, HOME=str(tmp_path / "home"))
    assert (tmp_path / "home" / "s.db").is_dir()


def test_matches_come_nearest_first_then_by_id(tmp_path):
    load(tmp_path, {"c": 0b1, "b": 0b1, "a": 0b111, "far": FAR, "q": 0}, *STORE)
    answer = result("find", "--fingerprint", ZERO, *STORE, cwd=tmp_path)
    assert matches(answer) == [("q", 0), ("b", 1), ("c", 1), ("a", 3)]
    narrow = result("find", "--fingerprint", ZERO, "-k", 1, *STORE, cwd=tmp_path)
    assert matches(narrow) == [("q", 0), ("b", 1), ("c", 1)]


def test_k_above_the_guarantee_is_a_usage_error(tmp_path):
    load(tmp_path, {"a": 1}, *STORE)
    done = run("find", "--fingerprint", ZERO, "-k", 4, *STORE, cwd=tmp_path)
    assert done.returncode == 2
    assert b"k = 4" in done.stderr
    assert done.stdout == b""


def test_limits_say_that_an_answer_was_cut(tmp_path):
    load(tmp_path, {"a": 0, "b": 0, "c": 1, "d": 2}, *STORE)
    whole = result("find", "--fingerprint", ZERO, *STORE, cwd=tmp_path)
    assert (len(whole["matches"]), whole["truncated"]) == (4, False)
    ids_cut = result("find", "--fingerprint", ZERO, "--ids-limit", 1, *STORE, cwd=tmp_path)
    assert (matches(ids_cut), ids_cut["truncated"]) == ([("a", 0), ("c", 1), ("d", 1)], True)
    drawers_cut = result("find", "--fingerprint", ZERO, "--drawer-limit", 1, *STORE, cwd=tmp_path)
    assert drawers_cut["truncated"]
    to_the_end = result("find", "--fingerprint", ZERO, "--drawer-limit", "all", *STORE, cwd=tmp_path)
    assert to_the_end == whole


def test_find_answers_a_line_for_every_record_in_input_order(tmp_path):
    known, unknown = texts(2)
    documents(tmp_path / "a.jsonl", [known])
    result("load", "a.jsonl", *STORE, cwd=tmp_path)
    write_lines(
        tmp_path / "queries.jsonl",
        [{"id": 1, "text": unknown}, {"id": 2, "text": ""}, {"id": 3, "text": known}, {"text": known}],
    )
    answers = result("find", "queries.jsonl", *STORE, cwd=tmp_path, exit_code=3)
    assert [answer["id"] for answer in answers] == ["1", "2", "3", None]
    assert [answer["fingerprint"] is None for answer in answers] == [False, True, False, True]
    assert [matches(answer) for answer in answers] == [[], [], [("d0", 0)], []]
    assert answers[1]["reason"] == "the text is empty"
    assert "no field 'id'" in answers[3]["reason"]


def test_find_leaves_out_the_query_itself_if_asked_to(tmp_path):
    load(tmp_path, {"a": 0, "b": 1, "c": FAR}, *STORE)
    asked = ("find", "--exclude-self", *STORE)
    answers = result(*asked, "--id", "a", "--id", "c", cwd=tmp_path)
    assert list(map(matches, answers)) == [[("b", 1)], []]
    answers = result(*asked, "--fingerprint-field", "f", "prepared.jsonl", cwd=tmp_path)
    assert list(map(matches, answers)) == [[("b", 1)], [("a", 1)], []]


def test_find_says_in_the_end_how_many_queries_have_matches(tmp_path):
    load(tmp_path, {"a": 0, "b": 1, "c": FAR}, *STORE)
    asked = ("find", "--exclude-self", "--fingerprint-field", "f", "prepared.jsonl", *STORE)
    assert run(*asked, cwd=tmp_path).stderr == b"2 of 3 queries have matches\n"
    assert run(*asked, "--json", cwd=tmp_path).stderr == b""
    assert run("find", "--id", "a", *STORE, cwd=tmp_path).stderr == b""


def test_find_reads_standard_input_where_nothing_else_is_asked(tmp_path):
    load(tmp_path, {"a": 0}, *STORE)
    line = b'{"id": "q", "f": "0x0000000000000001"}\n'
    piped = result("find", "--fingerprint-field", "f", *STORE, cwd=tmp_path, stdin=line)
    assert (piped["id"], matches(piped)) == ("q", [("a", 1)])
    both = result(
        "find", "--fingerprint-field", "f", "--fingerprint", ZERO, "-", *STORE, cwd=tmp_path, stdin=line
    )
    assert [answer["id"] for answer in both] == [None, "q"]


def test_an_id_that_is_not_stored_is_said_to_be_so(tmp_path):
    load(tmp_path, {"a": 0}, *STORE)
    answers = result("find", "--id", "nobody", "--id", "a", *STORE, cwd=tmp_path, exit_code=3)
    assert answers[0]["reason"] == "no document is stored under this id"
    assert matches(answers[1]) == [("a", 0)]


def test_find_without_json_is_for_reading(tmp_path):
    load(tmp_path, {"a": 0, "b": 1}, *STORE)
    done = run("find", "--id", "a", *STORE, cwd=tmp_path)
    assert done.stdout.decode().splitlines() == [
        "0000000000000000  a: 2 matches",
        "  0 bits  0000000000000000  a",
        "  1 bits  0000000000000001  b",
    ]


def test_find_explains_which_drawers_were_read_and_what_became_of_candidates(tmp_path):
    load(tmp_path, {"a": 0, "b": 1, "far": 0b1111}, *STORE)
    by_id, unknown = result("find", "--explain", "--id", "a", "--id", "x", *STORE, cwd=tmp_path, exit_code=3)
    assert [drawer["flag"] for drawer in by_id["drawers"]] == list(range(1, 11))
    assert by_id["drawers"][0] == {
        "flag": 1,
        "bits": [[0, 26]],
        "prefix": "0000000001",
        "rows": 3,
        "candidates": 2,
        "truncated": False,
    }
    assert [(each["id"], each["verdict"], each["distance"]) for each in by_id["candidates"]] == [
        ("a", "match", 0),
        ("b", "match", 1),
        ("far", "too far", 4),
    ]
    assert by_id["candidates"][1]["drawers"] == [1, 2, 3, 5, 6, 8]
    assert unknown["reason"] == "no document is stored under this id"
    by_text = result("find", "--explain", "--text", NEWS, *STORE, cwd=tmp_path)
    assert by_text["candidates"] == []


def test_an_explanation_without_json_is_for_reading(tmp_path):
    load(tmp_path, {"a": 0, "far": 0b1111}, *STORE)
    lines = run("find", "--explain", "--id", "a", *STORE, cwd=tmp_path).stdout.decode().splitlines()
    assert lines[:3] == [
        "0000000000000000  a: 1 match",
        "  flag  bits          prefix      rows  candidates",
        "  1     0-25          0000000001  2     1",
    ]
    assert lines[-2:] == [
        "  match    0         1,2,3,4,5,6,7,8,9,10  0000000000000000  a",
        "  too far  4         1,2,3,5,6,8           000000000000000f  far",
    ]


def test_what_cannot_be_explained_is_refused(tmp_path):
    load(tmp_path, {"a": 0}, *STORE)
    done = run("find", "--explain", "--fingerprint", ZERO, *STORE, cwd=tmp_path)
    assert done.returncode == 2
    assert b"--explain needs --text or --id" in done.stderr


def test_a_stored_id_is_replaced_by_a_later_load(tmp_path):
    load(tmp_path, {"a": 0, "b": 1}, *STORE)
    again = load(tmp_path, {"a": FAR, "b": 1, "c": 0b1111 << 20}, *STORE)
    assert (again["loaded"], again["duplicates"]) == (3, 0)
    assert (again["added"], again["updated"], again["unchanged"]) == (1, 1, 1)
    assert matches(result("find", "--fingerprint", ZERO, *STORE, cwd=tmp_path)) == [("b", 1)]
    assert matches(result("find", "--id", "a", *STORE, cwd=tmp_path)) == [("a", 0)]


def test_the_same_id_twice_in_a_load_keeps_the_first(tmp_path):
    first, second = texts(2)
    file = write_lines(tmp_path / "a.jsonl", [{"id": 1, "text": first}, {"id": "1", "text": second}])
    report = result("load", file, "--rejects", "r.jsonl", *STORE, cwd=tmp_path, exit_code=3)
    assert (report["documents"], report["loaded"], report["rejected"]) == (2, 1, 1)
    (reject,) = read_lines(tmp_path / "r.jsonl")
    assert (reject["line"], reject["id"]) == (2, "1")
    assert "line 1" in reject["reason"]
    assert matches(result("find", "--text", first, *STORE, cwd=tmp_path)) == [("1", 0)]
    assert matches(result("find", "--text", second, *STORE, cwd=tmp_path)) == []


def test_folders_globs_formats_and_prefixes_name_the_documents(tmp_path):
    jsonl, cell, whole, line = texts(4)
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(json.dumps({"id": 1, "text": jsonl}).encode()))
    (folder / "b.csv").write_text(f"text,id\n{cell},2\n")
    (folder / "c.txt").write_text(whole)
    (tmp_path / "d.list").write_text(f"\n{line}\n")
    result("load", "in", "--id-prefix", "x/", *STORE, cwd=tmp_path)
    result("load", "*.list", "--format", "lines", *STORE, cwd=tmp_path)
    for text, name in ((jsonl, "x/1"), (cell, "x/2"), (whole, "x/c.txt"), (line, "d.list:2")):
        assert matches(result("find", "--text", text, *STORE, cwd=tmp_path)) == [(name, 0)]


# --- load --unique-only ---


def test_a_unique_load_is_greedy_in_input_order_and_against_the_store(tmp_path):
    load(tmp_path, {"stored": FAR}, *STORE)
    values = {"a": 0, "b": 0b111, "c": 0b111111, "d": FAR ^ 1, "stored": FAR ^ 3}
    files = ("--unique", "u.jsonl", "--duplicates", "d.jsonl", "--rejects", "r.jsonl")
    report = load(tmp_path, values, "--unique-only", *files, *STORE)
    assert (report["documents"], report["loaded"], report["duplicates"]) == (5, 3, 2)
    source = str(tmp_path / "prepared.jsonl")
    assert read_lines(tmp_path / "d.jsonl") == [
        {"id": "b", "duplicate_of": "a", "distance": 3, "source": source, "line": 2},
        {"id": "d", "duplicate_of": "stored", "distance": 1, "source": source, "line": 4},
    ]
    assert [record["id"] for record in read_lines(tmp_path / "u.jsonl")] == ["a", "c", "stored"]
    assert read_lines(tmp_path / "r.jsonl") == []
    assert result("stats", "--exact", *STORE, cwd=tmp_path)["documents"] == 3


def test_a_unique_load_again_keeps_the_same(tmp_path):
    values = {"a": 0, "b": 1, "c": FAR}
    options = ("--unique-only", "--unique", "u.jsonl", "--duplicates", "d.jsonl", *STORE)
    first = load(tmp_path, values, *options)
    files = (tmp_path / "u.jsonl").read_bytes(), (tmp_path / "d.jsonl").read_bytes()
    again = load(tmp_path, values, *options)
    assert (first["added"], again["unchanged"]) == (2, 2)
    others = {"seconds": 0, "added": 0, "unchanged": 0, "new_store": False}
    assert first | others == again | others
    assert ((tmp_path / "u.jsonl").read_bytes(), (tmp_path / "d.jsonl").read_bytes()) == files


def test_a_unique_load_says_what_became_of_each_source(tmp_path):
    some = texts(120)
    (tmp_path / "folder").mkdir()
    documents(tmp_path / "folder" / "a.jsonl", some[:60], prefix="a")
    documents(tmp_path / "folder" / "b.jsonl", ["x", *some[60:]], prefix="b")
    documents(tmp_path / "c.jsonl", [some[0]] * 96 + texts(4, seed=2), prefix="c")
    (tmp_path / "d.jsonl").write_text("no json\n")
    done = run(
        "load", "--json", "--unique-only", *STORE, "folder", "c.jsonl", "d.jsonl", "gone", cwd=tmp_path
    )
    assert done.returncode == 3
    assert [tuple(each.values()) for each in json.loads(done.stdout)["sources"]] == [
        ("folder", 121, 0, 0.0, 1, 0),
        ("c.jsonl", 100, 96, 0.96, 0, 0),
        ("d.jsonl", 1, 0, 0.0, 1, 0),
        ("gone", 0, 0, 0.0, 0, 1),
    ]
    assert "c.jsonl: 96.0% of its 100 documents are duplicates" in done.stderr.decode()
    shown = run("load", *STORE, "folder", "c.jsonl", cwd=tmp_path).stdout.decode()
    assert re.search(r"^  folder +121 +0 +0.00 +1 +0$", shown, re.MULTILINE)
    alone = run("load", *STORE, "c.jsonl", cwd=tmp_path).stdout.decode()
    assert "sources" not in alone


def test_the_unique_file_holds_the_records_as_they_came(tmp_path):
    text = texts(1)[0]
    line = f'{{"id": 7, "title": "新闻", "text": "{text}"}}'
    (tmp_path / "a.jsonl").write_text(line + "\n", "utf-8")
    result("load", "a.jsonl", "--unique-only", "--unique", "u.jsonl", *STORE, cwd=tmp_path)
    assert (tmp_path / "u.jsonl").read_text("utf-8") == line + "\n"


@pytest.mark.parametrize("command", [("load", "--unique-only", *STORE), ("dedup",)])
def test_a_file_named_by_a_dash_is_standard_output(tmp_path, command):
    documents(tmp_path / "a.jsonl", texts(2))
    done = run(*command, "a.jsonl", "--unique", "-", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout == (tmp_path / "a.jsonl").read_bytes()
    assert b"documents" in done.stderr
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("dedup", "--unique", "-", "--json"), "--unique - and --json both go to standard output"),
        (("dedup", "--unique", "-", "--duplicates", "-"), "two options write to standard output"),
        (("fingerprint", "--rejects", "-"), "--rejects - and the results both go to standard output"),
    ],
)
def test_two_results_are_not_mixed_in_standard_output(tmp_path, command, told):
    documents(tmp_path / "a.jsonl", texts(2))
    done = run(*command, "a.jsonl", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert told in done.stderr.decode()


def test_the_files_of_a_run_with_an_id_prefix_name_documents_alike(tmp_path):
    one, other = texts(2)
    records = [{"id": 1, "title": "新", "text": one}, {"id": 2, "text": one}, {"id": 3, "text": other}]
    write_lines(tmp_path / "a.jsonl", records)
    files = ("--yes", "--id-prefix", "p/", "--unique", "u.jsonl", "--duplicates", "d.jsonl")
    of_load = {"similarity": 1, "source": "a.jsonl", "line": 2}
    of_dedup = of_load | {"group": "p/1", "kept_source": "a.jsonl", "kept_line": 1}
    for command, named in (("load", "--unique-only", *STORE), of_load), (("dedup",), of_dedup):
        result(*command, *files, "a.jsonl", cwd=tmp_path)
        assert read_lines(tmp_path / "u.jsonl") == [records[0] | {"id": "p/1"}, records[2] | {"id": "p/3"}]
        duplicate = {"id": "p/2", "duplicate_of": "p/1", "distance": 0}
        assert read_lines(tmp_path / "d.jsonl") == [duplicate | named]


@pytest.mark.parametrize("option", ["--unique", "--duplicates"])
def test_files_of_a_unique_load_need_one(tmp_path, option):
    documents(tmp_path / "a.jsonl", [NEWS])
    done = run("load", "a.jsonl", option, "x.jsonl", cwd=tmp_path)
    assert done.returncode == 2
    assert b"unique-only" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl"]


# --- profiles ---


def test_a_store_keeps_its_profile(tmp_path):
    documents(tmp_path / "a.jsonl", texts(3))
    result("load", "a.jsonl", "--profile", "classic", "--set", "layout=6x3", *STORE, cwd=tmp_path)
    result("load", "a.jsonl", *STORE, cwd=tmp_path)
    profile = result("tables", "describe", *STORE, cwd=tmp_path)["profile"]
    assert (profile["weights"], profile["top"], profile["layout"]) == ("tfidf", 64, "6x3")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--set", "k=2"), "k is 3, not 2"),
        (("--profile", "classic"), "weights is capped, not tfidf"),
    ],
)
def test_options_that_differ_from_the_profile_exit_12_with_both(tmp_path, options, told):
    documents(tmp_path / "a.jsonl", texts(1))
    result("load", "a.jsonl", *STORE, cwd=tmp_path)
    for command in (("load", "a.jsonl"), ("tables", "create")):
        done = run(*command, *options, *STORE, cwd=tmp_path)
        assert done.returncode == 12
        assert told in done.stderr.decode()
    result(
        "load", "a.jsonl", "--set", "layout=5x2", "--set", "k=3", "--profile", "default", *STORE, cwd=tmp_path
    )


def test_files_that_differ_from_the_profile_are_told_in_words(tmp_path):
    documents(tmp_path / "a.jsonl", texts(1))
    (tmp_path / "own.idf").write_text("alpha 1.5\nbeta 2\n")
    (tmp_path / "stop.txt").write_text("one two three four five six")
    result("load", "a.jsonl", "--set", "weights=tfidf", *STORE, cwd=tmp_path)
    done = run(
        "load", "a.jsonl", "--set", "idf=own.idf", "--set", "stop_words=stop.txt", *STORE, cwd=tmp_path
    )
    assert done.returncode == 12
    told = done.stderr.decode()
    assert "idf is jieba's table, not a file of 2 words (SHA-256 " in told
    assert "stop_words is none, not 6 words (five, four, one, six, three, ...)" in told
    assert "{" not in told


def test_a_preset_that_differs_only_by_its_defaults_is_noticed(tmp_path):
    documents(tmp_path / "a.jsonl", texts(1))
    result("load", "a.jsonl", "--profile", "classic", *STORE, cwd=tmp_path)
    assert run("load", "a.jsonl", "--profile", "default", *STORE, cwd=tmp_path).returncode == 12


def test_a_machine_that_makes_other_fingerprints_is_refused_for_texts_alone(tmp_path):
    documents(tmp_path / "a.jsonl", [NEWS])
    result("load", "--set", "verify=false", "a.jsonl", *STORE, cwd=tmp_path)
    with simhbase.open(f"rocksdb:{tmp_path}/s.db") as index:
        meta = Meta(index.store)
        profile = json.loads(meta.get(b"profile"))
        here, profile["probes"][0] = profile["probes"][0], "0123456789abcdef"
        meta.put([(b"profile", json.dumps(profile).encode())])

    for command in (("tables", "check"), ("find", "--text", NEWS), ("find", "a.jsonl"), ("load", "a.jsonl")):
        done = run(*command, *STORE, cwd=tmp_path)
        assert done.returncode == 12
        assert done.stdout == b""
        (told,) = done.stderr.decode().splitlines()
        assert "0123456789abcdef in the store" in told
        assert f"{here} here" in told
    assert matches(result("find", "--id", "d0", *STORE, cwd=tmp_path)) == [("d0", 0)]
    assert load(tmp_path, {"a": 0}, *STORE)["loaded"] == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--set", "layout=3x3"), "--set layout: 3x3 guarantees nothing"),
        (("--encoding", "utf-17"), "utf-17"),
        (("--threads", "0"), "'--threads'"),
        (("--processes", "2"), "--processes: worker processes only extract the text of HTML"),
        (("--format", "lines", "--processes", "2"), "set the number of threads"),
    ],
)
def test_options_out_of_range_are_named_and_create_nothing(tmp_path, options, told):
    documents(tmp_path / "a.jsonl", texts(1))
    done = run("load", "a.jsonl", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert told in done.stderr.decode()
    assert done.stdout == b""
    assert not (tmp_path / "simhbase.db").exists()


def test_an_idf_file_needs_no_ids(tmp_path):
    file = write_lines(tmp_path / "a.jsonl", [{"text": "alpha beta"}, {"id": None, "text": "beta gamma"}])
    assert result("idf", "-o", "own.idf", file, cwd=tmp_path)["documents"] == 2


def test_stop_words_and_an_idf_file_of_ones_own_go_into_the_store(tmp_path):
    documents(tmp_path / "a.jsonl", ["alpha beta gamma delta", "gamma epsilon", "zeta"])
    idf = result("idf", "a.jsonl", "-o", "own.idf", cwd=tmp_path)
    assert (idf["documents"], idf["words"]) == (3, 6)
    (tmp_path / "stop.txt").write_text("Alpha\nＢＥＴＡ\n", "utf-8")
    own = (
        "--set",
        "verify=false",
        "--set",
        "weights=tfidf",
        "--set",
        "idf=own.idf",
        "--set",
        "stop_words=stop.txt",
    )
    result("load", "a.jsonl", *own, *STORE, cwd=tmp_path, exit_code=3)
    profile = result("tables", "describe", *STORE, cwd=tmp_path)["profile"]
    assert profile["stop_words"] == ["alpha", "beta"]
    assert profile["idf"] == {"source": "user", "digest": read_table(tmp_path / "own.idf").digest}
    (tmp_path / "own.idf").unlink()
    assert matches(result("find", "--text", "gamma delta", *STORE, cwd=tmp_path)) == [("d0", 0)]


def test_lists_of_a_profile_may_be_compressed(tmp_path):
    (tmp_path / "own.idf").write_bytes(gzip.compress(b"alpha 1.5\n"))
    (tmp_path / "own.boilerplate").write_bytes(zstandard.compress(b"line\t1\tsubscribe\n"))
    (tmp_path / "stop.txt").write_bytes(gzip.compress("Alpha 的".encode()))
    own = ("--set", "weights=tfidf", "--set", "idf=own.idf", "--set", "boilerplate=own.boilerplate")
    result("tables", "create", *own, "--set", "stop_words=stop.txt", *STORE, cwd=tmp_path)
    profile = result("tables", "describe", *STORE, cwd=tmp_path)["profile"]
    assert profile["stop_words"] == ["alpha", "的"]
    assert profile["boilerplate"]["lines"] == 1
    assert profile["idf"]["digest"] == sha256(b"alpha 1.5\n").hexdigest()


@pytest.mark.parametrize("typed", ["\\t", "\t"])
def test_a_tab_between_cells_is_typed_as_people_do(tmp_path, typed):
    (tmp_path / "a.csv").write_text(f"id\ttext\na\t{texts(1)[0]}\n")
    assert result("load", "a.csv", "--delimiter", typed, *STORE, cwd=tmp_path)["loaded"] == 1


# --- dedup, fingerprint, idf ---


def test_dedup_groups_chains_and_names_the_first_of_each(tmp_path):
    values = {"a": 0, "far": FAR, "b": 0b111, "c": 0b111111, "alone": 0x00FF00FF00FF00FF, "far2": FAR}
    file = fingerprints(tmp_path / "p.jsonl", values)
    options = ("--chains", "--unique", "u.jsonl", "--duplicates", "d.jsonl", "--fingerprint-field", "f")
    report = result("dedup", *options, file, cwd=tmp_path)
    assert report.pop("seconds") >= 0
    assert report == {
        "documents": 6,
        "unique": 3,
        "duplicates": 3,
        "duplicates_of_stored": 0,
        "unreadable_sources": 0,
        "unusable_sources": [],
        "group_count": 2,
        "not_contained": 0,
        "truncated": 0,
        "rejected": 0,
        "sources": [
            {
                "source": str(file),
                "documents": 6,
                "duplicates": 3,
                "removed": 0.5,
                "rejected": 0,
                "unreadable": 0,
            }
        ],
        "largest": [{"group": "a", "documents": 3}, {"group": "far", "documents": 2}],
    }
    assert [record["id"] for record in read_lines(tmp_path / "u.jsonl")] == ["a", "far", "alone"]
    places = {"source": str(file), "kept_source": str(file)}
    assert read_lines(tmp_path / "d.jsonl") == [
        line | places
        for line in (
            {"id": "b", "duplicate_of": "a", "distance": 3, "group": "a", "line": 3, "kept_line": 1},
            {"id": "c", "duplicate_of": "a", "distance": 6, "group": "a", "line": 4, "kept_line": 1},
            {"id": "far2", "duplicate_of": "far", "distance": 0, "group": "far", "line": 6, "kept_line": 2},
        )
    ]


CHAIN = [
    {"id": "a", "f": f"0x{0:016x}", "n": 9, "when": "2020-02-01"},
    {"id": "b", "f": f"0x{0b111:016x}", "n": 10, "when": "2021-01-01"},
    {"id": "c", "f": f"0x{0b111111:016x}", "n": 2.5, "when": "2019-05-05"},
    {"id": "d", "f": f"0x{0b111111111:016x}", "n": None},
]  # each near the next


@pytest.mark.parametrize(
    ("suffix", "options", "duplicate_of"),
    [
        ("jsonl", ("--chains", "--keep", "-n"), {"a": "c", "b": "c", "d": "c"}),
        ("jsonl", ("--no-chains", "--keep", "first"), {"b": "a", "d": "c"}),
        ("jsonl", ("--keep", "newest", "--date-field", "when"), {"a": "b", "c": "b"}),
        ("csv", (), {"b": "a", "d": "c"}),
        ("csv", ("--chains", "--keep", "when"), {"a": "b", "c": "b", "d": "b"}),
        ("csv", ("--keep", "n"), {"a": "b", "c": "b"}),
    ],
)
def test_dedup_keeps_what_is_asked_for_and_forms_chains_where_asked(tmp_path, suffix, options, duplicate_of):
    file = write_lines(tmp_path / "p.jsonl", CHAIN)
    if suffix == "csv":
        file = tmp_path / "p.csv"
        rows = [["" if value is None else str(value) for value in row.values()] for row in CHAIN]
        file.write_text("\n".join(map(",".join, [["id", "f", "n", "when"], *rows[:3], [*rows[3], ""]])))
    files = ("--unique", "u.jsonl", "--duplicates", "d.jsonl", "--fingerprint-field", "f")
    result("dedup", *files, *options, file, cwd=tmp_path)
    found = {line["id"]: line for line in read_lines(tmp_path / "d.jsonl")}
    assert {name: line["duplicate_of"] for name, line in found.items()} == duplicate_of
    assert all(line["group"] == min({name, *_members(found, line)}) for name, line in found.items())
    kept = [record["id"] for record in read_lines(tmp_path / "u.jsonl")]
    assert kept == [record["id"] for record in CHAIN if record["id"] not in duplicate_of]


def _members(found, line):
    others = (name for name, other in found.items() if other["duplicate_of"] == line["duplicate_of"])
    return {line["duplicate_of"], *others}


@pytest.mark.parametrize("scheme", [(), ("--min-similarity", "0.5"), ("--set", "scheme=minhash")])
def test_dedup_keeps_the_longest_text_of_a_group(tmp_path, scheme):
    one, other = texts(2, words=300)
    file = documents(tmp_path / "a.jsonl", [one, other, f"{one} more", one])
    files = ("--unique", "u.jsonl", "--duplicates", "d.jsonl", "--keep", "longest")
    result("dedup", *files, *scheme, file, cwd=tmp_path)
    assert [record["id"] for record in read_lines(tmp_path / "u.jsonl")] == ["d1", "d2"]
    lines = read_lines(tmp_path / "d.jsonl")
    assert [(line["id"], line["duplicate_of"], line["group"]) for line in lines] == [
        ("d0", "d2", "d0"),
        ("d3", "d2", "d0"),
    ]


def test_groups_keep_their_names_when_a_longer_document_is_added(tmp_path):
    one = texts(1, words=300)[0]
    options = ("--duplicates", "d.jsonl", "--keep", "longest", "--yes")
    named = []
    for contents in ([one, one], [one, one, f"{one} more"]):
        file = documents(tmp_path / "a.jsonl", contents)
        result("dedup", *options, file, cwd=tmp_path)
        line = {line["id"]: line for line in read_lines(tmp_path / "d.jsonl")}["d1"]
        named.append((line["duplicate_of"], line["group"]))
    assert named == [("d0", "d0"), ("d2", "d0")]


def test_dedup_says_how_to_see_the_duplicates_to_people_who_did_not_ask(tmp_path):
    file = fingerprints(tmp_path / "p.jsonl", {"a": 0, "b": 1})
    dedup = ("dedup", "--fingerprint-field", "f", file)
    assert b"use --duplicates FILE to write the duplicates" in run(*dedup, cwd=tmp_path).stderr
    for told in (("--duplicates", "d.jsonl"), ("--json",), ("--set", "k=0")):
        assert run(*dedup, *told, cwd=tmp_path).stderr == b""


def test_dedup_chooses_a_layout_for_a_larger_k_unless_told_one(tmp_path):
    file = fingerprints(tmp_path / "p.jsonl", {"a": 0, "b": 0b111111})
    assert result("dedup", "--fingerprint-field", "f", file, cwd=tmp_path)["group_count"] == 0
    assert result("dedup", "--fingerprint-field", "f", "--set", "k=6", file, cwd=tmp_path)["group_count"] == 1
    done = run("dedup", "--fingerprint-field", "f", "--set", "k=6", "--set", "layout=5x2", file, cwd=tmp_path)
    assert done.returncode == 2
    assert b"k = 6" in done.stderr


def test_dedup_reads_a_pipe_once_and_writes_all_its_files(tmp_path):
    one, other = texts(2)
    lines = "".join(json.dumps({"id": n, "text": t}) + "\n" for n, t in enumerate([one, other, one, ""]))
    options = ("--unique", "u.jsonl", "--duplicates", "d.jsonl", "--rejects", "r.jsonl")
    report = result("dedup", *options, cwd=tmp_path, stdin=lines.encode(), exit_code=3)
    assert (report["documents"], report["unique"], report["duplicates"], report["rejected"]) == (4, 2, 1, 1)
    assert [record["id"] for record in read_lines(tmp_path / "u.jsonl")] == [0, 1]
    duplicate = {"id": "2", "duplicate_of": "0", "distance": 0, "similarity": 1, "group": "0"}
    places = {"source": "stdin", "line": 3, "kept_source": "stdin", "kept_line": 1}
    assert read_lines(tmp_path / "d.jsonl") == [duplicate | places]
    assert read_lines(tmp_path / "r.jsonl") == [
        {"source": "stdin", "line": 4, "id": "3", "reason": "the text is empty"}
    ]


def test_fingerprints_of_128_bits_are_made_and_compared(tmp_path):
    one, other = texts(2)
    file = documents(tmp_path / "a.jsonl", [one, other, one])
    rows = result("fingerprint", "--set", "bits=128", file, cwd=tmp_path)
    assert [row["id"] for row in rows] == ["d0", "d1", "d2"]
    assert all(len(row["fingerprint"]) == 32 for row in rows)
    assert rows[0]["fingerprint"] == rows[2]["fingerprint"] != rows[1]["fingerprint"]
    prepared = write_lines(tmp_path / "p.jsonl", rows)
    for report in (
        result("dedup", "--set", "bits=128", file, cwd=tmp_path),
        result("dedup", "--set", "bits=128", "--fingerprint-field", "fingerprint", prepared, cwd=tmp_path),
    ):
        assert (report["unique"], report["group_count"]) == (2, 1)


def test_fingerprints_made_for_a_store_load_like_its_texts(tmp_path):
    documents(tmp_path / "a.jsonl", texts(5))
    result("load", "a.jsonl", "--profile", "classic", *STORE, cwd=tmp_path)
    rows = result("fingerprint", "a.jsonl", *STORE, cwd=tmp_path)
    write_lines(tmp_path / "p.jsonl", rows)
    options = ("--profile", "classic", "--store", "rocksdb:t.db", "--fingerprint-field", "fingerprint")
    result("load", "p.jsonl", *options, cwd=tmp_path)
    for row in rows:
        answer = result("find", "--id", row["id"], "--store", "rocksdb:t.db", cwd=tmp_path)
        assert answer["fingerprint"] == row["fingerprint"]
    assert run("fingerprint", "a.jsonl", "--profile", "default", *STORE, cwd=tmp_path).returncode == 12


def test_fingerprint_without_json_is_digits_and_id(tmp_path):
    file = documents(tmp_path / "a.jsonl", [NEWS])
    (row,) = run("fingerprint", file, cwd=tmp_path).stdout.decode().splitlines()
    assert row == result("fingerprint", file, cwd=tmp_path)["fingerprint"] + "  d0"


def test_an_idf_file_counts_the_documents_of_each_word(tmp_path):
    file = documents(tmp_path / "a.jsonl", ["two two", "two one"])
    assert result("idf", "-o", "all.idf", file, cwd=tmp_path)["words"] == 2
    assert (tmp_path / "all.idf").read_text() == "one 0.405465\ntwo 0.000000\n"
    assert result("idf", "-o", "two.idf", "--min-documents", 2, file, cwd=tmp_path)["words"] == 1
    assert (tmp_path / "two.idf").read_text() == "two 0.000000\n"
    done = run("idf", "-o", "none.idf", "--min-documents", 3, file, cwd=tmp_path)
    assert done.returncode == 1
    assert not (tmp_path / "none.idf").exists()


# --- tables, delete, stats, check ---


def test_tables_are_created_described_checked_and_dropped(tmp_path):
    created = result("tables", "create", "--set", "layout=6x3", "--set", "k=2", *STORE, cwd=tmp_path)
    assert created["profile"]["layout"] == "6x3"
    assert result("tables", "create", *STORE, cwd=tmp_path) == created
    described = result("tables", "describe", *STORE, cwd=tmp_path)
    assert described["profile"] == created["profile"]
    assert described["tables"] == {}  # how HBase keeps them; stats has their sizes
    sizes = result("stats", *STORE, cwd=tmp_path)["table_estimates"]
    assert set(sizes) == {"index", "fingerprints", "documents", "meta"}
    assert result("tables", "check", *STORE, cwd=tmp_path)["same"]
    assert result("tables", "drop", "--yes", *STORE, cwd=tmp_path)["dropped"]
    assert list(tmp_path.iterdir()) == []


def test_tables_of_128_bits_are_refused(tmp_path):
    done = run("tables", "create", "--set", "bits=128", *STORE, cwd=tmp_path)
    assert done.returncode == 2
    assert b"--set bits" in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("find", "--text", NEWS),
        ("delete", "a"),
        ("stats",),
        ("check",),
        ("check", "--repair"),
        ("tables", "check"),
        ("tables", "describe"),
        ("tables", "drop", "--yes"),
        ("tables", "drop"),
    ],
    ids=" ".join,
)
def test_a_store_that_does_not_exist_exits_10_and_is_not_made(tmp_path, command):
    done = run(*command, "--store", "rocksdb:mistyped.db", cwd=tmp_path)
    assert done.returncode == 10
    assert b"mistyped.db" in done.stderr
    assert done.stdout == b""
    assert list(tmp_path.iterdir()) == []


def test_a_url_of_no_store_is_a_usage_error(tmp_path):
    done = run("stats", "--store", "mysql:x", cwd=tmp_path)
    assert done.returncode == 2
    assert b"mysql:x" in done.stderr


def test_deleted_documents_are_not_found_any_more(tmp_path):
    load(tmp_path, {"a": 0, "b": 1, "c 3": 2, "d": FAR}, *STORE)
    (tmp_path / "ids.txt").write_text("c 3\r\n\nnobody\n", "utf-8")
    report = result("delete", "a", "--ids-file", "ids.txt", *STORE, cwd=tmp_path)
    assert report == {"ids": 3, "deleted": 2}
    assert matches(result("find", "--fingerprint", ZERO, *STORE, cwd=tmp_path)) == [("b", 1)]
    piped = result("delete", "--ids-file", "-", *STORE, cwd=tmp_path, stdin=b"b\nb\n")
    assert piped == {"ids": 2, "deleted": 1}
    assert result("check", *STORE, cwd=tmp_path)["documents"] == 1


def test_ids_to_delete_may_come_with_a_byte_order_mark(tmp_path):
    load(tmp_path, {"a": 0, "b": 1}, *STORE)
    (tmp_path / "ids.txt").write_bytes(b"\xef\xbb\xbfa\r\nb\r\n")
    done = run("delete", "--yes", "--ids-file", "ids.txt", "--json", *STORE, cwd=tmp_path)
    assert json.loads(done.stdout) == {"ids": 2, "deleted": 2}
    assert done.stderr == b""


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_ids_to_delete_may_be_compressed(tmp_path, compress):
    load(tmp_path, {"a": 0, "b": 1}, *STORE)
    (tmp_path / "ids").write_bytes(compress(b"a\nb\n"))
    assert result("delete", "--yes", "--ids-file", "ids", *STORE, cwd=tmp_path) == {"ids": 2, "deleted": 2}


def test_delete_names_ids_that_are_not_stored(tmp_path):
    load(tmp_path, {"a": 0}, *STORE)
    done = run("delete", "--yes", "A", "\udcff", "a", *STORE, cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr.decode() == "not stored in rocksdb:s.db: A, \\udcff\n"
    many = run("delete", *(f"n{number}" for number in range(11)), *STORE, cwd=tmp_path)
    assert many.stderr.decode().endswith("n8, n9, ...\n")


def test_delete_takes_what_load_and_dedup_list(tmp_path):
    load(tmp_path, {"a": 0, "b": 1, "7": 2, "{x": 3}, *STORE)
    lines = ['{"id": "a", "duplicate_of": "b", "distance": 1}', '{"id": 7}', "{x"]
    (tmp_path / "duplicates.jsonl").write_text("\n".join(lines))
    report = result("delete", "--ids-file", "duplicates.jsonl", *STORE, cwd=tmp_path)
    assert report == {"ids": 3, "deleted": 3}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"text": "t"}', b"this object has no 'id'"),
        (b'{"id": true}', b"the id is True"),
        (b'{"id": ""}', b"the id is empty"),
        (b"a" * 1025, b"the id has 1025 bytes in UTF-8, at most 1024 are allowed"),
        (b"a" * (17 << 20), b"bytes or more, at most 16,777,216 are read"),
    ],
    ids=range(5),
)
def test_a_line_that_is_no_id_deletes_nothing_behind_it(tmp_path, line, reason):
    load(tmp_path, {"a": 0, "b": 1, "True": 2}, *STORE)
    done = run("delete", "--yes", "--ids-file", "-", *STORE, cwd=tmp_path, stdin=b"b\n%b\nTrue\n" % line)
    assert done.returncode == 1
    assert b"--ids-file -, line 2: " in done.stderr
    assert reason in done.stderr
    assert result("check", *STORE, cwd=tmp_path)["documents"] == 3


def test_integers_beyond_64_bits_are_ids_to_delete_as_they_are_loaded(tmp_path):
    (tmp_path / "big.jsonl").write_text(
        '{"id": 123456789012345678901234567890, "text": "one two three four"}\n'
    )
    run("load", "big.jsonl", *STORE, cwd=tmp_path)
    report = result("delete", "--yes", "--ids-file", "big.jsonl", *STORE, cwd=tmp_path)
    assert report == {"ids": 1, "deleted": 1}


def test_texts_of_a_table_are_no_ids(tmp_path):
    load(tmp_path, {"a": 0, "b": 1}, *STORE)
    parquet.write_table(pa.table({"id": ["1", "2"], "text": ["a", "b"]}), tmp_path / "ids")
    done = run("delete", "--yes", "--ids-file", "ids", *STORE, cwd=tmp_path)
    assert done.returncode == 1
    assert b"--ids-file ids: it is a Parquet or Arrow file: write its ids one per line" in done.stderr


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom", "/dev/full"])
@pytest.mark.parametrize(
    "options",
    [
        ("delete", "--yes", "--ids-file", "{}"),
        ("load", "{}"),
        ("fingerprint", "--format", "lines", "{}"),
    ],
)
def test_a_device_without_end_is_refused(tmp_path, device, options):
    load(tmp_path, {"a": 0}, *STORE)
    done = run(*(each.format(device) for each in options), *STORE, cwd=tmp_path)
    assert done.returncode == 1
    assert b"it is a device, which may have no end" in done.stderr


def test_nothing_is_a_file_of_ids(tmp_path):
    load(tmp_path, {"a": 0}, *STORE)
    report = result("delete", "--yes", "--ids-file", "/dev/null", *STORE, cwd=tmp_path)
    assert report == {"ids": 0, "deleted": 0}


def test_delete_without_ids_is_a_usage_error(tmp_path):
    load(tmp_path, {"a": 0}, *STORE)
    done = run("delete", *STORE, cwd=tmp_path)
    assert done.returncode == 2
    assert b"--ids-file" in done.stderr


def test_stats_count_exactly_when_asked(tmp_path):
    load(tmp_path, {"a": 0, "b": 0, "c": FAR}, *STORE)
    exact = result("stats", "--exact", *STORE, cwd=tmp_path)
    assert (exact["documents"], exact["fingerprints"], exact["index_rows"]) == (3, 2, 20)
    assert exact["exact"]
    assert exact["bytes"] > 0
    assert "profile" not in exact  # tables describe has it
    assert exact["drawers"] == {"sampled": 20, "mean_rows": 1.0, "largest_rows": 1, "over_limit": 0}
    assert exact["estimates"] == ["bytes", "bytes_per_document"]


def test_stats_say_which_numbers_are_estimates(tmp_path):
    load(tmp_path, {"a": 0, "b": 0, "c": FAR}, *STORE)
    roughly = result("stats", *STORE, cwd=tmp_path)
    assert not roughly["exact"]
    counts = ["documents", "fingerprints", "index_rows"]
    assert roughly["estimates"] == [*counts, "bytes", "bytes_per_document"]
    assert set(roughly["estimates"]) < set(roughly)
    shown = run("stats", *STORE, cwd=tmp_path).stdout.decode().splitlines()
    assert [line.split()[-2] for line in shown[:3]] == ["about"] * 3
    exactly = run("stats", "--exact", *STORE, cwd=tmp_path).stdout.decode().splitlines()
    assert [line.split() for line in exactly[:2]] == [["documents", "3"], ["fingerprints", "2"]]
    assert [line.split()[:2] for line in exactly if "about" in line] == [["bytes", "about"], ["bytes", "per"]]


def test_stats_of_an_empty_store_divide_by_nothing(tmp_path):
    result("tables", "create", *STORE, cwd=tmp_path)
    empty = result("stats", "--exact", *STORE, cwd=tmp_path)
    assert (empty["documents"], empty["bytes_per_document"]) == (0, None)
    assert empty["drawers"]["mean_rows"] is None


def test_a_clean_store_passes_the_check(tmp_path):
    load(tmp_path, {"a": 0, "b": 0}, *STORE)
    report = result("check", *STORE, cwd=tmp_path)
    assert report == {
        "documents": 2,
        "listings": 2,
        "index_rows": 10,
        "problems": {},
        "garbage": {},
        "examples": {},
        "passes": 1,
        "clean": True,
        "removable": {},
    }


def test_a_damaged_store_fails_the_check_until_it_is_repaired(tmp_path):
    load(tmp_path, {"a": 0, "b": 0, "c": FAR}, *STORE)
    with simhbase.open(f"rocksdb:{tmp_path}/s.db") as index:
        index.store.records("fingerprints").delete([listing_key(0, "a")])
        index.store.records("documents").delete([document_key("c")])
    found = run("check", "--json", *STORE, cwd=tmp_path)
    assert found.returncode == 1
    assert b"--repair" in found.stderr
    problems = {UNLISTED: 1, STRAY_LISTING: 1}
    assert json.loads(found.stdout)["problems"] == problems
    assert json.loads(found.stdout)["garbage"] == {}, "this store leaves none, so what is there is damage"
    assert json.loads(found.stdout)["examples"] == {UNLISTED: ["a"], STRAY_LISTING: [f"c under {FAR:016x}"]}

    mended = result("check", "--repair", *STORE, cwd=tmp_path)
    assert mended["problems"].items() >= problems.items()
    assert (mended["clean"], mended["passes"]) == (True, 3)
    assert result("check", *STORE, cwd=tmp_path)["problems"] == {}
    near = result("find", "--fingerprint", ZERO, *STORE, cwd=tmp_path)
    assert matches(near) == [("a", 0), ("b", 0)]
    assert matches(result("find", "--fingerprint", "f" * 16, *STORE, cwd=tmp_path)) == []


def test_the_console_names_problems_with_examples(tmp_path):
    load(tmp_path, {"a": 0}, *STORE)
    with simhbase.open(f"rocksdb:{tmp_path}/s.db") as index:
        index.store.records("fingerprints").delete([listing_key(0, "a")])
    lines = run("check", *STORE, cwd=tmp_path).stdout.decode().splitlines()
    assert f"  {UNLISTED}  1" in lines
    assert lines[lines.index("examples") + 1 : lines.index("examples") + 3] == [f"  {UNLISTED}", "    a"]


def test_documents_without_ids_are_named_by_their_texts(tmp_path):
    first, second = texts(2)
    write_lines(tmp_path / "a.jsonl", [{"text": first}, {"text": second}])
    (tmp_path / "b.csv").write_text(f"text,n\n{second},1\n", encoding="utf-8")
    for name, loaded in (("a.jsonl", 2), ("b.csv", 1)):
        assert result("load", name, "--id-from", "text", *STORE, cwd=tmp_path)["loaded"] == loaded
    assert result("stats", "--exact", *STORE, cwd=tmp_path)["documents"] == 2
    ((found, _),) = matches(result("find", "--text", second, *STORE, cwd=tmp_path))
    assert len(found) == 16


def test_a_folder_of_many_formats_is_loaded_by_several_threads_and_processes(tmp_path):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    rows = [{"n": number, "content": {"body": text}} for number, text in enumerate(texts(3000))]
    parquet.write_table(pa.Table.from_pylist(rows), corpus / "a.parquet")
    lines = b"".join(
        json.dumps({"n": f"j{row['n']}", "content": row["content"]}).encode() + b"\n" for row in rows
    )
    (corpus / "b.jsonl.xz").write_bytes(lzma.compress(lines))
    (corpus / "c.md").write_text(texts(1)[0], encoding="utf-8")
    (corpus / "d.warc.bz2").write_bytes(bz2.compress(WARC))
    options = ("--text-field", "content.body", "--id-field", "n", "--threads", 2, "--processes", 2)
    report = result("load", "corpus", *options, *STORE, cwd=tmp_path)
    assert (report["loaded"], report["rejected"]) == (6002, 0)
    answer = result("find", "--text", texts(1)[0], *STORE, cwd=tmp_path)
    assert {match["id"] for match in answer["matches"]} == {"0", "j0", "c.md"}
    assert matches(result("find", "--text", NEWS, *STORE, cwd=tmp_path)) == [("http://x/", 0)]


def test_the_guide_has_the_exit_codes_that_the_help_has():
    guide = (Path(simhbase.__file__).parents[1] / "docs" / "using.md").read_text("utf-8")
    _, _, section = guide.partition("## Exit codes\n")
    table, _, _ = section.partition("\n## ")
    assert re.findall(r"^\| (\d+) \|", table, re.MULTILINE) == re.findall(r"\b(\d+) [a-z]", cli.epilog)


def test_a_load_says_that_it_created_the_store(tmp_path):
    documents(tmp_path / "a.jsonl", texts(2))
    first = run("load", "a.jsonl", *STORE, cwd=tmp_path)
    assert first.stdout.decode().splitlines()[-1].split() == ["new", "store", "yes"]
    assert b"new store" not in run("load", "a.jsonl", *STORE, cwd=tmp_path).stdout
    refused = run("load", "a.jsonl", "--store", "memory:", cwd=tmp_path)
    assert (refused.returncode, b"is gone when the load ends" in refused.stderr) == (2, True)


@pytest.mark.parametrize("typed", ["1000000", "1e6", "1,000,000"])
def test_plan_takes_a_number_of_documents_as_people_write_it(typed, tmp_path):
    assert result("plan", typed, cwd=tmp_path)["documents"] == 1_000_000
    for wrong in ("many", "0", "1.5", "inf", "nan", "1,5e9", "1,5", "10,00", "1,000,00"):
        done = run("plan", wrong, cwd=tmp_path)
        assert (done.returncode, b"no number of documents" in done.stderr) == (2, True)
