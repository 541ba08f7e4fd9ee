"""Fingerprints -> rows.

The documents row is the one truth. Rows of the tables fingerprints and index are hints: "look there", and
whoever follows one asks the documents row what it leads to.

Where a store changes all its tables in one step (`AtomicWriter`), what becomes obsolete goes in the same
step, and no hint ever lies. Elsewhere (`HintingWriter`) any number of processes write without locks: the
hints first, then one commit, the documents row. Nothing is deleted there; what a document leaves behind is
noted in the table obsolete, for vacuum. Every cell of an operation has one version, later than what the
operation has seen; the last writer wins by version, so that calls which are repeated, or carried out late,
change nothing. Copies from another store, and deletes of what is as it was seen, take the version of their
documents row from the past; their other rows have the time of now, by which vacuum goes. A crash leaves hints
that lead nowhere, and never a document without rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from secrets import randbelow
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.scheme import Scheme
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.minhash import SketchParameters
from simhbase.index import rows
from simhbase.index.rows import Entry, Obsolete, State
from simhbase.index.tags import Tags, tags_problem
from simhbase.interrupt import interrupt_put_off
from simhbase.model import AddReport, Rejected
from simhbase.stores.base import AtomicStore, Changes, Row, Store, multi_writer, now
from simhbase.stores.strings import Strings, pairs

DOCUMENTS_AT_ONCE = 1 << 17  # new ones of one step of an atomic store, which takes many as files
SETTLED = 100_000  # documents that were written, from which on a store is settled
CHANGED_AT_ONCE = 8192  # those of which something is left behind, in one step, which is held in memory
REFRESHED = 4  # an unchanged document is written anew when this part of its time to live has passed
# Of two writes with one version the last to arrive wins, so that a late copy would change something after
# all. So a version is later than the clock by a chance of so many milliseconds, or than a version that was
# seen by a few: these add up where a document is written again and again.
CHANCE, SMALL_CHANCE = 1_000, 8


@dataclass(frozen=True, slots=True)
class Known:
    """What the documents table holds of an id, and since when."""

    entry: Entry
    version: int

    @property
    def stored(self) -> bool:
        """Whether it is a document, and not what is left of one or what may become one."""
        return self.entry.stored


class Writer(Protocol):
    """Writes documents of one scheme to one store."""

    def add(
        self,
        ids: Sequence[str],
        fingerprints: FingerprintBatch,
        tags: Sequence[Tags] | None = None,
        removing: Sequence[str] = (),
    ) -> AddReport:
        """Stores n documents, or replaces them; ids and tags that cannot be stored are rejected. Durable when
        it returns. A document that is stored with the same fingerprint, sketch and tags already costs a read.
        tags: of each; None: none has any. removing: other documents, which are removed with the first of
        these where a store changes all tables in one step, else behind them."""

    def delete(self, ids: Sequence[str]) -> int:
        """Removes documents; returns how many of the ids were stored."""

    def delete_seen(self, seen: Mapping[str, int], at: Mapping[str, int] | None = None) -> int:
        """Removes documents that still have the version at which they were seen, by id; returns how many.
        What is written meanwhile stays. at: the versions of these deletions in another store, by id."""

    def copy(
        self,
        ids: Sequence[str],
        fingerprints: FingerprintBatch,
        versions: Sequence[int],
        tags: Sequence[Tags] | None = None,
    ) -> Copied:
        """Stores n different documents as another store has them, each at its version there, unless this one
        has it at that version or a later one."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy did. later: documents that stay as they are, as they were written here since."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    later: int = 0

    def __add__(self, other: Copied) -> Copied:
        """What both did."""
        return Copied(
            self.added + other.added,
            self.updated + other.updated,
            self.unchanged + other.unchanged,
            self.later + other.later,
        )


def writer_for(store: Store, scheme: Scheme, clock: Callable[[], int] = now) -> Writer:
    """The writer for a kind of store."""
    if multi_writer(store):
        return HintingWriter(store, scheme, clock)
    return AtomicWriter(cast(AtomicStore, store), scheme, clock)


