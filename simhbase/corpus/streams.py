"""Bytes of a file, packed or not, cut into lines in bounded memory."""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

from zstandard import ZstdDecompressor, ZstdError

from simhbase.errors import BadInput

BOM = b"\xef\xbb\xbf"
ZSTD_WINDOW = 1 << 31  # what `zstd --long=31` makes, as public dumps of texts are
# A few bytes can unpack to very many. Fed so few bytes at a time, no file, however made, takes more
# than some megabytes at once; usual files are read nearly as fast as with large steps.
GZIP_STEP = 1 << 11  # unpacks to 2 MiB at most
ZSTD_STEP = 1 << 8  # unpacks to 8 MiB at most

_OTHER_PACKERS = re.compile(rb"(?P<bzip2>BZh[1-9]1AY&SY)|(?P<xz>\xfd7zXZ\0)|(?P<zip>PK\x03\x04)")
_PARQUET = b"PAR1"
_WIDE = re.compile(rb"(?P<utf_32>\xff\xfe\0\0|\0\0\xfe\xff)|(?P<utf_16>\xff\xfe|\xfe\xff)")  # their marks
SIGNATURE_BYTES = 10  # the longest one
_WIDE_MARK_BYTES = 4


class Unreadable(BadInput):
    """A source that cannot be read, or not further."""


@dataclass(frozen=True, slots=True)
class TooLong:
    """Stands for a line that was skipped because it has more bytes than allowed."""

    bytes: int


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


def unpacked(blocks: Iterable[bytes], plain: bytes = b"") -> Iterator[bytes]:
    """The content of blocks of gzip, zstd or plain bytes, told apart by the first of them; without
    a UTF-8 byte order mark.

    plain: what plain bytes begin with, behind white space. Raises Unreadable where they do not, and,
    after all that came before it, where the data is damaged or ends early.
    """
    head, rest = _peek(blocks, SIGNATURE_BYTES)
    content: Iterator[bytes] = chain([head], rest)
    if head.startswith(b"\x1f\x8b"):
        pieces = _pieces(content, GZIP_STEP)
        content = _decompressed("gzip", pieces, lambda: zlib.decompressobj(wbits=31))
    elif head.startswith(b"\x28\xb5\x2f\xfd") or head[1:4] == b"\x2a\x4d\x18":  # a frame or a skippable one
        pieces = _pieces(content, ZSTD_STEP)
        content = _decompressed("zstd", pieces, ZstdDecompressor(max_window_size=ZSTD_WINDOW).decompressobj)
    elif other := _OTHER_PACKERS.match(head):
        raise Unreadable(f"it is packed with {other.lastgroup}: unpack it first (gzip and zstd need not be)")
    elif head.startswith(_PARQUET):
        raise Unreadable(
            "it is a Parquet file: write it as JSON lines first (with DuckDB: COPY (FROM 'a.parquet') TO "
            "'a.jsonl', with pandas: to_json(orient='records', lines=True))"
        )
    elif head.strip() and not head.removeprefix(BOM).lstrip().startswith(plain):
        raise Unreadable(
            "it is neither gzip nor zstd, as its name says, nor can it be read without unpacking"
        )
    head, rest = _peek(content, len(BOM))
    yield head.removeprefix(BOM)
    yield from rest


def wide_to_utf8(blocks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """The content; that of UTF-16 and UTF-32 with a byte order mark as UTF-8 where the encoding is auto.

    Raises Unreadable where it is UTF-8 that is expected, and where what follows the mark is damaged.
    """
    head, rest = _peek(blocks, _WIDE_MARK_BYTES)
    content = chain([head], rest)
    automatic = encoding == "auto"
    found = _WIDE.match(head) if automatic or codecs.lookup(encoding).name == "utf-8" else None
    if found is None:
        yield from content
        return
    name = str(found.lastgroup).replace("_", "-")
    if not automatic:
        raise Unreadable(f"it is {name.upper()}, not UTF-8: `encoding='auto'` reads it")
    decoder = codecs.getincrementaldecoder(name)()
    try:
        for block in content:
            yield decoder.decode(block).encode()
        yield decoder.decode(b"", final=True).encode()
    except UnicodeDecodeError as error:
        raise Unreadable(f"its {name.upper()} data is damaged ({error.reason})") from error


def split_lines(blocks: Iterable[bytes], limit: int) -> Iterator[bytes | TooLong]:
    """Lines without their line feed; one of more than `limit` bytes is skipped, never held."""
    parts: list[bytes] = []  # of the line that the last block ended in
    size = 0
    for block in blocks:
        first, *others = block.split(b"\n")
        parts.append(first)
        size += len(first)
        if size > limit:
            parts.clear()
        if others:
            yield b"".join(parts) if size <= limit else TooLong(size)
            *whole, last = others
            for line in whole:
                yield line if len(line) <= limit else TooLong(len(line))
            parts, size = [last], len(last)
    if size:
        yield b"".join(parts) if size <= limit else TooLong(size)


def _peek(blocks: Iterable[bytes], size: int) -> tuple[bytes, Iterator[bytes]]:
    """At least the first `size` bytes, if there are so many, and the blocks that follow."""
    rest = iter(blocks)
    head = b""
    while len(head) < size and (block := next(rest, b"")):
        head += block
    return head, rest


def _decompressed(
    packer: str, pieces: Iterable[bytes], new_decompressor: Callable[[], _Decompressor]
) -> Iterator[bytes]:
    """The content of all members or frames, one after the other."""
    decompressor = new_decompressor()
    in_member = False
    try:
        for piece in pieces:
            # Between members, zeros are padding to the size of a tape's block.
            while piece := piece if in_member else piece.lstrip(b"\0"):
                if content := decompressor.decompress(piece):
                    yield content
                in_member = not decompressor.eof
                piece = decompressor.unused_data
                if not in_member:
                    decompressor = new_decompressor()
    except (zlib.error, ZstdError) as error:
        raise Unreadable(f"its {packer} data is damaged ({error})") from error
    if in_member:
        raise Unreadable(f"its {packer} data ends in the middle: the file was cut short")


def _pieces(blocks: Iterable[bytes], size: int) -> Iterator[bytes]:
    for block in blocks:
        for start in range(0, len(block), size):
            yield block[start : start + size]
