"""The stored documents with the most duplicates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from simhbase.deduplication.report import LARGEST, GroupSize

MOST_COUNTED = 100_000  # documents: 15 MB with ids of usual length


@dataclass
class TopDuplicated:
    """Counts the duplicates of each document, in bounded memory.

    Exact for up to MOST_COUNTED documents. Beyond, those with the fewest duplicates are forgotten (Misra,
    Gries: Finding repeated elements, 1982, in batches), and counts may be too low by at most 1/MOST_COUNTED
    of all duplicates.
    """

    _counts: Counter[str] = field(default_factory=Counter)
    _has_forgotten: bool = False

    def add(self, counts: Mapping[str, int]) -> None:
        """Add numbers of duplicates, by id."""
        self._counts.update(counts)
        if len(self._counts) > MOST_COUNTED:
            ((_, least),) = self._counts.most_common(MOST_COUNTED + 1)[-1:]
            self._counts -= Counter(dict.fromkeys(self._counts, least))  # leaves those above 0
            self._has_forgotten = True

    def __contains__(self, document: object) -> bool:
        return document in self._counts

    def may_hold(self, document: str) -> bool:
        """True if a document has duplicates, or may have been forgotten."""
        return self._has_forgotten or document in self

    def largest(self) -> tuple[GroupSize, ...]:
        """The documents with the most duplicates, as groups; of equal ones the first."""
        return tuple(GroupSize(document, 1 + count) for document, count in self._counts.most_common(LARGEST))
