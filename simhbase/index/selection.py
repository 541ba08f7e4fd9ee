"""Which documents of a batch have something near: stored, or earlier in the batch.

Decided for the whole batch before any of it is written, as if its documents came one after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.join import Pairs, concatenated, distinct
from simhbase.drawers.scheme import Bounds, Scheme, identities
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index.mute import NOTHING_HIDDEN, Hidden
from simhbase.index.reader import DRAWER_LIMIT, Reader
from simhbase.model import Fingerprint, Match
from simhbase.stores.base import Store

_FIRST_LISTING = 2  # documents read of a near fingerprint at first: the document's own, and another
_LISTING_GROWTH = 8
READ_TOGETHER = 64  # documents whose drawers are read to their end at once: these may be long


def duplicates_of(
    store: Store,
    scheme: Scheme,
    clock: Callable[[], int],
    ids: Sequence[str],
    fingerprints: FingerprintBatch,
    bounds: Bounds,
    hidden: Hidden = NOTHING_HIDDEN,
) -> list[Match | None]:
    """For each of n documents, stored one after the other, the nearest stored one that it is a duplicate of,
    None for those to be stored, which is left to the caller.

    ids: valid and different; bounds: what is a duplicate; hidden: what is muted, which makes nothing a
    duplicate, stored or earlier in the batch. A document that is a duplicate leaves the store
    as it was. A document that is stored already is replaced, and neither the old nor the new one is a
    duplicate of the other; once replaced, it counts with its new fingerprint alone. So the outcome is that of
    n calls with a document each, whatever other threads store meanwhile where `Store.exclusive` keeps them
    out.

    Deciding again keeps the same documents, with one exception: those dropped for the sake of a
    stored document that was replaced later, by a text that is not near them, are then kept.

    Drawers longer than the reader's usual limit are read to their end for a document that has
    nothing near so far. (Its duplicates may then be said to be of another than the nearest one.)
    """
    return _Selection(store, scheme, clock, ids, fingerprints, bounds, hidden).run()


class _Selection:
    """The decisions about one batch, made in its order before any of it is written."""

    def __init__(
        self,
        store: Store,
        scheme: Scheme,
        clock: Callable[[], int],
        ids: Sequence[str],
        fingerprints: FingerprintBatch,
        bounds: Bounds,
        hidden: Hidden,
    ) -> None:
        self._store, self._clock = store, clock
        self._hidden = hidden
        self._scheme = scheme
        self._bounds = bounds
        self._ids = ids
        self._prints = fingerprints
        self._batch = frozenset(ids)
        self._kept: set[str] = set()

    def run(self) -> list[Match | None]:
        """For each document the nearest one that it is a duplicate of, or None to keep it."""
        stored = self._stored(self._prints, DRAWER_LIMIT)
        others = OthersOfBatch(self._prints, self._scheme, self._bounds)
        to_the_end: dict[int, list[Match]] = {}
        duplicates: list[Match | None] = []
        for number, document in enumerate(self._ids):
            found = [*self._standing(document, stored.of[number]), *self._kept_near(number, others)]
            if not found and stored.truncated[number]:
                if number not in to_the_end:
                    cut = (each for each in self._open(number, stored, others) if each not in to_the_end)
                    to_the_end |= self._read_to_the_end(list(islice(cut, READ_TOGETHER)))
                found = list(self._standing(document, to_the_end[number]))
            if not found:
                self._kept.add(document)
                others.keep(number, document)
            duplicates.append(min(found, default=None))
        return duplicates

    def _open(self, first: int, stored: _Stored, others: OthersOfBatch) -> Iterator[int]:
        """The documents from `first` on that have nothing near so far and were cut: they are read
        to their end together. One that is near another of them waits for its outcome."""
        waiting: set[int] = set()
        for number in range(first, len(self._ids)):
            if (
                stored.truncated[number]
                and others.value_of(number) not in waiting
                and not any(self._standing(self._ids[number], stored.of[number]))
                and not any(self._kept_near(number, others))
            ):
                yield number
                waiting.update(others.values_near(number))

    def _read_to_the_end(self, numbers: list[int]) -> dict[int, list[Match]]:
        """What is stored near some documents, as `_Stored.of`."""
        return dict(zip(numbers, self._stored(self._prints[numbers], drawer_limit=None).of, strict=True))

    def _standing(self, document: str, stored: Iterable[Match]) -> Iterator[Match]:
        """The stored documents that a document is near; not those that this batch has replaced, and not
        itself."""
        return (each for each in stored if each.id != document and each.id not in self._kept)

    def _kept_near(self, number: int, others: OthersOfBatch) -> Iterator[Match]:
        """The documents of the batch that a document is near, which are kept and not muted."""
        kept = others.kept_near(number)
        return (each for each in kept if not self._hidden.hides(each.id, each.fingerprint))

    def _stored(self, fingerprints: FingerprintBatch, drawer_limit: int | None) -> _Stored:
        """What is stored near n texts. Of each near fingerprint so many documents are read that one of them
        is not of this batch, which may replace all of its own."""
        of: list[list[Match]] = [[] for _ in range(len(fingerprints))]
        truncated = [False] * len(fingerprints)
        numbers, limit = list(range(len(fingerprints))), _FIRST_LISTING
        while numbers:
            reader = Reader(self._store, self._scheme, drawer_limit, limit, self._clock, hidden=self._hidden)
            near = reader.near(fingerprints[numbers], self._bounds)
            for number, matches, cut in zip(numbers, near.matches, near.truncated, strict=True):
                of[number] = matches
                truncated[number] = cut
            numbers = [
                number
                for number, matches, cut in zip(numbers, near.matches, near.cut, strict=True)
                if cut and self._may_hide(matches, limit)
            ]
            limit *= _LISTING_GROWTH
        return _Stored(of, truncated)

    def _may_hide(self, matches: Sequence[Match], limit: int) -> bool:
        """Whether a fingerprint may list a document that is not of this batch behind those that were read,
        nearer than the others that are not."""
        outside = {match.fingerprint for match in matches if match.id not in self._batch}
        read = Counter(match.fingerprint for match in matches)
        return not outside or any(count >= limit for value, count in read.items() if value not in outside)


@dataclass(frozen=True)
class _Stored:
    """The documents stored near each document of a batch, and whether a drawer was cut."""

    of: list[list[Match]]
    truncated: list[bool]


class OthersOfBatch:
    """The documents of a batch that are near each other, and which of them have been kept.

    Different fingerprints only are joined, so that many copies of a page cost no more than one; at most one
    document of each is kept.
    """

    def __init__(self, fingerprints: FingerprintBatch, scheme: Scheme, bounds: Bounds) -> None:
        values = distinct(identities(fingerprints, scheme.sketching))
        firsts = fingerprints[values.first]
        pairs = concatenated(scheme.pairs(firsts, bounds))
        left = np.concatenate([pairs.left, pairs.right])
        order = np.argsort(left, kind="stable")
        self._value: list[int] = values.inverse.tolist()
        self._bounds = np.searchsorted(left[order], np.arange(len(values.first) + 1)).tolist()
        self._mate = np.concatenate([pairs.right, pairs.left])[order]
        self._distance = np.concatenate([pairs.distance, pairs.distance])[order]
        similarities = _similarities(firsts, scheme, pairs)
        self._similarity = None if similarities is None else np.tile(similarities, 2)[order]
        self._is_kept = np.zeros(len(values.first), dtype=np.bool_)
        self._keeper: dict[int, str] = {}
        self._fingerprint = list(map(Fingerprint, firsts.values.tolist()))
        self._shared_drawers = scheme.shared_drawers
        self._same = None if scheme.sketching is None else 1.0

    def value_of(self, number: int) -> int:
        """The number of a document's fingerprint among the different ones."""
        return self._value[number]

    def values_near(self, number: int) -> list[int]:
        """The numbers of the fingerprints near a document's, its own among them."""
        value = self._value[number]
        return [value, *self._mate[self._bounds[value] : self._bounds[value + 1]].tolist()]

    def keep(self, number: int, document: str) -> None:
        value = self._value[number]
        self._is_kept[value] = True
        self._keeper[value] = document

    def kept_near(self, number: int) -> Iterator[Match]:
        value = self._value[number]
        if value in self._keeper:
            same = self._fingerprint[value]
            yield Match(0, self._keeper[value], same, self._same, self._shared_drawers(same, same))
        near = slice(self._bounds[value], self._bounds[value + 1])
        if near.start == near.stop:
            return
        kept = near.start + np.flatnonzero(self._is_kept[self._mate[near]])
        for place in kept.tolist():
            similarity = None if self._similarity is None else float(self._similarity[place])
            mate = int(self._mate[place])
            distance = int(self._distance[place])
            found = self._fingerprint[mate]
            shared = self._shared_drawers(self._fingerprint[value], found)
            yield Match(distance, self._keeper[mate], found, similarity, shared)


def _similarities(fingerprints: FingerprintBatch, scheme: Scheme, pairs: Pairs) -> NDArray[np.float64] | None:
    sketching = scheme.sketching
    if sketching is None:
        return None
    return sketching.similarity(
        sketching.mismatches_among(fingerprints.sketches, pairs.left, fingerprints.sketches, pairs.right)
    )
