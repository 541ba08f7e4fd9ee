"""Fingerprints -> drawers -> candidates -> matches; one read of the drawers for a whole batch."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from simhbase import records
from simhbase.hamming import distance
from simhbase.layout import Layout, require_within_guarantee
from simhbase.model import Lookup, Match
from simhbase.rowkeys import PREFIX_BYTES, prefixes
from simhbase.stores.base import DrawerRows, Store

DRAWER_LIMIT = 10_000
IDS_LIMIT = 1_000
LOT_ROWS = 1 << 20  # rows compared at once
MOST_LOOKS = 10  # where documents are moved faster than they are read, ever again


@dataclass(frozen=True)
class Near:
    """Stored fingerprints near n queries.

    query: int64 (m,) ascending; fingerprint: uint64 (m,); distance: uint8 (m,); every pair of query
    and fingerprint once. truncated: bool (n,), true where a drawer was not read to its end.
    """

    query: NDArray[np.int64]
    fingerprint: NDArray[np.uint64]
    distance: NDArray[np.uint8]
    truncated: NDArray[np.bool_]


@dataclass(frozen=True)
class Reader:
    """Looks fingerprints up in one store.

    drawer_limit: rows read of one drawer at most, None for all; ids_limit: documents listed of one
    fingerprint at most. A lookup that met either says `truncated`.
    """

    store: Store
    layout: Layout
    drawer_limit: int | None = DRAWER_LIMIT
    ids_limit: int = IDS_LIMIT

    def find(self, fingerprints: NDArray[np.uint64], k: int) -> list[Lookup]:
        """The documents within k bits of each of n fingerprints. Raises UsageError for a k above
        the layout's guarantee."""
        lookups, unlisted = self._find(fingerprints, k)
        # A document that was moved between the two reads is missed: its old fingerprint was seen and
        # lists it no longer, its new one was not there yet. Only then can a second look differ; it
        # keeps this process's writers out, and others rarely move the same document twice.
        for _ in range(MOST_LOOKS):
            again = sorted(unlisted)
            if not again:
                break
            with self.store.exclusive():
                second, still = self._find(fingerprints[again], k)
            for number, lookup in zip(again, second, strict=True):
                lookups[number] = lookup
            seen = {again[number]: empty for number, empty in still.items()}
            # The same fingerprints without documents once more are what a crash has left.
            unlisted = {number: empty for number, empty in seen.items() if empty != unlisted[number]}
        return lookups

    def _find(
        self, fingerprints: NDArray[np.uint64], k: int
    ) -> tuple[list[Lookup], dict[int, frozenset[int]]]:
        """The answers of one look, and for each query the near fingerprints without documents."""
        near = self.near(fingerprints, k)
        queries = fingerprints.tolist()
        truncated = near.truncated.tolist()
        if not len(near.query):
            return [Lookup(query, (), cut) for query, cut in zip(queries, truncated, strict=True)], {}
        documents, more, unlisted = self._documents(near)
        lookups = [
            Lookup(query, tuple(sorted(documents.get(number, {}).values())), cut or number in more)
            for number, (query, cut) in enumerate(zip(queries, truncated, strict=True))
        ]
        return lookups, {number: frozenset(empty) for number, empty in unlisted.items()}

    def near(self, fingerprints: NDArray[np.uint64], k: int) -> Near:
        """The fingerprints in the index within k bits of each of n; they may have no documents."""
        require_within_guarantee(k, self.layout)
        wanted = prefixes(fingerprints, self.layout)
        if len(wanted) == 1:
            return self._near_one(fingerprints, wanted[0], k)
        distinct, drawer = _each_once(wanted)
        rows = self.store.drawers.read(distinct, self.drawer_limit)
        truncated = np.logical_or.reduce(rows.truncated[drawer], axis=1)
        return _once(_within(fingerprints, k, rows, drawer, truncated))

    def _near_one(self, fingerprint: NDArray[np.uint64], wanted: NDArray[np.uint8], k: int) -> Near:
        """The same for one query, which somebody is waiting for: its drawers differ by their flags,
        and all that they hold is compared with it."""
        rows = self.store.drawers.read(wanted, self.drawer_limit)
        distances = distance(rows.fingerprints, fingerprint)
        near = np.flatnonzero(distances <= k)
        query = np.zeros(len(near), dtype=np.int64)
        truncated = np.logical_or.reduce(rows.truncated, keepdims=True)
        return _once(Near(query, rows.fingerprints[near], distances[near], truncated))

    def _documents(self, near: Near) -> tuple[dict[int, dict[str, Match]], set[int], dict[int, list[int]]]:
        """Per query its matches by id, nearest first; the queries whose ids were cut; per query the
        near fingerprints that have no documents."""
        fingerprints = near.fingerprint.tolist()
        distinct = list(dict.fromkeys(fingerprints))
        scanned = self.store.records("fingerprints").scan(
            list(map(records.listing_prefix, distinct)), self.ids_limit + 1
        )
        listings = dict(zip(distinct, scanned, strict=True))
        found: dict[int, dict[str, Match]] = {}
        more = set()
        unlisted: dict[int, list[int]] = {}
        for number, fingerprint, bits in zip(
            near.query.tolist(), fingerprints, near.distance.tolist(), strict=True
        ):
            rows = listings[fingerprint]
            if not rows:
                unlisted.setdefault(number, []).append(fingerprint)
            if len(rows) > self.ids_limit:
                more.add(number)
            matches = found.setdefault(number, {})
            for key, _ in rows[: self.ids_limit]:
                match = Match(bits, records.listing_id(key), fingerprint)
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


def _within(
    fingerprints: NDArray[np.uint64],
    k: int,
    rows: DrawerRows,
    drawer: NDArray[np.int64],
    truncated: NDArray[np.bool_],
) -> Near:
    """The rows within k bits of each query, as often as its drawers hold them.

    drawer: int64 (n, tables), the drawers of each query. Hot drawers are many queries' at once, so
    that all pairs of query and row would not fit in memory: queries go by lots of bounded size.
    """
    counts = np.diff(rows.offsets)[drawer]
    ends = np.cumsum(np.add.reduce(counts, axis=1))
    cuts = np.searchsorted(ends, np.arange(LOT_ROWS, ends[-1] if len(ends) else 0, LOT_ROWS), side="right")
    bounds = [0, *np.unique(cuts).tolist(), len(fingerprints)]
    lots = []
    for start, end in pairwise(bounds):
        lot = counts[start:end].ravel()
        query = np.repeat(np.arange(start, end), np.add.reduce(counts[start:end], axis=1))
        behind = np.cumsum(lot) - lot
        row = np.arange(len(query)) + np.repeat(rows.offsets[drawer[start:end].ravel()] - behind, lot)
        candidates = rows.fingerprints[row]
        distances = distance(candidates, fingerprints[query])
        near = np.flatnonzero(distances <= k)
        lots.append((query[near], candidates[near], distances[near]))
    query, fingerprint, distances = (
        lots[0] if len(lots) == 1 else tuple(map(np.concatenate, zip(*lots, strict=True)))
    )
    return Near(query, fingerprint, distances, truncated)


def _once(near: Near) -> Near:
    """Every fingerprint once a query: the same one comes back from several drawers."""
    if len(near.query) < 2:
        return near
    order = np.lexsort((near.fingerprint, near.query))
    query, fingerprint = near.query[order], near.fingerprint[order]
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = (query[1:] != query[:-1]) | (fingerprint[1:] != fingerprint[:-1])
    return Near(query[first], fingerprint[first], near.distance[order][first], near.truncated)
