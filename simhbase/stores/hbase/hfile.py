"""HFiles: sorted rows of one column family as HBase keeps them on disk, format 3.3.

A file is blocks of some kilobytes, then a trailer of 4,096 bytes. Integers are big-endian; vint and varint
are the variable integers of Hadoop and of Protocol Buffers.

block    magic (8 bytes), int32 bytes behind the header, int32 the same before compression, int64 place of the
         previous block of this kind (-1: none), byte 1 (CRC-32), int32 bytes a checksum covers, int32 bytes
         of header and content; content, perhaps compressed; a CRC-32 for each part that a checksum covers
data     DATABLKE: int16 4 (FAST_DIFF), int32 bytes of the cells before encoding, cells
  first  00, varints: length of key, of value, 00; key: int16 length of row, row, byte length of family,
         family, int64 time, 04 (put); value. The qualifier is empty
  others flags, varint length of key and varint length of value where they differ from the previous cell's,
         varint bytes that the key shares with that one, the rest of length and row, last byte of time, value
leaf     IDXLEAF2, among the data blocks: int32 n, n + 1 int32 places of the entries behind these, entries:
         int64 place of a block, int32 bytes of it, a key at or before its first
inner    IDXINTE2: the same, of leaves
bloom    BLMFBLK2, among the data blocks: bits, seven for each row or beginning of rows
root     IDXROOT2: entries of the highest level, with a vint length before each key; where there are leaves,
         int64 place and int32 bytes of the one with the middle data block, int32 number of its entry there
         IDXROOT2 without content, FILEINF2: PBUF and a message of names and values, BLMFMET2: size and kind
         of the Bloom filter, with a root of its blocks
trailer  TRABLK"$, a message, zeros, 03000003

All cells of a file have one time, an empty qualifier and no tags. tests/unit/test_hfile.py has
examples.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simhbase.errors import UsageError
from simhbase.stores.hbase.schema import BLOCK_BYTES, BLOOM_PREFIX, Attributes
from simhbase.stores.strings import Strings

GZ, UNCOMPRESSED = 1, 2  # as the trailer names them
INDEX_BYTES = 131_072  # an index that is larger gets another level
LEAST_ENTRIES = 16  # of an index block, however long its keys are

_HEADER = struct.Struct(">8siiqbii")
_CRC32, _CHECKED_BYTES = 1, 16_384
_FAST_DIFF = (4).to_bytes(2)
_SAME_KEY_LENGTH, _SAME_VALUE_LENGTH, _SAME_VALUE = 0x08, 0x10, 0x40
_SAME_TYPE_AND_TIME = 0x20 | 7  # except the last byte of the time
_PUT = b"\x04"
_BEFORE_ALL_CELLS = b"\0" + b"\x7f" + b"\xff" * 8  # no family, the latest time, the highest type
_CELL_BYTES = 8  # the lengths of key and value, before encoding
_COMPARED_BYTES = 64  # of two rows; a longer shared prefix is encoded only up to here
_AT_ONCE = 1 << 22  # bytes of cells that are encoded together
_TRAILER_BYTES = 4_096
_COMPARATOR = b"org.apache.hadoop.hbase.KeyValue$KeyComparator"  # the name known by all versions of HBase
_SEVEN_BITS = 0x7F


@dataclass(frozen=True)
class Family:
    """Storage attributes of a column family. bloom: length of the row prefix in the Bloom filter, 0 for whole
    rows, None for no filter."""

    name: bytes
    block_bytes: int = BLOCK_BYTES
    bloom: int | None = None
    compression: int = UNCOMPRESSED

    @staticmethod
    def of(table: str, name: bytes, attributes: Attributes) -> Family:
        """The family of a live table. Raises UsageError if its files cannot be written here."""
        problem = _refused(attributes)
        if problem:
            raise UsageError(f"cannot write HFiles for {table}: {problem}. Load through the gateways instead")
        kind, bloom = attributes.get("BLOOMFILTER", "NONE"), None
        if kind != "NONE":
            bloom = int(attributes[BLOOM_PREFIX]) if kind == "ROWPREFIX_FIXED_LENGTH" else 0
        # Files of one table may have different compressions; a compaction rewrites them.
        is_compressed = attributes.get("COMPRESSION", "NONE") != "NONE"
        size = int(attributes.get("BLOCKSIZE", BLOCK_BYTES))
        return Family(name, size, bloom, GZ if is_compressed else UNCOMPRESSED)


def _refused(attributes: Attributes) -> str | None:
    if attributes.get("ENCRYPTION"):
        return (
            f"its column family is encrypted (ENCRYPTION {attributes['ENCRYPTION']}), and they would not be"
        )
    if attributes.get("IS_MOB", "false").lower() == "true":
        return "its column family keeps large values in files of their own (IS_MOB)"
    if attributes.get("COMPRESS_TAGS", "false").lower() == "true":
        return "its cells have tags (COMPRESS_TAGS), for labels or rights, and rows written here have none"
    if attributes.get("BLOOMFILTER") == "ROWCOL":
        return (
            "its Bloom filter is of rows and columns (ROWCOL): 'simhbase tables check' says what it should be"
        )
    return None


class Output(Protocol):
    """A binary file of any file system."""

    def write(self, content: bytes, /) -> object:
        """Append bytes."""


class HFileWriter:
    """Writes an HFile from distinct rows in ascending order. Raises OSError.

    output: a binary file; time: of all cells, in milliseconds since 1970; now: the file's own time, by
    default the same.
    """

    def __init__(
        self,
        output: Output,
        family: Family,
        time: int,
        *,
        now: int | None = None,
        index_bytes: int = INDEX_BYTES,
    ) -> None:
        self._blocks = _Blocks(output, family.compression)
        self._block_bytes = family.block_bytes
        self._suffix = bytes([len(family.name)]) + family.name + time.to_bytes(8) + _PUT
        self._time = time
        self._now = time if now is None else now
        self._index = _Index(self._blocks, index_bytes)
        self._bloom = None if family.bloom is None else _Bloom(self._blocks, family.bloom)
        self._first_key = self._last_row = b""
        self._key_bytes = self._value_bytes = 0
        self.rows = 0

    def put(self, rows: Strings, values: Strings | None = None) -> None:
        """Append rows with values; None: empty values. Raises ValueError if a row is not greater than the one
        before."""
        n, width = len(rows), rows.longest + (0 if values is None else values.longest)
        if n > 1 and n * width > _AT_ONCE:
            for start, end in ((0, n // 2), (n // 2, n)):
                self.put(rows.between(start, end), None if values is None else values.between(start, end))
        elif n:
            self._put(rows, Strings.empty(n) if values is None else values)

    def _put(self, rows: Strings, values: Strings) -> None:
        padded = rows.padded()
        difference = _first_difference(padded)
        if rows[0] <= self._last_row or not _ascending(rows, padded, difference):
            raise ValueError("rows of an HFile are in ascending order and all different")
        sizes = _CELL_BYTES + 2 + len(self._suffix) + rows.lengths + values.lengths
        ends = np.cumsum(sizes)
        firsts = np.flatnonzero(np.diff((ends - sizes) // self._block_bytes, prepend=-1))
        cells, places = self._cells(rows, padded, values, difference, firsts)
        for first, end in pairwise([*firsts.tolist(), len(rows)]):
            key, value = self._key(rows[first]), values[first]
            content = [
                _FAST_DIFF, int(sizes[first:end].sum()).to_bytes(4), b"\0", _varint(len(key)),
                _varint(len(value)), b"\0", key, value, cells[places[first] : places[end]].tobytes(),
            ]  # fmt: skip
            block = self._blocks.write(b"DATABLKE", b"".join(content))
            self._index.add(_before(rows[first]) if self._first_key else key, block)
            self._first_key = self._first_key or key
        if self._bloom is not None:
            self._bloom.add(rows, padded, difference)
        self._last_row = rows[len(rows) - 1]
        self.rows += len(rows)
        self._key_bytes += int(rows.lengths.sum()) + (2 + len(self._suffix)) * len(rows)
        self._value_bytes += int(values.lengths.sum())

    def _cells(
        self,
        rows: Strings,
        padded: NDArray[np.uint8],
        values: Strings,
        difference: NDArray[np.intp],
        firsts: NDArray[np.intp],
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """All cells except the first of each block, and where each begins: columns of bytes, with a mask of
        those that a cell needs."""
        n, same_length = len(rows), _as_before(rows.lengths)
        different = ~same_length
        # The key begins with the row's length, so keys of different lengths share nothing.
        common = np.where(same_length, np.minimum(difference, rows.lengths), 0)
        same_value_length = _as_before(values.lengths)
        flags = np.full(n, _SAME_TYPE_AND_TIME, dtype=np.uint8)
        flags[same_length] |= _SAME_KEY_LENGTH
        flags[same_value_length] |= _SAME_VALUE_LENGTH
        if not values.longest:
            flags |= _SAME_VALUE
        columns: list[tuple[NDArray[np.uint8], NDArray[np.bool_] | None]] = [(flags[:, None], None)]
        if different.any():
            columns.append(_varints(rows.lengths + 2 + len(self._suffix), different))
        if not same_value_length.all():
            columns.append(_varints(values.lengths, ~same_value_length))
        columns.append((np.where(same_length, common + 2, 0).astype(np.uint8)[:, None], None))
        if different.any():
            lengths = rows.lengths.astype(">u2").view(np.uint8).reshape(-1, 2)
            columns.append((lengths, np.broadcast_to(different[:, None], lengths.shape)))
        place = np.arange(padded.shape[1])
        columns.append((padded, (place >= common[:, None]) & (place < rows.lengths[:, None])))
        columns.append((np.full((n, 1), self._time & 0xFF, dtype=np.uint8), None))
        if values.longest:
            inside = None if values.size else np.arange(values.longest) < values.lengths[:, None]
            columns.append((values.padded(), inside))
        content = np.concatenate([part for part, _ in columns], axis=1)
        kept = np.concatenate(
            [np.broadcast_to(True, part.shape) if mask is None else mask for part, mask in columns], axis=1
        )
        kept[firsts] = False
        places = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(np.count_nonzero(kept, axis=1), out=places[1:])
        return content[kept], places

    def _key(self, row: bytes) -> bytes:
        return len(row).to_bytes(2) + row + self._suffix

    def close(self) -> None:
        """Write the end of the file, without closing it. Raises ValueError if there are no rows."""
        if not self.rows:
            raise ValueError("an HFile has rows")
        last_data = self._blocks.last[b"DATABLKE"]
        facts = self._facts() | ({} if self._bloom is None else self._bloom.finish())
        root = self._index.finish()
        self._blocks.write(b"IDXROOT2", b"")
        info, _ = self._blocks.write(b"FILEINF2", _file_info(facts))
        if self._bloom is not None:
            self._blocks.write(b"BLMFMET2", self._bloom.about())
        numbers: list[int | bytes] = [
            info, root, self._index.bytes, self._blocks.uncompressed + _TRAILER_BYTES, self._index.roots, 0,
            self.rows, self._index.levels, 0, last_data, _COMPARATOR, self._blocks.compression,
        ]  # fmt: skip
        message = b"".join(_field(number, fact) for number, fact in enumerate(numbers, 1))
        trailer = b'TRABLK"$' + _varint(len(message)) + message
        self._blocks.output.write(trailer.ljust(_TRAILER_BYTES - 4, b"\0") + b"\x03\0\0\x03")

    def _facts(self) -> dict[bytes, bytes]:
        time = self._time.to_bytes(8)
        return {
            b"BULKLOAD_TIMESTAMP": self._now.to_bytes(8),
            b"DATA_BLOCK_ENCODING": b"FAST_DIFF",
            b"DELETE_FAMILY_COUNT": bytes(8),
            b"EARLIEST_PUT_TS": time,
            b"EXCLUDE_FROM_MINOR_COMPACTION": b"\0",
            b"MAJOR_COMPACTION_KEY": b"\xff",
            b"TIMERANGE": time + time,
            b"hfile.AVG_KEY_LEN": (self._key_bytes // self.rows).to_bytes(4),
            b"hfile.AVG_VALUE_LEN": (self._value_bytes // self.rows).to_bytes(4),
            b"hfile.CREATE_TIME_TS": self._now.to_bytes(8),
            b"hfile.LASTKEY": self._key(self._last_row),
        }


def _as_before(lengths: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which lengths equal the one before; true for the first."""
    found = np.ones(len(lengths), dtype=np.bool_)
    np.equal(lengths[1:], lengths[:-1], out=found[1:])
    return found


