"""Answers that the library has no value for: lists, the status, failures. The others are in model.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from simhbase.model import Claim, Fingerprint, Lookup, Match, Muted, Stats
from simhbase.wire import Problem


@dataclass(frozen=True, slots=True)
class Lookups:
    """A lookup for each text, in their order."""

    lookups: Sequence[Lookup]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The documents near a stored one, without itself."""

    id: str
    fingerprint: Fingerprint | None
    matches: tuple[Match, ...]
    truncated: bool
    reason: str | None


@dataclass(frozen=True, slots=True)
class Claims:
    """A claim for each document, in their order."""

    claims: Sequence[Claim]


@dataclass(frozen=True, slots=True)
class Deleted:
    """What was deleted."""

    id: str
    deleted: bool = True


@dataclass(frozen=True, slots=True)
class MuteList:
    """What is muted, the oldest entries first."""

    muted: Sequence[Muted]


@dataclass(frozen=True, slots=True)
class Added:
    """How many were muted that were not before."""

    added: int


@dataclass(frozen=True, slots=True)
class Removed:
    """How many were muted before, and are no more."""

    removed: int


@dataclass(frozen=True, slots=True)
class Status:
    """What the store is, and how large.

    parameters: of the profile; stats: as they were at `counted_at`. Lookups see every write that was
    acknowledged before.
    """

    version: str
    parameters: Mapping[str, Any]
    access: Literal["read", "write"]
    stats: Stats
    counted_at: datetime


@dataclass(frozen=True, slots=True)
class Alive:
    """The process answers, or the store does."""

    status: Literal["ok"] = "ok"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no answer. code: for programs, message: for people; details: what is wrong with which part
    of the request."""

    code: str
    message: str
    request_id: str
    details: Sequence[Problem] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """The one shape of errors."""

    error: Failure
