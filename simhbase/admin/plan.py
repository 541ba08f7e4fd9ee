"""What a number of documents would need in each kind of store: rows, bytes, memory, processor time, machines.

How densely drawers fill is measured on a store, or assumed as of news: real fingerprints fill drawers several
times as densely as uniform ones, the more bits name a drawer. Sizes and processor times were measured, as
docs/planning.md says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, exp, expm1

import numpy as np
from numpy.typing import NDArray

from simhbase.drawers.layout import SEGMENT_BITS
from simhbase.drawers.rowkeys import numbers_of
from simhbase.drawers.scheme import Scheme
from simhbase.errors import UsageError
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.fingerprint.sketches import pair_mismatches
from simhbase.index import Index
from simhbase.index.reader import DRAWER_LIMIT, live_entries
from simhbase.index.rows import listed_sketch, parse_listing
from simhbase.index.writer import batch_of, expired_before, known_in
from simhbase.profile.profile import Profile

SAMPLE = 200_000  # documents
LOOKUPS = 20_000  # of these, looked up among the others
RELATED_BITS = 12  # fingerprints of unrelated texts are hardly ever nearer
RELATED_SIMILARITY = 0.3
# What lookups of Chinese news read, over what they would read if drawers were equally full: with tables of b
# bits _AT_16 * exp(_GROWTH * (b - 16)), from 2.5 with 16 bits to 17 with 32; with bands _BANDS. Then rows of
# near-duplicates, with bits and with bands.
NEWS = "74,545 items of Chinese news"
_AT_16, _GROWTH, _BANDS = 2.5, 0.12, 100.0
_RELATED, _RELATED_BANDS = 0.46, 2.0
# Texts of CHARACTERS that a processor reads and fingerprints in a second; microseconds that it takes for each
# further character, and for a row of HFiles.
CHARACTERS, CHARACTER_US = 150, 0.065
TEXTS_PER_SECOND, HFILE_ROW_US = 14_600, 1.1
_GB = 1e9
_HOUR = 3600 * 1e6  # microseconds
_FEW = 20_000  # documents of a sample, with fewer of which the largest drawers are left to chance
_HOT = 5  # documents of a sample in one drawer that are no chance
# Rows of a drawer that a lookup of the sample compares, which stand for the others: equal texts may fill one
# with all documents.
_COMPARED = 256
_AT_ONCE = 1 << 22  # such rows, at most


@dataclass(frozen=True, slots=True)
class Spread:
    """How fingerprints spread over drawers.

    measured_on: which documents; unrelated: rows of unrelated documents that a lookup reads, for each stored
    document; related: rows of near-duplicates that a lookup reads, however many documents there are; largest:
    share of the documents in the largest drawer, None if it is unknown; sampled: number of documents of the
    user's store, None without one.
    """

    measured_on: str
    unrelated: float
    related: float = 0.0
    largest: float | None = None
    sampled: int | None = None


@dataclass(frozen=True, slots=True)
class Needs:
    """What one kind of store would need.

    disk_gb: without copies; memory_gb: to be held in memory; machines: for these and for processors, None if
    this kind of store would take more than one; decided_by: disk, memory, processors or replicas; load_hours,
    unique_hours, hfiles_hours: of one processor, with fingerprinting, for a load, one that stores only unique
    documents (all of them unique) and one by HFiles; lookup_ms: processor time of a lookup in a batch;
    disk_reads: blocks of a lookup if only filters and upper levels are in memory, None if all is; processors:
    for the wanted lookups, rounded up, None if none are wanted; most_documents, limit: where this kind of
    store ends, and by what.
    """

    store: str
    disk_gb: float
    memory_gb: float
    machines: int | None
    decided_by: str
    load_hours: float
    unique_hours: float
    hfiles_hours: float | None
    lookup_ms: float
    disk_reads: float | None
    processors: float | None
    most_documents: int
    limit: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a number of documents would need.

    layout: or bands; measured_on: which documents tell how drawers fill; drawers_read: by a lookup;
    rows_read: what it finds there, on average; rows_read_if_even: the same with uniform fingerprints;
    largest_drawer: its rows, None if unknown; regions: of HBase, by table.
    """

    documents: int
    layout: str
    finds: str
    measured_on: str
    index_rows: int
    drawers_read: int
    rows_read: float
    rows_read_if_even: float
    largest_drawer: int | None
    regions: Mapping[str, int]
    stores: list[Needs]
    warnings: list[str]


