"""What a store holds, for comparing one with another."""

from dataclasses import replace

from simhbase.records import Entry, is_listing
from simhbase.stores.base import Store


def content(store: Store) -> dict[str, object]:
    """Everything in the tables, times left out."""
    documents = [row for batch in store.records("documents").iterate() for row in batch]
    fingerprints = [row for batch in store.records("fingerprints").iterate() for row in batch]
    entries = {key: Entry.decode(value) for key, value in documents}
    return {
        "documents": {key: replace(entry, time=0) for key, entry in entries.items()},
        "listings": [key for key, _ in fingerprints if is_listing(key)],
        "sketches": [row for row in fingerprints if not is_listing(row[0])],
        "index": [key.tobytes() for keys in store.drawers.iterate() for key in keys],
        "meta": [row for batch in store.records("meta").iterate() for row in batch],
    }
