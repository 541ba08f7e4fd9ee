"""Decompression of gzip, zstd, bzip2 and xz, detected by signature, in bounded memory."""

from __future__ import annotations

import bz2
import lzma
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from os import SEEK_CUR
from tempfile import SpooledTemporaryFile, gettempdir
from typing import Any, BinaryIO

from zstandard import ZstdDecompressor, ZstdError, get_frame_parameters

from simhbase.errors import BadInput

SIGNATURE_BYTES = 10  # the longest one
# Windows take memory, 2 GiB for a file of a few kB. zstd itself allows 128 MiB, and asks for --long=31 for
# those of public dumps of texts; `xz -9` takes 65 MiB.
ZSTD_LONG = 27
XZ_MEMORY = 1 << 28
# Small steps bound the memory that a decompression bomb can take, and cost ordinary files little.
GZIP_STEP = 1 << 11  # unpacks to 2 MiB at most
ZSTD_STEP = 1 << 8  # unpacks to 8 MiB at most
BOUNDED_STEP = 1 << 14  # of decompressors with bounded output; larger steps copy more behind short streams
BOUND = 1 << 20
PLAIN_STEP = 1 << 20
PADDING_STEP = 1 << 12
MOST_DAMAGES = 1000  # that are passed over in one file
HELD_BYTES = 4 << 20  # larger members are decompressed twice, as nothing is yielded before the checksum

_SIGNATURES = re.compile(
    rb"(?P<gzip>\x1f\x8b)|(?P<zstd>\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18)"  # a frame or a skippable one
    rb"|(?P<bzip2>BZh[1-9](?:1AY&SY|\x17rE8P\x90))|(?P<xz>\xfd7zXZ\0)"  # bzip2: a block or the end
)


class Unreadable(BadInput):
    """A source that cannot be read, or not to its end."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """How to go on behind a damaged gzip member, for formats whose members can be read by themselves.

    begin: what the content of each member begins with; lost: gets every damage that was passed over, before
    the content behind it.
    """

    begin: bytes
    lost: list[Unreadable]


@dataclass(frozen=True, slots=True)
class _Packer:
    """How to decompress a member, stream or frame.

    new: creates a decompressor with eof and unused_data. unpack: decompresses a piece of at most `step`
    bytes.
    """

    new: Callable[[], Any]
    unpack: Callable[[Any, bytes], Iterator[bytes]]
    step: int


def _at_once(decompressor: Any, piece: bytes) -> Iterator[bytes]:
    yield decompressor.decompress(piece)


def _bounded(decompressor: Any, piece: bytes) -> Iterator[bytes]:
    yield decompressor.decompress(piece, BOUND)
    while not (decompressor.eof or decompressor.needs_input):
        yield decompressor.decompress(b"", BOUND)


def _zstd(long: int) -> _Packer:
    """Of one file: its frames share what takes 20 times as long to make as to read an empty frame."""
    decompressor = ZstdDecompressor(max_window_size=1 << long)
    return _Packer(decompressor.decompressobj, _at_once, ZSTD_STEP)


_PACKERS: Mapping[str, _Packer] = {
    "gzip": _Packer(partial(zlib.decompressobj, wbits=31), _at_once, GZIP_STEP),
    "bzip2": _Packer(bz2.BZ2Decompressor, _bounded, BOUNDED_STEP),
    "xz": _Packer(partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, XZ_MEMORY), _bounded, BOUNDED_STEP),
}
_GZIP_MEMBER = re.compile(rb"\x1f\x8b\x08")
PACKERS = "gzip, zstd, bzip2 or xz"  # for messages


def packer_of(head: bytes) -> str | None:
    """Name of the compression format that data begins with (SIGNATURE_BYTES are enough), or None."""
    found = _SIGNATURES.match(head)
    return found and found.lastgroup


class Rereadable:
    """A file read from start to end that can go back to the last `mark`.

    For a pipe, what was read since the mark is kept: in memory, then in a temporary file. `read` raises
    Unreadable.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        # read1 returns what a pipe has; read would wait for all of it.
        self._read: Callable[[int], bytes] = getattr(file, "read1", file.read)

    def read(self, size: int) -> bytes:
        """Up to `size` further bytes; b"" at the end."""
        try:
            return self._read(size)
        except OSError as error:
            raise Unreadable(f"it cannot be read further: {error.strerror}") from error

    def tell(self) -> int:
        return self._file.tell()

    def mark(self) -> None:
        """Allow going back to here."""

    def unmark(self) -> None:
        """Drop the mark."""

    def back_to(self, position: int) -> None:
        """Continue reading at an earlier position, not before the mark."""
        self._file.seek(position)

    def close(self) -> None:
        """Drop what was kept. The file stays open."""


