"""What dedup removes, and what it says of that."""

import csv
import random
import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

import simhbase
from simhbase.index.reader import DRAWER_LIMIT
from tests import reference
from tests.command_line import documents, fingerprints, read_lines, result, run, texts, write_lines


def reordered(kept: int) -> str:
    """A text of 200 words, of which those behind `kept` come in the opposite order: the same fingerprint for
    each number, and other shingles."""
    words = [word[:2] for word in texts(1, words=200)[0].split()]
    return " ".join([*words[:kept], *reversed(words[kept:])])


# --- what is removed ---


def test_texts_without_a_fingerprint_are_kept_where_they_are_asked_for(tmp_path):
    short = {"id": "short", "text": "Yes"}
    write_lines(
        tmp_path / "a.jsonl", [short, {"id": "a", "text": texts(1)[0]}, {"id": "b", "text": texts(1)[0]}]
    )
    for asked, expected in ((), ["a"]), (("--keep-rejected",), ["a", "short"]):
        report = result(
            "dedup",
            "--yes",
            "--unique",
            "u.jsonl",
            "--rejects",
            "r.jsonl",
            *asked,
            "a.jsonl",
            cwd=tmp_path,
            exit_code=3,
        )
        assert (report["unique"], report["duplicates"], report["rejected"]) == (1, 1, 1)
        assert [line["id"] for line in read_lines(tmp_path / "u.jsonl")] == expected
        (reject,) = read_lines(tmp_path / "r.jsonl")
        assert list(reject) == ["source", "line", "id", "reason"]
    refused = run("dedup", "--keep-rejected", "a.jsonl", cwd=tmp_path)
    assert (refused.returncode, b"--keep-rejected: needs a file of unique" in refused.stderr) == (
        2,
        True,
    )


COPIES = {"m1": 3, "m4": 1, "short": 1}  # of `same`


def same(file: Path, **fields: object) -> Path:
    one, other = texts(2)
    read = {"m1": one, "m2": one, "m3": one, "m4": other, "short": "Yes"}
    return write_lines(file, ({"id": name, "text": text, **fields} for name, text in read.items()))


def test_a_kept_document_says_how_many_it_stands_for(tmp_path):
    same(tmp_path / "a.jsonl", digits=2**80)
    options = ("dedup", "--keep-rejected", "--count-field", "copies", "a.jsonl", "--unique")
    result(*options, "u.jsonl", cwd=tmp_path, exit_code=3)
    lines = read_lines(tmp_path / "u.jsonl")
    assert {line["id"]: line["copies"] for line in lines} == COPIES
    assert [line["digits"] for line in lines] == [2**80] * 3
    result(*options, "u.csv", cwd=tmp_path, exit_code=3)
    with (tmp_path / "u.csv").open() as file:
        assert {row["id"]: int(row["copies"]) for row in csv.DictReader(file)} == COPIES
    result(*options, "u.parquet", cwd=tmp_path, exit_code=3)
    table = parquet.read_table(tmp_path / "u.parquet")
    assert dict(zip(*(table[name].to_pylist() for name in ("id", "copies")), strict=True)) == COPIES


def test_a_table_without_rows_has_a_column_of_counts(tmp_path):
    parquet.write_table(
        pa.table({"id": ["a"], "text": ["Yes"], "copies": ["a text"]})[:0], tmp_path / "a.parquet"
    )
    result("dedup", "--count-field", "n", "--unique", "u.parquet", "a.parquet", cwd=tmp_path)
    types = {field.name: field.type for field in parquet.read_schema(tmp_path / "u.parquet")}
    assert types == {"id": pa.string(), "text": pa.string(), "copies": pa.string(), "n": pa.int64()}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--count-field", "n"], "--count-field: needs a file of unique documents"),
        (["--count-field", "", "--unique", "u"], "--count-field: the name is empty"),
        (["--count-field", "n", "--unique", "u"], "--count-field: line 1 of a.jsonl has a field 'n' already"),
        (
            ["--count-field", "o.n", "--unique", "u"],
            "--count-field: line 1 of a.jsonl has a field 'o.n' already",
        ),
        (["--count-field", "text", "--format", "text", "--unique", "u"], "has a field 'text' already"),
    ],
)
def test_a_field_that_cannot_hold_counts_is_refused(tmp_path, options, said):
    same(tmp_path / "a.jsonl", n=None, o={"n": 1})
    refused = run("dedup", *options, "a.jsonl", cwd=tmp_path)
    assert refused.returncode in (1, 2)
    assert said in refused.stderr.decode()
    assert not (tmp_path / "u").exists()


