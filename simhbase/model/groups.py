"""Groups and pairs of near-duplicates. See values.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from simhbase.model.stored import Met


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
