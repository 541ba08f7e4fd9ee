"""Ids that came up before in one run, in a few bytes each."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from mmap import MADV_RANDOM, mmap
from pathlib import PurePath
from tempfile import TemporaryFile, gettempdir
from typing import NamedTuple

import mmh3
import numpy as np
from numpy.typing import NDArray

from simhbase.corpus.record import Record, Reject
from simhbase.errors import SimhbaseError

FULLEST = 0.7  # share of slots in use; above it runs of taken slots become long
GROWTH = 1.5
LINE_BITS = 36  # of a place; the number of its source has the other 28
MOVED_AT_ONCE = 1 << 14
IN_MEMORY = 50_000_000  # ids; more of them go to disk
_SLOT_BYTES = 16
_PIECE = 1 << 20


class FirstSeen(NamedTuple):
    source: str
    line: int


class SeenIds:
    """The ids of one run, and where each was first seen.

    An open hash table of a 64-bit digest and a place for each id: 23 to 34 bytes, whatever its
    length, and 57 for a moment while the table grows. From `in_memory` ids on it is a file without a
    name in TMPDIR, which ends with this process. While the system's cache has room for the file it is as
    fast as memory: 150,000 to 200,000 ids a second were measured with 50 to 70 million of them. Two ids
    with the same digest would make the later one a repeat by mistake: the odds that this happens at all
    are 1 in 37 among a billion ids, 1 in 3,700 among 100 million, 1 in 37 million among a million.
    """

    def __init__(self, in_memory: int = IN_MEMORY) -> None:
        self._in_memory = in_memory
        self._slots = _Slots(1024)
        self._count = 0
        self._sources: list[str] = []
        self._number_of: dict[str, int] = {}

    def note(self, ids: Sequence[str], places: Sequence[FirstSeen]) -> list[FirstSeen | None]:
        """For each id the place where it was seen before, also earlier in `ids`; None if it is new,
        and is noted now. Raises SimhbaseError for a disk that is full."""
        numbers = np.array([self._number(place) for place in places], dtype=np.uint64)
        self._make_room(len(ids))
        first, is_new = self._slots.settle(_digests(ids), numbers)
        self._count += int(np.count_nonzero(is_new))
        return [
            None if new else self._place(number)
            for number, new in zip(first.tolist(), is_new.tolist(), strict=True)
        ]

    def reject_repeats(self, items: Iterable[Record | Reject]) -> list[Record | Reject]:
        """The same items, with a reject in place of a record whose id was seen before."""
        items = list(items)
        records = [item for item in items if isinstance(item, Record)]
        seen = self.note(
            [each.id for each in records], [FirstSeen(each.source, each.line) for each in records]
        )
        repeats = {
            id(record): Reject(record.source, record.line, record.id, repeat_reason(record, place))
            for record, place in zip(records, seen, strict=True)
            if place is not None
        }
        return [repeats.get(id(item), item) for item in items]

    def _number(self, place: FirstSeen) -> int:
        """A place as one integer, never 0."""
        number = self._number_of.setdefault(place.source, len(self._sources) + 1)
        if number > len(self._sources):
            self._sources.append(place.source)
        return number << LINE_BITS | place.line

    def _place(self, number: int) -> FirstSeen:
        return FirstSeen(self._sources[(number >> LINE_BITS) - 1], number & ((1 << LINE_BITS) - 1))

    def _make_room(self, more: int) -> None:
        count = self._count + more
        on_disk = count > self._in_memory
        if count > FULLEST * self._slots.capacity or on_disk > self._slots.on_disk:
            capacity = int(max(GROWTH * self._slots.capacity, count / FULLEST)) + 1
            larger = _Slots(capacity, on_disk)
            self._slots.move_to(larger)
            self._slots = larger


def repeat_reason(record: Record, first: FirstSeen) -> str:
    """Why a record is rejected whose id was first seen at a place."""
    hint = ": ids from path tell files of one name apart" if _is_named_alike(record, first.source) else ""
    return f"the same id came before, in line {first.line} of {first.source}{hint}"


def _is_named_alike(record: Record, other: str) -> bool:
    """Whether a record's id is made of the name of its file, and another source is a file of that name."""
    name = PurePath(record.source).name
    return record.source != other and PurePath(other).name == name and name in record.id


def _digests(ids: Sequence[str]) -> NDArray[np.uint64]:
    return np.frombuffer(
        b"".join(mmh3.mmh3_x64_128_digest(each.encode())[:8] for each in ids), dtype=np.uint64
    )


class _Slots:
    """The table: linear probing from the slot that a digest's upper half points at."""

    def __init__(self, capacity: int, on_disk: bool = False) -> None:
        """Raises SimhbaseError for a disk that is full."""
        self.capacity = capacity
        self.on_disk = on_disk
        # Beside each other, so that one page of the file is read: a digest, and its place, 0 for a free slot.
        if on_disk:
            table = np.frombuffer(_file(capacity * _SLOT_BYTES), dtype=np.uint64).reshape(-1, 2)
        else:
            table = np.zeros((capacity, 2), dtype=np.uint64)
        self._digests, self._places = table[:, 0], table[:, 1]

    def settle(
        self, digests: NDArray[np.uint64], places: NDArray[np.uint64]
    ) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Puts digests that are not there, the first of equal ones; the place that each has now, and
        whether it was put by this call."""
        settled = np.empty_like(places)
        is_new = np.zeros(len(places), dtype=np.bool_)
        slots = ((digests >> np.uint64(32)) * np.uint64(self.capacity) >> np.uint64(32)).astype(np.int64)
        waiting = np.arange(len(digests))
        while len(waiting):
            tried = slots[waiting]
            at_free = np.flatnonzero(self._places[tried] == 0)
            taken, first = np.unique(tried[at_free], return_index=True)
            winners = waiting[at_free[first]]
            self._digests[taken], self._places[taken] = digests[winners], places[winners]
            is_new[winners] = True
            there = self._digests[tried] == digests[waiting]
            settled[waiting[there]] = self._places[tried[there]]
            waiting = waiting[~there]
            slots[waiting] = (slots[waiting] + 1) % self.capacity
        return settled, is_new

    def move_to(self, larger: _Slots) -> None:
        for start in range(0, self.capacity, MOVED_AT_ONCE):
            part = slice(start, start + MOVED_AT_ONCE)
            taken = np.flatnonzero(self._places[part])
            larger.settle(self._digests[part][taken], self._places[part][taken])


def _file(size: int) -> mmap:
    """So many bytes of a file that nobody else sees, all zero and all reserved: where a disk is full when
    memory that stands for it is written, a process is killed."""
    try:
        with TemporaryFile() as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.writelines(bytes(_PIECE) for _ in range(0, size, _PIECE))
                file.flush()
            mapped = mmap(file.fileno(), size)
    except OSError as error:
        raise SimhbaseError(
            f"{gettempdir()} has no room for {size / 1e9:,.1f} GB ({error.strerror}), by which ids that come "
            "twice are told: name a folder on a larger disk with TMPDIR. Where no id comes twice, "
            "a load that is told that ids are unique does without"
        ) from error
    mapped.madvise(MADV_RANDOM)  # an id wants one page of it
    return mapped
