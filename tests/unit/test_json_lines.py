"""JSON lines as programs write them: what nobody asked for costs no record."""

from __future__ import annotations

import json

import pandas as pd
import pytest

import simhbase
from simhbase.corpus.record import Record
from tests.command_line import read_lines, result, texts
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


def test_integers_of_any_length_are_exact(tmp_path):
    values = [2**53 + 1, 2**64 + 1, 10**30 + 1]
    lines = "".join(f'{{"id": {value}, "text": "t", "n": {value}}}\n' for value in values)
    items = read(write(tmp_path / "x.jsonl", lines.encode()), value_field="n")
    assert [(item.id, item.value) for item in items] == [(str(value), value) for value in values]