def test_50_000_equal_and_near_fingerprints_are_one_group(tmp_path):
    value = 0x0123_4567_89AB_CDEF
    file = fingerprints(tmp_path / "a.jsonl", {f"{n}": value ^ (n % 3 == 2) for n in range(50_000)})
    report = result("dedup", "--fingerprint-field", "f", file, cwd=tmp_path)
    assert (report["unique"], report["duplicates"], report["group_count"]) == (1, 49_999, 1)


@pytest.mark.parametrize("chains", ["--chains", "--no-chains"])
def test_texts_of_one_fingerprint_that_share_little_are_no_duplicates(tmp_path, chains):
    file = documents(tmp_path / "a.jsonl", [reordered(0), reordered(200), reordered(0)])
    assert reference.similarity(reordered(0), reordered(200)) < 0.5
    options = ("dedup", "--yes", "--set", "k=3", chains, "--duplicates", "d.jsonl", file)
    assert result(*options, cwd=tmp_path)["duplicates"] == 1
    (line,) = read_lines(tmp_path / "d.jsonl")
    assert (line["id"], line["similarity"]) == ("d2", 1)
    assert result(*options, "--min-similarity", 0, cwd=tmp_path)["duplicates"] == 2
    assert all("similarity" not in line for line in read_lines(tmp_path / "d.jsonl"))


def test_fingerprints_are_grouped_without_texts_and_refuse_a_similarity(tmp_path):
    file = fingerprints(tmp_path / "p.jsonl", {"a": 0, "b": 1})
    options = ("dedup", "--fingerprint-field", "f", file)
    for asked in ((), ("--min-similarity", 0)):
        assert result(*options, *asked, cwd=tmp_path)["duplicates"] == 1
    refused = run(*options, "--min-similarity", 0.5, cwd=tmp_path)
    assert refused.returncode == 2
    assert b"similarity cannot be computed from fingerprints" in refused.stderr


@pytest.mark.parametrize(
    ("profile", "least"),
    [
        (None, 0.65),
        ({"k": 3}, 0.65),
        ({"verify": True}, 0.65),
        ({"verify": True, "threshold": 0.9}, 0.9),
        ({"scheme": "minhash"}, 0.65),
        ({"scheme": "minhash", "threshold": 0.5}, 0.5),
    ],
)
def test_the_default_similarity_is_that_of_the_profile(tmp_path, profile, least):
    removed = []
    for kept in range(40, 200, 5):
        contents = [reordered(200), reordered(kept)]
        report = simhbase.dedup(documents(tmp_path / "a.jsonl", contents), profile)
        removed.append((reference.similarity(*contents), bool(report.duplicates)))
    assert all(exact >= least for exact, duplicate in removed if duplicate)
    assert any(duplicate for _, duplicate in removed)
    if profile and "scheme" not in profile:  # bands miss some
        assert all(duplicate for exact, duplicate in removed if exact >= least)
    assert min(removed)[0] < least < max(removed)[0]


@pytest.mark.full
def test_no_law_that_is_removed_has_less_in_common_with_what_is_kept_than_the_bound(tmp_path):
    contents = dict(reference.documents("laws"))
    report = simhbase.dedup(reference.DATA / "laws.jsonl.gz", {"k": 3}, duplicates=tmp_path / "d.jsonl")
    lines = read_lines(tmp_path / "d.jsonl")
    assert 40 <= len(lines) == report.duplicates <= 120
    for line in lines:
        exact = reference.similarity(contents[line["id"]], contents[line["duplicate_of"]])
        assert exact >= 0.65
        assert line["similarity"] == pytest.approx(exact, abs=1e-4)
        assert line["distance"] <= 3


# --- which one is kept ---


