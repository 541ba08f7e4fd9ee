"""Size of an index: documents, rows, bytes, and rows per drawer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from simhbase.drawers.rowkeys import PREFIX_BYTES
from simhbase.drawers.scheme import Scheme
from simhbase.index import Index
from simhbase.index.reader import DRAWER_LIMIT, live_entries
from simhbase.index.rows import SALTS, document_ranges, listed_sketch, parse_listing
from simhbase.index.writer import batch_of, expired_before, known_in
from simhbase.model.statistics import DrawerStats, Stats
from simhbase.model.values import Size
from simhbase.stores.base import FINGERPRINT_BYTES, Store

SAMPLED = 10_000  # documents, from which all are estimated
_COUNTS = ("documents", "fingerprints", "index_rows")
_SIZES = ("bytes", "bytes_per_document")


def measure(store: Store, scheme: Scheme, exact: bool, time: int) -> Stats:
    """Measure an index. exact: read every row. time: now, in milliseconds; expired documents are not counted
    if every row is read."""
    operations = {**store.counters(), **store.gauges()}  # before those of measuring
    of_tables = sizes(store)
    ranges = dict[str, tuple[int, int]]()
    if exact:
        documents, fingerprints, index_rows = _counted(store, time)
    else:
        (documents, fingerprints, index_rows), ranges = _estimated(of_tables, scheme)
        if "documents" not in ranges:
            documents = max(documents, sampled_documents(store))
    size = sum(each.bytes for each in of_tables.values())
    return Stats(
        documents=documents,
        fingerprints=fingerprints,
        index_rows=index_rows,
        exact=exact,
        estimates=_SIZES if exact else (*_COUNTS, *_SIZES),
        ranges=ranges,
        bytes=size,
        bytes_per_document=round(size / documents, 1) if documents else None,
        table_estimates=of_tables,
        drawers=_drawers(store, scheme, [bytes([first]) for first in range(256)]),
        operations=operations,
    )


def measure_scope(index: Index, *, exact: bool) -> Stats:
    """Measure the index of a scope: its documents, from which the others follow. They are spread evenly over
    its ranges of keys; of many documents, without `exact`, only those of some ranges are read."""
    store, scheme = index.store, index.profile.index_scheme
    operations, sample = {**store.counters(), **store.gauges()}, sampled(index, exact=exact)
    documents, fingerprints = sample.estimate(sample.documents), sample.estimate(len(sample.fingerprints))
    counted = sample.share == 1
    error = 0.0 if counted else 1 / math.sqrt(sample.documents)
    size = sum(each.bytes for each in sizes(store).values())
    per_document = size / max(estimated_documents(store), documents, 1)
    listed = [value.to_bytes(FINGERPRINT_BYTES) + index.of for value in sorted(sample.fingerprints)[:256]]
    return Stats(
        documents=documents,
        fingerprints=fingerprints,
        index_rows=fingerprints * scheme.tables,
        exact=counted,
        estimates=_SIZES if counted else (*_COUNTS, *_SIZES),
        ranges={} if counted else {"documents": _range(documents, error)},
        bytes=round(per_document * documents),
        bytes_per_document=round(per_document, 1) if documents else None,
        table_estimates={},
        drawers=_drawers(store, scheme, listed, sample),
        operations=operations,
    )


class Sample(NamedTuple):
    """Documents of a scope. share: of its ranges that were read."""

    documents: int
    fingerprints: set[int]
    share: float

    def estimate(self, number: int) -> int:
        return round(number / self.share)


def sampled(index: Index, *, exact: bool) -> Sample:
    store, documents, fingerprints, read = index.store, 0, set[int](), 0
    earliest = expired_before(store, index.clock())
    for part in document_ranges(index.of.decode()):
        read += 1
        for batch in store.records("documents").iterate(*part):
            alive = live_entries(known_in(batch), earliest)
            documents += len(alive)
            fingerprints |= {each.fingerprint for each in alive.values()}
        if not exact and documents >= SAMPLED:
            break
    return Sample(documents, fingerprints, read / SALTS)


def documents_in(index: Index) -> int:
    """About how many documents an index has."""
    if not index.of:
        return estimated_documents(index.store)
    sample = sampled(index, exact=False)
    return sample.estimate(sample.documents)


def sizes(store: Store) -> dict[str, Size]:
    others: list[tuple[str, Any]] = [(name, store.records(name)) for name in store.tables]
    return {name: table.approximate_size() for name, table in [("index", store.drawers), *others]}


def estimated_documents(store: Store) -> int:
    """About how many documents a store has."""
    sizes = (store.records(name).approximate_size() for name in ("documents", "fingerprints"))
    found = _nearest(*sizes)
    return found.rows if found.error is not None else max(found.rows, sampled_documents(store))


def sampled_documents(store: Store) -> int:
    """About how many documents a store has, by the first ones: their keys are spread over all first bytes.
    For RocksDB, whose own estimate falls by each document that was added and soon deleted."""
    read = 0
    for batch in store.records("documents").iterate():
        read += len(batch)
        if read >= SAMPLED:
            return read * SALTS // (batch[-1][0][0] + 1)
    return read


def _nearest(documents: Size, fingerprints: Size) -> Size:
    """Of two tables, the one that tells the number of documents better.

    Either may have more rows than there are documents: deleted or uncompacted ones in documents, obsolete
    ones in fingerprints. Neither has fewer. But estimates from samples may: in HBase, keys of documents are
    hashes, spread evenly, while fingerprints crowd.
    """
    errors = [math.inf if size.error is None else size.error for size in (documents, fingerprints)]
    if errors[0] == errors[1]:
        return min(documents, fingerprints, key=lambda size: size.rows)
    return documents if errors[0] < errors[1] else fingerprints


def _estimated(
    of_tables: Mapping[str, Size], scheme: Scheme
) -> tuple[tuple[int, int, int], dict[str, tuple[int, int]]]:
    """The counts, and the ranges of those whose error is known."""
    documents, index = _nearest(of_tables["documents"], of_tables["fingerprints"]), of_tables["index"]
    distinct = replace(index, rows=round(index.rows / scheme.tables))
    fingerprints = min(distinct, documents, key=lambda size: size.rows)
    found = dict(zip(_COUNTS, (documents, fingerprints, index), strict=True))
    ranges = {name: _range(size.rows, size.error) for name, size in found.items() if size.error is not None}
    return (documents.rows, fingerprints.rows, index.rows), ranges


def _range(rows: int, error: float) -> tuple[int, int]:
    """Two standard errors to each side, to three digits; of counted rows only their number."""
    if not error:
        return rows, rows
    unit = 10 ** max(len(str(rows)) - 3, 0)
    least, most = rows * max(1 - 2 * error, 0), rows * (1 + 2 * error)
    return math.floor(least / unit) * unit, math.ceil(most / unit) * unit


def _counted(store: Store, time: int) -> tuple[int, int, int]:
    fingerprints = 0
    last = None
    for batch in store.records("fingerprints").iterate():
        for key, _ in batch:
            listing = parse_listing(key)
            if listing and listing[0] != last:
                last = listing[0]
                fingerprints += 1
    earliest = expired_before(store, time)
    return (
        sum(len(live_entries(known_in(batch), earliest)) for batch in store.records("documents").iterate()),
        fingerprints,
        sum(len(rows.keys) for rows in store.drawers.iterate()),
    )


def _drawers(
    store: Store, scheme: Scheme, listed_under: Sequence[bytes], own: Sample | None = None
) -> DrawerStats:
    """Statistics of a sample: the drawers of the first fingerprint under each of some prefixes. own: of a
    scope, whose rows alone count: it is told nothing of others, not even how many they have."""
    firsts = store.records("fingerprints").scan(listed_under, limit=1) if listed_under else []
    listed = scheme.listed_sketching is not None
    found = [
        (int.from_bytes(key[:8]), listed_sketch(key, cell.value) if listed else b"")
        for rows in firsts
        for key, cell in rows
    ]
    places = np.unique(
        scheme.prefixes(batch_of(found, scheme.listed_sketching)).reshape(-1, PREFIX_BYTES), axis=0
    )
    lengths = np.zeros(len(places), dtype=np.int64)
    over_limit = 0
    mine = None if own is None else np.array(list(own.fingerprints), dtype=np.uint64)
    for part in store.drawers.read(places, DRAWER_LIMIT):
        ends = part.offsets
        if mine is not None:
            ends = np.append(0, np.cumsum(np.isin(part.fingerprints, mine)))[ends]
        np.add.at(lengths, part.drawers, np.diff(ends))
        over_limit += len(part.truncated)
    if own is not None:  # beside the one that it was found by, a drawer has a share of those that were read
        lengths = np.where(lengths > 0, 1 + np.rint((lengths - 1) / own.share), 0).astype(np.int64)
        over_limit = int(np.count_nonzero(lengths > DRAWER_LIMIT))
    return DrawerStats(
        sampled=len(lengths),
        mean_rows=round(float(lengths.mean()), 2) if len(lengths) else None,
        largest_rows=int(lengths.max(initial=0)),
        over_limit=over_limit,
    )
