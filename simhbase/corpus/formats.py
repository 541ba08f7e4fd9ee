"""Raw records of sources that are read sequentially: JSON lines, CSV, plain text, HTML, WARC."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import PurePath
from typing import Literal

from simhbase.corpus.csv_input import csv_records
from simhbase.corpus.names import SUFFIXES
from simhbase.corpus.parquet import ARROW_MAGIC, MAGIC
from simhbase.corpus.record import (
    Format,
    InputOptions,
    Raw,
    Reject,
    Source,
    SourceReject,
    TooLong,
    too_long,
)
from simhbase.corpus.streams import WARC_BEGIN, split_lines, unpacked_text, wide_to_utf8
from simhbase.corpus.utf8 import Utf8
from simhbase.packing import Rereadable, Resumption, Unreadable
from simhbase.text.encoding import is_wide
from simhbase.text.html import stated_encoding

_SPREAD_OUT = {
    b"[": "jq -c '.[]'",
    b"{": "jq -c .",
}  # first lines, and commands that fix them
_OF_PAGES = ("html", "warc")  # formats
_OF_TEXTS = ("text", "warc")  # formats whose records are whole texts


def raw_records(
    source: Source,
    file: Rereadable,
    file_format: Format,
    options: InputOptions,
    note: Callable[[str], None],
) -> Iterator[Raw | Reject]:
    """All records of a source; a reject at the end if it cannot be read further. note: gets what was decided
    about the source."""
    is_converted = options.encoding == "auto" or (is_wide(options.encoding) and file_format != "warc")
    items = _records(source, file, file_format, options, note)
    if is_converted and file_format != "html":
        items = _in_utf8(items, source, file_format, note)
    yield from _with_encoding_of_pages(items, source, options, note) if file_format in _OF_PAGES else items


def _with_encoding_of_pages(
    items: Iterator[Raw | Reject], source: Source, options: InputOptions, note: Callable[[str], None]
) -> Iterator[Raw | Reject]:
    """All records. Pages that neither their server nor themselves state the encoding of have the one of the
    options, or what auto finds, or are rejected."""
    notes: set[str] = set()
    for item in items:
        if isinstance(item, Reject) or item.holds != "page" or item.encoding or _is_utf8(item.data):
            yield item
        elif encoding := stated_encoding(item.data):
            yield item._replace(encoding=encoding)
        elif options.encoding != "auto":
            yield item._replace(encoding=options.encoding)
        else:
            utf8 = Utf8(notes.add)
            utf8.decide([item.data])
            if _is_utf8(data := utf8.converted(item.data)):
                yield item._replace(data=data)
            else:
                page_id = item.id.decode(errors="replace") if isinstance(item.id, bytes) else item.id
                reason = "the page is not UTF-8 and states no encoding: name its encoding (encoding)"
                yield Reject(item.source, item.line, page_id, reason)
    for found in notes:
        note(f"{source.name}: pages that state no encoding are {found}")


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _in_utf8(
    items: Iterator[Raw | Reject], source: Source, file_format: Format, note: Callable[[str], None]
) -> Iterator[Raw | Reject]:
    """All records, with texts in UTF-8."""
    notes: set[str] = set()
    for item in items:
        if isinstance(item, Reject) or item.encoding is not None or item.holds == "page":
            yield item
        elif file_format in _OF_TEXTS:  # each has its own
            utf8 = Utf8(notes.add)
            utf8.decide([item.data])
            yield item._replace(encoding="utf-8", data=utf8.converted(item.data))
        else:
            yield item._replace(encoding="utf-8")
    for found in notes:
        note(f"{source.name}: {'some of its' if file_format == 'warc' else 'its'} texts are {found}")


def _records(
    source: Source,
    file: Rereadable,
    file_format: Format,
    options: InputOptions,
    note: Callable[[str], None],
) -> Iterator[Raw | Reject]:
    def say_encoding(found: str) -> None:
        note(f"{source.name}: its texts are {found}")

    is_named_packed = PurePath(source.name).suffix.lower() in SUFFIXES
    plain = b"{" if file_format == "jsonl" else b""
    # Crawlers pack each record by itself.
    resumption = Resumption(WARC_BEGIN, [])
    content = unpacked_text(
        file,
        is_named_packed=is_named_packed,
        plain=plain,
        resumption=resumption if file_format == "warc" else None,
        zstd_long=options.zstd_long,
    )
    if file_format != "warc":
        # HTML pages state their own encoding.
        encoding = "auto" if file_format == "html" else options.encoding
        content = wide_to_utf8(content, encoding, say_encoding)
    split = split_lines(content, options.max_record_bytes)
    lines = _Lines(Utf8(say_encoding).lines(split) if options.encoding == "auto" else split)
    if options.encoding == "auto" or is_wide(options.encoding):
        options = replace(options, encoding="utf-8")
    try:
        match file_format:
            case "jsonl":
                yield from _json_lines(source, lines, options)
            case "lines":
                yield from _one_a_line(source, lines, options)
            case "csv":
                yield from csv_records(source, lines, options, options.delimiter, note)
            case "tsv":
                yield from csv_records(source, lines, options, "\t", note)
            case "text":
                yield _whole(source, content, options)
            case "html":
                page = _whole(source, content, options)
                yield page._replace(holds="page") if isinstance(page, Raw) else page
            case "warc":
                from simhbase.corpus.warc import warc_records  # its libraries take time to load

                yield from warc_records(source, content, resumption.lost, options, note)
            case "parquet" | "arrow":
                next(content, b"")  # raises if it is Parquet, but compressed or from a pipe
                kind, magic = ("Parquet", MAGIC) if file_format == "parquet" else ("Arrow", ARROW_MAGIC)
                raise Unreadable(
                    f"it is no {kind} file: those begin with {magic.decode()}, and go on with binary data"
                )
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
    for number, raw in enumerate(_one_a_line(source, lines, options, "json", has_id=has_id)):
        if isinstance(raw, Reject):
            yield raw
        elif number == 0 and (command := _SPREAD_OUT.get(raw.data.strip())):
            reason = f"an object a line is expected, not JSON over several lines: {command} writes it so"
            yield SourceReject(source.name, raw.line, None, reason)
            return
        else:
            yield raw


def _one_a_line(
    source: Source,
    lines: _Lines,
    options: InputOptions,
    holds: Literal["text", "json"] = "text",
    *,
    has_id: bool = False,
) -> Iterator[Raw | Reject]:
    for line in lines:
        if isinstance(line, TooLong):
            yield Reject(source.name, lines.number, None, too_long(line.bytes, options))
        elif line and not line.isspace():
            line_id = None if has_id else source.id_of_line(lines.number, options)
            yield Raw(source.name, lines.number, line_id, line.removesuffix(b"\r"), None, holds)


def _whole(source: Source, content: Iterator[bytes], options: InputOptions) -> Raw | Reject:
    blocks: list[bytes] = []
    size = 0
    for block in content:
        blocks.append(block)
        size += len(block)
        if size > options.max_record_bytes:
            return Reject(source.name, 1, None, too_long(size, options))
    return Raw(source.name, 1, None if options.id_from == "text" else source.id, b"".join(blocks))