class RereadablePipe(Rereadable):
    """A file that cannot seek."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self._kept = SpooledTemporaryFile[bytes](HELD_BYTES)
        self._start = 0  # position of the first byte that is kept
        self._position = self._end = 0  # of the next byte, and of the next one of the pipe
        self._is_marked = True

    def read(self, size: int) -> bytes:
        if self._position == self._end:
            data = super().read(PLAIN_STEP)
            self._end += len(data)
            if not self._is_marked:
                self._position = self._start = self._end
                return data
            self._keep(data)
        data = self._kept.read(size)
        self._position += len(data)
        return data

    def _keep(self, data: bytes) -> None:
        try:
            self._kept.write(data)
            self._kept.seek(-len(data), SEEK_CUR)
        except OSError as error:
            raise Unreadable(
                f"its compressed data cannot be buffered in {gettempdir()} until its checksum is read: "
                f"{error.strerror}. Set TMPDIR to another folder, or decompress it first"
            ) from error

    def tell(self) -> int:
        return self._position

    def mark(self) -> None:
        self._is_marked = True
        if self._position == self._end or self._position - self._start > HELD_BYTES:
            self._forget()

    def unmark(self) -> None:
        self._is_marked = False
        self._forget()

    def _forget(self) -> None:
        rest = self._kept.read()
        self._kept.seek(0)
        self._kept.truncate()
        self._kept.write(rest)
        self._kept.seek(0)
        self._start = self._position

    def back_to(self, position: int) -> None:
        self._kept.seek(position - self._start)
        self._position = position

    def close(self) -> None:
        self._kept.close()


def peek(file: Rereadable, size: int) -> bytes:
    """The next `size` bytes (fewer at the end), without consuming them."""
    begin, head = file.tell(), b""
    while len(head) < size and (block := file.read(size - len(head))):
        head += block
    file.back_to(begin)
    return head


def unpacked(
    file: Rereadable, resumption: Resumption | None = None, zstd_long: int | None = None
) -> Iterator[bytes]:
    """The content of a file, decompressed if its signature says so.

    Nothing of a member (gzip), frame (zstd) or stream (bzip2, xz) is yielded before all of it was
    decompressed and its checksum verified. Raises Unreadable if data is damaged or ends early, after yielding
    everything before it; with a resumption it goes on with the next gzip member that is whole, if there is
    one. Data compressed without a checksum (possible with zstd and xz) is only known to decompress.
    """
    name = packer_of(peek(file, SIGNATURE_BYTES))
    if name is not None:
        packer = _zstd(zstd_long or ZSTD_LONG) if name == "zstd" else _PACKERS[name]
        return _unpacked(name, packer, file, resumption if name == "gzip" else None)
    file.unmark()
    return iter(partial(file.read, PLAIN_STEP), b"")


def _unpacked(name: str, packer: _Packer, file: Rereadable, resumption: Resumption | None) -> Iterator[bytes]:
    damage: tuple[int, Unreadable] | None = None  # where it begins
    damages = 0
    while _has_member(file):
        file.mark()
        begin, held, size = file.tell(), list[bytes](), 0
        try:
            for block in _member(name, packer, file):
                size += len(block)
                if size <= HELD_BYTES:
                    held.append(block)
        except Unreadable as error:
            damage, damages = damage or (begin, error), damages + 1
            if not resumption or damages > MOST_DAMAGES or not _seek_member(file, begin, resumption.begin):
                raise damage[1] from None
            continue
        if damage and resumption:
            start = damage[0]
            said = f"{begin - start:,} bytes from byte {start:,} on were skipped"
            resumption.lost.append(Unreadable(f"its gzip data is damaged: {said}"))
            damage = None
        if size <= HELD_BYTES:
            yield from held
        else:
            held.clear()
            file.back_to(begin)
            yield from _member(name, packer, file)


def _seek_member(file: Rereadable, damaged: int, begin: bytes) -> bool:
    """Go to the next gzip member whose content begins like this, after failing to read the one at `damaged`;
    False if there is none."""
    # Damage is found where it is or soon after, so the search need not begin at the member's start, and
    # members within members do not make it quadratic.
    file.back_to(max(damaged + 1, file.tell() - 2 * GZIP_STEP))
    while True:
        head = peek(file, 2 * GZIP_STEP)
        place = file.tell()
        for found in _GZIP_MEMBER.finditer(head):
            with suppress(zlib.error):
                content = zlib.decompressobj(wbits=31).decompress(head[found.start() :], len(begin))
                if content == begin:
                    file.back_to(place + found.start())
                    return True
        if len(head) < 2 * GZIP_STEP:
            return False
        file.back_to(place + GZIP_STEP)


def _has_member(file: Rereadable) -> bool:
    """True if more than zero padding follows, as tapes have."""
    while block := file.read(PADDING_STEP):
        if rest := block.lstrip(b"\0"):
            file.back_to(file.tell() - len(rest))
            return True
        file.mark()
    return False


def _member(name: str, packer: _Packer, file: Rereadable) -> Iterator[bytes]:
    begin = file.tell()
    decompressor = packer.new()
    while not decompressor.eof:
        if not (piece := file.read(packer.step)):
            raise Unreadable(
                f"its {name} data ends in the middle: the file was cut short. Nothing from byte "
                f"{begin:,} on is read, as it cannot be checked. To read what there is: "
                f"{name} -dc FILE | simhbase ... -"
            )
        with _failing_clearly(name, begin, piece):
            yield from filter(None, packer.unpack(decompressor, piece))
    file.back_to(file.tell() - len(decompressor.unused_data))


@contextmanager
def _failing_clearly(name: str, begin: int, piece: bytes) -> Iterator[None]:
    try:
        yield
    except (zlib.error, ZstdError, lzma.LZMAError, OSError) as error:  # OSError: of bz2
        greedy = "memory" in str(error).lower()
        problem = _too_much_memory(name, piece) if greedy else "is damaged"
        if "dictionary" in str(error).lower():
            problem = "was packed with a dictionary: unpack it first (zstd -d -D DICTIONARY FILE)"
        raise Unreadable(
            f"its {name} data {problem} ({error}). Nothing from byte {begin:,} on is read"
        ) from error


def _too_much_memory(name: str, head: bytes) -> str:
    problem = "takes more memory to unpack than is allowed"
    try:
        long = (get_frame_parameters(head).window_size - 1).bit_length()
    except ZstdError:  # of another format
        return f"{problem}: unpack it first ({name} -d FILE)"
    return f"{problem}: allow it (zstd_long {long}), or unpack it first (zstd -d --long={long} FILE)"
