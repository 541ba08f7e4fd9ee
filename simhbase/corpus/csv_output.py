"""Documents that are written out as rows of CSV, where the name of the file says so."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from simhbase.corpus.fields import listed
from simhbase.corpus.outputs import NOTHING, Kept, OutputFile, cell, parsed_line, part_of, plain_target
from simhbase.corpus.streams import split_lines
from simhbase.errors import BadInput
from simhbase.packing import Rereadable, unpacked


class CsvFile(OutputFile):
    """Takes JSON objects a line, and writes rows in UTF-8 with the columns of the first, which the header
    names. A value that is no text is written as JSON, null as nothing.

    Raises what OutputFile does, and BadInput for an object with a field that is in no column.
    """

    def __init__(
        self, path: Path, delimiter: str, *, of_use_in_part: bool = True, keep: Kept = NOTHING
    ) -> None:
        super().__init__(path, of_use_in_part=of_use_in_part, keep=keep)
        self._delimiter = delimiter
        self._columns = _header(path, delimiter, keep)
        self._names = frozenset(self._columns or ())

    def write(self, lines: Iterable[bytes]) -> None:
        """Appends objects, given without line breaks."""
        super().write(self._rows(lines))

    def _rows(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        for line in lines:
            fields = parsed_line(line)
            if self._columns is None:
                self._columns = list(fields)
                self._names = frozenset(self._columns)
                yield self._row(self._columns)
            if others := fields.keys() - self._names:
                raise BadInput(
                    f"a document has a field {min(others)!r}, and {self.path} has no column of that name "
                    f"{listed(self._columns)}: a file of JSON lines (.jsonl) takes documents of several kinds"
                )
            yield self._row(
                ["" if (value := fields.get(name)) is None else cell(value) for name in self._columns]
            )

    def _row(self, cells: Sequence[str]) -> bytes:
        row = io.StringIO()
        # With both characters of a line's end, each of them is quoted where a cell has it.
        csv.writer(row, delimiter=self._delimiter, lineterminator="\r\n").writerow(cells)
        return row.getvalue().removesuffix("\r\n").encode(errors="backslashreplace")


def _header(path: Path, delimiter: str, keep: Kept) -> list[str] | None:
    """The columns of what is kept of an unfinished file, None where it has no rows."""
    target = plain_target(path)
    if target is None or not keep.size:
        return None
    with part_of(target).open("rb") as file:
        lines = split_lines(unpacked(Rereadable(file)), sys.maxsize)
        rows = csv.reader(
            (line.decode() + "\n" for line in lines if isinstance(line, bytes)), delimiter=delimiter
        )
        return next(rows, None)
