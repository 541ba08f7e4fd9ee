"""The mute list: documents that are no matches for a time, by their ids or by their fingerprints.

It is one row of the table meta, changed by compare-and-set alone, so that any number of processes may change
it at once. Lookups do not read it each time: a process knows it as it was a few seconds ago.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import orjson

from simhbase.errors import UsageError
from simhbase.index import rows
from simhbase.index.moment import at, since_epoch
from simhbase.model import MOST_IN_NOTE, Fingerprint, Muted
from simhbase.stores.base import Store

READ_AGAIN = 5.0  # seconds after which a process looks whether others have changed the list
MOST_BYTES = 1 << 20  # of the row: some ten thousand entries, which every process reads again and again
_KEY = b"muted"  # in meta
_NEVER = 1 << 63  # later than any moment

Name = tuple[str | None, int | None]  # an id or a fingerprint


Entries = Mapping[Name, Muted]


@dataclass(frozen=True, slots=True)
class Hidden:
    """What lookups leave out now: documents by id, and all documents of fingerprints."""

    ids: frozenset[str] = frozenset()
    fingerprints: frozenset[int] = frozenset()

    def hides(self, document: str, fingerprint: int) -> bool:
        return document in self.ids or fingerprint in self.fingerprints

    def __bool__(self) -> bool:
        return bool(self.ids or self.fingerprints)


NOTHING_HIDDEN = Hidden()


@dataclass(frozen=True, slots=True)
class _CachedList:
    """The list as it was read: hidden is right until one of the entries ends."""

    read: float
    entries: tuple[Muted, ...]
    hidden: Hidden
    until: int


class MuteList:
    """The mute list of a store. clock: milliseconds since 1970, by which entries end; timer: seconds, by
    which the list is read again."""

    def __init__(
        self, store: Store, clock: Callable[[], int], timer: Callable[[], float] = time.monotonic
    ) -> None:
        self._meta = store.records("meta")
        self._clock = clock
        self._timer = timer
        self._known: _CachedList | None = None

    def hidden(self) -> Hidden:
        """What it hides, as far as is known from the last few seconds. No lock: who comes at the same moment
        as another reads the row, too."""
        known = self._known
        if known is None or self._timer() - known.read > READ_AGAIN:
            return self._note(_decoded(self._value())).hidden
        if self._clock() >= known.until:
            return self._note(known.entries, known.read).hidden
        return known.hidden

    def entries(self) -> list[Muted]:
        """The entries that have not ended, the oldest first."""
        now = self._clock()
        known = self._note(_decoded(self._value()))
        return [entry for entry in known.entries if _holds(entry, now)]

    def mute(self, wanted: Sequence[Muted]) -> int:
        """Puts entries into the list, or in the place of those that have the same id or fingerprint; returns
        how many of these were not there. Raises UsageError where the list would be too long."""
        added = {_name(entry): entry for entry in wanted}

        def change(found: Entries) -> Iterable[Muted]:
            return (*(entry for name, entry in found.items() if name not in added), *added.values())

        return len(added.keys() - self._change(change).keys())

    def unmute(self, names: Iterable[Name]) -> int:
        """Takes ids and fingerprints out of the list; returns how many of them were there."""
        removed = frozenset(names)

        def change(found: Entries) -> Iterable[Muted]:
            return (entry for name, entry in found.items() if name not in removed)

        return len(removed.intersection(self._change(change)))

    def _change(self, change: Callable[[Entries], Iterable[Muted]]) -> Entries:
        """Changes the list, whoever else does so at once; returns what it was. What has ended goes."""
        while True:
            value = self._value()
            now = self._clock()
            before = {_name(entry): entry for entry in _decoded(value) if _holds(entry, now)}
            entries = tuple(change(before))
            if self._meta.compare_and_set(_KEY, value, _encoded(entries)):
                self._note(entries)
                return before

    def _value(self) -> bytes | None:
        (cell,) = self._meta.get([_KEY])
        return None if cell is None else cell.value

    def _note(self, entries: tuple[Muted, ...], read: float | None = None) -> _CachedList:
        now = self._clock()
        holding = [entry for entry in entries if _holds(entry, now)]
        hidden = Hidden(
            frozenset(entry.id for entry in holding if entry.id is not None),
            frozenset(entry.fingerprint for entry in holding if entry.fingerprint is not None),
        )
        ends = (since_epoch(entry.until) for entry in holding if entry.until is not None)
        self._known = known = _CachedList(
            self._timer() if read is None else read,
            entries,
            hidden or NOTHING_HIDDEN,
            min(ends, default=_NEVER),
        )
        return known


def require_ids(ids: Iterable[str]) -> None:
    """Raises UsageError for an id that no document can have."""
    for document in ids:
        if problem := rows.id_problem(document):
            raise UsageError(f"{document[:80]!r} cannot be muted, as no document has such an id: {problem}")


def require_note(note: str) -> None:
    """Raises UsageError for what is no note."""
    if not isinstance(note, str) or len(note) > MOST_IN_NOTE or not note.isprintable():
        raise UsageError(f"a note is one line of at most {MOST_IN_NOTE} printable characters")


def _name(entry: Muted) -> Name:
    return entry.id, entry.fingerprint


def _holds(entry: Muted, now: int) -> bool:
    return entry.until is None or now < since_epoch(entry.until)


def _encoded(entries: Iterable[Muted]) -> bytes:
    """The row's value. Raises UsageError where it is too long."""
    value = orjson.dumps(list(map(_values, entries)), option=orjson.OPT_SORT_KEYS)
    if len(value) > MOST_BYTES:
        raise UsageError(
            f"the mute list would have {len(value):,} bytes, and {MOST_BYTES:,} are allowed: every process "
            "reads it again and again. Delete documents that are to be no matches for ever"
        )
    return value


def _values(entry: Muted) -> dict[str, object]:
    """An entry as the row has it: without what is None."""
    values = {
        "since": since_epoch(entry.since),
        "until": None if entry.until is None else since_epoch(entry.until),
        "note": entry.note,
        "id": entry.id,
        "fingerprint": None if entry.fingerprint is None else str(entry.fingerprint),
    }
    return {name: value for name, value in values.items() if value is not None}


def _decoded(value: bytes | None) -> tuple[Muted, ...]:
    return tuple(
        Muted(
            found.get("id"),
            Fingerprint(found["fingerprint"], 16) if "fingerprint" in found else None,
            at(found["since"]),
            at(found["until"]) if "until" in found else None,
            found["note"],
        )
        for found in ([] if value is None else orjson.loads(value))
    )
