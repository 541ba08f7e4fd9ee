"""Reads files, folders, globs, URLs and standard input as one stream of chunks, in the given order."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from simhbase.corpus.folders import printable, resolved
from simhbase.corpus.formats.parquet import (
    BEGIN,
    MAGIC_BYTES,
    bounds_of,
    column_types,
    is_columnar,
    load_pyarrow,
    table_parts,
    unreadable_from,
)
from simhbase.corpus.formats.raw import raw_records
from simhbase.corpus.names import STDIN, format_of
from simhbase.corpus.parser import Parser
from simhbase.corpus.paths import FoundSource, LeftOut, Listed, expand, local_path
from simhbase.corpus.prepared import of_certain_base
from simhbase.corpus.record import Chunk, Format, InputOptions, Raw, Reject, Source, SourceReject, chunked
from simhbase.corpus.remote import expand_url
from simhbase.text.packing import Rereadable, RereadablePipe

if TYPE_CHECKING:
    from simhbase.process.isolation import IsolatedReader

MANY_LINES = 20  # of a text that is the only file: each may be meant as a document


@dataclass
class Sources:
    """The inputs of one run: files, folders, globs (see `expand`), URLs (`expand_url`), "-" for standard
    input.

    Unreadable records become a Reject in their place, unreadable sources a SourceReject; nothing is raised.
    """

    inputs: Sequence[str]
    options: InputOptions
    stdin: BinaryIO | None = None
    left_out: list[LeftOut] = field(default_factory=list)  # skipped files of the folders read so far
    notes: list[str] = field(default_factory=list)  # what was decided about the sources read so far
    _listed: Iterator[Listed] | None = None  # what is left to read, if some files were listed
    _files: int = 0
    _lines: tuple[str, int] = "", 0  # of the last text that is a file: its name, and their number
    _done: int = 0  # bytes as on disk: compressed ones of compressed files
    _position: Callable[[], int] = int  # in the current file
    _running: IsolatedReader | None = None  # a process that reads tables

    @property
    def consumed(self) -> int:
        """Number of bytes read, as on disk."""
        return self._done + self._position()

    def total(self) -> int | None:
        """The final value of `consumed`; None if unknown (a pipe).

        Walks all folders, for progress.
        """
        total = 0
        for found in self._found():
            if isinstance(found, FoundSource):
                size = found.size()
                if size is None:
                    return None
                total += size
        return total

    def has_any_of(self, formats: Collection[Format]) -> bool:
        """True if a file has one of these formats, by its name. Files are listed up to that one, and not
        again when they are read."""
        if self.options.format is not None:
            return self.options.format in formats
        listed, rest, is_there = list[Listed](), self._found(), False
        for found in rest:
            listed.append(found)
            if isinstance(found, FoundSource):
                is_there = (format_of(found.source.name) or "jsonl") in formats
            if is_there:
                break
        self._listed = chain(listed, rest)
        return is_there

    def column_types(self) -> Mapping[str, Any]:
        """Arrow types of the columns of the first Parquet file; empty if there is none. Pipes are not opened:
        they were read already, and have no writer any more."""
        for found in self._found():
            if isinstance(found, FoundSource) and found.path is not None and found.size() is not None:
                with suppress(OSError), found.open() as file:
                    if _is_parquet(file):
                        return self._column_types(file)
        return {}

    def _column_types(self, file: BinaryIO) -> Mapping[str, Any]:
        from simhbase.process.isolation import LimitExceeded

        counted = _CountedFile(file, self)
        with closing(self._tables()) as tables, suppress(LimitExceeded):
            return next(tables.answers(column_types, counted, bounds=bounds_of(counted.size)), {})
        return {}

    def chunks(self) -> Iterator[Chunk]:
        """All records in order. Memory is bounded by the largest record allowed."""
        try:
            yield from chunked(self._items())
        finally:
            if self._running is not None:
                self._running.close()

    def _tables(self) -> IsolatedReader:
        from simhbase.process.isolation import IsolatedReader  # takes time to load

        self._running = self._running or IsolatedReader(load_pyarrow)
        return self._running

    def _found(self) -> Iterator[Listed]:
        form, follow_links = self.options.format, self.options.follow_links
        for given in self.inputs:
            if given == STDIN:
                yield FoundSource(Source("stdin", "stdin"), None)
                continue
            path = local_path(given)
            found = (
                expand_url(given, form, follow_links=follow_links)
                if path is None
                else expand(path, form, follow_links=follow_links)
            )
            yield from map(_named_by_path, found) if self.options.id_from == "path" else found

    def _items(self) -> Iterator[Raw | Reject]:
        for found in self._listed or self._found():
            self._files += isinstance(found, FoundSource)
            if isinstance(found, SourceReject):
                yield found
            elif isinstance(found, LeftOut):
                self.left_out.append(found)
            elif found.path is None:
                with closing(self._records(found, self.stdin or sys.stdin.buffer)) as items:
                    yield from in_certain_base(items, self.options)
            else:
                try:
                    file = found.open()
                except OSError as error:
                    reason = f"it cannot be opened: {error.strerror}"
                    yield SourceReject(found.source.name, None, None, reason)
                else:
                    read = self._rows if _is_parquet(file) else self._records
                    with file, closing(read(found, file)) as items:
                        yield from in_certain_base(items, self.options)
        name, lines = self._lines
        if self._files == 1 and lines >= MANY_LINES and self.options.format is None:
            self.notes.append(
                f"{name}: its {lines:,} lines are one document, as its name says plain text: for a document "
                "a line, name its format, lines (format)"
            )

    def _records(self, found: FoundSource, file: BinaryIO) -> Generator[Raw | Reject, None, None]:
        file_format = self.options.format or format_of(found.source.name) or "jsonl"
        with closing(Rereadable(file) if file.seekable() else RereadablePipe(file)) as rereadable:
            self._position = rereadable.tell
            try:
                items = raw_records(found.source, rereadable, file_format, self.options, self.notes.append)
                yield from map(self._with_lines, items) if file_format == "text" else items
            finally:  # a source may be given up before its end
                self._done, self._position = self.consumed, int

    def _with_lines(self, text: Raw | Reject) -> Raw | Reject:
        self._lines = text.source, text.data.count(b"\n") if isinstance(text, Raw) else 0
        return text

    def _rows(self, found: FoundSource, file: BinaryIO) -> Generator[Raw | Reject, None, None]:
        """Rows of a Parquet file, of which only some columns are read."""
        if (named := self.options.format) not in (None, "parquet", "arrow"):
            reason = f"it is Parquet or Arrow, and not {named}: leave out the format (format)"
            yield SourceReject(found.source.name, None, None, reason)
            return
        from simhbase.process.isolation import LimitExceeded

        begin, size = self._done, found.size()
        counted, reading = _CountedFile(file, self), BEGIN
        while True:
            answers = self._tables().answers(
                table_parts, counted, found.source, self.options, reading, bounds=bounds_of(counted.size)
            )
            try:
                with closing(answers):
                    for part in answers:
                        self.notes += part.notes
                        yield from part.items
                        reading = part.state
                break
            except LimitExceeded as error:
                fewer = None if error.is_of_time else reading.with_fewer()
                if fewer is None:
                    yield unreadable_from(reading.rows, found.source, str(error))
                    break
                reading = fewer
        if size is not None:
            self._done = begin + size


def _named_by_path(found: Listed) -> Listed:
    """A file whose documents are named by its path."""
    if not isinstance(found, FoundSource):
        return found
    path = found.path
    name = printable(str(resolved(path))) if isinstance(path, Path) else found.source.name
    return replace(found, source=Source(found.source.name, name))


def in_certain_base(items: Iterator[Raw | Reject], options: InputOptions) -> Iterator[Raw | Reject]:
    """The records of a source, whose fingerprints (if it has some) must not be ambiguous."""
    if options.fingerprint_field is None or options.fingerprint_base is not None:
        return items
    return of_certain_base(items, Parser(options).fingerprint_texts, options.fingerprint_bits)


class _CountedFile(io.RawIOBase):
    """A seekable file that counts its bytes as consumed when they are read. size: in bytes."""

    def __init__(self, file: BinaryIO, sources: Sources) -> None:
        self._file = file
        self._sources = sources
        self.size = file.seek(0, io.SEEK_END)
        file.seek(0)

    def read(self, size: int = -1, /) -> bytes:
        data = self._file.read(min(size, max(self.size - self._file.tell(), 0)))
        self._sources._done += len(data)
        return data

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


def _is_parquet(file: BinaryIO) -> bool:
    """True if a seekable file starts like Parquet."""
    try:
        if not file.seekable():
            return False
        begin = file.read(MAGIC_BYTES)
        file.seek(0)
    except OSError:  # reading it will raise
        return False
    return is_columnar(begin)
