"""Writes documents: fingerprints -> rows.

The documents row is authoritative. Rows of the tables fingerprints and index are hints: readers check the
documents row that a hint leads to. `Writer` decides what to write, and the store writes it (`Store.commit`).
A store that changes all its tables in one step removes obsolete rows in the same step, so hints are always
right. In a store that keeps hints, rows that become obsolete are noted for vacuum, and documents that are
deleted leave a row that says so. The order of these writes, and why it is right: `stores/hbase/store.py`.

The highest version of a documents row wins. That of an operation is later than the clock, and than the row
that it replaces. Copies from another store, and deletes conditional on a version, take a version of the past.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from secrets import randbelow

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.scheme import Scheme
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.minhash import SketchParameters
from simhbase.index import rows
from simhbase.index.rows import Entry, Obsolete, State
from simhbase.index.tags import Tags, tags_problem
from simhbase.model.values import AddReport, Rejected
from simhbase.process.interrupt import defer_interrupts
from simhbase.stores.arrays import parts_of
from simhbase.stores.base import NO_ROWS, Changes, Columns, RecordTable, Row, Store, now
from simhbase.stores.checked import checked
from simhbase.stores.strings import Strings, pairs

SETTLED = 100_000  # a load that wrote this many documents compacts the store
CHANGED_AT_ONCE = 8192  # replaced documents per step, which is held in memory
REFRESHED = 4  # an unchanged document is rewritten after this fraction (1/4) of its time to live
# Random offsets in milliseconds, so that two writers rarely produce the same version: at equal versions
# HBase keeps whichever arrives last, and a delayed retry could overwrite newer data. The offset above a
# version that was read is small, as it accumulates when a document is written again and again.
CHANCE, SMALL_CHANCE = 1_000, 8


@dataclass(frozen=True, slots=True)
class Known:
    """A row of the documents table, with its version."""

    entry: Entry
    version: int

    @property
    def stored(self) -> bool:
        return self.entry.state == State.STORED

    def is_listed_under(self, fingerprint: int) -> bool:
        """True if a listing under this fingerprint leads to the document as it is now."""
        return self.stored and self.entry.fingerprint == fingerprint


@dataclass(frozen=True, slots=True)
class Copied:
    """Counts of a copy. later: documents left as they are, because they were written here since."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    later: int = 0


@dataclass(frozen=True)
class DocumentBatch:
    """n documents to write, once `admitted` with valid and distinct ids. tags: None if no document has
    tags."""

    ids: Sequence[str]
    fingerprints: FingerprintBatch
    tags: Sequence[Tags] | None = None

    @cached_property
    def values(self) -> list[int]:
        """Their fingerprints."""
        values: list[int] = self.fingerprints.values.tolist()
        return values

    @cached_property
    def sketches(self) -> list[bytes]:
        """Their sketches, b"" if the profile keeps none."""
        return self.fingerprints.sketch_bytes()

    @staticmethod
    def joined(parts: Sequence[DocumentBatch]) -> DocumentBatch:
        """Concatenate batches (at least one) with distinct ids."""
        if len(parts) == 1:
            return parts[0]
        has_tags = any(part.tags is not None for part in parts)
        return DocumentBatch(
            [document for part in parts for document in part.ids],
            FingerprintBatch.joined(part.fingerprints for part in parts),
            [part.tags_at(number) for part in parts for number in range(len(part.ids))] if has_tags else None,
        )

    def __getitem__(self, chosen: Sequence[int]) -> DocumentBatch:
        tags = None if self.tags is None else [self.tags[number] for number in chosen]
        return DocumentBatch([self.ids[number] for number in chosen], self.fingerprints[list(chosen)], tags)

    def tags_at(self, number: int) -> Tags:
        return () if self.tags is None else self.tags[number]

    @cached_property
    def _encoded_ids(self) -> Strings:
        return Strings.of(list(map(str.encode, self.ids)))

    def listing_rows(self, scheme: Scheme) -> Columns:
        """Keys and values of the rows in the fingerprints table."""
        sketches = self.fingerprints.sketches
        listed = sketches if scheme.listed_sketching else sketches[:, :0]
        return rows.listing_rows(self.fingerprints.values, self._encoded_ids, listed)

    def document_rows(self, scheme: Scheme) -> Columns:
        """Keys and values of the rows in the documents table."""
        sketches = self.fingerprints.sketches
        stored = sketches[:, :0] if scheme.listed_sketching else sketches
        keys = Strings.of(list(map(rows.key_of_id, self._encoded_ids.to_list())))
        return keys, rows.document_values(keys, self.fingerprints.values, stored, self.tags)

    def listings(self, scheme: Scheme) -> list[tuple[bytes, bytes]]:
        """Rows of the fingerprints table."""
        return pairs(*self.listing_rows(scheme))

    def index_keys(self, scheme: Scheme) -> NDArray[np.uint8]:
        """Index rows of the distinct fingerprints: uint8 (m, tables, 13)."""
        _, first = np.unique(self.fingerprints.values, return_index=True)
        return scheme.keys(self.fingerprints[first])


