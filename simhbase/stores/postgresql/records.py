"""Tables of values by byte keys: (key bytea, value bytea, version int8)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from simhbase.model.values import Size
from simhbase.stores.arrays import versions_of
from simhbase.stores.base import MET, Cell, RecordTable, Row, Version
from simhbase.stores.keys import after_prefix, after_read
from simhbase.stores.postgresql.arrays import (
    COPY_END,
    COPY_HEAD,
    big_endian,
    byte_strings,
    copied,
    integers,
)
from simhbase.stores.postgresql.client import Client
from simhbase.stores.strings import Strings, pairs

BATCH_ROWS = 10_000
COPIED_ROWS = 1_000  # from so many on, COPY is faster than INSERT
COUNTED_BYTES = 16 << 20  # smaller tables are counted
END_BYTES = 2048
_END = b"\xff" * END_BYTES  # behind all keys


class PostgresRecords:
    def __init__(self, client: Client, table: RecordTable) -> None:
        self._client = client
        self._name = table
        self._table = client.address.table(table)
        self._read, self._write = f"reading {table} of", f"writing {table} of"
        columns = f"SELECT key, value, version FROM {self._table}"
        self._get = f"{columns} WHERE key = ANY(%b)"
        self._scan = (
            "SELECT prefix.number, found.* FROM unnest(%b::bytea[], %b::bytea[]) "
            "WITH ORDINALITY AS prefix(first, behind, number), "
            f"LATERAL ({columns} WHERE key >= first AND key < behind ORDER BY key LIMIT %b::int8) AS found"
        )
        self._iterate = f"{columns} WHERE key >= %b AND key < %b ORDER BY key LIMIT {BATCH_ROWS}"
        # Counts are statistics: they need not wait for the disk, or a standby.
        at_once = ", (SELECT set_config('synchronous_commit', 'off', true)) AS setting"
        self._put = (
            f"INSERT INTO {self._table} AS old "
            "SELECT given.* FROM unnest(%b::bytea[], %b::bytea[], %b::int8[]) AS given"
            f"{at_once if table == MET else ''} "
            "ON CONFLICT (key) DO UPDATE SET value = excluded.value, version = excluded.version"
        )
        self._put_newer = f"{self._put} WHERE old.version <= excluded.version"

    def get(self, keys: Sequence[bytes]) -> list[Cell | None]:
        if not keys:
            return []
        found = self._client.rows(self._read, self._get, [byte_strings(keys)])
        cells = {key: Cell(value, version) for key, value, version in found}
        return list(map(cells.get, keys))

    def put(self, rows: Sequence[tuple[bytes, bytes]], version: Version | None = None) -> None:
        newest: dict[bytes, tuple[bytes, int]] = {}
        for (key, value), at in zip(rows, versions_of(version), strict=False):
            if key not in newest or newest[key][1] <= at:
                newest[key] = value, at
        if not newest:
            return
        keys = sorted(newest)  # so that two writers of the same rows wait for each other in one order
        columns = (
            byte_strings(keys),
            byte_strings([newest[key][0] for key in keys]),
            integers([newest[key][1] for key in keys]),
        )
        self._client.run(self._write, self._put if version is None else self._put_newer, columns)

    def put_all(self, keys: Strings, values: Strings, version: Version) -> None:
        """Write many rows inside a transaction; the keys are distinct, and nobody else writes to them."""
        if len(keys) < COPIED_ROWS:
            self.put(pairs(keys, values), version)
            return
        self.delete(keys.to_list())
        rows = copied(keys, values, big_endian(np.asarray(version, dtype=np.int64), len(keys)))
        statement = f"COPY {self._table} FROM STDIN (FORMAT binary)"
        self._client.copy(self._write, statement, COPY_HEAD, rows.data, COPY_END)

    def delete(self, keys: Sequence[bytes], versions: Sequence[int] | None = None) -> None:
        if not keys:
            return
        if versions is None:
            statement = f"DELETE FROM {self._table} WHERE key = ANY(%b)"
            self._client.run(self._write, statement, [byte_strings(keys)])
            return
        statement = (
            f"DELETE FROM {self._table} AS old USING unnest(%b::bytea[], %b::int8[]) AS gone(key, version) "
            "WHERE old.key = gone.key AND old.version <= gone.version"
        )
        self._client.run(self._write, statement, [byte_strings(keys), integers(versions)])

    def scan(self, prefixes: Sequence[bytes], limit: int) -> list[list[Row]]:
        found: list[list[Row]] = [[] for _ in prefixes]
        if not prefixes:
            return found
        bounds = byte_strings(prefixes), byte_strings([after_prefix(prefix) or _END for prefix in prefixes])
        for number, key, value, version in self._client.rows(self._read, self._scan, [*bounds, limit]):
            found[number - 1].append((key, Cell(value, version)))
        return found

    def iterate(self, start: bytes = b"", stop: bytes = b"") -> Iterator[list[Row]]:
        """Rows in key order. Nothing is held in the server between batches."""
        while rows := self._client.rows(self._read, self._iterate, [start, stop or _END]):
            yield [(key, Cell(value, version)) for key, value, version in rows]
            start = after_read(start, rows[-1][0], f"{self._name} of {self._client.address.url}")

    def compare_and_set(self, key: bytes, expected: bytes | None, value: bytes) -> bool:
        if expected is None:
            statement = (
                f"INSERT INTO {self._table} VALUES (%b, %b, 0) ON CONFLICT (key) DO NOTHING RETURNING key"
            )
            done = self._client.rows(self._write, statement, [key, value])
        else:
            statement = (
                f"UPDATE {self._table} SET value = %b, version = version + 1 WHERE key = %b AND value = %b "
                "RETURNING key"
            )
            done = self._client.rows(self._write, statement, [value, key, expected])
        if done:
            return True
        (cell,) = self.get([key])
        return cell is not None and cell.value == value

    def approximate_size(self) -> Size:
        return approximate_size(self._client, self._name)


def approximate_size(client: Client, table: str) -> Size:
    """Rows of a table, counted if it is small, and its bytes with its indexes."""
    ((size, pages, rows, known_pages),) = client.rows(
        f"measuring {table} of",
        "SELECT pg_total_relation_size(oid), pg_relation_size(oid), reltuples::float8, relpages "
        "FROM pg_class WHERE oid = %b::text::regclass",
        [client.address.table(table)],
    )
    if pages <= COUNTED_BYTES or rows < 0 or known_pages == 0:
        statement = f"SELECT count(*) FROM {client.address.table(table)}"
        ((count,),) = client.rows(f"counting {table} of", statement)
        return Size(count, size, 0.0)
    ((block,),) = client.rows(f"measuring {table} of", "SELECT current_setting('block_size')::int8")
    return Size(round(rows * pages / block / known_pages), size)
