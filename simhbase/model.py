"""The values that cross module borders. All frozen, none knows a store."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Document:
    """A text under its id (UTF-8, at most 1 KiB)."""

    id: str
    text: str


@dataclass(frozen=True, slots=True, order=True)
class Match:
    """A stored document near the query; sorts by distance, then id."""

    distance: int
    id: str
    fingerprint: int = field(compare=False)
    similarity: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Lookup:
    """The answer to one query.

    `fingerprint` is None where the text had too few features; `reason` then says why. `truncated`
    is true where a drawer or a fingerprint's documents held more than the limits allowed to read.
    """

    fingerprint: int | None
    matches: tuple[Match, ...] = ()
    truncated: bool = False
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """A document that was not stored, and why."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class AddReport:
    """What an add did. `unchanged` documents were stored already with the same fingerprint."""

    added: int = 0
    moved: int = 0
    unchanged: int = 0
    rejected: tuple[Rejected, ...] = ()

    def __add__(self, other: AddReport) -> AddReport:
        """The report of both."""
        return AddReport(
            self.added + other.added,
            self.moved + other.moved,
            self.unchanged + other.unchanged,
            self.rejected + other.rejected,
        )

    @property
    def stored(self) -> int:
        """How many of the given documents the index holds now."""
        return self.added + self.moved + self.unchanged
