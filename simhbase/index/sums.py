"""Checksums that compare two tables without looking up their rows in each other.

The hash of each row that one table implies is added to a bucket chosen by its first bits, and the hash of
each row found in the other table is subtracted. A bucket that ends at 0 has no differences (except with
probability 2^-64); rows in other buckets are suspect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import mmh3
import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.rowkeys import KEY_BYTES, decode
from simhbase.drawers.scheme import Scheme
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import rows
from simhbase.index.rows import MAX_ID_BYTES, State
from simhbase.stores.base import Row
from simhbase.stores.checked import CHECKSUM_BYTES, is_intact

BUCKETS = 20  # bits of a hash; a sum takes 8 MB
_SHIFT = np.uint64(64 - BUCKETS)
_FINGERPRINT, _HASH = 8, 4  # bytes
_PLAIN = _FINGERPRINT + 1 + CHECKSUM_BYTES  # size of a document's value without tags and sketch


@dataclass
class Sum:
    _buckets: NDArray[np.uint64] = field(
        default_factory=partial(np.zeros, 1 << BUCKETS, np.uint64)  # type: ignore[arg-type]  # taken for floats
    )

    def change(self, how: np.ufunc, hashes: NDArray[np.uint64]) -> None:
        """Add hashes (np.add), or take them off (np.subtract)."""
        how.at(self._buckets, _bucket(hashes), hashes)

    def in_doubt(self, hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which hashes fall into a bucket that is not 0: bool (n,)."""
        doubted: NDArray[np.bool_] = self._buckets[_bucket(hashes)] != 0
        return doubted

    def __bool__(self) -> bool:
        return bool(self._buckets.any())