NOTHING = DocumentBatch([], FingerprintBatch.bare(np.empty(0, dtype=np.uint64)))


@dataclass(frozen=True)
class Writer:
    """Writes documents of one scheme to one store."""

    store: Store
    scheme: Scheme
    clock: Callable[[], int] = field(default=now)
    chance: Callable[[int], int] = field(default=randbelow)

    def add(self, documents: DocumentBatch, removing: Sequence[str] = ()) -> AddReport:
        """Store or replace documents; invalid and repeated ids, and invalid tags, are rejected. Durable on
        return. An unchanged document (same fingerprint, sketch and tags) costs a read. removing: other
        documents to remove, in the same commit as the first of these."""
        batch, rejected = admitted(documents)
        report = AddReport(rejected=tuple(rejected))
        removing = _storable(removing) if removing else removing
        at_once = self.store.largest_commit
        for start in range(0, max(len(batch.ids), 1), at_once):
            chunk = batch[range(start, min(start + at_once, len(batch.ids)))]
            with self.store.exclusive():
                gone = _stored(removing, known(self.store, removing)) if removing and not start else []
                time, found = self.version(), known(self.store, chunk.ids)
                alive = alive_since(self.store, time)
                before = [each if each and each.version >= alive else None for each in found]
                for some in _steps(_to_write(self.store, self.scheme, chunk, found, time), found):
                    if some or gone:
                        there = [found[number] for number in some]
                        self.store.commit(self._changes(time, chunk[some], there, gone))
                    gone = []
            report += _report(chunk, before)
        return report

    def delete(self, ids: Sequence[str]) -> int:
        """Remove documents; returns how many were stored."""
        expired, deleted = expired_before(self.store, self.clock()), 0
        for chunk in parts_of(_storable(ids), CHANGED_AT_ONCE):
            with self.store.exclusive():
                time, gone = self.version(), _stored(chunk, known(self.store, chunk))
                if gone:
                    self.store.commit(self._changes(time, gone=gone))
            deleted += sum(each.version >= expired for _, each in gone)
        return deleted

    def delete_seen(self, seen: Mapping[str, int], at: Mapping[str, int] | None = None) -> int:
        """Remove documents that still have the given version, by id; returns how many. Later writes stay. at:
        versions for the deletions when copying from another store, by id; by default they are only slightly
        later than the documents, so that concurrent writes are later."""
        deleted = 0
        for chunk in parts_of(list(seen), CHANGED_AT_ONCE):
            with self.store.exclusive():
                gone = _stored(chunk, known(self.store, chunk), seen)
                if gone:
                    versions = [
                        at[document] if at else each.version + 1 + self.chance(SMALL_CHANCE)
                        for document, each in gone
                    ]
                    self.store.commit(self._changes(self.version(), gone=gone, versions=versions))
                left = known(self.store, [document for document, _ in gone])
            deleted += sum(each is None or not each.stored for each in left)
        return deleted

    def copy(self, batch: DocumentBatch, versions: Sequence[int]) -> Copied:
        """Store n documents with the versions they have in another store, except where this store has the
        same or a later version."""
        before: list[Known | None] = []
        at_once = self.store.largest_commit
        for start in range(0, len(batch.ids), at_once):
            chunk = batch[range(start, min(start + at_once, len(batch.ids)))]
            wanted = versions[start : start + at_once]
            with self.store.exclusive():
                time, found = self.version(), known(self.store, chunk.ids)
                for some in _steps(_older(found, wanted), found):
                    if some:
                        there, at = [found[number] for number in some], [wanted[number] for number in some]
                        self.store.commit(self._changes(time, chunk[some], there, versions=at))
            before += found
        return _copied(before, versions)

    def plan(
        self, batch: DocumentBatch, version: int, *, has_documents: bool = True
    ) -> tuple[Changes, AddReport]:
        """The changes that store documents with one version, to be loaded as files, and the report of doing
        so. Documents that have a later version are stored at once. has_documents: False skips the reads, for
        an empty store."""
        found = known(self.store, batch.ids) if has_documents else [None] * len(batch.ids)
        ahead = [number for number, each in enumerate(found) if each and each.version >= version]
        report = self.add(batch[ahead]) if ahead else AddReport()
        if ahead:
            rest = [number for number, each in enumerate(found) if not each or each.version < version]
            batch, found = batch[rest], [found[number] for number in rest]
        some = _to_write(self.store, self.scheme, batch, found, version)
        changes = self._changes(version, batch[some], [found[number] for number in some])
        return changes, report + _report(batch, found)

    def note_obsolete(self, left: Sequence[tuple[str, Entry]]) -> None:
        """Note for vacuum that listings are, or become, obsolete, in a store that keeps hints."""
        if left:
            time = self.version()
            self.store.commit(Changes(time, put={"obsolete": _obsolete_rows(time, left)}, time=time))

    def version(self) -> int:
        """Version for an operation that starts now."""
        return self.clock() + (self.chance(CHANCE) if self.store.keeps_hints else 0)

    def later_versions(self, time: int, seen: Sequence[int]) -> list[int]:
        """Versions for rows written at this time, later than those seen there, so that a wrong clock affects
        only the documents it wrote."""
        if not self.store.keeps_hints:
            return [max(time, each + 1) for each in seen]
        # One version for all that are ahead: HBase takes a call for each.
        ahead = max(seen) + 1 + self.chance(SMALL_CHANCE)
        return [ahead if each >= time else time for each in seen]

    def _changes(
        self,
        time: int,
        batch: DocumentBatch = NOTHING,
        found: Sequence[Known | None] = (),
        gone: Sequence[tuple[str, Known]] = (),
        versions: Sequence[int] | None = None,
    ) -> Changes:
        """The changes that store documents and delete others, by an operation that began at this time.

        found: the rows of the batch; gone: the documents to delete; versions: of the batch and then of these,
        by default the time, or later than their rows.
        """
        left = [*_left_behind(batch, found), *((document, each.entry) for document, each in gone)]
        seen = [each.version if each else 0 for each in (*found, *(each for _, each in gone))]
        if versions is None and max(seen, default=0) >= time:
            versions = self.later_versions(time, seen)
        version = time if versions is None else versions
        put: dict[RecordTable, Columns] = {
            "fingerprints": batch.listing_rows(self.scheme),
            "documents": batch.document_rows(self.scheme),
        }
        index = batch.index_keys(self.scheme)
        if self.store.keeps_hints:
            put["obsolete"] = _obsolete_rows(time, left)
            put["documents"] = _with_tombstones(put["documents"], gone)
            return Changes(version, index, put=put, time=time)
        return Changes(
            version=version if isinstance(version, int) else version[: len(batch.ids)],
            index=index,
            unindex=self._emptied(left, batch) if left else NO_ROWS,
            put=put,
            delete={
                "fingerprints": [rows.listing_key(entry.fingerprint, document) for document, entry in left],
                "documents": [rows.document_key(document) for document, _ in gone],
            },
        )

    def _emptied(self, left: Sequence[tuple[str, Entry]], batch: DocumentBatch) -> NDArray[np.uint8]:
        """Index rows of fingerprints that no document has any more: uint8 (n, tables, 13)."""
        leaving: dict[int, set[str]] = {}
        for document, entry in left:
            leaving.setdefault(entry.fingerprint, set()).add(document)
        for fingerprint in batch.values:
            leaving.pop(fingerprint, None)
        return self.scheme.keys(batch_of(emptied_by(self.store, leaving), self.scheme.listed_sketching))


