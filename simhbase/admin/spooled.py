"""The documents of a store as arrays, to join all of them. Ids and sketches are on disk."""

from __future__ import annotations

import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from typing import NamedTuple, Protocol, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.groups import Matcher
from simhbase.drawers.scheme import Scheme
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index, rows
from simhbase.index.mute import Hidden
from simhbase.index.part import Part
from simhbase.index.tags import required_tags
from simhbase.model.moment import at
from simhbase.model.values import Moment
from simhbase.process.parallel import AHEAD_SIZE, map_in_threads
from simhbase.process.progress import Progress, counting
from simhbase.process.slices import Numbers, numbers_below
from simhbase.process.spool import Spool, SpooledRows
from simhbase.stores.base import RecordTable, Row, Store

PART_ROWS = 50_000  # of a table: what one thread reads
THREADS = 4  # where a store is on several servers
_AT_ONCE = 1 << 16
_WORD = 8  # bytes of ids that are compared at once


class _Counted(Protocol):
    @property
    def rows(self) -> int: ...


C = TypeVar("C", bound=_Counted)


@dataclass(frozen=True)
class SpooledDocuments:
    """The live documents of a store, oldest first, those written at once by id.

    fingerprints: of n documents, read from disk when they are indexed; muted: how many more are muted;
    lost_sketches: how many more have no sketch, because it is lost, or they were written during the reading;
    read_at: when it began.
    """

    fingerprints: FingerprintBatch
    scheme: Scheme
    muted: int
    lost_sketches: int
    read_at: datetime
    _ids: Spool
    _numbers: Numbers  # of ids
    _files: ExitStack

    def __len__(self) -> int:
        return len(self._numbers)

    def ids(self, documents: Numbers) -> list[str]:
        """Ids of documents, given by position."""
        return [each.decode() for each in self._ids.read(self._numbers[documents].tolist())]

    def matcher(self, progress: Progress) -> Matcher:
        """Finds matches among them, with the profile's bounds."""
        return Matcher(self.fingerprints, self.scheme, self.scheme.bounds(None, None), progress=progress)

    def close(self) -> None:
        """Free the space on disk. May be called twice."""
        self._files.close()


