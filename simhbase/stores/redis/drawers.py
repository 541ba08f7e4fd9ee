"""The index table: a set of fingerprints for each drawer.

Its key is PREFIX:FLAG:SEGMENT in hexadecimal, such as news:01:01230000. Members are fingerprints as int8, of
the same 64 bits (those from 2^63 on are negative): of integers Redis makes arrays of 8 bytes each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.rowkeys import FLAG, KEY_BYTES, PREFIX_BYTES
from simhbase.model.values import Size
from simhbase.stores.arrays import keys_of, limited, prefix_number, prefixes_of, rows_between, to_bytes
from simhbase.stores.base import PART_ROWS, DrawerHits, DrawerRows, IndexRows
from simhbase.stores.redis.client import (
    FIRST_CURSOR,
    Client,
    ScanEnd,
    packed,
    scanned,
    understanding,
    understood,
)
from simhbase.stores.redis.records import memory_of, packed_each, row_count

NAME_BYTES = 11  # FLAG:SEGMENT
_DECIMAL = np.dtype("S21")  # with a zero at its end
ROWS_AT_ONCE = 50_000  # changed by one call, which the server answers nobody else during
FIRST_DRAWERS, MOST_DRAWERS = 1024, 8192  # of one call
SCANNED = 10_000
ALL = 1 << 40  # members of a set
MEASURED_DRAWERS, MEASURING_SCANS = 64, 100
_HEX = np.frombuffer(bytes(range(256)).hex().encode(), np.uint8).reshape(-1, 2)
_WORD = (1 << 64) - 1
_READ, _WRITE = "reading index of", "writing index of"


class RedisDrawers:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._head = client.key("")
        self._commands: dict[int, tuple[bytes, bytes]] = {}  # by the members that are asked for

    def add(self, keys: NDArray[np.uint8]) -> None:
        self._change(keys, is_added=True)

    def remove(self, keys: NDArray[np.uint8], times: NDArray[np.int64]) -> None:
        self._change(keys, is_added=False)

    def _change(self, keys: NDArray[np.uint8], is_added: bool) -> None:
        rows = keys.reshape(-1, KEY_BYTES)
        for start in range(0, len(rows), ROWS_AT_ONCE):
            some = packed_rows(rows[start : start + ROWS_AT_ONCE])
            both = (b"", some) if is_added else (some, b"")
            self._client.change(_WRITE, "change", int(is_added), *both)

    @understanding("??:????????")
    def times(self, keys: NDArray[np.uint8]) -> NDArray[np.int64]:
        rows = np.ascontiguousarray(keys).reshape(-1, KEY_BYTES)
        names, values = to_bytes(_names(rows[:, :PREFIX_BYTES])), _decimals(rows).tolist()
        commands = b"".join(
            packed(b"SISMEMBER", self._head + name, value) for name, value in zip(names, values, strict=True)
        )
        there = np.array(self._client.ask(_READ, commands, len(rows)), dtype=np.int64)
        return (there - 1).reshape(keys.shape[:-1])

    def read(self, prefixes: NDArray[np.uint8], limit: int | None) -> Iterator[DrawerRows]:
        names, start, at_once = _names(prefixes), 0, FIRST_DRAWERS
        while start < len(names):
            part = self._part(names[start : start + at_once], start, limit)
            yield part
            start += at_once
            most = PART_ROWS * start // max(len(part.fingerprints), 1)
            at_once = min(max(most, 1), MOST_DRAWERS)

    @understanding("??:????????")
    def _part(self, names: NDArray[np.uint8], first: int, limit: int | None) -> DrawerRows:
        """Of a drawer with more rows than the limit, the first ones of what the server sends, which is little
        more."""
        found = self._members(names, ALL if limit is None else limit + 1)
        lengths = np.fromiter(map(len, found), np.int64, len(found))
        values = np.array([], dtype=np.int64)
        if lengths.any():
            text = b" ".join([b" ".join(members) for members in found if members])
            values = np.fromstring(text, dtype=np.int64, sep=" ")
            if len(values) != lengths.sum():
                raise ValueError("a set has other members than integers")
        fingerprints = values.view(np.uint64)[_order(values, lengths)]
        return limited(first, lengths, fingerprints, limit)

    def _members(self, names: NDArray[np.uint8], most: int) -> list[list[bytes]]:
        """The members of each drawer, or at least `most` of them."""
        # The commands have equal lengths: they are rows of one array.
        before, behind = self._scanning(most)
        command = np.frombuffer(before + bytes(NAME_BYTES) + behind, np.uint8)
        commands = np.tile(command, (len(names), 1))
        commands[:, len(before) : len(before) + NAME_BYTES] = names
        answers = self._client.ask(_READ, commands.tobytes(), len(names))
        return [
            members if cursor == FIRST_CURSOR else self._whole(name.tobytes(), (cursor, members), most)
            for name, (cursor, members) in zip(names, answers, strict=True)
        ]

    def _scanning(self, most: int) -> tuple[bytes, bytes]:
        """What is before and behind a drawer's name in the command that reads it."""
        found = self._commands.get(most)
        if found is None:
            nameless = b"-" * NAME_BYTES
            command = packed("SSCAN", self._head + nameless, 0, "COUNT", most)
            before, _, behind = command.rpartition(nameless)
            found = self._commands[most] = before, behind
        return found

    def _whole(self, name: bytes, answer: tuple[bytes, list[bytes]], most: int) -> list[bytes]:
        """The members of a drawer, or at least `most` of them, given a first answer."""
        (cursor, found), end = answer, ScanEnd(self._client, self._head + name)
        while not end.is_reached(cursor) and len(found) < most:  # many were removed from the set
            cursor, more = self._client.read(_READ, "SSCAN", self._head + name, cursor, "COUNT", most)
            found = list({*found, *more})
        return found

    def asking(self, names: Sequence[bytes], limit: int | None) -> bytes:
        """The commands that read drawers for `hits`."""
        before, behind = self._scanning(_most(limit))
        return before + (behind + before).join(names) + behind

    @understanding("??:????????")
    def hits(
        self, value: int, names: Sequence[bytes], answers: Sequence[Any], bits: int, limit: int | None
    ) -> DrawerHits:
        """Fingerprints within `bits` bits of one, in the rows that `read` gives of these drawers."""
        near, truncated, sizes = dict[int, int](), False, list[int]()
        for name, (cursor, members) in zip(names, answers, strict=True):
            if cursor != FIRST_CURSOR:
                members = self._whole(name, (cursor, members), _most(limit))
            found = [int(member) & _WORD for member in members]
            if limit is not None and len(found) > limit:
                found, truncated = sorted(found)[:limit], True
            sizes.append(len(found))
            for each in found:
                if (far := (each ^ value).bit_count()) <= bits:
                    near[each] = far
        return DrawerHits(near, truncated, sum(sizes), max(sizes, default=0))

    def iterate(self, start: bytes = b"", stop: bytes = b"") -> Iterator[IndexRows]:
        """Rows of one drawer after the other, as the server has them. Where it makes its table of keys
        smaller meanwhile, it may name a drawer a second time, soon after the first."""
        low, high = prefix_number(start), prefix_number(stop or b"\xff" * PREFIX_BYTES)
        numbers = np.empty(0, dtype=np.int64)
        for names in self._scanned():
            with understood(self._client, "??:????????"):
                numbers = np.setdiff1d(_numbers(names), numbers)
            wanted = numbers[(numbers >= low) & (numbers <= high)]
            for part in self.read(prefixes_of(wanted), None):
                drawers = np.repeat(wanted[part.drawers], np.diff(part.offsets))
                yield from rows_between(keys_of(drawers, part.fingerprints), start, stop)

    def _scanned(self) -> Iterator[list[bytes]]:
        """Keys of drawers, in no order; some may come twice."""
        return scanned(self._client, _READ, self._head + b"??:????????", SCANNED)

    @understanding("??:????????")
    def count(self) -> int:
        """Rows of all drawers."""
        total, before = 0, set[bytes]()
        for names in self._scanned():
            some = [name for name in names if name not in before]
            total += sum(self._client.ask(_READ, packed_each("SCARD", some), len(some)))
            before = set(names)
        return total

    @understanding("??:????????")
    def approximate_size(self) -> Size:
        """Rows as counted, and bytes by a sample of the drawers."""
        rows, keys = row_count(self._client, "index"), list[bytes]()
        for _, some in zip(range(MEASURING_SCANS), self._scanned() if rows else (), strict=False):
            keys += some[:MEASURED_DRAWERS]
            if len(keys) >= MEASURED_DRAWERS:
                break
        counts = self._client.ask(_READ, packed_each("SCARD", keys), len(keys))
        bytes_ = memory_of(self._client, _READ, keys)
        return Size(rows, round(bytes_ / sum(counts) * rows) if any(counts) else 0, 0.0)


