"""What a store holds, for comparing one with another."""

from simhbase.records import Entry
from simhbase.stores.base import Store


def content(store: Store) -> dict[str, object]:
    """Everything in the tables, times left out."""
    documents = [row for batch in store.records("documents").iterate() for row in batch]
    entries = {key: Entry.decode(value) for key, value in documents}
    return {
        "documents": {key: (entry.fingerprint, entry.state, entry.old) for key, entry in entries.items()},
        "fingerprints": [key for batch in store.records("fingerprints").iterate() for key, _ in batch],
        "index": [key.tobytes() for keys in store.drawers.iterate() for key in keys],
        "meta": [row for batch in store.records("meta").iterate() for row in batch],
    }
