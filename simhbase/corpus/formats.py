"""Raw records of sources that are read sequentially: JSON lines, CSV, plain text, HTML, WARC."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath

from simhbase.corpus.fields import listed
from simhbase.corpus.parquet import MAGIC
from simhbase.corpus.record import (
    ID_HINT,
    TAG_HINT,
    VALUE_HINT,
    Format,
    InputOptions,
    Raw,
    Reject,
    Source,
    SourceReject,
    too_long,
)
from simhbase.corpus.rows import distinct_names, readable, whole_row
from simhbase.corpus.streams import TooLong, split_lines, unpacked_text, wide_to_utf8
from simhbase.errors import BadInput
from simhbase.packing import SUFFIXES, Rereadable, Unreadable

_BY_EXTENSION: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".txt": "text",
    ".md": "text",
    ".html": "html",
    ".htm": "html",
    ".parquet": "parquet",
    ".warc": "warc",
}
EXTENSIONS = tuple(_BY_EXTENSION)
FORMATS_OF_PAGES = ("html", "warc")
_SPREAD_OUT = {
    b"[": "jq -c '.[]'",
    b"{": "jq -c .",
}  # first lines, and commands that fix them


def format_of(name: str) -> Format | None:
    """The format given by a file's name, also before .gz etc.; None if unknown."""
    path = PurePath(name.lower())
    if path.suffix in SUFFIXES:
        path = path.with_suffix("")
    return _BY_EXTENSION.get(path.suffix)


def plain_name(name: str) -> str:
    """The name of a file without folder and format endings."""
    path = PurePath(name)
    if path.suffix.lower() in SUFFIXES:
        path = path.with_suffix("")
    return path.stem if path.suffix.lower() in _BY_EXTENSION else path.name


def raw_records(
    source: Source, file: Rereadable, file_format: Format, options: InputOptions
) -> Iterator[Raw | Reject]:
    """All records of a source; a reject at the end if it cannot be read further."""
    is_named_packed = PurePath(source.name).suffix.lower() in SUFFIXES
    plain = b"{" if file_format == "jsonl" else b""
    content = unpacked_text(file, is_named_packed=is_named_packed, plain=plain)
    # HTML pages state their own encoding.
    content = wide_to_utf8(content, "auto" if file_format == "html" else options.encoding)
    lines = _Lines(split_lines(content, options.max_record_bytes))
    try:
        match file_format:
            case "jsonl":
                yield from _json_lines(source, lines, options)
            case "lines":
                yield from _one_a_line(source, lines, options)
            case "csv":
                yield from _csv(source, lines, options, options.delimiter)
            case "tsv":
                yield from _csv(source, lines, options, "\t")
            case "text":
                yield _whole(source, content, options)
            case "html":
                page = _whole(source, content, options)
                yield page._replace(holds="page") if isinstance(page, Raw) else page
            case "warc":
                from simhbase.corpus.warc import warc_records  # its libraries take time to load

                yield from warc_records(source, content, options)
            case "parquet":
                next(content, b"")  # raises if it is Parquet, but compressed or from a pipe
                raise Unreadable(f"it is no Parquet file: those begin with {MAGIC.decode()}")
    except Unreadable as error:
        if lines.number:
            yield Reject(source.name, lines.number + 1, None, str(error))
        else:
            yield SourceReject(source.name, None, None, str(error))


class _Lines:
    """Lines with the number of the last one, from 1."""

    def __init__(self, lines: Iterator[bytes | TooLong]) -> None:
        self._lines = lines
        self.number = 0

    def __iter__(self) -> Iterator[bytes | TooLong]:
        return self

    def __next__(self) -> bytes | TooLong:
        line = next(self._lines)
        self.number += 1
        return line


def _json_lines(source: Source, lines: _Lines, options: InputOptions) -> Iterator[Raw | Reject]:
    has_id = options.id_from == "field"
    for number, raw in enumerate(_one_a_line(source, lines, options)):
        if isinstance(raw, Reject):
            yield raw
        elif number == 0 and (command := _SPREAD_OUT.get(raw.data.strip())):
            reason = f"an object a line is expected, not JSON over several lines: {command} writes it so"
            yield SourceReject(source.name, raw.line, None, reason)
            return
        else:
            yield raw._replace(holds="json", id=None if has_id else raw.id)


