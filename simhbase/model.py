"""The values that cross module borders. All frozen, none knows a store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

Outcome = Literal["accepted", "duplicate", "rejected", "conflict", "undecided"]


@dataclass(frozen=True, slots=True)
class Document:
    """A text under its id (UTF-8, at most 1 KiB).

    tags: names and values, by which lookups can be limited: at most 16, of 64 bytes a name and 255 a value in
    UTF-8, neither empty, and without = in a name.
    """

    id: str
    text: str
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """What a store has of a document."""

    id: str
    fingerprint: int
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, order=True)
class Match:
    """A stored document near the query; sorts by distance, then id."""

    distance: int
    id: str
    fingerprint: int = field(compare=False)
    similarity: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Lookup:
    """The answer to one query: a sized container of its matches, so false where nothing is near.

    `fingerprint` is None where the text had too few features; `reason` then says why. `truncated`
    is true where a drawer or a fingerprint's documents held more than the limits allowed to read.
    """

    fingerprint: int | None
    matches: tuple[Match, ...] = ()
    truncated: bool = False
    reason: str | None = None

    def __len__(self) -> int:
        return len(self.matches)

    def __iter__(self) -> Iterator[Match]:
        return iter(self.matches)

    def __contains__(self, match: object) -> bool:
        return match in self.matches


@dataclass(frozen=True, slots=True)
class Claim:
    """The answer to "accept this text unless a near one is already accepted".

    outcome: "accepted", it is stored now, or was before; "duplicate" of the stored document `match`;
    "rejected", the text has too few features, or the id cannot be stored; "conflict", the id is stored with
    another text; "undecided", the time was up: nothing is stored, and the same claim may be made again.
    `reason` says more of the last three. `fingerprint` is None where the text had too few features.
    True in a condition if accepted.
    """

    id: str
    outcome: Outcome
    fingerprint: int | None = None
    match: Match | None = None
    reason: str | None = None

    @property
    def accepted(self) -> bool:
        """Whether the document is stored."""
        return self.outcome == "accepted"

    def __bool__(self) -> bool:
        return self.accepted


@dataclass(frozen=True, slots=True)
class Rejected:
    """A document that was not stored, and why."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class AddReport:
    """What an add did. `unchanged` documents were stored already with the same fingerprint; their tags may be
    others now."""

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