@dataclass(frozen=True)
class OfStored:
    """What was found among a store's documents; ids are on disk until it is closed or forgotten."""

    _stored: SpooledDocuments

    @property
    def documents(self) -> int:
        """Number of documents that were compared."""
        return len(self._stored)

    @property
    def muted(self) -> int:
        """Number of documents that were left out because they are muted."""
        return self._stored.muted

    @property
    def lost_sketches(self) -> int:
        """Number of documents that were left out because their sketch is lost, or because they were written
        meanwhile."""
        return self._stored.lost_sketches

    @property
    def read_at(self) -> datetime:
        """When the reading began. Documents that were written since then may be missing."""
        return self._stored.read_at

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the space on disk. May be called twice."""
        self._stored.close()


def spool_documents(
    index: Index, since: Moment | None, tags: Mapping[str, str] | None, progress: Progress
) -> SpooledDocuments:
    """Read the documents of a store, without its drawers. They take about 40 bytes of memory each.

    since, tags: only documents that Query would let through. progress: reports the rows read. Raises
    UsageError for invalid arguments, StoreFailed for damaged rows.
    """
    store, scheme, folder = index.store, index.profile.index_scheme, Path(gettempdir())
    read_at = at(index.clock())
    size = scheme.sketching.bytes if scheme.sketching and not scheme.listed_sketching else 0
    hidden, of = index.hidden(), index.of
    wanted = _Wanted(index.earliest(since), frozenset(required_tags(tags)), hidden, size, of.decode())
    store.refresh()
    with ExitStack() as stack, index.same_tables():
        ids = stack.enter_context(closing(Spool(folder)))
        found = stack.enter_context(closing(SpooledRows(folder, np.empty((0, size), dtype=np.uint8))))
        muted, values, versions = 0, array("Q"), array("q")  # which grow in place
        ranges = list(rows.document_ranges(of.decode())) if of else None
        for part in _each_part(store, "documents", wanted.documents, progress, ranges):
            ids.append(part.ids)
            values.frombytes(part.values.tobytes())
            versions.frombytes(part.versions.tobytes())
            found.append(part.sketches)
            muted += part.muted
        numbers = oldest_first(ids, np.frombuffer(versions, dtype=np.int64))
        del versions
        ordered, place = np.frombuffer(values, dtype=np.uint64)[numbers], numbers
        del values
        if sketching := scheme.listed_sketching:
            size = sketching.bytes
            found = stack.enter_context(closing(SpooledRows(folder, np.empty((0, size), dtype=np.uint8))))
            place = _place_in_listed(store, ordered, found, size, progress, of.decode())
            known = place >= 0
            ordered, numbers, place = ordered[known], numbers[known], place[known]
        sketches = stack.enter_context(closing(SpooledRows(folder, np.empty((0, size), dtype=np.uint8))))
        prints = stack.enter_context(closing(SpooledRows(folder, np.empty(0, dtype=np.uint64))))
        for start in range(0, len(place), _AT_ONCE):
            sketches.append(found[place[start : start + _AT_ONCE]])
            prints.append(ordered[start : start + _AT_ONCE])
        found.close()
        fingerprints = FingerprintBatch(cast(NDArray[np.uint64], prints), cast(NDArray[np.uint8], sketches))
        files = stack.pop_all()
    lost = len(ids) - len(numbers)
    documents = SpooledDocuments(fingerprints, scheme, muted, lost, read_at, ids, numbers, files)
    weakref.finalize(documents, files.close)
    return documents


class _Documents(NamedTuple):
    """What a part of the documents table has. rows: number of its rows; values, versions, sketches: arrays by
    document."""

    rows: int
    muted: int
    ids: list[bytes]
    values: NDArray[np.uint64]
    versions: NDArray[np.int64]
    sketches: NDArray[np.uint8]


class _Sketches(NamedTuple):
    """What a part of the fingerprints table has: ascending fingerprints, and the sketch of each."""

    rows: int
    values: NDArray[np.uint64]
    sketches: NDArray[np.uint8]


@dataclass(frozen=True)
class _Wanted:
    """Which documents are read. size: bytes of the sketches in their rows; of: what their ids begin with,
    which is cut off."""

    earliest: int
    tags: frozenset[tuple[str, str]]
    hidden: Hidden
    size: int
    of: str

    def documents(self, batches: Iterable[list[Row]]) -> _Documents:
        count = muted = 0
        ids, values, versions, sketches = list[bytes](), list[int](), list[int](), list[bytes]()
        for batch in batches:
            count += len(batch)
            for key, cell in batch:
                if cell.version < self.earliest:
                    continue
                entry = rows.Entry.decode(key, cell.value)
                if not entry.stored or not self.tags.issubset(entry.tags):
                    continue
                document = rows.document_id(key)
                if self.hidden.hides(document, entry.fingerprint):
                    muted += 1
                    continue
                ids.append(document.removeprefix(self.of).encode())
                values.append(entry.fingerprint)
                versions.append(cell.version)
                if self.size:
                    sketches.append(rows.whole_sketch(document, entry.sketch, self.size))
        return _Documents(
            count,
            muted,
            ids,
            np.array(values, dtype=np.uint64),
            np.array(versions, dtype=np.int64),
            _sketches(sketches, len(ids), self.size),
        )


def _place_in_listed(
    store: Store,
    values: NDArray[np.uint64],
    sketches: SpooledRows,
    size: int,
    progress: Progress,
    of: str,
) -> Numbers:
    """Appends the sketches of fingerprints that identify them to `sketches`; returns the position of each of
    n fingerprints there: (n,), -1 if there is none. of: what the ids begin with."""
    listed = [np.empty(0, dtype=np.uint64)]
    read = partial(_listed_sketches, np.unique(values), size, of)
    for part in _each_part(store, "fingerprints", read, progress):
        listed.append(part.values)
        sketches.append(part.sketches)
    known = np.concatenate(listed)
    place: Numbers = np.searchsorted(known, values)
    place[place == len(known)] = 0
    is_known = known[place] == values if len(known) else np.zeros(len(values), dtype=np.bool_)
    place[~is_known] = -1
    return place


def _listed_sketches(
    wanted: NDArray[np.uint64], size: int, of: str, batches: Iterable[list[Row]]
) -> _Sketches:
    """The first usable sketch of each wanted fingerprint. wanted: uint64 (m,), ascending."""
    count, values, sketches = 0, list[int](), list[bytes]()
    for batch in batches:
        count += len(batch)
        found = map(rows.parse_listing, (key for key, _ in batch))
        listed = [each if each and each[1].startswith(of) else None for each in found]
        these = np.array([each[0] if each else 0 for each in listed], dtype=np.uint64)
        place = np.minimum(np.searchsorted(wanted, these), len(wanted) - 1)
        for number in np.flatnonzero(wanted[place] == these).tolist() if len(wanted) else ():
            if values and values[-1] == these[number]:
                continue
            key, cell = batch[number]
            sketch = rows.usable_sketch(key, cell.value)
            if listed[number] and len(sketch) == size:
                values.append(int(these[number]))
                sketches.append(sketch)
    return _Sketches(count, np.array(values, dtype=np.uint64), _sketches(sketches, len(values), size))


def _sketches(found: list[bytes], count: int, size: int) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(found), dtype=np.uint8).reshape(count, size)


def _each_part(
    store: Store,
    name: RecordTable,
    read: Callable[[Iterable[list[Row]]], C],
    progress: Progress,
    ranges: Sequence[tuple[bytes, bytes]] | None = None,
) -> Iterator[C]:
    """What `read` makes of each part of a table, in key order. ranges: the parts, by default equal ones."""
    table = store.records(name)
    total = table.approximate_size().rows
    of = max(-(-total // PART_ROWS), 1)
    threads = THREADS if store.keeps_hints else 1
    parts = map_in_threads(
        lambda part: read(table.iterate(*part)),
        ranges or (Part(number, of).keys() for number in range(1, of + 1)),
        threads,
        size=lambda part: AHEAD_SIZE,
    )
    with counting(progress, name, lambda: total) as note, closing(parts) as found:
        for each in found:
            note(each.rows)
            yield each


def oldest_first(ids: Spool, versions: NDArray[np.int64]) -> Numbers:
    """Positions of n documents by version, and of equal ones by the bytes of their ids: (n,)."""
    kind = numbers_below(len(versions))
    order: Numbers = np.argsort(versions, kind="stable").astype(kind)
    places, ties = np.arange(len(order), dtype=kind), versions[order]
    for start in range(0, rows.MAX_ID_BYTES, _WORD):
        is_tied = np.zeros(len(ties), dtype=np.bool_)
        is_tied[1:] = ties[1:] == ties[:-1]
        is_tied[:-1] |= is_tied[1:]
        places, ties = places[is_tied], ties[is_tied]
        if not len(places):
            break
        words = _words(ids, order[places], start)
        by = np.lexsort((words, ties))
        order[places] = order[places][by]
        ties, words = ties[by], words[by]
        is_new = np.ones(len(ties), dtype=np.bool_)
        is_new[1:] = (ties[1:] != ties[:-1]) | (words[1:] != words[:-1])
        ties = np.cumsum(is_new)
    return order


def _words(ids: Spool, numbers: Numbers, start: int) -> NDArray[np.uint64]:
    """Eight bytes of each id as a number, zero where it ends: uint64 (m,)."""
    found = np.empty(len(numbers), dtype=np.uint64)
    on_disk = np.argsort(numbers)  # those that follow each other there are read at once
    for first in range(0, len(numbers), _AT_ONCE):
        part = on_disk[first : first + _AT_ONCE]
        words = (each[start : start + _WORD].ljust(_WORD, b"\0") for each in ids.read(numbers[part].tolist()))
        found[part] = np.frombuffer(b"".join(words), dtype=">u8")
    return found
