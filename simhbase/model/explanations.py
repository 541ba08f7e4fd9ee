"""How a lookup found its matches, and how two texts compare. See values.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from simhbase.model.values import Fingerprint

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
    mean that nothing differs. None for the profile short. notes: sentences that explain the similarity, such
    as "same lines, other order" and "differs by NAME -> NAME"; one warns of a text that repeats itself, where
    the similarity means little. drawers: flags of shared drawers; drawer_count: number of drawers that a
    document is in. match: a lookup of one would find the other, as the estimate is near enough and they share
    a drawer.

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