@dataclass(frozen=True)
class AtomicWriter:
    """Writes to a store that changes all its tables in one step."""

    store: AtomicStore
    scheme: Scheme
    clock: Callable[[], int] = field(default=now)

    def add(
        self,
        ids: Sequence[str],
        fingerprints: FingerprintBatch,
        tags: Sequence[Tags] | None = None,
        removing: Sequence[str] = (),
    ) -> AddReport:
        """See Writer."""
        batch, rejected = admitted(ids, fingerprints, tags)
        report = AddReport(rejected=tuple(rejected))
        removing = _storable(removing)
        for start in range(0, max(len(batch.ids), 1), DOCUMENTS_AT_ONCE):
            chunk = batch[range(start, min(start + DOCUMENTS_AT_ONCE, len(batch.ids)))]
            with self.store.exclusive():
                gone = _stored(removing, known(self.store, removing)) if removing and not start else []
                time, found = self.clock(), known(self.store, chunk.ids)
                before = _alive(found, alive_since(self.store, time))
                changed = _changed(self.store, self.scheme, chunk, found, refreshed_before(self.store, time))
                for some in _steps(changed, found):
                    self._commit(chunk[some], [found[number] for number in some], gone)
                    gone = []
            report += _report(chunk, before)
        return report

    def delete(self, ids: Sequence[str]) -> int:
        """See Writer."""
        storable, deleted = _storable(ids), 0
        for start in range(0, len(storable), CHANGED_AT_ONCE):
            chunk = storable[start : start + CHANGED_AT_ONCE]
            with self.store.exclusive():
                stored = _stored(chunk, known(self.store, chunk))
                alive = alive_since(self.store, self.clock())
                self._commit(NOTHING, [], stored)
            deleted += sum(each.version >= alive for _, each in stored)
        return deleted

    def delete_seen(self, seen: Mapping[str, int], at: Mapping[str, int] | None = None) -> int:
        """See Writer. Nothing is left that would have a version."""
        ids, deleted = list(seen), 0
        for start in range(0, len(ids), CHANGED_AT_ONCE):
            chunk = ids[start : start + CHANGED_AT_ONCE]
            with self.store.exclusive():
                stored = _stored_as_seen(seen, chunk, known(self.store, chunk))
                self._commit(NOTHING, [], stored)
            deleted += len(stored)
        return deleted

    def copy(
        self,
        ids: Sequence[str],
        fingerprints: FingerprintBatch,
        versions: Sequence[int],
        tags: Sequence[Tags] | None = None,
    ) -> Copied:
        """See Writer."""
        batch, copied = Batch(list(ids), fingerprints, tags), Copied()
        for start in range(0, len(batch.ids), DOCUMENTS_AT_ONCE):
            chunk = batch[range(start, min(start + DOCUMENTS_AT_ONCE, len(batch.ids)))]
            wanted = versions[start : start + DOCUMENTS_AT_ONCE]
            with self.store.exclusive():
                found = known(self.store, chunk.ids)
                for some in _steps(_older(found, wanted), found):
                    at = [wanted[number] for number in some]
                    self._commit(chunk[some], [found[number] for number in some], [], at)
            copied += _copied(found, wanted)
        return copied

    def _commit(
        self,
        batch: Batch,
        found: Sequence[Known | None],
        deleted: Sequence[tuple[str, Known]],
        versions: Sequence[int] | None = None,
    ) -> None:
        """Writes documents, of which this was known before, deletes others, and removes what nobody
        needs any more. versions: of each that is written; by default the time."""
        if not batch.ids and not deleted:
            return
        left = [*_left_behind(batch, found), *((document, each.entry) for document, each in deleted)]
        self.store.commit(
            Changes(
                version=self._versions(found) if versions is None else versions,
                index=batch.index_keys(self.scheme),
                unindex=self._emptied(left, batch),
                put={
                    "fingerprints": batch.listing_rows(self.scheme),
                    "documents": batch.document_rows(self.scheme),
                },
                delete={
                    "fingerprints": [
                        rows.listing_key(entry.fingerprint, document) for document, entry in left
                    ],
                    "documents": [rows.document_key(document) for document, _ in deleted],
                },
            )
        )

    def _versions(self, found: Sequence[Known | None]) -> int | list[int]:
        """Those of documents that are written now: the time, or later than what was seen of each. So a clock
        that was ahead once dates no other document."""
        time = self.clock()
        if all(each is None or each.version < time for each in found):
            return time
        return [time if each is None else max(time, each.version + 1) for each in found]

    def _emptied(self, left: Sequence[tuple[str, Entry]], batch: Batch) -> NDArray[np.uint8]:
        """The index rows of fingerprints that are left without documents: uint8 (n, tables, 13)."""
        leaving: dict[int, set[str]] = {}
        for document, entry in left:
            leaving.setdefault(entry.fingerprint, set()).add(document)
        for fingerprint in batch.values:
            leaving.pop(fingerprint, None)
        return self.scheme.keys(batch_of(alone(self.store, leaving), self.scheme.listed_sketching))


