"""Writes documents as CSV."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from simhbase.corpus.fields import listed
from simhbase.corpus.outputs import NOTHING, Form, KeptBeginning, cell, parsed_line, part_of, plain_target
from simhbase.corpus.streams import split_lines
from simhbase.errors import BadInput
from simhbase.packing import Rereadable, unpacked


def csv_form(path: Path, delimiter: str, keep: KeptBeginning = NOTHING) -> Form:
    """Convert lines of JSON objects to CSV rows in UTF-8, with the columns of the first. Values other than
    strings are written as JSON, null as an empty cell.

    keep: of an unfinished file. Raises BadInput for an object with a field that is not a column.
    """
    columns: list[str] = []

    def rows(lines: Iterable[bytes]) -> Iterator[bytes]:
        for line in lines:
            fields = parsed_line(line)
            if not columns:
                kept = _header(path, delimiter, keep)
                columns.extend(kept or fields)
                if kept is None:
                    yield _row(columns, delimiter)
            if others := fields.keys() - columns:
                raise BadInput(
                    f"a document has a field {min(others)!r}, and {path} has no column of that name "
                    f"{listed(columns)}: a file of JSON lines (.jsonl) takes documents of several kinds"
                )
            values = (fields.get(name) for name in columns)
            yield _row(["" if value is None else cell(value) for value in values], delimiter)

    return Form(rows)


def _row(cells: Sequence[str], delimiter: str) -> bytes:
    row = io.StringIO()
    # The csv module quotes cells with any character of the line terminator.
    csv.writer(row, delimiter=delimiter, lineterminator="\r\n").writerow(cells)
    return row.getvalue().removesuffix("\r\n").encode(errors="backslashreplace")


def _header(path: Path, delimiter: str, keep: KeptBeginning) -> list[str] | None:
    """The columns of the part to keep of an unfinished file, None if it has no rows."""
    target = plain_target(path)
    if target is None or not keep.size:
        return None
    with part_of(target).open("rb") as file:
        lines = split_lines(unpacked(Rereadable(file)), sys.maxsize)
        rows = csv.reader(
            (line.decode() + "\n" for line in lines if isinstance(line, bytes)), delimiter=delimiter
        )
        return next(rows, None)
