"""Receives progress and messages of a job."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from simhbase.corpus.record import Reject
from simhbase.process.progress import Advance, Progress, Total, unseen


class Watcher:
    """Receives progress and messages, and ignores them; to be subclassed. Has no influence on results.

    standard_output: the plain file that standard output goes to, where results are printed there.
    """

    standard_output: Path | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def progress(self, unit: str, total: Total) -> AbstractContextManager[Advance]:
        """Work begins. unit: what is counted, in the plural; total: returns the amount of work (e.g. bytes of
        inputs), None if unknown; may be slow. Yields a function that is called with the number counted since
        the last call, and the work done so far."""
        return nullcontext(unseen)

    def rejected(self, reject: Reject, listed_in: Path | None) -> None:
        """A record or source was rejected; listed_in: the file with all rejects."""

    def replacing(self, files: Iterable[Path]) -> None:
        """These existing files will be replaced; nothing has been read or written yet. May raise to keep
        them. Finding them may take time, so a watcher that does not ask does not iterate."""

    def note(self, text: str) -> None:
        """An important message."""

    def hint(self, text: str) -> None:
        """Advice for interactive use."""


class ProgressOnly(Watcher):
    """A watcher that passes progress on."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def progress(self, unit: str, total: Total) -> AbstractContextManager[Advance]:
        return self._progress(unit, total)


NULL_WATCHER = Watcher()
