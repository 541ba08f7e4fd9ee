"""Counts by source: the files and folders given as inputs, or each file or folder of these."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import groupby
from operator import add, attrgetter, itemgetter
from pathlib import Path

from simhbase.corpus.inputs import Inputs
from simhbase.corpus.paths import local_path
from simhbase.corpus.record import Record, Reject, SourceReject
from simhbase.corpus.remote import public_name

SourceTally = tuple[int, ...]  # usable documents, duplicates, rejects, unreadable sources
NO_TALLY: SourceTally = (0, 0, 0, 0)
GIVEN_SOURCES, SOURCES = 100, 1000  # listed at most: of those given; of files or folders
EMPTIED = 0.9  # share of a source's documents: more likely due to wrong matches than to real duplicates
EMPTIED_FROM = 100  # documents
GATHERED_FROM = 20  # documents of a source: of fewer, half are soon alike
COUNTED = 16  # documents that stand for others, of a source


@dataclass(frozen=True, slots=True)
class SourceReport:
    """Counts of one source: a file or folder.

    documents: including rejected ones; duplicates: documents whose representative is another, in any source;
    removed: their share of those that were not rejected, 0 to 1; rejected: rejected records; unreadable:
    files and folders that could not be read.
    """

    source: str
    documents: int
    duplicates: int
    removed: float
    rejected: int
    unreadable: int

    @classmethod
    def of(cls, source: str, usable: int, duplicates: int, rejected: int, unreadable: int) -> SourceReport:
        removed = round(duplicates / max(usable, 1), 4)
        return cls(source, usable + rejected, duplicates, removed, rejected, unreadable)

    @property
    def weight(self) -> int:
        """The more, the more somebody should look at the source."""
        return self.duplicates + self.rejected + self.unreadable


class SourceNames:
    """Finds the source that a file belongs to: itself, its folder, or the given file or folder."""

    def __init__(self, inputs: Inputs) -> None:
        self._by, given = inputs.by_source, inputs.paths
        self.are_files = self._by == "file"
        self.most = GIVEN_SOURCES if self._by is None else SOURCES
        local = [str(Path(path)) for path in map(local_path, given) if path and os.path.isdir(path)]  # noqa: PTH112  # never raises
        # A URL with files below it is a folder.
        self._folders = [*local, *(public_name(each) for each in given if local_path(each) is None)]

    def runs(self, items: Iterable[Record | Reject]) -> Iterator[tuple[str, list[Record | Reject]]]:
        """Runs of adjacent items of one source."""
        for file, some in groupby(items, attrgetter("source")):
            yield self._of(file), list(some)

    def _of(self, file: str) -> str:
        if self._by == "file":
            return file
        if self._by == "folder":
            return file.rpartition("/")[0] or "."
        path = Path(file)
        return next((folder for folder in self._folders if path.is_relative_to(folder)), file)


@dataclass
class SourceCounts:
    """Counts by source in input order, of a bounded number of sources: of more, those with the least
    weight are left out."""

    names: SourceNames
    _counts: dict[str, SourceTally] = field(default_factory=dict)

    def of(self, items: Sequence[Record | Reject], duplicates: Iterable[bool]) -> dict[str, SourceTally]:
        """Counts of some items, which are not added. duplicates: for each record, True if it is one."""
        is_duplicate, counts = iter(duplicates), dict[str, SourceTally]()
        for source, run in self.names.runs(items):
            documents = sum(isinstance(item, Record) for item in run)
            unreadable = sum(isinstance(item, SourceReject) for item in run)
            removed = sum(next(is_duplicate) for _ in range(documents))
            found = documents, removed, len(run) - documents - unreadable, unreadable
            counts[source] = tuple(map(add, counts.get(source, NO_TALLY), found))
        return counts

    def add(self, counts: Mapping[str, Sequence[int]]) -> None:
        for source, tally in counts.items():
            self._counts[source] = tuple(map(add, self._counts.get(source, NO_TALLY), tally))
        if len(self._counts) > 2 * self.names.most:
            *before, (last, tally) = self._counts.items()  # more of the last one may come
            kept = weightiest((SourceReport.of(source, *each) for source, each in before), self.names.most)
            self._counts = {each.source: self._counts[each.source] for each in kept} | {last: tally}

    def reports(self) -> tuple[SourceReport, ...]:
        reports = (SourceReport.of(source, *counts) for source, counts in self._counts.items())
        return weightiest(reports, self.names.most)


class Gathered:
    """Finds sources of which one document stands for more than half, in bounded memory for each.

    Counts may be too low by 1 in COUNTED + 1 documents (Misra, Gries: Finding repeated elements, 1982), so
    not every such source is found, and each that is found is one.
    """

    def __init__(self, inputs: Inputs) -> None:
        self._names = SourceNames(inputs)
        self._documents: dict[str, int] = {}
        self._taken: dict[str, dict[str, tuple[int, str]]] = {}  # number of documents, and one of them

    def add(self, items: Iterable[Record | Reject], kept: Iterable[str | None]) -> None:
        """Add documents. kept: for each record the document that stands for it, None for itself."""
        stands = iter(kept)
        for source, run in self._names.runs(items):
            taken = self._taken.setdefault(source, {})
            records = [item for item in run if isinstance(item, Record)]
            self._documents[source] = self._documents.get(source, 0) + len(records)
            for record in records:
                one = next(stands)
                if one is not None:
                    _note(taken, one, record.id)

    def warnings(self) -> list[str]:
        return [
            warning_of_gathered(source, documents, count, kept, example)
            for source, documents in self._documents.items()
            for kept, (count, example) in self._taken[source].items()
            if documents >= GATHERED_FROM and 2 * count > documents
        ]


def warning_of_gathered(source: str, documents: int, taken: int, kept: str, example: str) -> str:
    """A warning that one document stands for most of a source."""
    return (
        f"{source}: {taken:,} of its {documents:,} documents are near-duplicates of {kept}, such as "
        f"{example}. Compare these two before you discard them"
    )


def _note(taken: dict[str, tuple[int, str]], kept: str, document: str) -> None:
    count, example = taken.get(kept, (0, document))
    if kept in taken or len(taken) < COUNTED:
        taken[kept] = count + 1, example
        return
    for each, (count, example) in list(taken.items()):
        if count == 1:
            del taken[each]
        else:
            taken[each] = count - 1, example


def weightiest(sources: Iterable[SourceReport], most: int) -> tuple[SourceReport, ...]:
    """The sources with the greatest weight, in input order."""
    reports = tuple(sources)
    if len(reports) <= most:
        return reports
    found = nlargest(most, enumerate(reports), key=lambda each: (each[1].weight, -each[0]))
    return tuple(report for _, report in sorted(found, key=itemgetter(0)))


def warnings_of(sources: Iterable[SourceReport]) -> list[str]:
    """Warnings about sources that are nearly all duplicates."""
    return [
        f"{each.source}: {each.removed:.1%} of its {usable:,} documents are duplicates. Check some "
        "before you discard them"
        for each in sources
        if (usable := each.documents - each.rejected) >= EMPTIED_FROM and each.removed > EMPTIED
    ]
