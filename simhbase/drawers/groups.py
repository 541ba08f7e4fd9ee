"""Groups near-duplicates within one array of fingerprints: connected components, or stars.

Only distinct fingerprints or texts are joined, so a page copied a hundred thousand times costs no more than
two different ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from simhbase._core import Candidates
from simhbase.drawers.join import Distinct, Pairs, distances, distinct, gathered
from simhbase.drawers.scheme import Bounds, Distances, Scheme, identities
from simhbase.errors import UsageError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.sketches import pair_mismatches
from simhbase.process.progress import Progress, no_progress
from simhbase.process.slices import Numbers, numbers_below

MOST = (1 << 31) - 1  # documents
SKETCHES_AT_ONCE = 1 << 14
PAIRS_AT_ONCE = 1 << 12  # few: the matches among some save many comparisons of the next
LOOKS = 10_000  # pairs of a document with earlier ones, at most: n that are near nothing have n * n / 2
IN_VAIN, JOINED = 1, 2  # what a pair of documents does, by the core
Similar = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


@dataclass(frozen=True)
class Groups:
    """Documents with their representatives.

    representative: (n,), of each document (itself if it is in no group); distance: (n,), to the
    representative, which may be far in a connected component; similarity: float64 (n,), to the
    representative, None if unknown; apart: bool (n,), documents near a representative that does not contain
    them, None if containment does not count; truncated: bool (n,), documents that were not compared with all
    candidates (core/src/candidates.rs).
    """

    representative: Numbers
    distance: Distances
    truncated: NDArray[np.bool_]
    similarity: NDArray[np.float64] | None = None
    apart: NDArray[np.bool_] | None = None

    @property
    def unique(self) -> NDArray[np.bool_]:
        same: NDArray[np.bool_] = self.representative == np.arange(len(self.representative))
        return same

    @cached_property
    def first(self) -> NDArray[np.int64]:
        """First document in input order of each document's group: int64 (n,). It names the group, whatever
        the representative."""
        return _least_of(self.representative, np.arange(len(self.representative)))

    @property
    def count(self) -> int:
        """Number of groups with at least two documents."""
        return len(np.unique(self.representative[~self.unique]))


@dataclass(frozen=True)
class ExactSimilarity:
    """A minimum similarity of n texts, computed from the texts.

    texts: uint64 (n, 2), digests, equal for equal texts; similarity: positions (m,) twice -> float64 (m,);
    contains: positions of representatives and of members (m,) -> bool (m,), whether the former have enough of
    the latter; None if that does not count.
    """

    least: float
    texts: NDArray[np.uint64]
    similarity: Callable[[Numbers, Numbers], NDArray[np.float64]]
    contains: Callable[[Numbers, Numbers], NDArray[np.bool_]] | None = None


@dataclass(frozen=True)
class Joined:
    """What a step of pairs does, as positions among documents.

    documents: int64 (m,), those that join another; similarity: float64 (m,), to it; apart: int64 (k,), those
    near a document that does not contain them.
    """

    documents: NDArray[np.int64]
    similarity: NDArray[np.float64]
    apart: NDArray[np.int64]


@dataclass(frozen=True)
class _Chosen:
    rows: NDArray[Any]
    positions: Numbers

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, numbers: Numbers | slice) -> NDArray[Any]:
        return self.rows[self.positions[numbers]]


def chosen(rows: NDArray[Any], positions: Numbers) -> NDArray[Any]:
    """Lazily indexed rows: rows[positions], read from `rows` on access."""
    return cast(NDArray[Any], _Chosen(rows, positions))


@dataclass(frozen=True)
class Matcher:
    """Finds matches among n documents: fingerprints within the bounds and, with `exact`, similar texts."""

    fingerprints: FingerprintBatch
    scheme: Scheme
    bounds: Bounds
    exact: ExactSimilarity | None = None
    progress: Progress = no_progress

    def distinct(self, documents: Numbers) -> Distinct:
        """The distinct ones of m documents, each the first of equal ones."""
        # Different texts may have the same fingerprint.
        if self.exact is not None:
            return distinct(chosen(self.exact.texts, documents))
        return self._distinct_fingerprints(documents)

    def candidates(self, documents: Numbers, *, is_chain: bool) -> Candidates:
        """Candidate pairs of m distinct documents, by fingerprints, to form groups of: chains or stars
        (core/src/candidates.rs). Raises UsageError for more than MOST."""
        if len(documents) > MOST:
            raise UsageError(f"at most {MOST:,} different texts are grouped: use simhbase spark dedup")
        if self.exact is None and self._near_match:
            candidates = Candidates(len(documents), None, is_chain, LOOKS)
        else:
            found = distinct(self._chosen(documents).values)
            numbers = found.inverse.astype(np.int32, copy=False)
            candidates = Candidates(len(documents), numbers, is_chain, LOOKS)
            documents = documents[found.first]
            del found  # there may be millions
        # In chains, near fingerprints are connected at once, if nothing else is compared.
        is_known = is_chain and self.exact is None and self._near_match
        add = candidates.match_pairs if is_known else candidates.add
        crowds: list[NDArray[np.int64]] = []
        for pairs in self.scheme.pairs(self._chosen(documents), self.bounds, self.progress, crowds):
            add(pairs.left, pairs.right)
        for members in crowds:
            candidates.add_crowd(members)
        return candidates

    def join(self, documents: Numbers, candidates: Candidates) -> Iterator[Joined]:
        """Group the candidates that match, some at a time."""
        while found := candidates.step(PAIRS_AT_ONCE):
            left, right = (np.frombuffer(each, np.int64) for each in found[:2])
            near = ~np.frombuffer(found[2], np.bool_)
            near &= self._near_match
            if not near.all():
                unsure = np.flatnonzero(~near)
                one, other = documents[left[unsure]], documents[right[unsure]]
                near[unsure] = self.scheme.are_near(self.fingerprints, self.bounds, one, other)
                left, right = left[near], right[near]
            if self.exact is None:
                joined = right[np.frombuffer(candidates.match_pairs(left, right), np.bool_)]
                yield Joined(joined, np.ones(len(joined)), joined[:0])
            else:
                yield self._compared(documents, left, right, candidates, self.exact)

    def _compared(
        self,
        documents: Numbers,
        left: NDArray[np.int64],
        right: NDArray[np.int64],
        candidates: Candidates,
        exact: ExactSimilarity,
    ) -> Joined:
        one, other = documents[left], documents[right]
        limited = np.frombuffer(candidates.are_limited(right), np.bool_)
        distance = np.zeros(len(one), np.uint16)
        distance[limited] = self._apart(one[limited], other[limited])
        compared = np.flatnonzero(np.frombuffer(candidates.admit(right, distance), np.bool_))
        similarity = np.zeros(len(one))
        similarity[compared] = exact.similarity(one[compared], other[compared])
        near = similarity >= exact.least
        match = near.copy()
        if exact.contains is not None:
            match[near] = exact.contains(one[near], other[near])
        in_vain = ~match & ~limited
        distance[in_vain] = self._apart(one[in_vain], other[in_vain])
        done = np.frombuffer(candidates.match_compared(left, right, distance, match.view(np.uint8)), np.uint8)
        joined = done == JOINED
        return Joined(right[joined], similarity[joined], right[near & (done == IN_VAIN)])

    def _apart(self, left: Numbers, right: Numbers) -> NDArray[np.uint16]:
        return self.measured(left, right)[0].astype(np.uint16)

    def distinct_pairs(self, documents: Numbers) -> Iterator[Pairs]:
        """The near pairs of m distinct documents by fingerprints, as positions among them: each once, in
        batches of bounded size."""
        return gathered(self.scheme.pairs(self._chosen(documents), self.bounds, self.progress))

    def measured(self, left: Numbers, right: Numbers) -> tuple[Distances, NDArray[np.float64] | None]:
        """Distances of m pairs of documents, and their estimated similarities, None without sketches."""
        values, sketches = self.fingerprints.values, self.fingerprints.sketches
        sketching = self.scheme.sketching
        if sketching is None:
            return distances(values[left], values[right]), None
        mismatches = pair_mismatches(sketching, sketches, left, sketches, right)
        if self.scheme.listed_sketching is not None:  # fingerprints of similar texts are unrelated
            return mismatches, sketching.similarity(mismatches)
        return distances(values[left], values[right]), sketching.similarity(mismatches)

    def similar(self, documents: Numbers, left: NDArray[np.int64], right: NDArray[np.int64]) -> Similar:
        """Those pairs of positions in `documents` whose texts are similar enough, and their exact similarity:
        (m,) three times. All, and 1, if none is required."""
        if self.exact is None:
            return left, right, np.ones(len(left))
        found = self.exact.similarity(documents[left], documents[right])
        near = found >= self.exact.least
        return left[near], right[near], found[near]

    def at_least(self, least: float) -> Matcher:
        """The same with another minimum similarity of texts."""
        return replace(self, exact=None if self.exact is None else replace(self.exact, least=least))

    @property
    def _near_match(self) -> bool:
        """Whether near fingerprints have near sketches, as they are made of them, or there are none."""
        return self.bounds.mismatches is None or self.scheme.listed_sketching is not None

    def _chosen(self, documents: Numbers) -> FingerprintBatch:
        values, sketches = self.fingerprints.values, self.fingerprints.sketches
        return FingerprintBatch(chosen(values, documents), chosen(sketches, documents))

    def _distinct_fingerprints(self, documents: Numbers) -> Distinct:
        named = self._chosen(documents)
        is_hash_of_sketch = self.scheme.listed_sketching is not None
        if self.bounds.mismatches is None or is_hash_of_sketch or self.scheme.sketching is None:
            return distinct(named.values)
        keys = np.empty((len(named), 2), dtype=np.uint64)
        for start in range(0, len(named), SKETCHES_AT_ONCE):
            part = np.arange(start, min(start + SKETCHES_AT_ONCE, len(named)))
            keys[part] = identities(named[part], self.scheme.sketching)
        return distinct(keys)

    def grouped(
        self,
        representative: Numbers,
        truncated: NDArray[np.bool_],
        similarity: NDArray[np.float64] | None = None,
    ) -> Groups:
        """Add distances and similarities to representatives. similarity: float64 (n,), exact similarities if
        they were computed already."""
        others = np.flatnonzero(representative != np.arange(len(representative)))
        of_others = representative[others]
        far, alike = self.measured(others, of_others)
        if self.exact is not None and similarity is not None:
            alike = similarity[others]
        elif self.exact is not None:
            alike = np.ones(len(others))
            different = (self.exact.texts[others] != self.exact.texts[of_others]).any(axis=1)
            alike[different] = self.exact.similarity(others[different], of_others[different])
        distance: Distances = np.zeros(len(representative), dtype=far.dtype)
        distance[others] = far
        if alike is None:
            return Groups(representative, distance, truncated)
        similarity = np.ones(len(representative))
        similarity[others] = alike
        return Groups(representative, distance, truncated, similarity)


def groups(matcher: Matcher, order: NDArray[np.int64] | None = None) -> Groups:
    """Group documents into connected components of matches. Documents with the same fingerprint match; if
    similarity counts, those with the same text or sketch.

    order: int64 (n,), documents in order of preference as representatives; None for input order. It does not
    change the groups. Appending documents only merges groups, so a group keeps its name or gets that of an
    earlier one.

    Pairs are read one batch after the other, and those that are connected already are not compared.
    """
    values = matcher.distinct(np.arange(len(matcher.fingerprints)))
    candidates = matcher.candidates(values.first, is_chain=True)
    for _ in matcher.join(values.first, candidates):
        pass
    root = np.frombuffer(candidates.leaders(), np.int32)
    representative = values.first[root[values.inverse]]
    truncated = np.frombuffer(candidates.truncated(), np.bool_)[values.inverse]
    if order is not None:
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        representative = order[_least_of(representative, rank)]
    return matcher.grouped(representative, truncated)


def stars(matcher: Matcher, order: NDArray[np.int64] | None = None) -> Groups:
    """Group documents around representatives, which all members match. The first document in `order` (see
    `groups`) that is in no group becomes the representative of the next, with all its matches that are in no
    group.

    A document that is in a group matches its representative, by fingerprints and, if they are compared, by
    texts. It takes no others: later documents are compared with representatives only. So n near texts cost n
    comparisons if the first is like all of them, and n for each further representative among them, up to a
    limit (core/src/candidates.rs).

    If containment counts, a match that the representative does not contain stays in no group, and may become
    a representative itself.

    In input order, appending documents does not change the groups of earlier ones. In another order, a new
    representative takes its matches out of their groups. Takes 4 bytes for each near pair of distinct
    fingerprints (8 if texts or sketches are compared), and 8 more while collecting them. Members of a large
    drawer, in which many are near each other, take as much, their pairs nothing.
    """
    n = len(matcher.fingerprints)
    values = matcher.distinct(np.arange(n, dtype=numbers_below(n)) if order is None else order)
    documents = values.first if order is None else order[values.first]
    leader, similarity, apart, truncated = _leaders(matcher, documents)
    representative, similarity = documents[leader][values.inverse], similarity[values.inverse]
    apart, truncated = apart[values.inverse], truncated[values.inverse]
    del values, documents, leader
    if order is not None:
        place = np.argsort(order)
        representative, similarity = representative[place], similarity[place]
        apart, truncated = apart[place], truncated[place]
    found = matcher.grouped(representative, truncated, similarity)
    is_contained = matcher.exact is not None and matcher.exact.contains is not None
    return replace(found, apart=apart) if is_contained else found


def _leaders(
    matcher: Matcher, documents: Numbers
) -> tuple[Numbers, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Position of the representative of each of m distinct documents, the similarity to it, whether it is
    near one that does not contain it, and whether it was not compared with all candidates."""
    candidates = matcher.candidates(documents, is_chain=False)
    apart = np.zeros(len(documents), dtype=np.bool_)
    members, similarities = [np.empty(0, np.int64)], [np.empty(0)]  # of those with another leader: few
    for joined in matcher.join(documents, candidates):
        members.append(joined.documents)
        similarities.append(joined.similarity)
        apart[joined.apart] = True
    leader = np.frombuffer(candidates.leaders(), np.int32)
    truncated = np.frombuffer(candidates.truncated(), np.bool_)
    del candidates
    similarity = np.ones(len(documents))
    similarity[np.concatenate(members)] = np.concatenate(similarities)
    return leader, similarity, apart, truncated


def _least_of(group: Numbers, values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Least value in each document's group. group: (n,), 0 to n - 1; values: int64 (n,)."""
    least = np.full(len(group), np.iinfo(np.int64).max)
    np.minimum.at(least, group, values)
    return least[group]
