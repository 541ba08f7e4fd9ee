"""Rejected records: counting, listing in a file, and the limit on their number."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from simhbase.corpus.outputs import OutputFile, reject_line
from simhbase.corpus.record import Reject, SourceReject
from simhbase.corpus.watcher import Watcher
from simhbase.errors import BadInput


class TooManyRejects(BadInput):
    """More records were rejected than max_rejects allows."""


class Outcome(Protocol):
    """Result of processing some records."""

    @property
    def rejects(self) -> list[Reject]:
        """The rejected ones."""

    @property
    def parsed(self) -> int:
        """Number of records that could be parsed."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Records that could be parsed, records rejected for any reason, and sources (files, folders) that could
    not be read."""

    parsed: int = 0
    rejected: int = 0
    unreadable_sources: int = 0

    @property
    def all_usable(self) -> bool:
        """True if nothing was rejected."""
        return not (self.rejected or self.unreadable_sources)

    @property
    def nothing_read(self) -> bool:
        """True if there was input, but none of it could be read."""
        return not self.parsed and not self.all_usable


class Rejects:
    """Collects the rejects of a run, or of the rest of a resumed one."""

    def __init__(
        self, file: OutputFile | None, limit: int | None, watcher: Watcher, counts: Counts | None = None
    ) -> None:
        self._file = file
        self._limit = limit
        self._watcher = watcher
        self.counts = counts or Counts()

    @contextmanager
    def told_to(self, watcher: Watcher) -> Iterator[None]:
        """Report to another watcher inside the block."""
        before, self._watcher = self._watcher, watcher
        try:
            yield
        finally:
            self._watcher = before

    def note(self, outcome: Outcome) -> None:
        """Add a batch's rejects. Raises TooManyRejects."""
        sources = sum(isinstance(reject, SourceReject) for reject in outcome.rejects)
        self.counts = Counts(
            self.counts.parsed + outcome.parsed,
            self.counts.rejected + len(outcome.rejects) - sources,
            self.counts.unreadable_sources + sources,
        )
        for reject in outcome.rejects:
            self._watcher.rejected(reject, self._file.path if self._file else None)
        if self._file:
            self._file.write(map(reject_line, outcome.rejects))
        noted = self.counts.rejected + self.counts.unreadable_sources
        if self._limit is not None and noted > self._limit:
            raise TooManyRejects(
                f"{noted:,} records or sources were rejected, {self._limit:,} are allowed",
                parameter="max_rejects",
            )
