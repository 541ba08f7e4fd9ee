"""A batch of fingerprints into an index: all of them, or only those that nothing is near.

Both write a batch with one durable call, and both may be repeated: what a stopped load has stored
already costs a read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index
from simhbase.index.selection import duplicates_of as selected
from simhbase.model import AddReport, Match


@dataclass(frozen=True, slots=True)
class Loaded:
    """What became of n documents.

    duplicate_of: for each the document that keeps it out, None where it is stored; report: what
    storing those did.
    """

    duplicate_of: Sequence[Match | None]
    report: AddReport


def load_all(index: Index, ids: Sequence[str], fingerprints: FingerprintBatch) -> Loaded:
    """Stores n documents or replaces them; durable when it returns.

    ids: valid and different. Nothing is a duplicate.
    """
    return Loaded([None] * len(ids), index.add_batch(ids, fingerprints))


def duplicates_of(
    index: Index, ids: Sequence[str], fingerprints: FingerprintBatch, min_similarity: float | None = None
) -> list[Match | None]:
    """What `simhbase.index.selection.duplicates_of` says of n documents; `store_kept` stores the others."""
    scheme = index.profile.index_scheme
    return selected(index.store, scheme, index.clock, ids, fingerprints, min_similarity)


def store_kept(
    index: Index,
    ids: Sequence[str],
    fingerprints: FingerprintBatch,
    duplicates: Sequence[Match | None],
) -> Loaded:
    """Stores those of n documents that are no duplicates."""
    kept = [number for number, near in enumerate(duplicates) if near is None]
    return Loaded(duplicates, index.add_batch([ids[number] for number in kept], fingerprints[kept]))
