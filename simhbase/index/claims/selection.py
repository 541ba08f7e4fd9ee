"""Decides which documents of a batch are duplicates, of stored documents or of earlier ones in the batch.

The whole batch is decided before any of it is written. The result is that of documents given one by one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from math import inf
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.join import Distinct, Pairs, concatenated, distinct
from simhbase.drawers.scheme import Bounds, Distances, Scheme, identities
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.pipeline import TextFingerprint
from simhbase.fingerprint.sketches import pair_mismatches
from simhbase.index.mute import Hidden
from simhbase.index.reader import DRAWER_LIMIT, LISTING_GROWTH, Asked, Near, Reader
from simhbase.model.values import Fingerprint, Lookup, Match

_FIRST_LISTING = 2  # documents of a near fingerprint to read first: the document itself and another
PAIRS_OF_DOCUMENT = 16  # of a batch, from which on they are not all found
ALSO_AT = 100  # documents that are listed near a text that is annotated
COMPARED_AT_ONCE = 256  # sketches of a crowd
FOLLOWED = 2 * ALSO_AT  # documents of near fingerprints, of which sketches may reject some
NEAREST = 64  # documents that are followed of each text at first: in a cluster one of them matches
FOLLOWED_AT_ONCE = 1 << 18  # documents of several texts: some 200 MB at most
IN_FULL = 8  # texts of which all that is near is followed at once, as it may be hundreds of thousands
READ_TOGETHER = 64  # documents whose drawers are read in full at once; drawers may be long

InFull = Callable[[list[int]], Sequence[list[Match]]]


def duplicates_of(
    reader: Reader,
    ids: Sequence[str],
    fingerprints: FingerprintBatch,
    bounds: Bounds,
    *,
    in_parts: bool = False,
) -> list[Match | None]:
    """For each of n documents, the nearest document that it is a duplicate of, None if it should be stored
    (by the caller).

    reader: muted documents, which it hides, never make another one a duplicate; ids: valid and distinct;
    bounds: maximum distance of a duplicate. A document that is stored already is replaced: its old and new
    text are not duplicates of each other, and once replaced it counts with its new fingerprint. The result is
    that of n calls with one document each, also with other threads writing, if the caller holds
    `Store.exclusive`.

    Deciding again gives the same result, with one exception: documents dropped as duplicates of a stored one
    that was later replaced by a different text are then kept.

    Drawers beyond DRAWER_LIMIT are read in full for a document without a match so far. (The duplicate
    reported may then not be the nearest.)

    in_parts: decide only the first ones, at least one, before the next that takes long, as much is near it
    and the nearest does not match.
    """
    if len(ids) == 1:
        return [_nearest_other(reader, ids[0], fingerprints.single, Asked(bounds))]
    if not ids:
        return []
    batch = frozenset(ids)
    stored = nearest_stored(reader, fingerprints, bounds, batch, DRAWER_LIMIT, in_parts=in_parts)
    if (decided := len(stored.matches)) < len(ids):
        ids, fingerprints = ids[:decided], fingerprints[:decided]

    def in_full(numbers: list[int]) -> list[list[Match]]:
        return nearest_stored(reader, fingerprints[numbers], bounds, batch, None).matches

    return Selection(reader, ids, fingerprints, bounds, stored, in_full).run()


def nearest_stored(
    reader: Reader,
    fingerprints: FingerprintBatch,
    bounds: Bounds,
    batch: Container[str],
    drawer_limit: int | None,
    *,
    in_parts: bool = False,
) -> Near:
    """What `stored_near` finds, as far as n texts may be duplicates of it, whatever is decided about the
    batch: of each text the nearest match that is not in the batch, and those that are.

    Documents are followed from the nearest on, until one matches. All of a large cluster would take time and
    memory by its size for each of the n. in_parts: of the first texts only, as in `duplicates_of`."""
    n = len(fingerprints)
    found = Near([[] for _ in range(n)], [False] * n, [False] * n, [], [inf] * n)
    left, limit = list(range(n)), NEAREST
    while left:
        near = replace(reader, near_limit=limit if limit < FOLLOWED_AT_ONCE else None)
        size = max(1, FOLLOWED_AT_ONCE // limit)
        for numbers in (left[start : start + size] for start in range(0, len(left), size)):
            part = stored_near(near, fingerprints[numbers], bounds, batch, drawer_limit)
            for place, number in enumerate(numbers):
                found.matches[number] = _needed(part.matches[place], batch)
                found.truncated[number], found.cut[number] = part.truncated[place], part.cut[place]
                found.beyond[number] = part.beyond[place]
        left = [number for number in left if not _is_decided(found, number, batch)]
        if in_parts and left:
            some = slice(max(1, left[0]))
            found = found._replace(
                matches=found.matches[some],
                truncated=found.truncated[some],
                cut=found.cut[some],
                beyond=found.beyond[some],
            )
            if left[0]:
                return found
            left, in_parts, limit = left[:1], False, FOLLOWED_AT_ONCE  # at once, not ever more of it
        limit *= LISTING_GROWTH
    return found


def _needed(matches: Sequence[Match], batch: Container[str]) -> list[Match]:
    others = min((match for match in matches if match.id not in batch), default=None)
    found = [match for match in matches if match.id in batch]
    return found if others is None else [*found, others]


def _is_decided(near: Near, number: int, batch: Container[str]) -> bool:
    """True if nothing that was left out is as near as a match that is not in the batch."""
    nearest = (match.distance for match in near.matches[number] if match.id not in batch)
    return near.beyond[number] == inf or min(nearest, default=inf) < near.beyond[number]


def stored_near(
    reader: Reader,
    fingerprints: FingerprintBatch,
    bounds: Bounds,
    batch: Container[str],
    drawer_limit: int | None,
    ids_limit: int = _FIRST_LISTING,
) -> Near:
    """Stored matches of n texts. Lists enough documents per fingerprint to include one that is not in the
    batch, as the batch may replace all of its own. With a `near_limit`, longer listings would find nothing
    more."""
    reader = replace(reader, drawer_limit=drawer_limit, ids_limit=ids_limit, metrics=None)
    found = reader.near(fingerprints, Asked(bounds))
    most = inf if reader.near_limit is None else reader.near_limit  # of a longer listing no more is followed
    while reader.ids_limit < most and (
        numbers := [
            number
            for number, (matches, cut) in enumerate(zip(found.matches, found.cut, strict=True))
            if cut and _may_hide(matches, batch, reader.ids_limit)
        ]
    ):
        reader = replace(reader, ids_limit=reader.ids_limit * LISTING_GROWTH)
        more = reader.near(fingerprints[numbers], Asked(bounds))
        for place, number in enumerate(numbers):
            found.matches[number] = more.matches[place]
            found.truncated[number], found.cut[number] = more.truncated[place], more.cut[place]
            found.beyond[number] = more.beyond[place]
    return found


def annotations_of(
    reader: Reader, ids: Sequence[str], fingerprints: FingerprintBatch, bounds: Bounds
) -> list[Lookup]:
    """For each of n documents, which have just been stored, those near it: documents stored before and
    earlier ones of the batch, the nearest up to ALSO_AT. A lookup is `truncated` if there are or may be more.

    Arguments as for `duplicates_of`. A cluster of near texts within the batch costs its size.
    """
    if not ids:
        return []
    stored = _stored_before(reader, fingerprints, bounds, frozenset(ids))
    others = others_of(fingerprints, reader.scheme, bounds)
    lookups: list[Lookup] = []
    for number, (document, value) in enumerate(zip(ids, fingerprints.values.tolist(), strict=True)):
        earlier = islice(reader.hidden.visible(others.kept_near(number)), ALSO_AT + 1)
        near = sorted([*stored.matches[number], *earlier])
        is_cut = stored.truncated[number] or stored.cut[number] or stored.beyond[number] < inf
        is_cut |= len(near) > ALSO_AT
        lookups.append(Lookup(Fingerprint(value), tuple(near[:ALSO_AT]), is_cut))
        others.keep(number, document)
    return lookups


def _stored_before(
    reader: Reader, fingerprints: FingerprintBatch, bounds: Bounds, batch: frozenset[str]
) -> Near:
    """Stored matches that are not of this batch: for each document some of the nearest, as its cluster may be
    large."""
    listing = replace(reader, besides=batch, ids_limit=0)
    listed = listing.listed(fingerprints.values.tolist())
    # Fingerprints that only this batch has need not be compared.
    own = {value for value, found in listed.items() if batch.issuperset(each for each, _ in found)}
    hidden = Hidden(reader.hidden.ids, reader.hidden.fingerprints | own)
    near = replace(listing, hidden=hidden, near_limit=FOLLOWED)
    found = stored_near(near, fingerprints, bounds, batch, DRAWER_LIMIT, ALSO_AT)
    again = [
        number for number, beyond in enumerate(found.beyond) if beyond < inf and not found.matches[number]
    ]
    further = replace(near, near_limit=None)  # what was followed may have been too far by its sketch
    for some in (again[start : start + IN_FULL] for start in range(0, len(again), IN_FULL)):
        more = stored_near(further, fingerprints[some], bounds, batch, DRAWER_LIMIT, ALSO_AT)
        for place, number in enumerate(some):
            found.matches[number] = more.matches[place]
    return found


def _nearest_other(reader: Reader, document: str, text: TextFingerprint, asked: Asked) -> Match | None:
    """The nearest stored document, without the one that is to be replaced. Lists more documents if that one
    may hide others, and reads drawers in full if nothing is found before their limit."""
    found, others = None, list[Match]()
    for drawer_limit in (DRAWER_LIMIT, None):
        listed = _FIRST_LISTING
        while True:
            part = replace(reader, drawer_limit=drawer_limit, ids_limit=listed, metrics=None)
            found = part.near_one(text, asked)
            others = [match for match in found.matches if match.id != document]
            if not found.cut or not _may_hide(found.matches, frozenset([document]), listed):
                break
            listed *= LISTING_GROWTH
        if others or not found.truncated:
            break
    return min(others, default=None)


class Selection:
    """Decisions about one batch, as `duplicates_of` makes them.

    stored: result of `stored_near` for the batch; in_full: the matches of documents with truncated drawers,
    given by number, without a limit of drawers.
    """

    def __init__(
        self,
        reader: Reader,
        ids: Sequence[str],
        fingerprints: FingerprintBatch,
        bounds: Bounds,
        stored: Near,
        in_full: InFull,
    ) -> None:
        self._reader, self._bounds = reader, bounds
        self._ids, self._prints = ids, fingerprints
        self._stored, self._in_full = stored, in_full
        self._kept: set[str] = set()

    def run(self) -> list[Match | None]:
        """The match of each document, None to keep it."""
        stored = self._stored
        others = others_of(self._prints, self._reader.scheme, self._bounds)
        to_the_end: dict[int, list[Match]] = {}
        duplicates: list[Match | None] = []
        for number, document in enumerate(self._ids):
            found = [*self._standing(document, stored.matches[number]), *self._kept_near(number, others)]
            if not found and stored.truncated[number]:
                if number not in to_the_end:
                    cut = (each for each in self._open(number, stored, others) if each not in to_the_end)
                    numbers = list(islice(cut, READ_TOGETHER))
                    to_the_end |= dict(zip(numbers, self._in_full(numbers), strict=True))
                found = list(self._standing(document, to_the_end[number]))
            if not found:
                self._kept.add(document)
                others.keep(number, document)
            duplicates.append(min(found, default=None))
        return duplicates

    def _open(self, first: int, stored: Near, others: OthersOfBatch) -> Iterator[int]:
        """Documents from `first` on that have no match so far, but a truncated drawer: these are read in full
        together. One that is near another of them waits for its outcome."""
        waiting: set[int] = set()
        for number in range(first, len(self._ids)):
            if (
                stored.truncated[number]
                and others.value_of(number) not in waiting
                and not any(self._standing(self._ids[number], stored.matches[number]))
                and not any(self._kept_near(number, others))
            ):
                yield number
                waiting.update(others.values_near(number))

    def _standing(self, document: str, stored: Iterable[Match]) -> Iterator[Match]:
        """Stored matches of a document, without itself and documents replaced by this batch."""
        return (each for each in stored if each.id != document and each.id not in self._kept)

    def _kept_near(self, number: int, others: OthersOfBatch) -> Iterator[Match]:
        """Matches of a document within the batch that are kept and not muted."""
        return self._reader.hidden.visible(others.kept_near(number))


def _may_hide(matches: Sequence[Match], batch: Container[str], limit: int) -> bool:
    """True if a fingerprint may list further documents outside a batch that are nearer than those read."""
    outside = {match.fingerprint for match in matches if match.id not in batch}
    read = Counter(match.fingerprint for match in matches)
    return not outside or any(count >= limit for value, count in read.items() if value not in outside)


def others_of(fingerprints: FingerprintBatch, scheme: Scheme, bounds: Bounds) -> OthersOfBatch:
    """What is near what in a batch.

    Large clusters have the square of their size in pairs, and few of them are kept: there each document is
    compared with those kept."""
    found, pairs, most = list[Pairs](), 0, PAIRS_OF_DOCUMENT * len(fingerprints)
    values = distinct(identities(fingerprints, scheme.sketching))
    firsts = fingerprints[values.first]
    for some in scheme.pairs(firsts, bounds):
        found.append(some)
        pairs += len(some.left)
        if pairs > most:
            return OthersOfCrowd(values, firsts, scheme, bounds)
    return PairsOfBatch(values, firsts, scheme, concatenated(found))


class OthersOfBatch(Protocol):
    """Documents of a batch that are near each other, and those of them kept so far.

    Only distinct fingerprints are compared, so many copies of a page cost as much as one.
    """

    def value_of(self, number: int) -> int:
        """Position of a document's fingerprint among the distinct ones."""

    def values_near(self, number: int) -> list[int]:
        """Positions of the fingerprints near a document's, including its own."""

    def keep(self, number: int, document: str) -> None:
        """Note that a document is kept."""

    def kept_near(self, number: int) -> Iterator[Match]:
        """Kept documents near one, the nearest first."""


