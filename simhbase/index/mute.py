"""The mute list: documents that are hidden from lookups, by id or by fingerprint.

It is one row in the meta table, changed by compare-and-set, so any number of processes can change it. Each
process caches it for a few seconds.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

import orjson
from msgspec import Struct

from simhbase.errors import UsageError
from simhbase.index import rows
from simhbase.model.moment import Milliseconds, at, since_epoch
from simhbase.model.stored import MOST_IN_NOTE, Muted
from simhbase.model.values import Fingerprint, Match
from simhbase.stores.base import Store
from simhbase.stores.meta import MOST_TRIES, Meta, not_changed

READ_AGAIN = 5.0  # seconds that a process caches the list
MOST_BYTES = 1 << 20  # about ten thousand entries
LONGEST_PAUSE = 0.1  # seconds, after another process was faster
KEY = b"muted"  # in meta; of a scope with a slash and its prefix behind it
_NEVER = 1 << 63  # later than any moment

Name = tuple[str | None, int | None]  # an id or a fingerprint


class MutedRow(Struct, frozen=True):
    """An entry as it is stored."""

    since: Milliseconds
    note: str
    id: str | None = None
    fingerprint: Fingerprint | None = None
    until: Milliseconds | None = None

    def __post_init__(self) -> None:
        if (self.id is None) == (self.fingerprint is None):
            raise ValueError("an entry mutes an id or a fingerprint")

    @property
    def entry(self) -> Muted:
        until = None if self.until is None else at(self.until)
        return Muted(self.id, self.fingerprint, at(self.since), until, self.note)


MUTE_ROWS: Mapping[bytes, type] = {KEY: list[MutedRow]}  # JSON, by what the keys begin with


@dataclass(frozen=True, slots=True)
class Hidden:
    """Muted ids and fingerprints."""

    ids: frozenset[str] = frozenset()
    fingerprints: frozenset[int] = frozenset()

    def hides(self, document: str, fingerprint: int) -> bool:
        return document in self.ids or fingerprint in self.fingerprints

    def visible(self, matches: Iterable[Match]) -> Iterator[Match]:
        """The matches that are not muted."""
        return (each for each in matches if not self.hides(each.id, each.fingerprint))

    def __bool__(self) -> bool:
        return bool(self.ids or self.fingerprints)


NOTHING_HIDDEN = Hidden()


@dataclass(frozen=True, slots=True)
class _CachedList:
    """The list as last read. hidden: valid until the first entry ends."""

    read: float
    entries: tuple[Muted, ...]
    hidden: Hidden
    until: int


def is_mute_list(key: bytes) -> bool:
    """True for a row of meta that holds a mute list, of the store or of a scope."""
    return key == KEY or key.startswith(KEY + b"/")


@dataclass
class MuteList:
    """The mute list of a store. clock: milliseconds since 1970, for the end of entries; timer: seconds, for
    the age of the cache; key: of its row in meta."""

    store: Store
    clock: Callable[[], int]
    timer: Callable[[], float] = time.monotonic
    key: bytes = KEY
    _known: _CachedList | None = None

    def hidden(self) -> Hidden:
        """What is muted, from the cache. No lock: concurrent callers may both read the row."""
        known = self._known
        if known is None or self.timer() - known.read > READ_AGAIN:
            return self._note(self._decoded(Meta(self.store).get(self.key))).hidden
        if known.until != _NEVER and self.clock() >= known.until:
            return self._note(known.entries, known.read).hidden
        return known.hidden

    def entries(self) -> list[Muted]:
        """The current entries, oldest first."""
        now = self.clock()
        known = self._note(self._decoded(Meta(self.store).get(self.key)))
        return [entry for entry in known.entries if _holds(entry, now)]

    def mute(self, wanted: Sequence[Muted]) -> int:
        """Add entries, replacing those with the same id or fingerprint. Returns how many are new. Raises
        UsageError if the list becomes too long."""
        added = {(entry.id, entry.fingerprint): entry for entry in wanted}
        return len(added.keys() - self._replace(added.keys(), added.values()))

    def unmute(self, names: Iterable[Name]) -> int:
        """Remove ids and fingerprints. Returns how many were on the list."""
        removed = frozenset(names)
        return len(removed & self._replace(removed, ()))

    def remove(self) -> None:
        """Remove the whole list."""
        Meta(self.store).delete([self.key])
        self._note(())

    def _replace(self, removed: Set[Name], added: Iterable[Muted]) -> Set[Name]:
        """Replaces entries by compare-and-set, and drops ended ones. Returns the names before."""
        meta = Meta(self.store)
        for _ in range(MOST_TRIES):
            value, now = meta.get(self.key), self.clock()
            held = (entry for entry in self._decoded(value) if _holds(entry, now))
            before = {(entry.id, entry.fingerprint): entry for entry in held}
            entries = (*(entry for name, entry in before.items() if name not in removed), *added)
            if meta.compare_and_set(self.key, value, _encoded(entries)):
                self._note(entries)
                return before.keys()
            time.sleep(random.uniform(0, LONGEST_PAUSE))
        raise not_changed(self.store.url, self.key)

    def _decoded(self, value: bytes | None) -> tuple[Muted, ...]:
        """Raises StoreFailed for a row that is no list of entries."""
        if value is None:
            return ()
        return tuple(each.entry for each in Meta(self.store).decode(self.key, value, list[MutedRow]))

    def _note(self, entries: tuple[Muted, ...], read: float | None = None) -> _CachedList:
        now = self.clock()
        holding = [entry for entry in entries if _holds(entry, now)]
        hidden = Hidden(
            frozenset(entry.id for entry in holding if entry.id is not None),
            frozenset(entry.fingerprint for entry in holding if entry.fingerprint is not None),
        )
        ends = (since_epoch(entry.until) for entry in holding if entry.until is not None)
        self._known = known = _CachedList(
            self.timer() if read is None else read,
            entries,
            hidden or NOTHING_HIDDEN,
            min(ends, default=_NEVER),
        )
        return known


def require_valid(ids: Iterable[str], note: str) -> None:
    """Raise UsageError for an invalid id or note."""
    for document in ids:
        if problem := rows.id_problem(document):
            raise UsageError(f"{document[:80]!r} cannot be muted: {problem}")
    if not isinstance(note, str) or len(note) > MOST_IN_NOTE or not note.isprintable():
        raise UsageError(f"a note is one line of at most {MOST_IN_NOTE} printable characters")


def _holds(entry: Muted, now: int) -> bool:
    return entry.until is None or now < since_epoch(entry.until)


def _encoded(entries: Iterable[Muted]) -> bytes:
    """Encode the row. Raises UsageError if it is too long."""
    values = (
        {
            "since": since_epoch(entry.since),
            "until": None if entry.until is None else since_epoch(entry.until),
            "note": entry.note,
            "id": entry.id,
            "fingerprint": None if entry.fingerprint is None else str(entry.fingerprint),
        }
        for entry in entries
    )
    present = [{name: each for name, each in one.items() if each is not None} for one in values]
    value = orjson.dumps(present, option=orjson.OPT_SORT_KEYS)
    if len(value) > MOST_BYTES:
        raise UsageError(
            f"the mute list would have {len(value):,} bytes, at most {MOST_BYTES:,} are allowed. Delete "
            "documents that should never match again"
        )
    return value
