"""Where the columns of a Parquet file are, and how large their pages, by its footer and their headers.

pyarrow knows it, too, but ends the process if what it is asked for is damaged. By these sizes `parquet.py`
refuses columns (`require_plausible`) before they are unpacked. What pyarrow can read is read alike by the
core (`parquet.rs`), or refused: a page that is not looked at may take any memory.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from errno import EFBIG
from io import SEEK_END, RawIOBase
from itertools import cycle
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simhbase._core import parquet_footer, parquet_page, parquet_shared_bytes
from simhbase.corpus.formats.arrow_sizes import require_small_schema

_MAGIC_BYTES = 4
FOOTER_BYTES, MOST_COLUMNS = 64 << 20, 1 << 16
MOST_ELEMENTS = 1 << 24  # of the lists of a footer, which readers hold in memory
MOST_CHUNKS = 1 << 20  # columns of all groups of rows, for each of which readers take 1 KB
_DICTIONARY = 2
_PLAIN = "UNCOMPRESSED"
# Not LZ4, which is the name of two forms that pyarrow does not tell apart.
_CODECS = (_PLAIN, "SNAPPY", "GZIP", "BROTLI", "ZSTD")
_SIZE_BYTES = 4
_HEADER_BYTES = (256, 64 << 10, 16 << 20)  # it may have the least and the greatest value


class Chunk(NamedTuple):
    """The values of a column in one group of rows, and where they are, from 0 to 0 if there are none.
    is_flat: a value is a row."""

    column: str
    begin: int
    end: int
    is_flat: bool


class Deltas(NamedTuple):
    """Of a page whose texts have their lengths in deltas. has_prefixes: texts begin with a part of the one
    before; levels: bytes of levels that are not packed, None if they are packed, each behind its size;
    is_packed: the rest is; begin: where the page is."""

    has_prefixes: bool
    levels: int | None
    is_packed: bool
    begin: int


class Page(NamedTuple):
    """A page, its size in memory and in the file, the number of its rows at least, and that of its values."""

    is_dictionary: bool
    unpacked: int
    packed: int
    rows: int
    values: int = 0
    deltas: Deltas | None = None


class Footer(NamedTuple):
    """Of each group of rows the number of its columns, and of each of these where it begins and ends."""

    columns: list[int]
    places: NDArray[np.int64]


def small_footer(file: RawIOBase | BinaryIO) -> Footer:
    """The footer. Raises OSError for one that would take much more memory to read than it has bytes: one of
    11 MB whose columns have no places takes 3 GB."""
    try:
        elements, groups, places, schemas = parquet_footer(_footer(file), MOST_ELEMENTS)
        for schema in schemas:  # of Arrow, beside that of Parquet
            require_small_schema(_from_base64(schema))
    except (LookupError, ValueError) as error:
        raise OSError(f"its footer cannot be read: {error}") from error
    if elements > MOST_COLUMNS:
        raise OSError(EFBIG, f"it has more than {MOST_COLUMNS:,} columns")
    found = Footer(np.frombuffer(groups, np.uint32).tolist(), np.frombuffer(places, np.int64).reshape(-1, 2))
    if len(found.places) > MOST_CHUNKS:
        raise OSError(EFBIG, f"its groups of rows have more than {MOST_CHUNKS:,} columns")
    file.seek(0)
    return found


def chunks(
    file: RawIOBase, footer: Footer, columns: Sequence[tuple[str, bool]], groups: int
) -> list[list[Chunk]]:
    """The columns of each group of rows. columns: of each its name and whether a value is a row; groups:
    their number. Raises OSError for a footer that tells otherwise, and if columns overlap."""
    width = len(columns)
    if footer.columns != [width] * groups:
        raise OSError("its footer tells otherwise where its columns are")
    begins, ends = footer.places.T.tolist()
    there = [begin for begin, end in zip(begins, ends, strict=True) if end > begin]
    # They would be read again and again, or twice, and others not at all.
    if sum(ends) - sum(begins) > file.seek(0, SEEK_END) or len(set(there)) < len(there):
        raise OSError("its columns overlap")
    found = [
        Chunk(name, begin, end, is_flat)
        for (name, is_flat), begin, end in zip(cycle(columns), begins, ends, strict=False)
    ]
    return [found[group * width : (group + 1) * width] for group in range(groups)]


def _from_base64(text: bytes) -> bytes:
    """Raises ValueError for what readers may take otherwise."""
    plain = text.rstrip(b"=")
    return b64decode(plain + b"=" * (-len(plain) % 4), validate=True)


def _footer(file: RawIOBase | BinaryIO) -> bytes:
    end = max(file.seek(0, SEEK_END) - _MAGIC_BYTES - 4, 0)
    file.seek(end)
    size = int.from_bytes(file.read(4) or b"", "little")
    if size > end:
        raise ValueError("it is said to be longer than the file")
    if size > FOOTER_BYTES:
        raise OSError(EFBIG, f"its footer has {size:,} bytes, at most {FOOTER_BYTES:,} are read")
    file.seek(end - size)
    return file.read(size) or b""


def pages(file: RawIOBase, chunk: Chunk) -> Iterator[Page]:
    """The pages of a column, up to the first one that no reader can read. Raises OSError if that is the first
    one, and for a header that readers may take for another."""
    place = chunk.begin
    while place < chunk.end:
        found = _page_at(file, place)
        if found is None:
            if place == chunk.begin:
                raise OSError("a page has another header than those of Parquet")
            return
        page, size = found
        yield page if chunk.is_flat else page._replace(rows=0)
        place += size + page.packed


def _page_at(file: RawIOBase, place: int) -> tuple[Page, int] | None:
    """The page there, and the size of its header; None if it is damaged."""
    for most in _HEADER_BYTES:
        file.seek(place)
        try:
            kind, unpacked, packed, values, size, deltas = parquet_page(file.read(most) or b"")
        except IndexError:  # it is longer
            continue
        except ValueError:
            return None
        lengths = None if deltas is None else Deltas(*deltas, place + size)
        return Page(kind == _DICTIONARY, unpacked, packed, values, values, lengths), size
    return None


def shared_bytes(
    file: RawIOBase, page: Page, codec: str, levels: int, decompress: Callable[[bytes, int, str], bytes]
) -> int:
    """Bytes in memory that the texts of a page share with those before them, and so not in the page. levels:
    how many kinds of them it has, of lists and of nulls; decompress: is given bytes, their size unpacked and
    the codec. Raises OSError for a page that cannot be read, or that readers may read otherwise, and as
    `decompress`."""
    deltas = page.deltas
    if deltas is None:
        return 0
    if codec not in _CODECS:
        raise OSError(f"its texts have their lengths in deltas, packed by {codec}: they are not read")
    file.seek(deltas.begin)
    data, size = _read(file, page.packed), page.unpacked - (deltas.levels or 0)
    data = data[deltas.levels or 0 :]
    if deltas.is_packed and codec != _PLAIN and size > 0:
        data = decompress(data, size, codec.lower())
    if deltas.levels is None:
        for _ in range(levels):
            data = data[_SIZE_BYTES + int.from_bytes(data[:_SIZE_BYTES], "little") :]
    try:
        return parquet_shared_bytes(data, deltas.has_prefixes, page.values)
    except (LookupError, ValueError) as error:
        raise OSError(f"the lengths of its texts cannot be read: {error}") from error


def _read(file: RawIOBase, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := file.read(size - len(data))):
        data += more
    return data
