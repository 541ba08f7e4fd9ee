"""The index table: a row per fingerprint, or one per drawer and fingerprint.

If the layout is known, the table has one column, the fingerprint, and for each table of the layout a btree on
(segment, fingerprint), where the segment is an expression such as (fingerprint >> 48) & 65535. Otherwise rows
are (drawer, fingerprint), where drawer is segment and flag as a number of 40 bits. Fingerprints are int8, of
the same bits: those from 2^63 on are negative here and come first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.layout import SEGMENT_BITS, Layout, Run
from simhbase.errors import StoreFailed
from simhbase.model.values import Size
from simhbase.stores.arrays import (
    BATCH_ROWS,
    columns_of,
    keys_of,
    prefix_number,
    prefix_numbers,
    rows_between,
)
from simhbase.stores.base import PART_ROWS, DrawerRows, IndexRows
from simhbase.stores.postgresql.arrays import integers
from simhbase.stores.postgresql.client import Client
from simhbase.stores.postgresql.records import approximate_size

INDEX = "index"
ANSWER_ROWS = 1 << 23  # of one statement, at most
_FLAG_BITS = 8
_DRAWER = "drawer"


@dataclass(frozen=True)
class Branch:
    """The drawers of one table of a layout, in the index on (expression, fingerprint). A drawer's prefix, as
    a number of 40 bits, is the expression's value << shift | flag."""

    expression: str
    shift: int
    flag: int

    @property
    def width(self) -> int:
        """Bits of the expression's value."""
        return SEGMENT_BITS + _FLAG_BITS - self.shift


TALL = (Branch(_DRAWER, 0, 0),)


def branches_of(layout: Layout) -> tuple[Branch, ...]:
    """The branches of a layout's tables."""
    return tuple(_branch(runs, layout.bits, flag) for flag, runs in enumerate(layout.tables, 1))


def _branch(runs: tuple[Run, ...], bits: int, flag: int) -> Branch:
    room, parts = SEGMENT_BITS, list[tuple[int, int]]()  # shift to the right, width
    for run in runs:
        width = min(run.width, room)
        room -= width
        if width:
            parts.append((bits - run.start - width, width))
    terms, left = list[str](), 0
    for right, width in reversed(parts):
        taken = f"(({{0}} >> {right}) & {(1 << width) - 1})"
        terms.append(f"({taken} << {left})" if left else taken)
        left += width
    return Branch(" | ".join(reversed(terms)), room + _FLAG_BITS, flag)


