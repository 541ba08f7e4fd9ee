"""Reads what is left of a store that has lost keys, and changes nothing.

Elsewhere a table is read by its directory and verified by its count; here by the sets that are there.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from simhbase.errors import TablesMissing
from simhbase.model.values import Size
from simhbase.stores.base import NoteDamage, RecordTable, Row
from simhbase.stores.redis.client import scanned, understanding, understood
from simhbase.stores.redis.records import BATCH_ROWS, RedisRecords, packed_each, row_of
from simhbase.stores.redis.store import RedisStore

_SETS_AT_ONCE = 1_000


def open_damaged(url: str, note: NoteDamage) -> RedisStore:
    """Open what is left of a store. Raises TablesMissing if there are no keys, StoreUnreachable,
    StoreFailed."""
    store = RedisRemains(url, "read")
    try:
        store.open()
        store.compare_counts(note)
    except BaseException:
        store.close()
        raise
    return store


class RedisRemains(RedisStore):
    """A store that is not compared with the identity of its tables, which may be lost."""

    def new_records(self, table: RecordTable) -> RedisRecords:
        return RemainingRecords(self._client, table)

    def open(self) -> None:
        self._require_usable()
        if not self.existing():
            prefix = self._client.address.prefix
            raise TablesMissing(f"{self.url}: there are no keys with the prefix {prefix}")

    @understanding("counts")
    def compare_counts(self, note: NoteDamage) -> None:
        """Notes tables that do not have as many rows as were counted."""
        for table, records in self._records.items():
            counted = self._client.read("counting", "HGET", self._client.key("counts"), table)
            there = records.approximate_size().rows
            if counted != b"%d" % there:
                is_number = counted is not None and counted.isdigit()
                said = f"{int(counted):,} were counted" if is_number else "their count is lost or damaged"
                note(table, f"{there:,} rows are there, {said}")


class RemainingRecords(RedisRecords):
    def iterate(self, start: bytes = b"", stop: bytes = b"") -> Iterator[list[Row]]:
        """Rows of the sets that are there, in key order."""
        for name in self._sets_there():
            low = b"-"
            while members := self._client.read(
                self._read, "ZRANGEBYLEX", self._sets + name, low, "+", "LIMIT", 0, BATCH_ROWS
            ):
                with understood(self._client, f"{self._table}:*"):
                    if low != b"-" and b"(" + members[-1] <= low:
                        raise ValueError("reading a set came back to where it had been")
                    low = b"(" + members[-1]
                    rows = [row_of(name, member) for member in members]
                if found := [row for row in rows if start <= row[0] and not (stop and row[0] >= stop)]:
                    yield found

    @understanding("{self._table}:*")
    def approximate_size(self) -> Size:
        """How many rows there are, exactly; not how many bytes."""
        names, total = self._sets_there(), 0
        for first in range(0, len(names), _SETS_AT_ONCE):
            keys = [self._sets + name for name in names[first : first + _SETS_AT_ONCE]]
            total += sum(self._client.ask(self._read, packed_each("ZCARD", keys), len(keys)))
        return Size(total, 0)

    @understanding("{self._table}:*")
    def _sets_there(self) -> list[bytes]:
        keys = chain.from_iterable(scanned(self._client, self._read, self._sets + b"*", BATCH_ROWS))
        names = {key.removeprefix(self._sets) for key in keys}
        return sorted(name for name in names if len(name) <= self._name)
