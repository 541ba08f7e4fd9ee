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
from simhbase.jobs.source_report import Given, SourceReport, most_repeated

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
    `against`; groups: groups of two or more. unreadable_sources: files and folders that could not be read;
    unusable_sources: files of at least 10 records, of which fewer than a tenth could be used.
    sources: the given files and folders in input order (if more than 100, those with the most duplicates).
    largest: the five largest groups. counts: rejected records and unreadable sources, by kind; if nothing
    could be read (`counts.nothing_read`), the command fails.
    """

    documents: int
    unique: int
    duplicates: int
    duplicates_of_stored: int
    groups: int
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
        groups=grouped.count,
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