def test_the_newest_is_that_of_the_greatest_date_and_those_without_one_come_last(tmp_path):
    text = texts(1)[0]
    dates = ["2020-05-01", None, "2023-01-31", "2022-12-31", ""]
    rows = [{"id": str(n), "text": text, "date": date} for n, date in enumerate(dates)]
    write_lines(tmp_path / "a.jsonl", [*rows, {"id": "without", "text": text}])
    result("dedup", "--keep", "newest", "--unique", "u.jsonl", "a.jsonl", cwd=tmp_path)
    assert [line["id"] for line in read_lines(tmp_path / "u.jsonl")] == ["2"]
    result("dedup", "--keep", "oldest", "--yes", "--unique", "u.jsonl", "a.jsonl", cwd=tmp_path)
    assert [line["date"] for line in read_lines(tmp_path / "u.jsonl")] == ["2020-05-01"]


# --- what is said ---


def sources(tmp_path: Path) -> list[str]:
    """SourceTally sources, of which the folder has two files, and the last lost nearly everything."""
    some = texts(120)
    (tmp_path / "folder").mkdir()
    documents(tmp_path / "folder" / "a.jsonl", some[:60], prefix="a")
    documents(tmp_path / "folder" / "b.jsonl", some[60:], prefix="b")
    documents(tmp_path / "c.jsonl", [some[0], *texts(3, seed=1)], prefix="c")
    documents(tmp_path / "e.jsonl", [some[1]] * 95 + texts(5, seed=2), prefix="e")
    return ["folder", "c.jsonl", "e.jsonl"]


def test_each_source_is_told_apart_and_those_nearly_gone_are_warned_of(tmp_path):
    done = run("dedup", "--json", *sources(tmp_path), cwd=tmp_path)
    assert done.stderr.decode().splitlines() == [
        "e.jsonl: 95.0% of its 100 documents are duplicates. Check some before you discard them",
        "e.jsonl: 95 of its 100 documents are near-duplicates of a1, such as e0. Compare these two before "
        "you discard them",
    ]
    report = result("dedup", "folder", "c.jsonl", "e.jsonl", cwd=tmp_path)
    assert report["sources"] == [
        {
            "source": "folder",
            "documents": 120,
            "duplicates": 0,
            "removed": 0.0,
            "rejected": 0,
            "unreadable": 0,
        },
        {
            "source": "c.jsonl",
            "documents": 4,
            "duplicates": 1,
            "removed": 0.25,
            "rejected": 0,
            "unreadable": 0,
        },
        {
            "source": "e.jsonl",
            "documents": 100,
            "duplicates": 95,
            "removed": 0.95,
            "rejected": 0,
            "unreadable": 0,
        },
    ]
    assert report["largest"] == [{"group": "a1", "documents": 96}, {"group": "a0", "documents": 2}]
    assert report["documents"] == sum(each["documents"] for each in report["sources"])


def test_a_folder_whose_file_was_named_before_is_one_source(tmp_path):
    sources(tmp_path)
    report = result("dedup", "folder/b.jsonl", "c.jsonl", "folder", cwd=tmp_path, exit_code=3)
    found = [(each["source"], each["documents"], each["duplicates"]) for each in report["sources"]]
    assert found == [("folder", 180, 1), ("c.jsonl", 4, 0)]


@pytest.mark.parametrize("command", [("dedup",), ("load", "--unique-only", "--store", "rocksdb:s.db")])
def test_each_file_or_folder_is_counted_if_that_is_asked_for(tmp_path, command):
    one, other = texts(2)
    for folder in ("x", "y"):
        (tmp_path / "in" / folder).mkdir(parents=True)
    documents(tmp_path / "in" / "x" / "a.jsonl", [one, other], prefix="a")
    documents(tmp_path / "in" / "x" / "b.jsonl", [one], prefix="b")
    (tmp_path / "in" / "y" / "c.jsonl").write_text("no json\n")
    (tmp_path / "in" / "y" / "d.jsonl.gz").write_text("no gzip")
    expected = {
        "file": [
            ("in/x/a.jsonl", 2, 0, 0, 0),
            ("in/x/b.jsonl", 1, 1, 0, 0),
            ("in/y/c.jsonl", 1, 0, 1, 0),
            ("in/y/d.jsonl.gz", 0, 0, 0, 1),
        ],
        "folder": [("in/x", 3, 1, 0, 0), ("in/y", 1, 0, 1, 1)],
    }
    names = ("source", "documents", "duplicates", "rejected", "unreadable")
    for by_source, sources in expected.items():
        report = result(*command, "--by-source", by_source, "in", cwd=tmp_path, exit_code=3)
        assert [tuple(map(each.get, names)) for each in report["sources"]] == sources