class PairsOfBatch(OthersOfBatch):
    """Knows all near pairs."""

    def __init__(self, values: Distinct, firsts: FingerprintBatch, scheme: Scheme, pairs: Pairs) -> None:
        left = np.concatenate([pairs.left, pairs.right])
        order = np.argsort(left, kind="stable")
        self._value: list[int] = values.inverse.tolist()
        self._bounds = np.searchsorted(left[order], np.arange(len(values.first) + 1)).tolist()
        self._mate = np.concatenate([pairs.right, pairs.left])[order]
        self._distance = np.concatenate([pairs.distance, pairs.distance])[order]
        self._similarity: NDArray[np.float64] | None = None
        if sketching := scheme.sketching:
            mismatches = pair_mismatches(sketching, firsts.sketches, pairs.left, firsts.sketches, pairs.right)
            self._similarity = np.tile(sketching.similarity(mismatches), 2)[order]
        self._is_kept = np.zeros(len(values.first), dtype=np.bool_)
        self._keepers = defaultdict[int, list[str]](list)
        self._fingerprint = list(map(Fingerprint, firsts.values.tolist()))
        self._shared_drawers = scheme.shared_drawers
        self._same = None if scheme.sketching is None else 1.0

    def value_of(self, number: int) -> int:
        return self._value[number]

    def values_near(self, number: int) -> list[int]:
        value = self._value[number]
        return [value, *self._mate[self._bounds[value] : self._bounds[value + 1]].tolist()]

    def keep(self, number: int, document: str) -> None:
        value = self._value[number]
        self._is_kept[value] = True
        self._keepers[value].append(document)

    def kept_near(self, number: int) -> Iterator[Match]:
        value = self._value[number]
        same = self._fingerprint[value]
        for document in self._keepers[value]:
            yield Match(0, document, same, self._same, self._shared_drawers(same, same))
        near = slice(self._bounds[value], self._bounds[value + 1])
        if near.start == near.stop:
            return
        kept = near.start + np.flatnonzero(self._is_kept[self._mate[near]])
        kept = kept[np.argsort(self._distance[kept], kind="stable")]
        for place in kept.tolist():
            similarity = None if self._similarity is None else float(self._similarity[place])
            mate = int(self._mate[place])
            distance = int(self._distance[place])
            found = self._fingerprint[mate]
            shared = self._shared_drawers(self._fingerprint[value], found)
            for document in self._keepers[mate]:
                yield Match(distance, document, found, similarity, shared)