@dataclass(frozen=True)
class HintingWriter:
    """Writes to a store in which many processes write, each table by itself: hints, then one commit."""

    store: Store
    scheme: Scheme
    clock: Callable[[], int] = field(default=now)
    chance: Callable[[int], int] = field(default=randbelow)

    def add(
        self,
        ids: Sequence[str],
        fingerprints: FingerprintBatch,
        tags: Sequence[Tags] | None = None,
        removing: Sequence[str] = (),
    ) -> AddReport:
        """See Writer."""
        batch, rejected = admitted(ids, fingerprints, tags)
        plan = self.plan(batch)
        for step in plan.steps:
            self.put(step)
        if removing:
            self.delete(removing)
        return plan.report + AddReport(rejected=tuple(rejected))

    def plan(self, batch: Batch, version: int | None = None, *, has_documents: bool = True) -> Plan:
        """What to write so that these documents are stored.

        version: that of those which nothing prevents from having it, by default the time; has_documents:
        False where nothing is stored, so that nobody has to look.
        """
        version = self.version() if version is None else version
        if not has_documents:
            return Plan([Step(version, batch, [])], AddReport(added=len(batch.ids)))
        found = known(self.store, batch.ids)
        changed = _changed(self.store, self.scheme, batch, found, refreshed_before(self.store, version))
        steps = [
            Step(at, chosen := batch[numbers], _left_behind(chosen, [found[number] for number in numbers]))
            for at, numbers in self._by_version(version, changed, found)
        ]
        return Plan(steps, _report(batch, found))

    def put(self, step: Step) -> None:
        """Carries out a step of a plan. Each line waits until the one before is acknowledged."""
        self.note_obsolete(step.version, step.left)
        self.put_hints(step.batch, step.version)
        self.store.records("documents").put(step.batch.commits(self.scheme), step.version)

    def put_hints(self, batch: Batch, version: int) -> None:
        """What leads to documents. Each line waits until the one before is acknowledged."""
        self.store.records("fingerprints").put(batch.listings(self.scheme), version)
        self.store.drawers.add(batch.index_keys(self.scheme))

    def version(self) -> int:
        """That of an operation which begins now."""
        return self.clock() + self.chance(CHANCE)

    def delete(self, ids: Sequence[str]) -> int:
        """See Writer. What is left of a document says that it is deleted: a delete of HBase's own would
        hide what is put later."""
        storable = _storable(ids)
        found = known(self.store, storable)
        stored = [number for number, each in enumerate(found) if each and each.stored]
        for version, numbers in self._by_version(self.version(), stored, found):
            gone = _stored([storable[number] for number in numbers], [found[number] for number in numbers])
            self.note_obsolete(version, [(document, each.entry) for document, each in gone])
            tombstones = [_tombstone(document, each) for document, each in gone]
            self.store.records("documents").put(tombstones, version)
        return len(stored)

    def delete_seen(self, seen: Mapping[str, int], at: Mapping[str, int] | None = None) -> int:
        """See Writer. By default a tombstone is hardly later than its document, so that whatever is written
        meanwhile is later still. The note for vacuum has the time of now: what is under way has ended when
        vacuum comes to it."""
        ids = list(seen)
        gone = _stored_as_seen(seen, ids, known(self.store, ids))
        self.note_obsolete(self.version(), [(document, each.entry) for document, each in gone])
        self.store.records("documents").put(
            [_tombstone(document, each) for document, each in gone],
            [at[document] if at else each.version + 1 + self.chance(SMALL_CHANCE) for document, each in gone],
        )
        left = known(self.store, [document for document, _ in gone])
        return sum(each is None or not each.stored for each in left)

    def copy(
        self,
        ids: Sequence[str],
        fingerprints: FingerprintBatch,
        versions: Sequence[int],
        tags: Sequence[Tags] | None = None,
    ) -> Copied:
        """See Writer. The hints have the time of now, whatever the versions of the documents: vacuum and
        repair take old ones without documents for garbage."""
        found = known(self.store, ids)
        older = _older(found, versions)
        if not older:
            return _copied(found, versions)
        batch = Batch(list(ids), fingerprints, tags)[older]
        time = self.version()
        self.note_obsolete(time, _left_behind(batch, [found[number] for number in older]))
        self.put_hints(batch, time)
        at = [versions[number] for number in older]
        self.store.records("documents").put(batch.commits(self.scheme), at)
        return _copied(found, versions)

    def _by_version(
        self, version: int, numbers: Sequence[int], found: Sequence[Known | None]
    ) -> Iterator[tuple[int, list[int]]]:
        """Documents by the version that they get: this one, or later than what was seen where a clock that is
        ahead of this one has written it."""
        ahead = [number for number in numbers if (each := found[number]) and each.version >= version]
        late = set(ahead)
        on_time = [number for number in numbers if number not in late]
        if on_time:
            yield version, on_time
        if ahead:
            seen = max(each.version for number in ahead if (each := found[number]))
            yield seen + 1 + self.chance(SMALL_CHANCE), ahead

    def note_obsolete(self, version: int, left: Sequence[tuple[str, Entry]]) -> None:
        """Notes for vacuum what documents leave behind."""
        if left:
            self.store.records("obsolete").put(_obsolete_rows(version, left), version)


