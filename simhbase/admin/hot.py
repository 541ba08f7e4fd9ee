"""Hot fingerprints (most documents) and hot drawers (most rows).

Rows with equal prefixes follow each other, so one pass over each table finds the longest runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from simhbase.admin.stats import sizes
from simhbase.drawers.rowkeys import PREFIX_BYTES, numbers_of
from simhbase.index.part import Part
from simhbase.index.rows import listing_id, listing_prefix, scope_of
from simhbase.index.scoped import StoreOfScopes
from simhbase.process.progress import Progress, counting
from simhbase.stores.base import Store

_WORD_BYTES = 8
_NONE = np.empty(0, dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class HotFingerprint:
    """A fingerprint and its number of listed documents. scope: that it is of, in a store with scopes; the
    fingerprint is then as it is shown there."""

    fingerprint: int
    documents: int
    scope: str | None = None


@dataclass(frozen=True, slots=True)
class HotDrawer:
    """A drawer. prefix: the first 5 bytes of its row keys; flag: number of its combination of blocks
    (minhash: of its band), from 1; rows: number of fingerprints."""

    prefix: bytes
    flag: int
    rows: int


@dataclass(frozen=True)
class Hot:
    """The fingerprints with the most documents and the drawers with the most rows, largest first.

    Rows that `vacuum` has not removed yet are counted, too: those of updated and deleted documents in HBase,
    and of expired ones in an embedded store.
    """

    fingerprints: tuple[HotFingerprint, ...]
    drawers: tuple[HotDrawer, ...]


def hottest(store: Store, most: int, part: Part, progress: Progress) -> Hot:
    """The `most` largest fingerprints and drawers of a part of an index."""

    def rows() -> int:
        of_tables = sizes(store)
        return (of_tables["fingerprints"].rows + of_tables["index"].rows) // part.of

    fingerprints, drawers = Hottest(most), Hottest(most)
    with counting(progress, "rows", rows) as note:
        for batch in store.records("fingerprints").iterate(*part.keys()):
            fingerprints.add(_words(key[:_WORD_BYTES] for key, _ in batch))
            note(len(batch))
        for found in store.drawers.iterate(*part.keys(PREFIX_BYTES)):
            drawers.add(numbers_of(found.keys[:, :PREFIX_BYTES]))
            note(len(found.keys))
    prefixes = [(word.to_bytes(_WORD_BYTES)[:PREFIX_BYTES], rows) for word, rows in drawers.result()]
    return Hot(
        tuple(HotFingerprint(*each) for each in fingerprints.result()),
        tuple(HotDrawer(prefix, prefix[-1], rows) for prefix, rows in prefixes),
    )


def with_scopes(found: Hot, index: StoreOfScopes) -> Hot:
    """Name the scope of each fingerprint in a store with scopes, and show it as it is shown there. (By their
    masks, one of two scopes is as rare as equal fingerprints of two random texts.)"""
    prefixes = [listing_prefix(each.fingerprint) for each in found.fingerprints]
    listed = index.store.records("fingerprints").scan(prefixes, limit=1) if prefixes else []
    shown = list[HotFingerprint]()
    for each, first in zip(found.fingerprints, listed, strict=True):
        if first:  # else removed since
            scope = scope_of(listing_id(first[0][0]))
            value = index.within(scope).shown_fingerprint(each.fingerprint)
            shown.append(replace(each, fingerprint=value, scope=scope))
    return replace(found, fingerprints=tuple(shown))


class Hottest:
    """The most frequent numbers of a sequence in which equal ones follow each other, given in batches."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._numbers, self._counts = _NONE, _NONE.astype(np.int64)
        # The last run may continue in the next batch.
        self._last, self._last_count = _NONE, _NONE.astype(np.int64)

    def add(self, numbers: NDArray[np.uint64]) -> None:
        """Add the next numbers: uint64 (n,)."""
        starts = np.flatnonzero(np.r_[True, numbers[1:] != numbers[:-1]])[: len(numbers)]
        runs, counts = numbers[starts], np.diff(starts, append=len(numbers))
        if len(runs) == 0:
            return
        if len(self._last) and runs[0] == self._last[0]:
            counts[0] += self._last_count[0]
        else:
            runs, counts = np.r_[self._last, runs], np.r_[self._last_count, counts]
        self._keep(runs[:-1], counts[:-1])
        self._last, self._last_count = runs[-1:], counts[-1:]

    def result(self) -> list[tuple[int, int]]:
        """Numbers with their counts, most frequent first, then by number."""
        self._keep(self._last, self._last_count)
        self._last, self._last_count = _NONE, _NONE.astype(np.int64)
        return list(zip(self._numbers.tolist(), self._counts.tolist(), strict=True))

    def _keep(self, runs: NDArray[np.uint64], counts: NDArray[np.int64]) -> None:
        if len(self._counts) == self._most:
            # At equal counts, the smaller number comes first.
            more = counts >= self._counts[-1]
            runs, counts = runs[more], counts[more]
        numbers, counts = np.r_[self._numbers, runs], np.r_[self._counts, counts]
        order = np.lexsort((numbers, -counts))[: self._most]
        self._numbers, self._counts = numbers[order], counts[order]


def _words(starts: Iterable[bytes]) -> NDArray[np.uint64]:
    """First 8 bytes of keys as numbers; shorter keys are skipped."""
    content = b"".join(start for start in starts if len(start) == _WORD_BYTES)
    return np.frombuffer(content, dtype=">u8").astype(np.uint64)
