"""Writes documents as CSV."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from simhbase.corpus.fields import listed
from simhbase.corpus.outputs.files import (
    NOTHING,
    Form,
    KeptBeginning,
    cell,
    parsed_line,
    part_of,
)
from simhbase.corpus.streams import split_lines
from simhbase.errors import BadInput
from simhbase.process.plain_files import open_plain, plain_target
from simhbase.text.packing import Rereadable, unpacked

# What spreadsheets take for the beginning of a formula: OWASP, "CSV Injection".
_FORMULAS = tuple("=+-@\t\r\n＝＋－＠")
_SKIPPED = " \u00a0\u3000\u200b\ufeff\0"  # before it, by some: spaces, and what is not seen


def csv_form(
    path: Path, delimiter: str, keep: KeptBeginning = NOTHING, *, escape_formulas: bool = False
) -> Form:
    """Convert lines of JSON objects to CSV rows in UTF-8, with the columns of the first. Values other than
    strings are written as JSON, null as an empty cell.

    keep: of an unfinished file. escape_formulas: put an apostrophe before strings that a spreadsheet would
    take for formulas. Raises BadInput for an object with a field that is not a column.
    """
    columns: list[str] = []
    written = partial(_cell, escape_formulas=escape_formulas)

    def rows(lines: Iterable[bytes]) -> Iterator[bytes]:
        for line in lines:
            fields = parsed_line(line)
            if not columns:
                kept = _header(path, delimiter, keep)
                names = {written(name): name for name in fields}
                columns.extend(names.get(each, each) for each in kept or names)
                if kept is None:
                    yield _row(map(written, columns), delimiter)
            if others := fields.keys() - columns:
                raise BadInput(
                    f"a document has a field {min(others)!r}, and {path} has no column of that name "
                    f"{listed(columns)}: a file of JSON lines (.jsonl) takes documents of several kinds"
                )
            values = (fields.get(name) for name in columns)
            yield _row(map(written, values), delimiter)

    return Form(rows)


def _cell(value: Any, *, escape_formulas: bool) -> str:
    if value is None:
        return ""
    return f"'{value}" if escape_formulas and is_formula(value) else cell(value)


def is_formula(value: Any) -> bool:
    """True for a string that a spreadsheet may take for a formula; numbers are none."""
    return isinstance(value, str) and value.lstrip(_SKIPPED).startswith(_FORMULAS)


def _row(cells: Iterable[str], delimiter: str) -> bytes:
    row = io.StringIO()
    # The csv module quotes cells with any character of the line terminator.
    csv.writer(row, delimiter=delimiter, lineterminator="\r\n").writerow(cells)
    return row.getvalue().removesuffix("\r\n").encode(errors="backslashreplace")


def _header(path: Path, delimiter: str, keep: KeptBeginning) -> list[str] | None:
    """The columns of the part to keep of an unfinished file, None if it has no rows."""
    target = plain_target(path)
    if target is None or not keep.size:
        return None
    with open_plain(part_of(target), os.O_NOFOLLOW) as file:
        lines = split_lines(unpacked(Rereadable(file)), sys.maxsize)
        csv.field_size_limit(sys.maxsize)  # documents may have fields of any name
        rows = csv.reader(
            (line.decode() + "\n" for line in lines if isinstance(line, bytes)), delimiter=delimiter
        )
        return next(rows, None)
