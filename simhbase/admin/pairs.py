"""Pairs of near-duplicates that a store has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from simhbase.admin.spooled import OfStored, spool_documents
from simhbase.drawers.groups import Matcher
from simhbase.drawers.pairs import near_pairs, pairs_of
from simhbase.index import Index
from simhbase.model.groups import Pair
from simhbase.model.values import Moment
from simhbase.process.progress import Progress


@dataclass(frozen=True, repr=False)
class StoredPairs(OfStored):
    """The pairs of near documents of a store, each once, in no particular order. They are compared whenever
    they are iterated over."""

    _matcher: Matcher

    def __repr__(self) -> str:
        return f"<pairs of {self.documents:,} documents>"

    def __iter__(self) -> Iterator[Pair]:
        return pairs_of(near_pairs(self._matcher), self._stored.ids)


def stored_pairs(
    index: Index, since: Moment | None, tags: Mapping[str, str] | None, progress: Progress
) -> StoredPairs:
    """The pairs of an index: see `Administrator.pairs`."""
    stored = spool_documents(index, since, tags, progress)
    return StoredPairs(stored, stored.matcher(progress))
