"""Tables of values by byte keys, as members of sorted sets: see change.lua."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from random import Random

import numpy as np
from numpy.typing import NDArray

from simhbase.model.values import Size
from simhbase.stores.arrays import versions_of
from simhbase.stores.base import Cell, RecordTable, Row, Version
from simhbase.stores.keys import after_prefix, after_read
from simhbase.stores.redis.client import Argument, Client, damaged, packed, understanding, understood

BATCH_ROWS = 10_000
READ_AT_ONCE = 10_000  # rows by one call, whose answers have a limit together: 20 kB for each
CHANGED_AT_ONCE = 10_000  # rows of one call, which the server answers nobody else during
SETS_AT_ONCE = 5_000
MEASURED_SETS = 512
KEY_BYTES = 16  # of a key in the server's table of all keys, which MEMORY USAGE leaves out
_NAME = 2  # bytes of a key that name its set; all rows of meta are in one
_END, _ESCAPED = b"\0\0", b"\0\xff"
_VERSION = struct.Struct(">q")
_NAMES = [bytes(divmod(number, 256)) for number in range(1 << 16)]


class RedisRecords:
    def __init__(self, client: Client, table: RecordTable) -> None:
        self._client = client
        self._table = table
        self._read, self._write = f"reading {table} of", f"writing {table} of"
        self._sets = client.key(f"{table}:")
        self._name = 0 if table == "meta" else _NAME
        self._left: bytes | None = None  # a directory of what is left

    def get(self, keys: Sequence[bytes]) -> list[Cell | None]:
        parts = (keys[start : start + READ_AT_ONCE] for start in range(0, len(keys), READ_AT_ONCE))
        return [cell for part in parts for cell in self._get(part)]

    @understanding("{self._table}:*")
    def _get(self, keys: Sequence[bytes]) -> list[Cell | None]:
        commands = list[bytes]()
        for key in keys:
            start = _escaped(key[self._name :]) + b"\0"
            low, high = b"[" + start + b"\0", b"(" + start + b"\1"
            commands.append(self._range(key[: self._name], low, high, 1))
        found = self._client.ask(self._read, b"".join(commands), len(commands))
        return [row_of(b"", members[0])[1] if members else None for members in found]

    def put(self, rows: Sequence[tuple[bytes, bytes]], version: Version | None = None) -> None:
        suffixed = list(suffixed_rows(rows, version))
        for start in range(0, len(suffixed), CHANGED_AT_ONCE):
            some = suffixed[start : start + CHANGED_AT_ONCE]
            self._change([], some, is_versioned=version is not None)

    def delete(self, keys: Sequence[bytes], versions: Sequence[int] | None = None) -> None:
        most = [b""] * len(keys) if versions is None else list(map(_VERSION.pack, versions))
        upto = list(zip(keys, most, strict=True))
        for start in range(0, len(upto), CHANGED_AT_ONCE):
            self._change(upto[start : start + CHANGED_AT_ONCE], [])

    def _change(
        self,
        deleted: Sequence[tuple[bytes, bytes]],
        put: Sequence[tuple[bytes, bytes]],
        *,
        is_versioned: bool = True,
    ) -> None:
        arguments = table_changes(self._table, deleted, put, is_versioned)
        self._client.change(self._write, "change", int(bool(put)), b"", b"", *arguments)

    @understanding("{self._table}:*")
    def scan(self, prefixes: Sequence[bytes], limit: int) -> list[list[Row]]:
        if any(len(prefix) < self._name for prefix in prefixes):
            return self._scan_sets(prefixes, limit)
        commands = b"".join(self.scanning(prefix, limit) for prefix in prefixes)
        return list(map(self.scanned, prefixes, self._client.ask(self._read, commands, len(prefixes))))

    def scanning(self, prefix: bytes, limit: int) -> bytes:
        """The command for `scan` with a prefix that names a set."""
        rest = _escaped(prefix[self._name :])
        return self._range(prefix[: self._name], b"[" + rest, _behind(rest), limit)

    @understanding("{self._table}:*")
    def scanned(self, prefix: bytes, members: list[bytes]) -> list[Row]:
        """Its answer as rows."""
        return [row_of(prefix[: self._name], member) for member in members]

    def _scan_sets(self, prefixes: Sequence[bytes], limit: int) -> list[list[Row]]:
        """For prefixes that are shorter than the names of sets."""
        directory = self._directory()
        rows = (self._rows(directory, prefix, after_prefix(prefix), limit) for prefix in prefixes)
        return [list(islice(chain.from_iterable(each), limit)) for each in rows]

    def _range(self, name: bytes, low: bytes, high: bytes, limit: int) -> bytes:
        command = (b"ZRANGEBYLEX", self._sets + name, low, high, b"LIMIT", 0, limit)
        return packed(*command)

    def iterate(self, start: bytes = b"", stop: bytes = b"") -> Iterator[list[Row]]:
        """Rows in key order. Nothing is held in the server between batches. Raises StoreFailed if sets have
        lost rows."""
        if not stop or start < stop:
            yield from self._rows(self._directory(), start, stop, BATCH_ROWS)

    @understanding("{self._table}:*")
    def _directory(self) -> NDArray[np.bool_]:
        """Which sets have rows, by place. Raises StoreFailed if they do not have as many as were counted."""
        if self._left is not None:
            return np.frombuffer(self._left, ">u4") > 0
        directory, count = self._client.rows(self._read, "directory", self._table)
        sizes = np.frombuffer(directory + b"\0" * (-len(directory) % 4), ">u4")
        with understood(self._client, "counts"):
            is_right = count is not None and sizes.sum() == int(count)
        if not is_right:
            raise damaged(
                f"{self._read} {self._client.url}",
                f"{count.decode() if count else 'no'} rows were counted, and the directory has {sizes.sum()}",
            )
        return sizes > 0

    def _rows(
        self, directory: NDArray[np.bool_], start: bytes, stop: bytes, limit: int
    ) -> Iterator[list[Row]]:
        first = _place(start[: self._name])
        last = _place(stop[: self._name]) + 1 if stop else len(directory)
        names = [_named(first + place) for place in np.flatnonzero(directory[first:last]).tolist()]
        while names:
            some = names[:SETS_AT_ONCE]
            bounds = start, stop, limit, int(self._left is None)
            found = self._client.rows(self._read, "read", self._table, *bounds, *some)
            with understood(self._client, f"{self._table}:*"):
                if not found:
                    raise ValueError("of some sets none was read")
                rows = [
                    row_of(name, member)
                    for name, members in zip(some, found, strict=False)
                    for member in members
                ]
            if rows:
                yield rows
                start = after_read(start, rows[-1][0], f"{self._table} of {self._client.url}")
            names = names[len(found) - (len(rows) == limit) :]  # there may be more in the last one

    def compare_and_set(self, key: bytes, expected: bytes | None, value: bytes) -> bool:
        given = (0, b"") if expected is None else (1, expected)
        return bool(self._client.change(self._write, "compare_and_set", self._table, key, *given, value))

    @understanding("{self._table}:*")
    def recount(self, *, repair: bool) -> bool:
        """Count the rows again; true if that was right. repair: note what is there; otherwise this object
        reads what is there from now on, whatever was noted."""
        run = self._client.change if repair else self._client.rows
        directory, is_right = run(f"counting {self._table} of", "recount", self._table, int(repair))
        self._left = None if repair or is_right else directory
        return bool(is_right)

    @understanding("{self._table}:*")
    def approximate_size(self) -> Size:
        """Rows as counted, and bytes by a sample of the sets."""
        rows = row_count(self._client, self._table)
        names = _NAMES.copy()
        Random(1).shuffle(names)
        measured, bytes_, start, end = 0, 0, 0, MEASURED_SETS
        while rows and start < len(names) and measured < MEASURED_SETS:
            some = [self._sets + name for name in names[start:end]]
            counts = self._client.ask(self._read, packed_each("ZCARD", some), len(some))
            there = [key for key, count in zip(some, counts, strict=True) if count]
            measured, bytes_ = measured + sum(counts), bytes_ + memory_of(self._client, self._read, there)
            start, end = end, 4 * end
        # Keys shorter than a name are in sets that are not among these.
        return Size(rows, round(bytes_ / measured * rows) if measured else 100 * rows, 0.0)


def row_count(client: Client, table: str) -> int:
    doing = f"counting {table} of"
    count = client.read(doing, "HGET", client.key("counts"), table)
    if count is None:
        raise damaged(f"{doing} {client.url}", "the count is lost")
    with understood(client, "counts"):
        return int(count)


def memory_of(client: Client, doing: str, keys: Sequence[bytes]) -> int:
    """Bytes of keys and what they hold."""
    commands = b"".join(packed(b"MEMORY", b"USAGE", key) for key in keys)
    return sum((size or 0) + KEY_BYTES for size in client.ask(doing, commands, len(keys)))


def packed_each(command: str, keys: Iterable[bytes]) -> bytes:
    return b"".join(packed(command, key) for key in keys)


def suffixed_rows(
    rows: Iterable[tuple[bytes, bytes]], version: Version | None
) -> Iterator[tuple[bytes, bytes]]:
    """Keys, and versions with values."""
    for (key, value), at in zip(rows, versions_of(version), strict=False):
        yield key, _VERSION.pack(at) + value


def table_changes(
    table: RecordTable,
    deleted: Sequence[tuple[bytes, bytes]],
    put: Sequence[tuple[bytes, bytes]],
    is_versioned: bool = True,
) -> list[Argument]:
    """What change.lua is given for one table. deleted: keys, with the highest version or b"" for any."""
    return [
        table,
        int(is_versioned),
        len(deleted),
        *(part for row in deleted for part in row),
        len(put),
        *(part for row in put for part in row),
    ]


def row_of(name: bytes, member: bytes) -> Row:
    end = member.index(_END)
    key = name + member[:end].replace(_ESCAPED, b"\0")
    (version,) = _VERSION.unpack_from(member, end + 2)
    return key, Cell(member[end + 2 + _VERSION.size :], version)


def _place(name: bytes) -> int:
    """The place of a set in the directory, as in change.lua."""
    if not name:
        return 0
    return 1 + name[0] * 257 + (name[1] + 1 if len(name) > 1 else 0)


def _named(place: int) -> bytes:
    """The set at a place."""
    if not place:
        return b""
    first, second = divmod(place - 1, 257)
    return bytes((first, second - 1)) if second else bytes((first,))


def _escaped(rest: bytes) -> bytes:
    return rest.replace(b"\0", _ESCAPED)


def _behind(start: bytes) -> bytes:
    """The end of the members that start like this, for ZRANGEBYLEX."""
    end = after_prefix(start)
    return b"(" + end if end else b"+"
