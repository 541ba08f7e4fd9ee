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
from simhbase.filing import Filing
from simhbase.model import AddReport, Rejected
from simhbase.prints import Prints
from simhbase.records import Entry, State
from simhbase.rowkeys import fingerprints_of
from simhbase.sketches import stored_sketches
from simhbase.stores.base import Store

Wish = tuple[int, bytes]  # a document's fingerprint and sketch


@dataclass(frozen=True)
class Writer:
    """Writes documents of one scheme to one store."""

    store: Store
    filing: Filing

    def add(self, ids: Sequence[str], prints: Prints) -> AddReport:
        """Stores n documents, or replaces them; ids that cannot be stored are rejected.

        A document that is stored with the same fingerprint and sketch already costs a read of each.
        All others are durable when this returns.
        """
        wanted, rejected = _admit(ids, prints)
        with self.store.exclusive():
            found = self._entries(list(wanted))
            settled = self._settled(wanted, found)
            now = _now()
            changed = {
                document: _intent(fingerprint, sketch, found.get(document), now)
                for document, (fingerprint, sketch) in wanted.items()
                if document not in settled
            }
            self._carry_out(changed)
        known = [document for document in changed if document in found]
        moved = sum(found[document].fingerprint != changed[document].fingerprint for document in known)
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

    def clear_drawers(self, fingerprints: Sequence[int]) -> None:
        """Removes those of the fingerprints that have no documents from the index, and their sketches.

        The moment is taken before the fingerprint is seen without documents: whoever lists one
        later puts its index rows later still, and they survive this removal.
        """
        with self.store.exclusive():
            moment = self.store.moment()
            empty = [fingerprint for fingerprint, listed in self._listed(fingerprints) if not listed]
            if not empty:
                return
            prints = self._prints(empty, {})
            if len(prints):
                self.store.drawers.remove(self.filing.keys(prints), before=moment)
                self._remove_sketches(prints)

    def clear_rows(self, keys: NDArray[np.uint8]) -> None:
        """Removes those of the index rows whose fingerprints have no documents: (n, 13) uint8."""
        fingerprints = fingerprints_of(keys.tobytes()).tolist()
        with self.store.exclusive():
            moment = self.store.moment()
            listed = dict(self._listed(sorted(set(fingerprints))))
            empty = [not listed[fingerprint] for fingerprint in fingerprints]
            if any(empty):
                self.store.drawers.remove(keys[empty][:, np.newaxis], before=moment)

    def _listed(self, fingerprints: Sequence[int]) -> list[tuple[int, bool]]:
        """The fingerprints, each with whether it has documents."""
        rows = self.store.records("fingerprints").scan(list(map(records.listing_prefix, fingerprints)), 1)
        return [(fingerprint, bool(found)) for fingerprint, found in zip(fingerprints, rows, strict=True)]

    def _remove_sketches(self, prints: Prints) -> None:
        if self.filing.form is None:
            return
        table = self.store.records("fingerprints")
        rows = _sketch_rows(prints)
        table.delete([key for key, _ in rows])
        # Where many processes write, one may have listed a document and written the sketch before it
        # was deleted here: it is put back.
        again = [
            row for row, (_, listed) in zip(rows, self._listed(prints.values.tolist()), strict=True) if listed
        ]
        if again:
            table.put(again)

    def _settled(self, wanted: Mapping[str, Wish], found: Mapping[str, Entry]) -> set[str]:
        """The documents that are stored as they are wanted."""
        same = [
            document
            for document, entry in found.items()
            if entry.state == State.STORED and entry.fingerprint == wanted[document][0]
        ]
        if self.filing.form is None or not same:
            return set(same)
        fingerprints, sketches = zip(*map(wanted.__getitem__, same), strict=True)
        rows = self.store.records("fingerprints").get(list(map(records.sketch_key, fingerprints)))
        return {document for document, sketch, row in zip(same, sketches, rows, strict=True) if sketch == row}

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
            (records.document_key(document), Entry(entry.fingerprint, State.STORED, entry.time).encode())
            for document, entry in kept.items()
        ]
        if settled:
            documents.put(settled)
        if deleted:
            documents.delete(list(map(records.document_key, deleted)))
        self.store.sync()

    def _list(self, entries: Mapping[str, Entry]) -> None:
        """Puts documents under their fingerprints, with their sketches, then the fingerprints into
        their drawers."""
        if not entries:
            return
        sketches = {entry.fingerprint: entry.sketch for entry in entries.values() if entry.sketch}
        self.store.records("fingerprints").put(
            [
                (records.listing_key(entry.fingerprint, document), records.encode_time(entry.time))
                for document, entry in entries.items()
            ]
            + [(records.sketch_key(fingerprint), sketch) for fingerprint, sketch in sketches.items()]
        )
        distinct = list(dict.fromkeys(entry.fingerprint for entry in entries.values()))
        self.store.drawers.add(self.filing.keys(self._prints(distinct, sketches)))

    def _prints(self, fingerprints: Sequence[int], sketches: Mapping[int, bytes]) -> Prints:
        """The fingerprints with their sketches: the given ones, the store's for the others; without
        those whose sketch is lost."""
        values = np.array(fingerprints, dtype=np.uint64)
        form = self.filing.form
        if form is None:
            return Prints.bare(values)
        found = np.empty((len(values), form.bytes), dtype=np.uint8)
        given = np.array([fingerprint in sketches for fingerprint in fingerprints], dtype=np.bool_)
        there = given.copy()
        content = b"".join(sketches[fingerprint] for fingerprint in values[given].tolist())
        found[given] = np.frombuffer(content, dtype=np.uint8).reshape(-1, form.bytes)
        if not given.all():
            found[~given], there[~given] = stored_sketches(self.store, values[~given].tolist(), form)
        return Prints(values[there], found[there])


def _admit(ids: Sequence[str], prints: Prints) -> tuple[dict[str, Wish], list[Rejected]]:
    """What is wanted of the documents that can be stored, and those that cannot."""
    wanted: dict[str, Wish] = {}
    rejected = []
    for document, fingerprint, sketch in zip(ids, prints.values.tolist(), prints.sketch_bytes(), strict=True):
        problem = records.id_problem(document)
        if problem is None and document in wanted:
            problem = "the same id came earlier in the same call"
        if problem is None:
            wanted[document] = fingerprint, sketch
        else:
            rejected.append(Rejected(document, problem))
    return wanted, rejected


def _intent(fingerprint: int, sketch: bytes, found: Entry | None, now: int) -> Entry:
    """What to write for a document, given its row: all that it had before becomes old."""
    former = (found.fingerprint, *found.old) if found else ()
    old = tuple(dict.fromkeys(value for value in former if value != fingerprint))
    return Entry(fingerprint, State.WRITING, now, old, sketch)


def _unfinished(entry: Entry) -> Entry:
    """The intent that a row calls for; a settled one is written anew."""
    return entry if entry.state == State.DELETING else replace(entry, state=State.WRITING)


def _sketch_rows(prints: Prints) -> list[tuple[bytes, bytes]]:
    keys = map(records.sketch_key, prints.values.tolist())
    return list(zip(keys, prints.sketch_bytes(), strict=True))


def _now() -> int:
    return time.time_ns() // 1_000_000
