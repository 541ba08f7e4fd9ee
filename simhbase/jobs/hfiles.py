"""The documents of a load into HBase as files of its own (`simhbase/stores/hbase/hfiles.py`).

They are put aside on disk until there are many, or no more. Then their rows are made as the writer makes them
(`HintingWriter`), with one version for all: what is stored already is passed over, and what a document leaves
behind goes to obsolete. The hints are handed over first, and the documents' own rows when all hints have been
found in their tables: a load that is stopped leaves hints that lead nowhere. A document whose row has a later
version than that, by a clock that is ahead, is written the usual way.

Rows of the index have the time of a server when the rows are made. Vacuum takes versions and times for old
after its grace time, four hours at least, and might remove what is handed over then while it comes. So
nothing is handed over that is older than half of that: clocks may differ by an hour each.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self, cast

import numpy as np
import orjson
from numpy.typing import NDArray

from simhbase.admin.vacuum import LEAST_GRACE
from simhbase.drawers.rowkeys import KEY_BYTES
from simhbase.drawers.scheme import Scheme
from simhbase.errors import StoreFailed
from simhbase.fingerprint.batch import FingerprintBatch
from simhbase.index import Index
from simhbase.index.tags import Tags
from simhbase.index.writer import DocumentBatch, HintingWriter, Step, known
from simhbase.jobs.hfiles_unique import UniqueDocuments
from simhbase.model import AddReport
from simhbase.stores.base import Store
from simhbase.stores.hbase import HBaseStore
from simhbase.stores.hbase.hfiles import HFiles, buckets_for, even_borders, sampled_borders
from simhbase.stores.hbase.schema import INDEX
from simhbase.stores.hbase.tools import hbase_command
from simhbase.stores.hbase.workfolder import WorkFolder, writing
from simhbase.stores.strings import Strings

ROUND = 20_000_000  # documents handed over together: each takes up to 1 kB of disk
PLANNED_AT_ONCE = 32_768  # documents whose rows are made together
MOST_AGE = LEAST_GRACE // 2  # seconds
SAMPLED_STEP = 256  # one of so many documents tells how fingerprints are spread
SAMPLED = 100  # documents of a round that are looked up afterwards
IF_SLOW = "Run the same command again; if it is as slow, with fewer documents at a time"
TABLES = ("obsolete", "fingerprints", INDEX, "documents")  # in the order in which they are handed over


class HFileLoad:
    """Takes documents, and hands them over in rounds.

    work_folder, name: see WorkFolder; alive: is called every second or more often; note: with what a person
    should know. Entered, it starts HBase's tools: raises UsageError where there are none, StoreFailed where
    the folder cannot be written.
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
        self._store = cast(HBaseStore, index.store)
        self._alive = alive
        self._note = note
        self._writer = HintingWriter(index.store, index.profile.index_scheme, clock or index.store.now)
        command = hbase_command()
        place = hashlib.blake2b(f"{index.store.url} {name}".encode(), digest_size=8).hexdigest()
        self._folder = WorkFolder(None if work_folder is None else str(work_folder), f"simhbase-load-{place}")
        self._hfiles = HFiles(self._store, command, self._folder, alive, note)
        self._aside = _Aside(self._folder.local)

    @property
    def folder(self) -> Path:
        """Where it keeps its files."""
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
        self._aside.close()
        self._folder.close(keeping_log=isinstance(error, StoreFailed))

    def put_aside(
        self, ids: Sequence[str], fingerprints: FingerprintBatch, tags: Sequence[Tags] | None = None
    ) -> None:
        """Takes n documents with valid ids, all different, and valid tags. Raises UsageError where HBase's
        tools do not work on this store, as soon as they have started."""
        self._hfiles.require_tools(wait=False)
        self._aside.put(ids, fingerprints, tags)

    @property
    def is_full(self) -> bool:
        """Whether it is time to hand over what was put aside."""
        return self._aside.count >= ROUND

    def hand_over(
        self,
        unique: UniqueDocuments | None = None,
        note_version: Callable[[int], object] = lambda version: None,
    ) -> AddReport:
        """What was put aside is in the store when it returns.

        unique: what has chosen it, and settles it with what others have claimed meanwhile; note_version: is
        told the version of these documents before any of them is loaded. Raises StoreFailed where it fails,
        or takes so long that it would be dangerous; what was loaded until then does no harm. Also where
        others have stored something near, and some documents were not kept after all.
        """
        if not self._aside.count:
            return AddReport()
        self._note(f"{self._aside.count:,} documents are handed to HBase as HFiles")
        with closing(_Round(self._index, self._hfiles, self._writer, self._aside)) as current:
            report = current.write(self._alive)
            note_version(current.version)
            current.hand_over()
            lost = 0
            if unique is not None:
                for batch in self._aside.batches():
                    lost += unique.settle(batch, current.version)
                    self._alive()
        if lost:
            raise StoreFailed(
                f"{lost:,} documents are near others that were stored or claimed while these were loaded, "
                "and were removed again: run the same command again, which lists them as duplicates"
            )
        self._aside.clear()
        return report


def holds_documents(store: Store) -> bool:
    """Whether there is any: a first load asks nobody for each of its documents."""
    return any(map(len, store.records("documents").iterate()))


