"""Frozen dataclasses shared by all modules and the wire (wire.py). They know no store.

Nothing here imports NumPy: the client of the service runs without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from simhbase.model.notebook import html_table

MOST_IN_NOTE = 500  # characters

ClaimMode = Literal["refuse", "annotate"]
Outcome = Literal["accepted", "duplicate", "rejected", "conflict", "undecided"]
Verdict = Literal[
    "match",
    "too far",
    "not met",
    "stale hint",
    "pending claim",
    "not stored",
    "muted",
    "filtered",
]


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
class Met:
    """The claims that were refused because of a document.

    count: number of different ids; first, last: when the first of them was refused first, and the last one
    last; None if there are none. truncated: there may be more than these 10,000, and first and last are of
    these.
    """

    count: int
    first: datetime | None = None
    last: datetime | None = None
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """The stored fields of a document. Texts are not stored. met: None if the store does not count refused
    claims."""

    id: str
    fingerprint: Fingerprint
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)
    met: Met | None = None


@dataclass(frozen=True, slots=True)
class StoredPage:
    """A part of the stored documents. after: pass it to get the next part; None at the end."""

    documents: tuple[StoredDocument, ...]
    after: str | None


@dataclass(frozen=True, slots=True)
class Member:
    """A document of a group. distance, similarity: to the representative, as in Match."""

    id: str
    distance: int
    similarity: float | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Near-duplicates in a store. group: id of the representative, the document stored first; size: number of
    documents; members: those beside the representative, nearest first; met: claims that were refused because
    of the representative, None if the store does not count them."""

    group: str
    size: int
    members: tuple[Member, ...]
    met: Met | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """Two near documents, of which id_a comes first in the corpus, or was stored first. (Ids of rows have the
    type that was given.) distance, similarity: as in Match."""

    id_a: Any
    id_b: Any
    distance: int
    similarity: float | None = None


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
class Muted:
    """An entry of the mute list: a document by id, or all documents with a fingerprint.

    since, until: when it was added and when it ends; until is None if it never ends.
    """

    id: str | None
    fingerprint: Fingerprint | None
    since: datetime
    until: datetime | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Drawer:
    """A drawer that a lookup reads.

    flag: number of its combination of blocks (minhash: of its band), from 1; bits: the fingerprint bits
    (scheme simhash) or sketch slots (minhash) that name the drawer, as runs of (start, width); prefix: the
    first 5 bytes of its row keys in hex; rows: rows read; candidates: rows within the distance in bits
    (minhash: all); truncated: it has more rows than the limit.
    """

    flag: int
    bits: tuple[tuple[int, int], ...]
    prefix: str
    rows: int
    candidates: int
    truncated: bool


@dataclass(frozen=True, slots=True)
class Candidate:
    """A document that was found in a drawer, or that the caller asked about.

    id: None for a fingerprint that lists no document. fingerprint: the current one if the document is stored,
    else the one it was found under. distance: as in Match, None if unknown. similarity: as estimated from
    sketches. drawers: flags of the drawers that it was found in.

    verdict: "match"; "too far" (by bits or by sketches); "not met" (near, but in no drawer that was read, or
    beyond a limit); "stale hint" (the row leads to no document, or to one with another fingerprint); "pending
    claim" (undecided); "not stored" (asked about, but missing or expired); "muted" (on the
    mute list, otherwise a match); "filtered" (excluded by `since` or `tags`, otherwise a match).
    """

    id: str | None
    fingerprint: Fingerprint | None
    distance: int | None
    similarity: float | None
    drawers: tuple[int, ...]
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a lookup found its matches.

    fingerprint: the query's; None if it has none, and reason says why. drawers: in order of their flags.
    candidates: nearest first, up to the number asked for. more_candidates: number of further fingerprints in
    the drawers. truncated: a drawer had more rows than the limit. notes: as in Comparison, on
    a text that repeats itself.
    """

    fingerprint: Fingerprint | None
    drawers: tuple[Drawer, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    more_candidates: int = 0
    truncated: bool = False
    reason: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stretch:
    """A piece of two compared texts. same: both have the same words here. One side may be empty."""

    same: bool
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class WordCount:
    """How often each of two texts contains a word (normalized)."""

    word: str
    left: int
    right: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """How similar two texts are under a profile, and where they differ.

    fingerprints: left and right, None for a text with too few features; reasons says why. distance: differing
    bits (scheme simhash) or sketch slots (minhash). similarity: estimated from sketches, if the profile keeps
    them. Both are None if a text has no fingerprint. jaccard: exact Jaccard similarity (0 to 1) of the
    features behind the sketches (growing shingles, if the profile does not ask for others). containment: the
    share (0 to 1) of the characters of the left text that the right one has, and of the right that the left
    has: those in 13 characters in a row, or in 6 Han characters in a row, that the other text has anywhere
    (normal form, without white space; a shorter text is contained as a whole or not at all). Near 1 does not
    mean that nothing differs. None for the profile short. notes: what explains the similarity, such as "same
    lines, other order", "differs by NAME -> NAME", or that a text repeats itself so much that similarity
    means little. drawers: flags of shared drawers; drawer_count:
    number of drawers that a document is in. match: a lookup of one would find the other, as the estimate is
    near enough and they share a drawer.

    stretches: both texts in full, as alternating same and different stretches. words: words that one text has
    more often, largest difference first; more_words: number left out. whole: a stretch was too long to
    compare word by word, and is reported as different.
    """

    fingerprints: tuple[Fingerprint | None, Fingerprint | None]
    reasons: tuple[str | None, str | None]
    distance: int | None
    similarity: float | None
    jaccard: float
    containment: tuple[float, float] | None
    notes: tuple[str, ...]
    drawers: tuple[int, ...]
    drawer_count: int
    match: bool
    stretches: tuple[Stretch, ...]
    words: tuple[WordCount, ...]
    more_words: int
    whole: bool


@dataclass(frozen=True, slots=True)
class Size:
    """Estimated size of a table: rows, and bytes on disk. error: standard error of the rows, as a share: 0 if
    they were counted, None if the store does not say."""

    rows: int
    bytes: int
    error: float | None = None


@dataclass(frozen=True, slots=True)
class DrawerStats:
    """Rows in the drawers of a sample of stored fingerprints, that is, what a lookup of a stored document
    reads. Large drawers are overrepresented compared with all drawers.

    sampled: number of drawers; mean_rows: None if there are none; over_limit: drawers with more rows than
    lookups read.
    """

    sampled: int
    mean_rows: float | None
    largest_rows: int
    over_limit: int


@dataclass(frozen=True, slots=True)
class Stats:
    """Size and contents of an index.

    fingerprints: distinct ones; index_rows: rows in drawers. exact: every row was counted; estimates: names
    of the values that are the store's estimates, always including bytes. Embedded stores count a rewritten
    row twice until RocksDB compacts. ranges: (least, most) of estimated counts, 95 % of the time; not where
    the store does not say how far it may be off. table_estimates: rows and bytes by table. operations:
    `Index.counters` since the index was opened, and `Index.gauges`.
    """

    documents: int
    fingerprints: int
    index_rows: int
    exact: bool
    estimates: tuple[str, ...]
    ranges: Mapping[str, tuple[int, int]]
    bytes: int
    bytes_per_document: float | None
    table_estimates: Mapping[str, Size]
    drawers: DrawerStats
    operations: Mapping[str, int]
