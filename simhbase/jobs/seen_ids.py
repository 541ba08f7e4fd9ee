"""Rejects records whose id came before in the same run: the first one is kept. In bounded memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from simhbase.corpus.given import ROWS
from simhbase.corpus.record import Record, Reject

if TYPE_CHECKING:
    from simhbase.jobs.pipeline import Batch
    from simhbase.stores.rocksdb.scratch import Scratch

IN_MEMORY = 1 << 18  # ids, in 40 MB
_PLACE_BYTES, _LINE_BITS = 12, 64  # of a place: the number of a source above a line
_LINES = (1 << _LINE_BITS) - 1


class FirstSeen(NamedTuple):
    source: str
    line: int


@dataclass
class SeenIds:
    """The ids of one run, and where each was first seen: the newest in memory, the others in a Scratch."""

    in_memory: int = IN_MEMORY
    _newest: dict[bytes, int] = field(default_factory=dict)  # places
    _older: Scratch | None = None
    _sources: list[str] = field(default_factory=list)
    _number_of: dict[str, int] = field(default_factory=dict)

    def note(self, ids: Sequence[str], places: Sequence[tuple[str, int]]) -> list[FirstSeen | None]:
        """For each id the place where it was first seen, also earlier in `ids`; None for new ids, which are
        noted. places: sources and lines. Raises SimhbaseError if the disk is full."""
        for source, _ in places:
            if source not in self._number_of:
                self._number_of[source] = len(self._sources)
                self._sources.append(source)
        keys = [each.encode() for each in ids]
        numbers = [self._number_of[source] << _LINE_BITS | line for source, line in places]
        older = self._among_older(self._older, keys) if self._older else {}
        new, found = dict(zip(keys, numbers, strict=True)), list[FirstSeen | None]()
        if len(new) == len(keys) and not older and self._newest.keys().isdisjoint(new):  # as nearly always
            self._newest |= new
            found += [None] * len(keys)
        else:
            found += [self._first(key, number, older) for key, number in zip(keys, numbers, strict=True)]
        if len(self._newest) > self.in_memory:
            from simhbase.stores.rocksdb.scratch import Scratch  # takes time to load, and few runs need it

            self._older = self._older or Scratch()
            self._older.put({key: place.to_bytes(_PLACE_BYTES) for key, place in self._newest.items()})
            self._newest.clear()
        return found

    def without_repeats(self, batch: Batch) -> Batch:
        """Replace records whose id was seen before by rejects."""
        items = self.reject_repeats(batch.items)
        if items is batch.items:
            return batch
        first = [
            isinstance(after, Record)
            for before, after in zip(batch.items, items, strict=True)
            if isinstance(before, Record)
        ]
        return replace(batch, items=items, fingerprints=batch.fingerprints[first])

    def reject_repeats(self, items: list[Record | Reject]) -> list[Record | Reject]:
        """Replace records whose id was seen before by rejects; the same list if there are none. Names made up
        for rows are not noted."""
        records = [item for item in items if isinstance(item, Record) and item.is_named]
        seen = self.note([each.id for each in records], [(each.source, each.line) for each in records])
        if not any(seen):
            return items
        places = iter(seen)
        return [
            _repeat(item, place)
            if isinstance(item, Record) and item.is_named and (place := next(places)) is not None
            else item
            for item in items
        ]

    def _first(self, key: bytes, number: int, older: Mapping[bytes, int]) -> FirstSeen | None:
        """Where an id was first seen; None for a new one, which is noted."""
        first = self._newest.get(key, older.get(key))
        if first is None:
            self._newest[key] = number
            return None
        return FirstSeen(self._sources[first >> _LINE_BITS], first & _LINES)

    def _among_older(self, older: Scratch, keys: Sequence[bytes]) -> dict[bytes, int]:
        asked = [key for key in keys if key not in self._newest]
        found = zip(asked, older.get(asked), strict=True)
        return {key: int.from_bytes(place) for key, place in found if place is not None}


def _repeat(record: Record, before: FirstSeen) -> Reject:
    """The reject of a record whose id was seen before."""
    name = PurePath(record.source).name
    # The id is made of the file's name, and the other source is another file of that name.
    is_alike = record.source != before.source and PurePath(before.source).name == name and name in record.id
    hint = ": ids from path tell files of one name apart" if is_alike else ""
    place = f"row {before.line}" if before.source == ROWS else f"line {before.line} of {before.source}"
    reason = f"the same id came before, in {place}{hint}"
    return Reject(record.source, record.line, record.id, reason)