def test_people_read_sources_where_there_are_several_and_groups_in_a_line(tmp_path):
    lines = run("dedup", *sources(tmp_path), cwd=tmp_path).stdout.decode().splitlines()
    assert lines[6] == "largest group  a1 (96 documents)"
    assert lines[7:9] == ["sources", "  source   documents  duplicates  removed  rejected  unreadable"]
    assert lines[11] == "  e.jsonl  100        95          0.95     0         0"
    alone = run("dedup", "folder", cwd=tmp_path).stdout.decode()
    assert "sources" not in alone
    assert "largest" not in alone


# --- against a store ---


@pytest.mark.parametrize(
    "profile",
    [
        (),
        (
            "--set",
            "verify=true",
        ),
        ("--profile", "minhash.toml"),
    ],
)
def test_what_matches_a_stored_document_is_its_duplicate_and_the_rest_is_grouped(tmp_path, profile):
    (tmp_path / "minhash.toml").write_text('scheme = "minhash"\n')
    one, two, three, four = texts(4)
    documents(tmp_path / "old.jsonl", [one, two], prefix="old")
    result("load", *profile, "old.jsonl", cwd=tmp_path)
    before = result("stats", "--exact", cwd=tmp_path)
    write_lines(
        tmp_path / "new.jsonl",
        [
            {"id": "a", "text": one},
            {"id": "b", "text": three},
            {"id": "old1", "text": two},  # is stored already: no duplicate of itself
            {"id": "c", "text": f"{three}!"},
            {"id": "d", "text": one.upper()},
            {"id": "e", "text": two},
            {"id": "f", "text": four},
            {"id": "none", "text": ""},
        ],
    )
    options = ("--against", "rocksdb:simhbase.db", "--unique", "u.jsonl", "--duplicates", "d.jsonl")
    report = result("dedup", *options, "new.jsonl", cwd=tmp_path, exit_code=3)
    assert [line["id"] for line in read_lines(tmp_path / "u.jsonl")] == ["b", "old1", "f"]
    found = read_lines(tmp_path / "d.jsonl")
    assert {line["id"]: (line["duplicate_of"], line["distance"], line["group"]) for line in found} == {
        "a": ("old0", 0, "old0"),
        "c": ("b", 0, "b"),
        "d": ("old0", 0, "old0"),
        "e": ("old1", 0, "old1"),
    }
    if profile:
        assert all(line["similarity"] == 1 for line in found if line["id"] != "c")
    (source,) = report.pop("sources")
    assert source == {
        "source": "new.jsonl", "documents": 8, "duplicates": 4, "removed": 0.5714, "rejected": 1,
        "unreadable": 0,
    }  # fmt: skip
    numbers = ("documents", "unique", "duplicates", "duplicates_of_stored", "group_count", "rejected")
    assert [report[name] for name in numbers] == [8, 3, 4, 3, 1, 1]
    assert result("stats", "--exact", cwd=tmp_path) == before


def test_a_store_to_compare_with_is_there_and_has_the_profile_that_is_asked_for(tmp_path):
    documents(tmp_path / "a.jsonl", texts(3))
    missing = run("dedup", "--against", "rocksdb:none.db", "a.jsonl", cwd=tmp_path)
    assert (missing.returncode, (tmp_path / "none.db").exists()) == (10, False)
    result("load", "a.jsonl", cwd=tmp_path)
    other = run("dedup", "--against", "rocksdb:simhbase.db", "--set", "k=2", "a.jsonl", cwd=tmp_path)
    assert other.returncode == 12, other.stderr
    assert b"k" in other.stderr