def measured_spread(index: Index, scheme: Scheme, documents: int = SAMPLE) -> Spread:
    """How the fingerprints of a store would spread over a scheme's drawers, by a sample of its documents.

    Reads that many documents. Raises UsageError if the store has none.
    """
    with index.same_tables():
        sample, share = _sample(index, documents)
    if len(sample) < 2:
        raise UsageError(f"{index.store.url} has too few documents to measure how drawers fill")
    return spread_of(sample, scheme, share, f"{len(sample):,} documents of {index.store.url}")


def _sample(index: Index, documents: int) -> tuple[FingerprintBatch, float]:
    """Fingerprints of the first documents in order of the hashes of ids (with MinHash: of fingerprints, which
    are hashes), and which share of all these are."""
    store, scheme = index.store, index.profile.index_scheme
    listed = scheme.listed_sketching
    found: list[tuple[int, bytes]] = []
    since, read = expired_before(store, index.clock()), 0
    table = store.records("fingerprints" if listed else "documents")
    for batch in table.iterate():
        read += len(batch)
        if listed:
            found += (
                (listing[0], listed_sketch(key, cell.value))
                for key, cell in batch
                if (listing := parse_listing(key))
            )
        else:
            entries = live_entries(known_in(batch), since).values()
            found += ((entry.fingerprint, entry.sketch) for entry in entries)
        if len(found) >= documents:
            share = min(1.0, read / max(table.approximate_size().rows, 1))
            return batch_of(found[:documents], scheme.sketching), share
    return batch_of(found, scheme.sketching), 1.0


def spread_of(sample: FingerprintBatch, scheme: Scheme, share: float, measured_on: str) -> Spread:
    """How fingerprints spread over a scheme's drawers. sample: at least two, in no order; share: of all
    documents that these are."""
    drawers = numbers_of(scheme.prefixes(sample))
    order = np.argsort(drawers.ravel(), kind="stable")
    names = drawers.ravel()[order]
    lookups = sample[: min(len(sample), LOOKUPS)]
    unrelated, related = 0.0, 0.0
    step = max(_AT_ONCE // (_COMPARED * sum(reads for _, reads in _tables(scheme))), 1)
    for start in range(0, len(lookups), step):
        part = lookups[start : start + step]
        asked = numbers_of(scheme.probes(part))
        first, end = np.searchsorted(names, asked), np.searchsorted(names, asked, "right")
        found_there = (end - first).ravel()
        sizes = np.minimum(found_there, _COMPARED)
        asking = np.repeat(np.repeat(np.arange(start, start + len(part)), asked.shape[1]), sizes)
        rows = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes) + np.repeat(first, sizes)
        found = order[rows] // drawers.shape[1]
        weights = np.repeat(found_there / np.maximum(sizes, 1), sizes)
        near = _are_related(sample, scheme, asking, found)
        unrelated += float(weights[~near].sum())
        related += float(weights[near & (asking != found)].sum())
    largest = int(np.unique(names, return_counts=True)[1].max())
    even = evenly_spread(scheme).unrelated
    return Spread(
        measured_on,
        max(unrelated / len(lookups) / len(sample), even),
        related / len(lookups) / share,
        largest / len(sample) if largest >= _HOT else None,
        len(sample),
    )


