"""Raw records of CSV and TSV, with or without quoting."""

from __future__ import annotations

import codecs
import csv
import re
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from simhbase.corpus.fields import listed
from simhbase.corpus.formats.rows import distinct_names, readable
from simhbase.corpus.outputs.files import json_line
from simhbase.corpus.record import (
    ID_HINT,
    TAG_HINT,
    VALUE_HINT,
    InputOptions,
    Quoting,
    Raw,
    Reject,
    Source,
    SourceReject,
    TooLong,
    problem_of_part,
    too_long,
)
from simhbase.errors import BadInput
from simhbase.text.encoding import SHIFT, is_shifted
from simhbase.text.packing import Unreadable

DECIDING_LINES, DECIDING_BYTES = 1000, 1 << 20  # of a TSV, from its first cell that begins with a quote
# Bytes of lines read again, for each byte read, and at first: quotes may be placed so that every line begins
# a row without an end.
_MOST_AGAIN, _FREE_AGAIN = 4, 1 << 16
_MOST_COLUMNS = 1 << 16  # of 150 bytes each; spreadsheets have a fourth
_WITHIN_LINES = 100  # a row of more lines is taken for a quote that does not close
# Lines after the first that must look like rows for a quoted cell to be taken for several rows. Lines of
# texts often have a comma, and hardly ever a tab.
_ROWLIKE_LINES, _ROWLIKE_LINES_OF_TABS = 3, 1
_SEPARATOR = re.compile(rb'("?)sep=([^\r]?)\1\r?', re.IGNORECASE)  # Excel's first line
_DELIMITER = re.compile(r"[\t -/:-@\[-`{-~]")  # of it: ASCII, no letter or digit
_DOUBLED = re.compile(rb'(?<!\\)""')  # quotes, as only a program that quotes has them
_NULL = b"\\N"  # as databases write it that escape with backslashes
_SAY_ESCAPES = (
    "say whether backslashes are escapes (quoting backslash) or part of the texts (quoting csv or none)"
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPE_OF_DATABASES = re.compile(r"\\[\\nrt\n]")
_MEANINGS = {"0": "\0", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "Z": "\x1a"}
# Escaped characters are moved beyond Latin-1, so that they neither end cells nor begin an escape.
_MOVED, _MOVED_NULL = 0x100, "\u0200"
_MOVED_BACK = {_MOVED + byte: byte for byte in range(0x100)} | {ord(_MOVED_NULL): ord("N")}

Line = bytes | TooLong


def csv_records(
    source: Source,
    lines: Iterator[Line],
    options: InputOptions,
    delimiter: str,
    note: Callable[[str], None],
) -> Iterator[Raw | Reject]:
    """All rows after the header, which names the columns, and may come again where files were joined.

    A row that cannot be parsed costs its first line; the lines after it are read again, within bounds. note:
    gets what was decided about the quoting.
    """
    try:
        rows = _Rows(source, lines, options, delimiter, note)
    except BadInput as error:
        yield SourceReject(source.name, 1, None, str(error))
        return
    header = next(rows.read(), None)
    if header is None:
        return
    if isinstance(header, Reject):
        yield SourceReject(source.name, header.line, None, f"in the header: {header.reason}")
        return
    try:
        columns = _Columns.of(header.names(options), options)
    except BadInput as error:
        yield SourceReject(source.name, header.line, None, f"in the header: {error}")
        return
    repeated, moved = list[int](), list[int]()
    heading = header.unmarked
    # A header that comes again has one of these at its end, with a mark if it has one column.
    ends = {mark + cell for cell in heading for mark in (b"", codecs.BOM_UTF8)}
    for row in rows.read(len(header.cells)):
        try:
            if isinstance(row, Reject):
                yield row
            elif (row.cells[-1] or b"") in ends and row.unmarked == heading:
                before, columns = columns, _Columns.of(row.names(options), options)
                repeated.append(row.line)
                moved += [] if columns == before else [row.line]
            else:
                yield columns.record(source, row, options)
        except BadInput as error:
            yield Reject(source.name, row.line, None, str(error))
    if repeated:
        note(
            f"{source.name}: the header is there {len(repeated):,} times more (first in line {repeated[0]:,})"
        )
    if moved:
        note(
            f"{source.name}: from line {moved[0]:,} on its columns are in another order, as the header there "
            "says"
        )


@dataclass(frozen=True, slots=True)
class _Columns:
    """Numbers of the columns to read: ids (None if they are derived), texts or fingerprints, values to choose
    duplicates by, tags."""

    names: list[str]
    id: int | None
    content: int
    value: int | None
    tags: list[int]

    @classmethod
    def of(cls, names: list[str], options: InputOptions) -> _Columns:
        """Raises BadInput if one is missing."""
        has_id, value_field = options.id_from == "field", options.value_field
        return cls(
            distinct_names(names),
            _column(names, options.id_field, ID_HINT) if has_id else None,
            _column(names, options.content_field, options.content_hint),
            None if value_field is None else _column(names, value_field, VALUE_HINT),
            [_column(names, field, TAG_HINT) for _, field in options.tag_fields],
        )

    def record(self, source: Source, row: _Row, options: InputOptions) -> Raw:
        """Raises BadInput if a cell that is needed may be NULL."""
        if options.quoting is None and _NULL in row.cells:
            self._require_no_null(row)
        row_id = source.id_of_line(row.line, options) if self.id is None else self._cell(row, self.id)
        value = None if self.value is None else row.cells[self.value]
        tags = tuple(row.cells[column] for column in self.tags)
        raw = Raw(source.name, row.line, row_id, self._cell(row, self.content), value, tags=tags)
        return raw._replace(row=self._line(row, options)) if options.whole_rows else raw

    @property
    def _needed(self) -> set[int]:
        return {each for each in (self.id, self.content, self.value, *self.tags) if each is not None}

    def _cell(self, row: _Row, column: int) -> bytes:
        cell = row.cells[column]
        if cell is None:
            raise BadInput(f"column {self.names[column]!r} is NULL")
        return cell

    def _require_no_null(self, row: _Row) -> None:
        for column in self._needed:
            if row.cells[column] == _NULL:
                raise BadInput(
                    f"column {self.names[column]!r} is \\N, as databases write NULL: {_SAY_ESCAPES}"
                )

    def _line(self, row: _Row, options: InputOptions) -> bytes | None:
        """A row as a JSON object; None if a cell that is needed cannot be read: the parser rejects it."""
        needed = self._needed
        with suppress(BadInput):
            texts = [
                None
                if cell is None
                else (options.decode_cell(cell) if column in needed else readable(cell, options))
                for column, cell in enumerate(row.cells)
            ]
            return json_line(dict(zip(self.names, texts, strict=True)))
        return None


def _column(names: list[str], wanted: str, another: str) -> int:
    if wanted not in names:
        hint = another if len(names) > 1 else "name the delimiter that is between the cells"
        raise BadInput(f"no column {wanted!r} {listed(names)}: {hint}")
    if names.count(wanted) > 1:
        raise BadInput(f"{names.count(wanted)} columns are named {wanted!r}: rename one, or {another}")
    return names.index(wanted)


@dataclass(frozen=True, slots=True)
class _Row:
    """A row and the number of its first line. cells: None for NULL."""

    line: int
    cells: list[bytes | None]

    @property
    def unmarked(self) -> list[bytes]:
        """Sorted cells; a file that was joined with its byte order mark has that in the first."""
        return sorted((cell or b"").removeprefix(codecs.BOM_UTF8) for cell in self.cells)

    def names(self, options: InputOptions) -> list[str]:
        """The cells of a header. Raises BadInput if they are too many, or cannot be decoded."""
        if len(self.cells) > _MOST_COLUMNS:
            raise BadInput(f"{len(self.cells):,} columns, at most {_MOST_COLUMNS:,} are read")
        return [options.decode((cell or b"").removeprefix(codecs.BOM_UTF8)) for cell in self.cells]


class _Rows:
    """The rows of a source. Raises BadInput if its first line names no delimiter."""

    def __init__(
        self,
        source: Source,
        lines: Iterator[Line],
        options: InputOptions,
        delimiter: str,
        note: Callable[[str], None],
    ) -> None:
        self._source = source
        self._options = options
        self._note = note
        self._lines = _Lines(lines, options)
        self._require_parted(delimiter)
        self._delimiter = self._stated() or delimiter
        if self._delimiter != delimiter:
            note(
                f"{source.name}: cells are separated by {self._delimiter!r}, as its first line says, "
                f"not by {delimiter!r}"
            )
        # Without an option, texts between tabs may be quoted or not: the first one with a quote decides.
        self._quoting: Quoting | None = options.quoting or ("csv" if self._delimiter != "\t" else None)
        # Rows with lines that look like rows, and with what may be escapes: their number, and the first ones.
        self._rowlike, self._first_rowlike = 0, ""
        self._escaped, self._first_escaped = 0, 0

    def read(self, cells: int | None = None) -> Iterator[_Row | Reject]:
        """The rows that follow. cells: their number; None: the row is the header."""
        # This limit is global. Rows are bounded before they reach it.
        csv.field_size_limit(max(csv.field_size_limit(), self._options.max_record_bytes))
        reader = self._reader(self._quoting or "csv")
        while True:
            if self._quoting is None and self._decide():
                reader = self._reader(self._quoting or "csv")
            number = self._lines.begin_row()
            try:
                row = next(reader)
                self._require_plausible(row, cells)
            except StopIteration:
                self._tell()
                self._lines.require_undamaged()
                return
            except (csv.Error, BadInput) as error:
                yield self._failed(number, error, is_header=cells is None)
                reader = self._reader(self._quoting or "csv")
            else:
                if not self._lines.is_blank:
                    yield self._row(number, row, cells)

    def _require_parted(self, delimiter: str) -> None:
        """Raise BadInput for an encoding in which the bytes of delimiters and quotes may be others."""
        encoding = self._options.encoding
        is_plain = delimiter == "\t" and self._options.quoting == "none"
        if encoding != "auto" and is_shifted(encoding) and not is_plain:
            raise BadInput(
                f"in {encoding} the bytes of delimiters and quotes are also those of other characters: "
                "convert it to UTF-8 first"
            )

    def _stated(self) -> str | None:
        """The delimiter that the first line names, if it is one of Excel. Raises BadInput."""
        first = self._lines.peek()
        found = _SEPARATOR.fullmatch(first) if isinstance(first, bytes) else None
        if not found:
            return None
        next(self._lines)
        delimiter = found[2].decode("latin-1")
        if not _DELIMITER.fullmatch(delimiter) or delimiter == '"':
            raise BadInput(f"its first line, sep={delimiter}, names no delimiter: remove it, or mend it")
        if problem := problem_of_part(delimiter, self._options.encoding):
            raise BadInput(f"its first line names the delimiter {delimiter!r}, but {problem}")
        return delimiter

    def _tell(self) -> None:
        """Say which rows may mean something else than was read."""
        if self._rowlike:
            self._note(
                f"{self._source.name}: {self._rowlike:,} quoted cells have lines that look like rows (the "
                f"first {self._first_rowlike}): if quotes are part of the texts, say so (quoting none)"
            )
        if self._escaped:
            self._note(
                f"{self._source.name}: {self._escaped:,} rows (the first in line {self._first_escaped:,}) "
                "have backslashes as databases write escapes and NULL; they are part of the texts here. If "
                "they are escapes, say so (quoting backslash)"
            )

    def _reader(self, quoting: Quoting) -> Iterator[list[str]]:
        if quoting != "csv":
            return csv.reader(self._lines, delimiter=self._delimiter, strict=True, quoting=csv.QUOTE_NONE)
        return csv.reader(self._lines, delimiter=self._delimiter, strict=True)

    def _row(self, number: int, row: list[str], cells: int | None) -> _Row | Reject:
        if cells is None or len(row) == cells:
            return _Row(number, self._cells(number, row))
        missing = "is a quote missing?" if self._quoting == "csv" else "is there a line break in a text?"
        reason = f"the row has {len(row)} cells, the header {cells}: {missing}"
        return Reject(self._source.name, number, None, reason + self._lines.shown_end(number))

    def _cells(self, number: int, row: list[str]) -> list[bytes | None]:
        if self._quoting == "backslash":
            moved = [None if cell == _MOVED_NULL else cell.translate(_MOVED_BACK) for cell in row]
            return [None if cell is None else cell.encode("latin-1") for cell in moved]
        cells: list[bytes | None] = [cell.encode("latin-1") for cell in row]
        if self._options.quoting is None and (_NULL in cells or any(map(_ESCAPE_OF_DATABASES.search, row))):
            self._escaped += 1
            self._first_escaped = self._first_escaped or number
        return cells

    def _failed(self, number: int, error: csv.Error | BadInput, *, is_header: bool) -> Reject:
        reason = str(error)
        if "new-line character" in reason:
            reason = "lines end with CR only: convert them to LF"
        if isinstance(error, csv.Error):
            reason = f"not CSV: {reason}"
            if any(isinstance(line, bytes) and b'\\"' in line for line in self._lines.taken):
                reason += ' (a quote within is doubled in CSV, not \\")'
        end = self._lines.shown_end(number)
        if end:
            again = (
                "are not read, as nothing is without a header"
                if is_header
                else "are read again"
                if self._lines.give_back()
                else "are not: such rows were read again too often"
            )
            end += f". Its other lines {again}. If quotes are part of the texts, say so (quoting none)"
        return Reject(self._source.name, number, None, reason + end)

    def _require_plausible(self, row: list[str], cells: int | None) -> None:
        """Raise BadInput if a quoted cell has swallowed rows, unless quotes were said to be right."""
        taken = self._lines.taken
        if cells is None or self._options.quoting is not None:
            return
        last = taken[-1]
        if isinstance(last, bytes) and _ends_in_escape(last):
            raise BadInput(f"the line ends with a backslash, as MySQL writes line breaks: {_SAY_ESCAPES}")
        if len(taken) == 1:
            return
        are_rows = _rowlike(taken, cells, self._delimiter)
        many = _ROWLIKE_LINES_OF_TABS if self._delimiter == "\t" else _ROWLIKE_LINES
        if cells > 1 and _rowlike_lines(taken, are_rows, self._delimiter) >= many:
            raise BadInput("a quoted cell contains lines that look like rows")
        if not any(are_rows[1:]):
            return
        self._rowlike += 1
        last_line = self._lines.number
        first_line = last_line - len(taken) + 1
        self._first_rowlike = self._first_rowlike or f"in lines {first_line:,} to {last_line:,}"

    def _decide(self) -> bool:
        """Decide about the quoting, if the next line has a cell that begins with a quote."""
        line = self._lines.peek()
        if not isinstance(line, bytes) or not _begins_with_quote(line, self._delimiter):
            return False
        window = [each for each in self._lines.peek_several() if isinstance(each, bytes)]
        is_quoted = _is_quoted(window, self._delimiter, self._options)
        self._quoting = "csv" if is_quoted else "none"
        said = (
            "quotes around cells are left out (quoting csv)"
            if is_quoted
            else "quotes are part of the texts (quoting none)"
        )
        self._note(f"{self._source.name}: as the file from line {self._lines.number + 1:,} on shows, {said}")
        return True


def _ends_in_escape(line: bytes) -> bool:
    """True for a line with a backslash that escapes its line break, as MySQL writes it."""
    return (len(line) - len(line.rstrip(b"\\"))) % 2 == 1


def _begins_with_quote(line: bytes, delimiter: str) -> bool:
    return line.startswith(b'"') or f'{delimiter}"'.encode() in line


def _is_quoted(window: list[bytes], delimiter: str, options: InputOptions) -> bool:
    """True if more rows are as they should be with quoting than without."""
    cells = window[0].count(delimiter.encode()) + 1
    unfit_lines = sum(line.count(delimiter.encode()) + 1 != cells for line in window if line.strip())
    lines = _Lines(iter(window), options)
    unfit_rows = 0
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        lines.begin_row()
        try:
            row = next(reader)
        except StopIteration:
            break
        except csv.Error:
            # A row at the end may go on beyond the window.
            if lines.peek() is None and len(lines.taken) <= _WITHIN_LINES and len(lines.taken) < len(window):
                break
            unfit_rows += len(lines.taken)
            reader = csv.reader(lines, delimiter=delimiter, strict=True)
        else:
            taken = lines.taken
            are_rows = _rowlike(taken, cells, delimiter)
            swallows = cells > 1 and _rowlike_lines(taken, are_rows, delimiter) >= _ROWLIKE_LINES_OF_TABS
            unfit_rows += len(taken) if swallows else bool(row) and len(row) != cells
    return unfit_rows <= unfit_lines


def _rowlike_lines(lines: list[Line], are_rows: list[bool], delimiter: str) -> int:
    """Number of lines after the first of a row, if each would be a row itself, else 0; between tabs of those
    within that would be rows."""
    if any(isinstance(line, bytes) and _DOUBLED.search(line) for line in lines):
        return 0
    if all(are_rows):
        return len(lines) - 1
    return sum(are_rows[1:-1]) if delimiter == "\t" else 0


def _rowlike(lines: list[Line], cells: int, delimiter: str) -> list[bool]:
    """Of each line, whether it would be a row itself."""
    between = delimiter.encode()
    return [
        isinstance(line, bytes) and line.count(between) == cells - 1 and bool(line.strip()) for line in lines
    ]


class _Lines:
    """Lines for csv.reader, decoded as Latin-1 so that every byte passes unchanged. Those of the last row can
    be given back.

    Limits the size of a row, which an unclosed quote would extend to the end of the file.
    """

    def __init__(self, lines: Iterator[Line], options: InputOptions) -> None:
        self._source = self._until_damaged(lines)
        self._options = options
        self._waiting: deque[Line] = deque()
        self._damage: Unreadable | None = None
        self._size = 0
        self._read = self._again = 0  # bytes from the source, and those of them that were given back
        self.number = 0  # of the last line
        self.taken: list[Line] = []  # lines of the row

    def begin_row(self) -> int:
        """The number of the next line."""
        self._size = 0
        self.taken = []
        return self.number + 1

    @property
    def is_blank(self) -> bool:
        """True if the row is a line of white space."""
        return all(isinstance(line, bytes) and not line.strip() for line in self.taken)

    def give_back(self) -> bool:
        """Read the lines of the row again, without the first; False if that was done too often."""
        again = self.taken[1:]
        size = sum(map(_size, again))
        if self._again + size > _FREE_AGAIN + _MOST_AGAIN * self._read:
            return False
        self._again += size
        self._waiting.extendleft(reversed(again))
        self.number -= len(again)
        return True

    def shown_end(self, begin: int) -> str:
        """Where the row ended, if not in its first line."""
        return f" (the row from line {begin:,} to {self.number:,})" if self.number > begin else ""

    def require_undamaged(self) -> None:
        """Raise Unreadable if the lines ended because of damage."""
        if self._damage:
            raise self._damage

    def peek(self) -> Line | None:
        if not self._waiting:
            self._waiting.extend(islice(self._source, 1))
        return self._waiting[0] if self._waiting else None

    def peek_several(self) -> list[Line]:
        """The next lines, up to DECIDING_LINES or DECIDING_BYTES."""
        size = sum(_size(line) for line in self._waiting)
        while len(self._waiting) < DECIDING_LINES and size < DECIDING_BYTES:
            if (line := next(self._source, None)) is None:
                break
            self._waiting.append(line)
            size += _size(line)
        return list(islice(self._waiting, DECIDING_LINES))

    def _until_damaged(self, lines: Iterator[Line]) -> Iterator[Line]:
        """The lines. Damage ends them, so that those before it can be given back first."""
        try:
            for line in lines:
                self._read += _size(line)
                yield line
        except Unreadable as error:
            self._damage = error

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._taken()
        if self._options.quoting != "backslash":
            return line.decode("latin-1") + "\n"
        lines = [line]
        while _ends_in_escape(line):
            if self.peek() is None:
                raise csv.Error("the last line ends with a backslash, which begins an escape")
            lines.append(line := self._taken())
        moved = _ESCAPE.sub(_moved, b"\n".join(lines).decode("latin-1").removesuffix("\r"))
        return moved.replace("\r", chr(_MOVED + ord("\r"))) + "\n"  # MySQL does not escape it

    def _taken(self) -> bytes:
        line = self._waiting.popleft() if self._waiting else next(self._source)
        self.number += 1
        self.taken.append(line)
        self._size += _size(line)
        if isinstance(line, bytes) and SHIFT in line and self._options.encoding == "auto":
            raise csv.Error("it looks like ISO-2022: convert it to UTF-8 first")
        if isinstance(line, TooLong) or self._size > self._options.max_record_bytes + 1:
            raise csv.Error(f"{too_long(self._size - 1, self._options)}; is a quote missing?")
        return line


def _moved(escape: re.Match[str]) -> str:
    if escape[1] == "N":
        return _MOVED_NULL
    return chr(_MOVED + ord(_MEANINGS.get(escape[1], escape[1])))


def _size(line: Line) -> int:
    """Bytes of a line with its end: a row may have empty lines without number."""
    return 1 + (line.bytes if isinstance(line, TooLong) else len(line))
