"""JSON lines as programs write them: what nobody asked for costs no record."""

from __future__ import annotations

import json
import tracemalloc
from time import process_time

import pandas as pd
import pytest

import simhbase
from simhbase.corpus.fields import exact_object, joined_objects
from simhbase.corpus.record import Record, Reject, SourceReject
from tests.command_line import read_lines, result, run, texts
from tests.reading import read, rejects, write

TEXTS = texts(4)


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "9" * 5000, r'"\udc80"', '"tab\t and \x01"', "1e999"])
@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_a_value_that_nobody_asked_for_costs_nothing(tmp_path, value, suffix):
    lines = [f'{{"id": "a{n}", "text": "{text}", "x": {value}}}\n' for n, text in enumerate(TEXTS)]
    path, unique = write(tmp_path / "x.jsonl", "".join(lines).encode()), tmp_path / f"u.{suffix}"
    assert [item.text for item in read(path)] == TEXTS
    for prefix in ([], ["--id-prefix", "p/"]):
        report = result("dedup", "--yes", "--unique", unique, *prefix, path, cwd=tmp_path)
        assert (report["unique"], report["rejected"]) == (4, 0)
        if suffix == "jsonl":
            assert len(unique.read_bytes().splitlines()) == 4
    if suffix == "csv":
        assert list(pd.read_csv(unique).id) == ["p/a0", "p/a1", "p/a2", "p/a3"]


def test_half_a_pair_in_a_text_is_taken_as_add_takes_it(tmp_path):
    given = [TEXTS[0] + " \ud83d", TEXTS[1] + " \udc80", TEXTS[2] + " \ude00\ud83d"]
    path = write(tmp_path / "x.jsonl", b"")
    path.write_text("".join(json.dumps({"id": n, "text": text}) + "\n" for n, text in enumerate(given)))
    assert [item.text for item in read(path)] == given
    report = result("dedup", "--unique", "u.jsonl", "--id-prefix", "p/", path, cwd=tmp_path)
    assert report["unique"] == 3
    assert [line["text"] for line in read_lines(tmp_path / "u.jsonl")] == given
    rows = [{"id": str(n), "text": text} for n, text in enumerate(given)]
    assert list(simhbase.dedup(rows).kept) == [True] * 3
    assert list(simhbase.dedup(pd.DataFrame(rows, dtype=object)).kept) == [True] * 3


def test_half_a_pair_in_an_object_of_another_encoding_is_a_reject(tmp_path):
    path = write(tmp_path / "x.jsonl", b'{"id": "a", "text": "+2AA-"}\n{"id": "b", "text": "+AOk-t+AOk-"}\n')
    rejected, record = read(path, encoding="utf-7")
    assert "half of a surrogate pair" in rejected.reason
    assert record.text == "été"


@pytest.mark.parametrize("between", ["", " ", ",", ", ", "\x1e"])
def test_objects_joined_on_a_line_are_several_records(tmp_path, between):
    rows = [json.dumps({"id": f"d{n}", "text": text}) for n, text in enumerate(TEXTS)]
    path = write(tmp_path / "x.jsonl", f"{between.join(rows[:3])}\n\x1e{rows[3]},\n".encode())
    items = read(path)
    assert [(item.line, item.id, item.text) for item in items[:3]] == [
        (1, f"d{n}", text) for n, text in enumerate(TEXTS[:3])
    ]
    assert [item.id for item in read(path, id_from="line")][:3] == [f"{path}:1", f"{path}:1:2", f"{path}:1:3"]


def test_each_of_joined_objects_is_judged_by_itself(tmp_path):
    path = write(tmp_path / "x.jsonl", b'{"id": 1, "text": "a"}{"id": 2}{"id": 3, "text": NaN}\n{"a"}{}\n')
    items = read(path)
    assert isinstance(items[0], Record)
    assert [line for line, _, _ in rejects(items)] == [1, 1, 2]


