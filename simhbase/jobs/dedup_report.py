"""The report of dedup: counts of all documents, of sources, and of the largest groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simhbase.corpus.record import Record
from simhbase.corpus.rejects import Counts
from simhbase.jobs.groups import Groups
from simhbase.jobs.pipeline import Batch
from simhbase.jobs.source_report import (
    GATHERED_FROM,
    Given,
    SourceReport,
    most_repeated,
    warning_of_gathered,
)
from simhbase.text.difference import REPEATS_ITSELF

LARGEST = 5  # groups listed


@dataclass(frozen=True, slots=True)
class GroupSize:
    """Size of a group. group: id of its first document; documents: their number."""

    group: str
    documents: int


@dataclass(frozen=True)
class DedupReport:
    """Result of `dedup`.

    documents: all documents read, including rejected ones; unique: documents kept (one per group, and those
    in no group); duplicates: the others; duplicates_of_stored: those that match a stored document, with
    `against`; group_count: number of groups of two or more. unreadable_sources: files and folders that could
    not be read; unusable_sources: files of at least 10 records, of which fewer than a tenth could be used.
    sources: the given files and folders in input order (if more than 100, those with the most duplicates).
    largest: the five largest groups. counts: rejected records and unreadable sources, by kind; if nothing
    could be read (`counts.nothing_read`), the command fails.
    """

    documents: int
    unique: int
    duplicates: int
    duplicates_of_stored: int
    group_count: int
    rejected: int
    unreadable_sources: int
    unusable_sources: tuple[str, ...]
    seconds: float
    sources: tuple[SourceReport, ...]
    largest: tuple[GroupSize, ...]
    counts: Counts


class SourcesRead:
    """Remembers the source of each document. Takes two numbers per run of documents from one source."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._given = Given(paths)
        self._numbers: dict[str, int] = {}
        self._rejected: list[int] = []  # of each source
        self._runs: list[tuple[int, int]] = []  # number of a source, number of documents in a row from it

    def append(self, batch: Batch) -> None:
        for source, run in self._given.runs(batch.items):
            number = self._numbers.setdefault(source, len(self._numbers))
            documents = sum(isinstance(item, Record) for item in run)
            if number == len(self._rejected):
                self._rejected.append(0)
            self._rejected[number] += len(run) - documents
            before = self._runs.pop()[1] if self._runs and self._runs[-1][0] == number else 0
            self._runs.append((number, before + documents))

    def gathered(self, grouped: Groups, free: NDArray[np.bool_]) -> list[tuple[str, int, int, int, int]]:
        """Sources of which one document stands for more than half: source, number of its documents, those
        that the document stands for, its position, and the position of one of them. free: bool (n,), which
        of all documents were grouped."""
        runs = np.array(self._runs, dtype=np.int64).reshape(-1, 2)
        of_document = np.repeat(runs[:, 0], runs[:, 1])
        documents = np.bincount(of_document, minlength=len(self._numbers))
        others = np.flatnonzero(~grouped.unique)
        source = of_document[free][others]
        n = len(grouped.unique)
        pairs, first, counts = np.unique(
            source * n + grouped.representative[others], return_index=True, return_counts=True
        )
        names = list(self._numbers)
        return [
            (names[pair // n], int(documents[pair // n]), count, pair % n, int(others[at]))
            for pair, at, count in zip(pairs.tolist(), first.tolist(), counts.tolist(), strict=True)
            if documents[pair // n] >= GATHERED_FROM and 2 * count > documents[pair // n]
        ]

    def reports(self, unique: NDArray[np.bool_]) -> list[SourceReport]:
        """Reports by source, in input order. unique: bool (n,), documents that are kept."""
        runs = [run for run in self._runs if run[1]]
        number, size = np.array(runs, dtype=np.int64).reshape(-1, 2).T
        fewer = np.add.reduceat(~unique, np.cumsum(size) - size, dtype=np.int64) if len(size) else size
        documents, duplicates = np.zeros((2, len(self._numbers)), dtype=np.int64)
        np.add.at(documents, number, size)
        np.add.at(duplicates, number, fewer)
        columns = (documents.tolist(), duplicates.tolist(), self._rejected)
        return list(map(SourceReport.of, self._numbers, *columns))


def warnings_about(
    grouped: Groups,
    sources: Sequence[tuple[str, int, int, int, int]],
    ids: Callable[[Sequence[int]], list[str]],
    repeats: Callable[[int], bool],
) -> list[str]:
    """Warnings about sources of which one document stands for most, and about large groups of texts whose
    similarity says little. sources: as in `SourcesRead.gathered`; ids: as in `report_of`; repeats: True for
    a document that repeats itself."""
    said = []
    for source, documents, taken, kept, example in sources:
        one, other = ids([example, kept])
        said.append(warning_of_gathered(source, documents, taken, other, one) + _little(repeats(kept)))
    named = {kept for _, _, _, kept, _ in sources}
    sizes = np.bincount(grouped.representative)
    largest = np.argsort(-sizes, kind="stable")[:LARGEST]
    for kept in largest[sizes[largest] > 1].tolist():
        if kept not in named and repeats(kept):
            (name,) = ids([kept])
            said.append(f"the group of {name} has {sizes[kept]:,} documents" + _little(True))
    return said


def _little(is_repetitive: bool) -> str:
    return f": {REPEATS_ITSELF}" if is_repetitive else ""


def report_of(
    grouped: Groups,
    counts: Counts,
    sources: Sequence[SourceReport],
    ids: Callable[[Sequence[int]], list[str]],
    *,
    duplicates_of_stored: int,
    seconds: float,
) -> DedupReport:
    """Create the report. ids: returns the ids of documents by position."""
    kept = int(np.count_nonzero(grouped.unique))
    return DedupReport(
        documents=len(grouped.unique) + duplicates_of_stored + counts.rejected,
        unique=kept,
        duplicates=len(grouped.unique) + duplicates_of_stored - kept,
        duplicates_of_stored=duplicates_of_stored,
        group_count=grouped.count,
        rejected=counts.rejected,
        unreadable_sources=counts.unreadable_sources,
        unusable_sources=counts.unusable_sources,
        seconds=round(seconds, 3),
        sources=most_repeated(sources),
        largest=_largest(grouped, ids),
        counts=counts,
    )


def _largest(grouped: Groups, ids: Callable[[Sequence[int]], list[str]]) -> tuple[GroupSize, ...]:
    sizes = np.bincount(grouped.first)
    largest = np.argsort(-sizes, kind="stable")[:LARGEST]
    largest = largest[sizes[largest] > 1]
    return tuple(map(GroupSize, ids(largest.tolist()), sizes[largest].tolist()))
