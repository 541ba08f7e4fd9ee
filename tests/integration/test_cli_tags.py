"""Tags on the command line: `simhbase load --tag`, `--tag-field`, `simhbase find --tag`."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

import simhbase
from simhbase.corpus.inputs import Inputs
from simhbase.errors import UsageError
from simhbase.loads.job import Load
from simhbase.stores.rocksdb import RocksStore
from simhbase.stores.rocksdb import store as store_module
from tests.command_line import read_lines, result, run, texts

STORE = ("--store", "rocksdb:s.db")
TEXT, OTHER = texts(2)
ROWS = [("1", TEXT, "甲", 7), ("2", TEXT, "b", 7), ("3", OTHER, "甲", 8)]


ADD_FILES = RocksStore._add_files


def written(tmp_path: Path, name: str) -> str:
    """The documents in a format."""
    fields = ("id", "text", "customer", "n")
    path = tmp_path / name
    if name.endswith("parquet"):
        columns = dict(zip(fields, map(list, zip(*ROWS, strict=True)), strict=True))
        customers = pa.StructArray.from_arrays([pa.array(columns.pop("customer"))], ["name"])
        parquet.write_table(pa.table({**columns, "customer": customers}), path)
    elif name.endswith("csv"):
        table = [("id", "text", "customer.name", "n"), *ROWS]
        path.write_text("".join(",".join(map(str, row)) + "\n" for row in table), encoding="gb18030")
    else:
        lines = [dict(zip(fields, row, strict=True)) for row in ROWS]
        path.write_text("".join(json.dumps(x | {"customer": {"name": x["customer"]}}) + "\n" for x in lines))
    return name


def found(tmp_path: Path, *options: str) -> list[str]:
    answer = result("find", "--text", TEXT, *options, *STORE, cwd=tmp_path)
    return [match["id"] for match in answer["matches"]]


def tags(tmp_path: Path) -> list[object]:
    with simhbase.open(f"rocksdb:{tmp_path / 's.db'}", access="read") as index:
        return [each and each.tags for each in index.documents(["1", "2", "3"])]


@pytest.mark.parametrize("options", [(), ("--unique-only", "--unique", "u.jsonl")], ids=["all", "unique"])
@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet"])
def test_documents_are_tagged_by_their_fields_and_by_constants(tmp_path, name, options):
    tagging = ("--tag", "source=wire=x", "--tag-field", "tenant=customer.name", "--tag-field", "n=n")
    encoding = ("--encoding", "gb18030") if name.endswith("csv") else ()
    result("load", written(tmp_path, name), *tagging, *encoding, *options, *STORE, cwd=tmp_path)
    stored = [{"n": str(n), "source": "wire=x", "tenant": tenant} for _, _, tenant, n in ROWS]
    if options:
        stored[1] = None
        assert [line["id"] for line in read_lines(tmp_path / "u.jsonl")] == ["1", "3"]
    assert tags(tmp_path) == stored
    assert found(tmp_path, "--tag", "tenant=甲") == ["1"]
    assert found(tmp_path, "--tag", "tenant=b", "--tag", "n=7") == ([] if options else ["2"])
    assert found(tmp_path, "--tag", "tenant=b", "--tag", "n=8") == []


def test_loading_anew_replaces_tags(tmp_path):
    name = written(tmp_path, "a.jsonl")
    result("load", name, "--tag", "tenant=a", *STORE, cwd=tmp_path)
    assert tags(tmp_path) == [{"tenant": "a"}] * 3
    assert result("load", name, "--tag", "tenant=b", *STORE, cwd=tmp_path)["unchanged"] == 3
    assert tags(tmp_path) == [{"tenant": "b"}] * 3
    result("load", name, *STORE, cwd=tmp_path)
    assert tags(tmp_path) == [{}] * 3


def test_documents_that_come_as_files_of_rocksdb_have_their_tags(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "FILE_ROWS", 1)
    handed_over = []
    monkeypatch.setattr(
        RocksStore, "_add_files", lambda *given: handed_over.append(given) or ADD_FILES(*given), raising=True
    )
    result("load", written(tmp_path, "a.jsonl"), "--tag-field", "tenant=customer.name", *STORE, cwd=tmp_path)
    assert handed_over
    assert tags(tmp_path) == [{"tenant": tenant} for _, _, tenant, _ in ROWS]
    assert result("check", *STORE, cwd=tmp_path)["clean"]


def test_a_snapshot_and_a_migration_keep_tags(tmp_path):
    result("load", written(tmp_path, "a.jsonl"), "--tag-field", "tenant=customer.name", *STORE, cwd=tmp_path)
    before = tags(tmp_path)
    result("tables", "snapshot", "kept", *STORE, cwd=tmp_path)
    result("tables", "drop", "--yes", *STORE, cwd=tmp_path)
    result("tables", "restore", "kept", *STORE, cwd=tmp_path)
    assert tags(tmp_path) == before
    result("migrate", "--to", "rocksdb:other.db", "--set", "layout=6x3", *STORE, cwd=tmp_path)
    (tmp_path / "s.db").rename(tmp_path / "old.db")
    (tmp_path / "other.db").rename(tmp_path / "s.db")
    assert tags(tmp_path) == before


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({}, "no field 'tenant' among 'id', 'text': name another tag field (tag_fields)"),
        ({"tenant": ""}, "field 'tenant' is empty: it gives the tag 'of', which needs a value"),
        ({"tenant": None}, "field 'tenant' is null: tags are texts or integers"),
        ({"tenant": 1.5}, "tags are texts or integers"),
        ({"tenant": "x" * 256}, "the tag 'of' has 256 bytes in UTF-8, at most 255 are allowed"),
    ],
)
def test_a_record_whose_tag_cannot_be_stored_is_rejected_by_its_name(tmp_path, line, reason):
    lines = [{"id": "good", "text": TEXT, "tenant": "a"}, {"id": "bad", "text": OTHER, **line}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    options = ("--yes", "--tag-field", "of=tenant", "--rejects", "r.jsonl")
    done = run("load", "a.jsonl", *options, *STORE, cwd=tmp_path)
    assert done.returncode == 3
    (reject,) = read_lines(tmp_path / "r.jsonl")
    assert (reject["id"], reject["line"]) == ("bad", 2)
    assert reason in reject["reason"]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        (
            "a.csv",
            f"id,text\n1,{TEXT}\n",
            "no column 'tenant' among 'id', 'text': name another tag field (tag_fields)",
        ),
        ("a.txt", TEXT, "this format has none"),
    ],
)
def test_a_source_without_the_field_says_so(tmp_path, name, content, reason):
    (tmp_path / name).write_text(content)
    done = run("load", name, "--tag-field", "tenant=tenant", *STORE, cwd=tmp_path)
    assert done.returncode == 1
    assert reason in done.stderr.decode()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--tag", "tenant"), "'tenant' is not NAME=VALUE"),
        (("--tag-field", "a="), "'a=' is not NAME=VALUE"),
        (("--tag", f"a={'x' * 256}"), "invalid tags"),
    ],
)
def test_options_that_make_no_tags_are_refused(tmp_path, options, reason):
    done = run("load", written(tmp_path, "a.jsonl"), *options, *STORE, cwd=tmp_path)
    assert done.returncode == 2
    assert reason in done.stderr.decode()


def test_a_load_with_other_tags_is_another_load():
    tags = {"a": "b"}
    digests = {
        Load(inputs=simhbase.Inputs(["a"]), store="memory:", **options).digest
        for options in ({}, {"tags": tags}, {"tag_fields": tags})
    }
    assert len(digests) == 3


def test_python_says_what_goes_together(tmp_path):
    with pytest.raises(UsageError, match="tags: 'a' is also a tag field"):
        simhbase.load(Inputs(["a.jsonl"]), f"rocksdb:{tmp_path}/s", tags={"a": "b"}, tag_fields={"a": "c"})
