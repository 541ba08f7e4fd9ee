"""Raw records of web archives (WARC): HTML pages and plain texts."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from fastwarc.warc import ArchiveIterator, WarcRecord
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
_HEADER_BYTES = 1 << 16  # maximum size of HTTP headers


def warc_records(source: Source, blocks: Iterable[bytes], options: InputOptions) -> Iterator[Raw | Reject]:
    """The documents in an archive, given its decompressed bytes: successful responses (2xx) and resources
    with HTML or plain text. A reject at the end if it cannot be read further.

    All records are numbered from 1, like lines. Ids are the addresses.
    """
    stream = _Stream(blocks)
    whole = 0  # complete records
    try:
        # Fastwarc takes damaged data for the end of the file; the stream knows better.
        for record in ArchiveIterator(stream, parse_http=False, stream_detect=False):
            block = _read(record.reader, options.max_record_bytes + _HEADER_BYTES)
            size = len(block) + record.reader.consume()
            stream.require_undamaged()
            if size != int(record.headers.get("Content-Length") or -1):
                raise Unreadable("a record ends in the middle: the file was cut short or is damaged")
            whole += 1
            if document := _document(source, whole, record, block, size, options):
                yield document
        stream.require_undamaged()
    except (Unreadable, OSError, ValueError) as error:
        reason = str(error) if isinstance(error, Unreadable) else f"it is damaged, or no WARC ({error})"
        if whole:
            yield Reject(source.name, whole + 1, None, reason)
        else:
            yield SourceReject(source.name, None, None, reason)


class _Stream(io.RawIOBase):
    """Blocks as a readable file. Damaged data looks like its end, until `require_undamaged`."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks = iter(blocks)
        self._block = memoryview(b"")
        self._position = 0
        self._damage: Unreadable | None = None

    def require_undamaged(self) -> None:
        """Raises Unreadable if the blocks were damaged."""
        if self._damage:
            raise self._damage

    def read(self, size: int = -1, /) -> bytes:
        while not self._block:
            try:
                block = next(self._blocks, None)
            except Unreadable as error:
                self._damage = error
                return b""
            if block is None:
                return b""
            self._block = memoryview(block)
        piece = bytes(self._block[:size] if size >= 0 else self._block)
        self._block = self._block[len(piece) :]
        self._position += len(piece)
        return piece

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Returns the position, as fastwarc seeks by 0 to ask for it."""
        if (offset, whence) != (0, io.SEEK_CUR):
            raise io.UnsupportedOperation("seek")
        return self._position

    def tell(self) -> int:
        return self._position


def _read(reader: Any, most: int) -> bytes:
    pieces = []
    while most > 0 and (piece := reader.read(most)):
        pieces.append(piece)
        most -= len(piece)
    return b"".join(pieces)


def _document(
    source: Source, number: int, record: WarcRecord, block: bytes, size: int, options: InputOptions
) -> Raw | Reject | None:
    """The document in a record, given the size and first bytes of its block; None if it has none."""
    address = (record.headers.get("WARC-Target-URI") or "").strip("<>")  # as in WARC 1.0
    record_id = address if options.id_from == "field" else source.id_of_line(number, options)
    try:
        content_type = _content_type(record, block)
        holds = _HELD.get(content_type.split(";")[0].strip().lower())
        if holds is None:
            return None
        if record_id == "":
            raise BadInput("the record has no WARC-Target-URI, which is its id")
        data = b"" if size > len(block) else _content(record, block, options.max_record_bytes + 1)
    except (BadInput, OSError, ValueError) as error:
        reason = str(error) if isinstance(error, BadInput) else f"its content cannot be read ({error})"
        return Reject(source.name, number, record_id or None, reason)
    if (largest := max(len(data), size - _HEADER_BYTES)) > options.max_record_bytes:
        return Reject(source.name, number, record_id, too_long(largest, options))
    return Raw(source.name, number, record_id, data, holds=holds, encoding=_encoding(content_type))


def _content_type(record: WarcRecord, block: bytes) -> str:
    """Content type of a response or resource; "" for other records."""
    headers = record.headers
    if (kind := headers.get("WARC-Type")) == "response" and record.is_http:
        headers = _answer(block, "none").http_headers
        if (headers.status_code or 0) // 100 != 2:
            return ""
    elif kind != "resource":
        return ""
    return headers.get("Content-Type") or ""


def _content(record: WarcRecord, block: bytes, most: int) -> bytes:
    """The content of a response, decoded and without chunking, or of a resource."""
    if record.headers.get("WARC-Type") == "response":
        return _read(_answer(block, "all").reader, most)
    return block[:most]


def _answer(block: bytes, auto_decode: Literal["none", "all"]) -> WarcRecord:
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
