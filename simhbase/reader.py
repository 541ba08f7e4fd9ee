"""Fingerprints -> drawers -> candidates -> matches: one read of the drawers for a whole batch, and one of
the sketches where matches are judged by them (or a few, where drawers are hot)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isnan
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from simhbase import records
from simhbase.filing import Bounds, Distances, Filing
from simhbase.model import Lookup, Match
from simhbase.prints import Prints
from simhbase.rowkeys import PREFIX_BYTES
from simhbase.sketches import stored_sketches
from simhbase.stores.base import DrawerRows, Store

DRAWER_LIMIT = 10_000
IDS_LIMIT = 1_000
LOT_ROWS = 1 << 20  # rows compared at once
MOST_LOOKS = 10  # where documents are moved faster than they are read, ever again
Value = TypeVar("Value", bound=np.generic)


@dataclass(frozen=True)
class Near:
    """Stored fingerprints near n queries.

    query: int64 (m,) ascending; fingerprint: uint64 (m,); distance: (m,), by which matches are
    ordered; similarity: float64 (m,), not a number where the sketch is lost, None where none are kept;
    every pair of query and fingerprint once. truncated: bool (n,), true where a drawer was not read
    to its end. undecided: bool (m,) or None, true where a fingerprint would have to be compared by its
    sketch and has lost it: it is no match.
    """

    query: NDArray[np.int64]
    fingerprint: NDArray[np.uint64]
    distance: Distances
    truncated: NDArray[np.bool_]
    similarity: NDArray[np.float64] | None = None
    undecided: NDArray[np.bool_] | None = None

    def decided(self) -> Near:
        """Without those that are undecided."""
        if self.undecided is None or not self.undecided.any():
            return self
        chosen = ~self.undecided
        return Near(
            self.query[chosen],
            self.fingerprint[chosen],
            self.distance[chosen],
            self.truncated,
            None if self.similarity is None else self.similarity[chosen],
        )

    def known_similarities(self) -> list[float | None]:
        """The similarities, None where one is not known."""
        if self.similarity is None:
            return [None] * len(self.query)
        return [None if isnan(value) else value for value in self.similarity.tolist()]


@dataclass(frozen=True)
class Reader:
    """Looks fingerprints up in one store.

    drawer_limit: rows read of one drawer at most, None for all; ids_limit: documents listed of one
    fingerprint at most. A lookup that met either says `truncated`.
    """

    store: Store
    filing: Filing
    drawer_limit: int | None = DRAWER_LIMIT
    ids_limit: int = IDS_LIMIT

    def find(self, prints: Prints, k: int | None = None, min_similarity: float | None = None) -> list[Lookup]:
        """The documents near each of n texts; the bounds are the profile's where they are not given.
        Raises UsageError for bounds that the scheme cannot keep or does not know."""
        bounds = self.filing.bounds(k, min_similarity)
        lookups, unlisted = self._find(prints, bounds)
        # A document that was moved between the two reads is missed: its old fingerprint was seen and
        # lists it no longer, its new one was not there yet. Only then can a second look differ; it
        # keeps this process's writers out, and others rarely move the same document twice.
        for _ in range(MOST_LOOKS):
            again = sorted(unlisted)
            if not again:
                break
            with self.store.exclusive():
                second, still = self._find(prints[again], bounds)
            for number, lookup in zip(again, second, strict=True):
                lookups[number] = lookup
            seen = {again[number]: empty for number, empty in still.items()}
            # The same fingerprints without documents once more are what a crash has left.
            unlisted = {number: empty for number, empty in seen.items() if empty != unlisted[number]}
        return lookups

    def _find(self, prints: Prints, bounds: Bounds) -> tuple[list[Lookup], dict[int, frozenset[int]]]:
        """The answers of one look, and for each query the near fingerprints without documents."""
        near = self._near(prints, bounds)
        queries = prints.values.tolist()
        truncated = near.truncated.tolist()
        if not len(near.query):
            return [Lookup(query, (), cut) for query, cut in zip(queries, truncated, strict=True)], {}
        documents, more, unlisted = self._documents(near)
        lookups = [
            Lookup(query, tuple(sorted(documents.get(number, {}).values())), cut or number in more)
            for number, (query, cut) in enumerate(zip(queries, truncated, strict=True))
        ]
        return lookups, {number: frozenset(empty) for number, empty in unlisted.items()}

    def near(self, prints: Prints, bounds: Bounds) -> Near:
        """The fingerprints in the index near each of n texts; they may have no documents."""
        return self._near(prints, bounds).decided()

    def _near(self, prints: Prints, bounds: Bounds) -> Near:
        wanted = self.filing.prefixes(prints)
        if len(wanted) == 1:
            return self._judged(prints, self._near_one(prints.values, wanted[0], bounds.bits), bounds)
        distinct, drawer = _each_once(wanted)
        rows = self.store.drawers.read(distinct, self.drawer_limit)
        lots = self._within(prints.values, bounds.bits, rows, drawer)
        return _joined([self._judged(prints, lot, bounds) for lot in lots])

    def _near_one(self, fingerprint: NDArray[np.uint64], wanted: NDArray[np.uint8], most: int) -> Near:
        """The same by bits for one query, which somebody is waiting for: its drawers differ by their
        flags, and all that they hold is compared with it."""
        rows = self.store.drawers.read(wanted, self.drawer_limit)
        distances = self.filing.bits_apart(rows.fingerprints, fingerprint)
        near = np.flatnonzero(distances <= most)
        query = np.zeros(len(near), dtype=np.int64)
        truncated = np.logical_or.reduce(rows.truncated, keepdims=True)
        return _once(Near(query, rows.fingerprints[near], distances[near], truncated))

    def _within(
        self,
        fingerprints: NDArray[np.uint64],
        most: int,
        rows: DrawerRows,
        drawer: NDArray[np.int64],
    ) -> Iterator[Near]:
        """The rows within so many bits of each query.

        drawer: int64 (n, tables), the drawers of each query. Hot drawers are many queries' at once, so
        that all pairs of query and row would not fit in memory: queries go by lots of bounded size.
        """
        truncated = np.logical_or.reduce(rows.truncated[drawer], axis=1)
        counts = np.diff(rows.offsets)[drawer]
        ends = np.cumsum(np.add.reduce(counts, axis=1))
        cuts = np.searchsorted(
            ends, np.arange(LOT_ROWS, ends[-1] if len(ends) else 0, LOT_ROWS), side="right"
        )
        bounds = [0, *np.unique(cuts).tolist(), len(fingerprints)]
        for start, end in pairwise(bounds):
            lot = counts[start:end].ravel()
            query = np.repeat(np.arange(start, end), np.add.reduce(counts[start:end], axis=1))
            behind = np.cumsum(lot) - lot
            row = np.arange(len(query)) + np.repeat(rows.offsets[drawer[start:end].ravel()] - behind, lot)
            candidates = rows.fingerprints[row]
            distances = self.filing.bits_apart(candidates, fingerprints[query])
            near = np.flatnonzero(distances <= most)
            yield _once(Near(query[near], candidates[near], distances[near], truncated))

    def _judged(self, prints: Prints, near: Near, bounds: Bounds) -> Near:
        """Those near ones whose sketches, where any are kept, are near too, with what these tell."""
        form = self.filing.form
        if form is None:
            return near
        distinct, place = np.unique(near.fingerprint, return_inverse=True)
        sketches, there = stored_sketches(self.store, distinct.tolist(), form)
        compared = prints.sketches, near.query, sketches, place
        unequal = form.unequal_among(*compared)
        known = there[place]
        similarity = np.where(known, form.similarity(unequal), np.nan)
        distance = self.filing.distances(near.distance, unequal)
        if bounds.unequal is None:
            return replace(near, distance=distance, similarity=similarity)
        chosen = ~known | (unequal <= bounds.most_unequal(form, *compared))
        return Near(
            near.query[chosen],
            near.fingerprint[chosen],
            distance[chosen],
            near.truncated,
            similarity[chosen],
            undecided=~known[chosen],
        )

    def _documents(self, near: Near) -> tuple[dict[int, dict[str, Match]], set[int], dict[int, list[int]]]:
        """Per query its matches by id, nearest first; the queries whose ids were cut; per query the
        near fingerprints that have no documents, or may have moved with their sketches."""
        unlisted: dict[int, list[int]] = {}
        if near.undecided is not None:
            lost = near.undecided
            for number, fingerprint in zip(
                near.query[lost].tolist(), near.fingerprint[lost].tolist(), strict=True
            ):
                unlisted.setdefault(number, []).append(fingerprint)
            near = near.decided()
        fingerprints = near.fingerprint.tolist()
        distinct = list(dict.fromkeys(fingerprints))
        scanned = self.store.records("fingerprints").scan(
            list(map(records.listing_prefix, distinct)), self.ids_limit + 1
        )
        listings = dict(zip(distinct, scanned, strict=True))
        found: dict[int, dict[str, Match]] = {}
        more = set()
        for number, fingerprint, distance, similarity in zip(
            near.query.tolist(), fingerprints, near.distance.tolist(), near.known_similarities(), strict=True
        ):
            rows = listings[fingerprint]
            if not rows:
                unlisted.setdefault(number, []).append(fingerprint)
            if len(rows) > self.ids_limit:
                more.add(number)
            matches = found.setdefault(number, {})
            for key, _ in rows[: self.ids_limit]:
                match = Match(distance, records.listing_id(key), fingerprint, similarity)
                # In the middle of a move a document is listed twice: its nearer fingerprint counts.
                if match.id not in matches or match < matches[match.id]:
                    matches[match.id] = match
        return found, more, unlisted


def _each_once(wanted: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The different prefixes (m, 5) among (n, tables, 5), and where each is: int64 (n, tables)."""
    queries, tables, _ = wanted.shape
    flat = wanted.reshape(-1, PREFIX_BYTES)
    words = np.zeros((len(flat), 8), dtype=np.uint8)
    words[:, :PREFIX_BYTES] = flat
    _, first, which = np.unique(words.view(np.uint64)[:, 0], return_index=True, return_inverse=True)
    return flat[first], which.reshape(queries, tables)


def _joined(lots: list[Near]) -> Near:
    """What was found for all lots of queries, of which there is at least one."""
    if len(lots) == 1:
        return lots[0]
    return Near(
        np.concatenate([lot.query for lot in lots]),
        np.concatenate([lot.fingerprint for lot in lots]),
        np.concatenate([lot.distance for lot in lots]),
        lots[0].truncated,
        _concatenated([lot.similarity for lot in lots]),
        _concatenated([lot.undecided for lot in lots]),
    )


def _concatenated(parts: list[NDArray[Value] | None]) -> NDArray[Value] | None:
    there = [part for part in parts if part is not None]
    return np.concatenate(there) if there else None


def _once(near: Near) -> Near:
    """Every fingerprint once a query: the same one comes back from several drawers."""
    if len(near.query) < 2:
        return near
    order = np.lexsort((near.fingerprint, near.query))
    query, fingerprint = near.query[order], near.fingerprint[order]
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = (query[1:] != query[:-1]) | (fingerprint[1:] != fingerprint[:-1])
    return Near(query[first], fingerprint[first], near.distance[order][first], near.truncated)
