"""Files of words and phrases that a profile is made with."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from zstandard import ZstdDecompressor, ZstdError

from simhbase.errors import BadInput

_ZSTD_WINDOW = 1 << 31  # what `zstd --long=31` makes


@dataclass(frozen=True)
class NamedContent:
    """What is in a file: two of one content are equal, whatever their names."""

    name: str = field(compare=False)
    content: bytes = field(repr=False)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content, in hex."""
        return hashlib.sha256(self.content).hexdigest()


def read_utf8(path: Path, kind: str) -> bytes:
    """What is in a file of UTF-8, of a kind that messages name: plain, or compressed by gzip or zstd, as its
    first bytes say. Raises BadInput."""
    try:
        content = _decompressed(path.read_bytes())
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"the {kind} {path} is not UTF-8 at byte {error.start}") from error
    except (EOFError, zlib.error, gzip.BadGzipFile, ZstdError) as error:
        raise BadInput(f"the {kind} {path} cannot be decompressed: {error}") from error
    except OSError as error:
        raise BadInput(f"cannot read the {kind} {path}: {error.strerror}") from error
    return content


def _decompressed(data: bytes) -> bytes:
    if data.startswith(b"\x1f\x8b"):
        return gzip.decompress(data)
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        return b"".join(_zstd_frames(data))
    return data


def _zstd_frames(data: bytes) -> Iterator[bytes]:
    while data:
        frame = ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj()
        yield frame.decompress(data)
        if not frame.eof:
            raise EOFError("it was cut short")
        data = frame.unused_data
