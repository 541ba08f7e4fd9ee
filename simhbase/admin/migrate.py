"""Copies documents from one store to another that may have other drawers or another backend.

Texts are not needed, because fingerprints and sketches are copied. Documents keep their versions, so a
repeated run copies what was written since, and leaves newer documents in the target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Literal

from simhbase.admin.removal import Agree, Removal
from simhbase.admin.tables import expiry, open_like, require_ttl
from simhbase.errors import ProfileMismatch, UsageError
from simhbase.index import rows
from simhbase.index.counts import copy_rows
from simhbase.index.index import Index
from simhbase.index.opening import open_index
from simhbase.index.reader import sketches_of
from simhbase.index.scoped import StoreOfScopes
from simhbase.index.scopes import note_scope, noted_scopes
from simhbase.index.writer import SETTLED, Copied, DocumentBatch, Known, alive_since, batch_of
from simhbase.process.interrupt import defer_interrupts
from simhbase.process.progress import Progress, counting, no_progress
from simhbase.profile.profile import Profile, given_parameters
from simhbase.stores.backend import require_valid_ttl
from simhbase.stores.base import MET, Row, Store

COPIED_AT_ONCE = 1 << 16  # documents; enough that an embedded store ingests new ones as files


@dataclass
class MigrationReport:
    """Result of a migration, counted as it runs.

    documents: number in the source. Of these, added were missing in the target; updated had an earlier
    version there; unchanged have the same; later have a later one, and were left; expired are older than the
    target's time to live. deleted: documents deleted in the target because the source deleted them or, with
    `delete_missing`, does not have them; too_young: of the latter, those left because their versions are
    later than the start of this run (written since, or by a clock that is ahead); a later run deletes them.
    lost_sketches: documents not copied because their sketch is lost; unreadable_rows: in the source;
    refused_claims: rows of refused claims that were copied, if both stores count them.
    warnings: for the administrator.
    """

    documents: int = 0
    added: int = 0
    updated: int = 0
    unchanged: int = 0
    later: int = 0
    expired: int = 0
    deleted: int = 0
    too_young: int = 0
    lost_sketches: int = 0
    unreadable_rows: int = 0
    refused_claims: int = 0
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()


def migrate(
    url: str,
    to: str,
    profile: Profile | Mapping[str, object] | None = None,
    *,
    ttl: int | Literal["never"] | None = None,
    scope: str | None = None,
    delete_missing: bool = False,
    agree: Agree | None = None,
    progress: Progress = no_progress,
) -> MigrationReport:
    """Copy the documents of a store to another one, which may have other drawers. Texts are not needed.

    to: URL of the target. If it does not exist, it is created with the profile of the source (in HBase
    through a Thrift 2 gateway, with regions for as many documents). profile: parameters to change in the
    target: layout, k, bands, threshold; an existing target must agree. ttl: seconds after which documents
    expire in the target, or "never", with which an existing target must agree. None: a new target has that of
    the source, and an existing one keeps its own, which is a warning if it differs; it is needed if the user
    may not read that of the source.
    scope: copy the documents of a store without scopes into this scope of a store that has them. Without it a
    store with scopes is copied as a whole, and a new target has the same scopes.
    delete_missing: also delete documents that the source does not have, except those written during this run.
    agree: called before these are deleted, with their number, which takes another pass over the target; may
    raise. progress: reports the rows read.

    Readers and writers of the source may continue. A repeated run copies what they changed: a document that
    is the same in both costs a read. Documents keep their versions; those with a later version in the target
    are left. Documents deleted in the source since the last run are deleted in the target with
    `delete_missing`; from a source in HBase also without it, if vacuum has not run there since. May be
    stopped and repeated.

    Raises ProfileMismatch for parameters that need the texts, and for a target with other fingerprints;
    SchemaDiffers for one with another ttl; UsageError if both are the same store, and for a ttl that HBase
    would refuse; the errors of `simhbase.open`.
    """
    start = monotonic()
    given = given_parameters(profile)
    if ttl not in (None, "never"):
        require_valid_ttl(ttl)
    with open_index(url, access="read") as source:
        stored, table = source.stored_profile, source.store.records("documents")
        wanted = stored.profile.reindexed(given)
        expiring = source.store.ttl() if ttl is None else None if ttl == "never" else ttl
        if expiring == "unknown":
            raise UsageError(
                f"is needed: documents of {url} {expiry(expiring)}, so say after which time those of {to} "
                "do, or never",
                parameter="ttl",
            )
        if scope is not None and stored.salt is not None:
            raise UsageError(f"{url} has scopes itself: it is copied as a whole", parameter="scope")

        def documents() -> int:
            return table.approximate_size().rows

        with open_like(to, wanted, stored, documents, expiring, scope) as target:
            if ttl is not None:
                require_ttl(target.store, expiring)
            require_fitting(source, target, given, wanted)
            counts = source.counts and target.counts and scope is None
            with counting(progress, "documents", documents) as note:
                migration = Migration(source, target, delete_missing, agree, progress=note, counts=counts)
                report = migration.run()
            if ttl is None and source.store.ttl() != target.store.ttl():
                report.warnings = (_differs(source.store, target.store),)
            if source.counts and not counts:
                why = "names them by scope" if target.counts else "does not count refused claims"
                report.warnings += (f"{target.store.url} {why}: counts are not copied",)
            if report.added + report.updated >= SETTLED:
                # Last, because it can be skipped.
                with suppress(KeyboardInterrupt):
                    target.store.compact(progress)
    report.seconds = round(monotonic() - start, 3)
    return report


def _differs(source: Store, target: Store) -> str:
    """Says that documents of two stores expire at another age."""
    there, here = expiry(target.ttl()), expiry(source.ttl())
    return f"documents of {target.url} {there}, and those of {source.url} {here}"


def count_missing(
    url: str, to: str, *, scope: str | None = None, progress: Progress = no_progress
) -> Removal:
    """Count the documents of a target that `migrate` with `delete_missing` would delete now, and all.

    Changes nothing. Raises the errors of `migrate`, TablesMissing if the target does not exist.
    """
    with open_index(url, access="read") as source, open_index(to, access="read", scope=scope) as target:
        require_fitting(source, target, {}, source.profile)
        table = target.store.records("documents")
        with counting(progress, "documents", lambda: table.approximate_size().rows) as note:
            migration = Migration(source, target, delete_missing=True, progress=note)
            return migration.count_missing(target.clock())


def require_fitting(source: Index, target: Index, given: Mapping[str, object], wanted: Profile) -> None:
    """Raises UsageError if both are the same store, ProfileMismatch if the target has another profile or
    fingerprints that cannot be compared. given: parameters of the target, by which the source's profile
    becomes the `wanted` one. (`Profile.reindexed` says which parameters may change.)"""
    stored, there = source.stored_profile, target.stored_profile
    if there.row == stored.row:
        raise UsageError(f"{target.store.url} is the store {source.store.url} itself, or a copy of it")
    if there.profile != wanted:
        parameters = wanted.parameters()  # None is given for what the profile derives from others
        there.profile.require(
            {
                name: parameters[name] if value is None else value
                for name, value in given.items()
                if value is not None or name in parameters
            }
        )
        # What was not given may differ, unless fingerprints depend on it.
        stored.profile.reindexed(there.profile.parameters())
    if there.salt != stored.salt and target.scope is None:
        raise UsageError(
            f"{source.store.url} and {target.store.url} have other scopes, or one of them has none: "
            "migrate to a new store, or into a scope"
        )
    if there.probes != stored.probes:
        raise ProfileMismatch(
            f"{source.store.url} and {target.store.url} were created by machines that compute different "
            "fingerprints (simhbase tables describe shows their software): migrate to a new store"
        )


@dataclass(frozen=True)
class Migration:
    """Copies documents from one index to another with the same fingerprints.

    progress: called with the number of rows read; copied_at_once: rows per step, for a target that changes
    all its tables in one step; counts: of refused claims are copied, too.
    """

    source: Index
    target: Index
    delete_missing: bool = False
    agree: Agree | None = None
    progress: Callable[[int], None] = lambda rows: None
    copied_at_once: int = COPIED_AT_ONCE
    counts: bool = False

    def run(self) -> MigrationReport:
        """Copy all documents of the source."""
        report, begun = MigrationReport(), self.target.clock()
        batches = self.source.store.records("documents").iterate()
        if not self.target.store.keeps_hints:
            batches = joined(batches, self.copied_at_once)
        for batch in batches:
            with defer_interrupts():
                self._carry_over(batch, report)
            self.progress(len(batch))
        if self.delete_missing:
            self._delete_missing(begun, report)
        if isinstance(self.source, StoreOfScopes):
            for name in noted_scopes(self.source.store):
                note_scope(self.target.store, name)
        if self.counts:
            for batch in self.source.store.records(MET).iterate():
                with defer_interrupts():
                    copy_rows(batch, self.target.store)
                report.refused_claims += len(batch)
        self.target.store.sync()
        for index in (self.source, self.target):
            index.stored_profile.require_in(index.store)
        return report

    def _carry_over(self, read: Sequence[Row], report: MigrationReport) -> None:
        found = readable(read)
        report.unreadable_rows += len(read) - len(found)
        time = self.target.clock()
        here, there = (alive_since(index.store, time) for index in (self.source, self.target))
        alive = {document: each for document, each in found.items() if each.stored and each.version >= here}
        stored = {document: each for document, each in alive.items() if each.version >= there}
        report.documents += len(alive)
        report.expired += len(alive) - len(stored)
        entries = {document: each.entry for document, each in stored.items()}
        sketches = sketches_of(self.source.store, self.source.profile.index_scheme, entries)
        size = self.source.profile.sketching.bytes if self.source.profile.sketching else 0
        whole = {
            document: each for document, each in stored.items() if len(sketches.get(document, b"")) == size
        }
        report.lost_sketches += len(stored) - len(whole)
        copied = copy_documents(self.source.profile, self.target, whole, sketches)
        report.added += copied.added
        report.updated += copied.updated
        report.unchanged += copied.unchanged
        report.later += copied.later
        if gone := {document: each.version for document, each in found.items() if not each.stored}:
            self._delete(gone, report)

    def _delete(self, deleted: Mapping[str, int], report: MigrationReport) -> None:
        """Deletes what the source deleted, with the same versions: with later ones, a document that the
        source adds again could be older than its deletion here."""
        found = self.target.known(list(deleted))
        seen = {
            document: each.version
            for (document, version), each in zip(deleted.items(), found, strict=True)
            if each is not None and each.version < version
        }
        report.deleted += self.target.delete_seen(seen, deleted)

    def _delete_missing(self, begun: int, report: MigrationReport) -> None:
        """Deletes documents of the target from before `begun` that the source does not have."""
        if self.agree is not None:
            self.agree(self.count_missing(begun))
        for _, missing in self._missing(begun):
            old = {document: version for document, version in missing.items() if version < begun}
            report.too_young += len(missing) - len(old)
            with defer_interrupts():
                report.deleted += self.target.delete_seen(old)

    def count_missing(self, begun: int) -> Removal:
        """Counts documents of the target from before `begun` that the source does not have, and all."""
        removed = stored = 0
        for there, missing in self._missing(begun):
            removed += sum(version < begun for version in missing.values())
            stored += there
        return Removal(removed, stored, "documents", self.target.store.url)

    def _missing(self, begun: int) -> Iterator[tuple[int, dict[str, int]]]:
        """For each batch of the target, how many documents it stores, and the versions of those that the
        source does not have."""
        self.source.store.refresh()  # another run may have copied newer documents
        earliest = alive_since(self.source.store, begun)
        for batch in self.target.rows_after():
            there = {document: each.version for document, each in batch.items() if each.stored}
            cells = self.source.store.records("documents").get(list(map(rows.document_key, there)))
            missing = {
                document: version
                for (document, version), cell in zip(there.items(), cells, strict=True)
                if cell is None or cell.version < earliest
            }
            yield len(there), missing


def copy_documents(
    profile: Profile, target: Index, documents: Mapping[str, Known], sketches: Mapping[str, bytes]
) -> Copied:
    """Copy documents of a store with this profile, given their sketches (none where it keeps none)."""
    fingerprints = [(each.entry.fingerprint, sketches.get(name, b"")) for name, each in documents.items()]
    batch = DocumentBatch(
        list(documents),
        batch_of(fingerprints, profile.sketching),
        [each.entry.tags for each in documents.values()],
    )
    return target.copy(batch, [each.version for each in documents.values()])


def readable(batch: Sequence[Row]) -> dict[str, Known]:
    """Documents rows by id, without damaged ones, which the report counts: a copy saves what can be read."""
    parsed = [(rows.parse_document(key, cell.value), cell.version) for key, cell in batch]
    return {each[0]: Known(each[1], version) for each, version in parsed if each}


def joined(batches: Iterable[list[Row]], size: int) -> Iterator[list[Row]]:
    """Join batches to at least `size` rows, except the last."""
    some: list[Row] = []
    for batch in batches:
        some += batch
        if len(some) >= size:
            yield some
            some = []
    if some:
        yield some
