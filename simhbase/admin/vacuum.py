"""Removes obsolete rows from multi-writer stores: hints that lead nowhere, and tombstones.

Any number of vacuums may run at once, and each may be stopped and repeated. Only rows older than the grace
time are touched, which is far longer than any call, lookup or clock difference, so operations that were
running when a row became obsolete have ended. Deletes apply up to the version or time that was read, so later
puts survive. See `simhbase/stores/hbase/store.py` for hints.

Batches of claims (`simhbase/index/claims/batch.py`) leave rows behind if they were broken or their process
died. These are removed by age alone: what they accepted without committing it by now was never reported.
Pending cells are removed with the listings that lead to them, and a document's tombstone after all of its
pending cells, which would otherwise count again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from math import isfinite
from time import monotonic
from typing import cast

import numpy as np

from simhbase.admin.removal import Agree, Removal
from simhbase.admin.stats import sizes
from simhbase.drawers.rowkeys import KEY_BYTES
from simhbase.drawers.scheme import Scheme
from simhbase.errors import UsageError
from simhbase.index import rows
from simhbase.index.counts import forget
from simhbase.index.part import Part, part_of
from simhbase.index.rows import SALTS
from simhbase.index.stored_profile import read_profile
from simhbase.index.writer import (
    Known,
    Writer,
    alive_since,
    batch_of,
    emptied_by,
    expired_before,
    known,
    known_in,
    remove_older,
)
from simhbase.process.progress import Progress, counting, no_progress
from simhbase.stores import backend
from simhbase.stores.base import MET, HintingStore, Store, now

DAY = 24 * 3600
GRACE = DAY  # seconds
LEAST_GRACE = 4 * 3600  # seconds; a writer's clock may be an hour behind, and this machine's an hour ahead
NOTES_AT_ONCE = 2_000  # of several salts, which have few each: a batch takes a dozen calls


@dataclass
class VacuumReport:
    """Result of a vacuum, counted as it runs.

    looked_at: notes of obsolete rows that were read; listings, index_rows, deleted_documents: rows removed;
    claims: rows and cells of abandoned claims that were removed; too_young: left for a later run;
    refused_claims: rows of refused claims that were removed, as their document is gone.
    removes_at_once: an embedded store, which has no obsolete rows except expired documents: looked_at then
    counts documents, and expired those removed.
    """

    looked_at: int = 0
    listings: int = 0
    index_rows: int = 0
    deleted_documents: int = 0
    claims: int = 0
    too_young: int = 0
    expired: int = 0
    refused_claims: int = 0
    removes_at_once: bool = False
    seconds: float = 0.0


def vacuum(
    url: str,
    older_than: float = GRACE,
    *,
    sweep: Part | tuple[int, int] | None = None,
    agree: Agree | None = None,
    progress: Progress = no_progress,
) -> VacuumReport:
    """Remove obsolete rows of updated and deleted documents in HBase, and expired documents in an embedded
    store.

    older_than: minimum age in seconds; sweep: in HBase, (number, count) of a part of the listings to check as
    well, for obsolete rows without a note, which crashes and concurrent updates leave; agree: called before
    anything is removed, with the number of these, which takes another pass over the part; may raise;
    progress: reports the rows read. Safe beside readers and writers; may be stopped and repeated. Raises
    UsageError for less than four hours, and the errors of `simhbase.open`.
    """
    start = monotonic()
    part = None if sweep is None else part_of(sweep)
    with closing(backend(url).open("write")) as store:
        scheme = read_profile(store).profile.index_scheme
        table = store.records("obsolete" if store.keeps_hints else "documents")
        with counting(progress, "rows", lambda: table.approximate_size().rows) as note:
            work = Vacuum(store, scheme, older_than, store.now, progress=note)
            if part is not None and agree is not None and store.keeps_hints:
                agree(work.count_stale(part))
            report = work.run(part)
    report.seconds = round(monotonic() - start, 3)
    return report


def count_stale(
    url: str, sweep: Part | tuple[int, int], older_than: float = GRACE, *, progress: Progress = no_progress
) -> Removal:
    """Count the listings in a part that `vacuum` with this `sweep` would remove, and all. Changes nothing."""
    part = part_of(sweep)
    with closing(backend(url).open("read")) as store:
        scheme = read_profile(store).profile.index_scheme
        table = store.records("fingerprints")
        with counting(progress, "rows", lambda: table.approximate_size().rows // part.of) as note:
            return Vacuum(store, scheme, older_than, store.now, progress=note).count_stale(part)


@dataclass(frozen=True)
class CompactReport:
    """Result of a compaction: expired documents removed, and the size of the store's files in bytes."""

    expired: int
    bytes_before: int
    bytes_after: int
    seconds: float


