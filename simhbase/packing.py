"""What gzip, zstd, bzip2 and xz have packed, told by its first bytes and unpacked in bounded memory."""

from __future__ import annotations

import bz2
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from zstandard import ZstdDecompressor, ZstdError

from simhbase.errors import BadInput

SUFFIXES = (".gz", ".zst", ".bz2", ".xz")
SIGNATURE_BYTES = 10  # the longest one
ZSTD_WINDOW = 1 << 31  # what `zstd --long=31` makes, as public dumps of texts are
XZ_MEMORY = 1 << 30  # `xz -9` takes 65 MiB; larger dictionaries are somebody's own choice
# A few bytes can unpack to very many. Fed so few bytes at a time, no file, however made, takes more
# than some megabytes at once; usual files are read nearly as fast as with large steps.
GZIP_STEP = 1 << 11  # unpacks to 2 MiB at most
ZSTD_STEP = 1 << 8  # unpacks to 8 MiB at most
BOUNDED_STEP = 1 << 14  # of those that bound what they give; what is behind a short stream is copied
BOUND = 1 << 20

_SIGNATURES = re.compile(
    rb"(?P<gzip>\x1f\x8b)|(?P<zstd>\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18)"  # a frame or a skippable one
    rb"|(?P<bzip2>BZh[1-9](?:1AY&SY|\x17rE8P\x90))|(?P<xz>\xfd7zXZ\0)"  # bzip2: a block or the end
)


class Unreadable(BadInput):
    """A source that cannot be read, or not further."""


@dataclass(frozen=True, slots=True)
class _Packer:
    """How to unpack a member, stream or frame.

    new: makes a decompressor, which has eof and unused_data. unpack: what it makes of a piece of at most
    `step` bytes.
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


_PACKERS: Mapping[str, _Packer] = {
    "gzip": _Packer(partial(zlib.decompressobj, wbits=31), _at_once, GZIP_STEP),
    "zstd": _Packer(
        lambda: ZstdDecompressor(max_window_size=ZSTD_WINDOW).decompressobj(), _at_once, ZSTD_STEP
    ),
    "bzip2": _Packer(bz2.BZ2Decompressor, _bounded, BOUNDED_STEP),
    "xz": _Packer(partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, XZ_MEMORY), _bounded, BOUNDED_STEP),
}
PACKERS = ", ".join(list(_PACKERS)[:-1]) + f" or {list(_PACKERS)[-1]}"  # for messages


def packer_of(head: bytes) -> str | None:
    """What has packed data that begins like this, given SIGNATURE_BYTES of it; None if nothing has."""
    found = _SIGNATURES.match(head)
    return found and found.lastgroup


def unpacked(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The content of blocks of packed or plain bytes, told apart by the first of them.

    Raises Unreadable, after all that came before it, where the data is damaged or ends early.
    """
    head, rest = peek(blocks, SIGNATURE_BYTES)
    content = chain([head], rest)
    packer = packer_of(head)
    return content if packer is None else _unpacked(packer, content)


def peek(blocks: Iterable[bytes], size: int) -> tuple[bytes, Iterator[bytes]]:
    """At least the first `size` bytes, if there are so many, and the blocks that follow."""
    rest = iter(blocks)
    head = b""
    while len(head) < size and (block := next(rest, b"")):
        head += block
    return head, rest


def _unpacked(name: str, blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The content of all members, one after the other."""
    packer = _PACKERS[name]
    decompressor = packer.new()
    in_member = False
    for piece in _pieces(blocks, packer.step):
        # Between members, zeros are padding to the size of a tape's block.
        while piece := piece if in_member else piece.lstrip(b"\0"):
            with _failing_clearly(name):
                yield from filter(None, packer.unpack(decompressor, piece))
            in_member = not decompressor.eof
            piece = decompressor.unused_data
            if not in_member:
                decompressor = packer.new()
    if in_member:
        raise Unreadable(f"its {name} data ends in the middle: the file was cut short")


@contextmanager
def _failing_clearly(name: str) -> Iterator[None]:
    try:
        yield
    except (zlib.error, ZstdError, lzma.LZMAError, OSError) as error:  # OSError: of bz2
        greedy = "memory" in str(error).lower()
        problem = "takes more memory to unpack than is allowed" if greedy else "is damaged"
        raise Unreadable(f"its {name} data {problem} ({error})") from error


def _pieces(blocks: Iterable[bytes], size: int) -> Iterator[bytes]:
    for block in blocks:
        for start in range(0, len(block), size):
            yield block[start : start + size]