def admitted(documents: DocumentBatch) -> tuple[DocumentBatch, list[Rejected]]:
    """Split documents into valid and rejected ones. Of an id that comes repeatedly the first document counts,
    even if it is rejected for its tags: callers assign the answers by id."""
    ids = documents.ids
    if documents.tags is None and len(set(ids)) == len(ids) and not any(map(rows.id_problem, ids)):
        return documents, []
    kept, rejected, named = list[int](), list[Rejected](), set[str]()
    for number, document in enumerate(ids):
        problem = rows.id_problem(document)
        if problem is None and document in named:
            problem = "the same id came earlier in the same call"
        problem = problem or tags_problem(documents.tags_at(number))
        if problem is None:
            kept.append(number)
        else:
            rejected.append(Rejected(document, problem))
        named.add(document)
    return documents[kept] if rejected else documents, rejected


def known(store: Store, ids: Sequence[str]) -> list[Known | None]:
    """Read rows of the documents table; None for an id without one. Raises StoreFailed for a damaged row."""
    keys = [rows.key_of_id(document.encode()) for document in ids]
    cells = store.records("documents").get(keys)
    return [
        None if cell is None else Known(Entry.decode(key, cell.value), cell.version)
        for key, cell in zip(keys, cells, strict=True)
    ]


