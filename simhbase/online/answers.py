"""Answers without a class in model.py: lists, the status, failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from simhbase.model.explanations import Comparison, Explanation
from simhbase.model.groups import Group
from simhbase.model.statistics import Stats
from simhbase.model.stored import Muted, StoredPage
from simhbase.model.values import AddReport, Claim, Fingerprint, Lookup, Match
from simhbase.model.wire import Problem


@dataclass(frozen=True, slots=True)
class Lookups:
    """A lookup for each text, in order. warnings: what the store's profile misses of these texts."""

    lookups: Sequence[Lookup]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Documents near a stored one, without itself."""

    id: str
    fingerprint: Fingerprint | None
    matches: tuple[Match, ...]
    truncated: bool
    reason: str | None


@dataclass(frozen=True, slots=True)
class GroupList:
    """Groups of stored documents, largest first. truncated: there are more, or one of them has more members
    than are listed, or documents were not compared with all (see `StoredGroups.truncated`); found: number of
    all groups; duplicates: documents in them, without the first of each; documents: number compared; muted,
    lost_sketches: numbers left out because they are muted, or have no sketch; read_at: documents written
    since then may be missing."""

    groups: tuple[Group, ...]
    truncated: bool
    found: int
    duplicates: int
    documents: int
    muted: int
    lost_sketches: int
    read_at: datetime


@dataclass(frozen=True, slots=True)
class Claims:
    """A claim for each document, in order. warnings: what the store's profile misses of these texts."""

    claims: Sequence[Claim]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stored(AddReport):
    """Counts of an add. updated: documents with a new fingerprint; unchanged: documents whose fingerprint was
    stored already. warnings: what the store's profile misses of these texts."""

    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Features:
    """The distinct features of a text and their weights, the heaviest first."""

    features: Sequence[tuple[str, float]]


@dataclass(frozen=True, slots=True)
class Deleted:
    """The id of a deleted document."""

    id: str
    deleted: bool = True


@dataclass(frozen=True, slots=True)
class MutedList:
    """The mute list, oldest entries first."""

    muted: Sequence[Muted]


@dataclass(frozen=True, slots=True)
class Added:
    """Number of new entries. not_stored: the ids under which no document is stored."""

    added: int
    not_stored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unmuted:
    """Number of removed entries."""

    removed: int


@dataclass(frozen=True, slots=True)
class Status:
    """The store's profile and size.

    parameters: of the profile; stats: as of `counted_at`. (Lookups see all acknowledged writes.)
    """

    version: str
    parameters: Mapping[str, Any]
    access: Literal["read", "write"]
    stats: Stats
    counted_at: datetime


@dataclass(frozen=True, slots=True)
class Alive:
    """The process or the store answers."""

    status: Literal["ok"] = "ok"


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """An error. code: for programs; message: for people; details: problems by part of the request."""

    code: str
    message: str
    request_id: str
    details: Sequence[Problem] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """The format of all errors."""

    error: ErrorBody


def listed(answer: object) -> int:
    """How many documents, or parts of texts, an answer lists."""
    match answer:
        case Lookups(lookups):
            return sum(len(lookup.matches) for lookup in lookups)
        case Claims(claims):
            return sum(len(claim.also_at) for claim in claims)
        case GroupList(groups):
            return sum(len(group.members) for group in groups)
        case Neighbours(matches=some) | StoredPage(some) | MutedList(some) | Features(some):
            return len(some)
        case Explanation(candidates=some) | Comparison(stretches=some):
            return len(some)
    return 0
