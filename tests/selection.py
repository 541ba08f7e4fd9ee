"""Storing of what has nothing near, as a load does it."""

from collections.abc import Sequence

from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index
from simhbase.index.tags import Tags
from simhbase.index.writer import DocumentBatch
from simhbase.loads.unique import Loaded, find_duplicates, store_kept


def load_unique(
    index: Index,
    ids: Sequence[str],
    fingerprints: FingerprintBatch,
    min_similarity: float | None = None,
    tags: Sequence[Tags] | None = None,
) -> Loaded:
    """Stores those of n documents, one after the other, that have no stored document near."""
    with index.store.exclusive():
        documents = DocumentBatch(ids, fingerprints, tags)
        return store_kept(index, documents, find_duplicates(index, documents, min_similarity))