class PostgresDrawers:
    """layout: of a table with a row per fingerprint; None for one with a row per drawer and fingerprint."""

    def __init__(self, client: Client, layout: Layout | None) -> None:
        self._client = client
        self._table = client.address.table(INDEX)
        self._layout = layout
        self._branches = TALL if layout is None else branches_of(layout)
        self._expressions = [branch.expression.format("fingerprint") for branch in self._branches]
        self._read = " UNION ALL ".join(
            self._read_of(number, expression) for number, expression in enumerate(self._expressions, 1)
        )

    def _read_of(self, number: int, expression: str) -> str:
        # Parameters: the values of all branches, and where each branch's begin and end.
        return f"""
            SELECT asked.place + bounds.array[{number}], found.rows
            FROM (SELECT %(bounds)b::int8[] AS array) AS bounds,
                unnest((%(values)b::int8[])[bounds.array[{number}] + 1:bounds.array[{number + 1}]])
                    WITH ORDINALITY AS asked(value, place),
                LATERAL (
                    SELECT string_agg(int8send(fingerprint), ''::bytea) AS rows FROM (
                        SELECT fingerprint FROM {self._table} WHERE {expression} = asked.value
                        ORDER BY fingerprint LIMIT %(limit)b::int8
                    ) AS drawer
                ) AS found
            WHERE found.rows IS NOT NULL"""

    def create(self) -> None:
        """Create the table, instead of an empty one for other drawers."""
        self._client.run("creating", f"DROP TABLE IF EXISTS {self._table}")
        if self._layout is None:
            columns = f"{_DRAWER} int8, fingerprint int8, PRIMARY KEY ({_DRAWER}, fingerprint)"
        else:
            columns = "fingerprint int8 PRIMARY KEY"
        self._client.run("creating", f"CREATE TABLE {self._table} ({columns})")
        if self._layout is not None:
            for expression in self._expressions:
                statement = f"CREATE INDEX ON {self._table} (({expression}), fingerprint)"
                self._client.run("creating", statement)

    def add(self, keys: NDArray[np.uint8]) -> None:
        if not keys.size:
            return
        columns = ", ".join(["%b::int8[]"] * len(self._columns(keys)))
        statement = f"INSERT INTO {self._table} SELECT * FROM unnest({columns}) ON CONFLICT DO NOTHING"
        self._client.run("writing index of", statement, self._columns(keys))

    def remove(self, keys: NDArray[np.uint8], times: NDArray[np.int64]) -> None:
        if not keys.size:
            return
        statement = f"DELETE FROM {self._table} {self._chosen}"
        self._client.run("writing index of", statement, self._columns(keys))

    def times(self, keys: NDArray[np.uint8]) -> NDArray[np.int64]:
        shape = keys.shape[:-1]
        if not keys.size:
            return np.empty(shape, dtype=np.int64)
        prefixes, fingerprints = columns_of(keys)
        if self._layout is None:
            found = self._client.rows(
                "reading index of",
                "SELECT place FROM unnest(%b::int8[], %b::int8[]) WITH ORDINALITY AS asked(d, f, place) "
                f"JOIN {self._table} ON (drawer, fingerprint) = (d, f)",
                [integers(prefixes), integers(fingerprints)],
            )
            there = np.zeros(len(fingerprints), dtype=np.bool_)
            there[[place - 1 for (place,) in found]] = True
        else:
            found = self._client.rows(
                "reading index of",
                f"SELECT fingerprint FROM {self._table} WHERE fingerprint = ANY(%b)",
                [integers(np.unique(fingerprints))],
            )
            stored = np.array([value for (value,) in found], dtype=np.int64)
            there = np.isin(fingerprints.view(np.int64), stored)
        return np.where(there, 0, -1).astype(np.int64).reshape(shape)

    @property
    def _chosen(self) -> str:
        if self._layout is None:
            return "USING unnest(%b::int8[], %b::int8[]) AS gone(d, f) WHERE (drawer, fingerprint) = (d, f)"
        return "WHERE fingerprint = ANY(%b)"

    def _columns(self, keys: NDArray[np.uint8]) -> list[bytes]:
        """The distinct rows of keys (..., 13), by columns."""
        prefixes, fingerprints = columns_of(keys)
        if self._layout is not None:
            return [integers(np.unique(fingerprints.view(np.int64)))]
        rows = np.unique(np.stack([prefixes, fingerprints.view(np.int64)]), axis=1)
        return [integers(rows[0]), integers(rows[1])]

    def read(self, prefixes: NDArray[np.uint8], limit: int | None) -> Iterator[DrawerRows]:
        most = PART_ROWS if limit is None else min(limit, PART_ROWS)
        drawers = prefix_numbers(prefixes)
        at_once = max(ANSWER_ROWS // (most + 1), 1)
        for start in range(0, len(drawers), at_once):
            long = list[tuple[int, int]]()
            yield self._part(drawers[start : start + at_once], start, most, limit, long)
            for drawer, last in long:
                yield from self._rest(drawers[drawer], drawer, last, limit)

    def _part(
        self,
        drawers: NDArray[np.int64],
        first: int,
        most: int,
        limit: int | None,
        long: list[tuple[int, int]],
    ) -> DrawerRows:
        """Up to `most` rows of each drawer. Those that go on behind it are appended to `long`, with their
        last fingerprint."""
        order, values, bounds = self._asked(drawers)
        found = self._client.rows(
            "reading index of", self._read, {"values": values, "bounds": bounds, "limit": most + 1}
        )
        numbers = first + order[[place - 1 for place, _ in found]]
        contents = [content for _, content in found]
        cut = list[int]()
        for place, content in enumerate(contents):
            if len(content) > 8 * most:
                contents[place] = content[: 8 * most]
                if most == limit:
                    cut.append(int(numbers[place]))
                else:
                    last = int.from_bytes(contents[place][-8:], signed=True)
                    long.append((int(numbers[place]), last))
        return _drawer_rows(numbers, contents, cut)

    def _asked(self, drawers: NDArray[np.int64]) -> tuple[NDArray[np.intp], bytes, bytes]:
        """An order of the drawers by branch, the values in this order, and the bounds of each branch's."""
        if self._layout is None:
            return np.arange(len(drawers)), integers(drawers), integers([0, len(drawers)])
        flags = drawers & ((1 << _FLAG_BITS) - 1)
        order = np.argsort(flags, kind="stable")
        bounds = np.searchsorted(flags[order], np.arange(1, len(self._branches) + 2))
        shifts = np.array([0, *(branch.shift for branch in self._branches)], dtype=np.int64)
        known = np.minimum(flags[order], len(self._branches))
        return order, integers(drawers[order] >> shifts[known]), integers(bounds)

    def _rest(self, prefix: np.int64, drawer: int, last: int, limit: int | None) -> Iterator[DrawerRows]:
        """Rows of a long drawer behind its first PART_ROWS."""
        place = self._place(int(prefix))
        left = None if limit is None else limit - PART_ROWS
        more = True
        while more and left != 0:
            most = PART_ROWS if left is None else min(left, PART_ROWS)
            found = self._client.rows(
                "reading index of",
                "SELECT string_agg(int8send(fingerprint), ''::bytea) FROM "
                f"(SELECT fingerprint FROM {self._table} "
                f"WHERE {self._expressions[place]} = %b::int8 AND fingerprint > %b::int8 "
                "ORDER BY fingerprint LIMIT %b::int8) AS drawer",
                [int(prefix) >> self._branches[place].shift, last, most + 1],
            )
            content = found[0][0] or b""
            more = len(content) > 8 * most
            content = content[: 8 * most]
            left = None if left is None else left - most
            yield _drawer_rows(np.array([drawer]), [content], [drawer] if more and left == 0 else [])
            self._require_order(not content or int.from_bytes(content[-8:], signed=True) > last)
            last = int.from_bytes(content[-8:], signed=True)

    def _require_order(self, is_in_order: bool) -> None:
        """Raises StoreFailed: reading would come to no end."""
        if not is_in_order:
            raise StoreFailed(
                f"reading index of {self._client.address.url} came back to where it had been: an index of "
                "the server is out of order. Make it again (REINDEX)"
            )

    def _place(self, prefix: int) -> int:
        """The number of a drawer's branch, from 0."""
        return 0 if self._layout is None else (prefix & ((1 << _FLAG_BITS) - 1)) - 1

    def asked(self, prefix: bytes) -> tuple[str, int]:
        """The expression that names a drawer in its index, and the expression's value."""
        number = int.from_bytes(prefix)
        place = self._place(number)
        return self._expressions[place], number >> self._branches[place].shift

    def iterate(self, start: bytes = b"", stop: bytes = b"") -> Iterator[IndexRows]:
        """Rows of one branch after the other. Nothing is held in the server between batches."""
        for place in range(len(self._branches)):
            for keys in self._pages(place, start, stop):
                yield from rows_between(keys, start, stop)

    def _pages(self, place: int, start: bytes, stop: bytes) -> Iterator[NDArray[np.uint8]]:
        """The keys (n, 13) of a branch, from the drawer of `start` to that of `stop`."""
        branch, expression = self._branches[place], self._expressions[place]
        value, last = (prefix_number(start) >> branch.shift) - 1, (1 << 63) - 1
        highest = prefix_number(stop) >> branch.shift if stop else last
        statement = (
            f"SELECT {expression}, fingerprint FROM {self._table} "
            f"WHERE ({expression}, fingerprint) > (%b::int8, %b::int8) AND {expression} <= %b::int8 "
            f"ORDER BY {expression}, fingerprint LIMIT {BATCH_ROWS}"
        )
        while found := self._client.rows("reading index of", statement, [value, last, highest]):
            drawers, values = np.array(found, dtype=np.int64).T.copy()
            fingerprints = values.view(np.uint64)
            order = np.lexsort((fingerprints, drawers))  # the server sorts signed numbers
            yield keys_of(drawers[order] << branch.shift | branch.flag, fingerprints[order])
            self._require_order(found[-1] > (value, last))
            value, last = found[-1]

    def approximate_size(self) -> Size:
        """As many rows as there are drawers with a fingerprint, also where they are derived."""
        size = approximate_size(self._client, INDEX)
        return Size(size.rows * len(self._branches), size.bytes, size.error)


def _drawer_rows(numbers: NDArray[np.int64], contents: list[bytes], cut: list[int]) -> DrawerRows:
    lengths = np.fromiter(map(len, contents), np.int64, len(contents)) // 8
    fingerprints = np.frombuffer(b"".join(contents), dtype=">u8").astype(np.uint64)
    order = np.lexsort((fingerprints, np.repeat(np.arange(len(lengths)), lengths)))
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
    return DrawerRows(numbers.astype(np.int64), offsets, fingerprints[order], np.array(cut, dtype=np.int64))