class _Round:
    """Rows of documents that are handed over together."""

    def __init__(self, index: Index, hfiles: HFiles, writer: HintingWriter, aside: _Aside) -> None:
        self._index = index
        self._hfiles = hfiles
        self._writer = writer
        self._aside = aside
        self.version = writer.version()
        self._begun = writer.clock()
        self._scheme = index.profile.index_scheme
        server_time = cast(HBaseStore, index.store).server_time()
        borders = self._borders()
        self._rows = {
            table: hfiles.rows(table, server_time if table == INDEX else self.version, borders[table])
            for table in TABLES
        }
        self._samples: list[str] = []

    def _borders(self) -> Mapping[str, NDArray[np.uint64]]:
        """Where buckets end. Fingerprints of real texts are not spread evenly."""
        sample, documents = self._aside.sample, self._aside.count
        keys = Strings.rows_of(self._scheme.keys(sample).reshape(-1, KEY_BYTES))
        buckets, index_buckets = buckets_for(documents), buckets_for(documents * self._scheme.tables)
        return {
            "obsolete": even_borders(buckets),
            "fingerprints": sampled_borders(sample.values, buckets),
            INDEX: sampled_borders(keys.words(0), index_buckets),
            "documents": even_borders(buckets),
        }

    def close(self) -> None:
        """Removes the files of rows."""
        for rows in self._rows.values():
            rows.close()

    def write(self, alive: Callable[[], object]) -> AddReport:
        """Puts the rows of documents aside; what will have become of them."""
        has_documents = holds_documents(self._index.store)
        report = AddReport()
        for batch in self._aside.batches():
            plan = self._writer.plan(batch, self.version, has_documents=has_documents)
            for step in plan.steps:
                if step.version == self.version:
                    for table, (rows, values) in rows_of(step, self._scheme).items():
                        self._rows[table].put(rows, values)
                    ids = step.batch.ids
                    self._samples += random.sample(ids, min(len(ids), SAMPLED))
                else:
                    self._writer.put(step)
            report += plan.report
            alive()
        return report

    def hand_over(self) -> None:
        """All of it is in the store when it returns."""
        handover = Handover(self._index, self.version, self._begun, IF_SLOW, self._writer.clock)
        for rows in self._rows.values():
            self._hfiles.hand_over(rows, handover.require_fresh)
        handover.look_up(self._samples)


def rows_of(step: Step, scheme: Scheme) -> Mapping[str, tuple[Strings, Strings]]:
    """What each table gets of a step: rows and their values."""
    batch = step.batch
    obsolete = Strings.of([key for key, _ in step.obsolete_rows()])
    index_keys = Strings.rows_of(batch.index_keys(scheme).reshape(-1, KEY_BYTES))
    return {
        "obsolete": (obsolete, Strings.empty(len(obsolete))),
        "fingerprints": batch.listing_rows(scheme),
        INDEX: (index_keys, Strings.empty(len(index_keys))),
        "documents": batch.document_rows(scheme),
    }


@dataclass(frozen=True)
class Handover:
    """What is looked at before rows are loaded, and afterwards. version: of their documents; begun: when the
    making of these rows did, in milliseconds since 1970; if_old: what to do where that is too long ago."""

    index: Index
    version: int
    begun: int
    if_old: str
    clock: Callable[[], int]

    def require_fresh(self) -> None:
        """Raises StoreFailed where vacuum might take the rows for old, ProfileMismatch and TablesMissing
        where they were made for other tables."""
        if (age := self.clock() - self.begun) > MOST_AGE * 1000:
            raise StoreFailed(
                f"the rows of this load were made {age / 3_600_000:.1f} hours ago: vacuum might remove what "
                f"is loaded now. What was loaded does no harm. {self.if_old}"
            )
        self.index.require_own_tables()

    def look_up(self, samples: Sequence[str]) -> None:
        """Raises StoreFailed where lookups do not find some of the documents."""
        ids = random.sample(samples, min(len(samples), SAMPLED))
        lookups = zip(ids, self.index.find_ids(ids), strict=True)
        lost = [
            document
            for document, found in lookups
            if not found.truncated and document not in (match.id for match in found.matches)
        ]
        # Somebody may have deleted or moved one meanwhile.
        lost = [
            document
            for document, each in zip(lost, known(self.index.store, lost), strict=True)
            if each is None or each.version == self.version
        ]
        if lost:
            raise StoreFailed(
                f"lookups do not find {len(lost)} of {len(ids)} documents that were loaded, "
                f"{lost[0]!r} among them: simhbase check says more"
            )


class _Aside:
    """Documents on disk, in the order they came. Raises StoreFailed where the disk is full."""

    def __init__(self, folder: Path) -> None:
        self.count = 0
        self._sampled: list[FingerprintBatch] = []
        self._folder = folder
        with writing(folder):
            self._file = (folder / "documents").open("w+b")

    def put(self, ids: Sequence[str], fingerprints: FingerprintBatch, tags: Sequence[Tags] | None) -> None:
        encoded = [document.encode() for document in ids]
        sizes = np.fromiter(map(len, encoded), np.uint16, len(encoded))
        joined = np.frombuffer(b"".join(encoded), np.uint8)
        tagged = np.frombuffer(orjson.dumps(tags), np.uint8)
        with writing(self._folder):
            for array in (sizes, joined, fingerprints.values, fingerprints.sketches, tagged):
                np.save(self._file, array, allow_pickle=False)
        self.count += len(ids)
        self._sampled.append(fingerprints[::SAMPLED_STEP])

    @property
    def sample(self) -> FingerprintBatch:
        """Some of the fingerprints."""
        return FingerprintBatch.joined(self._sampled)

    def batches(self) -> Iterator[DocumentBatch]:
        """All of them, PLANNED_AT_ONCE or a few more together."""
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
        """Forgets them."""
        with writing(self._folder):
            self._file.seek(0)
            self._file.truncate()
        self.count = 0
        self._sampled = []

    def close(self) -> None:
        self._file.close()
