"""A batch of fingerprints into an index: all of them, or only those that nothing is near.

Both write a batch with one durable call, and both may be repeated: what a stopped load has stored
already costs a read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from simhbase import records
from simhbase.filing import Bounds, Filing, identities
from simhbase.index import Index
from simhbase.model import AddReport
from simhbase.pairs import Pairs, concatenated, distinct
from simhbase.prints import Prints
from simhbase.reader import DRAWER_LIMIT, Reader

_FIRST_LISTING = 2  # documents read of a near fingerprint at first: the document's own, and another
_LISTING_GROWTH = 8
READ_TOGETHER = 64  # documents whose drawers are read to their end at once: these may be long
_Nearby = tuple[int, float | None, list[str]]  # distance and similarity of a fingerprint, its documents


@dataclass(frozen=True, slots=True, order=True)
class DuplicateOf:
    """The document that another one is a duplicate of; the least is the nearest, then by id."""

    distance: int
    id: str
    similarity: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Loaded:
    """What became of n documents.

    duplicate_of: for each the document that keeps it out, None where it is stored; report: what
    storing those did.
    """

    duplicate_of: Sequence[DuplicateOf | None]
    report: AddReport


def load_all(index: Index, ids: Sequence[str], prints: Prints) -> Loaded:
    """Stores n documents or replaces them; durable when it returns.

    ids: valid and different. Nothing is a duplicate.
    """
    return Loaded([None] * len(ids), index.add_prints(ids, prints))


def load_unique(
    index: Index, ids: Sequence[str], prints: Prints, min_similarity: float | None = None
) -> Loaded:
    """Stores those of n documents, one after the other, that have no stored document near.

    ids: valid and different; min_similarity: see Index.find. A document that has one is a duplicate of
    the nearest, and leaves the store as it was. A document that is stored
    already is replaced, and neither the old nor the new one is a duplicate of the other; once
    replaced, it counts with its new fingerprint alone. So the outcome is that of n calls with a
    document each, whatever other threads store meanwhile where `Store.exclusive` keeps them out.

    Loading again keeps the same documents, with one exception: those dropped for the sake of a
    stored document that was replaced later, by a text that is not near them, are then kept.

    Drawers longer than the reader's usual limit are read to their end for a document that has
    nothing near so far. (Its duplicates may then be said to be of another than the nearest one.)
    """
    with index.store.exclusive():
        duplicates = _Selection(index, ids, prints, min_similarity).run()
        kept = [number for number, near in enumerate(duplicates) if near is None]
        report = index.add_prints([ids[number] for number in kept], prints[kept])
    return Loaded(duplicates, report)


class _Selection:
    """The decisions about one batch, made in its order before any of it is written."""

    def __init__(
        self, index: Index, ids: Sequence[str], prints: Prints, min_similarity: float | None
    ) -> None:
        self._store = index.store
        self._filing = index.profile.filing
        self._bounds = self._filing.bounds(None, min_similarity)
        self._ids = ids
        self._prints = prints
        self._batch = frozenset(ids)
        self._kept: set[str] = set()

    def run(self) -> list[DuplicateOf | None]:
        """For each document the nearest one that it is a duplicate of, or None to keep it."""
        stored = self._stored(self._prints, DRAWER_LIMIT)
        fellows = _Fellows(self._prints, self._filing, self._bounds)
        to_the_end: dict[int, list[_Nearby]] = {}
        duplicates: list[DuplicateOf | None] = []
        for number, document in enumerate(self._ids):
            found = [*self._standing(document, stored.of(number)), *fellows.kept_near(number)]
            if not found and stored.truncated[number]:
                if number not in to_the_end:
                    cut = (each for each in self._open(number, stored, fellows) if each not in to_the_end)
                    to_the_end |= self._read_to_the_end(list(islice(cut, READ_TOGETHER)))
                found = list(self._standing(document, to_the_end[number]))
            if not found:
                self._kept.add(document)
                fellows.keep(number, document)
            duplicates.append(min(found, default=None))
        return duplicates

    def _open(self, first: int, stored: _Stored, fellows: _Fellows) -> Iterator[int]:
        """The documents from `first` on that have nothing near so far and were cut: they are read
        to their end together. One that is near another of them waits for its outcome."""
        waiting: set[int] = set()
        for number in range(first, len(self._ids)):
            if (
                stored.truncated[number]
                and fellows.value_of(number) not in waiting
                and not any(self._standing(self._ids[number], stored.of(number)))
                and not any(fellows.kept_near(number))
            ):
                yield number
                waiting.update(fellows.values_near(number))

    def _read_to_the_end(self, numbers: list[int]) -> dict[int, list[_Nearby]]:
        """What is stored near some documents, as `_Stored.of`."""
        stored = self._stored(self._prints[numbers], drawer_limit=None)
        return {number: list(stored.of(place)) for place, number in enumerate(numbers)}

    def _standing(self, document: str, stored: Iterable[_Nearby]) -> Iterator[DuplicateOf]:
        """The stored documents that a document is near, one a fingerprint; not those that this
        batch has replaced, and not itself."""
        for distance, similarity, listed in stored:
            for other in listed:
                if other != document and other not in self._kept:
                    yield DuplicateOf(distance, other, similarity)
                    break

    def _stored(self, prints: Prints, drawer_limit: int | None) -> _Stored:
        near = Reader(self._store, self._filing, drawer_limit).near(prints, self._bounds)
        listings = self._listings(np.unique(near.fingerprint).tolist())
        return _Stored(
            bounds=np.searchsorted(near.query, np.arange(len(prints) + 1)).tolist(),
            distances=near.distance.tolist(),
            similarities=near.known_similarities(),
            listings=[listings[fingerprint] for fingerprint in near.fingerprint.tolist()],
            truncated=near.truncated.tolist(),
        )

    def _listings(self, fingerprints: Sequence[int]) -> dict[int, list[str]]:
        """The documents of each fingerprint by id, up to the first that is not of this batch."""
        table = self._store.records("fingerprints")
        found: dict[int, list[str]] = {}
        limit = _FIRST_LISTING
        while fingerprints:
            rows = table.scan(list(map(records.listing_prefix, fingerprints)), limit)
            for fingerprint, listing in zip(fingerprints, rows, strict=True):
                found[fingerprint] = [records.listing_id(key) for key, _ in listing]
            fingerprints = [
                fingerprint
                for fingerprint in fingerprints
                if len(found[fingerprint]) == limit and self._batch.issuperset(found[fingerprint])
            ]
            limit *= _LISTING_GROWTH
        return found


@dataclass(frozen=True)
class _Stored:
    """What is stored near the documents of a batch; those of document i are at bounds[i:i + 2]."""

    bounds: list[int]
    distances: list[int]
    similarities: list[float | None]
    listings: list[list[str]]
    truncated: list[bool]

    def of(self, number: int) -> Iterator[_Nearby]:
        """The distances, similarities and documents of the fingerprints near a document."""
        near = slice(self.bounds[number], self.bounds[number + 1])
        return zip(self.distances[near], self.similarities[near], self.listings[near], strict=True)


class _Fellows:
    """The documents of a batch that are near each other, and which of them have been kept.

    Different prints only are joined, so that many copies of a page cost no more than one; at most one
    document of each is kept.
    """

    def __init__(self, prints: Prints, filing: Filing, bounds: Bounds) -> None:
        values = distinct(identities(prints, filing.form))
        firsts = prints[values.first]
        pairs = concatenated(filing.pairs(firsts, bounds))
        left = np.concatenate([pairs.left, pairs.right])
        order = np.argsort(left, kind="stable")
        self._value: list[int] = values.inverse.tolist()
        self._bounds = np.searchsorted(left[order], np.arange(len(values.values) + 1)).tolist()
        self._mate = np.concatenate([pairs.right, pairs.left])[order]
        self._distance = np.concatenate([pairs.distance, pairs.distance])[order]
        similarities = _similarities(firsts, filing, pairs)
        self._similarity = None if similarities is None else np.tile(similarities, 2)[order]
        self._is_kept = np.zeros(len(values.values), dtype=np.bool_)
        self._keeper: dict[int, str] = {}
        self._same = None if filing.form is None else 1.0

    def value_of(self, number: int) -> int:
        """The number of a document's print among the different ones."""
        return self._value[number]

    def values_near(self, number: int) -> list[int]:
        """The numbers of the prints near a document's, its own among them."""
        value = self._value[number]
        return [value, *self._mate[self._bounds[value] : self._bounds[value + 1]].tolist()]

    def keep(self, number: int, document: str) -> None:
        """Notes that a document is kept."""
        value = self._value[number]
        self._is_kept[value] = True
        self._keeper[value] = document

    def kept_near(self, number: int) -> Iterator[DuplicateOf]:
        """The kept documents near a document."""
        value = self._value[number]
        if value in self._keeper:
            yield DuplicateOf(0, self._keeper[value], self._same)
        near = slice(self._bounds[value], self._bounds[value + 1])
        if near.start == near.stop:
            return
        kept = near.start + np.flatnonzero(self._is_kept[self._mate[near]])
        for place in kept.tolist():
            similarity = None if self._similarity is None else float(self._similarity[place])
            yield DuplicateOf(int(self._distance[place]), self._keeper[int(self._mate[place])], similarity)


def _similarities(prints: Prints, filing: Filing, pairs: Pairs) -> NDArray[np.float64] | None:
    form = filing.form
    if form is None:
        return None
    return form.similarity(form.unequal_among(prints.sketches, pairs.left, prints.sketches, pairs.right))
