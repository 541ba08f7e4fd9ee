"""Receives progress and messages of a job."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from simhbase.corpus.record import Reject
from simhbase.progress import Advance, Progress, Total, no_progress

__all__ = ["NULL_WATCHER", "Advance", "NullWatcher", "Total", "Watcher"]


class Watcher(Protocol):
    """Receives progress and messages; has no influence on results."""

    def progress(self, unit: str, total: Total) -> AbstractContextManager[Advance]:
        """Work begins. unit: what is counted, in the plural; total: returns the amount of work (e.g. bytes of
        inputs), None if unknown; may be slow. Yields a function that is called with the number counted since
        the last call, and the work done so far."""

    def rejected(self, reject: Reject, listed_in: Path | None) -> None:
        """A record or source was rejected; listed_in: the file with all rejects."""

    def note(self, text: str) -> None:
        """An important message."""

    def hint(self, text: str) -> None:
        """Advice for interactive use."""


class NullWatcher:
    """A watcher that ignores everything."""

    def __repr__(self) -> str:
        return "NULL_WATCHER"

    def progress(self, unit: str, total: Total) -> AbstractContextManager[Advance]:
        return no_progress(unit, total)

    def rejected(self, reject: Reject, listed_in: Path | None) -> None: ...

    def note(self, text: str) -> None: ...

    def hint(self, text: str) -> None: ...


class ProgressOnly(NullWatcher):
    """A watcher that passes progress on."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def progress(self, unit: str, total: Total) -> AbstractContextManager[Advance]:
        return self._progress(unit, total)


NULL_WATCHER = NullWatcher()
