"""The values that cross module borders, and the wire (wire.py). All frozen, none knows a store; nothing here
imports NumPy, which a client of the service does without."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

MOST_IN_NOTE = 500  # characters

Outcome = Literal["accepted", "duplicate", "rejected", "conflict", "undecided"]
Verdict = Literal[
    "match",
    "too far",
    "not met",
    "stale hint",
    "pending claim",
    "lost sketch",
    "not stored",
    "muted",
    "filtered",
]


# A time (without a zone: that of this machine), or so long ago; of a moment to come, so long from now.
Moment = datetime | timedelta


class Fingerprint(int):
    """A fingerprint: an integer that is 16 hexadecimal digits as text, and on every wire."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{self:016x}"

    def __repr__(self) -> str:
        return f"0x{self:016x}"


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
    fingerprint: Fingerprint
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Query:
    """What counts as a match.

    k: maximum Hamming distance in bits; min_similarity: minimum Jaccard similarity, as sketches estimate it;
    None: as the profile says. since: only documents last written then or later: a datetime, or a timedelta
    for so long ago; an add that finds a document unchanged does not write it. tags: only documents that have
    all of these.
    """

    k: int | None = None
    min_similarity: float | None = None
    since: Moment | None = None
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, order=True)
class Match:
    """A stored document near the query; sorts by distance, then id.

    similarity: estimated Jaccard similarity, None where the store keeps no sketches. drawers: flags of the
    drawers that it shares with the query, None where fingerprints do not tell (scheme minhash), or no store
    was read.
    """

    distance: int
    id: str
    fingerprint: Fingerprint = field(compare=False)
    similarity: float | None = field(default=None, compare=False)
    drawers: tuple[int, ...] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Lookup:
    """The answer to one query: a sized container of its matches, so false where nothing is near.

    `fingerprint` is None where the text had too few features; `reason` then says why. `truncated`
    is true where a drawer or a fingerprint's documents held more than the limits allowed to read.
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
    fingerprint: Fingerprint | None = None
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
    updated: int = 0
    unchanged: int = 0
    rejected: tuple[Rejected, ...] = ()

    def __add__(self, other: AddReport) -> AddReport:
        """The report of both."""
        return AddReport(
            self.added + other.added,
            self.updated + other.updated,
            self.unchanged + other.unchanged,
            self.rejected + other.rejected,
        )

    @property
    def stored(self) -> int:
        """How many of the given documents the index holds now."""
        return self.added + self.updated + self.unchanged


@dataclass(frozen=True, slots=True)
class Muted:
    """An entry of the mute list: a document by its id, or all documents of a fingerprint.

    since, until: when it was put there and when it ends; until: None for ever.
    """

    id: str | None
    fingerprint: Fingerprint | None
    since: datetime
    until: datetime | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Drawer:
    """A drawer that a lookup reads.

    flag: of its table, from 1 on; bits: the bits of the fingerprint that name it, or the slots of the sketch
    (scheme minhash), as runs of (start, width); prefix: the first 5 bytes of its row keys in hexadecimal
    digits; rows: how many were read; candidates: those of them near by their bits (minhash: all); truncated:
    it has more rows than the limit.
    """

    flag: int
    bits: tuple[tuple[int, int], ...]
    prefix: str
    rows: int
    candidates: int
    truncated: bool


@dataclass(frozen=True, slots=True)
class Candidate:
    """A document that was found in a drawer, or was asked for.

    id: None for a fingerprint that no document is listed under; fingerprint: the one it has now (where it
    is stored), or was found under; distance: as that of a match, None where it is not known; similarity: as
    sketches estimate it; drawers: the flags of those that it was found in.

    verdict: "match"; "too far" (by bits or by sketches); "not met" (near, but in no drawer that was read, or
    beyond a limit);
    "stale hint" (the row leads to no document, or to one that has moved away since); "pending claim" (it is
    not decided whether it will be stored); "lost sketch"; "not stored" (it was asked for, and is no document,
    or has expired); "muted" (it would be a match, but for the mute list); "filtered" (but for `since` or
    `tags`).
    """

    id: str | None
    fingerprint: Fingerprint | None
    distance: int | None
    similarity: float | None
    drawers: tuple[int, ...]
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a lookup did.

    fingerprint: the query's, None where it has none: reason then says why. drawers: by their flags;
    candidates: the nearest first, at most as many as were asked for; more_candidates: how many fingerprints
    in the drawers are farther away than all of these; truncated: a drawer was not read to its end.
    """

    fingerprint: Fingerprint | None
    drawers: tuple[Drawer, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    more_candidates: int = 0
    truncated: bool = False
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of both texts; same: it has the same words in both. One of the two may be empty."""

    same: bool
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class WordCount:
    """How often a word is in each of two texts, in its normal form."""

    word: str
    left: int
    right: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """How near two texts are by a profile, and where they differ.

    fingerprints: of the left and the right one, None for a text that has too few features; reasons: why it
    has none. distance: as that of a match, bits of the fingerprints that differ (scheme simhash) or slots of
    the sketches (minhash); similarity: as their sketches estimate it, where the profile keeps some. Both are
    None where a text has no fingerprint. jaccard: the exact Jaccard similarity of the features that sketches
    are made of (character 3-shingles for simhash), from 0 to 1. drawers: the flags of those that they share,
    of `tables`. match: one would be found by the other.

    segments: both texts from their first character to their last, same and different stretches in turn;
    words: those that one text has more often than the other, the largest difference first; more_words: how
    many of them are left out; whole: a stretch was too long to be compared word by word, and is given as
    different as a whole.
    """

    fingerprints: tuple[Fingerprint | None, Fingerprint | None]
    reasons: tuple[str | None, str | None]
    distance: int | None
    similarity: float | None
    jaccard: float
    drawers: tuple[int, ...]
    tables: int
    match: bool
    segments: tuple[Stretch, ...]
    words: tuple[WordCount, ...]
    more_words: int
    whole: bool


@dataclass(frozen=True, slots=True)
class Size:
    """Roughly how large a table is: rows, and bytes as stored. Estimates, cheap to get."""

    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class DrawerStats:
    """Rows in the drawers of some stored fingerprints, spread evenly: what a lookup of a stored document
    reads. Large drawers come up more often than among all.

    sampled: how many drawers; mean_rows: None of none; over_limit: how many hold more rows than lookups read.
    """

    sampled: int
    mean_rows: float | None
    largest_rows: int
    over_limit: int


@dataclass(frozen=True, slots=True)
class Stats:
    """How large an index is.

    fingerprints: different ones; index_rows: rows of drawers. exact: every row was counted; estimates: the
    names of those values that are the store's estimates, bytes always among them. Those of embedded stores
    take a row that was put again for two until RocksDB compacts its files. table_estimates: rows and bytes of
    each table. operations: what has happened since the index was opened, as `Index.counters`.
    """

    documents: int
    fingerprints: int
    index_rows: int
    exact: bool
    estimates: tuple[str, ...]
    bytes: int
    bytes_per_document: float | None
    table_estimates: Mapping[str, Size]
    drawers: DrawerStats
    operations: Mapping[str, int]
