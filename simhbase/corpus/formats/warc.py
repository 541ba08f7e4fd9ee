"""Raw records of web archives (WARC): HTML pages and plain texts."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from io import BytesIO
from typing import Any, Literal

from fastwarc.stream_io import BrotliReader
from fastwarc.warc import WarcRecord
from resiliparse.parse.encoding import map_encoding_to_html5
from zstandard import ZstdDecompressor, ZstdError

from simhbase.corpus.formats.parquet import BINARY
from simhbase.corpus.record import InputOptions, Raw, Reject, Source, SourceReject, too_long
from simhbase.corpus.streams import WARC_BEGIN
from simhbase.errors import BadInput
from simhbase.text.packing import GZIP_STEP, ZSTD_STEP, Unreadable

_HELD: Mapping[str, Literal["page", "text"]] = {
    "text/html": "page",
    "application/xhtml+xml": "page",
    "text/plain": "text",
}
_WITH_CONTENT = ("response", "resource", "conversion")
_WITHOUT_DOCUMENTS = ("warcinfo", "request", "metadata", "revisit", "continuation")
_CHARSET = re.compile(r"""charset\s*=\s*["']?([^\s"';,]+)""", re.IGNORECASE)
_HEADER_BYTES = 1 << 16  # maximum size of headers, of WARC and of HTTP
_AT_LINE = b"\n" + WARC_BEGIN
_LENGTH = re.compile("[0-9]{1,18}")
_LINE_ENDS = re.compile(rb"[\r\n]+")
_MOST_LINE_ENDS = 1 << 10  # bytes between two records: many wrong lengths may lead to the same ones
_PARTIAL_CONTENT = 206
_RANGE = re.compile("bytes 0-([0-9]{1,18})/([0-9]{1,18})")
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_ZSTD_WINDOW = 8 << 20  # what servers may use (RFC 9659)
# Each unpacks up to a whole record, of which servers send one or two.
_MOST_CODINGS = 5
_CHUNK = re.compile(rb"([0-9a-fA-F]++)[ \t]*(?:;[^\r\n]*)?\r\n")
_TRAILER = re.compile(rb"(?:[^\r\n:]++:[^\r\n]*+\r\n)*+")  # header fields behind the last chunk
_CHUNKED = "chunked"
_SHOWN = 3  # values of a header that is repeated
_PADDING = b" \t\r\n\0"  # what may follow a body without meaning anything
_BEGIN = rb"\nWARC/1\.[0-9]\r?\n"
_BEGINNING, _BEGINNING_BYTES = re.compile(_BEGIN), len(b"\nWARC/1.0\r\n")
_JOINED = re.compile(r".WARC/1\.[0-9]\Z")
# Each is there once in a record, and twice in the headers of one that was cut short with those of the next.
_OF_ONE = ("WARC-Record-ID", "WARC-Date")
_RECORD = re.compile(_BEGIN + rb"(?:(?!WARC/1)[^\r\n]++\r?\n)*+\r?\n")
_HTTP_END = re.compile(rb"\r?\n\r?\n")

_MORE = "answers have more bytes behind their end, which were not read"

Notes = Counter[str]  # what was decided, and about how many records
Headers = Mapping[str, Sequence[str]]  # by name in lower case; those that are repeated have several values


def warc_records(
    source: Source,
    blocks: Iterable[bytes],
    lost: list[Unreadable],
    options: InputOptions,
    note: Callable[[str], None],
) -> Iterator[Raw | Reject]:
    """The documents in an archive, given its decompressed bytes: successful responses (2xx), resources and
    conversions with HTML or plain text.

    Records are numbered from 1, like lines, and their ids are the addresses. A record with a wrong length is
    a reject, and so are bytes between records; reading goes on at the next line that looks like the start of
    a record. If the rest cannot be read, a last reject says why. lost: gets damage that the blocks go on
    behind, each of which is a reject. note: gets what was decided about records.
    """
    stream, notes = _Stream(blocks, lost), Notes()
    number = 0
    try:
        while stream.skip_line_ends():
            while lost:
                number += 1
                yield Reject(source.name, number, None, str(lost.pop(0)))
            if not number and not stream.is_at_record():
                raise Unreadable(f"it is no WARC: those begin with {WARC_BEGIN.decode()}")
            item = _next(source, number + 1, stream, options, notes)
            number += 1
            if item is not None:
                yield item
    except Unreadable as error:
        if number:
            yield Reject(source.name, number + 1, None, str(error))
        else:
            yield SourceReject(source.name, None, None, str(error))
    for what, count in notes.items():
        note(f"{source.name}: {what}: {count:,}")


def _next(
    source: Source, number: int, stream: _Stream, options: InputOptions, notes: Notes
) -> Raw | Reject | None:
    """The document of the next record, None if it has none; a reject for bytes that are no record."""
    if not stream.is_at_record():
        skipped = stream.skip_to_record()
        return Reject(source.name, number, None, f"{skipped:,} bytes that are no record were skipped")
    try:
        headers = _headers(stream)
    except BadInput as error:
        skipped = stream.skip_to_record()
        return Reject(source.name, number, None, f"{error}: {skipped:,} bytes were skipped")
    length = ", ".join(headers.get("content-length", ()))
    if not _LENGTH.fullmatch(length):
        skipped = stream.skip_to_record(is_at_line=True)
        what = f"no length that is clear ({length[:50]})" if length else "no length (Content-Length)"
        reason = f"the record has {what}: {skipped:,} bytes were skipped"
        return Reject(source.name, number, _name(headers), reason)
    size, most = int(length), options.max_record_bytes + _HEADER_BYTES
    is_held = size <= most
    block = b"" if is_held else stream.read(most)
    rest, beginning = (0, None) if is_held else stream.skip(size - len(block), block)
    passed = len(block) + rest
    left = size - passed
    if not stream.ends_record(left):
        if not stream.has(left):
            stream.require_undamaged()
        # The record may contain the beginnings of others, so look for them in the bytes held.
        skipped = passed + stream.skip_to_record(is_at_line=not passed)
        reason = f"its length, {size:,} bytes, is wrong, or it was cut short: {skipped:,} were skipped"
        return Reject(source.name, number, _name(headers), reason)
    block = block or stream.read(size)
    return _document(source, number, headers, block, size, beginning, options, notes)


def _headers(stream: _Stream) -> Headers:
    """The headers of a record; of one that was cut short, up to the next record. Raises BadInput if they are
    too large, or if the next record begins within a line."""
    headers: dict[str, list[str]] = {}
    size, name = 0, ""
    while (line := stream.line()).strip():
        size += len(line)
        if size > _HEADER_BYTES:
            raise BadInput(f"its headers have more than {_HEADER_BYTES:,} bytes")
        text = line.decode(errors="replace").rstrip("\r\n")
        if name and text[:1] in " \t":
            headers[name][-1] += text
        elif ":" in text:
            name, _, value = text.partition(":")
            name, value = name.strip().lower(), value.strip()
            headers.setdefault(name, []).append(value)
        elif _JOINED.search(text):
            raise BadInput("its headers end in the middle, and the next record's follow")
        if stream.is_at_record():
            break
    return {name: list(dict.fromkeys(values)) for name, values in headers.items()}


def _one(headers: Headers, name: str) -> str:
    """The value of a header; "" if there is none. Raises BadInput if there are several."""
    values = headers.get(name.lower(), [""])
    if len(values) > 1:
        raise BadInput(f"its header {name} is there with several values: {_shown(values)}")
    return values[0]


def _shown(values: Sequence[str]) -> str:
    return ", ".join(f"{value:.50}" for value in values[:_SHOWN]) + ", ..." * (len(values) > _SHOWN)


class _Stream:
    """Blocks as a file of records. Raises Unreadable at damage, after what comes before it was read."""

    def __init__(self, blocks: Iterable[bytes], lost: list[Unreadable]) -> None:
        self._blocks = iter(blocks)
        self._lost = lost
        self._held = bytearray()
        self._damage: Unreadable | None = None

    def _fill(self, size: int) -> bool:
        """Hold at least this many bytes; False at the end."""
        while len(self._held) < size:
            lost_before = len(self._lost)
            try:
                block = next(self._blocks, None)
            except Unreadable as error:
                self._damage, self._blocks, block = error, iter(()), None
            if block is None:
                return False
            if len(self._lost) > lost_before:
                self._held += b"\n"  # so that the next record begins a line, as skip_to_record expects
            self._held += block
        return True

    def _take(self, size: int) -> bytes:
        taken = bytes(self._held[:size])
        del self._held[:size]
        return taken

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; fewer at the end."""
        self._fill(size)
        return self._take(size)

    def skip(self, size: int, before: bytes) -> tuple[int, int | None]:
        """Skip bytes behind those that were read before. Returns how many there were, and where the last line
        is in all of them that begins like a record."""
        skipped, last = 0, None
        end, seen = before[-_BEGINNING_BYTES:], max(len(before) - _BEGINNING_BYTES, 0)
        while skipped < size and self._fill(1):
            taken = self._take(size - skipped)
            skipped += len(taken)
            looked_at = end + taken
            for found in _BEGINNING.finditer(looked_at):
                last = seen + found.start()
            end = looked_at[-_BEGINNING_BYTES:]
            seen += len(looked_at) - len(end)
        return skipped, last

    def line(self) -> bytes:
        """The rest of a line, with its end; at most _HEADER_BYTES."""
        size = 1
        while (end := self._held.find(b"\n")) < 0 and size < _HEADER_BYTES and self._fill(size):
            size = len(self._held) + 1
        return self._take(end + 1 if end >= 0 else _HEADER_BYTES)

    def skip_line_ends(self) -> bool:
        """Skip the line ends between records; False at the end. Raises Unreadable if that is damage."""
        while self._fill(1) and (found := _LINE_ENDS.match(self._held)):
            del self._held[: found.end()]
        if not self._held:
            self.require_undamaged()
        return bool(self._held)

    def require_undamaged(self) -> None:
        if self._damage:
            raise self._damage

    def is_at_record(self) -> bool:
        self._fill(len(WARC_BEGIN))
        return self._held.startswith(WARC_BEGIN)

    def has(self, size: int) -> bool:
        return self._fill(size)

    def ends_record(self, size: int) -> bool:
        """True if a record ends after this many bytes: at the end, before two line ends as they should be, or
        before others and another record."""
        if not self._fill(size):
            return False
        end, most = size, size + _MOST_LINE_ENDS
        while end < most and self._fill(end + 1) and (found := _LINE_ENDS.match(self._held, end, most)):
            end = found.end()
        if not self._fill(end + 1):
            return True
        self._fill(end + len(WARC_BEGIN))
        is_next = end > size and self._held.startswith(WARC_BEGIN, end)
        return is_next or self._held.startswith(b"\r\n\r\n", size)

    def skip_to_record(self, *, is_at_line: bool = False) -> int:
        """Skip to the next line that begins like a record, or to the end; returns the number of bytes.
        is_at_line: a line begins here, which may be that one."""
        skipped = 0
        if is_at_line and self.is_at_record():
            return skipped
        while self._fill(len(_AT_LINE)):
            if (place := self._held.find(_AT_LINE)) >= 0:
                return skipped + len(self._take(place + 1))
            skipped += len(self._take(len(self._held) - len(_AT_LINE) + 1))
        return skipped + len(self._take(len(self._held)))


def _address(headers: Headers) -> str:
    """Raises BadInput if there are several."""
    return _one(headers, "WARC-Target-URI").strip("<>")  # as in WARC 1.0


def _name(headers: Headers) -> str | None:
    """The address of a reject, if it is known."""
    with suppress(BadInput):
        return _address(headers) or None
    return None


def _document(
    source: Source,
    number: int,
    headers: Headers,
    block: bytes,
    size: int,
    beginning: int | None,
    options: InputOptions,
    notes: Notes,
) -> Raw | Reject | None:
    """The document in a record, given the size and first bytes of its block; None if it has none. beginning:
    where the last line is in the rest that begins like a record."""
    is_named_by_address = options.id_from == "field"
    record_id = _name(headers) if is_named_by_address else source.id_of_line(number, options)
    try:
        for name in _OF_ONE:
            _one(headers, name)
        answer = _http_answer(headers, block)
        if _hides_record(answer, block, size, beginning):
            raise BadInput("its length is wrong: it covers other records, which are not read")
        content_type = _content_type(headers, answer, notes)
        holds = _HELD.get(_type(content_type))
        if holds is None:
            return None
        if is_named_by_address and not _address(headers):
            raise BadInput("the record has no WARC-Target-URI, which is its id")
        _require_whole(headers, answer)
        most = options.max_record_bytes + 1
        if size > len(block):
            data = b""
        else:
            data = block[:most] if answer is None else _content(answer, len(block), most, notes)
    except (BadInput, OSError, ValueError) as error:
        reason = str(error) if isinstance(error, BadInput) else f"its content cannot be read ({error})"
        return Reject(source.name, number, record_id, reason)
    if (largest := max(len(data), size - _HEADER_BYTES)) > options.max_record_bytes:
        return Reject(source.name, number, record_id, too_long(largest, options))
    return Raw(source.name, number, record_id, data, holds=holds, encoding=_encoding(content_type))


def _http_answer(headers: Headers, block: bytes) -> WarcRecord | None:
    """The answer of a web server that a record holds; None for other records. Raises BadInput if the record
    says that it is one, and it is none."""
    declared = _one(headers, "Content-Type").lower()
    is_http = "http" in declared if declared else block.startswith(b"HTTP/")
    if _one(headers, "WARC-Type").lower() != "response" or not is_http:
        return None
    answer = WarcRecord()
    answer.set_bytes_content(block)
    answer.is_http = True
    answer.parse_http(auto_decode="none")
    if not block.startswith(b"HTTP/") or not 200 <= (answer.http_headers.status_code or 0) < 1000:
        raise BadInput("the record does not begin with the last answer of a web server (HTTP/1.1 200 OK)")
    return answer


def _hides_record(answer: WarcRecord | None, block: bytes, size: int, beginning: int | None) -> bool:
    """True if a whole record lies behind the end of a web server's answer, or anywhere in a block whose end
    nothing states; in a block that is too large to be held, also if only its beginning was seen.

    Such records are not read: a server that does not say where its answer ends could forge those of others.
    """
    if answer is None and block.startswith(WARC_BEGIN):
        block, size = b"\n" + block, size + 1  # as if behind a line
    if beginning is None and _BEGINNING.search(block) is None:
        return False
    # The line end before a record may be the last byte of an answer.
    begin = 0 if answer is None else max(_stated_end(answer, block) - 1, 0)
    if size > len(block):
        return (beginning or 0) >= max(begin, 1) or _BEGINNING.search(block, begin) is not None
    for found in _RECORD.finditer(block, begin):
        length = ""
        with suppress(BadInput):
            length = ", ".join(_headers(_Stream([found[0][1:]], [])).get("content-length", ()))
        if _LENGTH.fullmatch(length) and (end := found.end() + int(length)) <= len(block):
            behind = block[end : end + len(b"\r\n\r\n" + WARC_BEGIN)].lstrip(b"\r\n")
            if not behind or behind.startswith(WARC_BEGIN):
                return True
    return False


def _stated_end(answer: WarcRecord, block: bytes) -> int:
    """Where an answer ends in its block according to its Content-Length or chunks; 0 if it does not say."""
    head = _HTTP_END.search(block)
    if head is None:
        return 0
    declared = _declared_length(answer)
    if _is_chunked(answer):
        chunks, end = _chunks(block, head.end())
        return end or (len(block) if chunks else 0)
    return head.end() + int(declared) if _LENGTH.fullmatch(declared) else 0


def _values(answer: WarcRecord, name: str) -> list[str]:
    """The values of a header of a web server's answer."""
    return [value.strip() for value in answer.http_headers.get_multiple(name)]


def _declared_length(answer: WarcRecord) -> str:
    """The Content-Length of an answer; several of them are no length."""
    return ", ".join(dict.fromkeys(_values(answer, "Content-Length")))


def _content_type(headers: Headers, answer: WarcRecord | None, notes: Notes) -> str:
    """Content type of a successful response, a resource or conversion; "" for other records. Raises BadInput
    if an answer has several, and one of them is read."""
    kind = _one(headers, "WARC-Type").lower()
    if answer is not None:
        if (answer.http_headers.status_code or 0) // 100 != 2:
            return ""
        content_types = list(filter(None, _values(answer, "Content-Type")))
        if not content_types:
            notes["answers without Content-Type were not read"] += 1
        # Those that mean the same are one. One of them may name a charset that the others leave out.
        types, charsets = {*map(_type, content_types)}, {*map(_encoding, content_types)} - {None}
        if (len(types) > 1 or len(charsets) > 1) and not types.isdisjoint(_HELD):
            raise BadInput(f"its server names several types (Content-Type): {_shown(content_types)}")
        return max(content_types, key=lambda each: _encoding(each) is not None, default="")
    if kind == "revisit":
        notes["revisits, whose contents are in other records, were not read"] += 1
    if kind not in _WITH_CONTENT:
        if kind not in _WITHOUT_DOCUMENTS:
            notes["records of no type that is known (WARC-Type) were not read"] += 1
        return ""
    content_type = _one(headers, "Content-Type")
    if kind != "response" and not content_type:
        notes["resources and conversions without Content-Type were not read"] += 1
    if kind == "response" and _type(content_type) not in _HELD:
        notes["answers of other protocols than HTTP that hold no page or plain text were not read"] += 1
    return content_type


def _type(content_type: str) -> str:
    """A content type without its parameters."""
    return content_type.split(";")[0].strip().lower()


def _require_whole(headers: Headers, answer: WarcRecord | None) -> None:
    """Raise BadInput for what a crawler or server says to be a part."""
    if cut := _one(headers, "WARC-Truncated"):
        raise BadInput(f"the crawler kept only its beginning (WARC-Truncated: {cut[:50]})")
    if "warc-segment-number" in headers:
        raise BadInput("it is one of several segments of a record: they are not joined")
    if answer is not None and answer.http_headers.status_code == _PARTIAL_CONTENT:
        found = _RANGE.fullmatch(", ".join(dict.fromkeys(_values(answer, "Content-Range"))))
        if found is None or int(found[1]) + 1 != int(found[2]):
            raise BadInput("the server sent only a part of it (status 206)")


def _content(answer: WarcRecord, size: int, most: int, notes: Notes) -> bytes:
    """The first bytes of a body, decoded and without chunks. Raises BadInput if it is damaged or incomplete.

    size: of all there is. What is not there is not decoded: crawlers keep headers of bodies that they have
    unpacked.
    """
    body = _read(answer.reader, size)
    declared = _declared_length(answer)
    if _is_chunked(answer):
        body = _dechunked(body, notes)
    elif declared and not _LENGTH.fullmatch(declared):
        notes["answers have a Content-Length that is no number, and were read to their ends"] += 1
    elif declared and len(body) < int(declared):
        raise BadInput(f"its content ends in the middle: {len(body):,} bytes of {int(declared):,}")
    elif declared and len(body) > int(declared):
        notes["answers are longer than their Content-Length, and were read to their ends"] += 1
    named = [*_values(answer, "Content-Encoding"), *_values(answer, "Transfer-Encoding")]
    codings = [coding.strip() for coding in ",".join(named).lower().split(",")]
    if len(codings) > _MOST_CODINGS:
        raise BadInput(f"its content has {len(codings):,} codings, at most {_MOST_CODINGS} are read")
    for coding in reversed(codings):
        body = _decoded(body, coding, most, notes)
    return body[:most]


def _is_chunked(answer: WarcRecord) -> bool:
    return _CHUNKED in ",".join(_values(answer, "Transfer-Encoding")).lower()


def _dechunked(body: bytes, notes: Notes) -> bytes:
    """The chunks of a body joined; the body itself if it has none. Raises BadInput if one is missing."""
    chunks, end = _chunks(body, 0)
    if end is None and chunks:
        raise BadInput("its content ends in the middle: the last chunk is missing, or one is damaged")
    if end is None:
        notes["answers have not the Transfer-Encoding that they name, and were read as they are"] += 1
        return body
    if body[end:].strip(_PADDING):
        notes[_MORE] += 1
    return b"".join(chunks)


def _chunks(body: bytes, place: int) -> tuple[list[bytes], int | None]:
    """The chunks that begin at a place, and where all of them end; None if the last one is missing."""
    chunks = list[bytes]()
    while place <= len(body) and (found := _CHUNK.match(body, place)):
        size = int(found[1], 16)
        if not size:
            trailer = _TRAILER.match(body, found.end())
            return chunks, trailer.end() if trailer else found.end()
        place = found.end() + size
        chunks.append(body[found.end() : place])
        place += body[place : place + 2] == b"\r\n" and 2
    return chunks, None


def _decoded(body: bytes, coding: str, most: int, notes: Notes) -> bytes:
    """The first bytes of a body without a content coding, or as it is if it is plain in spite of it. Raises
    BadInput for a body that is damaged, ends early, or has a coding that is not read."""
    if coding in ("", "identity", _CHUNKED) or not body:  # the chunks were joined before
        return body
    try:
        return _unpacked(body, coding, most, notes)
    except BadInput:
        if BINARY.search(body):
            raise
        notes["answers have not the Content-Encoding that they name, and were read as they are"] += 1
        return body


def _unpacked(body: bytes, coding: str, most: int, notes: Notes) -> bytes:
    match coding:
        case "gzip" | "x-gzip" if body.startswith(_GZIP):
            return _inflated(body, 31, most, notes)
        case "deflate":
            # Most servers send it with zlib's header, as the standard says, others without.
            try:
                return _inflated(body, 15, most, notes)
            except BadInput as error:
                with suppress(BadInput):
                    return _inflated(body, -15, most, notes)
                raise error from None
        case "br":
            given = _SlowAtEnd(body, len(body))
            with suppress(OSError):
                return _read(BrotliReader(given), most)
            return _first_of_brotli(_SlowAtEnd(body, given.last), most, notes)
        case "zstd":
            unpacker = ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
            return _joined(body, unpacker.decompressobj, _ZSTD, ZSTD_STEP, most, notes)
    raise BadInput(f"its content is not in the coding that it names, or that is not read ({coding[:50]})")


def _first_of_brotli(body: _SlowAtEnd, most: int, notes: Notes) -> bytes:
    """The first bytes of a stream that is damaged, or has others behind its end."""
    with _saying_damage():
        content = _read(BrotliReader(body), most)
    if len(content) < most and body.read().strip(_PADDING):
        notes[_MORE] += 1
    return content


class _SlowAtEnd(BytesIO):
    """A body that is given a byte at a time from a place on: its reader stops where a stream ends there.
    last: where the last part began that was read."""

    def __init__(self, body: bytes, slow_from: int) -> None:
        super().__init__(body)
        self._slow_from = slow_from
        self.last = 0

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0:
            return super().read()
        self.last = self.tell()
        return super().read(min(size, max(self._slow_from - self.last, 1)))


def _inflated(body: bytes, wbits: int, most: int, notes: Notes) -> bytes:
    return _joined(body, partial(zlib.decompressobj, wbits), _GZIP, GZIP_STEP, most, notes)


def _joined(body: bytes, new: Callable[[], Any], begin: bytes, step: int, most: int, notes: Notes) -> bytes:
    """The first bytes of all members, the second and further ones of which begin like this. step: a few bytes
    may mean gigabytes."""
    pieces, size, place = list[bytes](), 0, 0
    while size < most and (place == 0 or body.startswith(begin, place)):
        decompressor = new()
        while size < most and not decompressor.eof:
            if not (piece := body[place : place + step]):
                raise BadInput("its content ends in the middle")
            with _saying_damage():
                pieces.append(decompressor.decompress(piece))
            size += len(pieces[-1])
            place += len(piece)
        place -= len(decompressor.unused_data)
    if size < most and body[place:].strip(_PADDING):
        notes[_MORE] += 1
    return b"".join(pieces)


@contextmanager
def _saying_damage() -> Iterator[None]:
    try:
        yield
    except (zlib.error, ZstdError, OSError) as error:  # OSError: of brotli
        raise BadInput(f"its content is damaged or ends in the middle ({error})") from error


def _read(reader: Any, most: int) -> bytes:
    pieces = []
    while most > 0 and (piece := reader.read(most)):
        pieces.append(piece)
        most -= len(piece)
    return b"".join(pieces)


def _encoding(content_type: str) -> str | None:
    """The encoding named by a server, None if it is unknown to browsers."""
    found = _CHARSET.search(content_type)
    name: str | None = map_encoding_to_html5(found[1], False) if found else None
    return "gb18030" if name == "gbk" else name  # a superset
