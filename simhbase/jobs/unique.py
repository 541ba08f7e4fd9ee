"""A batch of fingerprints into an index: all of them, or only those that nothing is near.

All may be repeated: what a stopped load has stored already costs a read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from simhbase.errors import Undecided
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index
from simhbase.index.claim_batch import Run
from simhbase.index.selection import duplicates_of as selected
from simhbase.index.tags import Tags
from simhbase.index.writer import known
from simhbase.model import AddReport, Match

KeepsOthersOut = Callable[[str], bool]  # whether a document has kept out others of the load
PATIENCE = 600.0  # seconds: what others have pending is decided within a few, or ends with its lease


@dataclass(frozen=True, slots=True)
class Loaded:
    """What became of n documents.

    duplicate_of: for each the document that keeps it out, None where it is stored; report: what
    storing those did; removed: stored documents whose new text is a duplicate.
    """

    duplicate_of: Sequence[Match | None]
    report: AddReport
    removed: int = 0


def load_all(
    index: Index, ids: Sequence[str], fingerprints: FingerprintBatch, tags: Sequence[Tags] | None = None
) -> Loaded:
    """Stores n documents or replaces them; durable when it returns.

    ids: valid and different; tags: of each, None where none has any. Nothing is a duplicate.
    """
    return Loaded([None] * len(ids), index.add_batch(ids, fingerprints, tags))


def duplicates_of(
    index: Index, ids: Sequence[str], fingerprints: FingerprintBatch, min_similarity: float | None = None
) -> list[Match | None]:
    """What `simhbase.index.selection.duplicates_of` says of n documents; `store_kept` stores the others."""
    scheme = index.profile.index_scheme
    bounds = scheme.bounds(None, min_similarity)
    return selected(index.store, scheme, index.clock, ids, fingerprints, bounds, index.hidden())


def store_kept(
    index: Index,
    ids: Sequence[str],
    fingerprints: FingerprintBatch,
    duplicates: Sequence[Match | None],
    tags: Sequence[Tags] | None = None,
    keeps_others_out: KeepsOthersOut = lambda document: False,
) -> Loaded:
    """Stores those of n documents that are no duplicates, and removes what `outdated` says of the others."""
    kept = [number for number, near in enumerate(duplicates) if near is None]
    kept_tags = None if tags is None else [tags[number] for number in kept]
    gone = outdated(index, ids, fingerprints, duplicates, keeps_others_out)
    report = index.add_batch([ids[number] for number in kept], fingerprints[kept], kept_tags, gone)
    return Loaded(duplicates, report, len(gone))


def outdated(
    index: Index,
    ids: Sequence[str],
    fingerprints: FingerprintBatch,
    duplicates: Sequence[Match | None],
    keeps_others_out: KeepsOthersOut,
) -> list[str]:
    """Those of n documents that are stored with another text and whose new one is a duplicate: they would
    stay findable under the old one.

    A document that keeps out another one, of the n or before them, stays: that text would be lost with it.
    """
    keepers = {near.id for near in duplicates if near is not None}
    numbers = [
        number
        for number, near in enumerate(duplicates)
        if near is not None and ids[number] not in keepers and not keeps_others_out(ids[number])
    ]
    found = known(index.store, [ids[number] for number in numbers])
    return [
        ids[number]
        for number, each in zip(numbers, found, strict=True)
        if each and each.stored and each.entry.fingerprint != int(fingerprints.values[number])
    ]


def claim_all(
    index: Index,
    ids: Sequence[str],
    fingerprints: FingerprintBatch,
    run: Run,
    min_similarity: float | None = None,
    tags: Sequence[Tags] | None = None,
    keeps_others_out: KeepsOthersOut = lambda document: False,
) -> Loaded:
    """Stores those of n documents that nothing is near, beside others who do the same: of near ones that are
    claimed at once one is kept.

    The same documents are kept as by `duplicates_of` and `store_kept` where nobody else writes, with one
    exception: a text that had to wait for an earlier one of the n does not meet the old text of a document
    that a later one of them has replaced meanwhile. Raises Undecided where somebody else has not decided
    about near ones for a long time. keeps_others_out: as for `outdated`.
    """
    claimed = index.claim_batch(
        ids, fingerprints, PATIENCE, min_similarity, replacing=True, tags=tags, run=run
    )
    undecided = [claim for claim in claimed.claims if claim.outcome == "undecided"]
    if undecided:
        raise Undecided(
            f"{len(undecided)} documents, {undecided[0].id!r} the first, are {undecided[0].reason}"
        )
    duplicates = [claim.match for claim in claimed.claims]
    gone = outdated(index, ids, fingerprints, duplicates, keeps_others_out)
    return Loaded(duplicates, claimed.report, index.delete(gone) if gone else 0)