def alive_since(store: Store, time: int, part: int = 1) -> int:
    """Documents with lower versions have expired at this time, or live for a part of their time (1/part).
    0 if none expire, or the user may not know."""
    ttl = store.ttl()
    return time - ttl * 1000 // part if isinstance(ttl, int) else 0


def expired_before(store: Store, time: int) -> int:
    """Documents with a lower version have expired, and are not to be found: `alive_since`, but 0 in a store
    that drops them itself."""
    return 0 if store.keeps_hints else alive_since(store, time)


def remove_older(
    batches: Iterable[Mapping[str, Known]],
    delete_seen: Callable[[Mapping[str, int]], int],
    before: int,
    note: Callable[[int], None],
) -> int:
    """Remove documents with lower versions, batch by batch; returns how many. Concurrent writes stay.
    batches: rows of the table documents, by id; delete_seen: see Writer; note: called with the number of rows
    read."""
    removed = 0
    for batch in batches:
        old = {name: each.version for name, each in batch.items() if each.stored and each.version < before}
        with defer_interrupts():
            removed += delete_seen(old)
        note(len(batch))
    return removed


def known_in(batch: Sequence[Row]) -> dict[str, Known]:
    """Parse rows of the documents table, by id. Raises StoreFailed for a damaged row."""
    return {rows.document_id(key): Known(Entry.decode(key, cell.value), cell.version) for key, cell in batch}


def emptied_by(store: Store, leaving: Mapping[int, set[str]]) -> list[tuple[int, bytes]]:
    """The fingerprints that list no other documents than the given ones, each with the sketch of one (b"" if
    none is listed, or it is damaged: what cannot be read can be deleted)."""
    prefixes = list(map(rows.listing_prefix, leaving))
    # One more row than may leave, so any other document shows.
    most = max(map(len, leaving.values()), default=0) + 1
    found = store.records("fingerprints").scan(prefixes, most)
    return [
        (fingerprint, first_sketch(listed))
        for (fingerprint, ids), listed in zip(leaving.items(), found, strict=True)
        if ids.issuperset(rows.listing_id(key) for key, _ in listed)
    ]


def first_listed(store: Store, fingerprints: Sequence[int], of: bytes = b"") -> list[bytes | None]:
    """The sketch in a listing of each fingerprint (b"" if it is damaged or there is none), None for one that
    lists no document. of: what the ids begin with."""
    prefixes = [rows.listing_prefix(each) + of for each in fingerprints]
    found = store.records("fingerprints").scan(prefixes, limit=1) if prefixes else []
    return [first_sketch(listed) if listed else None for listed in found]


def first_sketch(listed: Sequence[Row]) -> bytes:
    """The sketch of the first of some listings, b"" if there is none."""
    return rows.usable_sketch(listed[0][0], listed[0][1].value) if listed else b""


def batch_of(
    fingerprints: Sequence[tuple[int, bytes]], sketching: SketchParameters | None
) -> FingerprintBatch:
    """Build a batch from fingerprints and sketches (sketching None: no sketches), without those whose sketch
    is lost."""
    size = sketching.bytes if sketching else 0
    usable = [(value, sketch) for value, sketch in fingerprints if len(sketch) == size]
    values = np.array([value for value, _ in usable], dtype=np.uint64)
    content = b"".join(sketch for _, sketch in usable)
    return FingerprintBatch(values, np.frombuffer(content, dtype=np.uint8).reshape(len(values), size))


