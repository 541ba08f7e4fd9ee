"""Lookups of the documents of a corpus, in input order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import numpy as np

from simhbase.corpus.given import GivenRows
from simhbase.corpus.inputs import Inputs
from simhbase.corpus.reading import read_each
from simhbase.corpus.record import Record, SourceReject
from simhbase.corpus.rejects import Rejects
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index
from simhbase.index.reader import IDS_LIMIT, LISTING_GROWTH
from simhbase.jobs.answers import Answer
from simhbase.jobs.pipeline import Batch, FingerprintSource, fingerprinting
from simhbase.jobs.source_report import SourceCounts, SourceNames
from simhbase.model.values import Lookup, Match, Query


def lookups_of(index: Index, fingerprints: FingerprintBatch, query: Query) -> list[Lookup]:
    """Look up the fingerprints of records in a store."""
    # Fingerprints given instead of texts have no sketches.
    if not fingerprints.sketches.shape[1]:
        return index.find_fingerprints(fingerprints.values, query)
    return index.find_batch(fingerprints, query)


def nearest_others(
    index: Index, batch: Batch, query: Query, ids_limit: int = IDS_LIMIT
) -> list[Match | None]:
    """The nearest stored document of each record, except itself. Reads more documents of a fingerprint if the
    first ones have expired."""
    lookups = lookups_of(index.listing(ids_limit), batch.fingerprints, query)
    nearest = [
        next((match for match in lookup.matches if match.id != record.id or not record.is_named), None)
        for record, lookup in zip(batch.records, lookups, strict=True)
    ]
    pairs = zip(nearest, lookups, strict=True)
    cut = np.array([match is None and lookup.truncated for match, lookup in pairs], dtype=bool)
    if cut.any():
        again = nearest_others(index, batch.only(cut), query, ids_limit * LISTING_GROWTH)
        for number, match in zip(np.flatnonzero(cut).tolist(), again, strict=True):
            nearest[number] = match
    return nearest


def answers_to(
    inputs: Inputs,
    source: FingerprintSource,
    trim: Callable[[Record], Record],
    lookups: Callable[[Batch], list[Lookup]],
    rejects: Rejects,
    *,
    exclude_self: bool = False,
    most: int | None = None,
) -> Iterator[list[Answer]]:
    """Look up the records of a corpus, batch by batch. Rejected records have answers, too.

    trim: drops what `lookups` does not need of a record; lookups: looks up the records of a batch;
    exclude_self: leave out matches with the query's id, and list at most `most` others. With `by_source`, the
    watcher of the inputs is told at the end how many documents of each source have matches.
    """
    rows = inputs.rows if isinstance(inputs.rows, GivenRows) else None
    counts = SourceCounts(SourceNames(inputs)) if inputs.by_source else None
    with closing(read_each(inputs, fingerprinting(inputs.options, source, trim))) as batches:
        for batch in batches:
            found = iter(lookups(batch))
            items = [item for item in batch.items if not isinstance(item, SourceReject)]
            answers = [
                Answer(
                    item.id
                    if rows is None or not item.id or item.line is None
                    else rows.id_of(item.line, item.id),
                    next(found) if isinstance(item, Record) else Lookup(None, reason=item.reason),
                )
                for item in items
            ]
            if exclude_self:
                answers = [each.without_self(most) for each in answers]
            if counts:
                of_records = (
                    bool(each.lookup.matches)
                    for each, item in zip(answers, items, strict=True)
                    if isinstance(item, Record)
                )
                counts.add(counts.of(batch.items, of_records))
            yield answers
            rejects.note(batch)
    for each in counts.reports() if counts else ():
        inputs.watcher.note(
            f"{each.source}: {each.documents:,} documents, {each.duplicates:,} with matches, "
            f"{each.rejected:,} rejected, {each.unreadable:,} unreadable"
        )
