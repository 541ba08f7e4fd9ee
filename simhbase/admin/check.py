"""Compares the tables of an index with each other, and repairs what crashes and lost rows left.

All rows are read once, in key order, and compared by checksums (`simhbase/index/sums.py`). Suspect rows are
read again and looked up: listings in the documents table, documents in the tables that lead to them, index
rows in the fingerprints table. This is safe beside writers: an apparent problem is read once more before it
is counted or repaired, and hints younger than the grace time are left alone. Part of an index (a key range of
each table) can be checked separately; its rows belong to several parts of the other tables, so all of them
are looked up.

A repair writes the listings and index rows that documents lack. It removes listings and index rows that no
document needs, claims older than the grace time, and what cannot be read: rows of documents, fingerprints and
refused claims, the mute list and logs of loads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from simhbase.admin.removal import Agree, Removal
from simhbase.admin.stats import sizes
from simhbase.admin.vacuum import GRACE, Vacuum, VacuumReport, last_written
from simhbase.drawers.rowkeys import decode
from simhbase.drawers.scheme import Scheme
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import rows
from simhbase.index.counts import damaged_rows
from simhbase.index.load_log import LOAD_ROWS, remove_damaged
from simhbase.index.mute import MUTE_ROWS
from simhbase.index.part import WHOLE, Part, part_of
from simhbase.index.rows import Entry, PendingCell
from simhbase.index.stored_profile import read_profile
from simhbase.index.sums import Sums, row_hashes
from simhbase.index.writer import Known, Writer, batch_of, first_listed, known
from simhbase.process.progress import Progress, counting, no_progress
from simhbase.stores import backend
from simhbase.stores.base import (
    MET,
    Cell,
    Changes,
    HintingStore,
    IndexRows,
    NamedCells,
    RecordTable,
    Row,
    Store,
    now,
)
from simhbase.stores.checked import is_intact
from simhbase.stores.meta import damaged_in, quoted, remedy
from simhbase.stores.strings import Strings

UNLISTED = "documents that are not listed under their fingerprint"
UNINDEXED = "documents that are missing from a drawer"
UNSKETCHED = "documents whose sketch is lost: load their texts again"
STRAY_LISTING = "listed documents that are not stored or have another fingerprint"
STRAY_ROW = "index rows of fingerprints without documents"
WRONG_ROW = "index rows that do not belong to their fingerprint"
UNREADABLE = "unreadable rows"
OF_CLAIM = "a claim: a repair removes it a day after it was written"
ABANDONED = "abandoned claims"
MISCOUNTED = "tables that have lost rows: load their documents again"
DAMAGED_META = "damaged rows of the table meta"
LOST_META = "damaged rows of the table meta that a repair cannot mend"
# In multi-writer stores: takes space, otherwise harmless.
GARBAGE = frozenset([STRAY_LISTING, STRAY_ROW, ABANDONED])
META_ROWS = {**MUTE_ROWS, **LOAD_ROWS}  # JSON in meta, by what the keys begin with
_REMOVABLE = (b"muted", b"load")  # rows of meta
EXAMPLES = 5
MOST_PASSES = 5  # of a repair
# Milliseconds before a row expires in which other rows of its document may have expired.
EXPIRING = 2 * 3600 * 1000


@dataclass
class CheckReport:
    """Result of a check, counted as it runs.

    documents: that are stored; listings, index_rows: rows read; all by the last pass. problems, garbage:
    counts by kind in the first pass, with examples. Garbage is what crashes and updates leave in HBase: it
    takes space, but lookups ignore it. passes: more than one after a repair. clean: no problems, or
    none left. removable: rows that a repair removes, by table, in the first pass.
    """

    documents: int = 0
    listings: int = 0
    index_rows: int = 0
    problems: dict[str, int] = field(default_factory=Counter)
    garbage: dict[str, int] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)
    passes: int = 1
    clean: bool = True
    removable: dict[str, int] = field(default_factory=Counter)

    @property
    def repairable(self) -> bool:
        """True if there are problems that a repair mends."""
        return bool(self.problems.keys() - {UNSKETCHED, LOST_META})

    @property
    def to_repair(self) -> bool:
        """True if a repair has work."""
        return self.repairable or bool(self.garbage)

    def removals(self, url: str) -> Iterator[Removal]:
        """What a repair would remove, by table."""
        rows: dict[str, int] = {
            "documents": self.documents + self.removable.get("documents", 0),
            "fingerprints": self.listings,
            "index": self.index_rows,
            # The mute list, logs of loads, times of refused claims: always asks.
            **{table: self.removable.get(table, 0) for table in ("meta", MET)},
        }
        for table, count in self.removable.items():
            yield Removal(count, rows[table], f"rows of the table {table}", url)


def check(
    url: str,
    repair: bool = False,
    *,
    part: Part | tuple[int, int] = WHOLE,
    agree: Agree | None = None,
    progress: Progress = no_progress,
) -> CheckReport:
    """Compare the rows of a store's tables with each other.

    repair: repair problems until a pass finds none, and remove rows that cannot be read, and garbage older
    than a day. part: (1, 100) checks the first of 100 equal parts of each table. agree: called before a
    repair, for each table with the number of rows that it would remove, which takes a pass before the repair;
    may raise. progress: reports the rows read. Safe beside writers.
    Raises UsageError for an invalid part, and the errors of `simhbase.open`.

    `simhbase.tables.check` checks the attributes of the tables.
    """
    part = part_of(part)
    passes: list[CheckReport] = []
    with closing(backend(url).open("write" if repair else "read")) as store:
        scheme = read_profile(store).profile.index_scheme

        def rows() -> int:
            return sum(size.rows for size in sizes(store).values()) // part.of

        def checked(repair: bool) -> CheckReport:
            with counting(progress, "rows", rows) as note:
                return Checker(store, scheme, repair, clock=store.now, progress=note).check(part)

        passes.append(checked(repair=repair and agree is None))
        if repair and agree is not None and passes[0].to_repair:
            for removal in passes[0].removals(url):
                agree(removal)
            passes.append(checked(repair=True))
        while repair and passes[-1].to_repair and len(passes) < MOST_PASSES:
            passes.append(checked(repair=True))
    first = passes[0]
    return replace(
        passes[-1],
        problems=dict(first.problems),
        garbage=dict(first.garbage),
        examples=first.examples,
        removable={table: count for table, count in first.removable.items() if count},
        passes=len(passes),
    )


def _chosen(batch: Sequence[Row], which: NDArray[np.bool_]) -> list[Row]:
    return [batch[number] for number in np.flatnonzero(which).tolist()]


@dataclass(frozen=True)
class Checker:
    """Checks one index.

    repair: repair each problem at once, and remove garbage; grace: seconds in which hints are left alone;
    progress: called with the number of rows read.
    """

    store: Store
    scheme: Scheme
    repair: bool = False
    grace: float = GRACE
    clock: Callable[[], int] = field(default=now)
    progress: Callable[[int], None] = lambda rows: None

    def check(self, part: Part = WHOLE) -> CheckReport:
        report = CheckReport()
        self._note(report, MISCOUNTED, self.store.recount(repair=self.repair))
        self._meta(part, report)
        if MET in self.store.tables:
            self._met(part, report)
        if part.of == 1:
            self._check_in_doubt(self._sums(report), report)
        else:
            self._check_all(part, report)
        if self.repair:
            self.store.sync()
        return report

    def _meta(self, part: Part, report: CheckReport) -> None:
        """Checks rows of meta. Removes the mute list and logs of loads, which all else works without."""
        for batch in self.store.records("meta").iterate(*part.keys()):
            damaged = damaged_in(batch, META_ROWS)
            going = [key for key in damaged if key.startswith(_REMOVABLE)]
            lost = [key for key in damaged if not key.startswith(_REMOVABLE)]
            self._note(report, DAMAGED_META, [f"{quoted(key)}: {remedy(key)}" for key in going])
            self._note(report, LOST_META, [f"{quoted(key)}: {remedy(key)}" for key in lost])
            report.removable["meta"] += len(going)
            if self.repair:
                self.store.records("meta").delete(going)
                remove_damaged(self.store, [key for key in going if key.startswith(b"load")])

    def _met(self, part: Part, report: CheckReport) -> None:
        """Checks rows of refused claims. Those whose document is gone are left to vacuum."""
        for batch in self.store.records(MET).iterate(*part.keys()):
            self._remove_unreadable(MET, damaged_rows(batch), report)
            self.progress(len(batch))

    def _document_rows(self, part: Part, report: CheckReport) -> Iterator[list[Row]]:
        """Documents rows; checks pending claims on the way."""
        if not self.store.keeps_hints:
            yield from self.store.records("documents").iterate(*part.keys())
            return
        for batch in cast(HintingStore, self.store).document_cells.iterate(*part.keys()):
            self._pending(batch, report)
            yield [(key, cells[b""]) for key, cells in batch if b"" in cells]

    def _pending(self, batch: Sequence[tuple[bytes, NamedCells]], report: CheckReport) -> None:
        """Counts claims that are damaged or abandoned, and ends those older than the grace time: until then
        claims of near texts wait for them."""
        claims = [(key, token, cells) for key, cells in batch for token in cells if token]
        damaged = {(key, token) for key, token, cells in claims if not is_intact(key, cells[token].value)}
        old = [(key, token, cells) for key, token, cells in claims if cells[token].version < self._before]
        abandoned = [each for each in old if each[:2] not in damaged]
        self._note(report, UNREADABLE, [f"documents {key.hex()}, {OF_CLAIM}" for key, _ in sorted(damaged)])
        self._note(report, ABANDONED, [quoted(key[4:])[1:-1] for key, _, _ in abandoned])
        report.removable["documents"] += len(old) - len(abandoned)
        if self.repair:
            left = [
                (rows.document_id(key), Entry(pending.fingerprint))
                for key, token, cells in abandoned
                if (pending := PendingCell.decode(key, cells[token].value))
                and not _is_stored(key, cells, pending.fingerprint)
            ]
            Writer(self.store, self.scheme, self.clock).note_obsolete(left)
            cast(HintingStore, self.store).document_cells.delete(
                [(key, token) for key, token, _ in old], [cells[token].version for _, token, cells in old]
            )

    def _sums(self, report: CheckReport) -> Sums:
        sums = Sums(self.scheme)
        for batch in self._document_rows(WHOLE, report):
            report.documents += sums.put_documents(batch)
            self.progress(len(batch))
        for batch in self.store.records("fingerprints").iterate():
            report.listings += sums.put_listings(batch)
            self.progress(len(batch))
        for found in self.store.drawers.iterate():
            sums.rows.change(np.subtract, row_hashes(found.keys))
            report.index_rows += len(found.keys)
            self.progress(len(found.keys))
        return sums

    def _check_in_doubt(self, sums: Sums, report: CheckReport) -> None:
        """Looks up the suspect rows."""
        doubted = np.empty(0, dtype=np.uint64)  # fingerprints that a drawer may lack
        # In a store with one writing process, rows must not change between reading and repair.
        if sums.listings or sums.rows or sums.odd_listings:
            for batch in self.store.records("fingerprints").iterate():
                said = sums.listed(batch)
                doubted = np.union1d(doubted, sums.drawers_in_doubt(batch, said))
                chosen = _chosen(batch, said.odd | sums.listings.in_doubt(said.hashes))
                if chosen:
                    with self.store.exclusive():
                        self._listings(chosen, report)
        if sums.listings or sums.odd_documents or len(doubted):
            for batch in self.store.records("documents").iterate():
                said = sums.stored(batch)
                in_doubt = sums.listings.in_doubt(said.hashes) | np.isin(said.fingerprints, doubted)
                chosen = _chosen(batch, said.odd | (said.counts & in_doubt))
                if chosen:
                    with self.store.exclusive():
                        self._documents(chosen, report)
        if sums.rows:
            for found in self.store.drawers.iterate():
                in_doubt = sums.rows.in_doubt(row_hashes(found.keys))
                if in_doubt.any():
                    with self.store.exclusive():
                        self._index_rows(IndexRows(found.keys[in_doubt], found.times[in_doubt]), report)

    def _check_all(self, part: Part, report: CheckReport) -> None:
        """Looks up all rows of a part."""
        for batch in self._document_rows(part, report):
            with self.store.exclusive():
                report.documents += self._documents(batch, report)
            self.progress(len(batch))
        for batch in self.store.records("fingerprints").iterate(*part.keys()):
            with self.store.exclusive():
                report.listings += self._listings(batch, report)
            self.progress(len(batch))
        for found in self.store.drawers.iterate(*part.keys()):
            with self.store.exclusive():
                self._index_rows(found, report)
            report.index_rows += len(found.keys)
            self.progress(len(found.keys))

    @property
    def _before(self) -> int:
        """Rows with lower versions can be judged: all of them if tables change in one step."""
        return self.clock() - int(self.grace * 1000) if self.store.keeps_hints else 1 << 62

    def _note(self, report: CheckReport, kind: str, what: Sequence[str]) -> None:
        if not what:
            return
        is_garbage = kind in GARBAGE and self.store.keeps_hints
        (report.garbage if is_garbage else report.problems)[kind] += len(what)
        report.clean &= is_garbage
        examples = report.examples.setdefault(kind, [])
        examples += what[: EXAMPLES - len(examples)]

    def _documents(self, batch: Sequence[Row], report: CheckReport) -> int:
        """Checks rows; returns how many are of documents that are stored."""
        stored: dict[str, Known] = {}
        count = 0
        unreadable = []
        # Rows of one document do not expire at the same moment.
        ttl = self.store.ttl() if self.store.keeps_hints else None
        least = self.clock() + EXPIRING - ttl * 1000 if isinstance(ttl, int) else 0
        sketched = self.scheme.sketching is not None and self.scheme.listed_sketching is None
        for key, cell in batch:
            parsed = rows.parse_document(key, cell.value)
            if parsed is None or (parsed[1].sketch and not sketched):
                unreadable.append((key, cell.version))
            elif parsed[1].stored:
                count += 1
                if cell.version >= least:
                    stored[parsed[0]] = Known(parsed[1], cell.version)
        self._remove_unreadable("documents", unreadable, report)
        wrong = self._damaged(stored)
        # Read again: hints of documents updated since are left to vacuum.
        names = [document for document in stored if any(document in damaged for damaged in wrong.values())]
        same = {
            document
            for document, each in zip(names, known(self.store, names), strict=True)
            if each == stored[document]
        }
        for kind, damaged in wrong.items():
            self._note(report, kind, [document for document in damaged if document in same])
        if self.repair and same:
            mended = [document for document in names if document in same]
            self._mend({document: stored[document] for document in mended}, wrong[UNSKETCHED])
        return count

    def _remove_unreadable(
        self, table: RecordTable, found: Sequence[tuple[bytes, int]], report: CheckReport
    ) -> None:
        self._note(report, UNREADABLE, [f"{table} {key.hex()}" for key, _ in found])
        report.removable[table] += len(found)
        if self.repair and found:
            self.store.records(table).delete([key for key, _ in found], [version for _, version in found])

    def _damaged(self, stored: Mapping[str, Known]) -> dict[str, set[str]]:
        """Documents with missing rows, by kind of problem."""
        names = list(stored)
        keys = [rows.listing_key(stored[document].entry.fingerprint, document) for document in names]
        cells = self.store.records("fingerprints").get(keys)
        listed_sketching, sketching = self.scheme.listed_sketching, self.scheme.sketching
        size = sketching.bytes if sketching else 0
        unlisted = {
            name for name, cell in zip(names, cells, strict=True) if cell is None and not listed_sketching
        }
        sketches = _sketches(names, keys, cells)
        unsketched = {
            name
            for name in names
            if len(sketches[name] if listed_sketching else stored[name].entry.sketch) != size
        }
        whole = [
            (document, sketch)
            for document, sketch in sketches.items()
            if document not in unsketched or not listed_sketching
        ]
        listed = [
            (stored[name].entry.fingerprint, sketch if listed_sketching else b"") for name, sketch in whole
        ]
        fingerprints = batch_of(listed, listed_sketching)
        there = np.logical_and.reduce(self.store.drawers.times(self.scheme.keys(fingerprints)) >= 0, axis=1)
        unindexed = {name for (name, _), found in zip(whole, there.tolist(), strict=True) if not found}
        return {UNLISTED: unlisted, UNSKETCHED: unsketched, UNINDEXED: unindexed}

    def _mend(self, stored: Mapping[str, Known], unsketched: set[str]) -> None:
        """Writes the hints of documents again, except those that need a lost sketch: that takes the text."""
        if self.scheme.listed_sketching:
            stored = {name: each for name, each in stored.items() if name not in unsketched}
        keys = {name: rows.listing_key(each.entry.fingerprint, name) for name, each in stored.items()}
        cells = self.store.records("fingerprints").get(list(keys.values()))
        listed = dict(zip(keys, cells, strict=True))
        missing = [name for name, cell in listed.items() if not cell]
        # Later than the delete that removed them, which would hide them otherwise.
        version = max([self.clock(), *(stored[name].version + 1 for name in missing)])
        sketches = _sketches(listed, keys.values(), cells)
        sketched = {each.entry.fingerprint: sketches[name] for name, each in stored.items()}
        fingerprints = batch_of(list(sketched.items()), self.scheme.listed_sketching)
        listings = Strings.of([keys[name] for name in missing]), Strings.empty(len(missing))
        self.store.commit(Changes(version, self.scheme.keys(fingerprints), put={"fingerprints": listings}))

    def _listings(self, batch: Sequence[Row], report: CheckReport) -> int:
        """Checks rows of the fingerprints table; returns how many are readable."""
        listed: dict[tuple[int, str], int] = {}
        unreadable = []
        for key, cell in batch:
            parsed = rows.parse_listing(key)
            if parsed is None:
                unreadable.append((key, cell.version))
            else:
                listed[parsed] = cell.version
        self._remove_unreadable("fingerprints", unreadable, report)
        stray = self._stray_listings(listed)
        self._note(report, STRAY_LISTING, [f"{document} under {value:016x}" for value, document in stray])
        report.removable["fingerprints"] += len(stray)
        if self.repair and stray:
            vacuum = Vacuum(self.store, self.scheme, self.grace, self.clock)
            vacuum.remove(stray, self._before, VacuumReport())
        return len(listed)

    def _stray_listings(self, listed: Mapping[tuple[int, str], int]) -> list[tuple[int, str]]:
        """Listings (with their versions) that lead nowhere and are old enough, as are their documents."""
        before = self._before
        ids = list(dict.fromkeys(document for _, document in listed))
        documents = self._readable(ids)
        stray = [
            (fingerprint, document)
            for (fingerprint, document), version in listed.items()
            if version < before
            and document in documents
            and ((found := documents[document]) is None or found.version < before)
            and not (found and found.is_listed_under(fingerprint))
        ]
        written = last_written(self.store, {document: documents[document] for _, document in stray})
        old = [each for each in stray if written.get(each[1], 0) < before]
        # Writers may have removed both since the listing was read.
        there = self.store.records("fingerprints").get([rows.listing_key(*each) for each in old])
        return [each for each, cell in zip(old, there, strict=True) if cell is not None]

    def _readable(self, ids: Sequence[str]) -> dict[str, Known | None]:
        """Documents rows, without damaged ones: what belongs to these is judged when they are removed."""
        keys = list(map(rows.document_key, ids))
        cells = self.store.records("documents").get(keys)
        found: dict[str, Known | None] = {}
        for document, key, cell in zip(ids, keys, cells, strict=True):
            if cell is None:
                found[document] = None
            elif parsed := rows.parse_document(key, cell.value):
                found[document] = Known(parsed[1], cell.version)
        return found

    def _index_rows(self, found: IndexRows, report: CheckReport) -> None:
        keys, times = found.keys, found.times
        _, flags, values = decode(keys)
        distinct, place = np.unique(values, return_inverse=True)
        listed = first_listed(self.store, distinct.tolist())
        sketches = [each or b"" for each in listed]
        size = self.scheme.listed_sketching.bytes if self.scheme.listed_sketching else 0
        sketched = np.array([len(sketch) == size for sketch in sketches], dtype=np.bool_)
        fingerprints = batch_of(
            list(zip(distinct.tolist(), sketches, strict=True)), self.scheme.listed_sketching
        )
        position = np.cumsum(sketched) - 1
        # Without its sketch, the rows of a fingerprint cannot be verified.
        told = np.flatnonzero(sketched[place])
        wrong = np.zeros(len(keys), dtype=np.bool_)
        wrong[told] = ~self._expected(flags[told], fingerprints[position[place[told]]], keys[told])
        empty = np.array([each is None for each in listed], dtype=np.bool_)
        stray = ~wrong & empty[place] & (times < self._before)
        stray[stray] = self._still_empty(values[stray]) & self._still_there(keys[stray])
        self._note(report, WRONG_ROW, [key.tobytes().hex() for key in keys[wrong]])
        self._note(report, STRAY_ROW, [f"{value:016x}" for value in values[stray].tolist()])
        report.removable["index"] += int(np.count_nonzero(wrong) + np.count_nonzero(stray))
        going = wrong | stray
        if self.repair and going.any():
            self.store.drawers.remove(keys[going], times[going])

    def _still_empty(self, fingerprints: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which fingerprints list no documents, read after their index rows."""
        distinct, place = np.unique(fingerprints, return_inverse=True)
        listed = first_listed(self.store, distinct.tolist())
        return np.array([each is None for each in listed], dtype=np.bool_)[place]

    def _still_there(self, keys: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Which index rows are there still: writers may have removed them with their listings."""
        return self.store.drawers.times(keys[:, np.newaxis])[:, 0] >= 0

    def _expected(
        self, flags: NDArray[np.uint8], fingerprints: FingerprintBatch, keys: NDArray[np.uint8]
    ) -> NDArray[np.bool_]:
        """Which keys are among those that the scheme gives their fingerprints."""
        is_flag = (flags >= 1) & (flags <= self.scheme.tables)
        made = self.scheme.keys(fingerprints)[np.arange(len(keys)), np.where(is_flag, flags, 1) - 1]
        right: NDArray[np.bool_] = is_flag & np.logical_and.reduce(made == keys, axis=1)
        return right


def _sketches(names: Iterable[str], keys: Iterable[bytes], cells: Iterable[Cell | None]) -> dict[str, bytes]:
    """The sketches in listings, by document; b"" if there is none, or it is damaged."""
    return {
        name: rows.usable_sketch(key, cell.value) if cell else b""
        for name, key, cell in zip(names, keys, cells, strict=True)
    }


def _is_stored(key: bytes, cells: NamedCells, fingerprint: int) -> bool:
    """True if a documents row holds a live document with this fingerprint, whose listing is needed."""
    found = rows.parse_document(key, cells[b""].value) if b"" in cells else None
    return found is not None and found[1].stored and found[1].fingerprint == fingerprint
