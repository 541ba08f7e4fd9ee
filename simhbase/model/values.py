"""Frozen dataclasses shared by all modules and the wire (wire.py): what is asked of an index, and answered.
They know no store.

Those that few commands use are in explanations.py, groups.py, statistics.py and stored.py, as to make a
dataclass takes half a millisecond. Nothing here imports NumPy: the client of the service runs without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from simhbase.model.notebook import html_table

LARGEST_LIMIT = 999_999_999  # of rows or documents that are listed: stores count them in 32 bits

ClaimMode = Literal["refuse", "annotate"]
Outcome = Literal["accepted", "duplicate", "rejected", "conflict", "undecided"]
# A datetime (local time if it has no zone), or a timedelta: back from now where a past time is meant.
Moment = datetime | timedelta | str  # a text as simhbase/model/moment.py reads it


class Fingerprint(int):
    """A 64-bit fingerprint: an int whose text and JSON form is 16 hexadecimal digits."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{self:016x}"

    def __repr__(self) -> str:
        return f"0x{self:016x}"


@dataclass(frozen=True, slots=True)
class Document:
    """A text with its id (at most 1 KiB of UTF-8).

    tags: names and values to filter lookups by. At most 16, names up to 64 bytes and values up to 255 bytes
    of UTF-8, neither empty, no = in a name.
    """

    id: str
    text: str
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Query:
    """What counts as a match.

    k: maximum Hamming distance in bits; None uses the profile's. min_similarity: minimum estimated Jaccard
    similarity; None uses the profile's. since: only documents written at or after this time: a datetime, a
    timedelta back from now, or a text: 7d, a date, or a time (RFC 3339). (Adding an unchanged document does
    not write it.) tags: only documents that have all of these tags.
    """

    k: int | None = None
    min_similarity: float | None = None
    since: Moment | None = None
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, order=True)
class Match:
    """A stored document near the query; sorts by distance, then id.

    similarity: estimated Jaccard similarity, None if the store keeps no sketches. drawers: flags of the
    drawers shared with the query, None if fingerprints cannot tell (scheme minhash) or no store was read.
    """

    distance: int
    id: str
    fingerprint: Fingerprint = field(compare=False)
    similarity: float | None = field(default=None, compare=False)
    drawers: tuple[int, ...] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Lookup:
    """The result of one query: a container of its matches, false if there are none.

    fingerprint: None if the text has too few features; reason then says why. truncated: a drawer or the list
    of a fingerprint's documents was longer than the limit, or a service has more matches than it lists.
    """

    fingerprint: Fingerprint | None
    matches: tuple[Match, ...] = ()
    truncated: bool = False
    reason: str | None = None

    def __len__(self) -> int:
        return len(self.matches)

    def __iter__(self) -> Iterator[Match]:
        return iter(self.matches)

    def __contains__(self, match: object) -> bool:
        return match in self.matches

    def _repr_html_(self) -> str:
        names = ("id", "distance", "similarity", "fingerprint")
        return html_table({name: [getattr(match, name) for match in self] for name in names})


@dataclass(frozen=True, slots=True)
class Claim:
    """The answer to "store this text unless a near-duplicate is stored". True in a condition if accepted.

    outcome: "accepted", stored now or earlier; "duplicate" of the stored document `match`; "rejected", the
    text has too few features or the id is invalid; "conflict", the id is stored with another text;
    "undecided", timed out: nothing is stored, and the claim may be repeated. reason: details of the last
    three. fingerprint: None if the text has too few features. also_at: the stored documents near it, nearest
    first and at most 100, if it was claimed to be annotated; truncated: there are more of these, or may be.
    """

    id: str
    outcome: Outcome
    fingerprint: Fingerprint | None = None
    match: Match | None = None
    reason: str | None = None
    also_at: tuple[Match, ...] = ()
    truncated: bool = False

    @property
    def accepted(self) -> bool:
        """True if the document is stored."""
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
    """Counts of an add. updated: documents with a new fingerprint; unchanged: documents whose fingerprint was
    stored already (their tags may have changed)."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    rejected: tuple[Rejected, ...] = ()

    def __add__(self, other: AddReport) -> AddReport:
        return AddReport(
            self.added + other.added,
            self.updated + other.updated,
            self.unchanged + other.unchanged,
            self.rejected + other.rejected,
        )

    @property
    def stored(self) -> int:
        """Number of the given documents that are in the index now."""
        return self.added + self.updated + self.unchanged

    def _repr_html_(self) -> str:
        shown = ("added", "updated", "unchanged")
        counts = {name: [getattr(self, name)] for name in shown} | {"rejected": [len(self.rejected)]}
        reasons = {name: [getattr(each, name) for each in self.rejected] for name in ("id", "reason")}
        return html_table(counts) + (html_table(reasons) if self.rejected else "")


@dataclass(frozen=True, slots=True)
class Size:
    """Estimated size of a table: rows, and bytes on disk. error: standard error of the rows, as a share: 0 if
    they were counted, None if the store does not say."""

    rows: int
    bytes: int
    error: float | None = None
