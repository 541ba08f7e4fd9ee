"""Writes those documents of a batch that have no near-duplicate to an index.

All functions may be repeated after an interruption.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from simhbase.errors import Undecided
from simhbase.index import Index
from simhbase.index.claims.batch import LoadRun
from simhbase.index.writer import DocumentBatch
from simhbase.model.values import AddReport, Match

HasDuplicates = Callable[[str], bool]  # True for ids of documents with duplicates in this load
PATIENCE = (
    600.0  # seconds to wait for pending claims, which are decided within a few, or end with their lease
)


@dataclass(frozen=True, slots=True)
class Loaded:
    """Result of writing n documents.

    duplicate_of: for each document its match, None if it is stored; report: of those stored; removed: number
    of stored documents removed because their new text is a duplicate.
    """

    duplicate_of: Sequence[Match | None]
    report: AddReport
    removed: int = 0


def find_duplicates(
    index: Index, documents: DocumentBatch, min_similarity: float | None = None
) -> list[Match | None]:
    """The match of each duplicate among n documents, None for the others, which `store_kept` stores. (See
    `selection.duplicates_of`.)"""
    bounds = index.profile.index_scheme.bounds(None, min_similarity)
    return index.duplicates_of(documents.ids, documents.fingerprints, bounds)


def store_kept(
    index: Index,
    documents: DocumentBatch,
    duplicates: Sequence[Match | None],
    has_duplicates: HasDuplicates = lambda document: False,
) -> Loaded:
    """Store those of n documents that are not duplicates, and remove `outdated` ones."""
    kept = documents[[number for number, near in enumerate(duplicates) if near is None]]
    gone = outdated(index, documents, duplicates, has_duplicates)
    report = index.add_batch(kept.ids, kept.fingerprints, kept.tags, gone)
    return Loaded(duplicates, report, len(gone))


def outdated(
    index: Index,
    documents: DocumentBatch,
    duplicates: Sequence[Match | None],
    has_duplicates: HasDuplicates,
) -> list[str]:
    """Ids of documents whose new text is a duplicate, but which are stored with another, outdated text.

    Excludes documents that have duplicates themselves, in this batch or before: without them those texts
    would be lost.
    """
    ids, matched = documents.ids, {near.id for near in duplicates if near is not None}
    numbers = [
        number
        for number, near in enumerate(duplicates)
        if near is not None and ids[number] not in matched and not has_duplicates(ids[number])
    ]
    found = index.known([ids[number] for number in numbers])
    return [
        ids[number]
        for number, each in zip(numbers, found, strict=True)
        if each and each.stored and each.entry.fingerprint != documents.values[number]
    ]


def claim_documents(
    index: Index,
    documents: DocumentBatch,
    run: LoadRun,
    min_similarity: float | None = None,
    has_duplicates: HasDuplicates = lambda document: False,
) -> Loaded:
    """Store those of n documents that have no near-duplicate, while other processes may do the same: one of
    several near documents that are claimed at the same time is kept.

    Without other writers this keeps the same documents as `find_duplicates` and `store_kept`, with
    one exception: a text that had to wait for an earlier one of the n does not match the old text of a
    document that a later one of them has replaced meanwhile. Raises Undecided if claims of others stay
    undecided for PATIENCE seconds.
    """
    claimed = index.claim_batch(
        documents.ids,
        documents.fingerprints,
        PATIENCE,
        min_similarity,
        replacing=True,
        tags=documents.tags,
        run=run,
    )
    undecided = [claim for claim in claimed.claims if claim.outcome == "undecided"]
    if undecided:
        raise Undecided(
            f"{len(undecided)} documents, {undecided[0].id!r} the first, are {undecided[0].reason}"
        )
    duplicates = [claim.match for claim in claimed.claims]
    gone = outdated(index, documents, duplicates, has_duplicates)
    return Loaded(duplicates, claimed.report, index.delete(gone) if gone else 0)