def _one_a_line(source: Source, lines: _Lines, options: InputOptions) -> Iterator[Raw | Reject]:
    for line in lines:
        if isinstance(line, TooLong):
            yield Reject(source.name, lines.number, None, too_long(line.bytes, options))
        elif line and not line.isspace():
            line_id = source.id_of_line(lines.number, options)
            yield Raw(source.name, lines.number, line_id, line.removesuffix(b"\r"))


def _whole(source: Source, content: Iterator[bytes], options: InputOptions) -> Raw | Reject:
    blocks: list[bytes] = []
    size = 0
    for block in content:
        blocks.append(block)
        size += len(block)
        if size > options.max_record_bytes:
            return Reject(source.name, 1, None, too_long(size, options))
    return Raw(source.name, 1, None if options.id_from == "text" else source.id, b"".join(blocks))


def _csv(source: Source, lines: _Lines, options: InputOptions, delimiter: str) -> Iterator[Raw | Reject]:
    rows = _rows(source, _RowLines(lines, options), delimiter)
    header = next(rows, None)
    if header is None:
        return
    if isinstance(header, Reject):
        yield header
        return
    try:
        names = list(map(options.decode, header.cells))
        has_id, value_field = options.id_from == "field", options.value_field
        id_column = _column(names, options.id_field, ID_HINT) if has_id else None
        content_column = _column(names, options.content_field, options.content_hint)
        value_column = None if value_field is None else _column(names, value_field, VALUE_HINT)
        tag_columns = [_column(names, field, TAG_HINT) for _, field in options.tag_fields]
    except BadInput as error:
        yield SourceReject(source.name, header.line, None, f"in the header: {error}")
        return
    whole_names = distinct_names(names)
    needed = {id_column, content_column, value_column, *tag_columns}
    for row in rows:
        if isinstance(row, Reject):
            yield row
        elif len(row.cells) != len(names):
            reason = f"the row has {len(row.cells)} cells, the header {len(names)}: is a quote missing?"
            yield Reject(source.name, row.line, None, reason)
        else:
            line_id = source.id_of_line(row.line, options)
            row_id = line_id if id_column is None else row.cells[id_column]
            value = None if value_column is None else row.cells[value_column]
            tags = tuple(row.cells[column] for column in tag_columns)
            raw = Raw(source.name, row.line, row_id, row.cells[content_column], value, tags=tags)
            if options.whole_rows:
                with suppress(BadInput):  # an invalid row is unchanged: the parser rejects it
                    texts = [
                        options.decode(cell) if column in needed else readable(cell, options)
                        for column, cell in enumerate(row.cells)
                    ]
                    decoded_id = options.decode(row_id) if isinstance(row_id, bytes) else row_id
                    raw = whole_row(raw, decoded_id, dict(zip(whole_names, texts, strict=True)))
            yield raw


def _column(names: list[str], wanted: str, another: str) -> int:
    if wanted not in names:
        hint = another if len(names) > 1 else "name the delimiter that is between the cells"
        raise BadInput(f"no column {wanted!r} {listed(names)}: {hint}")
    return names.index(wanted)


@dataclass(frozen=True, slots=True)
class _Row:
    """A row and the number of its first line."""

    line: int
    cells: list[bytes]


def _rows(source: Source, lines: _RowLines, delimiter: str) -> Iterator[_Row | Reject]:
    # This limit is global. Rows are bounded before they reach it.
    csv.field_size_limit(max(csv.field_size_limit(), lines.limit))
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        line = lines.begin_row()
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            reason = str(error)
            if "new-line character" in reason:
                reason = "lines end with CR only: convert them to LF"
            yield Reject(source.name, line, None, f"not CSV: {reason}")
        else:
            if len(cells) > 1 or "".join(cells).strip():
                yield _Row(line, [cell.encode("latin-1") for cell in cells])


class _RowLines:
    """Lines for csv.reader, decoded as Latin-1 so that every byte passes unchanged.

    Limits the size of a row, which an unclosed quote would extend to the end of the file.
    """

    def __init__(self, lines: _Lines, options: InputOptions) -> None:
        self._lines = lines
        self._options = options
        self.limit = options.max_record_bytes
        self._size = 0

    def begin_row(self) -> int:
        """The number of the next line."""
        self._size = 0
        return self._lines.number + 1

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self._size += line.bytes if isinstance(line, TooLong) else len(line)
        if isinstance(line, TooLong) or self._size > self.limit:
            raise csv.Error(f"{too_long(self._size, self._options)}; is a quote missing?")
        return line.decode("latin-1") + "\n"
