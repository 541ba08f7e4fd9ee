"""The table meta: rows by name, each with a checksum. The counter of tickets has none, as HBase counts only
in plain integers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from simhbase.errors import BadInput, StoreFailed
from simhbase.model import wire
from simhbase.stores.base import Records, RecordTable, Row
from simhbase.stores.checked import checked, unchecked
from simhbase.stores.keys import after_prefix

TICKETS = b"claim tickets"  # counter of the batches of claims, where many processes write
MOST_TRIES = 100  # of a change, each of which fails if another process was faster
_COUNTER_BYTES = 8
_RESTORE = "Restore the store from a copy, or copy what can be read: simhbase migrate --salvage"
_REMEDIES = (
    (b"muted", "'simhbase check --repair' removes the list: then mute again what was on it"),
    (b"load", "'simhbase check --repair' removes it: the load then begins from its first document"),
    (b"claims/", "'simhbase vacuum' removes it when it has not changed for a day"),
)


T = TypeVar("T")


class _Tables(Protocol):
    """What is needed of a store."""

    @property
    def url(self) -> str: ...

    def records(self, table: RecordTable) -> Records: ...


@dataclass(frozen=True)
class Meta:
    """The rows of a store's table meta, without their checksums. Raises StoreFailed for a damaged row, with
    its name and what to do."""

    store: _Tables

    def get(self, key: bytes) -> bytes | None:
        (cell,) = self.store.records("meta").get([key])
        return cell and self._read(key, cell.value)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of keys, None if a key is absent."""
        cells = self.store.records("meta").get(keys)
        return [cell and self._read(key, cell.value) for key, cell in zip(keys, cells, strict=True)]

    def under(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Rows whose keys begin with a prefix, in order."""
        for rows in self.store.records("meta").iterate(prefix, after_prefix(prefix)):
            yield from ((key, self._read(key, cell.value)) for key, cell in rows)

    def put(self, rows: Sequence[tuple[bytes, bytes]]) -> None:
        self.store.records("meta").put([(key, checked(key, value)) for key, value in rows])

    def compare_and_set(self, key: bytes, expected: bytes | None, value: bytes) -> bool:
        """As `Records.compare_and_set`."""
        before = None if expected is None else checked(key, expected)
        return self.store.records("meta").compare_and_set(key, before, checked(key, value))

    def delete(self, keys: Sequence[bytes]) -> None:
        self.store.records("meta").delete(keys)

    def delete_under(self, prefix: bytes) -> None:
        """Delete the rows whose keys begin with a prefix, also damaged ones."""
        for rows in self.store.records("meta").iterate(prefix, after_prefix(prefix)):
            self.store.records("meta").delete([key for key, _ in rows])

    def decode(self, key: bytes, value: bytes, kind: type[T]) -> T:
        """A row's JSON as a value of a type. A checksum says only that a row is as it was written."""
        try:
            return wire.decode(value, kind)
        except BadInput as error:
            raise self.damaged(key, error) from error

    def damaged(self, key: bytes, problem: object) -> StoreFailed:
        """The error of a damaged row."""
        return StoreFailed(
            f"the row {quoted(key)} of the table meta of {self.store.url} is damaged: {problem}. "
            f"{remedy(key)}"
        )

    def _read(self, key: bytes, value: bytes) -> bytes:
        try:
            return unchecked(key, value)
        except ValueError as error:
            raise self.damaged(key, error) from error


def damaged_in(rows: Sequence[Row], kinds: Mapping[bytes, type]) -> list[bytes]:
    """The keys of the damaged ones among some rows of meta. kinds: types of JSON, by what their keys begin
    with."""
    damaged = []
    for key, cell in rows:
        if key == TICKETS:
            if len(cell.value) != _COUNTER_BYTES:
                damaged.append(key)
            continue
        try:
            content = unchecked(key, cell.value)
            for start, kind in kinds.items():
                if key.startswith(start):
                    wire.decode(content, kind)
        except (ValueError, BadInput):
            damaged.append(key)
    return damaged


def quoted(key: bytes) -> str:
    """The name of a row, for messages: bytes that are no text, and control characters, as their codes."""
    text = key.decode(errors="backslashreplace")
    return "'" + "".join(each if each.isprintable() else repr(each)[1:-1] for each in text) + "'"


def not_changed(url: str, key: bytes) -> StoreFailed:
    """The error of a change of meta that was refused MOST_TRIES times."""
    return StoreFailed(
        f"the row {quoted(key)} of the table meta of {url} was not changed: {MOST_TRIES} tries were refused, "
        "as if another process had been faster each time. Try again. If no other process changes the row, "
        "the server or a proxy before it refuses such changes: look at its log"
    )


def remedy(key: bytes) -> str:
    """What to do about a damaged row."""
    return next((advice for start, advice in _REMEDIES if key.startswith(start)), _RESTORE)