def test_a_crowded_drawer_of_the_store_is_read_to_its_end(tmp_path):
    chance = random.Random(1)
    # The only one near is the last of three drawers, and differs in the bits of the others.
    last = (1 << 25) - 1
    crowd = {f"s{number}": chance.getrandbits(20) for number in range(DRAWER_LIMIT + 50)}
    fingerprints(tmp_path / "old.jsonl", crowd | {"last": last})
    fingerprints(tmp_path / "new.jsonl", {"n": last ^ 1 ^ 1 << 13})
    prepared = ("--fingerprint-field", "f")
    result("load", *prepared, "old.jsonl", cwd=tmp_path)
    report = result("dedup", *prepared, "--against", "rocksdb:simhbase.db", "new.jsonl", cwd=tmp_path)
    assert report["duplicates_of_stored"] == 1


def test_nothing_read_has_no_sources_and_no_groups(tmp_path):
    (tmp_path / "a.jsonl").write_text("")
    report = simhbase.dedup(tmp_path / "a.jsonl")
    assert (report.documents, report.sources, report.largest) == (0, (), ())


def test_of_very_many_sources_those_with_the_most_duplicates_are_named(tmp_path):
    one, *others = texts(103)
    for number, text in enumerate([*others, one, one]):
        documents(tmp_path / f"{number:03}.jsonl", [text], prefix=str(number))
    report = simhbase.dedup(sorted(map(str, tmp_path.glob("*.jsonl"))))
    assert len(report.sources) == 100
    assert [each.source for each in report.sources if each.duplicates] == [str(tmp_path / "103.jsonl")]
    assert simhbase.dedup(tmp_path).sources == (
        type(report.sources[0])(
            str(tmp_path), documents=104, duplicates=1, removed=0.0096, rejected=0, unreadable=0
        ),
    )


def test_only_what_the_kept_text_contains_is_removed_if_that_is_asked_for(tmp_path):
    """Of three near texts the longest has all of one, and a quarter less of the other."""
    words = texts(1, words=200)[0].split()
    whole, part = " ".join(words), " ".join(words[:160])
    other = " ".join([*words[:150], *texts(1, seed=1, words=40)[0].split()])
    documents(tmp_path / "a.jsonl", [part, other, whole, other])
    files = ("--unique", "u.jsonl", "--duplicates", "d.jsonl")
    asked = ("--keep", "longest", "--min-similarity", 0.5)
    report = result("dedup", "a.jsonl", *files, "--evidence", "e.jsonl", *asked, cwd=tmp_path)
    assert (report["unique"], report["not_contained"]) == (1, 0)
    shares = {line["id"]: line["containment"] for line in read_lines(tmp_path / "e.jsonl")}
    assert shares["d0"] == 1
    assert 0.7 < shares["d1"] < 0.8
    asked = (*asked, "--min-containment", 0.9)
    report = result("dedup", "a.jsonl", *files, *asked, "--yes", cwd=tmp_path)
    assert (report["unique"], report["not_contained"]) == (2, 1)
    assert {line["id"] for line in read_lines(tmp_path / "u.jsonl")} == {"d1", "d2"}
    removed = {
        line["id"]: (line["duplicate_of"], line["containment"]) for line in read_lines(tmp_path / "d.jsonl")
    }
    assert removed == {"d0": ("d2", 1), "d3": ("d1", 1)}, (
        "the copy of the other text has a representative of its own"
    )
    said = run("dedup", "a.jsonl", *asked, cwd=tmp_path).stdout.decode()
    assert re.search("not contained +1\n", said)
    assert "contained" not in run("dedup", "a.jsonl", cwd=tmp_path).stdout.decode()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--chains",), "which chains do not have"),
        (("--against", "rocksdb:s.db"), "and a store has none"),
        (("--fingerprint-field", "text"), "and fingerprints are given"),
        (("--min-similarity", 0), "a minimum similarity of 0 compares none"),
        (("--profile", "short"), "the profile short"),
    ],
)
def test_a_containment_that_cannot_be_known_is_refused(tmp_path, options, said):
    simhbase.open(f"rocksdb:{tmp_path / 's.db'}", create="default").close()
    documents(tmp_path / "a.jsonl", texts(2))
    done = run("dedup", "a.jsonl", "--min-containment", 0.8, *options, cwd=tmp_path)
    assert done.returncode == 2
    assert re.search(said, done.stderr.decode().replace("\n", " "))
    done = run("dedup", "a.jsonl", "--min-containment", 1.1, cwd=tmp_path)
    assert re.search("--min-containment.*1.1", done.stderr.decode())