@dataclass(frozen=True)
class Step:
    """Documents to write with one version, and of those that move what they were."""

    version: int
    batch: Batch
    left: Sequence[tuple[str, Entry]]

    def obsolete_rows(self) -> list[tuple[bytes, bytes]]:
        """The rows in the table obsolete."""
        return _obsolete_rows(self.version, self.left)


@dataclass(frozen=True)
class Plan:
    """What an add has to write, and what it will have done."""

    steps: Sequence[Step]
    report: AddReport


@dataclass(frozen=True)
class Batch:
    """n documents to write, with ids that are valid and all different. tags: None where none has any."""

    ids: list[str]
    fingerprints: FingerprintBatch
    tags: Sequence[Tags] | None = None

    @cached_property
    def values(self) -> list[int]:
        """The fingerprint of each."""
        values: list[int] = self.fingerprints.values.tolist()
        return values

    @cached_property
    def sketches(self) -> list[bytes]:
        """The sketch of each, of no bytes where none are kept."""
        return self.fingerprints.sketch_bytes()

    @staticmethod
    def joined(parts: Sequence[Batch]) -> Batch:
        """One behind the other, of different ids, of at least one part."""
        if len(parts) == 1:
            return parts[0]
        has_tags = any(part.tags is not None for part in parts)
        return Batch(
            [document for part in parts for document in part.ids],
            FingerprintBatch.joined(part.fingerprints for part in parts),
            [part.tags_at(number) for part in parts for number in range(len(part.ids))] if has_tags else None,
        )

    def __getitem__(self, chosen: Sequence[int]) -> Batch:
        tags = None if self.tags is None else [self.tags[number] for number in chosen]
        return Batch([self.ids[number] for number in chosen], self.fingerprints[list(chosen)], tags)

    def tags_at(self, number: int) -> Tags:
        """The tags of one of them."""
        return () if self.tags is None else self.tags[number]

    @cached_property
    def _encoded_ids(self) -> Strings:
        return Strings.of(list(map(str.encode, self.ids)))

    def listing_rows(self, scheme: Scheme) -> tuple[Strings, Strings]:
        """Keys and values of their rows in the table fingerprints."""
        sketches = self.fingerprints.sketches
        values = sketches if scheme.listed_sketching else sketches[:, :0]
        return rows.listing_keys(self.fingerprints.values, self._encoded_ids), Strings.rows_of(values)

    def document_rows(self, scheme: Scheme) -> tuple[Strings, Strings]:
        """Keys and values of their rows in the table documents."""
        sketches = self.fingerprints.sketches
        stored = sketches[:, :0] if scheme.listed_sketching else sketches
        values = rows.document_values(self.fingerprints.values, stored, self.tags)
        return rows.document_keys(self._encoded_ids), values

    def listings(self, scheme: Scheme) -> list[tuple[bytes, bytes]]:
        """Their rows in the table fingerprints."""
        return pairs(*self.listing_rows(scheme))

    def commits(self, scheme: Scheme) -> list[tuple[bytes, bytes]]:
        """Their rows in the table documents."""
        return pairs(*self.document_rows(scheme))

    def index_keys(self, scheme: Scheme) -> NDArray[np.uint8]:
        """The rows of their fingerprints in the index, each once: uint8 (m, tables, 13)."""
        _, first = np.unique(self.fingerprints.values, return_index=True)
        return scheme.keys(self.fingerprints[first])