class OthersOfCrowd(OthersOfBatch):
    """Compares fingerprints when it is asked."""

    def __init__(self, values: Distinct, firsts: FingerprintBatch, scheme: Scheme, bounds: Bounds) -> None:
        self._value: list[int] = values.inverse.tolist()
        self._firsts, self._scheme, self._limits = firsts, scheme, bounds
        # Where fingerprints say nothing of it, drawers must be shared.
        self._drawers = scheme.segments(firsts) if scheme.layout is None else None
        self._all = np.arange(len(values.first))
        self._kept, self._number = np.empty(len(values.first), dtype=np.int64), 0
        self._keepers = defaultdict[int, list[str]](list)

    def value_of(self, number: int) -> int:
        return self._value[number]

    def values_near(self, number: int) -> list[int]:
        value = self._value[number]
        return [value, *(other for other, *_ in self._near(value, self._all) if other != value)]

    def keep(self, number: int, document: str) -> None:
        value = self._value[number]
        if value not in self._keepers:
            self._kept[self._number] = value
            self._number += 1
        self._keepers[value].append(document)

    def kept_near(self, number: int) -> Iterator[Match]:
        value = self._value[number]
        for other, distance, similarity, shared in self._near(value, self._kept[: self._number]):
            found = Fingerprint(self._firsts.values[other].item())
            for document in self._keepers[other]:
                yield Match(distance, document, found, similarity, shared)

    def _near(
        self, value: int, others: NDArray[np.int64]
    ) -> Iterator[tuple[int, int, float | None, tuple[int, ...] | None]]:
        """Those near a fingerprint, as positions, with distance, similarity and shared drawers: by bits, the
        nearest first."""
        own, scheme = self._firsts.values[value], self._scheme
        bits = scheme.bits_apart(self._firsts.values[others], own)
        near = bits <= self._limits.bits
        if self._drawers is not None:
            near &= (self._drawers[others] == self._drawers[value]).any(axis=1)
        others, bits = others[near], bits[near]
        order = np.argsort(bits, kind="stable")
        for start in range(0, len(order), COMPARED_AT_ONCE):  # few may be wanted
            some = order[start : start + COMPARED_AT_ONCE]
            yield from self._similar(value, others[some], bits[some])

    def _similar(
        self, value: int, others: NDArray[np.int64], distances: Distances
    ) -> Iterator[tuple[int, int, float | None, tuple[int, ...] | None]]:
        scheme = self._scheme
        similarities: list[float] | list[None] = [None] * len(others)
        if (sketching := scheme.sketching) is not None:
            sketches, again = self._firsts.sketches, np.full(len(others), value)
            mismatches, few = self._limits.verified(sketching, sketches, again, sketches, others)
            others, mismatches = others[few], mismatches[few]
            distances = scheme.distances(distances[few], mismatches)
            similarities = sketching.similarity(mismatches).tolist()
        shared_drawers, bits = scheme.shared_drawers, self._firsts.values[value].item()
        for other, distance, similarity in zip(
            others.tolist(), distances.tolist(), similarities, strict=True
        ):
            shared = shared_drawers(bits, self._firsts.values[other].item())
            if shared != ():
                yield other, distance, similarity, shared