def compact(url: str, *, progress: Progress = no_progress) -> CompactReport:
    """Compact an embedded store: merge its files, so that lookups read few, and free the space of deleted and
    expired documents. In PostgreSQL, vacuum and analyze the tables.

    An embedded store needs about as much free space as it takes; readers may continue. progress: reports the
    bytes done. May be stopped and repeated. Raises UsageError for a store in HBase, which compacts itself,
    with the commands of its shell for a full compaction, StoreFailed if the disk is full, and the errors of
    `simhbase.open`.
    """
    start = monotonic()
    place = backend(url)
    if script := place.compaction_script():
        raise UsageError(
            f"{url}: HBase compacts its tables itself; for a full compaction run in its shell\n{script}"
        )
    with closing(place.open("append")) as store:
        scheme = read_profile(store).profile.index_scheme
        before = _bytes(store)
        removed = Vacuum(store, scheme).run()
        store.compact(progress, whole=True)
        after = _bytes(store)
    return CompactReport(removed.expired, before, after, round(monotonic() - start, 3))


def _bytes(store: Store) -> int:
    return sum(size.bytes for size in sizes(store).values())


@dataclass(frozen=True)
class Vacuum:
    """Removes rows that have been obsolete for longer than `grace` seconds.

    progress: called with the number of notes read.
    """

    store: Store
    scheme: Scheme
    grace: float = GRACE
    clock: Callable[[], int] = field(default=now)
    progress: Callable[[int], None] = lambda notes: None

    def __post_init__(self) -> None:
        """Raises UsageError for an invalid grace time, and one shorter than calls and clock differences."""
        is_number = isinstance(self.grace, int) or (isinstance(self.grace, float) and isfinite(self.grace))
        if isinstance(self.grace, bool) or not is_number:
            raise UsageError(f"must be a number of seconds, not {self.grace!r}", parameter="older_than")
        if self.grace < LEAST_GRACE:
            raise UsageError(
                f"{self.grace:g} s is too short: use at least {LEAST_GRACE} s (four hours). Running calls, "
                "and machines whose clocks differ, may still need younger rows"
            )

    def run(self, sweep: Part | None = None) -> VacuumReport:
        """Process all notes, and a part of the listings."""
        report = VacuumReport(removes_at_once=not self.store.keeps_hints)
        if report.removes_at_once:
            self._expire(report)
            self._forget(sys.maxsize, report)
            return report
        before = self.clock() - int(self.grace * 1000)
        table, notes = self.store.records("obsolete"), dict[bytes, int]()
        for salt in range(SALTS):
            for batch in table.iterate(*rows.obsolete_range(salt, before)):
                notes |= {key: cell.version for key, cell in batch}
                if len(notes) >= NOTES_AT_ONCE:
                    self._notes(notes, before, report)
                    notes = {}
        self._notes(notes, before, report)
        self._batch_rows(before, report)
        if sweep is not None:
            self._sweep(sweep, before, report)
        self._forget(before, report)
        return report

    def _forget(self, before: int, report: VacuumReport) -> None:
        """Removes rows of refused claims whose documents are gone."""
        if MET in self.store.tables:
            report.refused_claims = forget(
                self.store, before, expired_before(self.store, self.clock()), self.progress
            )

    def _sweep(self, part: Part, before: int, report: VacuumReport) -> None:
        """Removes listings that lead nowhere and have no note."""
        for batch in self.store.records("fingerprints").iterate(*part.keys()):
            old = [rows.parse_listing(key) for key, cell in batch if cell.version < before]
            self.remove([each for each in old if each], before, report)
            self.progress(len(batch))

    def count_stale(self, part: Part) -> Removal:
        """Counts the listings of a part that are old and lead nowhere, and all."""
        before = self.clock() - int(self.grace * 1000)
        stale = total = 0
        for batch in self.store.records("fingerprints").iterate(*part.keys()):
            old = [rows.parse_listing(key) for key, cell in batch if cell.version < before]
            listings = [each for each in old if each]
            stored = known(self.store, [document for _, document in listings])
            stale += sum(
                not (found and found.is_listed_under(fingerprint))
                for (fingerprint, _), found in zip(listings, stored, strict=True)
            )
            total += len(batch)
            self.progress(len(batch))
        return Removal(stale, total, "listed fingerprints", self.store.url)

    def _batch_rows(self, before: int, report: VacuumReport) -> None:
        """Removes rows of claim batches that have not changed for the grace time."""
        meta = self.store.records("meta")
        for batch in meta.iterate(rows.BATCH_ROWS, rows.BEHIND_BATCH_ROWS):
            old = {key: cell.version for key, cell in batch if cell.version < before}
            meta.delete(list(old), list(old.values()))
            report.claims += len(old)

    def _expire(self, report: VacuumReport) -> None:
        if self.store.ttl() is None:
            return

        def note(count: int) -> None:
            report.looked_at += count
            self.progress(count)

        writer = Writer(self.store, self.scheme, self.clock)
        batches = map(known_in, self.store.records("documents").iterate())
        alive = alive_since(self.store, self.clock())
        report.expired = remove_older(batches, writer.delete_seen, alive, note)

    def _notes(self, versions: Mapping[bytes, int], before: int, report: VacuumReport) -> None:
        """Processes notes, given the versions of their cells."""
        if not versions:
            return
        report.looked_at += len(versions)
        noted = {key: rows.parse_obsolete(key) for key in versions}
        listings = list(dict.fromkeys((each.fingerprint, each.id) for each in noted.values() if each))
        young = self.remove(listings, before, report)
        done = [key for key, each in noted.items() if not each or (each.fingerprint, each.id) not in young]
        report.too_young += len(noted) - len(done)
        self.store.records("obsolete").delete(done, [versions[key] for key in done])
        self.progress(len(versions))

    def remove(
        self, listings: Sequence[tuple[int, str]], before: int, report: VacuumReport
    ) -> set[tuple[int, str]]:
        """Remove those of the listings (fingerprint, id) that lead nowhere. Returns those to check again
        later, because they or their documents are too young."""
        ids = list(dict.fromkeys(document for _, document in listings))
        documents = dict(zip(ids, known(self.store, ids), strict=True))
        written = last_written(self.store, documents)
        young = {each for each in listings if each[1] in written and written[each[1]] >= before}
        stale = [
            (fingerprint, document)
            for fingerprint, document in listings
            if (fingerprint, document) not in young
            and not ((found := documents[document]) and found.is_listed_under(fingerprint))
        ]
        claimed = self._end_claims([document for _, document in stale], before, report)
        young |= {each for each in stale if each[1] in claimed}
        cells = self.store.records("fingerprints").get([rows.listing_key(*each) for each in stale])
        hints = {each: cell for each, cell in zip(stale, cells, strict=True) if cell is not None}
        # A recent hint, of an add that is still running.
        young |= {each for each, cell in hints.items() if cell.version >= before}
        old = {each: cell for each, cell in hints.items() if each not in young}
        sketches = {
            each: rows.usable_sketch(rows.listing_key(*each), cell.value) for each, cell in old.items()
        }
        young |= self._clear_drawers(sketches, before, report)
        going = {each: cell.version for each, cell in old.items() if each not in young}
        self.store.records("fingerprints").delete(
            [rows.listing_key(*each) for each in going], list(going.values())
        )
        report.listings += len(going)
        self._remove_tombstones([each[1] for each in stale if each not in young], documents, report)
        return young

    def _end_claims(self, ids: Sequence[str], before: int, report: VacuumReport) -> set[str]:
        """Removes pending cells of documents; returns the documents that have younger ones."""
        claimed = set[str]()
        if not self.store.keeps_hints:
            return claimed
        named = cast(HintingStore, self.store).document_cells
        distinct = list(dict.fromkeys(ids))
        keys = list(map(rows.document_key, distinct))
        old: dict[tuple[bytes, bytes], int] = {}
        for document, key, cells in zip(distinct, keys, named.get(keys), strict=True):
            for token, cell in cells.items():
                if token and cell.version < before:
                    old[key, token] = cell.version
                elif token:
                    claimed.add(document)
        named.delete(list(old), list(old.values()))
        report.claims += len(old)
        return claimed

    def _clear_drawers(
        self, listings: dict[tuple[int, str], bytes], before: int, report: VacuumReport
    ) -> set[tuple[int, str]]:
        """Removes the index rows of fingerprints that have no documents left without these listings (given
        with their sketches). Returns the listings whose index rows are too young."""
        leaving: dict[int, set[str]] = {}
        sketches: dict[int, bytes] = {}
        for (fingerprint, document), sketch in listings.items():
            leaving.setdefault(fingerprint, set()).add(document)
            sketches.setdefault(fingerprint, sketch)
        fingerprints = batch_of(list(sketches.items()), self.scheme.listed_sketching)
        keys = self.scheme.keys(fingerprints)
        # Read the times first: a writer that lists a document under one of these fingerprints afterwards
        # puts its index rows even later, so they survive.
        times = self.store.drawers.times(keys)
        empty = {fingerprint for fingerprint, _ in emptied_by(self.store, leaving)}
        emptied = np.isin(fingerprints.values, np.fromiter(empty, np.uint64, len(empty)))
        young = (times >= before).any(axis=1)
        removed = times >= 0
        removed[~emptied | young] = False
        self.store.drawers.remove(keys[removed].reshape(-1, KEY_BYTES), times[removed])
        report.index_rows += int(np.count_nonzero(removed))
        waiting = set(fingerprints.values[emptied & young].tolist())
        return {each for each in listings if each[0] in waiting}

    def _remove_tombstones(
        self, ids: Sequence[str], documents: dict[str, Known | None], report: VacuumReport
    ) -> None:
        deleted = {
            document: each.version
            for document in ids
            if (each := documents[document]) is not None and not each.stored
        }
        self.store.records("documents").delete(list(map(rows.document_key, deleted)), list(deleted.values()))
        report.deleted_documents += len(deleted)


def last_written(store: Store, documents: Mapping[str, Known | None]) -> dict[str, int]:
    """When documents were written, by id: their versions, or those of their hints for copies, which have the
    versions of another store."""
    times = {document: each.version for document, each in documents.items() if each}
    stored = {document: each for document, each in documents.items() if each and each.stored}
    keys = [rows.listing_key(each.entry.fingerprint, document) for document, each in stored.items()]
    for document, cell in zip(stored, store.records("fingerprints").get(keys), strict=True):
        times[document] = max(times[document], cell.version if cell else 0)
    return times
