"""Who is told how work on a corpus goes, while it goes on."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from simhbase.corpus.record import Reject
from simhbase.progress import Advance, Total, no_progress

__all__ = ["NOBODY", "Advance", "Nobody", "Total", "Watcher"]


class Watcher(Protocol):
    """Is told; what it does with that changes no result."""

    def progress(self, unit: str, total: Total) -> AbstractContextManager[Advance]:
        """Work begins. unit: what is counted, in the plural; total: says how much there is to do (bytes of
        inputs, for instance), None if nobody knows, and takes time to ask. Gives a function that is called
        with the number counted since the last call, and how much of the total has been done by now."""

    def rejected(self, reject: Reject, listed_in: Path | None) -> None:
        """A record or a source could not be used; listed_in: the file that lists all of those."""

    def note(self, text: str) -> None:
        """Something that a person should know."""

    def hint(self, text: str) -> None:
        """Advice for a person who is watching."""


class Nobody:
    """A watcher that looks away."""

    def __repr__(self) -> str:
        return "NOBODY"

    def progress(self, unit: str, total: Total) -> AbstractContextManager[Advance]:
        """Shows nothing."""
        return no_progress(unit, total)

    def rejected(self, reject: Reject, listed_in: Path | None) -> None:
        """Shows nothing."""

    def note(self, text: str) -> None:
        """Shows nothing."""

    def hint(self, text: str) -> None:
        """Shows nothing."""


NOBODY = Nobody()
