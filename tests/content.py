"""What a store holds, for comparing one with another."""

from simhbase.index.rows import Entry
from simhbase.stores.base import Store


def content(store: Store) -> dict[str, object]:
    """Everything in the tables, versions and times left out."""
    documents = [row for batch in store.records("documents").iterate() for row in batch]
    listings = [row for batch in store.records("fingerprints").iterate() for row in batch]
    return {
        "documents": {key: Entry.decode(key, cell.value) for key, cell in documents},
        "fingerprints": [(key, cell.value) for key, cell in listings],
        "index": sorted(key.tobytes() for rows in store.drawers.iterate() for key in rows.keys),
        "meta": [
            (key, cell.value)
            for batch in store.records("meta").iterate()
            for key, cell in batch
            if not key.startswith((b"load", b"claim"))  # when, and by which process
        ],
    }
