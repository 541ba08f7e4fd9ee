"""Administration of an open index: statistics, hot spots, loads, deletion by age."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from simhbase.admin.groups import StoredGroups, stored_groups
from simhbase.admin.hot import Hot, hottest, with_scopes
from simhbase.admin.pairs import StoredPairs, stored_pairs
from simhbase.admin.removal import Removal
from simhbase.admin.stats import documents_in, measure, measure_scope
from simhbase.errors import UsageError
from simhbase.index import Index
from simhbase.index.load_log import LoadState, all_loads, forget_load
from simhbase.index.part import WHOLE, Part, part_of
from simhbase.index.scoped import StoreOfScopes
from simhbase.index.scopes import noted_scopes
from simhbase.index.writer import expired_before, remove_older
from simhbase.model.moment import milliseconds
from simhbase.model.statistics import Stats
from simhbase.model.values import Moment
from simhbase.process.interrupt import defer_interrupts
from simhbase.process.progress import Progress, counting, no_progress


@dataclass(frozen=True)
class Administrator:
    """Maintenance operations on an open index."""

    index: Index

    def stats(self, exact: bool = False) -> Stats:
        """Measure the index by the store's estimates, or exactly, which reads every row.

        Within a scope: its documents are counted, or estimated from some of them if it has many. Index rows
        are those of its fingerprints; bytes are its documents' share of the store's.
        """
        index = self.index
        index.store.refresh()
        with index.same_tables():
            if index.scope is not None:
                return measure_scope(index, exact=exact)
            return measure(index.store, index.profile.index_scheme, exact, index.clock())

    def hot(
        self, most: int = 10, *, part: Part | tuple[int, int] = WHOLE, progress: Progress = no_progress
    ) -> Hot:
        """Find the `most` fingerprints with the most documents and drawers with the most rows.

        Reads every row of two tables; part (1, 100) reads the first of 100 equal parts, which split no
        fingerprint or drawer. progress: reports the rows read.
        """
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise UsageError(f"must be a whole number from 1 on, not {most!r}", parameter="most")
        chosen, index = part_of(part), self.index
        if index.scope is not None:
            raise UsageError("hot fingerprints and drawers are those of a whole store", parameter="scope")
        index.store.refresh()
        with index.same_tables():
            found = hottest(index.store, most, chosen, progress)
            return with_scopes(found, index) if isinstance(index, StoreOfScopes) else found

    def groups(
        self,
        min_size: int = 2,
        *,
        since: Moment | None = None,
        tags: Mapping[str, str] | None = None,
        chains: bool = False,
        progress: Progress = no_progress,
    ) -> StoredGroups:
        """Group the near-duplicates among the stored documents, largest groups first.

        The groups are those of lookups without limits, with the profile's bounds: the oldest document takes
        all documents near it, the next one that is in no group takes those near it that are in none, and so
        on. (Those written at once are taken by id.) In a crowd of documents that share drawers and are not
        near each other, each is compared with 10,000 that are older, and `truncated` of the answer says of
        how many there are more. Muted documents are left out, as by lookups. `dedup` finds others, as it
        compares texts.

        min_size: documents of a group, with its representative; since, tags: group only documents that Query
        would let through; chains: groups are connected components of matches instead. progress: reports the
        rows read and what is compared.

        Reads the table documents (of scheme minhash fingerprints, too), in HBase in parts at once. Takes
        about 80 bytes of memory per document; ids and sketches are in the folder for temporary files.
        Documents that are written meanwhile may be missing. Raises UsageError.
        """
        return stored_groups(self.index, min_size, since, tags, progress, chains=chains)

    def pairs(
        self,
        *,
        since: Moment | None = None,
        tags: Mapping[str, str] | None = None,
        progress: Progress = no_progress,
    ) -> StoredPairs:
        """Find all pairs of near documents among the stored ones, each once, in no particular order: those
        that lookups without limits find.

        since, tags, progress, and what it reads and takes: as for `groups`. A document that is stored c times
        has c * (c - 1) / 2 pairs. Raises UsageError.
        """
        return stored_pairs(self.index, since, tags, progress)

    def delete_older_than(self, moment: Moment, *, progress: Progress = no_progress) -> int:
        """Remove the documents last written before a time; return how many.

        moment: a datetime, or a timedelta back from now. Adding an unchanged document does not write it,
        except in a store with a time to live. Concurrent writes stay. progress: reports the rows read. May be
        stopped and repeated. Raises UsageError for a time in the future.
        """
        index = self.index
        before = milliseconds(moment, index.clock())
        table = index.store.records("documents")
        with (
            counting(progress, "documents", lambda: table.approximate_size().rows) as note,
            index.same_tables(),
        ):
            return remove_older(index.rows_after(), index.delete_seen, before, note)

    def count_older_than(self, moment: Moment, *, progress: Progress = no_progress) -> Removal:
        """Count the documents that `delete_older_than` would remove, and all. Reads the documents table."""
        index = self.index
        before = milliseconds(moment, index.clock())
        return self._counted(lambda documents: sum(version < before for version in documents), progress)

    def documents(self, least: int, *, progress: Progress = no_progress) -> int:
        """Number of stored documents: the store's estimate if it is more than `least`, else exact, which
        reads the documents table."""
        estimate = documents_in(self.index)
        return estimate if estimate > least else self._counted(lambda documents: 0, progress).of

    def _counted(self, removed: Callable[[Sequence[int]], int], progress: Progress) -> Removal:
        """Counts documents, given a function of the versions of some."""
        index = self.index
        index.store.refresh()
        earliest = expired_before(index.store, index.clock())
        table = index.store.records("documents")
        count = total = 0
        with (
            counting(progress, "documents", lambda: table.approximate_size().rows) as note,
            index.same_tables(),
        ):
            for batch in index.rows_after():
                stored = [each.version for each in batch.values() if each.stored]
                alive = [version for version in stored if version >= earliest]
                count += removed(alive)
                total += len(alive)
                note(len(batch))
        return Removal(count, total, "documents", index.store.url)

    def scopes(self) -> list[str]:
        """The names of the scopes that were written to. Raises UsageError for a store without scopes."""
        index = self._of_scopes()
        index.store.refresh()
        with index.same_tables():
            return noted_scopes(index.store)

    def drop_scope(self, name: str, *, progress: Progress = no_progress) -> int:
        """Remove all that a scope has: documents, mute list, logs of loads. Returns the number of documents.

        Reads the scope's documents alone. What is written to it meanwhile may stay, so stop its writers
        first. progress: reports the rows read. May be stopped and repeated. Raises UsageError for a store
        without scopes, StoreBusy if a load into the scope is running.
        """
        scope = self._of_scopes().within(name)
        removed = 0
        with counting(progress, "documents", lambda: 0) as note, scope.same_tables():
            for load in all_loads(scope.store, scope.of):
                forget_load(scope.store, load.name, scope.of)
            for batch in scope.rows_after():
                seen = {document: each.version for document, each in batch.items() if each.stored}
                with defer_interrupts():
                    removed += scope.delete_seen(seen)
                note(len(batch))
            scope.forget()
        return removed

    def _of_scopes(self) -> StoreOfScopes:
        if isinstance(self.index, StoreOfScopes):
            return self.index
        raise UsageError(
            "this is the index of a scope: open the store without one"
            if self.index.scope
            else f"{self.index.store.url} has no scopes"
        )

    def loads(self) -> list[LoadState]:
        """List the last run of each load into the store: running, stopped or finished."""
        self.index.store.refresh()
        return all_loads(self.index.store, self.index.of)

    def forget_load(self, name: str) -> bool:
        """Remove the log of a load, so that it starts over; stored documents stay. False if there is no such
        load. Raises StoreBusy if it is running, UsageError in a store with scopes without one."""
        self.index.require_scope()
        return forget_load(self.index.store, name, self.index.of)
