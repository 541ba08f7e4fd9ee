"""Raw records of one source: JSON lines, CSV, plain text."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePath

from simhbase.bulk.record import Format, InputOptions, Raw, Reject
from simhbase.bulk.streams import TooLong, Unreadable, split_lines, unpacked
from simhbase.errors import BadInput
from simhbase.text import decode

_BY_EXTENSION: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".txt": "text",
}
EXTENSIONS = tuple(_BY_EXTENSION)
_PACKED = (".gz", ".zst")


@dataclass(frozen=True, slots=True)
class Source:
    """Where records come from: its name for people, and the id of a document that has none of its own."""

    name: str
    id: str


def format_of(name: str) -> Format | None:
    """The format that a file's name tells, also before .gz or .zst; None if it tells none."""
    path = PurePath(name.lower())
    if path.suffix in _PACKED:
        path = path.with_suffix("")
    return _BY_EXTENSION.get(path.suffix)


def raw_records(
    source: Source, blocks: Iterable[bytes], file_format: Format, options: InputOptions
) -> Iterator[Raw | Reject]:
    """All records of a source, given its bytes; where it breaks off, one reject at the end."""
    content = unpacked(blocks)
    lines = _Lines(split_lines(content, options.max_record_bytes))
    try:
        match file_format:
            case "jsonl":
                yield from _one_a_line(source, lines, options, lambda number: None)
            case "lines":
                yield from _one_a_line(source, lines, options, lambda number: f"{source.id}:{number}")
            case "csv":
                yield from _csv(source, lines, options, options.delimiter)
            case "tsv":
                yield from _csv(source, lines, options, "\t")
            case "text":
                yield _whole(source, content, options)
    except Unreadable as error:
        yield Reject(source.name, lines.number + 1, None, str(error))


class _Lines:
    """Lines with the number of the last one, counted from 1."""

    def __init__(self, lines: Iterator[bytes | TooLong]) -> None:
        self._lines = lines
        self.number = 0

    def __iter__(self) -> Iterator[bytes | TooLong]:
        return self

    def __next__(self) -> bytes | TooLong:
        line = next(self._lines)
        self.number += 1
        return line


def _one_a_line(
    source: Source, lines: _Lines, options: InputOptions, id_of: Callable[[int], str | None]
) -> Iterator[Raw | Reject]:
    for line in lines:
        if isinstance(line, TooLong):
            yield Reject(source.name, lines.number, None, _too_long(line.bytes, options))
        elif line and not line.isspace():
            yield Raw(source.name, lines.number, id_of(lines.number), line.removesuffix(b"\r"))


def _whole(source: Source, content: Iterator[bytes], options: InputOptions) -> Raw | Reject:
    blocks: list[bytes] = []
    size = 0
    for block in content:
        blocks.append(block)
        size += len(block)
        if size > options.max_record_bytes:
            return Reject(source.name, 1, None, _too_long(size, options))
    return Raw(source.name, 1, source.id, b"".join(blocks))


def _too_long(size: int, options: InputOptions) -> str:
    return f"the record has {size:,} bytes or more, at most {options.max_record_bytes:,} are read"


def _csv(source: Source, lines: _Lines, options: InputOptions, delimiter: str) -> Iterator[Raw | Reject]:
    rows = _rows(source, _RowLines(lines, options), delimiter)
    header = next(rows, None)
    if header is None:
        return
    if isinstance(header, Reject):
        yield header
        return
    try:
        names = [decode(cell, options.encoding) for cell in header.cells]
        id_column = _column(names, options.id_field)
        content_column = _column(names, options.content_field)
    except BadInput as error:
        yield Reject(source.name, header.line, None, f"in the header: {error}")
        return
    for row in rows:
        if isinstance(row, Reject):
            yield row
        elif len(row.cells) != len(names):
            reason = f"the row has {len(row.cells)} cells, the header {len(names)}: is a quote missing?"
            yield Reject(source.name, row.line, None, reason)
        else:
            yield Raw(source.name, row.line, row.cells[id_column], row.cells[content_column])


def _column(names: list[str], wanted: str) -> int:
    if wanted not in names:
        raise BadInput(f"no column {wanted!r} among {', '.join(map(repr, names))}")
    return names.index(wanted)


@dataclass(frozen=True, slots=True)
class _Row:
    """A row and the line it begins in."""

    line: int
    cells: list[bytes]


def _rows(source: Source, lines: _RowLines, delimiter: str) -> Iterator[_Row | Reject]:
    # A limit of the whole process. Rows are bounded before they reach it.
    csv.field_size_limit(max(csv.field_size_limit(), lines.limit))
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        line = lines.begin_row()
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield Reject(source.name, line, None, f"not CSV: {error}")
        else:
            if len(cells) > 1 or "".join(cells).strip():
                yield _Row(line, [cell.encode("latin-1") for cell in cells])


class _RowLines:
    """Lines for csv.reader, which wants text: as Latin-1 every byte passes through it unchanged.

    Bounds the bytes of a row, which a quote that is never closed would extend to the end of the file.
    """

    def __init__(self, lines: _Lines, options: InputOptions) -> None:
        self._lines = lines
        self._options = options
        self._size = 0

    @property
    def limit(self) -> int:
        return self._options.max_record_bytes

    def begin_row(self) -> int:
        """The number of the line that comes next."""
        self._size = 0
        return self._lines.number + 1

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self._size += line.bytes if isinstance(line, TooLong) else len(line)
        if isinstance(line, TooLong) or self._size > self.limit:
            raise csv.Error(f"{_too_long(self._size, self._options)}; is a quote missing?")
        return line.decode("latin-1") + "\n"
