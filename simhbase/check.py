"""Compares the tables of an index with each other, and mends what crashes and lost rows left.

Three passes, each in bounded memory: documents against the other two tables, listed documents
against the documents table, index rows against the fingerprints table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import compress
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from simhbase import records
from simhbase.filing import Filing
from simhbase.prints import Prints
from simhbase.records import Entry, State
from simhbase.rowkeys import decode
from simhbase.sketches import stored_sketches
from simhbase.stores.base import RecordTable, Store
from simhbase.writer import Writer

UNFINISHED = "documents whose write or delete was not finished"
UNLISTED = "documents that their fingerprint does not list"
UNINDEXED = "documents that are missing from a drawer"
STRAY_LISTING = "listed documents that are not stored or have another fingerprint"
STRAY_ROW = "index rows of fingerprints without documents"
WRONG_ROW = "index rows that are no row of their fingerprint"
UNSKETCHED = "documents whose fingerprint has lost its sketch: load their texts again"
STRAY_SKETCH = "sketches of fingerprints without documents"
UNREADABLE = "rows that cannot be read"
EXAMPLES = 5
Parsed = TypeVar("Parsed")


@dataclass
class CheckReport:
    """What a check read and found: rows a table, problems by kind with a few examples of each."""

    documents: int = 0
    listings: int = 0
    index_rows: int = 0
    problems: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def note(self, kind: str, what: str) -> None:
        """Counts a problem."""
        self.problems[kind] += 1
        examples = self.examples.setdefault(kind, [])
        if len(examples) < EXAMPLES:
            examples.append(what)


@dataclass(frozen=True)
class Checker:
    """Checks one index; with a writer, each problem found is mended at once.

    progress: called with the number of rows read since the last call.
    """

    store: Store
    filing: Filing
    writer: Writer | None = None
    progress: Callable[[int], None] = lambda rows: None

    def check(self) -> CheckReport:
        """All three passes."""
        report = CheckReport()
        # What is read again and mended must not change in between: each batch holds the lock.
        for batch in self.store.records("documents").iterate():
            with self.store.exclusive():
                self._documents(batch, report)
            self.progress(len(batch))
        for batch in self.store.records("fingerprints").iterate():
            with self.store.exclusive():
                self._listings(batch, report)
            self.progress(len(batch))
        for keys in self.store.drawers.iterate():
            with self.store.exclusive():
                self._index_rows(keys, report)
            self.progress(len(keys))
        return report

    def _documents(self, batch: list[tuple[bytes, bytes]], report: CheckReport) -> None:
        report.documents += len(batch)
        entries = dict(
            self._readable(
                "documents", [(key, records.parse_document(key, value)) for key, value in batch], report
            )
        )
        stored = {document: entry for document, entry in entries.items() if entry.state == State.STORED}
        bad = [document for document in entries if document not in stored]
        for document in bad:
            report.note(UNFINISHED, document)
        unlisted = set(self._unlisted(stored))
        unsketched, unindexed = map(set, self._unindexed(stored))
        for document in stored:
            for kind, those in ((UNLISTED, unlisted), (UNSKETCHED, unsketched), (UNINDEXED, unindexed)):
                if document in those:
                    report.note(kind, document)
        bad += sorted(unlisted | unindexed)
        if self.writer and bad:
            self.writer.finish(bad)

    def _readable(
        self, table: RecordTable, rows: list[tuple[bytes, Parsed | None]], report: CheckReport
    ) -> list[Parsed]:
        """What was read of rows; those that could not be are noted and removed."""
        unreadable = [key for key, parsed in rows if parsed is None]
        for key in unreadable:
            report.note(UNREADABLE, f"{table} {key.hex()}")
        if self.writer and unreadable:
            self.store.records(table).delete(unreadable)
        return [parsed for _, parsed in rows if parsed is not None]

    def _unlisted(self, stored: dict[str, Entry]) -> Iterator[str]:
        keys = [records.listing_key(entry.fingerprint, document) for document, entry in stored.items()]
        values = self.store.records("fingerprints").get(keys)
        return (document for document, value in zip(stored, values, strict=True) if value is None)

    def _unindexed(self, stored: dict[str, Entry]) -> tuple[list[str], list[str]]:
        """The documents whose sketch is lost, and those of the others that a drawer lacks."""
        prints, sketched = self._prints([entry.fingerprint for entry in stored.values()])
        there = np.logical_and.reduce(self.store.drawers.contains(self.filing.keys(prints)), axis=1)
        names = list(stored)
        return list(compress(names, ~sketched)), list(compress(names, sketched & ~there))

    def _prints(self, fingerprints: list[int]) -> tuple[Prints, NDArray[np.bool_]]:
        """Fingerprints with their sketches, and which of them have theirs: bool (n,)."""
        values = np.array(fingerprints, dtype=np.uint64)
        if self.filing.form is None:
            return Prints.bare(values), np.ones(len(values), dtype=np.bool_)
        sketches, there = stored_sketches(self.store, fingerprints, self.filing.form)
        return Prints(values, sketches), there

    def _listings(self, batch: list[tuple[bytes, bytes]], report: CheckReport) -> None:
        listings = self._readable(
            "fingerprints",
            [(key, records.parse_listing(key)) for key, _ in batch if records.is_listing(key)],
            report,
        )
        report.listings += len(listings)
        values = self.store.records("documents").get(
            [records.document_key(document) for _, document in listings]
        )
        stray = [
            (document, fingerprint)
            for (fingerprint, document), value in zip(listings, values, strict=True)
            if value is None or not _has(Entry.decode(value), fingerprint)
        ]
        for document, fingerprint in stray:
            report.note(STRAY_LISTING, f"{document} under {fingerprint:016x}")
        if self.writer:
            self.writer.unlist(stray)
        self._sketches(batch, report)

    def _sketches(self, batch: list[tuple[bytes, bytes]], report: CheckReport) -> None:
        rows = {key: records.sketched(key) for key, _ in batch}
        found = [fingerprint for fingerprint in rows.values() if fingerprint is not None]
        listed = self.store.records("fingerprints").scan(list(map(records.listing_prefix, found)), limit=1)
        empty = [fingerprint for fingerprint, rows in zip(found, listed, strict=True) if not rows]
        # Those of stray listings went with them.
        left = self.store.records("fingerprints").get(list(map(records.sketch_key, empty)))
        stray = [fingerprint for fingerprint, row in zip(empty, left, strict=True) if row is not None]
        for fingerprint in stray:
            report.note(STRAY_SKETCH, f"{fingerprint:016x}")
        if self.writer and stray:
            self.writer.clear_drawers(stray)

    def _index_rows(self, keys: NDArray[np.uint8], report: CheckReport) -> None:
        report.index_rows += len(keys)
        _, flags, fingerprints = decode(keys)
        distinct, place = np.unique(fingerprints, return_inverse=True)
        prints, sketched = self._prints(distinct.tolist())
        # Rows of a fingerprint that has lost its sketch cannot be told from others.
        wrong = sketched[place] & ~self._expected(flags, prints[place], keys)
        for key in keys[wrong]:
            report.note(WRONG_ROW, key.tobytes().hex())
        if self.writer and wrong.any():
            self.store.drawers.remove(keys[wrong][:, np.newaxis], before=self.store.moment())
        listed = self.store.records("fingerprints").scan(
            [records.listing_prefix(fingerprint) for fingerprint in distinct.tolist()], limit=1
        )
        empty = np.array([not listing for listing in listed], dtype=np.bool_)
        stray = ~wrong & empty[place]
        for fingerprint in fingerprints[stray].tolist():
            report.note(STRAY_ROW, f"{fingerprint:016x}")
        if self.writer and stray.any():
            self.writer.clear_rows(keys[stray])

    def _expected(
        self, flags: NDArray[np.uint8], prints: Prints, keys: NDArray[np.uint8]
    ) -> NDArray[np.bool_]:
        """Which keys are the ones that the scheme makes of their fingerprints."""
        known = (flags >= 1) & (flags <= self.filing.tables)
        made = self.filing.keys(prints)[np.arange(len(keys)), np.where(known, flags, 1) - 1]
        right: NDArray[np.bool_] = known & np.logical_and.reduce(made == keys, axis=1)
        return right


def _has(entry: Entry, fingerprint: int) -> bool:
    return fingerprint in (entry.fingerprint, *entry.old)