def _first_difference(padded: NDArray[np.uint8]) -> NDArray[np.intp]:
    """Position of the first byte in which each row differs from the one before; the number of compared bytes
    if there is none; 0 for the first row."""
    heads = padded[:, :_COMPARED_BYTES]
    differ = heads[1:] != heads[:-1]
    first = np.argmax(differ, axis=1)
    found = np.zeros(len(heads), dtype=np.intp)
    found[1:] = np.where(differ[np.arange(len(first)), first], first, heads.shape[1])
    return found


def _ascending(rows: Strings, padded: NDArray[np.uint8], difference: NDArray[np.intp]) -> bool:
    compared = min(padded.shape[1], _COMPARED_BYTES)
    later = np.arange(1, len(rows))
    place = np.minimum(difference[1:], compared - 1)
    is_behind = padded[later, place] > padded[later - 1, place]
    is_told = difference[1:] < compared
    if not is_behind[is_told].all():
        return False
    return all(rows[number - 1] < rows[number] for number in later[~is_told].tolist())


class _Blocks:
    """Writes blocks and records their positions."""

    def __init__(self, output: Output, compression: int) -> None:
        self.output = output
        self.compression = compression
        self.last: dict[bytes, int] = {}  # by kind
        self.uncompressed = 0
        self._place = 0

    def write(self, magic: bytes, content: bytes) -> tuple[int, int]:
        """Write a block; returns its position and size."""
        stored = content
        if self.compression == GZ:
            packer = zlib.compressobj(wbits=31)
            stored = packer.compress(content) + packer.flush()
        length = _HEADER.size + len(stored)
        checksums = -(-length // _CHECKED_BYTES)
        header = _HEADER.pack(
            magic, len(stored) + 4 * checksums, len(content), self.last.get(magic, -1), _CRC32,
            _CHECKED_BYTES, length,
        )  # fmt: skip
        block = header + stored
        sums = [
            zlib.crc32(block[start : start + _CHECKED_BYTES]) for start in range(0, length, _CHECKED_BYTES)
        ]
        self.output.write(block + struct.pack(f">{checksums}I", *sums))
        place, size = self._place, length + 4 * checksums
        self.last[magic] = place
        self._place += size
        self.uncompressed += _HEADER.size + len(content)
        return place, size


@dataclass
class _Entries:
    """Entries of an index: blocks, each with a key at or before its first."""

    keys: list[bytes] = field(default_factory=list)
    blocks: list[tuple[int, int]] = field(default_factory=list)
    size: int = 0  # in bytes, about

    def add(self, key: bytes, block: tuple[int, int]) -> None:
        self.keys.append(key)
        self.blocks.append(block)
        self.size += 12 + 4 + len(key)

    def inner(self) -> bytes:
        """The content of a block below the root."""
        entries = [
            struct.pack(">qi", *block) + key for key, block in zip(self.keys, self.blocks, strict=True)
        ]
        places = np.cumsum([0, *map(len, entries)]).astype(">i4")
        return len(entries).to_bytes(4) + places.tobytes() + b"".join(entries)

    def root(self) -> bytes:
        return b"".join(
            struct.pack(">qi", *block) + _vint(len(key)) + key
            for key, block in zip(self.keys, self.blocks, strict=True)
        )

    def parts(self, block_bytes: int) -> Iterator[_Entries]:
        """The entries of each block of a level."""
        part = _Entries()
        for key, block in zip(self.keys, self.blocks, strict=True):
            part.add(key, block)
            if part.size >= block_bytes and len(part.keys) >= LEAST_ENTRIES:
                yield part
                part = _Entries()
        if part.keys:
            yield part


class _Index:
    """The index of data blocks. Leaves are written when they are full, higher levels at the end."""

    def __init__(self, blocks: _Blocks, block_bytes: int) -> None:
        self._blocks = blocks
        self._block_bytes = block_bytes
        self._leaf = _Entries()
        self._leaves = _Entries()
        self._ends: list[int] = []  # data blocks up to each leaf
        self.levels = 1
        self.bytes = self.roots = 0

    def add(self, key: bytes, block: tuple[int, int]) -> None:
        self._leaf.add(key, block)
        if self._leaf.size >= self._block_bytes:
            self._end_leaf()

    def _end_leaf(self) -> None:
        self._ends.append((self._ends[-1] if self._ends else 0) + len(self._leaf.keys))
        self._leaves.add(self._leaf.keys[0], self._write(b"IDXLEAF2", self._leaf.inner()))
        self._leaf = _Entries()

    def _write(self, magic: bytes, content: bytes) -> tuple[int, int]:
        self.bytes += len(content)
        return self._blocks.write(magic, content)

    def finish(self) -> int:
        """Write the rest; returns the position of the root."""
        root, middle = self._leaf, b""
        if self._ends:
            if self._leaf.keys:
                self._end_leaf()
            root, middle, self.levels = self._leaves, self._middle(), 2
        while root.size > self._block_bytes and len(root.keys) > LEAST_ENTRIES:
            parents = _Entries()
            for part in root.parts(self._block_bytes):
                parents.add(part.keys[0], self._write(b"IDXINTE2", part.inner()))
            root, self.levels = parents, self.levels + 1
        self.roots = len(root.keys)
        return self._write(b"IDXROOT2", root.root() + middle)[0]

    def _middle(self) -> bytes:
        """The split point for HBase: the leaf of the middle data block, and its number there."""
        block = (self._ends[-1] - 1) // 2
        leaf = next(number for number, end in enumerate(self._ends) if block < end)
        before = self._ends[leaf - 1] if leaf else 0
        return struct.pack(">qii", *self._leaves.blocks[leaf], block - before)


class _Bloom:
    """A Bloom filter in blocks, with 1 % false positives."""

    _VERSION, _MURMUR, _HASHES = 3, 1, 7
    _BYTES, _ROWS = 131_072, 109_306  # of a block; more rows would give more false positives

    def __init__(self, blocks: _Blocks, prefix: int) -> None:
        self._blocks = blocks
        self._prefix = prefix
        self._entries = _Entries()
        self._last = b""
        self._rows = self._room = self._size = 0
        self._begin()

    def _begin(self) -> None:
        self._bits = np.zeros(self._BYTES * 8, dtype=np.bool_)
        self._held, self._first = 0, b""

    def add(self, rows: Strings, padded: NDArray[np.uint8], difference: NDArray[np.intp]) -> None:
        """Add sorted rows. padded: the rows, zero-padded; difference: where each differs from the one
        before."""
        if self._prefix:
            # Each prefix once; all rows have at least this length.
            is_new = difference < self._prefix
            is_new[0] = rows[0][: self._prefix] != self._last
            rows = Strings.rows_of(padded[is_new, : self._prefix])
            if not len(rows):
                return
        first, second = _hashes(rows)
        start = 0
        while start < len(rows):
            end = min(len(rows), start + self._ROWS - self._held)
            self._first = self._first or rows[start]
            for number in range(self._HASHES):
                mixed = (first[start:end] + np.uint32(number) * second[start:end]).view(np.int32)
                self._bits[np.abs(mixed) & (self._BYTES * 8 - 1)] = True
            self._held += end - start
            start = end
            if self._held == self._ROWS:
                self._end_block()
        self._last = rows[len(rows) - 1]

    def _end_block(self) -> None:
        room = self._ROWS
        while room > 2 * self._held and len(self._bits) > 16:  # folding loses nothing
            self._bits = np.logical_or(*self._bits.reshape(2, -1))
            room //= 2
        content = np.packbits(self._bits, bitorder="little").tobytes()
        self._entries.add(self._first, self._blocks.write(b"BLMFBLK2", content))
        self._rows += self._held
        self._room += room
        self._size += len(content)
        self._begin()

    def finish(self) -> dict[bytes, bytes]:
        """Write the rest; returns entries for the file info."""
        if self._held:
            self._end_block()
        kind: dict[bytes, bytes] = {b"BLOOM_FILTER_TYPE": b"ROW"}
        if self._prefix:
            kind = {
                b"BLOOM_FILTER_TYPE": b"ROWPREFIX_FIXED_LENGTH",
                b"BLOOM_FILTER_PARAM": self._prefix.to_bytes(4),
            }
        return kind | {b"LAST_BLOOM_KEY": self._last}

    def about(self) -> bytes:
        """Metadata that HBase reads when it opens the file."""
        numbers = (self._VERSION, self._size, self._HASHES, self._MURMUR, self._rows, self._room)
        return struct.pack(">iqiiqqi", *numbers, len(self._entries.keys)) + _vint(0) + self._entries.root()


def _hashes(rows: Strings) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Two hashes of each row; the first is the seed of the second."""
    found = np.zeros((2, len(rows)), dtype=np.uint32)
    for length in np.unique(rows.lengths).tolist():
        where = np.flatnonzero(rows.lengths == length)
        some = rows.take(where).matrix
        found[0, where] = first = _murmur(some, np.zeros(len(some), dtype=np.uint32))
        found[1, where] = _murmur(some, first)
    return found[0], found[1]


def _murmur(strings: NDArray[np.uint8], seeds: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """MurmurHash 2 of strings of equal length, uint8 (n, length), as in Java, with signed bytes."""
    factor = np.uint32(0x5BD1E995)
    length = strings.shape[1]
    found = seeds ^ np.uint32(length)
    whole = length & ~3
    for word in np.ascontiguousarray(strings[:, :whole]).view("<u4").T:
        mixed = word * factor
        mixed ^= mixed >> np.uint32(24)
        mixed *= factor
        found *= factor
        found ^= mixed
    if length > whole:
        for place in reversed(range(whole, length)):
            signed = strings[:, place].view(np.int8).astype(np.int32) << (8 * (place - whole))
            found ^= signed.view(np.uint32)
        found *= factor
    found ^= found >> np.uint32(13)
    found *= factor
    found ^= found >> np.uint32(15)
    return found


def _before(row: bytes) -> bytes:
    """A key before all cells of a row."""
    return len(row).to_bytes(2) + row + _BEFORE_ALL_CELLS


def _file_info(facts: Mapping[bytes, bytes]) -> bytes:
    pairs = (_field(1, name) + _field(2, fact) for name, fact in sorted(facts.items()))
    message = b"".join(_field(1, pair) for pair in pairs)
    return b"PBUF" + _varint(len(message)) + message


def _field(number: int, value: int | bytes) -> bytes:
    """A field of a Protocol Buffers message."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > _SEVEN_BITS:
        found.append(number & _SEVEN_BITS | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _varints(
    numbers: NDArray[np.int64], wanted: NDArray[np.bool_]
) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Varints of many numbers as columns, and which bytes are used."""
    columns = -(-int(numbers.max()).bit_length() // 7) or 1
    left = numbers[:, None] >> (7 * np.arange(columns))
    found = (left & _SEVEN_BITS | np.where(left > _SEVEN_BITS, 0x80, 0)).astype(np.uint8)
    used = left > 0
    used[:, 0] = True
    return found, used & wanted[:, None]


def _vint(number: int) -> bytes:
    """Hadoop's encoding of a non-negative integer."""
    if number <= _SEVEN_BITS:
        return bytes([number])
    size = -(-number.bit_length() // 8)
    return bytes([0x90 - size]) + number.to_bytes(size)
