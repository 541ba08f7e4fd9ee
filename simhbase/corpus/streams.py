"""Bytes of a file, packed or not, cut into lines in bounded memory."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from simhbase.corpus.parquet import MAGIC
from simhbase.packing import PACKERS, SIGNATURE_BYTES, Unreadable, packer_of, peek, unpacked

BOM = b"\xef\xbb\xbf"
_ZIP = b"PK\x03\x04"
_WIDE = re.compile(rb"(?P<utf_32>\xff\xfe\0\0|\0\0\xfe\xff)|(?P<utf_16>\xff\xfe|\xfe\xff)")  # their marks
_WIDE_MARK_BYTES = 4


@dataclass(frozen=True, slots=True)
class TooLong:
    """Stands for a line that was skipped because it has more bytes than allowed."""

    bytes: int


def unpacked_text(blocks: Iterable[bytes], plain: bytes = b"") -> Iterator[bytes]:
    """What is in blocks of packed or plain bytes, without a UTF-8 byte order mark.

    plain: what plain bytes begin with, behind white space. Raises Unreadable where they do not, and,
    after all that came before it, where the data is damaged or ends early.
    """
    head, rest = peek(blocks, SIGNATURE_BYTES)
    if head.startswith(_ZIP):
        raise Unreadable(f"it is packed with zip: unpack it first ({PACKERS} need not be)")
    begins_right = head.removeprefix(BOM).lstrip().startswith(plain)
    if head.strip() and not packer_of(head) and not begins_right:
        raise Unreadable(
            f"it is not packed with {PACKERS}, as its name says, nor can it be read without unpacking"
        )
    head, rest = peek(unpacked(chain([head], rest)), max(len(BOM), len(MAGIC)))
    if head.startswith(MAGIC):
        raise Unreadable(
            "it is a Parquet file, which is read from its end: name it as a file of its own, neither packed "
            "nor through a pipe"
        )
    yield head.removeprefix(BOM)
    yield from rest


def wide_to_utf8(blocks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """The content; that of UTF-16 and UTF-32 with a byte order mark as UTF-8 where the encoding is auto.

    Raises Unreadable where it is UTF-8 that is expected, and where what follows the mark is damaged.
    """
    head, rest = peek(blocks, _WIDE_MARK_BYTES)
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
