"""Documents that are written out as rows of CSV, where the name of the file says so."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from simhbase.corpus.fields import listed
from simhbase.corpus.formats import format_of
from simhbase.corpus.outputs import NOTHING, STANDARD_OUTPUT, Kept, OutputFile, part_of, plain_target
from simhbase.corpus.record import Format
from simhbase.corpus.streams import split_lines
from simhbase.errors import BadInput, UsageError
from simhbase.packing import unpacked

_READ_BYTES = 1 << 16
_NOT_WRITTEN: Mapping[Format, str] = {
    "text": "plain text",
    "html": "HTML",
    "parquet": "Parquet",
    "warc": "WARC",
}


def require_written(unique: str | Path | None) -> None:
    """Raises UsageError for a file of unique documents whose name tells a format that is only read: what is
    written could not be read by that name."""
    file_format = None if unique is None else format_of(Path(unique).name)
    if file_format is not None and file_format in _NOT_WRITTEN:
        raise UsageError(
            f"`unique` {unique}: JSON lines and rows (.csv, .tsv) are written, not "
            f"{_NOT_WRITTEN[file_format]}: name it .jsonl"
        )


def unique_file(
    path: Path, *, delimiter: str = ",", of_use_in_part: bool = True, keep: Kept = NOTHING
) -> OutputFile:
    """A file for unique documents, given as JSON lines: of rows where it is named .csv or .tsv (also before
    .gz and .zst), else of these lines. delimiter: that of .csv; the others: see OutputFile."""
    file_format = None if path == STANDARD_OUTPUT else format_of(path.name)
    if file_format not in ("csv", "tsv"):
        return OutputFile(path, of_use_in_part=of_use_in_part, keep=keep)
    found = "\t" if file_format == "tsv" else delimiter
    return CsvFile(path, found, of_use_in_part=of_use_in_part, keep=keep)


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
            fields = _parsed(line)
            if self._columns is None:
                self._columns = list(fields)
                self._names = frozenset(self._columns)
                yield self._row(self._columns)
            if others := fields.keys() - self._names:
                raise BadInput(
                    f"a document has a field {min(others)!r}, and {self.path} has no column of that name "
                    f"{listed(self._columns)}: a file of JSON lines (.jsonl) takes documents of several kinds"
                )
            yield self._row([_cell(fields.get(name)) for name in self._columns])

    def _row(self, cells: Sequence[str]) -> bytes:
        row = io.StringIO()
        # With both characters of a line's end, each of them is quoted where a cell has it.
        csv.writer(row, delimiter=self._delimiter, lineterminator="\r\n").writerow(cells)
        return row.getvalue().removesuffix("\r\n").encode(errors="backslashreplace")


def _parsed(line: bytes) -> dict[str, Any]:
    """An object with its numbers as they are written. Raises BadInput."""
    try:
        found: dict[str, Any] = json.loads(line)
    except RecursionError as error:
        raise BadInput(
            f"a document's fields are nested too deeply for a cell: {line[:80].decode(errors='replace')} ... "
            "A file of JSON lines (.jsonl) takes them"
        ) from error
    return found


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _header(path: Path, delimiter: str, keep: Kept) -> list[str] | None:
    """The columns of what is kept of an unfinished file, None where it has no rows."""
    target = plain_target(path)
    if target is None or not keep.size:
        return None
    with part_of(target).open("rb") as file:
        lines = split_lines(unpacked(_blocks(file, keep.size)), sys.maxsize)
        rows = csv.reader(
            (line.decode() + "\n" for line in lines if isinstance(line, bytes)), delimiter=delimiter
        )
        return next(rows, None)


def _blocks(file: BinaryIO, size: int) -> Iterator[bytes]:
    """The beginning of a file."""
    while size and (block := file.read(min(size, _READ_BYTES))):
        size -= len(block)
        yield block
