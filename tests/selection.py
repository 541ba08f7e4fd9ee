"""Storing of what has nothing near, as a load does it."""

from collections.abc import Sequence

from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index
from simhbase.index.tags import Tags
from simhbase.jobs.unique import Loaded, find_duplicates, store_kept


def load_unique(
    index: Index,
    ids: Sequence[str],
    fingerprints: FingerprintBatch,
    min_similarity: float | None = None,
    tags: Sequence[Tags] | None = None,
) -> Loaded:
    """Stores those of n documents, one after the other, that have no stored document near."""
    with index.store.exclusive():
        duplicates = find_duplicates(index, ids, fingerprints, min_similarity)
        return store_kept(index, ids, fingerprints, duplicates, tags)
