"""The mute list: documents that are no matches for a time, by their ids or by their fingerprints.

It is one row of the table meta, changed by compare-and-set alone, so that any number of processes may change
it at once. Lookups do not read it each time: a process knows it as it was a few seconds ago.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import orjson

from simhbase.errors import UsageError
from simhbase.index import rows
from simhbase.stores.base import Store

READ_AGAIN = 5.0  # seconds after which a process looks whether others have changed the list
MOST_BYTES = 1 << 20  # of the row: some ten thousand entries, which every process reads again and again
MOST_IN_NOTE = 500  # characters
_KEY = b"muted"  # in meta
_NEVER = 1 << 63  # later than any moment

Name = tuple[str | None, int | None]  # an id or a fingerprint


@dataclass(frozen=True, slots=True)
class Muted:
    """An entry of the mute list: a document by its id, or all documents of a fingerprint.

    since, until: when it was put there and when it ends, in milliseconds since 1970; until: None for ever.
    """

    since: int
    until: int | None = None
    note: str = ""
    id: str | None = None
    fingerprint: int | None = None

    @property
    def name(self) -> Name:
        """The id or the fingerprint."""
        return self.id, self.fingerprint

    def holds(self, now: int) -> bool:
        """Whether it has not ended."""
        return now < (_NEVER if self.until is None else self.until)


Entries = Mapping[Name, Muted]


@dataclass(frozen=True, slots=True)
class Hidden:
    """What lookups leave out now: documents by id, and all documents of fingerprints."""

    ids: frozenset[str] = frozenset()
    fingerprints: frozenset[int] = frozenset()

    def hides(self, document: str, fingerprint: int) -> bool:
        """Whether a document is muted."""
        return document in self.ids or fingerprint in self.fingerprints

    def __bool__(self) -> bool:
        return bool(self.ids or self.fingerprints)


NOTHING_HIDDEN = Hidden()


@dataclass(frozen=True, slots=True)
class _Known:
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
        self._known: _Known | None = None

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
        return [entry for entry in known.entries if entry.holds(now)]

    def mute(self, wanted: Sequence[Muted]) -> int:
        """Puts entries into the list, or in the place of those that have the same id or fingerprint; returns
        how many of these were not there. Raises UsageError where the list would be too long."""
        added = {entry.name: entry for entry in wanted}

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
            before = {entry.name: entry for entry in _decoded(value) if entry.holds(now)}
            entries = tuple(change(before))
            if self._meta.compare_and_set(_KEY, value, _encoded(entries)):
                self._note(entries)
                return before

    def _value(self) -> bytes | None:
        (cell,) = self._meta.get([_KEY])
        return None if cell is None else cell.value

    def _note(self, entries: tuple[Muted, ...], read: float | None = None) -> _Known:
        """Remembers the list."""
        now = self._clock()
        holding = [entry for entry in entries if entry.holds(now)]
        hidden = Hidden(
            frozenset(entry.id for entry in holding if entry.id is not None),
            frozenset(entry.fingerprint for entry in holding if entry.fingerprint is not None),
        )
        ends = (entry.until for entry in holding if entry.until is not None)
        self._known = known = _Known(
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


def _encoded(entries: Iterable[Muted]) -> bytes:
    """The row's value. Raises UsageError where it is too long."""
    values = (
        {name: value for name, value in asdict(entry).items() if value is not None}
        | ({} if entry.fingerprint is None else {"fingerprint": f"{entry.fingerprint:016x}"})
        for entry in entries
    )
    value = orjson.dumps(list(values), option=orjson.OPT_SORT_KEYS)
    if len(value) > MOST_BYTES:
        raise UsageError(
            f"the mute list would have {len(value):,} bytes, and {MOST_BYTES:,} are allowed: every process "
            "reads it again and again. Delete documents that are to be no matches for ever"
        )
    return value


def _decoded(value: bytes | None) -> tuple[Muted, ...]:
    """The entries of a row's value."""
    return tuple(
        Muted(**found | ({"fingerprint": int(found["fingerprint"], 16)} if "fingerprint" in found else {}))
        for found in ([] if value is None else orjson.loads(value))
    )
