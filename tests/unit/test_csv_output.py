"""Rows of CSV that are written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simhbase.corpus.outputs.csv import csv_form
from simhbase.corpus.outputs.files import KeptBeginning, part_of


def test_an_unfinished_file_keeps_its_columns_also_where_they_look_like_formulas(tmp_path: Path) -> None:
    path, line = tmp_path / "rows.csv", b'{"id": "-1", "=name": "+"}'
    begun = b"'=name,id\r\n"
    part_of(path).write_bytes(begun + b"1,2\r\n")
    form = csv_form(path, ",", KeptBeginning(len(begun), 0), escape_formulas=True)
    assert list(form.rows([line])) == [b"'+,'-1"]
    assert list(csv_form(path, ",", escape_formulas=True).rows([line])) == [b"id,'=name", b"'-1,'+"]


def test_an_unfinished_file_is_continued_whatever_its_columns_are_called(tmp_path: Path) -> None:
    path, name = tmp_path / "rows.csv", "n" * 200_000
    part_of(path).write_text(f"id,{name}\r\n1,2\r\n")
    form = csv_form(path, ",", KeptBeginning(200_010, 0))
    assert list(form.rows([json.dumps({name: "b", "id": "a"}).encode()])) == [b"a,b"]


@pytest.mark.parametrize("before", ["", " ", "\ufeff", "\u3000\u200b", "\0", "\xa0"])
@pytest.mark.parametrize("sign", "=+-@\t\r＝")
def test_a_formula_is_escaped_also_behind_what_is_not_seen(before: str, sign: str, tmp_path: Path) -> None:
    line = json.dumps({"id": f"{before}{sign}1+1", f"{before}{sign}name": "a"}).encode()
    header, row = csv_form(tmp_path / "rows.csv", ",", escape_formulas=True).rows([line])
    assert row.decode().lstrip('"').startswith("'")
    assert header.decode().partition(",")[2].lstrip('"').startswith("'")