def _to_write(
    store: Store,
    scheme: Scheme,
    batch: DocumentBatch,
    found: Sequence[Known | None],
    time: int,
) -> list[int]:
    """Positions of documents that must be written at this time: not stored like this, or so long ago that
    they are rewritten before they expire."""
    fresh_since = alive_since(store, time, REFRESHED)
    same = [
        number
        for number, each in enumerate(found)
        if each
        and each.stored
        and each.entry.fingerprint == batch.values[number]
        and (scheme.listed_sketching is not None or each.entry.sketch == batch.sketches[number])
        and each.entry.tags == batch.tags_at(number)
        and each.version >= fresh_since
    ]
    if scheme.listed_sketching is not None and same:
        keys = [rows.listing_key(batch.values[number], batch.ids[number]) for number in same]
        cells = store.records("fingerprints").get(keys)
        same = [
            number
            for number, key, cell in zip(same, keys, cells, strict=True)
            if cell is not None and cell.value == checked(key, batch.sketches[number])
        ]
    settled = set(same)
    return [number for number in range(len(batch.ids)) if number not in settled]


def _steps(changed: list[int], found: Sequence[Known | None]) -> Iterator[list[int]]:
    """Splits an atomic store's write: a large batch writes new documents first, then the others in pieces."""
    if len(changed) <= CHANGED_AT_ONCE:
        yield changed
        return
    yield [number for number in changed if found[number] is None]
    known_before = [number for number in changed if found[number] is not None]
    for start in range(0, len(known_before), CHANGED_AT_ONCE):
        yield known_before[start : start + CHANGED_AT_ONCE]


def _left_behind(batch: DocumentBatch, found: Sequence[Known | None]) -> list[tuple[str, Entry]]:
    """Previous entries of documents whose fingerprint changes."""
    return [
        (batch.ids[number], each.entry)
        for number, each in enumerate(found)
        if each and each.stored and each.entry.fingerprint != batch.values[number]
    ]


def _obsolete_rows(time: int, left: Sequence[tuple[str, Entry]]) -> Columns:
    """Rows of the table obsolete for entries that documents leave behind at this time."""
    keys = [Obsolete(time, entry.fingerprint, document).key() for document, entry in left]
    return Strings.of(keys), Strings.empty(len(keys))


def _report(batch: DocumentBatch, found: Sequence[Known | None]) -> AddReport:
    added = sum(each is None or not each.stored for each in found)
    updated = len(_left_behind(batch, found))
    return AddReport(added, updated, len(found) - added - updated)


def _storable(ids: Sequence[str]) -> list[str]:
    return [document for document in dict.fromkeys(ids) if rows.id_problem(document) is None]


def _stored(
    ids: Sequence[str], found: Sequence[Known | None], seen: Mapping[str, int] | None = None
) -> list[tuple[str, Known]]:
    """Documents that are stored (with the versions in `seen`)."""
    return [
        (document, each)
        for document, each in zip(ids, found, strict=True)
        if each and each.stored and (seen is None or each.version == seen[document])
    ]


def _with_tombstones(documents: Columns, gone: Sequence[tuple[str, Known]]) -> Columns:
    """Documents rows, and those of deleted documents: HBase's own deletes would hide later puts."""
    keys = [rows.document_key(document) for document, _ in gone]
    entries = [Entry(each.entry.fingerprint, State.DELETED) for _, each in gone]
    tombstones = [entry.encode(key) for key, entry in zip(keys, entries, strict=True)]
    stored_keys, values = documents
    return (
        Strings.concatenated([stored_keys, Strings.of(keys)]),
        Strings.concatenated([values, Strings.of(tombstones)]),
    )


def _older(found: Sequence[Known | None], versions: Sequence[int]) -> list[int]:
    """Positions of documents to copy: missing here, or with a lower version."""
    pairs = enumerate(zip(found, versions, strict=True))
    return [number for number, (each, version) in pairs if each is None or each.version < version]


def _copied(found: Sequence[Known | None], versions: Sequence[int]) -> Copied:
    pairs = [(each, version) for each, version in zip(found, versions, strict=True) if each]
    older = [each for each, version in pairs if each.version < version]
    updated = sum(each.stored for each in older)
    unchanged = sum(each.stored and each.version == version for each, version in pairs)
    added = len(found) - len(pairs) + len(older) - updated
    return Copied(added, updated, unchanged, len(pairs) - len(older) - unchanged)
