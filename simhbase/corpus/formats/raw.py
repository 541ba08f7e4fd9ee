"""Raw records of sources that are read sequentially: JSON lines, CSV, plain text, HTML, WARC."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import PurePath
from typing import Literal

import orjson

from simhbase.corpus.formats.arrow import MAGIC as ARROW_MAGIC
from simhbase.corpus.formats.csv import csv_records
from simhbase.corpus.formats.encoding_detection import DetectedEncoding
from simhbase.corpus.formats.parquet import MAGIC
from simhbase.corpus.names import SUFFIXES, format_of
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
from simhbase.errors import BadInput
from simhbase.text.encoding import is_wide
from simhbase.text.html import decode_stated, is_utf8, require_readers, stated_encoding
from simhbase.text.packing import Rereadable, Resumption, Unreadable

_OVER_LINES = "an object a line is expected, not JSON over several lines: {} writes it so"
_AN_OBJECT = re.compile(rb'\{\s*".*\}', re.DOTALL)
# First lines that are no JSON object a line, and what to do.
_OTHER_FORMS = (
    (re.compile(rb"\["), _OVER_LINES.format("jq -c '.[]'")),
    (re.compile(rb"\{"), _OVER_LINES.format("jq -c .")),
    (re.compile(rb"\[\s*\{.*,", re.DOTALL), _OVER_LINES.format("jq -c '.[]'")),
    (re.compile(rb"\{.*\},", re.DOTALL), "its objects are parted by commas: sed 's/,$//' takes them away"),
    (
        re.compile(rb"\x1e.*", re.DOTALL),
        "it is a JSON text sequence (RFC 7464): tr -d '\\036' makes lines of it",
    ),
    (re.compile(rb"\{\s*'.*", re.DOTALL), "it has values of Python, not JSON: write each with json.dumps"),
)
_OF_PAGES = ("html", "warc")  # formats
_OF_TEXTS = ("text", "warc")  # formats whose records are whole texts
# A page is in another encoding than it states if so many, and this share of its characters beyond ASCII, are
# not in that one.
_SEVERAL, _LINES_BYTES = 2, 1 << 20  # lines that show JSON lines, and bytes that are looked at
_MANY_REPLACED, _SHARE_REPLACED = 10, 0.1


def raw_records(
    source: Source,
    file: Rereadable,
    file_format: Format,
    options: InputOptions,
    note: Callable[[str], None],
) -> Iterator[Raw | Reject]:
    """All records of a source; a reject at the end if it cannot be read further. note: gets what was decided
    about the source."""
    items = _records(source, file, file_format, options, note)
    if options.encoding == "auto":
        if file_format in _OF_TEXTS:
            items = _texts_in_utf8(items, source, file_format, note)
    elif is_wide(options.encoding) and file_format not in _OF_PAGES:
        items = (each if isinstance(each, Reject) else each._replace(encoding="utf-8") for each in items)
    if file_format in _OF_PAGES:
        items = _with_encoding_of_pages(items, source, options, note)
    return items


def _with_encoding_of_pages(
    items: Iterator[Raw | Reject], source: Source, options: InputOptions, note: Callable[[str], None]
) -> Iterator[Raw | Reject]:
    """All records, pages in UTF-8. Those that neither their server nor themselves state the encoding of have
    the one of the options, or what auto finds, or are rejected; so are those of which much is not in the
    encoding that is stated, and the source where nothing that reads pages is installed."""
    try:
        require_readers()
    except BadInput as missing:
        yield SourceReject(source.name, None, None, str(missing))
        return
    notes: set[str] = set()
    damaged = lost = 0  # pages, characters
    for item in items:
        if isinstance(item, Reject) or item.holds != "page" or is_utf8(item.data, item.encoding):
            yield item
            continue
        stated = item.encoding or stated_encoding(item.data)
        named = None if options.encoding == "auto" else options.encoding
        if encoding := stated or named:
            text, replaced = decode_stated(item.data, encoding)
            if replaced and stated and named:
                text, replaced = min((text, replaced), decode_stated(item.data, named), key=itemgetter(1))
            if _is_wrong(text, replaced):
                yield _rejected_page(
                    item,
                    f"{replaced:,} bytes or more of the page are not in {encoding}, "
                    f"{'which it states' if stated else 'as it was named'}: name its encoding (encoding)",
                )
            else:
                damaged, lost = damaged + bool(replaced), lost + replaced
                yield item._replace(data=text.encode("utf-8", "surrogatepass"), encoding="utf-8")
            continue
        detected = DetectedEncoding(notes.add)
        detected.decide([item.data])
        if is_utf8(data := detected.converted(item.data), None):
            yield item._replace(data=data)
        else:
            reason = "the page is not UTF-8 and states no encoding: name its encoding (encoding)"
            yield _rejected_page(item, reason)
    for found in notes:
        note(f"{source.name}: pages that state no encoding are {found}")
    if damaged:
        pages = f"{damaged:,} page{'s' if damaged > 1 else ''}"
        note(
            f"{source.name}: {lost:,} bytes or more of {pages} are not in the encoding stated, and are "
            "U+FFFD in the texts"
        )


def _is_wrong(text: str, replaced: int) -> bool:
    """True if so many characters of a page were replaced that it is in another encoding."""
    if replaced < _MANY_REPLACED:
        return False
    return replaced > _SHARE_REPLACED * (len(text) - len(text.encode("ascii", "ignore")))


def _rejected_page(page: Raw, reason: str) -> Reject:
    page_id = page.id.decode(errors="replace") if isinstance(page.id, bytes) else page.id
    return Reject(page.source, page.line, page_id, reason)


def _texts_in_utf8(
    items: Iterator[Raw | Reject], source: Source, file_format: Format, note: Callable[[str], None]
) -> Iterator[Raw | Reject]:
    """All records, with texts in UTF-8, of which each has its own encoding."""
    notes: set[str] = set()
    for item in items:
        if isinstance(item, Reject) or item.encoding is not None or item.holds == "page":
            yield item
        else:
            detected = DetectedEncoding(notes.add)
            detected.decide([item.data])
            yield item._replace(encoding="utf-8", data=detected.converted(item.data))
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
    lines = _Lines(DetectedEncoding(say_encoding).lines(split) if options.encoding == "auto" else split)
    if options.encoding != "auto" and is_wide(options.encoding):  # converted, but for pages
        options = replace(options, encoding="utf-8")
    try:
        match file_format:
            case "jsonl":
                yield from _one_a_line(source, lines, options, "json")
            case "lines":
                yield from _one_a_line(source, lines, options, "text")
            case "csv":
                yield from csv_records(source, lines, options, options.delimiter, note)
            case "tsv":
                yield from csv_records(source, lines, options, "\t", note)
            case "text":
                yield _whole(source, content, options, "plain text")
            case "html":
                page = _whole(source, content, options, "HTML")
                yield page._replace(holds="page") if isinstance(page, Raw) else page
            case "warc":
                from simhbase.corpus.formats.warc import warc_records  # its libraries take time to load

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


@dataclass
class _Lines(Iterator[bytes | TooLong]):
    """Lines with the number of the last one, from 1."""

    lines: Iterator[bytes | TooLong]
    number: int = 0

    def __next__(self) -> bytes | TooLong:
        line = next(self.lines)
        self.number += 1
        return line


def _no_json_lines(source: Source, first: bytes, options: InputOptions) -> str | None:
    """Why a source with this first line has no JSON lines, and what to do; None if it may have."""
    if _AN_OBJECT.fullmatch(first):
        return None
    for form, reason in _OTHER_FORMS:
        if form.fullmatch(first):
            return reason
    if first[:1] == b"{" or options.format is not None or format_of(source.name) is not None:
        return None
    is_markup = " (it may be XML or HTML)" if first[:1] == b"<" else ""
    return (
        f"its name tells no format, and its first line is no JSON object{is_markup}: name its format "
        "(format), or write JSON lines"
    )


def _is_json_lines(text: bytes) -> bool:
    """True if a text begins with two lines of JSON objects."""
    lines = text[:_LINES_BYTES].split(b"\n")
    if len(lines) < _SEVERAL or not all(line.lstrip()[:1] == b"{" for line in lines[:_SEVERAL]):
        return False
    with suppress(ValueError):
        return all(isinstance(orjson.loads(line), dict) for line in lines[:_SEVERAL])
    return False


def _one_a_line(
    source: Source,
    lines: _Lines,
    options: InputOptions,
    holds: Literal["text", "json"],
) -> Iterator[Raw | Reject]:
    """A record for each line with something on it. The first one tells whether the source has JSON lines."""
    is_first = is_json = holds == "json"
    has_id = is_json and options.id_from == "field"
    for line in lines:
        if isinstance(line, TooLong):
            yield Reject(source.name, lines.number, None, too_long(line.bytes, options))
            is_first = False
        elif line and not line.isspace():
            if is_first and (reason := _no_json_lines(source, line.strip(), options)):
                yield SourceReject(source.name, lines.number, None, reason)
                return
            is_first = False
            line_id = None if has_id else source.id_of_line(lines.number, options)
            yield Raw(source.name, lines.number, line_id, line.removesuffix(b"\r"), None, holds)


def _whole(source: Source, content: Iterator[bytes], options: InputOptions, what: str) -> Raw | Reject:
    """The document of a file. what: it holds, as its name says. Raises Unreadable, also for JSON lines."""
    blocks: list[bytes] = []
    size = 0
    for block in content:
        blocks.append(block)
        size += len(block)
        if size > options.max_record_bytes:
            return Reject(source.name, 1, None, too_long(size, options))
    data = b"".join(blocks)
    if options.format is None and _is_json_lines(data):
        raise Unreadable(
            f"it has JSON lines, and its name says {what}, which is one document: name its format, jsonl or "
            f"{'html' if what == 'HTML' else 'text'} (format)"
        )
    return Raw(source.name, 1, None if options.id_from == "text" else source.id, data)
