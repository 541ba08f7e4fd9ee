"""Removes what documents have left behind in a store where many processes write: hints that lead nowhere,
and what is left of deleted documents.

Any number may run at once, and each may be stopped and run again. Only what is older than the grace time
is touched, which is far longer than any call or lookup takes and than clocks differ: whatever was under
way when it became obsolete has ended. Everything is removed up to the version, or the time, that was seen,
so that what is put later survives. `simhbase/index/writer.py` says what is a hint.

Batches of claims (`simhbase/index/claim_batch.py`) leave their rows where somebody has broken them or they
died. These go by their age, whatever they say: what they have accepted and nobody has committed by now was
answered to nobody. Pending cells go with the listings that lead to them; and the row that says that a
document is deleted after all pending cells of it, one of which would count again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from time import monotonic
from typing import cast

import numpy as np

from simhbase.admin.stats import sizes
from simhbase.drawers.rowkeys import KEY_BYTES
from simhbase.drawers.scheme import Scheme
from simhbase.errors import UsageError
from simhbase.index import rows
from simhbase.index.index import open_index
from simhbase.index.part import Part, part_of
from simhbase.index.rows import SALTS
from simhbase.index.writer import Known, alive_since, alone, batch_of, known, remove_older, writer_for
from simhbase.progress import Progress, counting, no_progress
from simhbase.stores import is_in_hbase
from simhbase.stores.base import SharedStore, Store, multi_writer, now

DAY = 24 * 3600
GRACE = DAY  # seconds
LEAST_GRACE = 4 * 3600  # seconds: a writer's clock may be an hour behind, and this machine's one ahead


@dataclass(frozen=True)
class VacuumReport:
    """What a vacuum has done.

    looked_at: notes of what became obsolete; listings, index_rows, deleted_documents: what was removed of
    these; claims: batch rows and pending cells of claims that nobody goes on with; too_young: what a later
    run has to look at again. removes_at_once: the store is an embedded one, which leaves nothing behind but
    documents that have expired: looked_at is then of how many that was asked, and expired how many were
    removed."""

    looked_at: int
    listings: int
    index_rows: int
    deleted_documents: int
    claims: int
    too_young: int
    expired: int
    removes_at_once: bool
    seconds: float


def vacuum(
    url: str,
    older_than: float = GRACE,
    *,
    sweep: Part | tuple[int, int] | None = None,
    progress: Progress = no_progress,
) -> VacuumReport:
    """Removes what moved and deleted documents have left behind in a store in HBase, and documents of an
    embedded store that have expired.

    older_than: seconds for which it must have been of no use; sweep: in HBase, also a part of the listings
    that nothing was noted of, by number and count: writers that change a document at the same moment, and
    crashes, leave such; progress: is told how far it is. Safe beside any number of writers and readers; may
    be stopped and run again. Raises UsageError for less than four hours, and what `simhbase.open` raises.
    """
    start = monotonic()
    part = None if sweep is None else part_of(sweep)
    with open_index(url) as index:
        hints = multi_writer(index.store)

        def notes() -> int:
            return index.store.records("obsolete" if hints else "documents").approximate_size().rows

        with counting(progress, "rows", notes) as note:
            removed = Vacuum(
                index.store, index.profile.index_scheme, older_than, index.clock, progress=note
            ).run(part)
    return VacuumReport(
        looked_at=removed.notes,
        listings=removed.listings,
        index_rows=removed.index_rows,
        deleted_documents=removed.tombstones,
        claims=removed.claims,
        too_young=removed.left,
        expired=removed.expired,
        removes_at_once=not hints,
        seconds=round(monotonic() - start, 3),
    )


@dataclass(frozen=True)
class CompactReport:
    """What a compaction has done: expired documents that were removed, and the bytes of the store's files."""

    expired: int
    bytes_before: int
    bytes_after: int
    seconds: float


def compact(url: str, *, progress: Progress = no_progress) -> CompactReport:
    """Merges all files of an embedded store, so that a lookup reads few; what was deleted, or has expired,
    takes no room any more.

    Takes about as much free room as the store has, until it is done; readers may go on. progress: is told how
    far it is. May be stopped and run again. Raises UsageError for a store in HBase, which merges its files
    itself (`major_compact` in its shell), StoreFailed where there is no room, what `simhbase.open` raises.
    """
    start = monotonic()
    if is_in_hbase(url):
        raise UsageError(f"{url}: HBase merges its files itself; its shell has major_compact")
    with open_index(url) as index:
        store = index.store
        before = _bytes(store)
        removed = Vacuum(store, index.profile.index_scheme).run()
        store.compact(progress, whole=True)
        after = _bytes(store)
    return CompactReport(removed.expired, before, after, round(monotonic() - start, 3))