def test_many_small_objects_joined_on_a_line_are_one_reject(tmp_path):
    """Each was a record in memory, which for a line of 16 MB were several gigabytes."""
    path = write(tmp_path / "x.jsonl", b"{}" * 500_000 + b'\n{"id":"a","text":"b"}{"id":"c","text":"d"}\n')
    items = read(path)
    assert [item.id for item in items[1:]] == ["a", "c"]
    assert rejects(items)[0][2].startswith("more than 15,641 JSON objects on one line: write one a line")


@pytest.mark.slow
@pytest.mark.parametrize("part", ["{}", '""', '{"id":"1"} ', " "])
def test_joined_objects_take_time_linear_in_a_line(part):
    """Each was cut off the front of the rest, which took the square of their number."""

    def seconds(size):
        line, spent = part * (size // len(part)), []
        for _ in range(3):
            start = process_time()
            assert len(list(joined_objects(line))) == (0 if part == " " else size // len(part))
            spent.append(process_time() - start)
        return min(spent)

    assert seconds(1 << 19) < 3 * 32 * max(seconds(1 << 14), 0.001)


def test_a_line_of_objects_with_repeated_names_takes_little_more_memory_than_others():
    """65 bytes for each of its bytes, 1.4 GB for a line of 16 MiB."""
    line = b'{"a":[' + b",".join([b'{"":0,"":0}'] * 50_000) + b"]}"
    tracemalloc.start()
    try:
        assert len(exact_object(line)["a"]) == 50_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32 * len(line)


def test_integers_of_any_length_are_exact(tmp_path):
    values = [2**53 + 1, 2**64 + 1, 10**30 + 1]
    lines = "".join(f'{{"id": {value}, "text": "t", "n": {value}}}\n' for value in values)
    items = read(write(tmp_path / "x.jsonl", lines.encode()), value_field="n")
    assert [(item.id, item.value) for item in items] == [(str(value), value) for value in values]


@pytest.mark.parametrize(
    ("line", "repeated"),
    [
        ('{"id": 1, "text": "a", "text": "b"}', "text"),
        ('{"id": 1, "text": "a", "text" : "a"}', "text"),
        ('{"id": 1, "id": 2, "text": "a"}', "id"),
        (r'{"id": 1, "\u0069d": 2, "text": "a"}', "id"),
        (r'{"id": 1, "\u0069\u0064": 2, "text": "\u4e2d"}', "id"),
        (r'{"id": 1, "text": "a", "tex\u0074": "b"}', "text"),
        (r'{"id": 1, "text": "a", "t\u0065xt": "b"}', "text"),
        ('{"id": 1, "text": "a", "day": 1, "day": 2}', "day"),
        ('{"id": 1, "text": "a", "kind": "x", "kind": "y"}', "kind"),
        ('{"id": 1, "text": "\\ud800", "text": NaN}', "text"),
        (r'{"id": 1, "text": "a", "a/b": 1, "a\/b": 2}', "a/b"),
        (r'{"id": 1, "text": "a", "a/b": 1, "a\u002Fb": 2}', "a/b"),
        ('{"id": 1, "text": "a", "day": 1, "meta": {"site": 1}, "meta": {"site": 2}}', "meta.site"),
        ('{"id": 1, "text": "a", "day": 1, "meta": {"site": 1, "site": 2}}', "meta.site"),
    ],
)
def test_a_record_with_two_values_of_a_field_that_is_asked_for_is_rejected(tmp_path, line, repeated):
    path = write(tmp_path / "x.jsonl", f"{line}\n".encode())
    tags = (("k", "kind"),) if repeated == "kind" else (("s", "meta.site"),) if "meta" in line else ()
    (item,) = read(path, value_field="a/b" if repeated == "a/b" else "day", tag_fields=tags)
    assert item.reason == f"field {repeated!r} is there twice: which value counts is not certain"


@pytest.mark.parametrize("field", ["id", "text", "day", "kind"])
@pytest.mark.parametrize("value", ['{"a": NaN, "a": 1}', '{"a": "\\ud800", "a": 1}'])
def test_an_object_with_repeated_names_in_place_of_a_value_is_a_reject(tmp_path, field, value):
    fields = {"id": "1", "text": '"t"', "day": "2", "kind": '"k"'} | {field: value}
    line = ", ".join(f'"{name}": {each}' for name, each in fields.items())
    path = write(tmp_path / "x.jsonl", f"{{{line}}}\n".encode())
    (item,) = read(path, value_field="day", tag_fields=(("k", "kind"),))
    assert f"field {field!r} is an object" in item.reason


def test_escaped_names_and_texts_are_read_and_deep_values_are_rejects_at_most(tmp_path):
    deep = '{"id": "c", "text": "\\u0041", "x": ' + "[" * 1000 + "]" * 1000 + "}"
    lines = [r'{"\u0069d": "a", "text": "\u00e9t\u00e9"}', '{"id": "b", "text": "b"}', deep]
    first, second, last = read(write(tmp_path / "x.jsonl", "\n".join(lines).encode()))
    assert (first.id, first.text, second.id) == ("a", "été", "b")
    assert isinstance(last, Record | Reject)


@pytest.mark.parametrize(
    "line",
    [
        '{"id": "d", "text": "a", "other": 1, "other": 2}',
        '{"id": "d", "type": "text", "text": "a", "author": {"id": 7, "text": "b"}}',
        '{"id": "d", "text": "a", "said": "\\"text\\": \\"id\\":"}',
        '{"i\\u0064": "d", "t\\u0065xt": "a"}',
        '{"author": {"text": "b", "text": "c"}, "id": "d", "text": "a"}',
    ],
)
def test_names_elsewhere_in_a_record_are_no_second_value(tmp_path, line):
    (item,) = read(write(tmp_path / "x.jsonl", f"{line}\n".encode()), value_field="day")
    assert (item.id, item.text) == ("d", "a")


def test_an_id_that_is_there_twice_deletes_nothing(tmp_path):
    line = b'{"id": "d0", "id": "d1"}\n'
    ids = write(tmp_path / "ids.jsonl", line)
    rows = [{"id": f"d{n}", "text": text} for n, text in enumerate(TEXTS)]
    write(tmp_path / "x.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())
    result("load", "--store", "rocksdb:s.db", "x.jsonl", cwd=tmp_path)
    done = run("delete", "--store", "rocksdb:s.db", "--yes", "--ids-file", ids, cwd=tmp_path)
    assert done.returncode == 1
    assert b"line 1: field 'id' is there twice" in done.stderr


def test_json_lines_of_bigquery_are_read(tmp_path):
    """Integers are texts, fields that are NULL are left out, and < > & are escaped."""
    lines = [
        r'{"id":"9007199254740993","text":"a \u003cb\u003e \u0026 c","day":"2026-01-02","parts":[]}',
        r'{"id":"2","text":"中文"}',
        r'{"id":"3","day":"2026-01-02"}',
    ]
    items = read(write(tmp_path / "x.json", "\n".join(lines).encode()), value_field="day")
    assert [(item.id, getattr(item, "text", None)) for item in items] == [
        ("9007199254740993", "a <b> & c"),
        ("2", "中文"),
        ("3", None),
    ]
    assert rejects(items)[0][2].startswith("no field 'text'")


def test_a_list_of_sqlite_is_refused_with_advice(tmp_path):
    path = write(tmp_path / "x.json", b'[{"id":1,"text":"plain"},\n{"id":2,"text":"b"}]\n')
    (item,) = read(path)
    assert isinstance(item, SourceReject)
    assert (
        "an object a line is expected, not JSON over several lines: jq -c '.[]' writes it so" in item.reason
    )
