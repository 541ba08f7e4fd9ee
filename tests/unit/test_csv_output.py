"""Rows of CSV that are written."""

from __future__ import annotations

from pathlib import Path

from simhbase.corpus.outputs.csv import csv_form
from simhbase.corpus.outputs.files import KeptBeginning, part_of


def test_an_unfinished_file_keeps_its_columns_also_where_they_look_like_formulas(tmp_path: Path) -> None:
    path, line = tmp_path / "rows.csv", b'{"id": "-1", "=name": "+"}'
    begun = b"'=name,id\r\n"
    part_of(path).write_bytes(begun + b"1,2\r\n")
    form = csv_form(path, ",", KeptBeginning(len(begun), 0), escape_formulas=True)
    assert list(form.rows([line])) == [b"'+,'-1"]
    assert list(csv_form(path, ",", escape_formulas=True).rows([line])) == [b"id,'=name", b"'-1,'+"]
