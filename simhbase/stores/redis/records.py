"""Tables of values by byte keys, as members of sorted sets: see change.lua."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from random import Random

from simhbase.model import Size
from simhbase.stores.arrays import after_key, after_prefix, versions_of
from simhbase.stores.base import Cell, RecordTable, Row, Version
from simhbase.stores.redis.client import Argument, Client, packed

BATCH_ROWS = 10_000
CHANGED_AT_ONCE = 10_000  # rows of one call, which the server answers nobody else during
SETS_AT_ONCE = 5_000
MEASURED_SETS = 64
KEY_BYTES = 16  # of a key in the server's table of all keys, which MEMORY USAGE leaves out
_NAME = 2  # bytes of a key that name its set
_END, _ESCAPED = b"\0\0", b"\0\xff"
_VERSION = struct.Struct(">q")
_NAMES = [bytes(divmod(number, 256)) for number in range(1 << 16)]


class RedisRecords:
    def __init__(self, client: Client, table: RecordTable) -> None:
        self._client = client
        self._table = table
        self._read, self._write = f"reading {table} of", f"writing {table} of"
        self._sets = client.key(f"{table}:")

    def get(self, keys: Sequence[bytes]) -> list[Cell | None]:
        commands = list[bytes]()
        for key in keys:
            start = _escaped(key[_NAME:]) + b"\0"
            commands.append(self._range(key[:_NAME], b"[" + start + b"\0", b"(" + start + b"\1", 1))
        found = self._client.ask(self._read, b"".join(commands), len(commands))
        return [_row(b"", members[0])[1] if members else None for members in found]

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

    def scan(self, prefixes: Sequence[bytes], limit: int) -> list[list[Row]]:
        commands = [
            self._range(prefix[:_NAME], b"[" + (rest := _escaped(prefix[_NAME:])), _behind(rest), limit)
            for prefix in prefixes
            if len(prefix) >= _NAME
        ]
        answers = iter(self._client.ask(self._read, b"".join(commands), len(commands)))
        return [
            [_row(prefix[:_NAME], member) for member in next(answers)]
            if len(prefix) >= _NAME
            else list(islice(chain.from_iterable(self._rows(prefix, after_prefix(prefix), limit)), limit))
            for prefix in prefixes
        ]

    def _range(self, name: bytes, low: bytes, high: bytes, limit: int) -> bytes:
        command = (b"ZRANGEBYLEX", self._sets + name, low, high, b"LIMIT", 0, limit)
        return packed(*command)

    def iterate(self, start: bytes = b"", stop: bytes = b"") -> Iterator[list[Row]]:
        """Rows in key order. Nothing is held in the server between batches."""
        if not stop or start < stop:
            yield from self._rows(start, stop, BATCH_ROWS)

    def _rows(self, start: bytes, stop: bytes, limit: int) -> Iterator[list[Row]]:
        more = 1
        while more:
            more, following, *found = self._client.iterate(
                self._read, self._table, start, stop, limit, SETS_AT_ONCE
            )
            rows = [
                _row(name, member)
                for name, members in zip(found[::2], found[1::2], strict=True)
                for member in members
            ]
            if rows:
                yield rows
                start = after_key(rows[-1][0])
            start = following or start

    def compare_and_set(
        self, key: bytes, expected: bytes | None, value: bytes, *, never_empty: bool = False
    ) -> bool:
        given = (0, b"") if expected is None else (1, expected)
        return bool(self._client.change(self._write, "compare_and_set", self._table, key, *given, value))

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
        return Size(rows, round(bytes_ / measured * rows) if measured else 100 * rows)


def row_count(client: Client, table: str) -> int:
    return int(client.read(f"counting {table} of", "HGET", client.key("counts"), table) or 0)


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


def _row(name: bytes, member: bytes) -> Row:
    end = member.index(_END)
    key = name + member[:end].replace(_ESCAPED, b"\0")
    (version,) = _VERSION.unpack_from(member, end + 2)
    return key, Cell(member[end + 2 + _VERSION.size :], version)


def _escaped(rest: bytes) -> bytes:
    return rest.replace(b"\0", _ESCAPED)


def _behind(start: bytes) -> bytes:
    """The end of the members that start like this, for ZRANGEBYLEX."""
    end = after_prefix(start)
    return b"(" + end if end else b"+"