def _are_related(
    sample: FingerprintBatch, scheme: Scheme, one: NDArray[np.int64], other: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which pairs are no chance: by fingerprints, with MinHash by sketches."""
    if scheme.layout is not None:
        bits = scheme.bits_apart(sample.values[one], sample.values[other])
        return np.asarray(bits <= RELATED_BITS)
    sketching = scheme.sketching
    assert sketching is not None
    mismatches = pair_mismatches(sketching, sample.sketches, one, sample.sketches, other)
    return np.asarray(sketching.similarity(mismatches) >= RELATED_SIMILARITY)


def evenly_spread(scheme: Scheme) -> Spread:
    """What lookups read if all drawers are equally full."""
    return Spread("uniform fingerprints", sum(reads / 2.0**bits for bits, reads in _tables(scheme)))


def spread_as_news(scheme: Scheme) -> Spread:
    """What lookups read if drawers fill as those of news do."""
    if scheme.layout is None:
        return Spread(NEWS, _BANDS * evenly_spread(scheme).unrelated, _RELATED_BANDS)
    skewed = (
        reads / 2.0**bits * max(1.0, _AT_16 * exp(_GROWTH * (bits - 16))) for bits, reads in _tables(scheme)
    )
    return Spread(NEWS, sum(skewed), _RELATED)


def _tables(scheme: Scheme) -> list[tuple[int, int]]:
    """For each table, the bits that name its drawers, and how many of them a lookup reads."""
    if scheme.layout is None:
        return [(SEGMENT_BITS, 1)] * scheme.tables
    named = [len(bits) for bits in scheme.layout.named_bits()]
    return [(bits, 1 + bits * scheme.layout.flips) for bits in named]


@dataclass(frozen=True, slots=True)
class _Kind:
    """What was measured of one kind of store.

    index_row: bytes of an index row by layout, "" for the others; record: bytes of the two other rows of a
    document; id, sketch: bytes on disk for each byte of an id or a sketch; memory, others_memory: share of
    the index's bytes and of the others to be held in memory; key: bytes of each drawer that is a key of its
    own, and of each set of rows of the other tables; block: of a read from disk, 0 if all is in memory.
    Microseconds of processor time: load_us, load_row_us of a document that has a fingerprint, and of each
    index row; lookup_us, drawer_us, row_us of a lookup in a batch, and of each drawer and row that it reads.
    """

    index_row: Mapping[str, float]
    record: float
    id: float
    sketch: float
    memory: float
    load_us: float
    load_row_us: float
    lookup_us: float
    drawer_us: float
    row_us: float
    others_memory: float = 0.0
    key: float = 0.0
    block: int = 0

    def row_bytes(self, scheme: Scheme) -> float:
        return self.index_row.get(scheme.layout.name if scheme.layout else _ANY_BANDS, self.index_row[""])

    def disk_reads(self, scheme: Scheme, drawers: int, unrelated: float, related: float) -> float | None:
        """Blocks that a lookup reads: of each drawer, and two of each near-duplicate."""
        if not self.block:
            return None
        return drawers + (unrelated + related) * self.row_bytes(scheme) / self.block + 2 * related

    def gigabytes(self, documents: float, profile: Profile, id_bytes: float) -> tuple[float, float]:
        """Of documents, on disk and to be held in memory."""
        scheme = profile.index_scheme
        sketch = scheme.sketching.bytes if scheme.sketching else 0
        drawers = sum(_filled(2.0**bits, documents) for bits, _ in _tables(scheme))
        sets = 2 * _filled(_SETS, documents)
        index = self.row_bytes(scheme) * scheme.tables * documents + self.key * drawers
        others = (self.record + self.id * id_bytes + self.sketch * sketch) * documents + self.key * sets
        return (index + others) / _GB, (index * self.memory + others * self.others_memory) / _GB


def _filled(places: float, documents: float) -> float:
    """How many places have a document, if each is in one by chance."""
    return places * -expm1(-documents / places)


_ANY_BANDS = "bands"
_SETS = 1 << 16  # in Redis, of each table
_ROUNDS = 20
# A compaction of HBase needs old and new files. Its block cache has 0.4 of a heap of 0.6 of the memory.
_WHILE_COMPACTING, _BLOCK_CACHE = 2, 0.24
KINDS = {
    "rocksdb": _Kind(
        index_row={"": 12.7, "4x1": 14.6, "2x1p1": 17.4, _ANY_BANDS: 16.1},
        record=28.2,
        id=2.0,
        sketch=1.2,
        memory=0.095,
        load_us=60,
        load_row_us=2,
        lookup_us=64,
        block=4 << 10,
        drawer_us=2,
        row_us=1,
    ),
    "postgresql": _Kind(
        index_row={"": 46.5, "4x1": 53.8, "2x1p1": 69.8, _ANY_BANDS: 74.0},
        record=219.9,
        id=4.0,
        sketch=1.04,
        memory=1.0,
        load_us=58,
        load_row_us=5.5,
        lookup_us=8,
        block=8 << 10,
        drawer_us=4.2,
        row_us=1,
    ),
    "redis": _Kind(
        index_row={"": 8.6},
        record=50.0,
        id=2.0,
        sketch=1.0,
        memory=1.0,
        load_us=25,
        load_row_us=8,
        lookup_us=6,
        drawer_us=4,
        row_us=0.3,
        others_memory=1.0,
        key=72.0,
    ),
    "hbase": _Kind(
        index_row={"": 18.3, "4x1": 14.9, "2x1p1": 18.3, _ANY_BANDS: 17.5},
        record=32.6,
        id=2.0,
        sketch=1.0,
        memory=0.08,
        load_us=25,
        load_row_us=12.7,
        lookup_us=430,
        block=16 << 10,
        drawer_us=5,
        row_us=4,
    ),
}


def plan(
    documents: int,
    profile: Profile,
    spread: Spread,
    *,
    lookups: float = 0.0,
    memory_gb: float = 64,
    disk_gb: float = 4000,
    processors: int = 16,
    replication: int = 3,
    id_bytes: float = 24.0,
    characters: float = CHARACTERS,
) -> Plan:
    """What a number of documents would need in each kind of store.

    lookups: a second; memory_gb, disk_gb, processors: of one machine; replication: copies that HBase keeps of
    its files, each on another machine; id_bytes, characters: mean length of ids and texts.
    """
    if documents < 1:
        raise UsageError(f"must be at least 1, not {documents}", parameter="documents")
    scheme = profile.index_scheme
    drawers = sum(reads for _, reads in _tables(scheme))
    rows_read = spread.unrelated * documents + spread.related

    def needs(name: str, kind: _Kind) -> Needs:
        disk, memory = kind.gigabytes(documents, profile, id_bytes)
        lookup_us = kind.lookup_us + kind.drawer_us * drawers + kind.row_us * rows_read
        # While a store grows, lookups read half of the unrelated rows on average.
        growing_us = lookup_us - kind.row_us * spread.unrelated * documents / 2
        fingerprint_us = 1e6 / TEXTS_PER_SECOND + CHARACTER_US * (characters - CHARACTERS)
        load_us = fingerprint_us + kind.load_us + kind.load_row_us * scheme.tables
        hfiles_us = fingerprint_us + HFILE_ROW_US * (scheme.tables + 2)
        ends = {f"more than {DRAWER_LIMIT:,} rows in an average drawer": _full_drawers(scheme, spread)}
        # What is needed of one machine.
        shares = {"processors": lookups * lookup_us / 1e6 / processors}
        if name == "hbase":
            shares["disk"] = disk * replication * _WHILE_COMPACTING / disk_gb
            shares["memory"] = memory / memory_gb / _BLOCK_CACHE
            shares["replicas"] = replication
        else:
            shares["disk"], shares["memory"] = 2 * disk / disk_gb, 2 * memory / memory_gb
            halves = (("half its disk", disk_gb, 0), ("half its memory", memory_gb, 1))
            ends |= {end: documents for end, _, _ in halves}
            for _ in range(_ROUNDS):  # where keys are shared, more documents take fewer bytes each
                for end, room, which in halves:
                    ends[end] *= room / 2 / kind.gigabytes(ends[end], profile, id_bytes)[which]
        limit = min(ends, key=lambda each: ends[each])
        decided_by = max(shares, key=lambda each: shares[each])
        machines = max(ceil(shares[decided_by]), 1)
        return Needs(
            store=name,
            disk_gb=disk,
            memory_gb=memory,
            machines=machines if machines == 1 or name == "hbase" else None,
            decided_by=decided_by,
            load_hours=load_us * documents / _HOUR,
            unique_hours=(load_us + growing_us) * documents / _HOUR,
            hfiles_hours=hfiles_us * documents / _HOUR if name == "hbase" else None,
            lookup_ms=lookup_us / 1000,
            disk_reads=kind.disk_reads(scheme, drawers, spread.unrelated * documents, spread.related),
            processors=ceil(lookups * lookup_us / 1e4) / 100 if lookups else None,
            most_documents=int(float(f"{ends[limit]:.3g}")),
            limit=limit,
        )

    from simhbase.stores.hbase.planning import Content  # of one backend, which may be missing

    return Plan(
        documents=documents,
        layout=scheme.layout.name if scheme.layout else str(profile.parameters()["bands"]),
        finds=scheme.rule(None),
        measured_on=spread.measured_on,
        index_rows=documents * scheme.tables,
        drawers_read=drawers,
        rows_read=rows_read,
        rows_read_if_even=evenly_spread(scheme).unrelated * documents,
        largest_drawer=None if spread.largest is None else round(spread.largest * documents),
        regions=Content.of(documents, scheme).regions(),
        stores=[needs(*each) for each in KINDS.items()],
        warnings=_warnings(documents, scheme, spread),
    )


def _full_drawers(scheme: Scheme, spread: Spread) -> float:
    """Documents from which on the drawers that lookups read have more rows than they read, on average."""
    return DRAWER_LIMIT * len(_tables(scheme)) / spread.unrelated


def _warnings(documents: int, scheme: Scheme, spread: Spread) -> list[str]:
    warnings = []
    if spread.sampled is not None and spread.sampled < _FEW:
        warnings.append(
            f"how drawers fill was measured on {spread.sampled:,} documents only: give a store with at least "
            f"{_FEW:,}"
        )
    if documents > _full_drawers(scheme, spread):
        warnings.append(
            f"an average drawer would have more than {DRAWER_LIMIT:,} rows, which lookups do not read "
            "completely (truncated): take a layout with smaller drawers, such as 6x3, or split the documents "
            "into several stores"
        )
    elif spread.largest is not None and spread.largest * documents > DRAWER_LIMIT:
        warnings.append(
            f"the largest drawers would have more than {DRAWER_LIMIT:,} rows, which truncates their lookups: "
            "'simhbase stats --hot 10' shows what fills them"
        )
    return warnings
