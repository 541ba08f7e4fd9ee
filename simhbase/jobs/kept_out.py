"""Which stored documents keep out the most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from simhbase.jobs.dedup_report import LARGEST, GroupSize
from simhbase.model import Match

MOST_COUNTED = 100_000  # documents: 15 MB with ids of usual length


class TopDuplicated:
    """How many documents each one has kept out of a store, in bounded memory.

    Exact as long as no more than MOST_COUNTED documents keep others out. Beyond, those that keep out the
    fewest are forgotten (Misra, Gries: Finding repeated elements, 1982, by batches): then counts are too low
    by at most a MOST_COUNTED-th of all that was counted.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._has_forgotten = False

    def add(self, counts: Mapping[str, int]) -> None:
        """Takes the counts of further documents, by the id of what keeps them out."""
        self._counts.update(counts)
        if len(self._counts) > MOST_COUNTED:
            ((_, least),) = self._counts.most_common(MOST_COUNTED + 1)[-1:]
            self._counts -= Counter(dict.fromkeys(self._counts, least))  # leaves those above 0
            self._has_forgotten = True

    def __contains__(self, document: object) -> bool:
        return document in self._counts

    def may_hold(self, document: str) -> bool:
        """Whether a document keeps others out, or may be one that was forgotten."""
        return self._has_forgotten or document in self

    def largest(self) -> tuple[GroupSize, ...]:
        """Those that keep out the most, each with what it keeps out as a group; of equal ones the first."""
        return tuple(GroupSize(document, 1 + count) for document, count in self._counts.most_common(LARGEST))


def kept_out_by(found: Iterable[Match | None]) -> dict[str, int]:
    """Counts of the documents that match one, None for the others."""
    return Counter(match.id for match in found if match is not None)
