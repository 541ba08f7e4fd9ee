"""Raw records of web archives (WARC): HTML pages and plain texts."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Literal

from fastwarc.warc import WarcRecord
from resiliparse.parse.encoding import map_encoding_to_html5

from simhbase.corpus.record import InputOptions, Raw, Reject, Source, SourceReject, too_long
from simhbase.errors import BadInput
from simhbase.packing import Unreadable

_HELD: Mapping[str, Literal["page", "text"]] = {
    "text/html": "page",
    "application/xhtml+xml": "page",
    "text/plain": "text",
}
_CHARSET = re.compile(r"""charset\s*=\s*["']?([^\s"';,]+)""", re.IGNORECASE)
_HEADER_BYTES = 1 << 16  # maximum size of headers, of WARC and of HTTP
_BEGIN = b"WARC/"
_AT_LINE = b"\n" + _BEGIN
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,8})[ \t]*(?:;[^\r\n]*)?\r\n")


def warc_records(source: Source, blocks: Iterable[bytes], options: InputOptions) -> Iterator[Raw | Reject]:
    """The documents in an archive, given its decompressed bytes: successful responses (2xx), resources and
    conversions with HTML or plain text.

    Records are numbered from 1, like lines, and their ids are the addresses. A record with a wrong length is
    a reject, and so are bytes between records; reading goes on at the next line that looks like the start of
    a record. If the rest cannot be read, a last reject says why.
    """
    stream = _Stream(blocks)
    number = 0
    try:
        while stream.skip_line_ends():
            if not number and not stream.is_at_record():
                raise Unreadable(f"it is no WARC: those begin with {_BEGIN.decode()}")
            item = _next(source, number + 1, stream, options)
            number += 1
            if item is not None:
                yield item
    except Unreadable as error:
        if number:
            yield Reject(source.name, number + 1, None, str(error))
        else:
            yield SourceReject(source.name, None, None, str(error))


def _next(source: Source, number: int, stream: _Stream, options: InputOptions) -> Raw | Reject | None:
    """The document of the next record, None if it has none; a reject for bytes that are no record."""
    if not stream.is_at_record():
        skipped = stream.skip_to_record()
        return Reject(source.name, number, None, f"{skipped:,} bytes that are no record were skipped")
    headers = _headers(stream)
    length = headers.get("content-length", "")
    if not length.isdecimal():
        skipped = stream.skip_to_record()
        reason = f"the record has no length (Content-Length): {skipped:,} bytes were skipped"
        return Reject(source.name, number, _address(headers) or None, reason)
    size, most = int(length), options.max_record_bytes + _HEADER_BYTES
    block = stream.read(min(size, most))
    rest = stream.skip(size - len(block))
    is_cut = len(block) + rest < size
    if is_cut:
        stream.require_undamaged()
    if is_cut or not stream.ends_record():
        if not rest:  # it may have swallowed others
            stream.give_back(block)
        skipped = stream.skip_to_record()
        reason = f"its length, {size:,} bytes, is wrong, or it was cut short: {skipped:,} were skipped"
        return Reject(source.name, number, _address(headers) or None, reason)
    return _document(source, number, headers, block, size, options)


def _headers(stream: _Stream) -> dict[str, str]:
    """The headers of a record by name in lower case."""
    headers: dict[str, str] = {}
    size, name = 0, ""
    while (line := stream.line()).strip() and size < _HEADER_BYTES:
        size += len(line)
        text = line.decode(errors="replace").rstrip("\r\n")
        if name and text[:1] in " \t":
            headers[name] += text
        elif ":" in text:
            name, _, value = text.partition(":")
            name = name.strip().lower()
            headers[name] = value.strip()
    return headers


