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
    return Form(_CsvRows(path, delimiter, keep))


class _CsvRows:
    def __init__(self, path: Path, delimiter: str, keep: KeptBeginning) -> None:
        self._path = path
        self._delimiter = delimiter
        self._keep = keep
        self._columns: list[str] | None = None
        self._names: frozenset[str] = frozenset()

    def __call__(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        for line in lines:
            fields = parsed_line(line)
            if self._columns is None:
                kept = _header(self._path, self._delimiter, self._keep)
                self._columns = kept or list(fields)
                self._names = frozenset(self._columns)
                if kept is None:
                    yield self._row(self._columns)
            if others := fields.keys() - self._names:
                raise BadInput(
                    f"a document has a field {min(others)!r}, and {self._path} has no column of that name "
                    f"{listed(self._columns)}: a file of JSON lines (.jsonl) takes documents of several kinds"
                )
            values = (fields.get(name) for name in self._columns)
            yield self._row(["" if value is None else cell(value) for value in values])

    def _row(self, cells: Sequence[str]) -> bytes:
        row = io.StringIO()
        # The csv module quotes cells with any character of the line terminator.
        csv.writer(row, delimiter=self._delimiter, lineterminator="\r\n").writerow(cells)
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
