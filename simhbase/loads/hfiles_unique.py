"""Finds the documents of a load by HFiles that have no near-duplicate, stored or earlier in the load.

Spooled documents are in no table yet. So kept ones are also written to an embedded store in the work folder,
where later ones find them.

Other processes may claim near texts until the documents are loaded. A claim writes its hints first, and looks
up then; here documents are loaded first, and looked up then (`settle`). So one of the two finds the other. A
document that is near one that others have stored, or claimed without a decision yet, is deleted and claimed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from simhbase.errors import UsageError
from simhbase.index import Index
from simhbase.index import rows as formats
from simhbase.index.claims.batch import LoadRun
from simhbase.index.claims.selection import duplicates_of
from simhbase.index.reader import IDS_LIMIT, Now, Reader
from simhbase.index.rows import Entry, PendingCell
from simhbase.index.writer import DocumentBatch, Known, known
from simhbase.jobs.lookups import nearest_others
from simhbase.jobs.pipeline import Batch as Read
from simhbase.loads.unique import claim_documents, store_kept
from simhbase.model.values import Match, Query
from simhbase.stores.base import HintingStore, NamedCells


class UniqueDocuments:
    """Decides which documents are kept.

    stored: the same store as `index`, opened for reading; kept: an embedded store for kept documents; run:
    identifies the run of the load in claims; unsettled: version of documents that an interrupted run may have
    loaded without settling them.
    """

    def __init__(
        self,
        index: Index,
        stored: Index,
        kept: Index,
        min_similarity: float | None,
        run: LoadRun,
        unsettled: int | None,
    ) -> None:
        self._index = index
        self._store = cast(HintingStore, index.store)
        self._stored = stored
        self._kept = kept
        self._min_similarity = min_similarity
        self._bounds = index.profile.index_scheme.bounds(None, min_similarity)
        self._run = run
        self._unsettled = unsettled

    def duplicates_of(self, read: Read) -> list[Match | None]:
        """The match of each duplicate, None for kept documents. Raises UsageError if a document is stored
        with another text."""
        before = self._stored_before(read)
        if self._unsettled is not None:
            again = [number for number, each in enumerate(before) if each]
            self.settle(read.documents[again], self._unsettled)
        near = nearest_others(self._stored, read, Query(min_similarity=self._min_similarity))
        left = [number for number, each in enumerate(near) if each is None]
        documents = read.documents[left]
        reader = replace(self._kept.reader, hidden=self._index.hidden())
        found = duplicates_of(reader, documents.ids, documents.fingerprints, self._bounds)
        store_kept(self._kept, documents, found)
        for number, each in zip(left, found, strict=True):
            near[number] = each
        return near

    def _stored_before(self, read: Read) -> list[Known | None]:
        values = read.fingerprints.values.tolist()
        stored = [each if each and each.stored else None for each in known(self._store, read.ids)]
        for document, value, each in zip(read.ids, values, stored, strict=True):
            if each and each.entry.fingerprint != value:
                raise UsageError(
                    f"{document!r} is stored with another text, but a unique-only load via hfiles can only "
                    "add documents: load it without via hfiles"
                )
        return stored

    def settle(self, batch: DocumentBatch, version: int) -> int:
        """Claim those of n documents (stored at this version or later) that are near documents that others
        stored or claimed. Returns how many of these are not kept."""
        seen = {
            document: each.version
            for document, value, each in zip(
                batch.ids, batch.values, known(self._store, batch.ids), strict=True
            )
            if each and each.stored and each.version >= version and each.entry.fingerprint == value
        }
        has_rivals = self._have_rivals(batch).tolist()
        contested = batch[[n for n, each in enumerate(batch.ids) if each in seen and has_rivals[n]]]
        if not contested.ids:
            return 0
        self._index.delete_seen({document: seen[document] for document in contested.ids})
        claimed = claim_documents(self._index, contested, self._run, self._min_similarity)
        return sum(each is not None for each in claimed.duplicate_of)

    def _have_rivals(self, batch: DocumentBatch) -> NDArray[np.bool_]:
        """True for documents near another that is stored or claimed: bool (n,)."""
        index, prints = self._index, batch.fingerprints
        reader = Reader(
            self._store, index.profile.index_scheme, None, IDS_LIMIT, index.clock, hidden=index.hidden()
        )
        leads = reader.leads(prints, self._bounds)
        found = np.array(leads.cut, dtype=np.bool_)  # truncated: let the claim look at all of them
        led = [each for each in leads.led if each[1] != batch.ids[each[0]]]
        ids = list(dict.fromkeys(each[1] for each in led))
        cells = self._store.document_cells.get(list(map(formats.document_key, ids))) if ids else []
        for layer in _layers(dict(zip(ids, cells, strict=True))):
            matches = reader.matches(prints, [each for each in led if each[1] in layer], layer, self._bounds)
            found |= np.array(list(map(bool, matches)), dtype=np.bool_)
        return found


def _layers(cells: Mapping[str, NamedCells]) -> Iterator[Now]:
    """Stored and claimed entries, in layers with at most one per id."""
    entries = {
        document: list(_entries(formats.document_key(document), named)) for document, named in cells.items()
    }
    for number in range(max(map(len, entries.values()), default=0)):
        yield {document: found[number] for document, found in entries.items() if number < len(found)}


def _entries(key: bytes, named: NamedCells) -> Iterator[Entry]:
    for name, cell in named.items():
        if name:
            yield PendingCell.decode(key, cell.value).entry
        elif (entry := Entry.decode(key, cell.value)).stored:
            yield entry