def name_of(prefix: bytes) -> bytes:
    """The key of a drawer, without what all keys begin with."""
    digits = prefix.hex()
    return f"{digits[2 * FLAG :]}:{digits[: 2 * FLAG]}".encode()


def _most(limit: int | None) -> int:
    """How many members of a drawer are asked for: one more says that there are more."""
    return ALL if limit is None else limit + 1


def packed_rows(keys: NDArray[np.uint8]) -> bytes:
    """Rows (n, 13) as change.lua takes them: names of drawers, and fingerprints as decimals."""
    rows = np.ascontiguousarray(keys)
    decimals = _decimals(rows).view(np.uint8).reshape(len(rows), _DECIMAL.itemsize)
    return np.concatenate([_names(rows[:, :PREFIX_BYTES]), decimals], axis=1).tobytes()


def _decimals(rows: NDArray[np.uint8]) -> NDArray[np.bytes_]:
    """The fingerprints of keys (n, 13)."""
    values = np.ascontiguousarray(rows[:, PREFIX_BYTES:]).view(">i8").ravel()
    return values.astype(np.int64).astype(_DECIMAL)


def _names(prefixes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Names of drawers, FLAG:SEGMENT: uint8 (n, 5) -> uint8 (n, 11)."""
    digits = _HEX[prefixes].reshape(-1, 2 * PREFIX_BYTES)
    names = np.empty((len(prefixes), NAME_BYTES), dtype=np.uint8)
    names[:, :2] = digits[:, 2 * FLAG :]
    names[:, 2] = ord(":")
    names[:, 3:] = digits[:, : 2 * FLAG]
    return names


def _numbers(keys: list[bytes]) -> NDArray[np.int64]:
    """Prefixes of drawers as numbers of 40 bits, given their keys."""
    names = (key[-NAME_BYTES:] for key in keys)
    return np.array([int(name[3:] + name[:2], 16) for name in names], dtype=np.int64)


def _order(values: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.intp]:
    """The order by drawer and then by unsigned value."""
    drawers = np.repeat(np.arange(len(lengths)), lengths)
    is_ascending = values[1:] >= values[:-1]
    if (is_ascending | (drawers[1:] != drawers[:-1])).all():  # sets of integers come like this
        return np.argsort(2 * drawers + (values < 0), kind="stable")
    return np.lexsort((values.view(np.uint64), drawers))
