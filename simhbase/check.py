"""Compares the tables of an index with each other, and mends what crashes and lost rows left.

Three passes, each in bounded memory: documents against the other two tables, listed documents
against the documents table, index rows against the fingerprints table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from simhbase import records
from simhbase.layout import Layout
from simhbase.records import Entry, State
from simhbase.rowkeys import decode, encode
from simhbase.stores.base import RecordTable, Store
from simhbase.writer import Writer

UNFINISHED = "documents whose write or delete was not finished"
UNLISTED = "documents that their fingerprint does not list"
UNINDEXED = "documents that are missing from a drawer"
STRAY_LISTING = "listed documents that are not stored or have another fingerprint"
STRAY_ROW = "index rows of fingerprints without documents"
WRONG_ROW = "index rows that are no row of their fingerprint"
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
    layout: Layout
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
        unindexed = set(self._unindexed(stored))
        for document in stored:
            if document in unlisted:
                report.note(UNLISTED, document)
            if document in unindexed:
                report.note(UNINDEXED, document)
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

    def _unindexed(self, stored: dict[str, Entry]) -> Iterator[str]:
        fingerprints = np.array([entry.fingerprint for entry in stored.values()], dtype=np.uint64)
        there = np.logical_and.reduce(self.store.drawers.contains(encode(fingerprints, self.layout)), axis=1)
        return (document for document, complete in zip(stored, there.tolist(), strict=True) if not complete)

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

    def _index_rows(self, keys: NDArray[np.uint8], report: CheckReport) -> None:
        report.index_rows += len(keys)
        _, flags, fingerprints = decode(keys)
        right = self._expected(flags, fingerprints, keys)
        for key in keys[~right]:
            report.note(WRONG_ROW, key.tobytes().hex())
        if self.writer and not right.all():
            self.store.drawers.remove(keys[~right][:, np.newaxis], before=self.store.moment())
        distinct, counts = np.unique(fingerprints[right], return_counts=True)
        listed = self.store.records("fingerprints").scan(
            [records.listing_prefix(fingerprint) for fingerprint in distinct.tolist()], limit=1
        )
        stray = [
            (fingerprint, rows)
            for fingerprint, rows, listing in zip(distinct.tolist(), counts.tolist(), listed, strict=True)
            if not listing
        ]
        for fingerprint, rows in stray:
            for _ in range(rows):
                report.note(STRAY_ROW, f"{fingerprint:016x}")
        if self.writer and stray:
            self.writer.clear_drawers([fingerprint for fingerprint, _ in stray])

    def _expected(
        self, flags: NDArray[np.uint8], fingerprints: NDArray[np.uint64], keys: NDArray[np.uint8]
    ) -> NDArray[np.bool_]:
        """Which keys are the ones that the layout makes of their fingerprints."""
        known = (flags >= 1) & (flags <= len(self.layout.tables))
        made = encode(fingerprints, self.layout)[np.arange(len(keys)), np.where(known, flags, 1) - 1]
        right: NDArray[np.bool_] = known & np.logical_and.reduce(made == keys, axis=1)
        return right


def _has(entry: Entry, fingerprint: int) -> bool:
    return fingerprint in (entry.fingerprint, *entry.old)