def _bytes(store: Store) -> int:
    return sum(size.bytes for size in sizes(store).values())


@dataclass
class VacuumCounts:
    """What a run did so far: notes looked at, what it removed, and what was too young to be touched."""

    notes: int = 0
    listings: int = 0
    index_rows: int = 0
    tombstones: int = 0
    claims: int = 0
    left: int = 0
    expired: int = 0


@dataclass(frozen=True)
class Vacuum:
    """Removes what has been obsolete for longer than `grace` seconds.

    progress: called with the number of notes looked at since the last call.
    """

    store: Store
    scheme: Scheme
    grace: float = GRACE
    clock: Callable[[], int] = field(default=now)
    progress: Callable[[int], None] = lambda notes: None

    def __post_init__(self) -> None:
        """Raises UsageError for a grace time that calls and clocks may exceed, and for what is none."""
        is_number = isinstance(self.grace, int) or (isinstance(self.grace, float) and isfinite(self.grace))
        if isinstance(self.grace, bool) or not is_number:
            raise UsageError(f"must be a number of seconds, not {self.grace!r}", parameter="older_than")
        if self.grace < LEAST_GRACE:
            raise UsageError(
                f"a grace time of {self.grace:g} s: take {LEAST_GRACE} s (four hours) at least. Calls that "
                "are under way, and machines whose clocks differ, may still need what is younger"
            )

    def run(self, sweep: Part | None = None) -> VacuumCounts:
        """One run over all that was noted, and over a part of the listings."""
        report = VacuumCounts()
        if not multi_writer(self.store):
            self._expire(report)
            return report
        before = self.clock() - int(self.grace * 1000)
        table = self.store.records("obsolete")
        for salt in range(SALTS):
            for batch in table.iterate(*rows.obsolete_range(salt, before)):
                self._notes({key: cell.version for key, cell in batch}, before, report)
                self.progress(len(batch))
        self._batch_rows(before, report)
        if sweep is not None:
            self._sweep(sweep, before, report)
        return report

    def _sweep(self, part: Part, before: int, report: VacuumCounts) -> None:
        """Removes listings that lead nowhere and that nobody has noted."""
        for batch in self.store.records("fingerprints").iterate(*part.keys()):
            old = [rows.parse_listing(key) for key, cell in batch if cell.version < before]
            self.remove([each for each in old if each], before, report)
            self.progress(len(batch))

    def _batch_rows(self, before: int, report: VacuumCounts) -> None:
        """Removes the rows of batches of claims that have not changed for the grace time."""
        meta = self.store.records("meta")
        for batch in meta.iterate(rows.BATCH_ROWS, rows.BEHIND_BATCH_ROWS):
            old = {key: cell.version for key, cell in batch if cell.version < before}
            meta.delete(list(old), list(old.values()))
            report.claims += len(old)

    def _expire(self, report: VacuumCounts) -> None:
        if self.store.ttl() is None:
            return

        def note(count: int) -> None:
            report.notes += count
            self.progress(count)

        writer = writer_for(self.store, self.scheme, self.clock)
        report.expired = remove_older(self.store, writer, alive_since(self.store, self.clock()), note)

    def _notes(self, versions: Mapping[bytes, int], before: int, report: VacuumCounts) -> None:
        """Deals with some notes, given the versions of their cells."""
        report.notes += len(versions)
        noted = {key: rows.parse_obsolete(key) for key in versions}
        listings = list(dict.fromkeys((each.fingerprint, each.id) for each in noted.values() if each))
        young = self.remove(listings, before, report)
        done = [key for key, each in noted.items() if not each or (each.fingerprint, each.id) not in young]
        report.left += len(noted) - len(done)
        self.store.records("obsolete").delete(done, [versions[key] for key in done])

    def remove(
        self, listings: Sequence[tuple[int, str]], before: int, report: VacuumCounts
    ) -> set[tuple[int, str]]:
        """Removes those of the listings (fingerprint, id) that lead nowhere; returns those that are too
        young, or belong to a document that is, and have to be looked at again."""
        ids = list(dict.fromkeys(document for _, document in listings))
        documents = dict(zip(ids, known(self.store, ids), strict=True))
        written = last_written(self.store, documents)
        young = {each for each in listings if each[1] in written and written[each[1]] >= before}
        stale = [
            each for each in listings if each not in young and not _leads_to(documents[each[1]], each[0])
        ]
        claimed = self._end_claims([document for _, document in stale], before, report)
        young |= {each for each in stale if each[1] in claimed}
        cells = self.store.records("fingerprints").get([rows.listing_key(*each) for each in stale])
        hints = {each: cell for each, cell in zip(stale, cells, strict=True) if cell is not None}
        # A hint that was put lately, of an add that is under way.
        young |= {each for each, cell in hints.items() if cell.version >= before}
        old = {each: cell for each, cell in hints.items() if each not in young}
        young |= self._clear_drawers({each: cell.value for each, cell in old.items()}, before, report)
        going = {each: cell.version for each, cell in old.items() if each not in young}
        self.store.records("fingerprints").delete(
            [rows.listing_key(*each) for each in going], list(going.values())
        )
        report.listings += len(going)
        self._bury([each[1] for each in stale if each not in young], documents, report)
        return young

    def _end_claims(self, ids: Sequence[str], before: int, report: VacuumCounts) -> set[str]:
        """Removes the pending cells of documents, and returns those that have younger ones."""
        claimed = set[str]()
        if not multi_writer(self.store):
            return claimed
        named = cast(SharedStore, self.store).document_cells
        distinct = list(dict.fromkeys(ids))
        keys = list(map(rows.document_key, distinct))
        for document, key, cells in zip(distinct, keys, named.get(keys), strict=True):
            for token, cell in cells.items():
                if token and cell.version < before:
                    named.delete(token, [key], [cell.version])
                    report.claims += 1
                elif token:
                    claimed.add(document)
        return claimed

    def _clear_drawers(
        self, listings: dict[tuple[int, str], bytes], before: int, report: VacuumCounts
    ) -> set[tuple[int, str]]:
        """Removes the index rows of fingerprints that are left without documents when these listings (with
        their sketches) go; returns those listings whose index rows are too young."""
        leaving: dict[int, set[str]] = {}
        sketches: dict[int, bytes] = {}
        for (fingerprint, document), sketch in listings.items():
            leaving.setdefault(fingerprint, set()).add(document)
            sketches.setdefault(fingerprint, sketch)
        fingerprints = batch_of(list(sketches.items()), self.scheme.listed_sketching)
        keys = self.scheme.keys(fingerprints)
        # The times come first: whoever lists a document under one of these fingerprints after that look
        # puts the index rows later still, and they survive.
        times = self.store.drawers.times(keys)
        empty = {fingerprint for fingerprint, _ in alone(self.store, leaving)}
        emptied = np.isin(fingerprints.values, np.fromiter(empty, np.uint64, len(empty)))
        young = (times >= before).any(axis=1)
        removed = times >= 0
        removed[~emptied | young] = False
        self.store.drawers.remove(keys[removed].reshape(-1, KEY_BYTES), times[removed])
        report.index_rows += int(np.count_nonzero(removed))
        waiting = set(fingerprints.values[emptied & young].tolist())
        return {each for each in listings if each[0] in waiting}

    def _bury(self, ids: Sequence[str], documents: dict[str, Known | None], report: VacuumCounts) -> None:
        """Removes what is left of deleted documents."""
        deleted = {
            document: each.version
            for document in ids
            if (each := documents[document]) is not None and not each.stored
        }
        self.store.records("documents").delete(list(map(rows.document_key, deleted)), list(deleted.values()))
        report.tombstones += len(deleted)


def last_written(store: Store, documents: Mapping[str, Known | None]) -> dict[str, int]:
    """When documents were written, by id: at their versions, or where they were copied with those of another
    store, at that of their hints."""
    times = {document: each.version for document, each in documents.items() if each}
    stored = {document: each for document, each in documents.items() if each and each.stored}
    keys = [rows.listing_key(each.entry.fingerprint, document) for document, each in stored.items()]
    for document, cell in zip(stored, store.records("fingerprints").get(keys), strict=True):
        times[document] = max(times[document], cell.version if cell else 0)
    return times


def _leads_to(found: Known | None, fingerprint: int) -> bool:
    return found is not None and found.stored and found.entry.fingerprint == fingerprint
