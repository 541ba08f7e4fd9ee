"""Loads documents into HBase as HFiles (`simhbase/stores/hbase/hfiles.py`).

Documents are spooled to disk. At the end, or when there are many, `Writer.plan` says what a commit of them
would write, with one version for all: stored documents that did not change are skipped, and obsolete hints
are noted. A document that is stored with a later version (written by a clock that is ahead) is written
through the gateway. Files of tables are loaded in the order of a commit (`HBaseStore.commit`): documents rows
when all hints have been found in their tables, so an interrupted load only leaves hints without documents.

Index rows have the server's time when they were planned. Vacuum may remove rows after its grace time of at
least four hours, also while they are being loaded. So rows older than half of that are not loaded; this
allows for clocks that differ by an hour each.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self, cast

import numpy as np
import orjson

from simhbase.admin.vacuum import LEAST_GRACE
from simhbase.drawers.rowkeys import KEY_BYTES
from simhbase.errors import StoreFailed
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index
from simhbase.index.rows import document_id
from simhbase.index.tags import Tags
from simhbase.index.writer import DocumentBatch, Writer, known
from simhbase.loads.hfiles_unique import UniqueDocuments
from simhbase.model.values import AddReport
from simhbase.stores.base import Changes, Columns, Store
from simhbase.stores.hbase import HBaseStore
from simhbase.stores.hbase.hfiles import HFiles, TableRows, buckets_for, even_borders, sampled_borders
from simhbase.stores.hbase.schema import INDEX
from simhbase.stores.hbase.tools import hbase_command
from simhbase.stores.hbase.workfolder import WorkFolder, writing
from simhbase.stores.strings import Strings

ROUND = 20_000_000  # documents loaded together: each takes up to 1 kB of disk
PLANNED_AT_ONCE = 32_768  # documents whose rows are planned together
MOST_AGE = LEAST_GRACE // 2  # seconds
SAMPLED_STEP = 256  # one of this many documents is sampled for the distribution of fingerprints
SAMPLED = 100  # documents of a round that are looked up afterwards
IF_SLOW = "Run the same command again; if it takes as long, with fewer documents at a time"
TABLES = ("obsolete", "fingerprints", INDEX, "documents")  # in the order in which they are loaded


class HFileLoad:
    """Spools documents, and loads them in rounds.

    work_folder, name: see WorkFolder; alive: called at least every second; note: receives messages. Starts
    HBase's tools on entry: raises UsageError if they are missing, StoreFailed if the folder cannot be
    written.
    """

    def __init__(
        self,
        index: Index,
        work_folder: str | Path | None,
        name: str,
        alive: Callable[[], object],
        note: Callable[[str], object],
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._index = index
        index.require_no_scopes("HFiles")
        self._store = cast(HBaseStore, index.store)
        self._alive = alive
        self._note = note
        self._writer = Writer(index.store, index.profile.index_scheme, clock or index.store.now)
        command = hbase_command()
        place = hashlib.blake2b(f"{index.store.url} {name}".encode(), digest_size=8).hexdigest()
        self._folder = WorkFolder(None if work_folder is None else str(work_folder), f"simhbase-load-{place}")
        self._hfiles = HFiles(self._store, command, self._folder, alive, note)
        self._spooled = _SpooledDocuments(self._folder.local)

    @property
    def folder(self) -> Path:
        return self._folder.local

    def __enter__(self) -> Self:
        try:
            self._hfiles.start()
        except BaseException as error:
            self._close(error)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._hfiles.finish()
        finally:
            self._close(error)

    def _close(self, error: BaseException | None) -> None:
        self._hfiles.close()
        self._spooled.close()
        self._folder.close(keeping_log=isinstance(error, StoreFailed))

    def append(self, documents: DocumentBatch) -> None:
        """Spool n documents with valid and distinct ids and valid tags. Raises UsageError if HBase's tools do
        not work with this store, as soon as this is known."""
        self._hfiles.require_tools(wait=False)
        self._spooled.append(documents)

    @property
    def is_full(self) -> bool:
        """True if it is time to load the spooled documents."""
        return self._spooled.count >= ROUND

    def hand_over(
        self,
        unique: UniqueDocuments | None = None,
        note_version: Callable[[int], object] = lambda version: None,
    ) -> AddReport:
        """Load all spooled documents into the store.

        unique: has chosen these documents, and resolves conflicts with claims of others meanwhile;
        note_version: called with the version of these documents before any is loaded. Raises StoreFailed if
        loading fails or takes too long to be safe (documents loaded by then do no harm), or if others have
        stored near documents meanwhile, so that some documents were removed again.
        """
        if not self._spooled.count:
            return AddReport()
        self._note(f"loading {self._spooled.count:,} documents into HBase as HFiles")
        version, begun, lost = self._writer.version(), self._writer.clock(), 0
        with ExitStack() as stack:
            rows = {
                table: stack.enter_context(closing(each)) for table, each in self._no_rows(version).items()
            }
            report, samples = self._planned(rows, version)
            note_version(version)
            handover = Handover(self._index, version, begun, IF_SLOW, self._writer.clock)
            for each in rows.values():
                self._hfiles.hand_over(each, handover.require_fresh)
            handover.look_up(samples)
            if unique is not None:
                for batch in self._spooled.batches():
                    lost += unique.settle(batch, version)
                    self._alive()
        if lost:
            raise StoreFailed(
                f"{lost:,} documents are near others that were stored or claimed while these were loaded, "
                "and were removed: run the same command again, which lists them as duplicates"
            )
        self._spooled.clear()
        return report

    def _no_rows(self, version: int) -> dict[str, TableRows]:
        """Files for the rows of each table. The borders of their sorting buckets are sampled, because
        fingerprints of real texts are not uniformly distributed."""
        sample, documents, scheme = self._spooled.sample, self._spooled.count, self._writer.scheme
        keys = Strings.rows_of(scheme.keys(sample).reshape(-1, KEY_BYTES))
        buckets, index_buckets = buckets_for(documents), buckets_for(documents * scheme.tables)
        borders = {
            "obsolete": even_borders(buckets),
            "fingerprints": sampled_borders(sample.values, buckets),
            INDEX: sampled_borders(keys.words(0), index_buckets),
            "documents": even_borders(buckets),
        }
        time = self._store.server_time()
        return {
            table: self._hfiles.rows(table, time if table == INDEX else version, borders[table])
            for table in TABLES
        }

    def _planned(self, tables: Mapping[str, TableRows], version: int) -> tuple[AddReport, list[str]]:
        """Write all rows to files. Returns the counts of documents, and some ids."""
        has_documents = holds_documents(self._store)
        report, samples = AddReport(), list[str]()
        for batch in self._spooled.batches():
            changes, added = self._writer.plan(batch, version, has_documents=has_documents)
            for table, (keys, values) in rows_of(changes).items():
                tables[table].put(keys, values)
            written = changes.put["documents"][0]
            some = random.sample(range(len(written)), min(len(written), SAMPLED))
            samples += [document_id(written[number]) for number in some]
            report += added
            self._alive()
        return report, samples


def holds_documents(store: Store) -> bool:
    """True if the store has documents. If not, a load need not look up each of its documents."""
    return any(map(len, store.records("documents").iterate()))


def rows_of(changes: Changes) -> Mapping[str, Columns]:
    """All rows that a commit would put, by table."""
    keys = Strings.rows_of(changes.index.reshape(-1, KEY_BYTES))
    return dict[str, Columns](changes.put.items()) | {INDEX: (keys, Strings.empty(len(keys)))}


@dataclass(frozen=True)
class Handover:
    """Checks before and after loading rows. version: of their documents; begun: when writing the rows began,
    in milliseconds since 1970; if_old: what to do if this is too long ago."""

    index: Index
    version: int
    begun: int
    if_old: str
    clock: Callable[[], int]

    def require_fresh(self) -> None:
        """Raise StoreFailed if vacuum might remove the rows because of their age, ProfileMismatch or
        TablesMissing if they were written for other tables."""
        if (age := self.clock() - self.begun) > MOST_AGE * 1000:
            raise StoreFailed(
                f"the rows of this load were written {age / 3_600_000:.1f} hours ago: vacuum might remove "
                f"them while they are loaded. Rows loaded so far do no harm. {self.if_old}"
            )
        self.index.require_own_tables()

    def look_up(self, samples: Sequence[str]) -> None:
        """Raise StoreFailed if lookups do not find some of the documents."""
        ids = random.sample(samples, min(len(samples), SAMPLED))
        lookups = zip(ids, self.index.find_ids(ids), strict=True)
        lost = [
            document
            for document, found in lookups
            if not found.truncated and document not in (match.id for match in found.matches)
        ]
        # Others may have deleted or changed one meanwhile.
        lost = [
            document
            for document, each in zip(lost, known(self.index.store, lost), strict=True)
            if each is None or each.version == self.version
        ]
        if lost:
            raise StoreFailed(
                f"lookups do not find {len(lost)} of {len(ids)} documents that were loaded, "
                f"such as {lost[0]!r}: run simhbase check"
            )


class _SpooledDocuments:
    """Documents on disk, in input order. Raises StoreFailed if the disk is full."""

    def __init__(self, folder: Path) -> None:
        self.count = 0
        self._sampled: list[FingerprintBatch] = []
        self._folder = folder
        with writing(folder):
            self._file = (folder / "documents").open("w+b")

    def append(self, documents: DocumentBatch) -> None:
        encoded = [document.encode() for document in documents.ids]
        sizes = np.fromiter(map(len, encoded), np.uint16, len(encoded))
        joined = np.frombuffer(b"".join(encoded), np.uint8)
        tagged = np.frombuffer(orjson.dumps(documents.tags), np.uint8)
        fingerprints = documents.fingerprints
        with writing(self._folder):
            for array in (sizes, joined, fingerprints.values, fingerprints.sketches, tagged):
                np.save(self._file, array, allow_pickle=False)
        self.count += len(encoded)
        self._sampled.append(fingerprints[::SAMPLED_STEP])

    @property
    def sample(self) -> FingerprintBatch:
        return FingerprintBatch.joined(self._sampled)

    def batches(self) -> Iterator[DocumentBatch]:
        """All documents, in batches of PLANNED_AT_ONCE or a few more."""
        ids: list[str] = []
        parts: list[FingerprintBatch] = []
        tags: list[Tags] = []
        left = self.count
        self._file.seek(0)
        while left:
            sizes, joined, values, sketches, tagged = (np.load(self._file) for _ in range(5))
            ends = np.cumsum(sizes, dtype=np.int64).tolist()
            content = joined.tobytes()
            ids += [content[start:end].decode() for start, end in pairwise([0, *ends])]
            parts.append(FingerprintBatch(values, sketches))
            each_tags = orjson.loads(tagged.tobytes())
            untagged: list[Tags] = [()] * len(sizes)
            tags += untagged if each_tags is None else [tuple(map(tuple, each)) for each in each_tags]
            left -= len(sizes)
            if len(ids) >= PLANNED_AT_ONCE or not left:
                yield DocumentBatch(ids, FingerprintBatch.joined(parts), tags if any(tags) else None)
                ids, parts, tags = [], [], []

    def clear(self) -> None:
        with writing(self._folder):
            self._file.seek(0)
            self._file.truncate()
        self.count = 0
        self._sampled = []

    def close(self) -> None:
        self._file.close()
