"""Administration of an open index: how large it is, what is hot, its loads, its old documents."""

from __future__ import annotations

from dataclasses import dataclass

from simhbase.admin.hot import Hot, hottest
from simhbase.admin.stats import measure
from simhbase.errors import UsageError
from simhbase.index import Index
from simhbase.index.load_log import LoadState, all_loads, forget_load
from simhbase.index.moment import milliseconds
from simhbase.index.part import WHOLE, Part, part_of
from simhbase.index.writer import remove_older
from simhbase.model import Moment, Stats
from simhbase.progress import Progress, counting, no_progress


@dataclass(frozen=True)
class Administrator:
    """Measures and tidies an open index."""

    index: Index

    def stats(self, exact: bool = False) -> Stats:
        """Say how large the index is: by the store's estimates, or exact, which reads every row."""
        index = self.index
        index.store.refresh()
        with index.same_tables():
            return measure(index.store, index.profile.index_scheme, exact, index.clock())

    def hot(
        self, most: int = 10, *, part: Part | tuple[int, int] = WHOLE, progress: Progress = no_progress
    ) -> Hot:
        """Find the fingerprints with the most documents, and the drawers with the most rows; at most so many
        of each.

        Reads every row of two tables: part (1, 100) reads the first of a hundred equal parts of them, no
        fingerprint or drawer of which is in another. progress: is told how far it is.
        """
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise UsageError(f"must be a whole number from 1 on, not {most!r}", parameter="most")
        chosen = part_of(part)
        self.index.store.refresh()
        with self.index.same_tables():
            return hottest(self.index.store, most, chosen, progress)

    def delete_older_than(self, moment: Moment, *, progress: Progress = no_progress) -> int:
        """Remove the documents that were last written before a moment; return how many.

        moment: a datetime, or a timedelta for so long ago. An add that found a document unchanged did not
        write it, but where the store has a time to live. What is written meanwhile stays. progress: is told
        how far it is. May be stopped, and run again. Raises UsageError for a moment that is still to come.
        """
        index = self.index
        before = milliseconds(moment, index.clock())
        table = index.store.records("documents")
        with (
            counting(progress, "documents", lambda: table.approximate_size().rows) as note,
            index.same_tables(),
        ):
            return remove_older(index.store, index.writer, before, note)

    def loads(self) -> list[LoadState]:
        """List the loads into the store, by name the last run of each: what is running, was stopped, or has
        finished."""
        self.index.store.refresh()
        return all_loads(self.index.store)

    def forget_load(self, name: str) -> bool:
        """Remove what is noted of a load, so that it starts over; what it has stored stays. False where there
        is none of this name. Raises StoreBusy where it is running."""
        return forget_load(self.index.store, name)