NOTHING = Batch([], FingerprintBatch.bare(np.empty(0, dtype=np.uint64)))


def admitted(
    ids: Sequence[str], fingerprints: FingerprintBatch, tags: Sequence[Tags] | None = None
) -> tuple[Batch, list[Rejected]]:
    """The documents that can be stored, and those that cannot."""
    if tags is None and len(set(ids)) == len(ids) and not any(map(rows.id_problem, ids)):
        return Batch(list(ids), fingerprints), []
    first: dict[str, int] = {}
    rejected = []
    named = set[str]()
    for number, document in enumerate(ids):
        problem = rows.id_problem(document)
        if problem is None and document in named:
            problem = "the same id came earlier in the same call"
        if problem is None and tags is not None:
            problem = tags_problem(tags[number])
        if problem is None:
            first[document] = number
        else:
            rejected.append(Rejected(document, problem))
        named.add(document)
    if not rejected:
        return Batch(list(first), fingerprints, tags), rejected
    kept = list(first.values())
    return (
        Batch(list(first), fingerprints[kept], None if tags is None else [tags[number] for number in kept]),
        rejected,
    )


def known(store: Store, ids: Sequence[str]) -> list[Known | None]:
    """What the documents table holds of each id, None where that is nothing. A row that cannot be read is
    no document, and the next write replaces it."""
    cells = store.records("documents").get(list(map(rows.document_key, ids)))
    return [None if cell is None else Known(rows.entry(cell.value), cell.version) for cell in cells]


def alive_since(store: Store, time: int) -> int:
    """The version from which on documents have not expired at a time."""
    ttl = store.ttl()
    return 0 if ttl is None else time - ttl * 1000


def remove_older(store: Store, writer: Writer, before: int, note: Callable[[int], None]) -> int:
    """Removes the documents of lower versions, batch by batch; what is written meanwhile stays. Returns how
    many. note: called with the number of rows read since the last call."""
    removed = 0
    for batch in store.records("documents").iterate():
        stored = {document: each for document, each in known_in(batch).items() if each.stored}
        old = {document: each.version for document, each in stored.items() if each.version < before}
        with interrupt_put_off():
            removed += writer.delete_seen(old)
        note(len(batch))
    return removed


def known_in(batch: Sequence[Row]) -> dict[str, Known]:
    """What rows of the documents table hold, by id, without those that cannot be read."""
    parsed = [(rows.parse_document(key, cell.value), cell.version) for key, cell in batch]
    return {each[0]: Known(each[1], version) for each, version in parsed if each}


def alone(store: Store, leaving: Mapping[int, set[str]]) -> list[tuple[int, bytes]]:
    """Those of the fingerprints that no other documents are listed under than the given ones, each with a
    sketch of one of them (empty where none is listed)."""
    prefixes = list(map(rows.listing_prefix, leaving))
    # One row more than may leave: where there is another document, it is among so many.
    most = max(map(len, leaving.values()), default=0) + 1
    found = store.records("fingerprints").scan(prefixes, most)
    return [
        (fingerprint, listed[0][1].value if listed else b"")
        for (fingerprint, ids), listed in zip(leaving.items(), found, strict=True)
        if ids.issuperset(rows.listing_id(key) for key, _ in listed)
    ]


def batch_of(
    fingerprints: Sequence[tuple[int, bytes]], sketching: SketchParameters | None
) -> FingerprintBatch:
    """Fingerprints with their sketches of these parameters (None: of no bytes), without those whose sketch is
    lost."""
    size = sketching.bytes if sketching else 0
    usable = [(value, sketch) for value, sketch in fingerprints if len(sketch) == size]
    values = np.array([value for value, _ in usable], dtype=np.uint64)
    content = b"".join(sketch for _, sketch in usable)
    return FingerprintBatch(values, np.frombuffer(content, dtype=np.uint8).reshape(len(values), size))