class _Stream:
    """Blocks as a file of records. Raises Unreadable at damage, after what comes before it was read."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks = iter(blocks)
        self._held = bytearray()
        self._damage: Unreadable | None = None

    def _fill(self, size: int) -> bool:
        """Hold at least this many bytes; False at the end."""
        while len(self._held) < size:
            try:
                block = next(self._blocks, None)
            except Unreadable as error:
                self._damage, self._blocks, block = error, iter(()), None
            if block is None:
                return False
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

    def skip(self, size: int) -> int:
        """Skip bytes; returns how many there were."""
        skipped = 0
        while skipped < size and self._fill(1):
            skipped += len(self._take(size - skipped))
        return skipped

    def line(self) -> bytes:
        """The rest of a line, with its end; at most _HEADER_BYTES."""
        size = 1
        while (end := self._held.find(b"\n")) < 0 and size < _HEADER_BYTES and self._fill(size):
            size = len(self._held) + 1
        return self._take(end + 1 if end >= 0 else _HEADER_BYTES)

    def skip_line_ends(self) -> bool:
        """Skip the line ends between records; False at the end. Raises Unreadable if that is damage."""
        while self._fill(1) and bytes(self._held[:1]) in (b"\r", b"\n"):
            self._take(1)
        if not self._held:
            self.require_undamaged()
        return bool(self._held)

    def require_undamaged(self) -> None:
        if self._damage:
            raise self._damage

    def is_at_record(self) -> bool:
        self._fill(len(_BEGIN))
        return self._held.startswith(_BEGIN)

    def ends_record(self) -> bool:
        """True if a record ends here: at the end, before two line ends as they should be, or before others
        and another record."""
        size = 1
        while self._fill(size) and bytes(self._held[size - 1 : size]) in (b"\r", b"\n"):
            size += 1
        self._fill(size - 1 + len(_BEGIN))
        rest = self._held[size - 1 :]
        is_next = size > 1 and rest.startswith(_BEGIN)
        return not rest or is_next or self._held.startswith(b"\r\n\r\n")

    def give_back(self, data: bytes) -> None:
        self._held[:0] = data

    def skip_to_record(self) -> int:
        """Skip to the next line that begins like a record, or to the end; returns the number of bytes."""
        skipped = 0
        while self._fill(len(_AT_LINE)):
            if (place := self._held.find(_AT_LINE)) >= 0:
                return skipped + len(self._take(place + 1))
            skipped += len(self._take(len(self._held) - len(_AT_LINE) + 1))
        return skipped + len(self._take(len(self._held)))


def _address(headers: Mapping[str, str]) -> str:
    return headers.get("warc-target-uri", "").strip("<>")  # as in WARC 1.0


def _document(
    source: Source, number: int, headers: Mapping[str, str], block: bytes, size: int, options: InputOptions
) -> Raw | Reject | None:
    """The document in a record, given the size and first bytes of its block; None if it has none."""
    address = _address(headers)
    record_id = address if options.id_from == "field" else source.id_of_line(number, options)
    try:
        content_type = _content_type(headers, block)
        holds = _HELD.get(content_type.split(";")[0].strip().lower())
        if holds is None:
            return None
        if record_id == "":
            raise BadInput("the record has no WARC-Target-URI, which is its id")
        data = b"" if size > len(block) else _content(headers, block, options.max_record_bytes + 1)
    except (BadInput, OSError, ValueError) as error:
        reason = str(error) if isinstance(error, BadInput) else f"its content cannot be read ({error})"
        return Reject(source.name, number, record_id or None, reason)
    if (largest := max(len(data), size - _HEADER_BYTES)) > options.max_record_bytes:
        return Reject(source.name, number, record_id, too_long(largest, options))
    return Raw(source.name, number, record_id, data, holds=holds, encoding=_encoding(content_type))


def _content_type(headers: Mapping[str, str], block: bytes) -> str:
    """Content type of a response, resource or conversion; "" for other records."""
    kind = headers.get("warc-type", "").lower()
    if kind == "response" and "http" in headers.get("content-type", "").lower():
        answer = _answer(block).http_headers
        return answer.get("Content-Type") or "" if (answer.status_code or 0) // 100 == 2 else ""
    return headers.get("content-type", "") if kind in ("response", "resource", "conversion") else ""


def _content(headers: Mapping[str, str], block: bytes, most: int) -> bytes:
    """The content of a response, decoded and without chunking, or of a resource or conversion.

    What is not there is not decoded: crawlers keep headers of bodies that they have unpacked.
    """
    if headers.get("warc-type", "").lower() != "response":
        return block[:most]
    answer = _answer(block)
    body = _read(answer.reader, len(block))
    if "chunked" in (answer.http_headers.get("Transfer-Encoding") or "").lower():
        body = _dechunked(body)
    for coding in reversed((answer.http_headers.get("Content-Encoding") or "").lower().split(",")):
        body = _decoded(body, coding.strip(), most)
    return body[:most]


def _dechunked(body: bytes) -> bytes:
    """The chunks of a body joined; the body itself if it has none."""
    chunks, place = list[bytes](), 0
    while found := _CHUNK.match(body, place):
        size = int(found[1], 16)
        place = found.end() + size
        if not size:
            return b"".join(chunks)
        chunks.append(body[found.end() : place])
        place += body[place : place + 2] == b"\r\n" and 2
    return b"".join(chunks) if place >= len(body) and chunks else body


def _decoded(body: bytes, coding: str, most: int) -> bytes:
    """The body without a content coding, or as it is if it has not got it. Raises BadInput for a body that
    ends early."""
    match coding:
        case "gzip" | "x-gzip" if body.startswith(b"\x1f\x8b"):
            return _inflated(body, 31, most)
        case "deflate":
            for wbits in (15, -15):
                with suppress(BadInput):
                    return _inflated(body, wbits, most)
        case "br" | "zstd":
            with suppress(OSError, ValueError):
                head = b"HTTP/1.1 200 OK\r\nContent-Encoding: %b\r\n\r\n" % coding.encode()
                return _read(_answer(head + body, "content").reader, most) or body
    return body


def _inflated(body: bytes, wbits: int, most: int) -> bytes:
    pieces, size = list[bytes](), 0
    while body and size < most:
        decompressor = zlib.decompressobj(wbits)
        try:
            pieces.append(decompressor.decompress(body, most - size))
        except zlib.error as error:
            raise BadInput(f"its content is damaged ({error})") from error
        size += len(pieces[-1])
        if not decompressor.eof and size < most:
            raise BadInput("its content ends in the middle")
        body = decompressor.unused_data if wbits > 15 and decompressor.unused_data[:2] == b"\x1f\x8b" else b""
    return b"".join(pieces)


def _read(reader: Any, most: int) -> bytes:
    pieces = []
    while most > 0 and (piece := reader.read(most)):
        pieces.append(piece)
        most -= len(piece)
    return b"".join(pieces)


def _answer(block: bytes, auto_decode: Literal["none", "content"] = "none") -> WarcRecord:
    answer = WarcRecord()
    answer.set_bytes_content(block)
    answer.is_http = True
    answer.parse_http(auto_decode=auto_decode)
    return answer


def _encoding(content_type: str) -> str | None:
    """The encoding named by a server, None if it is unknown to browsers."""
    found = _CHARSET.search(content_type)
    name: str | None = map_encoding_to_html5(found[1], False) if found else None
    return "gb18030" if name == "gbk" else name  # a superset
