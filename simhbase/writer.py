"""Fingerprints -> rows, in an order that a crash cannot break.

A document's row in the documents table is the intent: written first, settled last. Whatever stops
in between is finished by repeating the call, by the next write of the same id, or by check --repair.
Every step is one store call for the whole batch, and each may be repeated.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from simhbase import records
from simhbase.layout import Layout
from simhbase.model import AddReport, Rejected
from simhbase.records import Entry, State
from simhbase.rowkeys import encode
from simhbase.stores.base import Store


@dataclass(frozen=True)
class Writer:
    """Writes documents of one layout to one store."""

    store: Store
    layout: Layout

    def add(self, ids: Sequence[str], fingerprints: NDArray[np.uint64]) -> AddReport:
        """Stores n documents, or replaces them; ids that cannot be stored are rejected.

        A document that is stored with the same fingerprint already costs one read. All others are
        durable when this returns.
        """
        wanted, rejected = _admit(ids, fingerprints.tolist())
        with self.store.exclusive():
            found = self._entries(list(wanted))
            now = _now()
            changed = {
                document: _intent(fingerprint, found.get(document), now)
                for document, fingerprint in wanted.items()
                if not _is_settled(found.get(document), fingerprint)
            }
            self._carry_out(changed)
        known = [document for document in changed if document in found]
        moved = sum(found[document].fingerprint != wanted[document] for document in known)
        return AddReport(
            added=len(changed) - len(known),
            moved=moved,
            unchanged=len(wanted) - len(changed) + len(known) - moved,
            rejected=tuple(rejected),
        )

    def delete(self, ids: Sequence[str]) -> int:
        """Removes documents; returns how many of the ids were stored."""
        with self.store.exclusive():
            found = self._entries(
                [document for document in dict.fromkeys(ids) if not records.id_problem(document)]
            )
            now = _now()
            self._carry_out(
                {
                    document: replace(entry, state=State.DELETING, time=now)
                    for document, entry in found.items()
                }
            )
        return len(found)

    def finish(self, ids: Sequence[str]) -> None:
        """Brings documents into the state that their rows call for, whatever is there by now."""
        with self.store.exclusive():
            self._carry_out({document: _unfinished(entry) for document, entry in self._entries(ids).items()})

    def unlist(self, listings: Sequence[tuple[str, int]]) -> None:
        """Removes documents (id, fingerprint) from fingerprints they do not have, and the drawers
        of those fingerprints that are left without any."""
        if not listings:
            return
        keys = [records.listing_key(fingerprint, document) for document, fingerprint in listings]
        with self.store.exclusive():
            self.store.records("fingerprints").delete(keys)
            self.clear_drawers(sorted({fingerprint for _, fingerprint in listings}))

    def clear_drawers(self, fingerprints: Sequence[int]) -> int:
        """Removes from the index those of the fingerprints that have no documents; returns how many.

        The moment is taken before the fingerprint is seen without documents: whoever lists one
        later puts its index rows later still, and they survive this removal.
        """
        prefixes = list(map(records.listing_prefix, fingerprints))
        with self.store.exclusive():
            moment = self.store.moment()
            left = self.store.records("fingerprints").scan(prefixes, limit=1)
            empty = [fingerprint for fingerprint, rows in zip(fingerprints, left, strict=True) if not rows]
            if empty:
                self.store.drawers.remove(self._keys(empty), before=moment)
        return len(empty)

    def _entries(self, ids: Sequence[str]) -> dict[str, Entry]:
        """The rows of the documents among ids that have one."""
        values = self.store.records("documents").get(list(map(records.document_key, ids)))
        return {
            document: Entry.decode(value)
            for document, value in zip(ids, values, strict=True)
            if value is not None
        }

    def _carry_out(self, entries: Mapping[str, Entry]) -> None:
        """Writes the intents, does the work and settles the rows."""
        if not entries:
            return
        documents = self.store.records("documents")
        kept = {document: entry for document, entry in entries.items() if entry.state != State.DELETING}
        deleted = {document: entry for document, entry in entries.items() if entry.state == State.DELETING}
        documents.put(
            [(records.document_key(document), entry.encode()) for document, entry in entries.items()]
        )
        self._list(kept)
        self.unlist(
            [(document, old) for document, entry in entries.items() for old in entry.old]
            + [(document, entry.fingerprint) for document, entry in deleted.items()]
        )
        settled = [
            (records.document_key(document), replace(entry, state=State.STORED, old=()).encode())
            for document, entry in kept.items()
        ]
        if settled:
            documents.put(settled)
        if deleted:
            documents.delete(list(map(records.document_key, deleted)))
        self.store.sync()

    def _list(self, entries: Mapping[str, Entry]) -> None:
        """Puts documents under their fingerprints, then the fingerprints into their drawers."""
        if not entries:
            return
        self.store.records("fingerprints").put(
            [
                (records.listing_key(entry.fingerprint, document), records.encode_time(entry.time))
                for document, entry in entries.items()
            ]
        )
        self.store.drawers.add(
            self._keys(list(dict.fromkeys(entry.fingerprint for entry in entries.values())))
        )

    def _keys(self, fingerprints: Sequence[int]) -> NDArray[np.uint8]:
        return encode(np.array(fingerprints, dtype=np.uint64), self.layout)


def _admit(ids: Sequence[str], fingerprints: Sequence[int]) -> tuple[dict[str, int], list[Rejected]]:
    """The documents that can be stored, and those that cannot."""
    wanted: dict[str, int] = {}
    rejected = []
    for document, fingerprint in zip(ids, fingerprints, strict=True):
        problem = records.id_problem(document)
        if problem is None and document in wanted:
            problem = "the same id came earlier in the same call"
        if problem is None:
            wanted[document] = fingerprint
        else:
            rejected.append(Rejected(document, problem))
    return wanted, rejected


def _intent(fingerprint: int, found: Entry | None, now: int) -> Entry:
    """What to write for a document, given its row: all that it had before becomes old."""
    former = (found.fingerprint, *found.old) if found else ()
    old = tuple(dict.fromkeys(value for value in former if value != fingerprint))
    return Entry(fingerprint, State.WRITING, now, old)


def _unfinished(entry: Entry) -> Entry:
    """The intent that a row calls for; a settled one is written anew."""
    return entry if entry.state == State.DELETING else replace(entry, state=State.WRITING)


def _is_settled(found: Entry | None, fingerprint: int) -> bool:
    return found is not None and found.state == State.STORED and found.fingerprint == fingerprint


def _now() -> int:
    return time.time_ns() // 1_000_000
