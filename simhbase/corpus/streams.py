"""Bytes of a file, decompressed if necessary, split into lines in bounded memory."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from simhbase.corpus.formats.parquet import BINARY, MAGIC_BYTES, is_columnar
from simhbase.corpus.record import TooLong
from simhbase.text.encoding import is_wide
from simhbase.text.packing import (
    PACKERS,
    SIGNATURE_BYTES,
    Rereadable,
    Resumption,
    Unreadable,
    packer_of,
    peek,
    unpacked,
)

BOM = b"\xef\xbb\xbf"
WARC_BEGIN = b"WARC/"
_TAR, _TAR_AT = b"ustar", 257
# What files that are not read begin with, and what to do.
_CONTAINERS = {
    **dict.fromkeys(
        (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08"),  # with files, empty, of several parts
        f"packed with zip (.xlsx, .docx and .epub are, too): unpack it ({PACKERS} need not be) or save it as "
        "CSV or text",
    ),
    b"ORC": "an ORC file: write it as Parquet",
    b"Obj\x01": "an Avro file: write it as Parquet or JSON lines",
    b"\x04\x22\x4d\x18": f"packed with lz4: unpack it first ({PACKERS} need not be)",
    b"7z\xbc\xaf\x27\x1c": f"packed with 7z: unpack it first ({PACKERS} need not be)",
    b"Rar!\x1a\x07": f"packed with rar: unpack it first ({PACKERS} need not be)",
    b"\xff\x06\0\0sNaPpY": f"packed with snappy: unpack it first ({PACKERS} need not be)",
    b"SQLite format 3\0": "a SQLite database: write its table as CSV (sqlite3 -csv -header)",
    b"%PDF-": "a PDF: write its text to a file first",
    b"\xd0\xcf\x11\xe0": "a document of an old Excel or Word: save it as CSV or text",
    b"FEA1": "a Feather file of the first version: write it again",
    b"\x93NUMPY": "a NumPy file: write it as Parquet or JSON lines",
    b"\x89HDF\r\n\x1a\n": "an HDF5 file: write it as Parquet or JSON lines",
    b"$FL2": "an SPSS file: write it as Parquet or CSV",
    b"\x80\x04\x95": "a Python pickle: write it as Parquet or JSON lines",
    b"\x80\x05\x95": "a Python pickle: write it as Parquet or JSON lines",
}
_DUCKDB, _DUCKDB_AT = b"DUCK", 8
_PDF = re.compile(rb"%PDF-[0-9]\.[0-9]\s")
_WIDE = re.compile(rb"(?P<utf_32>\xff\xfe\0\0|\0\0\xfe\xff)|(?P<utf_16>\xff\xfe|\xfe\xff)")  # their marks
_WIDE_MARK_BYTES = 4
_MARKS = {
    "utf-16-le": b"\xff\xfe",
    "utf-16-be": b"\xfe\xff",
    "utf-32-le": b"\xff\xfe\0\0",
    "utf-32-be": b"\0\0\xfe\xff",
}
# Of texts in UTF-16 without a mark: line breaks, digits and so on, and what they are at least a part of.
_IN_ASCII = frozenset(b"\t\n\r" + bytes(range(0x20, 0x7F)))
_LEAST_IN_ASCII = 0.02
_LAST_PLANE = 0x10  # of characters, in the third byte of UTF-32
_PLAIN_BYTES = 4096  # checked for binary data
_COUNTED = 1 << 30  # bytes of a line that is too long, for its reject


def unpacked_text(
    file: Rereadable,
    *,
    is_named_packed: bool = False,
    plain: bytes = b"",
    resumption: Resumption | None = None,
    zstd_long: int | None = None,
) -> Iterator[bytes]:
    """The decompressed content of a file, without a UTF-8 byte order mark.

    is_named_packed: the file name has the ending of a compression format; plain: what an uncompressed file
    starts with, after white space; resumption, zstd_long: as for `unpacked`. Raises
    Unreadable if it is neither compressed nor plain and, after yielding everything before, if data is damaged
    or ends early.
    """
    head = peek(file, _PLAIN_BYTES if is_named_packed else SIGNATURE_BYTES)  # a pipe may be slow
    if not head and is_named_packed:
        raise Unreadable("it is empty, which no packed file is: it was cut short")
    is_marked = _WIDE.match(head) is not None
    # Files that were decompressed during a transfer often keep their names.
    is_plain = head.removeprefix(BOM).lstrip().startswith(plain) and (is_marked or not BINARY.search(head))
    if is_named_packed and head.strip() and not packer_of(head[:SIGNATURE_BYTES]) and not is_plain:
        raise Unreadable(
            f"its name says that it is packed, but it is not ({PACKERS}), and cannot be read as it is either"
        )
    head, rest = first_bytes(unpacked(file, resumption, zstd_long), max(len(BOM), MAGIC_BYTES))
    if is_columnar(head):
        raise Unreadable(
            "it is a Parquet or Arrow file, which cannot be read from a pipe or a packed file: unpack it "
            "and give its path"
        )
    if kind := container_of(head):
        raise Unreadable(f"it is {kind}")
    yield head.removeprefix(BOM)
    yield from rest


def container_of(head: bytes) -> str | None:
    """What a file is that is not read, and what to do; None if it may be read."""
    if not BINARY.search(head) and not _PDF.match(head):
        return None  # a text that begins with the same word
    if head[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR:
        return "a tar archive: unpack it first, and name its folder (tar -xf FILE)"
    if head[_DUCKDB_AT:].startswith(_DUCKDB):
        return "a DuckDB database: write its table as Parquet (COPY t TO 'FILE.parquet')"
    if packer_of(head):
        return f"packed twice ({packer_of(head)}): unpack it once"
    return next((told for begin, told in _CONTAINERS.items() if head.startswith(begin)), None)


def first_bytes(blocks: Iterable[bytes], size: int) -> tuple[bytes, Iterator[bytes]]:
    """At least the first `size` bytes, if there are that many, and the following blocks. Where some can be
    read, and less, it is the following blocks that raise Unreadable."""
    rest = iter(blocks)
    head = b""
    try:
        while len(head) < size and (block := next(rest, b"")):
            head += block
    except Unreadable as error:
        if not head:
            raise
        return head, _failing(error)
    return head, rest


def _failing(error: Unreadable) -> Iterator[bytes]:
    raise error
    yield b""


def wide_to_utf8(blocks: Iterable[bytes], encoding: str, note: Callable[[str], None]) -> Iterator[bytes]:
    """The content, converted to UTF-8 if its encoding is wide: named so, or auto, and UTF-16 or UTF-32 with a
    byte order mark. note: gets the name of what was found.

    Raises Unreadable if the content is wide and the encoding is not, or the data is damaged.
    """
    head, rest = first_bytes(blocks, _WIDE_MARK_BYTES)
    content = chain([head], rest)
    if encoding != "auto" and is_wide(encoding):
        yield from _converted(content, _named_order(encoding, head))
        return
    found = _WIDE.match(head)
    if found is None:
        if b"\0" in head and (name := _unmarked(head[:_PLAIN_BYTES])):
            raise Unreadable(
                f"it looks like {name.upper()} without a byte order mark: name its encoding "
                f"(encoding {name}), or convert it first (iconv -f {name} -t utf-8)"
            )
        yield from content
        return
    name = str(found.lastgroup).replace("_", "-")
    if encoding != "auto":
        raise Unreadable(f"it is {name.upper()}, not {encoding.upper()}: encoding auto reads it")
    note(name.upper())
    yield from _converted(content, name)


def _named_order(encoding: str, head: bytes) -> str:
    """A wide encoding that was named. Raises Unreadable if the order of bytes is not certain."""
    found = _WIDE.match(head)
    name = codecs.lookup(encoding).name
    if name in ("utf-16", "utf-32") and head and not found:
        raise Unreadable(
            f"it has no byte order mark: name the order of its bytes (encoding {name}-le or {name}-be)"
        )
    if name in _MARKS and found and not head.startswith(_MARKS[name]):
        raise Unreadable(f"its byte order mark is not of {name.upper()}: encoding auto reads it")
    return name


def _converted(content: Iterable[bytes], name: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(name)()
    try:
        mark = "\ufeff"
        for block in content:
            if text := decoder.decode(block):
                yield text.removeprefix(mark).encode()
                mark = ""
        yield decoder.decode(b"", final=True).encode()
    except UnicodeDecodeError as error:
        raise Unreadable(f"its {name.upper()} data is damaged ({error.reason})") from error


def _unmarked(head: bytes) -> str | None:
    """The wide encoding that zero bytes show in a text without a mark, or None."""
    if not head.strip(b"\0") or _has_stray_zeros(head):
        return None
    fours = list(zip(head[::4], head[1::4], head[2::4], head[3::4], strict=False))
    little = sum(last == 0 and third <= _LAST_PLANE for _, _, third, last in fours)
    big = sum(first == 0 and second <= _LAST_PLANE for first, second, _, _ in fours)
    if fours and max(little, big) == len(fours):
        return "utf-32-le" if little > big else "utf-32-be"
    twos = list(zip(head[::2], head[1::2], strict=False))
    little = sum(high == 0 and low in _IN_ASCII for low, high in twos)
    big = sum(high == 0 and low in _IN_ASCII for high, low in twos)
    if max(little, big) < max(2, _LEAST_IN_ASCII * len(twos)) or max(little, big) < 2 * min(little, big):
        return None
    return "utf-16-le" if little > big else "utf-16-be"


def _has_stray_zeros(head: bytes) -> bool:
    """True for UTF-8 with a few zero bytes, which texts of programs have."""
    if head.count(0) > len(head) // 4 or BINARY.search(head.replace(b"\0", b"")):
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def split_lines(blocks: Iterable[bytes], limit: int) -> Iterator[bytes | TooLong]:
    """Lines without line feed; lines of more than `limit` bytes are skipped, and never held. A line of more
    than 1 GiB is reported before its end, because it may have none."""
    parts: list[bytes] = []  # of the line that the last block ended in
    size, counted = 0, max(limit, _COUNTED)
    for block in blocks:
        first, *others = block.split(b"\n")
        parts.append(first)
        before, size = size, size + len(first)
        if size > limit:
            parts.clear()
        if before <= counted < size:
            yield TooLong(size)
        if others:
            if size <= counted:
                yield b"".join(parts) if size <= limit else TooLong(size)
            *whole, last = others
            for line in whole:
                yield line if len(line) <= limit else TooLong(len(line))
            parts, size = [last], len(last)
    if 0 < size <= counted:
        yield b"".join(parts) if size <= limit else TooLong(size)
