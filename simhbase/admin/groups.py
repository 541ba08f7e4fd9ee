"""Groups of the near-duplicates that a store has.

A store keeps no texts, so they are those of lookups: as if every document was looked up, the oldest first,
and took all that are near it and in no group yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simhbase.admin.spooled import OfStored, spool_documents
from simhbase.drawers.groups import Groups, groups, stars
from simhbase.errors import UsageError
from simhbase.index import Index
from simhbase.model.groups import Group, Member
from simhbase.model.stored import Met
from simhbase.model.values import Moment
from simhbase.process.progress import Progress
from simhbase.process.slices import bounded_slices

_MEMBERS_AT_ONCE = 1 << 14


@dataclass(frozen=True, repr=False)
class StoredGroups(OfStored):
    """The groups of a store's documents, largest first; iterate over them as often as you like."""

    _grouped: Groups
    _others: NDArray[np.int64]  # documents that are no representatives, group by group
    _ends: NDArray[np.int64]  # of each group there
    _met: Callable[[Sequence[str]], Iterable[Met | None]]  # of documents, by id

    def __repr__(self) -> str:
        return f"<{len(self):,} group{'s' * (len(self) != 1)} of {self.documents:,} documents>"

    def __len__(self) -> int:
        """The number of groups."""
        return len(self._ends)

    @property
    def duplicates(self) -> int:
        """Number of documents in these groups, without the representatives."""
        return len(self._others)

    @property
    def truncated(self) -> int:
        """Number of documents that are in no group, or stand for one, and were not compared with all that
        they may be near to: more than 10,000 earlier ones, with which they share drawers."""
        return int(np.count_nonzero(self._grouped.truncated & self._grouped.unique))

    def __iter__(self) -> Iterator[Group]:
        starts = np.append(0, self._ends[:-1])
        for part in bounded_slices(self._ends - starts, _MEMBERS_AT_ONCE):
            others = self._others[starts[part.start] : self._ends[part.stop - 1]]
            heads = self._grouped.representative[self._others[starts[part]]]
            ids, similarity = self._stored.ids(others), self._grouped.similarity
            alike = [None] * len(others) if similarity is None else similarity[others].tolist()
            members = list(map(Member, ids, self._grouped.distance[others].tolist(), alike))
            sizes = (self._ends[part] - starts[part]).tolist()
            first, names = 0, self._stored.ids(heads)
            for name, size, met in zip(names, sizes, self._met(names), strict=True):
                yield Group(name, size + 1, tuple(members[first : first + size]), met)
                first += size


def stored_groups(
    index: Index,
    min_size: int,
    since: Moment | None,
    tags: Mapping[str, str] | None,
    progress: Progress,
    *,
    chains: bool,
) -> StoredGroups:
    """Group the documents of an index: see `Administrator.groups`."""
    if isinstance(min_size, bool) or not isinstance(min_size, int) or min_size < 2:
        raise UsageError(f"must be a whole number from 2 on, not {min_size!r}", parameter="min_size")
    stored = spool_documents(index, since, tags, progress)
    grouped = (groups if chains else stars)(stored.matcher(progress))
    return StoredGroups(stored, grouped, *_largest_first(grouped, min_size), index.met)


def _largest_first(grouped: Groups, least: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Documents beside the representatives of groups of at least some size, group by group, the nearest
    first: (m,), and where each group ends: (g,)."""
    others = np.flatnonzero(~grouped.unique)
    leader = grouped.representative[others]
    _, group, counts = np.unique(leader, return_inverse=True, return_counts=True)
    sizes = counts[group]
    chosen = sizes >= least - 1
    others, leader, sizes = others[chosen], leader[chosen], sizes[chosen]
    order = np.lexsort((grouped.distance[others], leader, -sizes))
    counts = np.sort(counts[counts >= least - 1])[::-1]
    return others[order], np.cumsum(counts)
