"""What a store has: documents, and entries of the mute list. See values.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from simhbase.model.values import Fingerprint

MOST_IN_NOTE = 500  # characters


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
class Muted:
    """An entry of the mute list: a document by id, or all documents with a fingerprint.

    since, until: when it was added and when it ends; until is None if it never ends.
    """

    id: str | None
    fingerprint: Fingerprint | None
    since: datetime
    until: datetime | None = None
    note: str = ""
