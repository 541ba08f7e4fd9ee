"""Copies what can be read of a damaged store to another one, and lists what is lost.

The documents table is copied first. Then the listings show which documents should be there: what one table
has lost, the other may still name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from time import monotonic

from simhbase.admin.check import META_ROWS
from simhbase.admin.migrate import (
    COPIED_AT_ONCE,
    copy_documents,
    joined,
    readable,
    require_fitting,
)
from simhbase.admin.tables import open_like
from simhbase.errors import ProfileMismatch, StoreFailed, TablesMissing, UsageError
from simhbase.index import rows
from simhbase.index.counts import copy_rows, damaged_rows
from simhbase.index.index import Index
from simhbase.index.mute import MuteList, is_mute_list
from simhbase.index.rows import Entry
from simhbase.index.scoped import StoreOfScopes
from simhbase.index.scopes import note_scope, noted_scopes
from simhbase.index.stored_profile import StoredProfile, probe_answers, read_profile, software
from simhbase.index.writer import SETTLED, Copied, Known, alive_since, known
from simhbase.model.values import Fingerprint
from simhbase.process.interrupt import defer_interrupts
from simhbase.process.progress import Progress, counting, no_progress
from simhbase.profile.profile import Profile, given_parameters, make_profile
from simhbase.stores import backend
from simhbase.stores.base import MET, Cell, RecordTable, Row, Store
from simhbase.stores.meta import damaged_in, quoted

MISSING = "lost: listed under its fingerprint, but without a row in documents"
UNREADABLE = "lost: its row in documents is damaged"
UNSKETCHED = "lost: its sketch is missing or damaged"
UNCERTAIN = "lost, or never stored: listed, but without a row in documents"
UNTAGGED = "copied without tags: if it had some, they are lost"
OLDER = "copied, but older than the fingerprint that it is listed under"
UNLISTED = "copied, but not listed: it may have been deleted or changed later"
_COPIED = frozenset([UNTAGGED, OLDER, UNLISTED])


@dataclass(frozen=True, slots=True)
class Loss:
    """What a damaged store has lost.

    problem: what it is, or for a document what became of it; id: of the document, None for anything else;
    fingerprint: the last one known, None if there is none; table: in which the damage is, None if it is in
    several or unknown.
    """

    problem: str
    id: str | None = None
    fingerprint: Fingerprint | None = None
    table: RecordTable | None = None


@dataclass
class SalvageReport:
    """Result of a salvage, counted as it runs.

    documents: that were read. Of these, added were missing in the target; updated had an earlier version
    there; unchanged have the same, later a later one, and were left; expired are older than the target's time
    to live. lost: documents that were not copied; doubtful: documents that were, but perhaps not as they
    were last; damages: files, rows and parts of tables that cannot be read. Each of these three is a Loss.
    """

    documents: int = 0
    added: int = 0
    updated: int = 0
    unchanged: int = 0
    later: int = 0
    expired: int = 0
    lost: int = 0
    doubtful: int = 0
    damages: int = 0
    seconds: float = 0.0

    @property
    def whole(self) -> bool:
        """True if nothing was lost."""
        return not (self.lost or self.doubtful or self.damages)


def salvage(
    url: str,
    to: str,
    profile: Profile | Mapping[str, object] | None = None,
    *,
    lost: Callable[[Loss], None],
    progress: Progress = no_progress,
) -> SalvageReport:
    """Copy the documents that can be read of a damaged store to another one, with the mute list.

    Nothing is changed in the damaged store, which no process may write meanwhile. to: URL of the target,
    created if missing, as by `migrate`. profile: parameters to change in the target; if the store has lost
    its profile, the profile by which its documents were stored. lost: called with everything that is lost, as
    far as it can be known. progress: reports the rows read. May be repeated after an interruption.

    Raises StoreFailed if the profile is lost and none is given, ProfileMismatch if it does not fit the
    documents, StoreBusy if a process writes to the store, and the errors of `migrate`.
    """
    place = backend(url)
    if place.is_same_folder(backend(to)):  # to open it for writing would change it
        raise UsageError(f"{to} is the store {url} itself, which stays as it is: name a new store")
    start = monotonic()
    losses = Losses(lost)
    with closing(place.open_damaged(losses.damage)) as store:
        stored, wanted = _profiles(store, given_parameters(profile), losses)
        with open_like(to, wanted, stored, lambda: _rows_of(store), _ttl(store)) as target:
            source = Index(store, stored, "read")
            require_fitting(source, target, given_parameters(profile), wanted)
            with counting(progress, "rows", lambda: 2 * _rows_of(store)) as note:
                Salvage(source, target, losses, note).run()
            if losses.report.added + losses.report.updated >= SETTLED:
                with suppress(KeyboardInterrupt):  # it can be skipped
                    target.store.compact(progress)
    losses.report.seconds = round(monotonic() - start, 3)
    return losses.report


def _profiles(store: Store, given: Mapping[str, object], losses: Losses) -> tuple[StoredProfile, Profile]:
    """The profile of a damaged store, and that of the target. Raises StoreFailed."""
    try:
        stored = read_profile(store)
    except (StoreFailed, TablesMissing) as error:
        if not given:
            raise StoreFailed(
                f"{error}. To copy what can be read, give the profile by which its documents were stored "
                "(simhbase migrate --profile FILE)"
            ) from error
        if noted_scopes(store):
            raise StoreFailed(
                f"{error}. {store.url} had scopes, and the random bytes that mask their fingerprints were in "
                "that row: restore the store from a copy, or load the texts again"
            ) from error
        losses.damage("meta", f"{error}. The given profile was taken")
        profile = make_profile(given)
        profile.require_fits_tables()
        _require_sketches(store, profile)
        return StoredProfile(profile, probe_answers(profile.fingerprinter()), software()), profile
    return stored, stored.profile.reindexed(given)


def _require_sketches(store: Store, profile: Profile) -> None:
    """Raises ProfileMismatch if the first rows of a store have no sketch as the given profile makes them."""
    is_listed = profile.index_scheme.listed_sketching is not None
    size = _sketch_bytes(profile)
    documents = next(iter(store.records("documents").iterate()), [])
    listings = next(iter(store.records("fingerprints").iterate()), [])
    stored = {len(each.entry.sketch) for each in readable(documents).values() if each.stored}
    listed = {len(rows.usable_sketch(key, cell.value)) for key, cell in listings}
    for found, wanted in ((stored, 0 if is_listed else size), (listed, size if is_listed else 0)):
        if found and wanted not in found:
            raise ProfileMismatch(
                f"documents of {store.url} have sketches of {max(stored | listed)} bytes, the given "
                f"profile makes some of {size}: give the profile they were stored by"
            )


def _sketch_bytes(profile: Profile) -> int:
    return profile.sketching.bytes if profile.sketching else 0


def _rows_of(store: Store) -> int:
    return store.records("documents").approximate_size().rows


def _ttl(store: Store) -> int | None:
    """The time to live, None if its row is damaged, which is noted with the other rows of meta."""
    with suppress(StoreFailed):
        return found if isinstance(found := store.ttl(), int) else None
    return None


class Losses:
    """Counts and passes on what is lost."""

    def __init__(self, told: Callable[[Loss], None]) -> None:
        self.report = SalvageReport()
        self.tables: set[RecordTable | None] = set()  # that are damaged
        self._told = told

    def damage(self, table: RecordTable | None, problem: str) -> None:
        self.tables.add(table)
        self.report.damages += 1
        self._told(Loss(problem, table=table))

    def document(self, problem: str, document: str, fingerprint: int | None = None) -> None:
        if problem in _COPIED:
            self.report.doubtful += 1
        else:
            self.report.lost += 1
        self._told(Loss(problem, document, None if fingerprint is None else Fingerprint(fingerprint)))


@dataclass(frozen=True, slots=True)
class _Listed:
    """What a listing says of its document. sketch: b"" if it is damaged or kept elsewhere."""

    fingerprint: int
    version: int
    sketch: bytes

    def is_later_than(self, stored: Known) -> bool:
        """True if the document got this fingerprint after a row was written that has another one."""
        return stored.version < self.version and stored.entry.fingerprint != self.fingerprint


@dataclass
class Salvage:
    """Copies what can be read from one index to another with the same fingerprints.

    progress: called with the number of rows read.
    """

    source: Index
    target: Index
    losses: Losses
    progress: Callable[[int], None] = lambda rows: None
    _damaged: dict[str, None] = field(default_factory=dict)  # ids of damaged rows not yet accounted for
    _scopes: set[str] = field(default_factory=set)  # of documents that were copied
    _unsketched: bool = False  # the sketches of some documents are lost

    def run(self) -> None:
        """Copy all documents, then see which of those that are listed were not copied."""
        self._meta()
        self._each("documents", self._copy)
        self._each("fingerprints", self._compare)
        there = known(self.target.store, list(self._damaged))
        for document, each in zip(self._damaged, there, strict=True):
            if each is None:
                self.losses.document(UNREADABLE, document)
        if self._unsketched or self._may_hold_deleted:
            self._each("documents", self._find_doubtful)
        if self.source.counts and self.target.counts:
            self._each(MET, self._copy_counts)
        self.target.store.sync()
        self.target.require_own_tables()

    @property
    def _is_atomic(self) -> bool:
        """True if no row of the source is only a hint."""
        return not self.source.store.keeps_hints

    def _each(self, table: RecordTable, work: Callable[[list[Row]], None]) -> None:
        """Do something with all rows of a table."""
        batches = self.source.store.records(table).iterate()
        for batch in batches if self.target.store.keeps_hints else joined(batches, COPIED_AT_ONCE):
            with defer_interrupts():
                work(batch)
            self.progress(len(batch))

    def _meta(self) -> None:
        """Note damaged rows of meta, and copy the mute list. (Logs of loads belong to the old store.)"""
        for batch in self.source.store.records("meta").iterate():
            damaged = damaged_in(batch, META_ROWS)
            for key in damaged:
                self.losses.damage("meta", f"the row {quoted(key)} is damaged")
            for key in {key for key, _ in batch if is_mute_list(key)}.difference(damaged):
                if muted := MuteList(self.source.store, self.source.clock, key=key).entries():
                    MuteList(self.target.store, self.target.clock, key=key).mute(muted)

    def _copy_counts(self, batch: list[Row]) -> None:
        damaged = {key for key, _ in damaged_rows(batch)}
        for key in sorted(damaged):
            self.losses.damage(MET, f"the row {key.hex()} is damaged")
        copy_rows([row for row in batch if row[0] not in damaged], self.target.store)

    def _copy(self, batch: list[Row]) -> None:
        """Copy the documents of some rows."""
        found = readable(batch)
        for key, _ in batch:
            document = rows.document_id(key)
            if rows.id_problem(document) is not None or rows.document_key(document) != key:
                self.losses.damage("documents", f"the key {key.hex()} is damaged")
            elif document not in found:
                self._damaged[document] = None
        stored = {document: each for document, each in found.items() if each.stored}
        self.losses.report.documents += len(stored)
        self._unsketched |= not self._carry_over(stored)

    def _carry_over(self, stored: Mapping[str, Known]) -> bool:
        """Copy documents, except expired ones and those whose sketches are lost. Returns False if there are
        some of these."""
        alive = self._alive(stored)
        self.losses.report.expired += len(stored) - len(alive)
        sketches = self._sketches(alive)
        whole = {
            document: each
            for document, each in alive.items()
            if len(sketches[document]) == self._sketch_bytes
        }
        self._store(whole, sketches)
        return len(whole) == len(alive)

    def _store(self, documents: Mapping[str, Known], sketches: Mapping[str, bytes]) -> None:
        self._count(copy_documents(self.source.profile, self.target, documents, sketches))
        if isinstance(self.target, StoreOfScopes):
            for name in set(map(rows.scope_of, documents)) - self._scopes:
                note_scope(self.target.store, name)
                self._scopes.add(name)

    def _alive(self, stored: Mapping[str, Known]) -> dict[str, Known]:
        earliest = self._earliest()
        return {document: each for document, each in stored.items() if each.version >= earliest}

    def _count(self, copied: Copied) -> None:
        report = self.losses.report
        report.added += copied.added
        report.updated += copied.updated
        report.unchanged += copied.unchanged
        report.later += copied.later

    def _earliest(self) -> int:
        """Documents with lower versions have expired in the target."""
        return alive_since(self.target.store, self.target.clock())

    def _sketches(self, stored: Mapping[str, Known]) -> dict[str, bytes]:
        """Sketches of documents, b"" if there is none or it is damaged."""
        if self.source.profile.index_scheme.listed_sketching is None:
            return {document: each.entry.sketch for document, each in stored.items()}
        keys = [rows.listing_key(each.entry.fingerprint, document) for document, each in stored.items()]
        cells = self.source.store.records("fingerprints").get(keys)
        return {
            document: rows.usable_sketch(key, cell.value) if cell else b""
            for document, key, cell in zip(stored, keys, cells, strict=True)
        }

    @property
    def _sketch_bytes(self) -> int:
        return _sketch_bytes(self.source.profile)

    def _compare(self, batch: list[Row]) -> None:
        """Account for listed documents that are not in the target, or older there."""
        if self._are_rows_whole and "fingerprints" in self.losses.tables:
            return  # what has no row was deleted, and the file that says so of its listing is lost
        listed = self._listed(batch)
        there = known(self.target.store, list(listed))
        suspect = {
            document: each
            for (document, each), copied in zip(listed.items(), there, strict=True)
            if copied is None or (self._is_atomic and each.is_later_than(copied))
        }
        keys = list(map(rows.document_key, suspect))
        cells = self.source.store.records("documents").get(keys)
        rebuilt: dict[str, Known] = {}
        for (document, each), key, cell in zip(suspect.items(), keys, cells, strict=True):
            self._judge(document, each, key, cell, rebuilt)
        sketches = {document: listed[document].sketch for document in rebuilt}
        self._store(rebuilt, sketches)

    def _listed(self, batch: list[Row]) -> dict[str, _Listed]:
        """What listings say that have not expired, the latest one of each document."""
        earliest, found = self._earliest(), dict[str, _Listed]()
        for key, cell in batch:
            parsed = rows.parse_listing(key)
            if parsed is None:
                self.losses.damage("fingerprints", f"the key {key.hex()} is damaged")
                continue
            fingerprint, document = parsed
            before = found[document].version if document in found else earliest
            if cell.version >= before:
                found[document] = _Listed(fingerprint, cell.version, rows.usable_sketch(key, cell.value))
        return found

    def _judge(
        self, document: str, listed: _Listed, key: bytes, cell: Cell | None, rebuilt: dict[str, Known]
    ) -> None:
        """Copy a suspect document if its row can be read, else put it into `rebuilt` if the listing has all
        that is needed, else note that it is lost. cell: its row."""
        parsed = cell and rows.parse_document(key, cell.value)
        stored = Known(parsed[1], cell.version) if cell and parsed else None
        if stored and not (self._is_atomic and listed.is_later_than(stored)):
            # Reading rows in order has skipped it, or its sketch is lost, which is noted later.
            is_whole = self._carry_over({document: stored} if stored.stored else {})
            if not is_whole and "documents" in self.losses.tables:
                self.losses.document(UNSKETCHED, document, listed.fingerprint)
            return
        problem = UNREADABLE if cell else MISSING if self._is_atomic else UNCERTAIN
        if self._is_atomic and len(listed.sketch) == self._sketch_bytes:
            rebuilt[document] = Known(Entry(listed.fingerprint), listed.version)
            problem = UNTAGGED
        elif stored:
            problem = OLDER
        self._damaged.pop(document, None)
        self.losses.document(problem, document, listed.fingerprint)

    def _find_doubtful(self, batch: list[Row]) -> None:
        """Note documents that were not copied although their rows can be read, and copied ones that are not
        listed."""
        stored = self._alive({document: each for document, each in readable(batch).items() if each.stored})
        there = known(self.target.store, list(stored))
        keys = [rows.listing_key(each.entry.fingerprint, document) for document, each in stored.items()]
        cells = self.source.store.records("fingerprints").get(keys)
        for (document, each), copied, cell in zip(stored.items(), there, cells, strict=True):
            if copied is None:
                self.losses.document(UNSKETCHED, document, each.entry.fingerprint)
            elif cell is None and self._may_hold_deleted and copied.is_listed_under(each.entry.fingerprint):
                self.losses.document(UNLISTED, document, each.entry.fingerprint)

    @property
    def _are_rows_whole(self) -> bool:
        """True if no document lacks its row, except single ones."""
        return self._is_atomic and not self.losses.tables & {"documents", None}

    @property
    def _may_hold_deleted(self) -> bool:
        """True if documents may be there that were deleted or changed later, and listings are whole, which
        tells them."""
        return self._is_atomic and not self._are_rows_whole and "fingerprints" not in self.losses.tables