def _bucket(hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    return (hashes >> _SHIFT).astype(np.int64)


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    words = (words ^ (words >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    words = (words ^ (words >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return words ^ (words >> np.uint64(33))


def row_hashes(keys: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Hashes of index rows: uint8 (..., 13) -> uint64 (n,)."""
    segments, flags, values = decode(keys.reshape(-1, KEY_BYTES))
    drawers = segments.astype(np.uint64) << np.uint64(8) | flags
    return _mixed(values ^ _mixed(drawers))


@dataclass(frozen=True)
class Stated:
    """Documents and their fingerprints, as n rows state them.

    counts: rows that state a document's fingerprint; odd: rows to look up in any case, because they are
    unreadable, incomplete or claims. fingerprints, hashes: uint64 (n,), undefined where a row does not count.
    """

    counts: NDArray[np.bool_]
    odd: NDArray[np.bool_]
    fingerprints: NDArray[np.uint64]
    hashes: NDArray[np.uint64]


def _sizes(values: Sequence[bytes]) -> NDArray[np.int64]:
    return np.fromiter(map(len, values), np.int64, len(values))


def _are_intact(batch: Sequence[Row]) -> NDArray[np.bool_]:
    """Which rows have the checksum of their key and value."""
    return np.fromiter((is_intact(key, cell.value) for key, cell in batch), np.bool_, len(batch))


def _words(fields: NDArray[np.uint8]) -> NDArray[np.uint64]:
    first = np.ascontiguousarray(fields[:, :_FINGERPRINT])
    return first.view(">u8").ravel().astype(np.uint64)


def _are_ids(ids: Sequence[bytes]) -> NDArray[np.bool_]:
    """Which byte strings are valid ids. All false if any is not UTF-8; the caller then looks at each."""
    sizes = _sizes(ids)
    try:
        b"\n".join(ids).decode()
    except UnicodeDecodeError:
        return np.zeros(len(ids), dtype=np.bool_)
    return (sizes > 0) & (sizes <= MAX_ID_BYTES)


def _listing_hashes(fingerprints: NDArray[np.uint64], ids: Sequence[bytes]) -> NDArray[np.uint64]:
    of_ids = np.fromiter((mmh3.hash64(each)[0] for each in ids), np.int64, len(ids)).view(np.uint64)
    return _mixed(fingerprints ^ _mixed(of_ids))


@dataclass
class Sums:
    """Checksums of an index, fed with all rows of its tables.

    listings: documents against listings; rows: the drawers of listings against index rows; odd_documents,
    odd_listings: whether any row was odd.
    """

    scheme: Scheme
    listings: Sum = field(default_factory=Sum)
    rows: Sum = field(default_factory=Sum)
    odd_documents: bool = False
    odd_listings: bool = False
    _last: int | None = None  # the fingerprint that the last batch of listings ended with

    def stored(self, batch: Sequence[Row]) -> Stated:
        """Read rows of the documents table."""
        sketching = self.scheme.sketching if self.scheme.listed_sketching is None else None
        sketch_bytes = sketching.bytes if sketching else 0
        keys, values = [key for key, _ in batch], [cell.value for _, cell in batch]
        size = _PLAIN + sketch_bytes
        plain = _sizes(values) == size
        content = b"".join(values) if plain.all() else b"".join(each for each in values if len(each) == size)
        fields = np.frombuffer(content, dtype=np.uint8).reshape(-1, size)
        fingerprints = np.zeros(len(batch), dtype=np.uint64)
        fingerprints[plain] = _words(fields)
        states = np.zeros(len(batch), dtype=np.uint8)
        states[plain] = fields[:, _FINGERPRINT]
        plain &= ((states == State.STORED) | (states == State.DELETED)) & _are_intact(batch)
        ids = [key[_HASH:] for key in keys]
        hashes = np.fromiter((mmh3.hash(each, 0, False) for each in ids), np.uint32, len(ids))
        plain &= _are_ids(ids) & (np.array(keys, f"S{_HASH}").view(">u4") == hashes)
        counts, odd = plain & (states == State.STORED), np.zeros(len(batch), dtype=np.bool_)
        for number in np.flatnonzero(~plain).tolist():
            parsed = rows.parse_document(keys[number], values[number])
            if parsed is None:
                odd[number] = True
                continue
            entry = parsed[1]
            fingerprints[number] = entry.fingerprint
            counts[number] = entry.stored
            odd[number] = len(entry.sketch) != sketch_bytes and (entry.stored or bool(entry.sketch))
        return Stated(counts, odd, fingerprints, _listing_hashes(fingerprints, ids))

    def listed(self, batch: Sequence[Row]) -> Stated:
        """Read rows of the fingerprints table."""
        keys = [key for key, _ in batch]
        ids = [key[_FINGERPRINT:] for key in keys]
        counts = _are_ids(ids)
        for number in np.flatnonzero(~counts).tolist():
            counts[number] = rows.parse_listing(keys[number]) is not None
        odd = ~counts
        if sketching := self.scheme.listed_sketching:
            odd |= _sizes([cell.value for _, cell in batch]) != sketching.bytes + CHECKSUM_BYTES
            odd |= ~_are_intact(batch)
        fingerprints = np.array(keys, f"S{_FINGERPRINT}").view(">u8").astype(np.uint64)
        return Stated(counts, odd, fingerprints, _listing_hashes(fingerprints, ids))

    def put_documents(self, batch: Sequence[Row]) -> int:
        """Add rows of the documents table; returns how many are of documents that are stored."""
        said = self.stored(batch)
        self.odd_documents |= bool(said.odd.any())
        self.listings.change(np.add, said.hashes[said.counts])
        return int(said.counts.sum())

    def put_listings(self, batch: Sequence[Row]) -> int:
        """Add rows of the fingerprints table, in key order; returns how many are readable."""
        said = self.listed(batch)
        self.odd_listings |= bool(said.odd.any())
        self.listings.change(np.subtract, said.hashes[said.counts])
        distinct = self._drawn(batch, said, self._last)
        if distinct.values.size:
            self.rows.change(np.add, row_hashes(self.scheme.keys(distinct)))
            self._last = int(distinct.values[-1])
        return int(said.counts.sum())

    def drawers_in_doubt(self, batch: Sequence[Row], said: Stated) -> NDArray[np.uint64]:
        """Fingerprints among these listings with a suspect drawer or a lost sketch."""
        distinct = self._drawn(batch, said, None)
        keys = self.scheme.keys(distinct)
        doubted = self.rows.in_doubt(row_hashes(keys)).reshape(keys.shape[:2]).any(axis=1)
        return np.union1d(distinct.values[doubted], said.fingerprints[said.odd])

    def _drawn(self, batch: Sequence[Row], said: Stated, last: int | None) -> FingerprintBatch:
        """The distinct fingerprints of usable rows, except `last`."""
        usable = np.flatnonzero(said.counts & ~said.odd)
        values, first = np.unique(said.fingerprints[usable], return_index=True)
        if last is not None and len(values) and values[0] == last:
            values, first = values[1:], first[1:]
        sketching = self.scheme.listed_sketching
        if sketching is None:
            return FingerprintBatch.bare(values)
        content = b"".join(batch[number][1].value[:-CHECKSUM_BYTES] for number in usable[first].tolist())
        sketches = np.frombuffer(content, dtype=np.uint8).reshape(len(values), sketching.bytes)
        return FingerprintBatch(values, sketches)
