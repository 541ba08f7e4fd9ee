"""Rejected records: counting, listing in a file, and the limit on their number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from simhbase.corpus.outputs.files import OutputFile, reject_line
from simhbase.corpus.record import Reject, SourceReject
from simhbase.corpus.watcher import Watcher
from simhbase.errors import BadInput

UNUSABLE_FROM, LEAST_USED = 10, 0.1  # records of a source; share of those that could be used


class TooManyRejects(BadInput):
    """More records were rejected than max_rejects allows."""

    exit_code = 16


class Outcome(Protocol):
    """Result of processing some records."""

    @property
    def rejects(self) -> list[Reject]:
        """The rejected ones."""

    @property
    def parsed(self) -> int:
        """Number of records that could be parsed."""

    @property
    def used(self) -> Mapping[str, int]:
        """Number of records that could be used, by source."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Records that could be parsed, records rejected for any reason, and sources (files, folders) that could
    not be read. used: records that were not rejected. tallies: used and rejected records of those sources of
    which most were rejected, and of the last one."""

    parsed: int = 0
    rejected: int = 0
    unreadable_sources: int = 0
    used: int = 0
    tallies: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def all_usable(self) -> bool:
        """True if nothing was rejected."""
        return not (self.rejected or self.unreadable_sources)

    @property
    def nothing_read(self) -> bool:
        """True if there was input, but none of it could be read."""
        return not self.parsed and not self.all_usable

    @property
    def unusable_sources(self) -> tuple[str, ...]:
        """Sources of at least 10 records, of which fewer than a tenth could be used: probably they are not
        what the options say."""
        return tuple(source for source, tally in self.tallies.items() if is_unusable(*tally))


def is_unusable(used: int, rejected: int) -> bool:
    """True if nearly nothing of a source could be used."""
    return used + rejected >= UNUSABLE_FROM and used < LEAST_USED * (used + rejected)


@dataclass
class Rejects:
    """Collects the rejects of a run, or of the rest of a resumed one.

    file: lists them; limit: on their number; a float below 1 is a share of all records, and is checked at the
    end.
    """

    file: OutputFile | None
    limit: float | None
    watcher: Watcher
    counts: Counts = field(default_factory=Counts)
    _known: dict[str, tuple[int, int]] = field(default_factory=dict)  # tallies of the counts

    @contextmanager
    def told_to(self, watcher: Watcher) -> Iterator[None]:
        """Report to another watcher inside the block."""
        before, self.watcher = self.watcher, watcher
        try:
            yield
        finally:
            self.watcher = before

    def note(self, outcome: Outcome) -> None:
        """Add a batch's rejects. Raises TooManyRejects."""
        sources = sum(isinstance(reject, SourceReject) for reject in outcome.rejects)
        self.counts = Counts(
            self.counts.parsed + outcome.parsed,
            self.counts.rejected + len(outcome.rejects) - sources,
            self.counts.unreadable_sources + sources,
            self.counts.used + sum(outcome.used.values()),
            self._tallies(outcome),
        )
        for reject in outcome.rejects:
            self.watcher.rejected(reject, self.file.path if self.file else None)
        if self.file:
            self.file.write(map(reject_line, outcome.rejects))
        noted = self.counts.rejected + self.counts.unreadable_sources
        if isinstance(self.limit, int) and noted > self.limit:
            raise TooManyRejects(
                f"{noted:,} records or sources were rejected, {self.limit:,} are allowed",
                parameter="max_rejects",
            )

    def require_share(self) -> None:
        """Raise TooManyRejects if the share of rejected records and sources is above the limit."""
        used, noted = self.counts.used, self.counts.rejected + self.counts.unreadable_sources
        if isinstance(self.limit, float) and noted > self.limit * (used + noted):
            raise TooManyRejects(
                f"{noted:,} of {used + noted:,} records or sources were rejected, "
                f"{100 * self.limit:g} % are allowed",
                parameter="max_rejects",
            )

    def _tallies(self, outcome: Outcome) -> Mapping[str, tuple[int, int]]:
        """Those known, with those of a batch. They are not copied: there may be a million unusable files."""
        known = self._known = self._known or dict(self.counts.tallies)
        before = next(reversed(known), "")
        rejected = Counter(each.source for each in outcome.rejects if not isinstance(each, SourceReject))
        sources = dict.fromkeys([*outcome.used, *rejected])
        for source in sources:
            used, lost = known.pop(source, (0, 0))
            known[source] = used + outcome.used.get(source, 0), lost + rejected[source]
        last = next(reversed(known), "")
        for source in {before, *sources} - {last}:
            if not is_unusable(*known.get(source, (0, 0))):
                known.pop(source, None)
        return known