def _changed(
    store: Store,
    scheme: Scheme,
    batch: Batch,
    found: Sequence[Known | None],
    refreshed_before: int | None,
) -> list[int]:
    """The numbers of the documents that are not stored as they are wanted, or were put before that time."""
    same = [
        number
        for number, each in enumerate(found)
        if each
        and each.stored
        and each.entry.fingerprint == batch.values[number]
        and (scheme.listed_sketching is not None or each.entry.sketch == batch.sketches[number])
        and each.entry.tags == batch.tags_at(number)
        and (refreshed_before is None or each.version >= refreshed_before)
    ]
    if scheme.listed_sketching is not None and same:
        keys = [rows.listing_key(batch.values[number], batch.ids[number]) for number in same]
        cells = store.records("fingerprints").get(keys)
        same = [
            number
            for number, cell in zip(same, cells, strict=True)
            if cell is not None and cell.value == batch.sketches[number]
        ]
    settled = set(same)
    return [number for number in range(len(batch.ids)) if number not in settled]


def _steps(changed: list[int], found: Sequence[Known | None]) -> Iterator[list[int]]:
    """What an atomic store writes at once: a small batch, else what is new apart from the rest."""
    if len(changed) <= CHANGED_AT_ONCE:
        yield changed
        return
    yield [number for number in changed if found[number] is None]
    known_before = [number for number in changed if found[number] is not None]
    for start in range(0, len(known_before), CHANGED_AT_ONCE):
        yield known_before[start : start + CHANGED_AT_ONCE]


def _left_behind(batch: Batch, found: Sequence[Known | None]) -> list[tuple[str, Entry]]:
    """The documents that move, with what they were."""
    return [
        (document, each.entry)
        for document, fingerprint, each in zip(batch.ids, batch.values, found, strict=True)
        if each and each.stored and each.entry.fingerprint != fingerprint
    ]


def refreshed_before(store: Store, time: int) -> int | None:
    """What was put before that is written anew, though it is unchanged; None: nothing."""
    ttl = store.ttl()
    return None if ttl is None else time - ttl * 1000 // REFRESHED


def _alive(found: Sequence[Known | None], since: int) -> list[Known | None]:
    """What has not expired."""
    return [each if each and each.version >= since else None for each in found]


def _obsolete_rows(version: int, left: Sequence[tuple[str, Entry]]) -> list[tuple[bytes, bytes]]:
    return [(Obsolete(version, entry.fingerprint, document).key(), b"") for document, entry in left]


def _report(batch: Batch, found: Sequence[Known | None]) -> AddReport:
    added = sum(each is None or not each.stored for each in found)
    updated = len(_left_behind(batch, found))
    return AddReport(added, updated, len(found) - added - updated)


def _storable(ids: Sequence[str]) -> list[str]:
    return [document for document in dict.fromkeys(ids) if rows.id_problem(document) is None]


def _stored(ids: Sequence[str], found: Sequence[Known | None]) -> list[tuple[str, Known]]:
    return [(document, each) for document, each in zip(ids, found, strict=True) if each and each.stored]


def _stored_as_seen(
    seen: Mapping[str, int], ids: Sequence[str], found: Sequence[Known | None]
) -> list[tuple[str, Known]]:
    """The documents that are stored at the version at which they were seen."""
    return [(document, each) for document, each in _stored(ids, found) if each.version == seen[document]]


def _tombstone(document: str, known: Known) -> tuple[bytes, bytes]:
    """The row that says that a document is deleted."""
    return rows.document_key(document), Entry(known.entry.fingerprint, State.DELETED).encode()


def _older(found: Sequence[Known | None], versions: Sequence[int]) -> list[int]:
    """The numbers of those that are not there at these versions or later ones."""
    pairs = enumerate(zip(found, versions, strict=True))
    return [number for number, (each, version) in pairs if each is None or each.version < version]


def _copied(found: Sequence[Known | None], versions: Sequence[int]) -> Copied:
    pairs = [(each, version) for each, version in zip(found, versions, strict=True) if each]
    older = [each for each, version in pairs if each.version < version]
    updated = sum(each.stored for each in older)
    unchanged = sum(each.stored and each.version == version for each, version in pairs)
    added = len(found) - len(pairs) + len(older) - updated
    return Copied(added, updated, unchanged, len(pairs) - len(older) - unchanged)
